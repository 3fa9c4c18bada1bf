/**
 * Adapter for the AI SDK, versions 5 to 7: a `ChatTransport` for `useChat`, and the UI message stream that it reads.
 * The types are structural, so the package does not depend on `ai`.
 */

import { openStream, type StreamOptions, type StreamRequest } from "./connection.js";
import { StreamError } from "./errors.js";
import type {
  Attachment,
  Citation,
  ErrorDetail,
  FinalDetail,
  Notice,
  PublicSseEvent,
  Usage,
  WorkflowContext,
} from "./public_sse_v1.js";
import { reduce } from "./reduce.js";
import { attachments, imageUrl, initialState, usage, type Item, type StreamState, type ToolItem } from "./state.js";
import { recall, remember } from "./storage.js";

type Metadata = { providerMetadata?: { "public-sse": Record<string, string> } };
type Executed = { providerExecuted?: true; dynamic?: true };
type Id = { id: string };
type CallId = { toolCallId: string };

/** A chunk of a UI message stream: the part of `UIMessageChunk` that is written here. */
export type UiMessageChunk =
  | { type: "start"; messageId: string; messageMetadata: unknown }
  | { type: "start-step" }
  | { type: "finish-step" }
  | ({ type: "text-start" | "text-end" | "reasoning-start" | "reasoning-end" } & Id & Metadata)
  | ({ type: "text-delta" | "reasoning-delta"; delta: string } & Id)
  | ({ type: "tool-input-start"; toolName: string } & CallId & Executed)
  | ({ type: "tool-input-delta"; inputTextDelta: string } & CallId)
  | ({ type: "tool-input-available"; toolName: string; input: unknown } & CallId & Executed)
  | ({ type: "tool-input-error"; toolName: string; input: unknown; errorText: string } & CallId & Executed)
  | ({ type: "tool-output-available"; output: unknown } & CallId & Executed)
  | ({ type: "tool-output-error"; errorText: string } & CallId & Executed)
  | ({ type: "tool-approval-request"; approvalId: string } & CallId)
  | { type: "source-url"; sourceId: string; url: string; title?: string }
  | { type: "source-document"; sourceId: string; mediaType: string; title: string; filename?: string }
  | { type: "file"; url: string; mediaType: string }
  | { type: `data-${string}`; id?: string; data: unknown; transient?: boolean }
  | { type: "message-metadata"; messageMetadata: unknown }
  | { type: "finish"; finishReason: "stop" | "length" | "content-filter" | "tool-calls" | "other"; messageMetadata: unknown }
  | { type: "error"; errorText: string }
  | { type: "abort" };

/** Metadata of a message of the dialect `ai_sdk`: `UIMessage<PublicMetadata, PublicDataParts>`. The end has most of it. */
export interface PublicMetadata {
  stream_id?: string;
  conversation_id?: string;
  status?: FinalDetail["status"];
  /** Why the answer is incomplete or failed. */
  reason?: string;
  usage?: Usage;
  model?: string;
  /** With the status `failed`. */
  error?: ErrorDetail;
}

/** Data of the parts `data-NAME` of a message of the dialect `ai_sdk`. The transport writes `notice` only. */
export type PublicDataParts = {
  approval: { approval_id: string; tool_call_id: string; tool_name: string; server_label?: string };
  attachment: Attachment;
  citation: Citation & { item_id: string; content_index: number; source_id?: string };
  "image-omitted": { item_id: string; field: string; reason: "too_large" };
  item: { item_id: string; item_type: string; status: string };
  lifecycle: { status: string; reason?: string; response_id?: string };
  notice: { kind: string; item_id?: string; notices: Notice[] };
  refusal: { item_id: string; content_index: number };
  "structured-output": { value: unknown };
  "tool-status": { item_id: string; tool_call_id: string; tool_type: string; status: string };
  workflow: WorkflowContext & { name: string; status: "started" | "finished" };
};

type Write = (...chunks: UiMessageChunk[]) => void;

/** A message of `useChat`, as far as it is read here. */
export interface UiMessage {
  role: string;
  parts: readonly { type: string; text?: string }[];
}

export interface TransportOptions extends Omit<StreamRequest, "body" | "resume" | "idempotencyKey">, Omit<StreamOptions, "signal"> {
  /**
   * Returns the body of a request. By default it has the texts of the conversation, and `more`, which is the `body` that
   * `sendMessage` or `regenerate` was given; nothing else can be sent.
   */
  body?: ((messages: readonly UiMessage[], chatId: string, more?: object) => unknown) | undefined;
}

interface SendOptions {
  chatId: string;
  messages: readonly UiMessage[];
  abortSignal?: AbortSignal | undefined;
  headers?: Record<string, string> | Headers | undefined;
  body?: object | undefined;
}

/** A transport for `useChat({ transport })`. `reconnectToStream` continues a chat's last stream after a reload. */
export class PublicChatTransport {
  /** For versions 6 and 7: a resumed answer comes from its beginning, so it replaces what the page has of it. */
  readonly resumeStreamIsReplay = true;
  /** Chat -> signal of its last resumption. */
  private readonly resumed = new Map<string, AbortSignal | undefined>();

  constructor(private readonly options: TransportOptions) {}

  sendMessages = async ({ chatId, messages, abortSignal, headers, body: more }: SendOptions): Promise<ReadableStream<UiMessageChunk>> => {
    const body = (this.options.body ?? bodyOf)(messages, chatId, more);
    return this.open(chatId, { ...this.options, body }, abortSignal, headers);
  };

  reconnectToStream = async (asked: Omit<SendOptions, "messages">): Promise<ReadableStream<UiMessageChunk> | null> => {
    const location = recall(keyOf(asked.chatId));
    if (location === undefined) return null;
    this.resumed.set(asked.chatId, asked.abortSignal);
    const { body: _, ...request } = this.options;
    return this.open(asked.chatId, { ...request, resume: { location } }, asked.abortSignal, asked.headers);
  };

  private open(
    chatId: string,
    request: StreamRequest,
    signal: AbortSignal | undefined,
    more: SendOptions["headers"],
  ): ReadableStream<UiMessageChunk> {
    const headers = async (): Promise<HeadersInit> => {
      const { headers: given } = this.options;
      const own = typeof given === "function" ? await given() : given;
      try {
        const joined = new Headers(own);
        new Headers(more).forEach((value, name) => joined.set(name, value));
        return joined;
      } catch {
        return { "": "" }; // illegal too: `openStream` refuses it without the value, which may be a token
      }
    };
    const connection = new AbortController();
    const close = (): void => connection.abort(signal?.reason);
    const cancel = async (): Promise<unknown> => stream.cancel().catch(() => undefined);
    /** Whether the response of the first request has not arrived: the stream has no address then. */
    let isFirst = request.resume === undefined;
    const onOpen: StreamOptions["onOpen"] = (opened) => {
      isFirst = false;
      if (connection.signal.aborted) return;
      if (signal?.aborted) return void cancel().then(close);
      remember(keyOf(chatId), opened.location);
      this.options.onOpen?.(opened);
    };
    const onRetry: StreamOptions["onRetry"] = (retry) => {
      isFirst = false;
      if (signal?.aborted) close();
      else this.options.onRetry?.(retry);
    };
    signal?.throwIfAborted();
    const stream = openStream({ ...request, headers }, { ...this.options, onOpen, onRetry, signal: connection.signal });
    const onAbort = async (): Promise<void> => {
      if (isFirst) return; // `onOpen` cancels the stream
      close();
      const before = this.resumed.get(chatId);
      await Promise.resolve();
      // no stop: in StrictMode the SDK aborts the first resumption, and starts the second in the same task
      if (this.resumed.get(chatId) === before) await cancel();
    };
    signal?.addEventListener("abort", onAbort);
    const forget = (): void => {
      signal?.removeEventListener("abort", onAbort);
      remember(keyOf(chatId), undefined);
    };
    async function* events(): AsyncGenerator<PublicSseEvent, void, undefined> {
      try {
        yield* stream;
      } catch (error) {
        if (error instanceof StreamError && !error.canResume) forget();
        throw error;
      }
    }
    return toUIMessageStream(events(), forget);
  }
}

const keyOf = (chatId: string): string => `public-stream:${chatId}`;

/** Returns the texts of a conversation. Throws if what is new is not a text of the user. */
function bodyOf(messages: readonly UiMessage[], _: string, more?: object): unknown {
  const last = messages.at(-1);
  if (last?.role === "assistant") {
    throw new Error("Results of tools and approvals cannot be sent: they need the dialect `ai_sdk`, or `body`.");
  }
  if (last?.parts.some((part) => part.type === "file")) {
    throw new Error("Files cannot be sent: they need the dialect `ai_sdk`, or `body`.");
  }
  const input = messages.map(({ role, parts }) => {
    const content = parts.map((part) => (part.type === "text" ? (part.text ?? "") : "")).join("");
    return { role, content };
  });
  const told = input.filter(({ role, content }) => content !== "" && (role === "user" || role === "assistant"));
  return { ...(told.length === 1 && told[0]?.role === "user" ? { message: told[0].content } : { input: told }), ...more };
}

/** Returns the chunks of a stream. `onEnd` is called when the stream has ended by itself. */
export function toUIMessageStream(
  events: AsyncIterable<PublicSseEvent>,
  onEnd: () => void = () => undefined,
): ReadableStream<UiMessageChunk> {
  const iterator = events[Symbol.asyncIterator]();
  const writer = new Writer();
  return new ReadableStream({
    async pull(controller) {
      for (;;) {
        const { done, value } = await iterator.next();
        if (done) {
          onEnd();
          controller.close();
          return;
        }
        const chunks = writer.chunksOf(value);
        for (const chunk of chunks) controller.enqueue(chunk);
        if (chunks.length > 0) return;
      }
    },
    async cancel() {
      await iterator.return?.();
    },
  });
}

/** What was written of an item. */
interface Written {
  /** Text so far of each part. */
  texts: Map<string, string>;
  ended: Set<string>;
  citations: number;
  sources: Set<string>;
  argumentsText: string;
  hasStarted?: true;
  hasInput?: true;
  isAnswered?: true;
  hasImage?: true;
  isAwaiting?: true;
}

const FINISHES = { completed: "stop", incomplete: "other", refused: "content-filter" } as const;
const INCOMPLETE = new Map([
  ["content_filter", "content-filter"],
  ["length", "length"],
  ["max_output_tokens", "length"],
  ["model_context_window_exceeded", "length"],
] as const);
const WEB = /^https?:\/\//;
const MEDIA_TYPE = "application/octet-stream";

class Writer {
  private state: StreamState = initialState;
  private isInStep = false;
  private readonly written = new Map<string, Written>();

  chunksOf(event: PublicSseEvent): UiMessageChunk[] {
    const chunks: UiMessageChunk[] = [];
    const write: Write = (...more) => void chunks.push(...more);
    const before = this.state;
    const state = (this.state = reduce(before, event));
    if (state === before) return chunks;
    if (before.streamId === undefined && state.streamId !== undefined) {
      write({ type: "start", messageId: state.streamId, messageMetadata: { stream_id: state.streamId } });
    }
    const isOver = event.kind === "lifecycle" && event.status !== "queued" && event.status !== "in_progress";
    if (state.end === undefined && !isOver) this.beginStep(write);
    const told = state.notices.slice(before.notices.length);
    if (told.length > 0) {
      const { itemId: item_id } = told[0]!;
      const notices = told.map(({ eventId: _, kind: __, itemId: ___, ...notice }) => notice);
      const data = { kind: event.kind, ...(item_id !== undefined && { item_id }), notices } satisfies PublicDataParts["notice"];
      write({ type: "data-notice", id: `notice:${event.stream_id}:${event.event_id}`, data });
    }
    const delta = "delta" in event ? event.delta : undefined;
    state.items.forEach((item, at) => {
      if (item !== before.items[at] && !before.items.includes(item)) this.writeItem(item, delta, write);
    });
    if (isOver) this.endStep(write);
    if (state.end !== undefined) this.writeEnd(state, write);
    return chunks;
  }

  private beginStep(write: Write): void {
    if (!this.isInStep) write({ type: "start-step" });
    this.isInStep = true;
  }

  private endStep(write: Write): void {
    if (this.isInStep && this.state.branches.every((branch) => branch.status !== "in_progress")) {
      write({ type: "finish-step" });
      this.isInStep = false;
    }
  }

  private of(item: Item): Written {
    let found = this.written.get(item.id);
    if (found === undefined) {
      found = { texts: new Map(), ended: new Set(), citations: 0, sources: new Set(), argumentsText: "" };
      this.written.set(item.id, found);
    }
    return found;
  }

  private writeItem(item: Item, delta: string | undefined, write: Write): void {
    const written = this.of(item);
    if (item.kind === "message") {
      for (const part of item.parts) {
        grow(written, "text", `${item.id}:${part.index}`, part.text, delta, write);
        grow(written, "text", `${item.id}:refusal:${part.index}`, part.refusal, delta, write, { kind: "refusal" });
      }
      const citations = item.parts.flatMap((part) => part.citations);
      for (const citation of citations.slice(written.citations)) {
        written.citations += 1;
        writeSource(`${item.id}:source:${written.citations}`, citation, write);
      }
    } else if (item.kind === "reasoning") {
      for (const part of item.parts) grow(written, "reasoning", `${item.id}:${part.index}`, part.text, delta, write, { item_id: item.id });
    } else if (item.kind === "tool") {
      writeCall(item, written, delta, write);
    }
    const url = item.images.some((image) => image.field === "final" && image.isComplete) ? imageUrl(item) : undefined;
    if (url !== undefined && !written.hasImage) {
      written.hasImage = true;
      write({ type: "file", url, mediaType: url.slice("data:".length, url.indexOf(";")) });
    }
    if (item.isDone) endTexts(written, item.kind === "reasoning" ? "reasoning" : "text", write);
  }

  private writeEnd(state: StreamState, write: Write): void {
    for (const item of state.items) {
      const written = this.of(item);
      endTexts(written, item.kind === "reasoning" ? "reasoning" : "text", write);
      if (item.kind === "tool" && item.approval === "answered" && !written.isAnswered) answer(item, written, { status: "answered" }, write);
    }
    this.writeUnsaidText(state, write);
    if (this.isInStep) write({ type: "finish-step" });
    const { status, end } = state;
    if (end?.kind === "error") {
      const { error } = end;
      write({ type: "message-metadata", messageMetadata: { status, error } }, { type: "error", errorText: error.message });
      return;
    }
    for (const { url, mime_type: mediaType = MEDIA_TYPE } of attachments(state)) {
      if (url !== undefined && WEB.test(url)) write({ type: "file", url, mediaType });
    }
    const messageMetadata = { status, usage: usage(state), reason: state.reason };
    if (status === "completed" || status === "incomplete" || status === "refused") {
      const isPending = [...this.written.values()].some((one) => one.hasInput && !one.isAnswered);
      const incomplete = status === "incomplete" ? INCOMPLETE.get(state.reason as "content_filter") : undefined;
      const finishReason = incomplete ?? (status === "completed" && isPending ? "tool-calls" : FINISHES[status]);
      write({ type: "finish", finishReason, messageMetadata });
    } else {
      write({ type: "message-metadata", messageMetadata });
      write(status === "cancelled" ? { type: "abort" } : { type: "error", errorText: "The response failed." });
    }
  }

  /** Writes the text of `final` if no delta contained it. */
  private writeUnsaidText(state: StreamState, write: Write): void {
    const final = state.end?.kind === "final" ? state.end.final : undefined;
    const hasText = state.items.some((item) => item.kind === "message" && item.parts.some((part) => part.text + part.refusal !== ""));
    const text = final?.response_text ?? final?.refusal_text;
    if (hasText || !text) return;
    const id = `${state.streamId}:text`;
    write({ type: "text-start", id }, { type: "text-delta", id, delta: text }, { type: "text-end", id });
  }
}

/** Whether a text is a former one and the delta of an event, by its length: comparing or cutting a long text is slow. */
const isLonger = (text: string, before: string, delta: string | undefined): delta is string =>
  delta !== undefined && text.length === before.length + delta.length;

/** Writes what is new of a text. */
function grow(
  written: Written,
  type: "text" | "reasoning",
  id: string,
  text: string,
  given: string | undefined,
  write: Write,
  about?: Record<string, string>,
): void {
  const before = written.texts.get(id);
  if (text === "" || text === before) return;
  if (before === undefined) {
    if (type === "reasoning") endTexts(written, type, write);
    write({ type: `${type}-start`, id, ...(about && { providerMetadata: { "public-sse": about } }) });
    write({ type: `${type}-delta`, id, delta: text });
  } else if (isLonger(text, before, given)) write({ type: `${type}-delta`, id, delta: given });
  else if (text.startsWith(before)) write({ type: `${type}-delta`, id, delta: text.slice(before.length) });
  written.texts.set(id, text);
}

/** Ends the open parts; an ended part keeps its text, so that it is not written again. */
function endTexts(written: Written, type: "text" | "reasoning", write: Write): void {
  for (const id of written.texts.keys()) {
    if (written.ended.has(id)) continue;
    written.ended.add(id);
    write({ type: `${type}-end`, id });
  }
}

function writeSource(sourceId: string, citation: Citation, write: Write): void {
  if (citation.type === "url_citation") {
    const { url, title } = citation;
    if (url !== undefined && WEB.test(url)) write({ type: "source-url", sourceId, url, ...(title !== undefined && { title }) });
    return;
  }
  const { filename, file_id: fileId = "file" } = citation;
  const name = filename === undefined ? {} : { filename };
  write({ type: "source-document", sourceId, mediaType: MEDIA_TYPE, title: filename ?? fileId, ...name });
}

// calls

const isFunction = (call: ToolItem): boolean => call.toolType === "function";
const executed = (call: ToolItem): Executed => (isFunction(call) ? {} : { providerExecuted: true, dynamic: true });

function writeCall(call: ToolItem, written: Written, given: string | undefined, write: Write): void {
  const { toolCallId, tool } = call;
  if (tool === undefined) return;
  if (!written.hasStarted) {
    written.hasStarted = true;
    write({ type: "tool-input-start", toolCallId, toolName: call.name, ...executed(call) });
  }
  const isCalled = isFunction(call) || call.toolType === "mcp";
  if (isCalled && call.itemType !== "custom_tool_call") {
    const { argumentsText: before } = written;
    const delta = isLonger(call.argumentsText, before, given) ? given : call.argumentsText.slice(before.length);
    if (delta !== "" && !written.hasInput) write({ type: "tool-input-delta", toolCallId, inputTextDelta: delta });
    written.argumentsText = call.argumentsText;
  }
  const isOver = call.isDone || tool.status === "completed" || tool.status === "failed";
  const isComplete = isCalled && (call.argumentsJson !== undefined || call.hasArguments || call.approval !== undefined || isOver);
  if (!written.hasInput && isComplete) writeInput(call, written, write);
  else if (!written.hasInput && !isCalled) {
    const input = inputOf(call);
    if (input !== undefined) give(call, written, input, write);
  }
  if (call.approval === "pending" && !written.isAwaiting) {
    written.isAwaiting = true;
    write({ type: "tool-approval-request", approvalId: call.id, toolCallId });
  }
  for (const url of tool.tool_type === "web_search" ? (tool.sources ?? []) : []) {
    if (written.sources.has(url)) continue;
    written.sources.add(url);
    if (WEB.test(url)) write({ type: "source-url", sourceId: `${call.id}:source:${written.sources.size}`, url });
  }
  if (isCalled ? tool.status === "completed" || tool.status === "failed" : call.isDone) writeResult(call, written, write);
}

function inputOf(call: ToolItem): unknown {
  const { tool } = call;
  if (tool?.tool_type === "web_search" && tool.query !== undefined) return { query: tool.query };
  if (tool?.tool_type === "file_search" && tool.queries !== undefined) return { queries: tool.queries };
  return tool?.tool_type === "code_interpreter" && tool.status !== "in_progress" && call.code !== "" ? { code: call.code } : undefined;
}

function give(call: ToolItem, written: Written, input: unknown, write: Write): void {
  written.hasInput = true;
  write({ type: "tool-input-available", toolCallId: call.toolCallId, toolName: call.name, input: accepted(input), ...executed(call) });
}

function writeInput(call: ToolItem, written: Written, write: Write): void {
  const { argumentsText: text, argumentsJson: json, toolCallId, name: toolName } = call;
  if (call.itemType === "custom_tool_call") give(call, written, text, write);
  else if (json !== undefined || text.trim() === "") give(call, written, json ?? {}, write);
  else {
    written.hasInput = written.isAnswered = true;
    const isCutOff = !call.hasArguments && call.isDone && call.status !== "completed";
    const errorText = isCutOff ? "The call was cut off." : "The arguments are not a JSON object.";
    write({ type: "tool-input-error", toolCallId, toolName, input: isCutOff ? null : text, errorText, ...executed(call) });
  }
}

function writeResult(call: ToolItem, written: Written, write: Write): void {
  if (written.isAnswered) return;
  const { tool, outputs, toolCallId } = call;
  if (!written.hasInput) give(call, written, {}, write);
  const isCalled = isFunction(call) || call.toolType === "mcp";
  const output = isCalled ? (outputs.length > 0 ? outputs.at(-1) : "") : resultOf(call);
  const isFailed = isCalled ? tool?.status === "failed" : call.status !== "completed";
  if (!isFailed) return answer(call, written, output, write);
  written.isAnswered = true;
  const text = typeof output === "string" ? output : JSON.stringify(output);
  const errorText = (isCalled && text) || "The tool failed.";
  write({ type: "tool-output-error", toolCallId, errorText, ...executed(call) });
}

function answer(call: ToolItem, written: Written, output: unknown, write: Write): void {
  written.isAnswered = true;
  write({ type: "tool-output-available", toolCallId: call.toolCallId, output: accepted(output), ...executed(call) });
}

/** Returns a value without the members that the SDK refuses in JSON: `__proto__`, and a `constructor` with a `prototype`. */
function accepted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(accepted);
  if (typeof value !== "object" || value === null) return value;
  const isKept = ([name, member]: [string, unknown]) =>
    name !== "__proto__" && !(name === "constructor" && typeof member === "object" && member !== null && "prototype" in member);
  return Object.fromEntries(Object.entries(value).filter(isKept).map(([name, member]) => [name, accepted(member)]));
}

const CONTEXT = new Set(["tool_type", "tool_call_id", "status", "query", "queries"]);

/** Returns the result of a tool of the provider: the members of its last status that are no input, and its outputs. */
function resultOf(call: ToolItem): unknown {
  const result = Object.fromEntries(Object.entries(call.tool ?? {}).filter(([name]) => !CONTEXT.has(name)));
  return call.outputs.length > 0 ? { ...result, outputs: call.outputs } : result;
}
