/** The text of a message, with citations in place. A paragraph is drawn again only if it has changed. */

import { segments, type Citation, type MessageItem, type MessagePart } from "../src/index.js";
import { h, marked } from "./dom.js";

/** A piece of a paragraph, and the citations that follow it. */
interface Piece {
  text: string;
  citations: readonly Citation[];
}

const BREAK = /\n{2,}/;
/** A link in Markdown, which its citation replaces. */
const LINK = /^\(?\[.*\]\(.*\)\)?$/;

/** Returns whether a piece is only the link of its citation. */
export const isLink = ({ text, citations }: { text: string; citations: readonly Citation[] }): boolean =>
  LINK.test(text) && citations.some((one) => one.type === "url_citation");

/** Shows the states of one message in an element. */
export class Message {
  readonly element = h("div");
  private readonly parts: Part[] = [];

  show(item: MessageItem): void {
    let numbered = 0;
    item.parts.forEach((part, n) => {
      const view = (this.parts[n] ??= new Part(this.element));
      view.show(part, numbered);
      numbered += part.citations.length;
    });
  }
}

class Part {
  private readonly text = h("div", { class: "text" });
  private readonly rest = h("div");
  private drawn: string[] = [];
  private cited: readonly Citation[] = [];
  private refused = "";

  constructor(parent: HTMLElement) {
    parent.append(this.text, this.rest);
  }

  /** Shows a state of the part; the numbers of its citations follow those of the parts before. */
  show(part: MessagePart, numbered: number): void {
    const all = paragraphs(part);
    const ordered = all.flat().flatMap(({ citations }) => citations); // as they are read, not as they arrived
    const numbers = new Map(ordered.map((citation, n) => [citation, numbered + n + 1]));
    const keys = all.map((pieces) => pieces.map(({ text, citations }) => text + citations.map((one) => ` ${numbers.get(one)}`).join("")).join("\n\n"));
    keys.forEach((key, n) => {
      if (this.drawn[n] === key) return;
      const paragraph = h("p", {}, ...(all[n] ?? []).flatMap((piece) => drawn(piece, numbers)));
      const old = this.text.children[n];
      if (old === undefined) this.text.append(paragraph);
      else old.replaceWith(paragraph);
    });
    while (this.text.children.length > keys.length) this.text.lastElementChild?.remove();
    this.drawn = keys;
    if (this.cited !== part.citations || this.refused !== part.refusal) this.showRest(part, ordered, numbered + 1);
  }

  private showRest({ refusal, citations }: MessagePart, ordered: readonly Citation[], start: number): void {
    [this.cited, this.refused] = [citations, refusal];
    const sources = ordered.map((citation) => h("li", {}, titleOf(citation)));
    this.rest.replaceChildren(
      ...(refusal === "" ? [] : [h("p", { class: "refusal" }, ...marked(refusal))]),
      ...(sources.length === 0 ? [] : [h("ol", { class: "sources", "aria-label": "Sources", start: `${start}` }, ...sources)]),
    );
  }
}

/** Returns the paragraphs of a text; a citation is shown once, behind the last piece that it refers to. */
function paragraphs(part: MessagePart): Piece[][] {
  const found: Piece[][] = [[]];
  const pieces = segments(part);
  const last = new Map(pieces.flatMap((piece) => piece.citations.map((one) => [one, piece] as const)));
  for (const piece of pieces) {
    const texts = isLink(piece) ? [""] : piece.text.split(BREAK);
    const added = piece.citations.filter((one) => last.get(one) === piece);
    texts.forEach((one, n) => {
      const piece = { text: one, citations: n === texts.length - 1 ? added : [] };
      if (n === 0) found.at(-1)?.push(piece);
      else found.push([piece]);
    });
  }
  return found.filter((pieces) => pieces.some(({ text, citations }) => text !== "" || citations.length > 0));
}

const drawn = ({ text, citations }: Piece, numbers: ReadonlyMap<Citation, number>): Node[] => [
  ...marked(text),
  ...citations.map((one) => link(one, numbers.get(one) ?? 0)),
];

const titleOf = (citation: Citation): string =>
  citation.type === "url_citation" ? (citation.title ?? citation.url ?? "Source") : (citation.filename ?? citation.file_id ?? "File");

function link(citation: Citation, number: number): HTMLElement {
  const url = citation.type === "url_citation" ? citation.url : undefined;
  if (url === undefined || !/^https?:\/\//.test(url)) return h("span", { class: "cite", title: titleOf(citation) }, `${number}`);
  return h("a", { class: "cite", href: url, title: titleOf(citation), target: "_blank", rel: "noopener noreferrer" }, `${number}`);
}
