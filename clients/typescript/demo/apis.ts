/** What is worth seeing of an event of a provider, for each API: its type, its texts, and which texts they continue. */

import { isRecord, type Json } from "../src/checks.js";

/** A part of the text of an event, and the text of the answer that it continues. */
export interface Piece {
  family: string;
  text: string;
  /** Where it is in the text of the event. */
  at: number;
}

export interface Described {
  type: string;
  text: string;
  pieces: Piece[];
  /** ID of the response, where an event of the API has one. */
  response?: unknown;
  isEnd?: boolean;
  /** Whether no event of the page comes of it. */
  isDropped?: boolean;
}

/** Begin of a family of an API without IDs of items: its texts are found by their order. */
export const ORDERED = "#";

type Kind = "text" | "summary" | "refusal" | "arguments" | "code" | "call" | "";
/** A kind of text and the text; `call` begins a call, whose name it is, and an empty kind is for the reader alone. */
type Part = readonly [Kind, unknown];
type Read = Omit<Described, "text" | "pieces"> & { parts: readonly Part[] };

const list = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isRecord) : []);
const record = (value: unknown): Json => (isRecord(value) ? value : {});
const json = (value: unknown): string => (value === undefined ? "" : JSON.stringify(value));

/** Returns the family of texts of a kind, of which each call has its own. */
export const orderedFamily = (kind: string, call: number): string => ORDERED + (kind === "arguments" || kind === "code" ? `${kind}/${call}` : kind);

function ofChat({ id, choices, usage }: Json): Read {
  const { delta, finish_reason: reason } = record(list(choices)[0]);
  const { content, reasoning_content: thought, reasoning, refusal, tool_calls: calls, role } = record(delta);
  const parts: Part[] = [["text", content], ["summary", thought ?? reasoning], ["refusal", refusal]];
  for (const { id: call, function: called } of list(calls)) {
    const { name, arguments: given } = record(called);
    if (call !== undefined) parts.push(["call", name]);
    parts.push(["arguments", given]);
  }
  const has = Object.entries(record(delta)).find(([name, value]) => name !== "role" && value !== null && value !== "");
  if (has !== undefined) {
    const isText = parts.some(([, text]) => typeof text === "string" && text !== "");
    return { type: `delta.${has[0]}`, parts: isText ? parts : [["", json(has[1])]], response: id };
  }
  if (typeof reason === "string") return { type: "finish_reason", parts: [["", reason]], response: id, isEnd: true };
  if (role !== undefined) return { type: "delta.role", parts: [["", role]], response: id };
  return { type: isRecord(usage) ? "usage" : "chunk", parts: [["", isRecord(usage) ? `${usage.total_tokens} tokens` : ""]], response: id };
}

function ofClaude({ type, message, content_block: started, delta: changed }: Json): Read {
  const [block, delta] = [record(started), record(changed)];
  const cited = record(delta.citation);
  const kind = String(delta.type ?? type);
  const CHANGES: Record<string, readonly Part[]> = {
    message_start: [["", record(message).model]],
    message_delta: [["", delta.stop_reason]],
    text_delta: [["text", delta.text]],
    thinking_delta: [["summary", delta.thinking]],
    input_json_delta: [["arguments", delta.partial_json]],
    citations_delta: [["", cited.url ?? cited.title ?? cited.document_title]],
    content_block_start: [["", block.type], ["text", block.text], ["summary", block.thinking], ["", json(block.content)]],
  };
  const isCall = String(block.type).endsWith("tool_use");
  const given = isRecord(block.input) && Object.keys(block.input).length > 0 ? json(block.input) : "";
  const call: Part[] = [["", block.type], ["call", block.name], ["arguments", given]];
  return { type: kind, parts: isCall ? call : (CHANGES[kind] ?? []), response: record(message).id, isEnd: kind === "message_stop", isDropped: kind === "ping" || kind === "signature_delta" };
}

function ofGemini({ responseId: response, candidates, promptFeedback: feedback, usageMetadata: usage }: Json): Read {
  const { content, finishReason: reason } = record(list(candidates)[0]);
  const isEnd = reason !== undefined || feedback !== undefined;
  const found = list(record(content).parts);
  const parts = found.flatMap((part): Part[] => {
    const { functionCall, executableCode, codeExecutionResult, inlineData, fileData } = part;
    if (isRecord(functionCall)) return ofFunctionCall(functionCall);
    if (isRecord(executableCode)) return [["call", ""], ["code", executableCode.code]];
    if (isRecord(codeExecutionResult)) return [["", codeExecutionResult.output]];
    if (isRecord(inlineData)) return [["", `${String(inlineData.mimeType)} ${String(inlineData.data).length} characters`]];
    if (isRecord(fileData)) return [["", fileData.fileUri]];
    return [[part.thought === true ? "summary" : "text", part.text]];
  });
  const shown = found.find(({ text }) => text !== "");
  if (shown !== undefined) return { type: shown.thought === true && "text" in shown ? "thought" : (Object.keys(shown)[0] ?? "part"), parts, response, isEnd };
  const named = Object.entries({ finishReason: reason, promptFeedback: record(feedback).blockReason }).find(([, value]) => value !== undefined);
  const [type, value] = named ?? ["usageMetadata", `${record(usage).totalTokenCount} tokens`];
  return { type, parts: [["", value]], response, isEnd };
}

function ofFunctionCall({ name, args, partialArgs }: Json): Part[] {
  const begin: Part[] = name === undefined ? [] : [["call", name]];
  const values = list(partialArgs).map((one): Part => ["arguments", String(one.stringValue ?? one.numberValue ?? one.boolValue ?? "")]);
  return [...begin, ["arguments", json(args)], ...values];
}

/** Whether an event is of an API, and how it is read. The Responses API, whose events name their items, is not here. */
const APIS: readonly [(event: Json) => boolean, (event: Json) => Read][] = [
  [({ choices }) => Array.isArray(choices), ofChat],
  [({ type }) => /^(message_(start|delta|stop)|content_block_\w+|ping)$/.test(String(type)), ofClaude],
  [(event) => "candidates" in event || "usageMetadata" in event || "promptFeedback" in event, ofGemini],
  [({ type, error }) => type === undefined && isRecord(error), ({ error }) => ({ type: "error", parts: [["", record(error).message]], isEnd: true })],
];

/** Reads the events of one stream in order: calls are counted. */
export class EventReader {
  private calls = 0;

  /** Returns an event of an API of the table, or undefined for one of another API. */
  read(event: Json): Described | undefined {
    const api = APIS.find(([isOf]) => isOf(event));
    if (api === undefined) return undefined;
    const { parts, ...about } = api[1](event);
    const pieces: Piece[] = [];
    let text = "";
    let isApart = false;
    for (const [kind, value] of parts) {
      if (kind === "call") this.calls += 1;
      if (typeof value !== "string" || value === "") continue;
      const isOwn = kind === "" || kind === "call";
      if (text !== "" && (isOwn || isApart) && !value.startsWith(" ")) text += " ";
      isApart = isOwn;
      if (!isOwn) pieces.push({ family: orderedFamily(kind, this.calls), text: value, at: text.length });
      text += value;
    }
    return { ...about, text, pieces };
  }
}
