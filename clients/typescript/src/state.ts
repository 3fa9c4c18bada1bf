/** The state of a stream, as a page shows it. Everything in it is read-only and shared between states. */

import { MARKS } from "./marks.js";
import type {
  AnyTool,
  Attachment,
  Citation,
  ErrorDetail,
  FinalDetail,
  Notice,
  Usage,
  WorkflowContext,
} from "./public_sse_v1.js";

/** Members of every item. */
export interface ItemCommon {
  readonly id: string;
  /** Position in the transcript. */
  readonly outputIndex: number;
  /** The provider's type: `message`, `function_call`, ...; empty until it is known. */
  readonly itemType: string;
  /** `in_progress` until the item is done, then `completed`, `incomplete`, `failed`, ... */
  readonly status: string;
  readonly isDone: boolean;
  readonly role?: string;
  readonly agent?: string;
  readonly responseId?: string;
  /** `key` of the item's branch. */
  readonly branch: string;
  readonly images: readonly Image[];
}

/** A part of a message. */
export interface MessagePart {
  readonly index: number;
  readonly text: string;
  readonly refusal: string;
  readonly citations: readonly Citation[];
}

export interface MessageItem extends ItemCommon {
  readonly kind: "message";
  readonly parts: readonly MessagePart[];
}

/** The model thinks; without parts, the provider sends no summary. */
export interface ReasoningItem extends ItemCommon {
  readonly kind: "reasoning";
  readonly parts: readonly { readonly index: number; readonly text: string }[];
}

export interface ToolItem extends ItemCommon {
  readonly kind: "tool";
  readonly toolType: AnyTool["tool_type"];
  readonly toolCallId: string;
  /** Name of the function or MCP tool; for other tools the tool type. */
  readonly name: string;
  /** The last `tool.status`. */
  readonly tool?: AnyTool;
  /** The arguments so far. */
  readonly argumentsText: string;
  /** Whether `argumentsText` is complete. */
  readonly hasArguments?: boolean;
  /** The complete arguments, if they are a JSON object. */
  readonly argumentsJson?: Readonly<Record<string, unknown>>;
  /** The code so far, of a code interpreter. */
  readonly code: string;
  readonly outputs: readonly unknown[];
  /** Whether a person was asked to approve the call, and whether the stream has gone on since. */
  readonly approval?: "pending" | "answered";
}

/** An item that has no representation of its own in the contract. */
export interface OtherItem extends ItemCommon {
  readonly kind: "other";
}

export type Item = MessageItem | ReasoningItem | ToolItem | OtherItem;

/** An image in base64; `final` follows the `partial` ones. */
export interface Image {
  readonly field: "partial" | "final";
  readonly partIndex: number;
  readonly data: string;
  readonly chunks: number;
  readonly isComplete: boolean;
  /** The server withheld the rest; do not show it. */
  readonly isTruncated: boolean;
}

/** A branch of a run; a stream without a workflow has one, with an empty key. */
export interface Branch {
  readonly key: string;
  readonly workflow?: WorkflowContext;
  readonly agent?: string;
  readonly responseId?: string;
  /** Status of its last response. */
  readonly status: string;
  readonly reason?: string;
}

/** A notice, and the event and item that it belongs to. */
export interface StateNotice extends Notice {
  readonly eventId: number;
  readonly kind: string;
  readonly itemId?: string;
}

/** How the stream ended. */
export type End =
  | { readonly kind: "final"; readonly final: FinalDetail }
  | { readonly kind: "error"; readonly error: ErrorDetail };

export interface StreamState {
  readonly streamId?: string;
  /** ID of the last event; the position to resume from. */
  readonly lastEventId: number;
  readonly conversationId?: string;
  /** Status of the whole stream: that of `final`, or `failed` for an error. */
  readonly status: "idle" | "queued" | "in_progress" | FinalDetail["status"];
  /** Why the last response is incomplete or failed. */
  readonly reason?: string;
  /** In the order of the transcript. */
  readonly items: readonly Item[];
  readonly branches: readonly Branch[];
  /** Of every event; several may be about the same value. */
  readonly notices: readonly StateNotice[];
  readonly end?: End;
}

export const initialState: StreamState = { lastEventId: 0, status: "idle", items: [], branches: [], notices: [] };

const finalOf = ({ end }: StreamState): FinalDetail | undefined => (end?.kind === "final" ? end.final : undefined);

/** Returns the text of the answer: that of `final`, or else of all messages so far. */
export function responseText(state: StreamState): string {
  const texts = state.items.map((item) => (item.kind === "message" ? item.parts.map((part) => part.text).join("") : ""));
  return finalOf(state)?.response_text ?? texts.filter((text) => text !== "").join("\n\n");
}

export const usage = (state: StreamState): Usage | undefined => finalOf(state)?.usage;

export const attachments = (state: StreamState): readonly Attachment[] => finalOf(state)?.attachments ?? [];

/** Returns in how many places a page shows a value only in part, because it was too long. `final` repeats others. */
export const truncated = (state: StreamState): number =>
  new Set(state.notices.filter(({ type, kind }) => type === "truncated" && kind !== "final").map(placeOf)).size;

const placeOf = ({ kind, itemId, path }: StateNotice): string => `${itemId} ${kind.startsWith("tool.arguments.") ? "" : path}`;

/** Returns how many marks of withheld values a page shows. Notices would count twice: those of `final` are sums. */
export function withheld(state: StreamState): number {
  const shown = state.items.map((item) => {
    if (item.kind !== "tool") return item.kind === "other" ? [] : item.parts;
    const { arguments_text: _, arguments_json: __, ...tool } = { ...item.tool } as Record<string, unknown>;
    return [item.argumentsText || item.argumentsJson, item.code, item.outputs, tool];
  });
  const hasText = state.items.some((item) => item.kind === "message");
  return JSON.stringify([shown, hasText ? "" : responseText(state)]).match(MARKS)?.length ?? 0;
}

/** Returns the calls that wait for a person's approval. */
export const approvals = (state: StreamState): ToolItem[] =>
  state.items.filter((item): item is ToolItem => item.kind === "tool" && item.approval === "pending");

/**
 * Returns the notices of the arguments of a call. With one they are not what the model wrote: do not run the function
 * with a mark or a piece in place of a value.
 */
export const argumentNotices = (item: ToolItem, state: StreamState): StateNotice[] =>
  state.notices.filter(({ itemId, path }) => itemId === item.id && /^(tool\.)?arguments_/.test(path));

/**
 * Returns the status of a call as a page shows it; `waiting` is a function that the page has to run, which one with
 * truncated arguments is not.
 */
export function toolStatus(
  item: ToolItem,
  state: StreamState,
): "running" | "awaiting_approval" | "waiting" | "completed" | "failed" {
  const status = item.tool?.status;
  if (item.approval !== undefined) return item.approval === "pending" ? "awaiting_approval" : "completed";
  if (status === "completed" || status === "failed") return status;
  if (item.status === "failed" || item.status === "incomplete") return "failed";
  if (state.end === undefined) return "running";
  const isWhole = !argumentNotices(item, state).some(({ type, path }) => type === "truncated" && path.includes("_text"));
  return item.toolType === "function" && item.isDone && isWhole && state.status === "completed" ? "waiting" : "failed";
}

/** A piece of a text, with the citations that refer to it; a citation of a place has an empty text. */
export interface Segment {
  text: string;
  citations: Citation[];
}

/** Returns the text of a part in pieces, with citations in place. Positions count code points; others come last. */
export function segments({ text: whole, citations: all }: MessagePart): Segment[] {
  if (all.length === 0) return whole ? [{ text: whole, citations: [] }] : [];
  const characters = [...whole];
  const spans = all.map((citation) => spanOf(citation, characters.length));
  const edges = [...new Set([0, characters.length, ...spans.flat()])].sort((a, b) => a - b);
  const places = new Map(edges.map((edge, at) => [edge, at * 2]));
  // of each edge, its place and the text that follows
  const pieces = edges.flatMap((start, at) =>
    ["", characters.slice(start, edges[at + 1]).join("")].map((text) => ({ text, citations: [] as Citation[] })),
  );
  all.forEach((citation, n) => {
    const [from, to] = spans[n]!;
    let at = places.get(from)! + (from < to ? 1 : 0);
    do pieces[at]!.citations.push(citation);
    while (edges[(at += 2) >> 1]! < to);
  });
  return pieces.filter(({ text, citations }) => text || citations[0]);
}

function spanOf(citation: Citation, length: number): [number, number] {
  const { index, start_index: from = index, end_index: to = index } = citation as Partial<Record<"index" | "start_index" | "end_index", number>>;
  const end = Math.min(to ?? length, length);
  return [Math.min(from ?? end, end), end];
}

const IMAGE_FORMATS = new Set<unknown>(["png", "jpeg", "webp", "gif"]);

/** Returns the newest complete image of an item as a data URL. */
export function imageUrl(item: Item): string | undefined {
  const shown = item.images.filter((image) => image.isComplete && !image.isTruncated && image.data !== "");
  const image = shown.find((one) => one.field === "final") ?? shown.at(-1);
  if (image === undefined) return undefined;
  const format = item.kind === "tool" && item.tool?.tool_type === "image_generation" ? item.tool.format : undefined;
  return `data:image/${IMAGE_FORMATS.has(format) ? format : "png"};base64,${image.data}`;
}
