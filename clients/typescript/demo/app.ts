/** The demo page: asks, and shows both sides of the answer and the answer itself. */

import { initialState, MARKS, openStream, reduce, StreamError, type EventStream, type StreamState, type ToolItem } from "../src/index.js";
import { byId, h } from "./dom.js";
import { atFrame, followEnd, toEnd } from "./frames.js";
import { resumed } from "./reading.js";
import { Answer } from "./show.js";
import { spoken } from "./spoken.js";
import { keep, kept, type Turn, type Visit } from "./turns.js";
import { describePublic, parsed, ProviderSide, Wire } from "./wires.js";

/** Label, message, and topic of the demo server. */
const KINDS: readonly [string, string, string][] = [
  ["Text", "Hello! When do you open?", "text"],
  ["Search with citations", "Search the news for me", "search"],
  ["Code", "Calculate the mean fare", "code"],
  ["Image", "Draw a bell", "image"],
  ["Tools", "Call a tool: when do the boats leave?", "tool"],
  ["Approval", "Book two seats, but let me approve it", "approval"],
  ["Reasoning", "Think about it step by step", "reasoning"],
  ["Refusal", "Refuse this, please", "refusal"],
  ["Failure", "Let it fail", "failure"],
  ["Secrets", "Tell me a secret", "secret"],
];
const FIRST = "Tell me a secret"; // what a page without questions plays
const PUBLIC = "public_sse_v1";
const DIALECTS: Record<string, string> = {
  [PUBLIC]: "this page",
  ai_sdk: "useChat of the AI SDK",
  ag_ui: "AG-UI clients such as CopilotKit",
  responses: "OpenAI clients of the Responses API",
  chat_completions: "OpenAI clients of Chat Completions",
  openresponses: "Open Responses clients",
};
const DEFAULT_AGENT = "default";
/** Agent of the demo -> the API whose recordings it plays. */
const AGENTS: Record<string, string> = {
  [DEFAULT_AGENT]: "Responses",
  openai_chat: "Chat Completions",
  anthropic_messages: "Claude",
  gemini: "Gemini",
};
const ask = byId<HTMLFormElement>("ask");
const message = byId<HTMLInputElement>("message");
const stop = byId<HTMLButtonElement>("stop");
const drop = byId<HTMLButtonElement>("drop");
const dialect = byId<HTMLSelectElement>("dialect");
const agent = byId<HTMLSelectElement>("agent");
const key = byId<HTMLInputElement>("key");
const turns = byId("turns");
const said = byId("said");
/** What scrolls: its end is in view while an answer arrives. */
const LISTS = [turns, byId("provider-events"), byId("page-events")];

/** One answer, until it has ended. */
interface Run {
  stream: EventStream | undefined;
  controller: AbortController;
  /** Close the connections on which the page gets events, as a network would. */
  connections: Set<AbortController>;
}

/** What is behind this page. */
interface About {
  /** Whether the provider is the built-in one; the stream of a real one may be seen by nobody. */
  has_provider: boolean;
  needs_key: boolean;
  /** Agent of the built-in provider -> the topics of which it has an example. */
  topics: Record<string, readonly string[]>;
}

const NOTHING: About = { has_provider: false, needs_key: false, topics: {} };
const about: Promise<About> = fetch("demo/about").then(
  async (response) => (response.ok ? ((await response.json()) as About) : NOTHING),
  () => NOTHING,
);
const visit: Visit = { dialect: PUBLIC, turns: [] };
let run: Run | undefined;

const titleOf = (question: string): string => `Ask: ${question}`;
const headers = (): Record<string, string> => (key.value === "" ? {} : { authorization: `Bearer ${key.value}` });
const problemOf = (error: unknown): string => (error instanceof StreamError ? error.message : "The server cannot be reached.");

/** Announces something to a person who does not see the page. */
const say = (text: string): void => void (said.textContent = text);

/** Returns a request to the agent of the chosen provider; the default one needs no name. */
const toAgent = (body: Turn["body"]): Turn["body"] => (agent.value === DEFAULT_AGENT ? body : { ...body, agent: agent.value });

/** Asks a question, or the last one again. */
function begin(body: Turn["body"], question?: string, isFirst = false): void {
  if (!isFirst) turns.querySelector(".hint")?.remove();
  const turn: Turn = { body, question, dialect: dialect.value };
  visit.turns.push(turn);
  read(turn, drawn(turn));
}

/** Adds a question and the place of its answer to the conversation. */
function drawn(turn: Turn, canAct = true): Answer {
  for (const one of byId("kinds").children) one.setAttribute("aria-pressed", String(one.getAttribute("title") === titleOf(turn.question ?? "")));
  const { agent: from = DEFAULT_AGENT } = turn.body;
  const about = [from !== DEFAULT_AGENT && `from ${AGENTS[from] ?? from}`, turn.dialect !== PUBLIC && `in ${turn.dialect}`].filter((text) => text !== false);
  const label = about.length === 0 ? [] : [" ", h("small", {}, about.join(" "))];
  if (turn.question !== undefined) turns.append(h("div", { class: "question" }, turn.question, ...label));
  const answer = new Answer(canAct ? { approve: (item) => approve(turn, item), run: (item) => runFunction(turn, item), retry: () => retry(turn) } : undefined);
  turns.append(answer.element);
  return answer;
}

/** Sends a request again, or, where an answer to an approval came too late, the question that led to it. */
function retry(turn: Turn): void {
  const asked = turn.isLate ? visit.turns.slice(0, visit.turns.indexOf(turn)).findLast(({ body }) => "message" in body) : undefined;
  begin((asked ?? turn).body, asked?.question);
}

/** Reads a stream from its beginning, into all three panes. */
function read(turn: Turn, answer: Answer): void {
  leave(run);
  for (const list of LISTS) toEnd(list);
  const current: Run = { stream: undefined, controller: new AbortController(), connections: new Set() };
  run = current;
  busy(true);
  const wire = new Wire(byId("provider-events"), byId("provider-count"), "Waiting for the provider…");
  const provider = new ProviderSide(wire);
  const page = new Wire(byId("page-events"), byId("page-count"), "Waiting for the first event…");
  let sent: Promise<void> | undefined;
  const onOpen = (location: string): void => {
    turn.location = location;
    keep(visit);
    sent ??= readProvider(location, provider, current);
  };
  const answering = turn.dialect === PUBLIC ? readPublic(turn, answer, provider, current, onOpen, page) : readOther(turn, answer, provider, current, onOpen, page);
  void answering.finally(async () => {
    if (run === current) busy(false);
    await sent;
    provider.finish();
    if (run !== current) return;
    wire.still("Nothing was sent.");
    page.still("No event came.");
  });
}

/** Cancels the answer before, if it has not ended: nobody would read it. */
function leave(before: Run | undefined): void {
  if (before === undefined || stop.disabled) return;
  before.stream?.cancel().catch(() => undefined);
  before.controller.abort();
}

function busy(isBusy: boolean): void {
  stop.disabled = !isBusy;
  drop.disabled = !isBusy;
}

/** Sends a request on a connection that the page can close. */
function connect({ connections, controller }: Run, target: string | URL | Request, init: RequestInit = {}): Promise<Response> {
  const connection = new AbortController();
  connections.add(connection);
  const signals = [connection.signal, controller.signal, ...(init.signal ? [init.signal] : [])];
  return fetch(target, { ...init, signal: AbortSignal.any(signals) });
}

/** Shows what the built-in provider sent for a stream, and sends while it runs. */
async function readProvider(location: string, side: ProviderSide, { controller: { signal } }: Run): Promise<void> {
  if (!(await about).has_provider) return;
  const url = `demo/provider/${location.slice(location.lastIndexOf("/") + 1)}`;
  const open = (after: number): Promise<Response> => fetch(`${url}?after=${after}`, { headers: headers(), signal });
  try {
    for await (const data of resumed({ open, signal })) side.add(data);
    side.close();
  } catch {
    // the next question, or the server is gone: the second pane shows that
  }
}

type OnOpen = (location: string) => void;

/** Reads the answer with the client, and resumes it where its connection was dropped. Without `page`, another dialect is in the second pane. */
async function readPublic(turn: Turn, answer: Answer, provider: ProviderSide, current: Run, onOpen: OnOpen, page?: Wire): Promise<void> {
  let state: StreamState = initialState;
  let isLost = false;
  const isFirst = turn.location === undefined;
  const { signal } = current.controller;
  current.stream = openStream(requestOf(turn), {
    signal,
    fetch: (target, init) => (String(target).endsWith("/cancel") ? fetch(target, init) : connect(current, inPublic(target), init)),
    onOpen({ location }) {
      answer.forgetRemark();
      if (isLost) say("Connected again.");
      isLost = false;
      if (location !== undefined) onOpen(location);
    },
    onRetry({ delayMs }) {
      isLost = true;
      say("Connection lost. Trying again.");
      page?.remark(lostAfter(state.lastEventId));
      answer.remark(`Connection lost. Trying again in ${(delayMs / 1000).toFixed(1)} s.`);
    },
  });
  try {
    for await (const event of current.stream) {
      signal.throwIfAborted();
      state = reduce(state, event);
      const data = JSON.stringify(event);
      const { type, preview, tag } = describePublic(event, data);
      page?.add(type, data, { preview, tag, isHeld: tag !== "", isLast: state.end !== undefined });
      provider.match({ ...event });
      atFrame(answer, () => answer.show(state));
    }
    answer.show(state);
    say(spoken(state));
  } catch (error) {
    if (signal.aborted) return stopped(answer, current);
    if (!isFirst || state.streamId !== undefined) page?.remark(`Connection lost after event ${state.lastEventId}. This stream cannot be resumed.`);
    failed(turn, answer, error);
  }
}

/** Reads the answer in a dialect for other clients; what the page shows is drawn from the same stream. */
async function readOther(turn: Turn, answer: Answer, provider: ProviderSide, current: Run, onOpen: OnOpen, page: Wire): Promise<void> {
  const { signal } = current.controller;
  let drawing: Promise<void> | undefined;
  const init = { method: "POST", headers: { ...headers(), "content-type": "application/json" }, body: JSON.stringify(turn.body) };
  const draw = (): void => {
    if (drawing !== undefined) return;
    answer.note(`Drawn from the same stream in ${PUBLIC}. The events in the second pane are for ${DIALECTS[turn.dialect] ?? "other clients"}.`);
    drawing = readPublic(turn, answer, provider, current, onOpen);
  };
  const open = async (after: number): Promise<Response> => {
    if (turn.location !== undefined) {
      draw();
      return connect(current, `${turn.location}/events?dialect=${turn.dialect}&after=${after}`, { headers: headers() });
    }
    const response = await connect(current, `api/v1/chat/stream?dialect=${turn.dialect}`, init);
    const location = response.headers.get("location");
    if (!response.ok || location === null) return response;
    onOpen(location);
    draw();
    return response;
  };
  const onLost = (after: number, error: unknown): void => {
    if (turn.location === undefined) throw error; // without an address a stream cannot be resumed
    page.remark(lostAfter(after));
  };
  try {
    for await (const data of resumed({ open, signal, onLost })) {
      const { type, preview } = describePublic(parsed(data), data);
      page.add(type, data, { preview, isHeld: data.search(MARKS) >= 0 });
    }
    if (drawing === undefined) answer.remark("This server keeps no streams: its events are in the second pane.");
  } catch (error) {
    if (signal.aborted && drawing === undefined) stopped(answer, current);
    else if (!signal.aborted) failed(turn, answer, error);
  }
  await drawing;
}

const lostAfter = (event: number): string => `Connection lost after event ${event}. The client asks again for what follows.`;

function requestOf({ body, location }: Turn) {
  return { url: `api/v1/chat/stream?dialect=${PUBLIC}`, body, headers, ...(location !== undefined && { resume: { location } }) };
}

/** Returns the address of events in the dialect that the page reads, whatever the dialect of their first reader was. */
const inPublic = (target: string | URL | Request): string | URL | Request =>
  typeof target === "string" && target.includes("/events?") ? `${target}&dialect=${PUBLIC}` : target;

/** Shows that a person or the next question stopped an answer; the next question says what comes then. */
function stopped(answer: Answer, { controller }: Run): void {
  answer.remark("Stopped by this page.");
  if (run?.controller === controller) say("Stopped.");
}

function failed(turn: Turn, answer: Answer, error: unknown): void {
  refused(error);
  turn.isLate = error instanceof StreamError && error.details.problem?.code === "unknown_response";
  answer.remark(problemOf(error), turn.isLate ? "Ask again" : "Try again");
  say(problemOf(error));
}

/** Shows the conversation of a visit again, as far as the server has its streams; returns whether there is any. */
async function restore(before: Visit | undefined): Promise<boolean> {
  if (before === undefined) return false;
  if (before.dialect in DIALECTS) dialect.value = visit.dialect = before.dialect;
  if (before.agent !== undefined && before.agent in AGENTS) agent.value = visit.agent = before.agent;
  const areKept = await Promise.all(before.turns.map(isKept));
  const found = before.turns.filter((_, n) => areKept[n]);
  if (run !== undefined || found.length === 0) return run !== undefined;
  turns.querySelector(".hint")?.remove();
  visit.turns.push(...found);
  for (const turn of found) {
    const isLast = turn === found.at(-1);
    const answer = drawn(turn, isLast);
    if (isLast) read(turn, answer);
    else void redraw(turn, answer);
  }
  return true;
}

const isKept = ({ location }: Turn): Promise<boolean> =>
  fetch(location ?? "", { headers: headers() }).then(
    ({ ok }) => ok,
    () => false,
  );

/** Shows an earlier answer again, which has ended. */
async function redraw(turn: Turn, answer: Answer): Promise<void> {
  let state: StreamState = initialState;
  try {
    for await (const event of openStream(requestOf(turn), { fetch: (target, init) => fetch(inPublic(target), init) })) state = reduce(state, event);
    answer.show(state);
    toEnd(turns); // it is above the last one
  } catch (error) {
    answer.remark(problemOf(error));
  }
}

/** Asks for a key if the server requires one. */
function refused(error: unknown): void {
  if (!(error instanceof StreamError) || error.details.status !== 401) return;
  byId("key-row").hidden = false;
  key.focus();
}

function approve(turn: Turn, item: ToolItem): void {
  follow(turn, item, { type: "mcp_approval_response", approval_request_id: item.id, approve: true }, "Approved");
}

/** Sends the result of a function; a real page would compute it from `item.argumentsJson`. */
function runFunction(turn: Turn, item: ToolItem): void {
  const output = JSON.stringify({ departures: ["14:10", "14:35"] });
  follow(turn, item, { type: "function_call_output", call_id: item.toolCallId, output }, `Result of ${item.name}`);
}

/** Sends what an answer waits for. Only the Responses API remembers its responses: others get the conversation again. */
function follow({ body, question: asked = "" }: Turn, item: ToolItem, input: object, question: string): void {
  const call = { type: "function_call", call_id: item.toolCallId, name: item.name, arguments: item.argumentsText || "{}" };
  if (body.agent !== undefined) begin({ agent: body.agent, input: [{ role: "user", content: asked }, call, input] }, question);
  else begin({ input: [input], ...(item.responseId !== undefined && { previous_response_id: item.responseId }) }, question);
}

// the controls

const kinds = KINDS.map(([label, text, topic]) => {
  const button = h("button", { type: "button", "aria-pressed": "false", title: titleOf(text) }, label);
  button.addEventListener("click", () => begin(toAgent({ message: text }), text));
  byId("kinds").append(button);
  return { button, topic };
});
for (const name of Object.keys(DIALECTS)) dialect.append(h("option", { value: name }, name));
dialect.addEventListener("change", () => {
  visit.dialect = dialect.value;
  keep(visit);
});

ask.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = message.value.trim();
  if (text === "") return;
  message.value = "";
  begin(toAgent({ message: text }), text);
});
for (const [name, api] of Object.entries(AGENTS)) agent.append(h("option", { value: name }, api));
agent.addEventListener("change", () => {
  visit.agent = agent.value;
  keep(visit);
  void offer();
});

/** Offers the kinds of answers of which the chosen provider has an example. */
async function offer(): Promise<void> {
  const { [agent.value]: topics } = (await about).topics;
  for (const { button, topic } of kinds) button.disabled = topics?.includes(topic) === false;
}

stop.addEventListener("click", () => {
  const stopped = run;
  if (stopped === undefined) return;
  const close = (): void => stopped.controller.abort();
  if (stopped.stream === undefined) return close();
  setTimeout(close, 2_000); // also if the request hangs
  void stopped.stream.cancel().then((isAsked) => isAsked || close(), close);
});
drop.addEventListener("click", () => {
  for (const connection of run?.connections ?? []) connection.abort();
  run?.connections.clear();
});
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

/** Shows what was there before a reload; the first visit plays an answer by itself, so that no one sees an empty page. */
async function start(): Promise<void> {
  const [isRestored, { has_provider: hasProvider, needs_key: needsKey }] = await Promise.all([restore(kept()), about]);
  byId("provider").hidden = byId("agent-choice").hidden = !hasProvider;
  if (!hasProvider) agent.value = DEFAULT_AGENT;
  await offer();
  document.querySelector("main")?.classList.toggle("no-provider", !hasProvider);
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (!isRestored && run === undefined && hasProvider && !needsKey && !isStill) begin({ message: FIRST }, FIRST, true);
}

void start();
