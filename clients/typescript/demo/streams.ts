/** The page of recent streams: a list that renews itself, and each stream in the panes of the demo page. */

import { initialState, reduce, StreamError, type PublicSseEvent, type StreamState } from "../src/index.js";
import { errorOfResponse } from "../src/errors.js";
import { byId, h } from "./dom.js";
import { atFrame, followEnd, toEnd } from "./frames.js";
import { resumed } from "./reading.js";
import { Answer } from "./show.js";
import { describePublic, isRecord, parsed, ProviderSide, Wire } from "./wires.js";

const POLL_MS = 2_000;
const WHY_MAX = 20; // places of one reason; the others are in the events
const ID_CHARS = 15; // of `stream_` and 32 more
const RUNNING = "in_progress";

/** A stream of the list, as the server has it; members without a value are missing. */
interface Stream {
  stream_id: string;
  caller: string;
  dialect: string;
  created_ms: number;
  outcome: string;
  has_recording: boolean;
  ended_ms?: number;
  agent?: string;
  workflow?: string;
  upstream?: string;
  model?: string;
  code?: string;
  reason?: string;
  route?: string;
  request_id?: string;
  response_id?: string;
  duration_s?: number;
  first_byte_s?: number;
  first_token_s?: number;
  overhead_s?: number;
  events?: number;
  heartbeats?: number;
  input_tokens?: number;
  output_tokens?: number;
  withheld?: Record<string, number>;
  dropped?: Record<string, number>;
}

/** The stream that is shown. */
interface Opened {
  id: string;
  /** What the list has of it. */
  json: string;
  controller: AbortController;
  /** The data of its events, as the client got them. */
  lines: string[];
  isRead: boolean;
  /** What its notices say. */
  why: string[];
  /** The recording of the provider's side. */
  recording?: string;
}

/** What each end is called, and what it means to someone who is told "it stopped". */
const OUTCOMES: Record<string, readonly [string, string]> = {
  [RUNNING]: ["Running", "It runs, or its server was killed within the last seconds."],
  completed: ["Complete", "The provider completed the answer, and all of it is in the store."],
  incomplete: ["Incomplete", "The provider ended the answer early: at a limit of tokens, or by a filter. The last event has the reason."],
  refused: ["Refused", "The model refused to answer."],
  failed: ["Failed", "The provider reported that the answer failed. The last event has what may be shown of it."],
  cancelled: ["Cancelled", "Someone stopped it: the client, another request, or this server because no one read it."],
  error: ["Error", "It failed. The code is in docs/operations.md, and the log has `stream_end` and `provider_error` with the ID of the request."],
  client_left: ["Client left", "The client closed the connection before the end, and the agent has `on_disconnect = \"cancel\"`."],
  interrupted: ["Interrupted", "The process that produced it ended, or lost the store. Its log and the platform have the cause."],
  unreadable: ["Unreadable", "Another version wrote it, or its encryption key is not configured any more."],
};

const search = byId<HTMLInputElement>("search");
const key = byId<HTMLInputElement>("key");
const save = byId<HTMLButtonElement>("save");
const saveCase = byId<HTMLButtonElement>("save-case");
const rows = byId("rows");
const table = rows.closest("table") as HTMLTableElement;

let streams: readonly Stream[] = [];
/** The rows of the table, each with the JSON that it shows. */
const drawn = new Map<string, { json: string; row: HTMLTableRowElement }>();
let opened: Opened | undefined;
let said = "";

const headers = (): Record<string, string> => (key.value === "" ? {} : { authorization: `Bearer ${key.value}` });

/** Announces a text, once. */
function say(text: string): void {
  if (text !== said) byId("said").textContent = said = text;
}

// the list

const seconds = (value: number | undefined): string => (value === undefined ? "" : value < 10 ? `${value.toFixed(2)} s` : `${Math.round(value)} s`);
const counts = (of: Record<string, number> = {}): string => Object.entries(of).map(([name, times]) => `${times} ${name}`).join(", ");
const sum = (of: Record<string, number> = {}): number => Object.values(of).reduce((all, one) => all + one, 0);

function when(ms: number): string {
  const date = new Date(ms);
  return date.toDateString() === new Date().toDateString() ? date.toLocaleTimeString() : date.toLocaleString();
}

function ended({ outcome, code, duration_s: duration }: Stream): (Node | string)[] {
  const pill = h("span", { class: `pill ${outcome === RUNNING ? "running" : outcome}` }, OUTCOMES[outcome]?.[0] ?? outcome);
  return [pill, " ", [code, seconds(duration)].filter((one) => one !== undefined && one !== "").join(", ")];
}

/** Column -> what it shows of a stream. */
const COLUMNS: readonly (readonly [string, (stream: Stream) => readonly (Node | string)[], "number"?])[] = [
  ["Started", (one) => [h("a", { href: `#${one.stream_id}`, title: one.stream_id }, when(one.created_ms))]],
  ["Ended", ended],
  ["Caller", ({ caller }) => [caller]],
  ["Agent or route, model", (one) => [[one.agent ?? one.workflow ?? one.route, one.model].filter((text) => text !== undefined).join(", ")]],
  ["First token", (one) => [seconds(one.first_token_s)], "number"],
  ["Tokens in, out", (one) => (one.output_tokens === undefined ? [] : [`${one.input_tokens ?? 0}, ${one.output_tokens}`]), "number"],
  ["Withheld", (one) => (sum(one.withheld) > 0 ? [h("mark", {}, counts(one.withheld))] : []), "number"],
  ["Not forwarded", (one) => (sum(one.dropped) > 0 ? [h("span", { title: counts(one.dropped) }, String(sum(one.dropped)))] : []), "number"],
];

function drawRow(stream: Stream): HTMLTableRowElement {
  const json = JSON.stringify(stream);
  const before = drawn.get(stream.stream_id);
  if (before?.json === json) return before.row;
  const cells = COLUMNS.map(([label, show, look = ""]) => h("td", { role: "cell", class: look, "data-label": label }, ...show(stream).filter((one) => one !== "")));
  const row = before?.row ?? h("tr", { role: "row" });
  row.replaceChildren(...cells);
  drawn.set(stream.stream_id, { json, row });
  return row;
}

/** Draws the streams that have each word of the search, and keeps the focus where it is. */
function draw(): void {
  const words = search.value.toLowerCase().split(/\s+/);
  const found = streams.filter((one) => {
    const text = `${JSON.stringify(one)} ${OUTCOMES[one.outcome]?.[0] ?? ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const focused = rows.contains(document.activeElement) ? document.activeElement?.getAttribute("href") : undefined;
  const next = found.map(drawRow);
  if (next.length !== rows.children.length || next.some((row, at) => row !== rows.children[at])) rows.replaceChildren(...next);
  if (typeof focused === "string") rows.querySelector<HTMLElement>(`a[href="${focused}"]`)?.focus();
  const ids = new Set(streams.map((one) => one.stream_id));
  for (const id of drawn.keys()) if (!ids.has(id)) drawn.delete(id);
  table.hidden = found.length === 0;
  byId("total").textContent = streams.length === 0 ? "" : `${found.length} of ${streams.length}`;
  const none = streams.length === 0 ? "There is no stream yet. Each one appears here when it starts." : "No stream has all of these words.";
  say(found.length === 0 ? none : search.value === "" ? "" : `${found.length} found.`);
}

/** Reads the list again, for as long as the page is open. */
async function poll(): Promise<void> {
  try {
    const response = await fetch("streams/recent", { headers: headers() });
    if (!response.ok) throw await errorOfResponse(response);
    const answer = (await response.json()) as { streams: Stream[]; has_demo: boolean };
    streams = answer.streams;
    byId("demo").hidden = !answer.has_demo;
    byId("key-row").hidden = true;
    draw();
    show();
  } catch (error) {
    const isRefused = error instanceof StreamError && error.details.status === 401;
    if (isRefused) byId("key-row").hidden = false;
    say(isRefused ? "This server needs the key of a caller, whose streams are then here." : error instanceof StreamError ? error.message : "The server cannot be reached. Trying again.");
  }
}

// one stream

/** Shows the stream that the address names, or the list. */
function show(): void {
  const id = location.hash.slice(1);
  byId("list").hidden = byId("total").hidden = id !== "";
  byId("detail").hidden = id === "";
  const stream = streams.find((one) => one.stream_id === id);
  const json = JSON.stringify(stream ?? null);
  const isOther = opened?.id !== id;
  if (!isOther && opened?.json === json) return;
  if (isOther) opened?.controller.abort();
  if (id === "") return void (opened = undefined);
  if (isOther || opened === undefined) opened = { id, json, controller: new AbortController(), lines: [], isRead: false, why: [] };
  opened.json = json;
  byId("name").replaceChildren(`${id.slice(0, ID_CHARS)}… `, ...(stream === undefined ? [] : ended(stream).slice(0, 1)));
  byId("meaning").textContent = stream === undefined ? "The store does not have this stream any more." : (OUTCOMES[stream.outcome]?.[1] ?? "");
  byId("figures").replaceChildren(...(stream === undefined ? [] : figures(stream, opened.why)));
  saveCase.disabled = stream === undefined || stream.outcome === RUNNING;
  byId("holds").textContent = stream === undefined ? "" : caseOf(stream);
  if (isOther) byId("name").focus();
  if (isOther) void read(opened);
  else void readProvider(opened); // it may have ended since
}

/** Says what a saved case has. */
function caseOf({ outcome, has_recording: hasRecording, dialect }: Stream): string {
  if (outcome === RUNNING) return "A case can be saved once the stream has ended.";
  const made = dialect === "public_sse_v1" || !hasRecording ? "public_sse_v1" : `public_sse_v1 and ${dialect}`;
  const input = hasRecording
    ? "what the provider sent, without credentials and registered values, but with the conversation, reasoning and messages of errors"
    : "the events that the client got, and nothing of the provider, because you may not see a recording of it or there is none";
  return `The case has ${input}; and the expected output in ${made}. \u201cprojector replay FILE\u201d takes the file as it is.`;
}

function figures(one: Stream, why: readonly string[]): HTMLElement[] {
  const times = one.ended_ms === undefined ? when(one.created_ms) : `${when(one.created_ms)} to ${when(one.ended_ms)}`;
  const tokens = one.output_tokens === undefined ? "" : `${one.input_tokens ?? 0} in, ${one.output_tokens} out`;
  const all: readonly (readonly [string, string | number | undefined, ("wide" | "id")?])[] = [
    ["Caller", one.caller, "id"], ["Agent", one.agent], ["Workflow", one.workflow], ["Model", one.model], ["Upstream", one.upstream],
    ["Code", one.code], ["Reason", one.reason], ["Time", times], ["Duration", seconds(one.duration_s)],
    ["First byte of the provider", seconds(one.first_byte_s)], ["First token", seconds(one.first_token_s)],
    ["Added by the projector", one.overhead_s === undefined ? "" : `${(1_000 * one.overhead_s).toFixed(1)} ms`],
    ["Tokens", tokens], ["Events", one.events], ["Dialect", one.dialect], ["Route", one.route, "id"],
    ["Request", one.request_id, "id"], ["Response", one.response_id, "id"], ["Stream", one.stream_id, "id"],
    ["Withheld", [counts(one.withheld), ...why].filter((text) => text !== "").join("; "), "wide"], ["Not forwarded", counts(one.dropped), "wide"],
  ];
  const present = all.filter(([, value]) => value !== undefined && value !== "");
  return present.map(([label, value, look = ""]) => h("div", { class: look }, h("dt", {}, label), h("dd", {}, String(value))));
}

/** Reads a stream into the panes, and what follows if it runs. */
async function read(one: Opened): Promise<void> {
  const { id, lines } = one;
  const { signal } = one.controller;
  const page = new Wire(byId("page-events"), byId("page-count"), "Waiting for the first event…");
  const answer = new Answer();
  byId("turns").replaceChildren(answer.element);
  showProvider(false);
  for (const list of LISTS) toEnd(list);
  save.disabled = saveCase.disabled = true;
  let state: StreamState = initialState;
  const open = (after: number): Promise<Response> => fetch(`streams/${id}/events?after=${after}`, { headers: headers(), signal });
  try {
    for await (const data of resumed({ open, signal })) {
      const event = parsed(data);
      state = reduce(state, event as PublicSseEvent);
      const { type, preview, tag } = describePublic(event, data);
      lines.push(data);
      page.add(type, data, { preview, tag, isHeld: tag !== "", isLast: state.end !== undefined });
      atFrame(answer, () => answer.show(state));
    }
    answer.show(state);
    one.isRead = true;
    one.why = reasons(state);
    one.json = "";
    show();
    save.disabled = lines.length === 0;
    await readProvider(one);
  } catch (error) {
    if (signal.aborted) return;
    page.still("No event can be read.");
    answer.remark(error instanceof StreamError ? error.message : "The server cannot be reached.");
  }
}

/** Returns what the notices of a stream say, and where. */
function reasons({ notices }: StreamState): string[] {
  const places = new Map<string, Set<string>>();
  for (const { message, path } of notices) places.set(message, (places.get(message) ?? new Set()).add(path));
  return [...places].map(([message, paths]) => `${message} In ${[...paths].slice(0, WHY_MAX).join(", ")}`);
}

/** Shows the recording of the provider's side, once the stream has ended, if there is one. */
async function readProvider(one: Opened): Promise<void> {
  const isThere = streams.some((stream) => stream.stream_id === one.id && stream.has_recording);
  if (!isThere || !one.isRead || one.recording !== undefined) return;
  one.recording = "";
  const response = await fetch(`streams/${one.id}/provider`, { headers: headers(), signal: one.controller.signal }).catch(() => undefined);
  if (response?.ok !== true) return;
  one.recording = await response.text();
  if (opened !== one) return;
  const wire = new Wire(byId("provider-events"), byId("provider-count"), "Nothing was sent.");
  const side = new ProviderSide(wire, true);
  for (const line of one.recording.split("\n").filter((text) => text !== "")) side.add(line);
  for (const event of one.lines.map(parsed)) if (isRecord(event)) side.match(event);
  side.finish();
  showProvider(true);
}

function showProvider(isShown: boolean): void {
  byId("provider").hidden = !isShown;
  document.querySelector(".panes")?.classList.toggle("no-provider", !isShown);
}

/** Saves a case, which the server makes. */
async function readCase({ id, controller: { signal } }: Opened): Promise<void> {
  saveCase.disabled = true;
  try {
    const response = await fetch(`streams/${id}/case`, { headers: headers(), signal });
    if (!response.ok) throw await errorOfResponse(response);
    download(`${id}.zip`, await response.blob());
  } catch (error) {
    if (!signal.aborted) byId("holds").textContent = `No case was saved. ${error instanceof StreamError ? error.message : "The server cannot be reached."}`;
  }
  saveCase.disabled = opened?.id !== id;
}

/** Saves a file. */
function download(name: string, content: Blob): void {
  const href = URL.createObjectURL(content);
  h("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), POLL_MS);
}

// the controls

const LISTS = [byId("turns"), byId("provider-events"), byId("page-events")];
LISTS.forEach(followEnd);
byId("columns").append(...COLUMNS.map(([label, , look = ""]) => h("th", { role: "columnheader", scope: "col", class: look }, label)));
search.addEventListener("input", draw);
key.addEventListener("change", () => void poll());
window.addEventListener("hashchange", show);
save.addEventListener("click", () => opened !== undefined && download(`${opened.id}.public_sse_v1.ndjson`, new Blob(opened.lines.map((line) => `${line}\n`), { type: "application/x-ndjson" })));
saveCase.addEventListener("click", () => opened !== undefined && void readCase(opened));

async function start(): Promise<void> {
  for (;;) {
    if (!document.hidden) await poll();
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

void start();
