// Compiled, never run: what a page may and may not do with an event.

import type { AnyTool, Citation, PublicSseEvent } from "../../contracts/public_sse_v1/public_sse_v1";

declare const event: PublicSseEvent;

// The envelope is there before anything is known.
const eventId: number = event.event_id;
const schema: "public_sse_v1" = event.schema;
const step: string | null | undefined = event.workflow?.step_name;
for (const notice of event.notices ?? []) {
  const type: "redacted" | "truncated" = notice.type;
  void type;
}
void [eventId, schema, step];

// @ts-expect-error: only some kinds have a delta
void event.delta;
// @ts-expect-error: the envelope has no payload
void event.payload;

/** Every kind is handled, and the compiler says when one is not. */
export function text(event: PublicSseEvent): string {
  switch (event.kind) {
    case "lifecycle":
      return event.reason ?? event.status;
    case "output_item.added":
    case "output_item.done":
      return event.item_type + (event.role ?? "");
    case "message.delta":
      return event.delta.slice(event.content_index);
    case "message.citation":
      return cited(event.citation);
    case "reasoning_summary.delta":
      return event.delta.slice(event.summary_index);
    case "refusal.delta":
      return event.delta;
    case "refusal.done":
      return event.refusal_text;
    case "tool.status":
      return said(event.tool);
    case "tool.arguments.delta":
      return event.tool_name + event.delta;
    case "tool.arguments.done":
      return event.arguments_text + Object.keys(event.arguments_json ?? {}).join();
    case "tool.code.delta":
      return event.delta;
    case "tool.code.done":
      return event.code;
    case "tool.output":
      return JSON.stringify(event.output);
    case "chunk.delta":
      return event.target.field + event.data;
    case "chunk.done":
      return event.target.entity_id;
    case "error":
      return event.error.is_retryable ? event.error.message : event.error.source;
    case "final":
      return event.final.response_text ?? event.final.refusal_text ?? event.final.status;
    default:
      return unreachable(event);
  }
}

function cited(citation: Citation): string {
  switch (citation.type) {
    case "url_citation":
      return citation.url ?? "";
    case "file_citation":
    case "container_file_citation":
      return citation.filename ?? "";
    default:
      return unreachable(citation);
  }
}

function said(tool: AnyTool): string {
  switch (tool.tool_type) {
    case "web_search":
      return (tool.sources ?? []).join();
    case "file_search":
      return (tool.results ?? []).map((result) => result.text ?? "").join();
    case "code_interpreter":
      return tool.container_mode ?? "";
    case "image_generation":
      return tool.revised_prompt ?? "";
    case "function":
      return tool.name;
    case "mcp":
      return tool.tool_name + (tool.server_label ?? "");
    default:
      return unreachable(tool);
  }
}

function unreachable(value: never): never {
  throw new Error(`unexpected ${String(value)}`);
}

if (event.kind === "final") {
  // @ts-expect-error: a final has no error
  void event.error;
  // @ts-expect-error: `queued` is no end
  void (event.final.status === "queued");
  // @ts-expect-error: what the provider does not report is absent
  const tokens: number = event.final.usage?.input_tokens;
  void tokens;
}

if (event.kind === "tool.status" && event.tool.tool_type === "web_search") {
  // @ts-expect-error: a web search cannot fail
  void (event.tool.status === "failed");
  // @ts-expect-error: results belong to a file search
  void event.tool.results;
}

if (event.kind === "tool.output") {
  // @ts-expect-error: an output is unknown until it is looked at
  void event.output.length;
}

// @ts-expect-error: no such kind
void (event.kind === "message.done");

const envelope = { schema, event_id: 1, stream_id: "stream_1", server_timestamp: "2025-12-15T12:00:00.000Z" };
export const good: PublicSseEvent = { ...envelope, kind: "lifecycle", status: "queued", response_id: null };
// @ts-expect-error: `reason` is absent or text
export const bad: PublicSseEvent = { ...envelope, kind: "lifecycle", status: "queued", reason: null };
// @ts-expect-error: an item event has a place
export const lost: PublicSseEvent = { ...envelope, kind: "message.delta", content_index: 0, delta: "" };
