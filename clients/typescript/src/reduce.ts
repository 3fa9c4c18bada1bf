/** The reducer: applies one event to the state of a stream. Pure, and total: no input makes it throw. */

import { checked, isIndex, isRecord, textOf, type Json } from "./checks.js";
import type {
  AnyTool,
  Citation,
  ErrorDetail,
  FinalDetail,
  Notice,
  PublicSseEvent,
  WorkflowContext,
} from "./public_sse_v1.js";
import type { Branch, Image, Item, ItemCommon, MessageItem, MessagePart, ReasoningItem, StreamState, ToolItem } from "./state.js";

type Writable<T> = { -readonly [K in keyof T]: T[K] };
/** A new state that no one else holds yet. */
type Draft = Writable<StreamState>;
type Handler = (state: Draft, event: Json) => void;

const ENDS = new Set(["completed", "failed", "incomplete", "refused", "cancelled"]);
const TOOLS = new Set(["web_search", "file_search", "code_interpreter", "image_generation", "function", "mcp"]);
const CITATIONS = new Set(["url_citation", "file_citation", "container_file_citation"]);
const IMAGES = new Map<unknown, Image["field"]>([
  ["partial_image_b64", "partial"],
  ["image_b64", "final"],
]);
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

const HANDLERS = new Map<string, Handler>(
  Object.entries({
    lifecycle: onLifecycle,
    "output_item.added": onItem,
    "output_item.done": onItem,
    "message.delta": onText("text"),
    "message.citation": onCitation,
    "reasoning_summary.delta": onSummary,
    "refusal.delta": onText("refusal"),
    "refusal.done": onText("refusal", "refusal_text"),
    "tool.status": onStatus,
    "tool.arguments.delta": onCallText("argumentsText"),
    "tool.arguments.done": onCallText("argumentsText", "arguments_text"),
    "tool.code.delta": onCallText("code"),
    "tool.code.done": onCallText("code", "code"),
    "tool.output": onOutput,
    "chunk.delta": onChunk,
    "chunk.done": onChunkDone,
    error: onError,
    final: onFinal,
  } satisfies Record<PublicSseEvent["kind"], Handler>),
);

/**
 * Returns the state after an event. Events that were applied before, that belong to another stream or that follow the
 * end return the same state; of an event of an unknown kind, or with members of a wrong type, only the ID is kept.
 */
export function reduce(state: StreamState, event: PublicSseEvent): StreamState {
  const given: unknown = event;
  if (!isRecord(given) || given.schema !== "public_sse_v1" || state.end !== undefined) return state;
  const { event_id: eventId, stream_id: streamId, kind } = given;
  if (!isIndex(eventId) || eventId <= state.lastEventId) return state;
  if (typeof streamId !== "string" || streamId !== (state.streamId ?? streamId)) return state;
  const next: Draft = { ...state, streamId, lastEventId: eventId };
  const handler = HANDLERS.get(kind as string);
  if (handler === undefined) return next;
  if (state.status === "idle") next.status = "in_progress";
  if (typeof given.conversation_id === "string") next.conversationId = given.conversation_id;
  addNotices(next, given, eventId);
  if (handler !== onError && handler !== onFinal) enterBranch(next, given);
  handler(next, given);
  return next;
}

// the envelope

function addNotices(state: Draft, event: Json, eventId: number): void {
  const itemId = textOf(event.item_id);
  const found = noticesOf(event).map((one) => ({ ...one, eventId, kind: event.kind as string, ...optional({ itemId }) }));
  if (found.length > 0) state.notices = [...state.notices, ...found];
}

function noticesOf(event: Json): Notice[] {
  const given: unknown[] = Array.isArray(event.notices) ? event.notices : [];
  return given.filter(isRecord).map(checked).filter(isNotice) as unknown[] as Notice[];
}

const isNotice = ({ type, path, message }: Json) =>
  (type === "redacted" || type === "truncated") && path !== undefined && message !== undefined;

function enterBranch(state: Draft, event: Json): void {
  const workflow = isRecord(event.workflow) ? (checked(event.workflow) as WorkflowContext) : undefined;
  const key = keyOf(event);
  const agent = textOf(event.agent);
  const responseId = textOf(event.response_id);
  const at = state.branches.findIndex((branch) => branch.key === key);
  const old = state.branches[at];
  if (old !== undefined && (agent ?? old.agent) === old.agent && (responseId ?? old.responseId) === old.responseId) return;
  if (old?.responseId !== undefined && responseId !== undefined && responseId !== old.responseId) answer(state, key);
  const known: Branch = { key, status: "in_progress", ...optional({ workflow }), ...old, ...optional({ agent, responseId }) };
  state.branches = placed(state.branches, at, known);
}

/** Returns the key of a branch: its place in the workflow. */
function keyOf(event: Json): string {
  if (!isRecord(event.workflow)) return "";
  const { stage_name, step_name, parallel_group, branch_index } = checked(event.workflow);
  return JSON.stringify([stage_name, step_name, parallel_group, branch_index]);
}

/** Marks approvals of a branch as answered, because its next response has started. */
function answer(state: Draft, branch: string): void {
  state.items = state.items.map((item) =>
    item.kind === "tool" && item.branch === branch && item.approval === "pending" ? { ...item, approval: "answered" } : item,
  );
}

// responses and items

function onLifecycle(state: Draft, event: Json): void {
  const status = textOf(event.status);
  if (status === undefined) return;
  const reason = textOf(event.reason);
  const key = keyOf(event);
  state.branches = state.branches.map((branch) =>
    branch.key === key ? { ...branch, status, ...optional({ reason }) } : branch,
  );
  if (reason !== undefined) state.reason = reason;
  state.status = status === "queued" && state.items.length === 0 ? status : "in_progress";
}

function onItem(state: Draft, event: Json): void {
  const old = itemOf(state, event);
  const itemType = textOf(event.item_type);
  if (old === undefined || itemType === undefined) return;
  const isDone = event.kind === "output_item.done";
  const status = textOf(event.status) ?? (isDone ? "completed" : "in_progress");
  put(state, { ...old, itemType, status, isDone, ...optional({ role: textOf(event.role) }) });
  if (itemType === "message") messageOf(state, event);
  if (itemType === "reasoning") reasoningOf(state, event);
}

/** Returns the item of an event; a new one if there is none with its ID. */
function itemOf(state: Draft, event: Json): Item | undefined {
  const { item_id: id, output_index: outputIndex } = event;
  if (typeof id !== "string" || !isIndex(outputIndex)) return undefined;
  const old = state.items.find((item) => item.id === id);
  if (old !== undefined) return old;
  return {
    ...{ kind: "other", id, outputIndex, itemType: "", status: "in_progress", isDone: false },
    ...{ branch: keyOf(event), images: [], ...optional({ agent: textOf(event.agent), responseId: textOf(event.response_id) }) },
  } as Item;
}

function put(state: Draft, item: Item): void {
  const at = state.items.findIndex((one) => one.id === item.id);
  const items = placed(state.items, at, item);
  state.items = at < 0 ? items.sort((a, b) => a.outputIndex - b.outputIndex) : items;
}

/** Returns the item of an event as one of a kind, or nothing if it is of another kind. */
function as<T extends Item>(state: Draft, event: Json, kind: T["kind"], made: Omit<T, keyof ItemCommon | "kind">): T | undefined {
  const item = itemOf(state, event);
  if (item === undefined || item.kind === kind) return item as T | undefined;
  if (item.kind !== "other") return undefined;
  const converted = { ...item, ...made, kind } as unknown as T;
  put(state, converted);
  return converted;
}

const messageOf = (state: Draft, event: Json) => as<MessageItem>(state, event, "message", { parts: [] });
const reasoningOf = (state: Draft, event: Json) => as<ReasoningItem>(state, event, "reasoning", { parts: [] });

// text

function withPart<P extends { readonly index: number }>(parts: readonly P[], empty: P, change: (part: P) => P): P[] {
  const at = parts.findIndex((part) => part.index === empty.index);
  return placed(parts, at, change(parts[at] ?? empty)).sort((a, b) => a.index - b.index);
}

function changePart(state: Draft, event: Json, change: (part: MessagePart) => Partial<MessagePart>): void {
  const index = event.content_index;
  if (!isIndex(index)) return;
  const message = messageOf(state, event);
  if (message === undefined) return;
  const empty: MessagePart = { index, text: "", refusal: "", citations: [] };
  put(state, { ...message, parts: withPart(message.parts, empty, (part) => ({ ...part, ...change(part) })) });
}

/** Handles a text of a part: appends `delta`, or replaces what was said by another member of the event. */
function onText(member: "text" | "refusal", given = "delta"): Handler {
  return (state, event) => {
    const text = textOf(event[given]);
    const before = (part: MessagePart) => (given === "delta" ? part[member] : "");
    if (text !== undefined) changePart(state, event, (part) => ({ [member]: before(part) + text }));
  };
}

function onCitation(state: Draft, event: Json): void {
  if (!isRecord(event.citation)) return;
  const citation = checked(event.citation) as unknown as Citation;
  if (CITATIONS.has(citation.type)) changePart(state, event, (part) => ({ citations: [...part.citations, citation] }));
}

function onSummary(state: Draft, event: Json): void {
  const { delta, summary_index: index } = event;
  if (typeof delta !== "string" || !isIndex(index)) return;
  const reasoning = reasoningOf(state, event);
  if (reasoning === undefined) return;
  const parts = withPart(reasoning.parts, { index, text: "" }, (part) => ({ ...part, text: part.text + delta }));
  put(state, { ...reasoning, parts });
}

// tools

/** Returns the call of an event, with its type, ID and name from the event, or its `tool`, or from its first one. */
function callOf(state: Draft, event: Json, given = event): ToolItem | undefined {
  const { tool_type: toolType, tool_call_id: toolCallId, tool_name: toolName, name = toolName } = given;
  if (typeof toolCallId !== "string") return undefined;
  const known = TOOLS.has(toolType as string) ? (toolType as ToolItem["toolType"]) : undefined;
  const call = as<ToolItem>(state, event, "tool", {
    ...{ toolType: known ?? "code_interpreter", toolCallId, name: "" },
    ...{ argumentsText: "", code: "", outputs: [] },
  });
  if (call === undefined) return undefined;
  return { ...call, ...optional({ toolType: known }), name: textOf(name) ?? (call.name || (known ?? call.toolType)) };
}

function onStatus(state: Draft, event: Json): void {
  if (!isRecord(event.tool)) return;
  const given = checked(event.tool);
  if (!TOOLS.has(given.tool_type as string) || given.status === undefined) return;
  const call = callOf(state, event, given);
  if (call === undefined) return;
  const { arguments_text: argumentsText, arguments_json: argumentsJson } = given;
  const isPending = given.status === "awaiting_approval" && call.approval === undefined;
  const told = optional({ argumentsText, argumentsJson, approval: isPending ? "pending" : undefined });
  put(state, { ...call, tool: given as unknown as AnyTool, ...told } as ToolItem);
}

/** Handles arguments or code: appends `delta`, or replaces what was said by another member of the event. */
function onCallText(member: "argumentsText" | "code", given = "delta"): Handler {
  return (state, event) => {
    const text = textOf(event[given]);
    const call = text === undefined ? undefined : callOf(state, event);
    if (call === undefined) return;
    const argumentsJson = isRecord(event.arguments_json) ? event.arguments_json : undefined;
    const told = optional({ argumentsJson, hasArguments: given === "arguments_text" ? true : undefined });
    put(state, { ...call, [member]: (given === "delta" ? call[member] : "") + text, ...told });
  };
}

function onOutput(state: Draft, event: Json): void {
  const call = "output" in event ? callOf(state, event) : undefined;
  if (call !== undefined) put(state, { ...call, outputs: [...call.outputs, event.output] });
}

// images

function changeImage(state: Draft, event: Json, change: (image: Image) => Image | undefined): void {
  const target = isRecord(event.target) ? event.target : {};
  const field = IMAGES.get(target.field);
  const item = itemOf(state, event);
  if (field === undefined || item === undefined) return;
  const partIndex = isIndex(target.part_index) ? target.part_index : 0;
  const at = item.images.findIndex((image) => image.field === field && image.partIndex === partIndex);
  const empty: Image = { field, partIndex, data: "", chunks: 0, isComplete: false, isTruncated: false };
  const changed = change(item.images[at] ?? empty);
  if (changed !== undefined) put(state, { ...item, images: placed(item.images, at, changed) });
}

function onChunk(state: Draft, event: Json): void {
  const { data, encoding, chunk_index: index } = event;
  if (typeof data !== "string" || encoding !== "base64" || !BASE64.test(data)) return;
  changeImage(state, event, (image) =>
    index === image.chunks && !image.isComplete ? { ...image, data: image.data + data, chunks: image.chunks + 1 } : undefined,
  );
}

function onChunkDone(state: Draft, event: Json): void {
  const isTruncated = noticesOf(event).some((notice) => notice.type === "truncated");
  changeImage(state, event, (image) => ({ ...image, isComplete: true, isTruncated }));
}

// the end

function onFinal(state: Draft, event: Json): void {
  if (!isRecord(event.final)) return;
  const final = checked(event.final) as unknown as FinalDetail;
  if (!ENDS.has(final.status)) return;
  state.status = final.status;
  state.end = { kind: "final", final };
}

function onError(state: Draft, event: Json): void {
  if (!isRecord(event.error)) return;
  const given: Partial<ErrorDetail> = checked(event.error);
  state.status = "failed";
  state.end = { kind: "error", error: { message: "", source: "server", is_retryable: false, ...given } };
}

/** Returns a list with a value at an index, or at the end if that is -1. */
const placed = <T>(list: readonly T[], at: number, value: T): T[] =>
  at < 0 ? [...list, value] : list.map((one, n) => (n === at ? value : one));

/** Returns the members that have a value. */
function optional<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as never;
}
