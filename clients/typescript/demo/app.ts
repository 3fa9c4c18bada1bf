/** The demo page: asks, and shows both sides of the answer and the answer itself. */

import { initialState, openStream, reduce, sseParser, StreamError, type EventStream, type StreamState, type ToolItem } from "../src/index.js";
import { recall, remember } from "../src/storage.js";
import { byId, h } from "./dom.js";
import { atFrame, followEnd, toEnd } from "./frames.js";
import { Answer } from "./show.js";
import { spoken } from "./spoken.js";
import { describePublic, isRecord, parsed, ProviderSide, Wire } from "./wires.js";

const KINDS: readonly [string, string][] = [
  ["Text", "Hello! When do you open?"],
  ["Search with citations", "Search the news for me"],
  ["Code", "Calculate the mean fare"],
  ["Image", "Draw a bell"],
  ["Tools", "Call a tool: when do the boats leave?"],
  ["Approval", "Book two seats, but let me approve it"],
  ["Reasoning", "Think about it step by step"],
  ["Refusal", "Refuse this, please"],
  ["Failure", "Let it fail"],
  ["Secrets", "Tell me a secret"],
];
const PUBLIC = "public_sse_v1";
const DIALECTS: Record<string, string> = {
  [PUBLIC]: "this page",
  ai_sdk: "useChat of the AI SDK",
  ag_ui: "AG-UI clients such as CopilotKit",
  responses: "OpenAI clients of the Responses API",
  chat_completions: "OpenAI clients of Chat Completions",
  openresponses: "Open Responses clients",
};
const STORED = "projector-demo";

type Body = { message: string } | { input: unknown[]; previous_response_id?: string };

const ask = byId<HTMLFormElement>("ask");
const message = byId<HTMLInputElement>("message");
const stop = byId<HTMLButtonElement>("stop");
const drop = byId<HTMLButtonElement>("drop");
const dialect = byId<HTMLSelectElement>("dialect");
const key = byId<HTMLInputElement>("key");
const turns = byId("turns");
const said = byId("said");
/** What scrolls: its end is in view while an answer arrives. */
const LISTS = [turns, byId("provider-events"), byId("page-events")];

/** One answer, until it has ended. */
interface Run {
  stream: EventStream | undefined;
  controller: AbortController;
  /** Closes the current connection, as a network would. */
  connection: AbortController;
}

let run: Run | undefined;

const headers = (): Record<string, string> => (key.value === "" ? {} : { authorization: `Bearer ${key.value}` });
const problemOf = (error: unknown): string => (error instanceof StreamError ? error.message : "The server cannot be reached.");

/** Announces something to a person who does not see the page. */
const say = (text: string): void => void (said.textContent = text);

function begin(body: Body, question: string | undefined, resumed?: string): void {
  run?.controller.abort();
  turns.querySelector(".hint")?.remove();
  if (question !== undefined) turns.append(h("div", { class: "question" }, question));
  const actions = { approve, run: runFunction, retry: () => begin(body, undefined) };
  const answer = new Answer(actions);
  turns.append(answer.element);
  for (const list of LISTS) toEnd(list);
  const started: Run = { stream: undefined, controller: new AbortController(), connection: new AbortController() };
  run = started;
  busy(true);
  const provider = new ProviderSide(new Wire(byId("provider-events"), byId("provider-count"), "Waiting for the provider…"));
  const page = new Wire(byId("page-events"), byId("page-count"), "Waiting for the first event…");
  const reading = resumed === undefined ? readProvider(body, provider, started) : Promise.resolve();
  const isPublic = dialect.value === PUBLIC || resumed !== undefined;
  const answering = isPublic ? readPublic(body, answer, page, provider, started, resumed) : readOther(body, answer, page, started);
  void answering.finally(async () => {
    if (run === started) busy(false);
    await reading;
    if (isPublic) provider.finish();
  });
}

function busy(isBusy: boolean): void {
  stop.disabled = !isBusy;
  drop.disabled = !isBusy || dialect.value !== PUBLIC;
}

/** Shows what the built-in provider sends for the same request. */
async function readProvider(body: Body, side: ProviderSide, { controller: { signal } }: Run): Promise<void> {
  const input = JSON.stringify("message" in body ? body.message : body.input);
  try {
    const response = await fetch(`demo/provider?input=${encodeURIComponent(input)}`, { signal });
    if (!response.ok || response.body === null) {
      byId("provider").hidden = true; // this server has a real provider, whose stream nobody may see
      document.querySelector("main")?.classList.add("no-provider");
      return;
    }
    for await (const data of dataOf(response.body)) {
      if (signal.aborted) return;
      side.add(data);
    }
  } catch {
    // stopped
  }
}

async function* dataOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const parser = sseParser();
  const reader = body.getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield* parser.feed(decoder.decode(value, { stream: true }));
  }
}

/** Reads the answer with the client, and resumes it where its connection was dropped. */
async function readPublic(body: Body, answer: Answer, page: Wire, provider: ProviderSide, current: Run, resumed?: string): Promise<void> {
  let state: StreamState = initialState;
  let isLost = false;
  const request = { url: `api/v1/chat/stream?dialect=${PUBLIC}`, body, headers, ...(resumed !== undefined && { resume: { location: resumed } }) };
  const { signal } = current.controller;
  current.stream = openStream(request, {
    signal,
    fetch(target, init) {
      current.connection = new AbortController();
      const either = AbortSignal.any([current.connection.signal, ...(init?.signal ? [init.signal] : [])]);
      return fetch(target, { ...init, signal: either });
    },
    onOpen({ location }) {
      answer.forgetRemark();
      if (isLost) say("Connected again.");
      isLost = false;
      remember(STORED, location);
    },
    onRetry({ delayMs }) {
      const after = state.lastEventId;
      isLost = true;
      say("Connection lost. Trying again.");
      page.remark(`Connection lost after event ${after}. The client asks again for what follows.`);
      answer.remark(`Connection lost. Trying again in ${(delayMs / 1000).toFixed(1)} s.`);
    },
  });
  try {
    for await (const event of current.stream) {
      signal.throwIfAborted();
      state = reduce(state, event);
      const data = JSON.stringify(event);
      const { type, preview, tag } = describePublic(event, data);
      page.add(type, data, { preview, tag, isHeld: tag !== "", isLast: state.end !== undefined });
      provider.match({ ...event });
      atFrame(answer, () => answer.show(state));
    }
    answer.show(state);
    say(spoken(state));
  } catch (error) {
    if (signal.aborted) return stopped(answer, current);
    if (resumed !== undefined && state.streamId === undefined) {
      answer.element.remove(); // the stream of the last visit is gone
      return;
    }
    if (state.streamId !== undefined) page.remark(`Connection lost after event ${state.lastEventId}. This stream cannot be resumed.`);
    failed(answer, error);
  } finally {
    remember(STORED, undefined);
  }
}

/** Shows a stream in a dialect for other clients, event by event. */
async function readOther(body: Body, answer: Answer, page: Wire, current: Run): Promise<void> {
  const name = dialect.value;
  answer.remark(`In ${name}, the same answer is for ${DIALECTS[name] ?? "other clients"}: see its events in the second pane.`);
  try {
    const response = await fetch(`api/v1/chat/stream?dialect=${name}`, {
      method: "POST",
      headers: { ...headers(), "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: current.controller.signal,
    });
    if (!response.ok || response.body === null) {
      const problem: unknown = await response.json();
      const detail = isRecord(problem) && typeof problem.detail === "string" ? problem.detail : `Status ${response.status}`;
      throw new StreamError("http", detail, false, { status: response.status });
    }
    for await (const data of dataOf(response.body)) {
      if (current.controller.signal.aborted) return;
      const { type, preview } = describePublic(parsed(data), data);
      page.add(type, data, { preview });
    }
    say("Complete. Its events are in the second pane.");
  } catch (error) {
    if (current.controller.signal.aborted) return stopped(answer, current);
    failed(answer, error);
  }
}

/** Shows that a person or the next question stopped an answer; the next question says what comes then. */
function stopped(answer: Answer, { controller }: Run): void {
  answer.remark("Stopped by this page.");
  if (run?.controller === controller) say("Stopped.");
}

function failed(answer: Answer, error: unknown): void {
  refused(error);
  answer.remark(problemOf(error), true);
  say(problemOf(error));
}

/** Asks for a key if the server requires one. */
function refused(error: unknown): void {
  if (!(error instanceof StreamError) || error.details.status !== 401) return;
  byId("key-row").hidden = false;
  key.focus();
}

function approve(item: ToolItem): void {
  follow(item, { type: "mcp_approval_response", approval_request_id: item.id, approve: true }, "Approved");
}

/** Sends the result of a function; a real page would compute it from `item.argumentsJson`. */
function runFunction(item: ToolItem): void {
  const output = JSON.stringify({ departures: ["14:10", "14:35"] });
  follow(item, { type: "function_call_output", call_id: item.toolCallId, output }, `Result of ${item.name}`);
}

/** Sends what an answer waits for. */
function follow(item: ToolItem, input: object, question: string): void {
  begin({ input: [input], ...(item.responseId !== undefined && { previous_response_id: item.responseId }) }, question);
}

// the controls

for (const [label, text] of KINDS) {
  const button = h("button", { type: "button", "aria-pressed": "false", title: `Ask: ${text}` }, label);
  button.addEventListener("click", () => {
    for (const other of byId("kinds").children) other.setAttribute("aria-pressed", String(other === button));
    begin({ message: text }, text);
  });
  byId("kinds").append(button);
}
for (const name of Object.keys(DIALECTS)) dialect.append(h("option", { value: name }, name));
dialect.addEventListener("change", () => busy(run !== undefined && !stop.disabled));

ask.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = message.value.trim();
  if (text === "") return;
  message.value = "";
  begin({ message: text }, text);
});
stop.addEventListener("click", () => {
  const stopped = run;
  if (stopped === undefined) return;
  const close = (): void => stopped.controller.abort();
  if (stopped.stream === undefined) close();
  else void stopped.stream.cancel().then((isAsked) => (isAsked ? setTimeout(close, 2_000) : close()), close);
});
drop.addEventListener("click", () => run?.connection.abort());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !stop.disabled) stop.click();
  if (event.key === "/" && !(event.target instanceof HTMLInputElement)) {
    event.preventDefault();
    message.focus();
  }
});

LISTS.forEach(followEnd);
new Wire(byId("provider-events"), byId("provider-count"), "Choose an answer above: the provider's raw events appear here, with the instructions, tool settings and secrets that they contain.");
new Wire(byId("page-events"), byId("page-count"), "Here is what the projector lets through: typed events, each bounded, with a notice wherever something was withheld.");

const location = recall(STORED);
if (location !== undefined) begin({ message: "" }, undefined, location);
