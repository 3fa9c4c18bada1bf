/** Both sides of a stream: what the provider sends, what the page gets, and what was withheld between them. */

import { MARKS } from "../src/index.js";
import { type Described, EventReader, ORDERED, orderedFamily, type Piece } from "./apis.js";
import { h, marked, withRanges } from "./dom.js";
import { atFrame } from "./frames.js";

type Json = Record<string, unknown>;
type Range = readonly [number, number];

const PREVIEW_CHARS = 220;
const ROWS_MAX = 400; // when rows at the top leave, the browser places all others anew
const ROWS_A_FRAME = 20; // of each list: drawing them takes a small part of a frame
const TEXTS = ["delta", "code", "arguments", "text", "refusal", "refusal_text"];

export const isRecord = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value);

export function parsed(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}

/** Returns a text as a preview, which does not end within a mark. */
function shortened(text: string): string {
  if (text.length <= PREVIEW_CHARS) return text;
  return `${text.slice(0, PREVIEW_CHARS).replace(/<r?e?d?a?c?t?e?d?$/, "")}…`;
}

interface Look {
  preview: () => Node[];
  tag: string;
  isHeld: boolean;
  isDim: boolean;
  isLast: boolean;
}

/** An event of a list, which may be on the page or not yet. Its whole JSON is shown when it is opened. */
export class Row {
  private readonly look: Look = { preview: () => [], tag: "", isHeld: false, isDim: false, isLast: false };
  private drawn: { element: HTMLLIElement; summary: HTMLElement } | undefined;
  private whole: HTMLElement | undefined;
  private secrets: ReadonlySet<string> = new Set();

  constructor(
    private readonly type: string,
    private readonly data: string,
    look: Partial<Look>,
  ) {
    this.change(look);
  }

  get isHeld(): boolean {
    return this.look.isHeld;
  }

  change(look: Partial<Look>): void {
    Object.assign(this.look, look);
    this.fill();
  }

  element(): HTMLLIElement {
    const summary = h("summary");
    const details = h("details", {}, summary);
    details.addEventListener("toggle", () => {
      if (!details.open || details.children.length > 1) return;
      this.whole = h("pre");
      details.append(this.whole);
      this.fillWhole();
    });
    this.drawn = { element: h("li", {}, details), summary };
    this.fill();
    return this.drawn.element;
  }

  /** Marks values in the whole JSON too. */
  mark(secrets: ReadonlySet<string>): void {
    this.secrets = secrets;
    this.fillWhole();
  }

  private fillWhole(): void {
    if (this.whole === undefined) return;
    const text = pretty(this.data);
    this.whole.replaceChildren(...(this.secrets.size > 0 ? withRanges(text, rangesOf(text, this.secrets)) : marked(text)));
  }

  private fill(): void {
    if (this.drawn === undefined) return;
    const { preview, tag, isHeld, isDim, isLast } = this.look;
    const classes = [isHeld && "held", isDim && "dim", isLast && "last"];
    this.drawn.element.className = classes.filter((name) => name !== false).join(" ");
    const label = tag === "" ? [] : [h("span", { class: "tag" }, tag)];
    this.drawn.summary.replaceChildren(...label, h("b", {}, this.type), " ", h("span", {}, ...preview()));
  }
}

/** One side: a list of events that a reader can open. The first ones of a frame are shown at once, others later. */
export class Wire {
  private bytes = 0;
  private count = 0;
  private room = ROWS_A_FRAME;
  private waiting: Row[] = [];
  private isEmpty = true;
  private remarked = "";

  constructor(
    private readonly list: HTMLElement,
    private readonly counter: HTMLElement,
    empty: string,
  ) {
    this.list.replaceChildren(h("li", { class: "empty" }, empty));
    this.counter.textContent = "";
  }

  add(type: string, data: string, look: Partial<Look>): Row {
    this.clear();
    this.remarked = "";
    this.count += 1;
    this.bytes += data.length;
    this.counter.textContent = `${this.count} events, ${(this.bytes / 1000).toFixed(1)} kB`;
    const row = new Row(type, data, look);
    this.waiting.push(row);
    this.draw();
    atFrame(this.list, () => this.onFrame());
    return row;
  }

  private onFrame(): void {
    this.room = ROWS_A_FRAME;
    this.draw();
    if (this.waiting.length > 0) atFrame(this.list, () => this.onFrame());
  }

  private draw(): void {
    if (this.waiting.length > ROWS_MAX) this.waiting = this.waiting.slice(-ROWS_MAX);
    const rows = this.waiting.splice(0, this.room);
    this.room -= rows.length;
    this.list.append(...rows.map((row) => row.element()));
    while (this.list.children.length > ROWS_MAX) this.list.firstElementChild?.remove();
  }

  /** Says what there is instead of events, if none has come. */
  still(text: string): void {
    if (this.isEmpty) this.list.replaceChildren(h("li", { class: "empty" }, text));
  }

  /** Adds a remark between two events, unless it is there; one of a `gap` is about a loss. */
  remark(text: string, look: "gap" | "gap plain" = "gap"): void {
    if (text === this.remarked) return;
    this.remarked = text;
    this.clear();
    this.list.append(...this.waiting.splice(0).map((row) => row.element()), h("li", { class: look }, text));
    atFrame(this.list, () => this.onFrame());
  }

  private clear(): void {
    if (this.isEmpty) this.list.replaceChildren();
    this.isEmpty = false;
  }
}

function pretty(data: string): string {
  const value = parsed(data);
  return value === undefined ? data : JSON.stringify(value, (_, one: unknown) => (typeof one === "string" ? shortened(one) : one), 2);
}

interface ProviderRow {
  row: Row;
  text: string;
  /** Response and number of the event, as the public event has them. */
  key: string;
  /** The texts that it continues, and where it begins in them. */
  pieces: readonly (Piece & { start: number })[];
  isDropped: boolean;
}

/** The provider's side, matched with the events of the page. */
export class ProviderSide {
  private readonly rows: ProviderRow[] = [];
  /** Text of all deltas, as the provider sent them and as the page got them. */
  private readonly raw = new Map<string, string>();
  private readonly clean = new Map<string, string>();
  /** Event -> texts of the events of the page that came of it. */
  private readonly texts = new Map<string, string[]>();
  private readonly held = new Set<string>();
  /** Instructions as their JSON shows them. */
  private readonly instructions = new Set<string>();
  private readonly reader = new EventReader();
  /** Calls of the page's events, in their order. */
  private readonly calls: unknown[] = [];
  private response = "";
  private requests = 0;
  /** Whether the last response has not ended. */
  private isOpen = true;

  /** What a recording has was withheld before: it is not compared. */
  constructor(
    private readonly wire: Wire,
    private readonly isRecording = false,
  ) {}

  /** Adds an event of the provider. */
  add(data: string): void {
    const event = parsed(data);
    if (!isRecord(event)) {
      this.isOpen &&= data.trim() !== "[DONE]";
      return void this.wire.add("", data, { preview: () => [document.createTextNode(shortened(data))] });
    }
    const read = this.reader.read(event) ?? ofResponses(event);
    const begins = event.type === "response.created" || (typeof read.response === "string" && read.response !== this.response);
    if (typeof read.response === "string") this.response = read.response;
    if (begins) this.wire.remark(`Request ${(this.requests += 1)}`, "gap plain");
    this.isOpen = read.isEnd !== true && (this.isOpen || begins);
    const text = read.text || (this.isRecording ? publicPreview(event) : "");
    const isHost = String(event.type).startsWith(HOST);
    const pieces = read.pieces.map((piece) => ({ ...piece, start: this.raw.get(piece.family)?.length ?? 0 }));
    for (const { family, text: more } of pieces) this.raw.set(family, (this.raw.get(family) ?? "") + more);
    const isHeld = this.isRecording ? data.search(MARKS) >= 0 : text.startsWith(INSTRUCTIONS);
    if (isHeld && !this.isRecording) this.instructions.add(JSON.stringify(shortened(text.slice(INSTRUCTIONS.length))).slice(1, -1));
    const preview = (): Node[] => (this.isRecording ? marked(shortened(text)) : withRanges(shortened(text), isHeld ? [[0, shortened(text).length]] : []));
    const row = this.wire.add(read.type, data, { preview, isHeld, ...(isHost && { tag: "from the server's tool" }) });
    this.rows.push({ row, text, key: `${this.response}/${event.sequence_number}`, pieces, isDropped: read.isDropped === true });
  }

  /** Notes that nothing more is sent. */
  close(): void {
    if (this.isOpen) this.wire.remark("Here the projector closed the request: nothing more was sent.");
  }

  /** Notes an event of the page. */
  match(event: Json): void {
    const key = `${event.response_id}/${event.provider_sequence_number}`;
    this.texts.set(key, [...(this.texts.get(key) ?? []), ...textsOf(event)]);
    if (Array.isArray(event.notices)) this.held.add(key);
    const isCall = String(event.kind).startsWith("tool.");
    if (isCall && !this.calls.includes(event.item_id)) this.calls.push(event.item_id);
    if (typeof event.delta !== "string") return;
    const kind = familyOf(event.kind);
    for (const family of [`${event.item_id}/${kind}`, orderedFamily(kind, this.calls.indexOf(event.item_id) + 1)]) {
      this.clean.set(family, (this.clean.get(family) ?? "") + event.delta);
    }
  }

  /** Marks what was withheld and what was not forwarded, once both sides are complete. */
  finish(): void {
    const secrets = this.isRecording ? new Set<string>() : this.secrets();
    const within = new Set([...secrets, ...this.instructions]);
    for (const one of this.rows) {
      const { row, text } = one;
      row.mark(within);
      const ranges = one.pieces.length === 0 || this.isRecording ? rangesOf(text, secrets) : one.pieces.flatMap((piece) => this.pieceRanges(piece, secrets));
      const isHeld = ranges.length > 0 || this.held.has(one.key) || row.isHeld;
      const isForwarded = this.texts.has(one.key) || isHeld || (one.key.endsWith(UNNUMBERED) && !one.isDropped);
      if (!isHeld && isForwarded) continue;
      const shown = clipped(ranges, Math.min(text.length, PREVIEW_CHARS));
      const preview = ranges.length > 0 && { preview: () => withRanges(shortened(text), shown) };
      row.change({ isHeld, isDim: !isForwarded, ...preview, ...(!isForwarded && { tag: "not forwarded" }) });
    }
    atFrame(this, () => undefined); // tags make rows taller: scroll to the end again
  }

  /** Returns the values that the page did not get. */
  private secrets(): Set<string> {
    const found = new Set<string>();
    const add = (raw: string, ranges: readonly Range[]): void => {
      for (const [start, end] of ranges) if (end - start >= SECRET_CHARS) found.add(raw.slice(start, end));
    };
    for (const [family, raw] of this.raw) add(raw, this.familyRanges(family));
    for (const one of this.rows) {
      if (one.pieces.length === 0) for (const text of this.texts.get(one.key) ?? []) add(one.text, withheldRanges(one.text, text));
    }
    return found;
  }

  /** Returns what was withheld of a text. Texts that are found by their order may be others: then they do not fit. */
  private familyRanges(family: string): Range[] {
    const [raw, clean] = [this.raw.get(family), this.clean.get(family)];
    return raw === undefined || clean === undefined ? [] : withheldRanges(raw, clean, family.startsWith(ORDERED));
  }

  /** Returns what was withheld of a piece, as ranges of the text of its event. */
  private pieceRanges({ family, text, start, at }: Piece & { start: number }, secrets: ReadonlySet<string>): Range[] {
    const found = this.familyRanges(family);
    const ranges = found.length === 0 && family.startsWith(ORDERED) ? rangesOf(this.raw.get(family) ?? "", secrets) : found;
    return clipped(ranges.map(([from, to]): Range => [from - start, to - start]), text.length).map(([from, to]): Range => [from + at, to + at]);
  }
}

const INSTRUCTIONS = "instructions: ";
/** Last event of a response. */
const ENDS = /^(response\.(completed|failed|incomplete|cancelled)|error)$/;
/** Begin of the type of an event that is in the recording, but comes from the server itself. */
const HOST = "projector.";
/** End of the key of an event without a number, as other APIs have them: it cannot be matched. */
const UNNUMBERED = "/undefined";
const SECRET_CHARS = 4;

/** Returns the texts of an event of the page that may contain marks. */
function textsOf({ arguments_text: whole, tool, output }: Json): string[] {
  const texts = [whole, isRecord(tool) ? tool.arguments_text : undefined, output === undefined ? undefined : JSON.stringify(output)];
  return texts.filter((text) => typeof text === "string");
}

/** Returns the ranges of a text that are one of the values, without overlaps. */
function rangesOf(text: string, secrets: ReadonlySet<string>): Range[] {
  const ranges: Range[] = [];
  for (const secret of secrets) {
    for (let at = text.indexOf(secret); at >= 0; at = text.indexOf(secret, at + secret.length)) ranges.push([at, at + secret.length]);
  }
  ranges.sort(([a], [b]) => a - b);
  let end = 0;
  return ranges.filter(([start, stop]) => start >= end && ((end = stop), true));
}

const clipped = (ranges: readonly Range[], length: number): Range[] =>
  ranges.map(([from, to]): Range => [Math.max(from, 0), Math.min(to, length)]).filter(([from, to]) => from < to);

/** Returns the family of texts that an event belongs to, which provider and contract name differently. */
function familyOf(type: unknown): string {
  const name = String(type);
  return ["arguments", "code", "refusal", "summary"].find((family) => name.includes(family)) ?? "text";
}

/** Returns the ranges of a text that are not in its clean version; `isStrict`: none if the two are different otherwise. */
export function withheldRanges(raw: string, clean: string, isStrict = false): Range[] {
  const ranges: Range[] = [];
  const pieces = clean.split(/"?<redacted>"?/);
  let at = 0;
  let fits = true;
  pieces.forEach((piece, n) => {
    const isLast = n === pieces.length - 1;
    const found = isLast && piece === "" ? raw.length : raw.indexOf(piece, at);
    fits &&= found >= 0 && (n > 0 || found === 0);
    if (found < 0) return;
    if (n > 0 && found > at) ranges.push(unquoted(raw, at, found));
    at = found + piece.length;
  });
  return fits || !isStrict ? ranges : [];
}

function unquoted(raw: string, start: number, end: number): Range {
  return [raw[start] === '"' ? start + 1 : start, raw[end - 1] === '"' ? end - 1 : end];
}

/** Returns what is worth seeing of an event of the Responses API, or of another one that is not known. */
function ofResponses(event: Json): Described {
  const text = previewOf(event);
  const pieces = typeof event.delta === "string" ? [{ family: `${event.item_id}/${familyOf(event.type)}`, text, at: 0 }] : [];
  const response = isRecord(event.response) ? event.response.id : undefined;
  return { type: String(event.type ?? "event").replace(/^response\./, ""), text, pieces, response, isEnd: ENDS.test(String(event.type)) };
}

/** Returns what is worth seeing of an event without opening it. */
function previewOf(event: Json): string {
  if (isRecord(event.response)) {
    const { instructions, status } = event.response;
    return typeof instructions === "string" && instructions !== "" ? INSTRUCTIONS + instructions : String(status ?? "");
  }
  const text = TEXTS.map((name) => event[name]).find((value) => typeof value === "string");
  if (typeof text === "string") return text;
  if (isRecord(event.item)) {
    const { type, name, arguments: given, status } = event.item;
    return [type, name, given, status].filter((one) => typeof one === "string" && one !== "").join(" ");
  }
  if (event.output !== undefined) return JSON.stringify(event.output);
  if (isRecord(event.annotation)) return String(event.annotation.url ?? event.annotation.filename ?? event.annotation.type);
  if (isRecord(event.error)) return String(event.error.message ?? event.error.code);
  if (typeof event.message === "string") return event.message;
  return "";
}

/** Returns type, preview and remark of an event of the page, in any dialect. */
export function describePublic(event: unknown, data: string): { type: string; preview: () => Node[]; tag: string } {
  if (!isRecord(event)) return { type: data.trim() === "[DONE]" ? "[DONE]" : "", preview: () => [], tag: "" };
  const type = String(event.kind ?? event.type ?? event.object ?? "event");
  const notices = Array.isArray(event.notices) ? event.notices.length : 0;
  return { type, preview: () => marked(shortened(publicPreview(event))), tag: notices > 0 ? `${notices} withheld or cut` : "" };
}

function publicPreview(event: Json): string {
  if (String(event.type).startsWith("response.")) return previewOf(event);
  const { tool, citation, final, error, output, status, item_type: itemType, target } = event;
  if (isRecord(tool)) {
    const name = tool.name ?? tool.tool_name ?? tool.tool_type;
    return [name, tool.status, tool.query, tool.arguments_text].filter((one) => typeof one === "string").join(" ");
  }
  if (isRecord(citation)) return String(citation.url ?? citation.filename ?? citation.type);
  if (isRecord(final)) return String(final.status);
  if (isRecord(error)) return `${String(error.code)}: ${String(error.message)}`;
  if (isRecord(target)) return `${String(target.field)} ${typeof event.data === "string" ? `${event.data.length} characters` : ""}`;
  if (output !== undefined) return JSON.stringify(output);
  if (itemType !== undefined) return `${String(itemType)} ${String(status ?? "")}`;
  const choice: unknown = Array.isArray(event.choices) ? event.choices[0] : undefined;
  if (isRecord(choice) && isRecord(choice.delta)) return JSON.stringify(choice.delta);
  const text = [event.delta, event.arguments_text, event.code, event.inputTextDelta, event.content, event.refusal_text, status].find(
    (one) => typeof one === "string",
  );
  if (typeof text === "string") return text;
  const rest = [event.input, event.data, event.value].find(isRecord);
  const named = event.toolCallName ?? event.toolName ?? event.name ?? "";
  return rest === undefined ? String(named) : `${String(named)} ${JSON.stringify(rest)}`.trim();
}
