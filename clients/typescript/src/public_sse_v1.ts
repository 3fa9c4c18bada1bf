// Generated from the models of `public_sse_v1`; do not edit.

/** Position of an event in a workflow run (6.2). */
export interface WorkflowContext {
  workflow_key?: string | null;
  workflow_run_id?: string | null;
  stage_name?: string | null;
  step_name?: string | null;
  step_agent?: string | null;
  parallel_group?: string | null;
  branch_index?: number | null;
}

/** A value was withheld or truncated (8). */
export interface Notice {
  type: "redacted" | "truncated";
  /** Path from the event to the value: `tool.results[2].text`. */
  path: string;
  message: string;
}

/** A web page cited by a message. */
export interface UrlCitation {
  type: "url_citation";
  start_index?: number;
  end_index?: number;
  title?: string;
  url?: string;
}

/** A file cited by a message. */
export interface FileCitation {
  type: "file_citation";
  file_id?: string;
  filename?: string;
  index?: number;
}

/** A file of a code interpreter container, cited by a message. */
export interface ContainerFileCitation {
  type: "container_file_citation";
  container_id?: string;
  file_id?: string;
  filename?: string;
  start_index?: number;
  end_index?: number;
}

/** Members of every tool status. */
export interface Tool {
  tool_call_id: string;
}

/** A web search. */
export interface WebSearchTool extends Tool {
  tool_type: "web_search";
  status: "in_progress" | "searching" | "completed";
  query?: string;
  sources?: string[];
}

/** A passage found by a file search. */
export interface FileSearchResult {
  file_id?: string;
  filename?: string;
  score?: number;
  text?: string;
  attributes?: Record<string, unknown>;
}

/** A file search. */
export interface FileSearchTool extends Tool {
  tool_type: "file_search";
  status: "in_progress" | "searching" | "completed";
  queries?: string[];
  results?: FileSearchResult[];
}

/** Code run in a container. */
export interface CodeInterpreterTool extends Tool {
  tool_type: "code_interpreter";
  status: "in_progress" | "interpreting" | "completed";
  container_id?: string;
  container_mode?: "auto" | "explicit";
}

/** A generated image; its bytes are sent in chunks. */
export interface ImageGenerationTool extends Tool {
  tool_type: "image_generation";
  status: "in_progress" | "generating" | "partial_image" | "completed";
  revised_prompt?: string;
  format?: string;
  size?: string;
  quality?: string;
  background?: string;
}

/** A function call; `in_progress` at the end of the stream means that it waits for the client. */
export interface FunctionTool extends Tool {
  tool_type: "function";
  status: "in_progress" | "completed" | "failed";
  name: string;
  arguments_text?: string;
  arguments_json?: Record<string, unknown>;
  output?: unknown;
}

/** A tool of an MCP server. */
export interface McpTool extends Tool {
  tool_type: "mcp";
  status: "awaiting_approval" | "in_progress" | "completed" | "failed";
  server_label?: string;
  tool_name: string;
  arguments_text?: string;
  arguments_json?: Record<string, unknown>;
  output?: unknown;
}

/** The field that chunks belong to. */
export interface ChunkTarget {
  entity_kind: "tool_call" | "message";
  entity_id: string;
  field: "partial_image_b64" | "image_b64";
  part_index?: number;
}

/** Error of a stream, and whether a retry may succeed. */
export interface ErrorDetail {
  code?: string;
  message: string;
  source: "provider" | "server";
  is_retryable: boolean;
}

/** A file stored by the host. */
export interface Attachment {
  object_id: string;
  filename?: string;
  mime_type?: string;
  url?: string;
}

/** Token usage; numbers that the provider does not report are absent. */
export interface Usage {
  input_tokens?: number;
  output_tokens?: number;
  total_tokens?: number;
  cached_input_tokens?: number;
  reasoning_output_tokens?: number;
}

/** The complete result. */
export interface FinalDetail {
  status: "completed" | "failed" | "incomplete" | "refused" | "cancelled";
  response_text?: string;
  structured_output?: unknown;
  reasoning_summary_text?: string;
  refusal_text?: string;
  attachments?: Attachment[];
  usage?: Usage;
}

/** Members of every event (6). */
export interface Envelope {
  schema: "public_sse_v1";
  /** Increases by one with every event of the stream. */
  event_id: number;
  stream_id: string;
  /** UTC with milliseconds and `Z`. */
  server_timestamp: string;
  conversation_id?: string | null;
  response_id?: string | null;
  agent?: string | null;
  workflow?: WorkflowContext | null;
  provider_sequence_number?: number;
  notices?: Notice[];
}

/** An event of one output item (6.3). */
export interface ItemEvent extends Envelope {
  /** Position of the item in the transcript. */
  output_index: number;
  item_id: string;
}

/** An event of one tool call. */
export interface CallEvent extends ItemEvent {
  tool_call_id: string;
}

/** The status of a response changed (9.1). */
export interface Lifecycle extends Envelope {
  kind: "lifecycle";
  status: "queued" | "in_progress" | "completed" | "failed" | "incomplete" | "cancelled";
  reason?: string;
}

/** Members of both item events. */
export interface OutputItem extends ItemEvent {
  /** The provider's item type: `message`, `reasoning`, `function_call`, ... */
  item_type: string;
  role?: string;
  status?: string;
}

/** An output item starts (9.2). */
export interface OutputItemAdded extends OutputItem {
  kind: "output_item.added";
}

/** An output item is complete (9.2). */
export interface OutputItemDone extends OutputItem {
  kind: "output_item.done";
}

/** Text to append to a message (9.3). */
export interface MessageDelta extends ItemEvent {
  kind: "message.delta";
  content_index: number;
  delta: string;
}

/** A source cited by a part of a message (9.4). */
export interface MessageCitation extends ItemEvent {
  kind: "message.citation";
  content_index: number;
  citation: Citation;
}

/** Text to append to a reasoning summary (9.5). */
export interface ReasoningSummaryDelta extends ItemEvent {
  kind: "reasoning_summary.delta";
  summary_index: number;
  delta: string;
}

/** Text to append to a refusal (9.6). */
export interface RefusalDelta extends ItemEvent {
  kind: "refusal.delta";
  content_index: number;
  delta: string;
}

/** The complete refusal (9.6). */
export interface RefusalDone extends ItemEvent {
  kind: "refusal.done";
  content_index: number;
  refusal_text: string;
}

/** The status of a tool call, or a member of it, changed (9.7). */
export interface ToolStatus extends ItemEvent {
  kind: "tool.status";
  tool: AnyTool;
}

/** Text to append to the arguments of a call (9.8). */
export interface ToolArgumentsDelta extends CallEvent {
  kind: "tool.arguments.delta";
  tool_type: "function" | "mcp";
  tool_name: string;
  delta: string;
}

/** The complete arguments of a call (9.8). */
export interface ToolArgumentsDone extends CallEvent {
  kind: "tool.arguments.done";
  tool_type: "function" | "mcp";
  tool_name: string;
  arguments_text: string;
  /** The parsed text, if it is an object. */
  arguments_json?: Record<string, unknown>;
}

/** Text to append to the code of a call (9.9). */
export interface ToolCodeDelta extends CallEvent {
  kind: "tool.code.delta";
  delta: string;
}

/** The complete code of a call (9.9). */
export interface ToolCodeDone extends CallEvent {
  kind: "tool.code.done";
  code: string;
}

/** The output of a tool (9.10). */
export interface ToolOutput extends CallEvent {
  kind: "tool.output";
  tool_type: "web_search" | "file_search" | "code_interpreter" | "image_generation" | "function" | "mcp";
  output: unknown;
}

/** One chunk of a large field; each can be decoded alone (9.11). */
export interface ChunkDelta extends ItemEvent {
  kind: "chunk.delta";
  target: ChunkTarget;
  encoding: "base64";
  chunk_index: number;
  data: string;
}

/** A large field is complete (9.11). */
export interface ChunkDone extends ItemEvent {
  kind: "chunk.done";
  target: ChunkTarget;
}

/** The stream failed; last event (9.12). */
export interface ErrorEvent extends Envelope {
  kind: "error";
  error: ErrorDetail;
}

/** The stream ended; last event (9.13). */
export interface FinalEvent extends Envelope {
  kind: "final";
  final: FinalDetail;
}

export type Citation = UrlCitation | FileCitation | ContainerFileCitation;

export type AnyTool =
  | WebSearchTool
  | FileSearchTool
  | CodeInterpreterTool
  | ImageGenerationTool
  | FunctionTool
  | McpTool;

/** One event of the public stream. The discriminator is `kind`. */
export type PublicSseEvent =
  | Lifecycle
  | OutputItemAdded
  | OutputItemDone
  | MessageDelta
  | MessageCitation
  | ReasoningSummaryDelta
  | RefusalDelta
  | RefusalDone
  | ToolStatus
  | ToolArgumentsDelta
  | ToolArgumentsDone
  | ToolCodeDelta
  | ToolCodeDone
  | ToolOutput
  | ChunkDelta
  | ChunkDone
  | ErrorEvent
  | FinalEvent;
