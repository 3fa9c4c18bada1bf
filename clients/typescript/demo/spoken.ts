/** What a screen reader says when an answer has ended: what it waits for, and its text without markup. */

import { MARKS, responseText, segments, toolStatus, type StreamState } from "../src/index.js";
import { isLink } from "./message.js";
import { ENDS } from "./show.js";

const SPOKEN_CHARS = 1_000; // the rest is read on the page
const READ_CHARS = 4 * SPOKEN_CHARS;
const MARKUP: readonly [RegExp, string][] = [
  [MARKS, "withheld"],
  [/^ *(?:```|~~~).*$/gm, ""],
  [/!?\[([^\]\n]*)\]\([^)\n]*\)/g, "$1"],
  [/^ {0,3}(?:#{1,6}|>|[-*+]) +/gm, ""],
  [/(\*{1,3}|~~|`+)(?=\S)([^\n]*?\S)\1/g, "$2"],
];

/** Returns the announcement of an answer that has ended. */
export function spoken(state: StreamState): string {
  const { end } = state;
  if (end === undefined) return "";
  if (end.kind === "error") return `The answer failed: ${end.error.message}`;
  const waits = state.items.flatMap((item) => {
    const status = item.kind === "tool" ? toolStatus(item, state) : "";
    if (item.kind !== "tool" || (status !== "awaiting_approval" && status !== "waiting")) return [];
    return [status === "waiting" ? `The answer waits until this page runs ${item.name}.` : `${item.name} needs your approval.`];
  });
  const texts = state.items.flatMap((item) => (item.kind === "message" ? item.parts.map((part) => segments(part)) : []));
  const shown = texts.map((pieces) => pieces.map((piece) => (isLink(piece) ? "" : piece.text)).join("")).filter((text) => text !== "");
  const text = plain(shown.length > 0 ? shown.join("\n\n") : responseText(state));
  return [...(waits.length > 0 ? waits : [`${ENDS[end.final.status]}.`]), text].join(" ").trim();
}

function plain(text: string): string {
  const read = MARKUP.reduce((left, [pattern, by]) => left.replace(pattern, by), text.slice(0, READ_CHARS));
  return read.trim().slice(0, SPOKEN_CHARS);
}
