// Marks of withheld values: as text that no renderer of Markdown changes, and counted. Citations in place.

import assert from "node:assert/strict";
import { test } from "node:test";
import { argumentNotices, initialState, marksAsText, reduce, segments, toolStatus, truncated, withheld } from "public-stream-client";

// text, the same as Markdown may be given it
const rows = [
  ["write to <redacted:email>.", "write to ‹redacted:email›."],
  ["<redacted>\nthe rest", "‹redacted›\nthe rest"],
  ["`key = \"<redacted>\"`", "`key = \"‹redacted›\"`"],
  ["a [REDACTED:vault_1.b-c](note)", "a ‹REDACTED:vault_1.b-c›(note)"],
  ["<redacted><redacted:payment_card><redacted>", "‹redacted›‹redacted:payment_card›‹redacted›"],
  ["<b>, [redacted], <redacted, redacted>, <redacted:>, <redactedx>", "<b>, [redacted], <redacted, redacted>, <redacted:>, <redactedx>"],
];

for (const [text, shown] of rows) {
  test(`${JSON.stringify(text)} is ${JSON.stringify(shown)}, of the same length`, () => {
    assert.deepEqual([marksAsText(text), marksAsText(shown), shown.length], [shown, shown, text.length]);
  });
}

/** Returns the state after some events. */
function stateOf(...events) {
  const about = { schema: "public_sse_v1", stream_id: "s", output_index: 0, item_id: "i", content_index: 0, tool_call_id: "c", tool_type: "function", tool_name: "f" };
  return events.reduce((state, event, at) => reduce(state, { ...about, event_id: at + 1, ...event }), initialState);
}

const notice = (path) => ({ notices: [{ type: "redacted", path, message: "Withheld: email (1)." }] });

test("a value that is withheld from an answer counts once, although `final` has a notice too", () => {
  const text = "write to <redacted:email>";
  const final = { kind: "final", final: { status: "completed", response_text: text }, ...notice("final.response_text") };
  const delta = { kind: "message.delta", delta: text, ...notice("delta") };
  const state = stateOf(delta, final);
  assert.deepEqual([state.notices.length, withheld(state)], [2, 1]);
  assert.deepEqual([withheld(stateOf(final)), withheld(stateOf({ ...delta, delta: "no" })), withheld(initialState)], [1, 0, 0]);
});

test("of a call, arguments count once, and outputs", () => {
  const args = { token: "<redacted>", to: ["<redacted:email>"] };
  const events = [
    { kind: "tool.arguments.delta", delta: '{"token":"<redacted>",', ...notice("delta") },
    { kind: "tool.arguments.done", arguments_text: JSON.stringify(args), arguments_json: args, ...notice("arguments_json.token") },
    { kind: "tool.status", tool: { tool_type: "mcp", tool_call_id: "c", status: "completed", arguments_text: JSON.stringify(args), arguments_json: args } },
    { kind: "tool.output", output: { log: ["[REDACTED:vault]"] }, ...notice("output.log[0]") },
  ];
  assert.deepEqual(events.map((_, at) => withheld(stateOf(...events.slice(0, at + 1)))), [1, 2, 2, 3]);
});

const called = { kind: "output_item.done", item_type: "function_call", status: "completed" };
const done = { kind: "tool.arguments.done", arguments_text: '{"to":"<redacted:email>"}', arguments_json: { to: "<redacted:email>" } };
const completed = { kind: "final", final: { status: "completed" } };
const cut = (path) => ({ notices: [{ type: "truncated", path, message: "Truncated." }] });

// notices of the arguments, status of the call, how many notices the page asks about before it runs the function
for (const [name, notices, status, count] of [
  ["whole", {}, "waiting", 0],
  ["redacted", notice("arguments_json.to"), "waiting", 1],
  ["truncated", cut("arguments_text"), "failed", 1],
  ["truncated in a string", cut("arguments_json.to"), "waiting", 1],
]) {
  test(`a function with ${name} arguments is ${status}, with ${count} notices`, () => {
    const state = stateOf({ ...done, ...notices }, called, completed);
    assert.deepEqual([toolStatus(state.items[0], state), argumentNotices(state.items[0], state).length], [status, count]);
  });
}

test("a value that was too long counts once, although its delta, its end and `final` have notices", () => {
  const delta = { kind: "tool.arguments.delta", delta: "{", ...cut("delta") };
  const output = { kind: "tool.output", output: { echo: "x" }, ...cut("output.echo") };
  const state = stateOf(delta, { ...done, ...cut("arguments_text") }, output, { ...completed, ...cut("final") });
  assert.deepEqual([state.notices.length, truncated(state), truncated(initialState)], [4, 2, 0]);
});

test("each citation is read a few times, however many there are", () => {
  const count = 1_000;
  let reads = 0;
  const citations = Array.from({ length: count }, (_, n) => ({ type: "url_citation", start_index: 2 * n, end_index: 2 * n + 1 }));
  const counted = new Proxy(citations, { get: (all, name) => ((reads += /^\d+$/.test(String(name))), Reflect.get(all, name)) });
  const found = segments({ index: 0, text: "ab".repeat(count), refusal: "", citations: counted });
  assert.deepEqual([found.length, found[2].text, found[2].citations], [2 * count, "a", [citations[1]]]);
  assert.ok(reads < 10 * count, `${reads} citations were read`);
});
