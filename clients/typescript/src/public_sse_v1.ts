// Generated from the models of `public_sse_v1`; do not edit.

/** Position of an event in a workflow run. */
export interface WorkflowContext {
  /** Name of the workflow. */
  workflow_key?: string | null;
  /** ID of the run. */
  workflow_run_id?: string | null;
  /** Name of the stage. */
  stage_name?: string | null;
  /** Name of the step. */
  step_name?: string | null;
  /** Agent of the step. */
  step_agent?: string | null;
  /** Name of the group of parallel branches. */
  parallel_group?: string | null;
  /** Number of the branch in its group. */
  branch_index?: number | null;
}

/** A value was withheld or truncated. */
export interface Notice {
  /** What happened to the value. */
  type: "redacted" | "truncated";
  /** Path from the event to the value: `tool.results[2].text`. */
  path: string;
  /** Text for people: classes and counts, never the value. */
  message: string;
}

/** A web page cited by a message. */
export interface UrlCitation {
  /** Type of the citation. */
  type: "url_citation";
  /** First code point of the citing text in its part. */
  start_index?: number;
  /** Code point after the citing text. */
  end_index?: number;
  /** Title of the page. */
  title?: string;
  /** Address. */
  url?: string;
}

/** A file cited by a message. */
export interface FileCitation {
  /** Type of the citation. */
  type: "file_citation";
  /** The provider's ID of the file. */
  file_id?: string;
  /** Name of the file. */
  filename?: string;
  /** Code point of the part at which the file is cited. */
  index?: number;
}

/** A file of a code interpreter container, cited by a message. */
export interface ContainerFileCitation {
  /** Type of the citation. */
  type: "container_file_citation";
  /** The provider's ID of the container. */
  container_id?: string;
  /** The provider's ID of the file. */
  file_id?: string;
  /** Name of the file. */
  filename?: string;
  /** First code point of the citing text in its part. */
  start_index?: number;
  /** Code point after the citing text. */
  end_index?: number;
}

/** Members of every tool status. */
export interface Tool {
  /** ID of the call, the same on each of its events and unique in the stream. */
  tool_call_id: string;
}

/** A web search. */
export interface WebSearchTool extends Tool {
  /** Type of the tool. */
  tool_type: "web_search";
  /** Status of the search. */
  status: "in_progress" | "searching" | "completed";
  /** The search query. */
  query?: string;
  /** Addresses of the pages that were found or cited. */
  sources?: string[];
}

/** A passage found by a file search. */
export interface FileSearchResult {
  /** The provider's ID of the file. */
  file_id?: string;
  /** Name of the file. */
  filename?: string;
  /** Relevance, as the provider reports it. */
  score?: number;
  /** The passage. */
  text?: string;
  /** Attributes that the host stored with the file. */
  attributes?: Record<string, unknown>;
}

/** A file search. */
export interface FileSearchTool extends Tool {
  /** Type of the tool. */
  tool_type: "file_search";
  /** Status of the search. */
  status: "in_progress" | "searching" | "completed";
  /** The search queries. */
  queries?: string[];
  /** The passages that were found. */
  results?: FileSearchResult[];
}

/** Code run in a container. */
export interface CodeInterpreterTool extends Tool {
  /** Type of the tool. */
  tool_type: "code_interpreter";
  /** Status of the run. */
  status: "in_progress" | "interpreting" | "completed";
  /** The provider's ID of the container. */
  container_id?: string;
  /** Who created the container: the provider, or the request. */
  container_mode?: "auto" | "explicit";
}

/** A generated image; its bytes are sent in chunks. */
export interface ImageGenerationTool extends Tool {
  /** Type of the tool. */
  tool_type: "image_generation";
  /** Status of the image. */
  status: "in_progress" | "generating" | "partial_image" | "completed";
  /** The prompt as the model rewrote it. */
  revised_prompt?: string;
  /** Format of the file, such as `png`. */
  format?: string;
  /** Width and height, such as `1024x1024`. */
  size?: string;
  /** Quality, such as `high`. */
  quality?: string;
  /** Background, such as `transparent`. */
  background?: string;
}

/** A function call; `in_progress` at the end of the stream means that it waits for the client. */
export interface FunctionTool extends Tool {
  /** Type of the tool. */
  tool_type: "function";
  /** Status of the execution; `in_progress` at the end: the call is left to the client. */
  status: "in_progress" | "completed" | "failed";
  /** Name of the function. */
  name: string;
  /** The complete arguments. */
  arguments_text?: string;
  /** The parsed arguments, if they are an object. */
  arguments_json?: Record<string, unknown>;
  /** What the function returned: any JSON value. */
  output?: unknown;
}

/** A tool of an MCP server. */
export interface McpTool extends Tool {
  /** Type of the tool. */
  tool_type: "mcp";
  /** Status of the call; `awaiting_approval`: a person has to answer. */
  status: "awaiting_approval" | "in_progress" | "completed" | "failed";
  /** Name of the MCP server. */
  server_label?: string;
  /** Name of the tool. */
  tool_name: string;
  /** The complete arguments. */
  arguments_text?: string;
  /** The parsed arguments, if they are an object. */
  arguments_json?: Record<string, unknown>;
  /** What the tool returned: any JSON value. */
  output?: unknown;
}

/** The field that chunks belong to. */
export interface ChunkTarget {
  /** What has the field. */
  entity_kind: "tool_call" | "message";
  /** Its ID: that of the call, or of the message. */
  entity_id: string;
  /** Name of the field: a preview of an image, or the image. */
  field: "partial_image_b64" | "image_b64";
  /** Number of the preview. */
  part_index?: number;
}

/** Error of a stream, and whether a retry may succeed. */
export interface ErrorDetail {
  /** Stable name of the failure, for programs. */
  code?: string;
  /** Text for people. */
  message: string;
  /** Who failed. */
  source: "provider" | "server";
  /** Whether the same request may succeed later. */
  is_retryable: boolean;
}

/** A file stored by the host. */
export interface Attachment {
  /** The host's ID of the file. */
  object_id: string;
  /** Name of the file. */
  filename?: string;
  /** Media type. */
  mime_type?: string;
  /** Address. */
  url?: string;
}

/** Token usage; numbers that the provider does not report are absent. */
export interface Usage {
  /** Tokens of the requests. */
  input_tokens?: number;
  /** Tokens of the answers. */
  output_tokens?: number;
  /** Sum of both, as the provider reports it. */
  total_tokens?: number;
  /** Input tokens read from a cache. */
  cached_input_tokens?: number;
  /** Output tokens of reasoning. */
  reasoning_output_tokens?: number;
}

/** The complete result. */
export interface FinalDetail {
  /** How the stream ended. */
  status: "completed" | "failed" | "incomplete" | "refused" | "cancelled";
  /** The whole text of the answer. */
  response_text?: string;
  /** The parsed text, if the request asked for JSON. */
  structured_output?: unknown;
  /** The whole reasoning summary. */
  reasoning_summary_text?: string;
  /** The whole refusal. */
  refusal_text?: string;
  /** Files that the host stored. */
  attachments?: Attachment[];
  /** Tokens, summed over all responses of the stream. */
  usage?: Usage;
}

/** Members of every event. */
export interface Envelope {
  /** Name and version of the contract. */
  schema: "public_sse_v1";
  /** Counts the events of the stream from 1; the position to resume from. */
  event_id: number;
  /** The same on every event of the stream. */
  stream_id: string;
  /** UTC with milliseconds and `Z`; never goes back. */
  server_timestamp: string;
  /** The host's ID of the conversation. */
  conversation_id?: string | null;
  /** ID of the provider's response that the event belongs to, once it is known. */
  response_id?: string | null;
  /** Name of the agent that produces the event. */
  agent?: string | null;
  /** Position in a workflow; absent in every other stream. */
  workflow?: WorkflowContext | null;
  /** The provider's own number of its event; it restarts with each response. */
  provider_sequence_number?: number;
  /** Values of this event that were withheld or truncated. */
  notices?: Notice[];
}

/** An event of one output item. */
export interface ItemEvent extends Envelope {
  /** Position of the item in the transcript. */
  output_index: number;
  /** ID of the item; one to one with `output_index`. */
  item_id: string;
}

/** An event of one tool call. */
export interface CallEvent extends ItemEvent {
  /** ID of the call, the same on each of its events and unique in the stream. */
  tool_call_id: string;
}

/** The status of a response changed. */
export interface Lifecycle extends Envelope {
  kind: "lifecycle";
  /** Status of the response. */
  status: "queued" | "in_progress" | "completed" | "failed" | "incomplete" | "cancelled";
  /** Why the response is incomplete or failed. */
  reason?: string;
}

/** Members of both item events. */
export interface OutputItem extends ItemEvent {
  /** The provider's item type: `message`, `reasoning`, `function_call`, ... */
  item_type: string;
  /** Role of a message: `assistant`. */
  role?: string;
  /** Status of the item. */
  status?: "in_progress" | "completed" | "incomplete" | "failed";
}

/** An output item starts. */
export interface OutputItemAdded extends OutputItem {
  kind: "output_item.added";
}

/** An output item is complete. */
export interface OutputItemDone extends OutputItem {
  kind: "output_item.done";
}

/** Text to append to a message. */
export interface MessageDelta extends ItemEvent {
  kind: "message.delta";
  /** Part of the message. */
  content_index: number;
  /** Text to append. */
  delta: string;
}

/** A source cited by a part of a message. */
export interface MessageCitation extends ItemEvent {
  kind: "message.citation";
  /** Part of the message. */
  content_index: number;
  /** What is cited, and where. */
  citation: Citation;
}

/** Text to append to a reasoning summary. */
export interface ReasoningSummaryDelta extends ItemEvent {
  kind: "reasoning_summary.delta";
  /** Part of the summary. */
  summary_index: number;
  /** Text to append. */
  delta: string;
}

/** Text to append to a refusal. */
export interface RefusalDelta extends ItemEvent {
  kind: "refusal.delta";
  /** Part of the message. */
  content_index: number;
  /** Text to append. */
  delta: string;
}

/** The complete refusal. */
export interface RefusalDone extends ItemEvent {
  kind: "refusal.done";
  /** Part of the message. */
  content_index: number;
  /** The complete refusal; it replaces the deltas. */
  refusal_text: string;
}

/** The status of a tool call, or a member of it, changed. */
export interface ToolStatus extends ItemEvent {
  kind: "tool.status";
  /** The call; it replaces the one of the previous status. */
  tool: AnyTool;
}

/** Text to append to the arguments of a call. */
export interface ToolArgumentsDelta extends CallEvent {
  kind: "tool.arguments.delta";
  /** Who runs the tool: the client or host, or an MCP server. */
  tool_type: "function" | "mcp";
  /** Name of the tool. */
  tool_name: string;
  /** Text to append; not yet valid JSON. */
  delta: string;
}

/** The complete arguments of a call. */
export interface ToolArgumentsDone extends CallEvent {
  kind: "tool.arguments.done";
  /** Who runs the tool: the client or host, or an MCP server. */
  tool_type: "function" | "mcp";
  /** Name of the tool. */
  tool_name: string;
  /** The complete arguments; equals the joined deltas. */
  arguments_text: string;
  /** The parsed text, if it is an object. */
  arguments_json?: Record<string, unknown>;
}

/** Text to append to the code of a call. */
export interface ToolCodeDelta extends CallEvent {
  kind: "tool.code.delta";
  /** Text to append. */
  delta: string;
}

/** The complete code of a call. */
export interface ToolCodeDone extends CallEvent {
  kind: "tool.code.done";
  /** The complete code; it replaces the deltas. */
  code: string;
}

/** The output of a tool. */
export interface ToolOutput extends CallEvent {
  kind: "tool.output";
  /** Type of the tool. */
  tool_type: "web_search" | "file_search" | "code_interpreter" | "image_generation" | "function" | "mcp";
  /** What the tool returned: any JSON value. */
  output: unknown;
}

/** One chunk of a large field; each can be decoded alone. */
export interface ChunkDelta extends ItemEvent {
  kind: "chunk.delta";
  /** The field that the chunk belongs to. */
  target: ChunkTarget;
  /** Encoding of `data`. */
  encoding: "base64";
  /** Counts 0, 1, 2, ... for each target. */
  chunk_index: number;
  /** The chunk; it can be decoded alone. */
  data: string;
}

/** A large field is complete. */
export interface ChunkDone extends ItemEvent {
  kind: "chunk.done";
  /** The field that is complete. */
  target: ChunkTarget;
}

/** The stream failed; last event. */
export interface ErrorEvent extends Envelope {
  kind: "error";
  /** What failed. */
  error: ErrorDetail;
}

/** The stream ended; last event. */
export interface FinalEvent extends Envelope {
  kind: "final";
  /** The result. */
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
