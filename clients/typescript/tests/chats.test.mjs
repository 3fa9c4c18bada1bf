// The transport in the chats of the AI SDK, versions 5 to 7.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as ai7 from "ai";
import * as ai5 from "ai-5";
import * as ai6 from "ai-6";
import { PublicChatTransport, toUIMessageStream } from "public-stream-client/ai-sdk";
import { events, LOCATION, problem, serving, stream } from "./server.mjs";

const CHAT = "chat-1";
const kept = new Map();
globalThis.sessionStorage = {
  getItem: (key) => kept.get(key) ?? null,
  setItem: (key, value) => void kept.set(key, value),
  removeItem: (key) => void kept.delete(key),
};

/** Returns a chat that keeps its messages in memory. */
function chatOf({ AbstractChat }, url, options = {}) {
  const state = {
    ...{ status: "ready", error: undefined, messages: [] },
    pushMessage: (message) => (state.messages = [...state.messages, message]),
    popMessage: () => (state.messages = state.messages.slice(0, -1)),
    replaceMessage: (index, message) => (state.messages = state.messages.with(index, message)),
    snapshot: structuredClone,
  };
  class Chat extends AbstractChat {}
  return new Chat({ id: CHAT, transport: new PublicChatTransport({ url }), state, onError: () => {}, ...options });
}

/** Waits for a condition, at most 10 s. */
async function until(condition) {
  for (let left = 2000; !condition(); left -= 1) {
    assert.ok(left > 0, `never: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const running = stream(events(1, 1), { hangs: true });
const asked = (requests) => requests.filter(({ method }) => method === "POST").map(({ url }) => url);

/** Returns the bytes of a stream with one call, which ends afterwards. */
function call(members) {
  const about = { schema: "public_sse_v1", stream_id: "stream_1", server_timestamp: "" };
  const item = { response_id: "resp_1", output_index: 0, item_id: "item_1" };
  const each = [
    { kind: "lifecycle", status: "in_progress", response_id: "resp_1" },
    ...members.map((member) => ({ ...item, ...member })),
    { kind: "final", final: { status: "completed" } },
  ];
  return stream(each.map((event, at) => `data: ${JSON.stringify({ ...about, event_id: at + 1, ...event })}\n\n`).join(""));
}

for (const [version, ai] of Object.entries({ ai5, ai6, ai7 })) {
  test(`${version}: a resumption that replaces another, as in StrictMode, cancels nothing; a stop does`, () =>
    serving(Array(6).fill(running), async ({ url, requests }) => {
      kept.set(`public-stream:${CHAT}`, LOCATION);
      const chat = chatOf(ai, url);
      void chat.resumeStream();
      void chat.resumeStream();
      await until(() => chat.messages.length === 1);
      void chat.resumeStream();
      const { length } = requests;
      await until(() => requests.length > length);
      assert.deepEqual(asked(requests), []);
      await chat.stop();
      await until(() => asked(requests).length > 0);
      assert.deepEqual(asked(requests), [`${LOCATION}/cancel`]);
    }));

  test(`${version}: a stop before the headers ends the message at once, and cancels the answer when its address is known`, async () => {
    let release;
    const held = (answer) => async (response) => {
      await new Promise((resolve) => (release = resolve));
      await answer(response);
    };
    for (const [answer, more] of [[running, [`${LOCATION}/cancel`]], [problem(503), []]]) {
      kept.clear();
      release = undefined;
      await serving([held(answer), problem(202)], async ({ url, requests }) => {
        const chat = chatOf(ai, url, { transport: new PublicChatTransport({ url, wait: async () => {} }) });
        void chat.sendMessage({ text: "Hello" });
        await until(() => release !== undefined);
        await chat.stop();
        assert.equal(chat.status, "ready");
        release();
        await until(() => requests.length === 1 + more.length);
        await new Promise((resolve) => setTimeout(resolve, 50));
        assert.deepEqual([asked(requests), kept.size], [["/api/v1/chat/stream", ...more], 0]);
      });
    }
  });
}

// events of calls that wait for the page
const FUNCTION = { tool_type: "function", tool_call_id: "call_1", name: "pick" };
const MCP = { tool_type: "mcp", tool_call_id: "item_1", tool_name: "book", server_label: "seats", arguments_text: "{}", arguments_json: {} };
const about = { tool_call_id: "call_1", tool_type: "function", tool_name: "pick" };
const tools = [
  { kind: "output_item.added", item_type: "function_call", status: "in_progress" },
  { kind: "tool.status", tool: { ...FUNCTION, status: "in_progress" } },
  { kind: "tool.arguments.done", ...about, arguments_text: "{}", arguments_json: {} },
  { kind: "output_item.done", item_type: "function_call", status: "completed" },
];
const approvals = [
  { kind: "output_item.added", item_type: "mcp_approval_request", status: "in_progress" },
  { kind: "tool.status", tool: { ...MCP, status: "awaiting_approval" } },
  { kind: "output_item.done", item_type: "mcp_approval_request", status: "completed" },
];
const REFUSED = "Results of tools and approvals cannot be sent: they need the dialect `ai_sdk`, or `body`.";

for (const [version, ai] of Object.entries({ ai5, ai6, ai7 })) {
  test(`${version}: the result of a tool of the page is refused, once`, () =>
    serving([call(tools)], async ({ url, requests }) => {
      const errors = [];
      const chat = chatOf(ai, url, {
        onToolCall: ({ toolCall: { toolCallId } }) => void chat.addToolOutput({ tool: "pick", toolCallId, output: "blue" }),
        sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithToolCalls,
        onError: (error) => errors.push(error.message),
      });
      await chat.sendMessage({ text: "Pick" });
      await until(() => chat.status === "error");
      assert.deepEqual([errors, requests.length], [[REFUSED], 1]);
    }));
}

for (const [version, ai] of Object.entries({ ai6, ai7 })) {
  test(`${version}: the answer to an approval is refused, once`, () =>
    serving([call(approvals)], async ({ url, requests }) => {
      const errors = [];
      const chat = chatOf(ai, url, {
        sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
        onError: (error) => errors.push(error.message),
      });
      await chat.sendMessage({ text: "Book" });
      await chat.addToolApprovalResponse({ id: "item_1", approved: true });
      await until(() => chat.status === "error");
      assert.deepEqual([errors, requests.length], [[REFUSED], 1]);
    }));
}

// version 5 does not ask how a stream is resumed: of a tool that was running the page has both
const SEARCH = { kind: "tool.status", tool: { tool_type: "web_search", tool_call_id: "item_1", status: "in_progress" } };
for (const [version, ai] of Object.entries({ ai6, ai7 })) {
  test(`${version}: a resumed answer replaces what the page has kept of it, also while a tool runs`, () =>
    serving([call([SEARCH])], async ({ url }) => {
      kept.set(`public-stream:${CHAT}`, LOCATION);
      const chat = chatOf(ai, url);
      const tool = { type: "dynamic-tool", toolName: "web_search", toolCallId: "item_1", state: "input-streaming", providerExecuted: true };
      chat.messages = [
        { id: "question", role: "user", parts: [{ type: "text", text: "Search" }] },
        { id: "stream_1", role: "assistant", parts: [{ type: "step-start" }, tool] },
      ];
      await chat.resumeStream();
      assert.deepEqual(chat.messages.map(({ parts }) => parts.map(({ type }) => type)), [["text"], ["step-start", "dynamic-tool"]]);
      kept.clear();
    }));
}

// status of a resumption that is refused, addresses that are kept
for (const [status, count] of [[404, 0], [410, 0], [401, 1], [403, 1]]) {
  test(`a resumption that is refused with ${status} leaves ${count} addresses`, () =>
    serving([problem(status, { is_retryable: false })], async ({ url }) => {
      kept.clear();
      kept.set(`public-stream:${CHAT}`, LOCATION);
      const chat = chatOf(ai7, url);
      await chat.resumeStream();
      assert.deepEqual([chat.status, kept.size], ["error", count]);
      kept.clear();
    }));
}

test("the work for a delta does not grow with the text before it", async () => {
  const { startsWith, slice } = String.prototype;
  const deltas = 1_000;
  const delta = "twenty characters ok";
  async function* events() {
    for (let id = 1; id <= deltas; id += 1) {
      const about = { schema: "public_sse_v1", event_id: id, stream_id: "stream_1", server_timestamp: "" };
      yield { ...about, kind: "message.delta", output_index: 0, item_id: "item_1", content_index: 0, delta };
    }
  }
  let characters = 0;
  const counted = (method) =>
    function (...given) {
      characters += this.length;
      return method.apply(this, given);
    };
  Object.assign(String.prototype, { startsWith: counted(startsWith), slice: counted(slice) });
  try {
    let said = "";
    for await (const chunk of toUIMessageStream(events())) if (chunk.type === "text-delta") said += chunk.delta;
    assert.equal(said.length, deltas * delta.length);
  } finally {
    Object.assign(String.prototype, { startsWith, slice });
  }
  assert.ok(characters < 10 * deltas * delta.length, `${characters} characters were read`);
});

for (const [version, ai] of Object.entries({ ai5, ai6, ai7 })) {
  test(`${version}: the body of one message is sent with it, and given to that of the page`, () =>
    serving(Array(3).fill(stream(events(1, 2, 2))), async ({ url, requests }) => {
      const chat = chatOf(ai, url);
      await chat.sendMessage({ text: "Hello" }, { body: { agent: "triage" } });
      await chat.regenerate({ body: { agent: "other" } });
      const transport = new PublicChatTransport({ url, body: (messages, id, more) => ({ id, ...more }) });
      await chatOf(ai, url, { transport }).sendMessage({ text: "Hello" }, { body: { agent: "triage" } });
      const message = "Hello";
      const bodies = [{ message, agent: "triage" }, { message, agent: "other" }, { id: CHAT, agent: "triage" }];
      assert.deepEqual(requests.map(({ body }) => JSON.parse(body)), bodies);
    }));
}

for (const where of ["the transport", "the message"]) {
  test(`an illegal header of ${where} is the caller's error, and its value is not shown`, () =>
    serving([], async ({ url, requests }) => {
      const headers = { authorization: "tok\nen" };
      const transport = new PublicChatTransport({ url, ...(where === "the transport" && { headers }) });
      const chat = chatOf(ai7, url, { transport });
      await chat.sendMessage({ text: "Hello" }, where === "the message" ? { headers } : {});
      assert.deepEqual([chat.error.constructor, requests.length], [TypeError, 0]);
      assert.equal(chat.error.message, "A header is illegal: expected Latin-1 in one line.");
    }));
}

test("a file of the last message is refused; a body of the page may send all", () =>
  serving([stream(events(1, 1, 1))], async ({ url, requests }) => {
    const parts = [{ type: "text", text: "Look" }, { type: "file", mediaType: "image/png", url: "data:image/png;base64," }];
    const asking = { chatId: CHAT, messages: [{ role: "user", parts }] };
    await assert.rejects(new PublicChatTransport({ url }).sendMessages(asking), /^Error: Files cannot be sent: they need the dialect `ai_sdk`, or `body`\.$/);
    const body = (messages) => ({ input: messages });
    const sent = await new PublicChatTransport({ url, body }).sendMessages(asking);
    for await (const _ of sent);
    assert.deepEqual(requests.map((one) => JSON.parse(one.body)), [{ input: asking.messages }]);
  }));
