/** A state as a page: the third pane. An item is drawn again only if it has changed. */

import {
  attachments,
  imageUrl,
  responseText,
  toolStatus,
  truncated,
  usage,
  withheld,
  type Item,
  type MessageItem,
  type StreamState,
  type ToolItem,
} from "../src/index.js";
import { block, h, marked } from "./dom.js";
import { Message } from "./message.js";

const STATUSES = { running: "running", awaiting_approval: "needs your approval", waiting: "waits for this page", completed: "done", failed: "failed" };
export const ENDS = { completed: "Complete", refused: "Refused", cancelled: "Stopped", incomplete: "Incomplete", failed: "Failed" };
const NAMES: Record<string, string> = {
  web_search: "Search of the web",
  file_search: "Search in files",
  code_interpreter: "Code",
  image_generation: "Image",
};
/** What the states are called that a person has left open, where nothing can be done about them any more. */
const OPEN: Record<string, string> = { awaiting_approval: "asked for approval", waiting: "not run" };
const REASONS: Record<string, string> = { max_output_tokens: "the limit of tokens", content_filter: "the content filter" };

const places = (count: number): string => `${count} ${count === 1 ? "place" : "places"}`;

export interface Actions {
  approve(item: ToolItem): void;
  run(item: ToolItem): void;
  retry(): void;
}

/** Shows the states of one answer in an element. */
export class Answer {
  readonly element = h("div", { class: "answer" });
  private readonly drawn = new Map<string, { item: Item; status: string; node: HTMLElement }>();
  private readonly messages = new Map<string, Message>();
  private readonly last = h("div", { class: "end" });
  private readonly unsaid = h("p");
  private wasRemarked = false;

  /** Without actions it has no buttons. */
  constructor(private readonly actions?: Actions) {
    this.element.append(this.unsaid, this.last);
    this.last.textContent = "Connecting…";
  }

  /** Shows a state. */
  show(state: StreamState): void {
    let before: Element | null = null;
    for (const item of state.items) {
      const status = item.kind === "tool" ? toolStatus(item, state) : String(state.end !== undefined);
      const old = this.drawn.get(item.id);
      let node = old?.node;
      if (old === undefined || old.item !== item || old.status !== status) {
        node = item.kind === "message" ? this.message(item) : h("div", {}, ...this.partsOf(item, status, node));
        if (old === undefined) this.element.insertBefore(node, before === null ? this.element.firstChild : before.nextSibling);
        else if (old.node !== node) old.node.replaceWith(node);
        this.drawn.set(item.id, { item, status, node });
      }
      before = node ?? before;
    }
    const hasText = state.items.some((item) => item.kind === "message" && item.parts.some((part) => part.text !== ""));
    this.unsaid.textContent = hasText ? "" : responseText(state);
    if (!this.wasRemarked || state.end !== undefined) this.showEnd(state);
  }

  /** Adds a note about the whole answer. */
  note(text: string): void {
    this.element.insertBefore(h("p", { class: "legend" }, text), this.last);
  }

  /** Shows a remark about the connection in place of the status, with a button if there is a label for it. */
  remark(text: string, retry?: string): void {
    this.wasRemarked = true;
    this.last.classList.toggle("bad", retry !== undefined);
    this.last.replaceChildren(text, ...(retry === undefined ? [] : this.retry(retry)));
  }

  /** Shows the status again. */
  forgetRemark(): void {
    this.wasRemarked = false;
    this.last.classList.remove("bad");
  }

  private showEnd(state: StreamState): void {
    const { end, reason } = state;
    if (end === undefined) {
      this.last.replaceChildren(state.status === "idle" ? "Connecting…" : "Answering…");
      return;
    }
    const isBad = end.kind === "error" || end.final.status === "failed";
    this.last.classList.toggle("bad", isBad);
    const parts: (Node | string)[] = [];
    if (end.kind === "error") {
      parts.push(h("b", {}, "Failed"), `${end.error.message} (${end.error.code ?? end.error.source})`);
      parts.push(...this.retry(end.error.is_retryable ? "Try again" : "Ask again"));
    } else {
      parts.push(h("b", {}, ENDS[end.final.status]));
      if (reason !== undefined && end.final.status === "incomplete") parts.push(`because of ${REASONS[reason] ?? reason}`);
    }
    const used = usage(state);
    if (used?.total_tokens !== undefined) parts.push(`${used.input_tokens ?? 0} tokens in, ${used.output_tokens ?? 0} out`);
    for (const file of attachments(state)) parts.push(`File: ${file.filename ?? file.object_id}`);
    const held = withheld(state);
    if (held > 0) parts.push(h("mark", {}, `withheld in ${places(held)}`));
    const cut = truncated(state);
    if (cut > 0) parts.push(`shortened in ${places(cut)}`);
    this.last.replaceChildren(...parts.map((part) => (typeof part === "string" ? h("span", {}, part) : part)));
  }

  private retry(label: string): HTMLElement[] {
    const { actions } = this;
    return actions === undefined ? [] : [h("button", { type: "button", click: () => actions.retry() }, label)];
  }

  private message(item: MessageItem): HTMLElement {
    const view = this.messages.get(item.id) ?? new Message();
    this.messages.set(item.id, view);
    view.show(item);
    return view.element;
  }

  private partsOf(item: Item, status: string, before: HTMLElement | undefined): Node[] {
    if (item.kind === "reasoning") {
      const text = item.parts.map((part) => part.text).join("\n\n");
      if (text === "") return item.isDone ? [] : [h("p", { class: "legend" }, "Thinking…")];
      const details = h("details", { class: "card" }, h("summary", {}, item.isDone ? "Thought about it" : "Thinking…"), h("p", {}, ...titled(text)));
      details.open = before?.querySelector("details")?.open ?? true;
      return [details];
    }
    return item.kind === "tool" ? [this.card(item, status)] : [];
  }

  /** Returns the buttons of an approval. To decline sends nothing: the call is not made. */
  private choice(item: ToolItem, pill: HTMLElement): HTMLElement {
    const choice = h("div", { class: "approve" });
    const choose = (text: string, next?: () => void): void => {
      pill.replaceWith(h("span", { class: "pill" }, "asked for approval"));
      choice.replaceChildren(text);
      next?.();
    };
    const approve = () => choose("Approved.", () => this.actions?.approve(item));
    const decline = () => choose("Declined: the call is not made.");
    choice.append(h("button", { type: "button", class: "primary", click: approve }, "Approve"), h("button", { type: "button", click: decline }, "Decline"));
    return choice;
  }

  /** Returns the button of a function that the page has to run. */
  private runner(item: ToolItem, pill: HTMLElement): HTMLElement {
    const runner = h("div", { class: "approve" });
    const run = (): void => {
      pill.replaceWith(h("span", { class: "pill" }, "run by this page"));
      runner.replaceChildren("Run. Its result is in the next request.");
      this.actions?.run(item);
    };
    runner.append(h("button", { type: "button", class: "primary", click: run }, "Run it here"));
    return runner;
  }

  private card(item: ToolItem, status: string): HTMLElement {
    const { tool } = item;
    const told = (this.actions === undefined && OPEN[status]) || STATUSES[status as keyof typeof STATUSES];
    const pill = h("span", { class: `pill ${told === OPEN[status] ? "" : status}` }, told);
    const name = NAMES[item.toolType] ?? item.name;
    const server = tool?.tool_type === "mcp" && tool.server_label !== undefined ? ` on ${tool.server_label}` : "";
    const card = h("div", { class: "card" }, h("div", { class: "title" }, h("b", {}, name), server, pill));
    if (tool?.tool_type === "web_search" && tool.query !== undefined) card.append(labelled("looked for", tool.query));
    if (tool?.tool_type === "file_search" && tool.queries !== undefined) card.append(labelled("looked for", tool.queries.join("\n")));
    if (item.argumentsText !== "") card.append(labelled("arguments", spaced(item)));
    if (item.code !== "") card.append(labelled("code", item.code));
    for (const output of item.outputs) card.append(labelled("output", typeof output === "string" ? output : JSON.stringify(output, null, 2)));
    const found = tool?.tool_type === "file_search" ? (tool.results ?? []).map((one) => one.filename ?? one.file_id ?? "file") : [];
    const sources = tool?.tool_type === "web_search" ? (tool.sources ?? []) : found;
    if (sources.length > 0) card.append(h("span", { class: "label" }, "found"), h("ul", { class: "sources" }, ...sources.map((one) => h("li", {}, ...marked(one)))));
    const url = imageUrl(item);
    if (url !== undefined) card.append(h("img", { src: url, alt: "Generated image" }));
    if (this.actions === undefined) return card;
    if (item.approval === "pending") card.append(this.choice(item, pill));
    if (status === "waiting") card.append(this.runner(item, pill));
    return card;
  }
}

const labelled = (label: string, text: string): DocumentFragment => {
  const fragment = document.createDocumentFragment();
  fragment.append(h("span", { class: "label" }, label), block(label, text));
  return fragment;
};

const spaced = (item: ToolItem): string =>
  item.argumentsJson === undefined ? item.argumentsText : JSON.stringify(item.argumentsJson, null, 2);

/** Returns a summary of reasoning, whose titles are bold in Markdown. */
const titled = (text: string): Node[] => text.split(/\*\*(.+?)\*\*/).flatMap((piece, at) => (at % 2 === 1 ? [h("b", {}, ...marked(piece))] : marked(piece)));
