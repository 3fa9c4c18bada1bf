/** Adapter for assistant-ui: the messages of its external store. The types are structural. */

import type { Citation } from "./public_sse_v1.js";
import { approvals, imageUrl, responseText, toolStatus, type Item, type StreamState, type ToolItem } from "./state.js";
import type { UseStream } from "./react.js";

type Args = { readonly [key: string]: ArgValue };
type ArgValue = string | number | boolean | null | Args | readonly ArgValue[];

/** A part of `ThreadMessageLike`. */
export type ThreadPart =
  | { readonly type: "text" | "reasoning"; readonly text: string }
  | { readonly type: "source"; readonly sourceType: "url"; readonly id: string; readonly url: string; readonly title?: string }
  | { readonly type: "image"; readonly image: string }
  | {
      readonly type: "tool-call";
      readonly toolCallId: string;
      readonly toolName: string;
      readonly args: Args;
      readonly argsText: string;
      readonly result?: unknown;
      readonly isError?: boolean;
      readonly approval?: { readonly id: string };
    };

export interface ThreadMessage {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly content: readonly ThreadPart[];
  readonly status?:
    | { readonly type: "running" }
    | { readonly type: "complete"; readonly reason: "stop" }
    | { readonly type: "requires-action"; readonly reason: "tool-calls" }
    | { readonly type: "incomplete"; readonly reason: "cancelled" | "length" | "content-filter" | "error" | "other"; readonly error?: string };
}

/** Returns the message of the assistant for a stream. */
export function toThreadMessage(state: StreamState, id: string = state.streamId ?? "answer"): ThreadMessage {
  const content = state.items.flatMap((item) => partsOf(item, state));
  const hasText = content.some((part) => part.type === "text");
  const said = hasText ? "" : responseText(state);
  return {
    id,
    role: "assistant",
    content: said === "" ? content : [...content, { type: "text", text: said }],
    status: statusOf(state),
  };
}

/**
 * Returns the options of `useExternalStoreRuntime` for a stream: the earlier messages, and the answer that is running.
 * `onSend` receives the text of a new message; add it to the earlier messages and call `send`. `onDecide` receives a
 * person's decision on a call that waits for it; send it as `mcp_approval_response`. An answer that failed, or that the
 * server refused, has the reason as the `error` of its status: `ErrorPrimitive.Message` shows it. One whose connection
 * was closed is `cancelled`.
 */
export function externalStore(
  stream: Pick<UseStream, "state" | "isRunning" | "stop"> & Partial<Pick<UseStream, "error">>,
  earlier: readonly ThreadMessage[],
  onSend: (text: string) => void,
  onDecide?: (item: ToolItem, approve: boolean) => void,
) {
  const { state, isRunning, stop, error } = stream;
  const isLost = error instanceof Error && state.end === undefined;
  const why = isLost ? ({ reason: "error", error: error.message } as const) : ({ reason: "cancelled" } as const);
  const isCut = state.end === undefined && !isRunning;
  const answer: ThreadMessage = { ...toThreadMessage(state), ...(isCut && { status: { type: "incomplete", ...why } }) };
  return {
    isRunning,
    messages: state.streamId === undefined && !isLost ? earlier : [...earlier, answer],
    convertMessage: (message: ThreadMessage): ThreadMessage => message,
    onNew: async (message: { content: readonly { type: string; text?: string }[] }): Promise<void> =>
      onSend(message.content.map((part) => (part.type === "text" ? (part.text ?? "") : "")).join("")),
    onCancel: async (): Promise<void> => stop(),
    onRespondToToolApproval: ({ approvalId, approved }: { approvalId: string; approved: boolean }): void => {
      const item = approvals(state).find(({ id }) => id === approvalId);
      if (item !== undefined) onDecide?.(item, approved);
    },
  };
}

function partsOf(item: Item, state: StreamState): ThreadPart[] {
  const url = imageUrl(item);
  const images: ThreadPart[] = url === undefined ? [] : [{ type: "image", image: url }];
  if (item.kind === "tool") return [callOf(item, state), ...images];
  if (item.kind === "reasoning") return item.parts.map(({ text }) => ({ type: "reasoning", text }));
  if (item.kind !== "message") return images;
  const texts = item.parts.flatMap(({ text, refusal }) => [text, refusal]).filter((text) => text !== "");
  const sources = item.parts.flatMap((part) => part.citations).flatMap((citation, n) => sourceOf(`${item.id}:${n}`, citation));
  return [...texts.map((text): ThreadPart => ({ type: "text", text })), ...sources, ...images];
}

function sourceOf(id: string, citation: Citation): ThreadPart[] {
  if (citation.type !== "url_citation" || !/^https?:\/\//.test(citation.url ?? "")) return [];
  const { url = "", title } = citation;
  return [{ type: "source", sourceType: "url", id, url, ...(title !== undefined && { title }) }];
}

function callOf(call: ToolItem, state: StreamState): ThreadPart {
  const status = toolStatus(call, state);
  const args = (call.argumentsJson ?? (call.code === "" ? {} : { code: call.code })) as Args;
  const result = call.outputs.at(-1) ?? (status === "completed" ? (call.tool ?? {}) : undefined);
  return {
    type: "tool-call",
    toolCallId: call.toolCallId,
    toolName: call.name,
    args,
    argsText: call.argumentsText || JSON.stringify(args),
    ...(result !== undefined && { result }),
    ...(status === "failed" && { isError: true }),
    ...(status === "awaiting_approval" && { approval: { id: call.id } }),
  };
}

const LENGTHS = new Set(["length", "max_output_tokens", "model_context_window_exceeded"]);

function statusOf(state: StreamState): NonNullable<ThreadMessage["status"]> {
  const { status, reason } = state;
  if (state.end === undefined) return { type: "running" };
  if (status === "cancelled") return { type: "incomplete", reason: "cancelled" };
  const message = state.end.kind === "error" ? state.end.error.message : "";
  if (status === "failed") return { type: "incomplete", reason: "error", ...(message !== "" && { error: message }) };
  if (status === "refused" || reason === "content_filter") return { type: "incomplete", reason: "content-filter" };
  if (status === "incomplete") return { type: "incomplete", reason: LENGTHS.has(reason ?? "") ? "length" : "other" };
  const waits = state.items.some((item) => item.kind === "tool" && /^(waiting|awaiting)/.test(toolStatus(item, state)));
  return waits ? { type: "requires-action", reason: "tool-calls" } : { type: "complete", reason: "stop" };
}
