// The chat of the AI SDK, of each version, uses the route of a running server: one conversation for each feature.
//
//   node ai-sdk-chat.mjs BASE_URL
//
// Writes one object: version -> conversation -> its messages, finish reasons, and errors. `Chat` is `useChat` without
// a framework: the same `AbstractChat` and transport, with a state that is a plain object.

import * as ai5 from "ai-5";
import * as ai6 from "ai-6";
import * as ai7 from "ai";

const versions = { 5: ai5, 6: ai6, 7: ai7 };
const [base] = process.argv.slice(2);

class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => { this.messages = [...this.messages, message]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (at, message) => { this.messages = this.messages.with(at, structuredClone(message)); };
  snapshot = (value) => structuredClone(value);
}

function conversation(level, name, options = {}) {
  const sdk = versions[level];
  class Chat extends sdk.AbstractChat {}
  const errors = [];
  const finishes = [];
  const { agent = "helper", ...more } = options;
  const chat = new Chat({
    id: `chat-${name}-${level}`,
    state: new State(),
    transport: new sdk.DefaultChatTransport({ api: `${base}/api/v1/ai-sdk/${agent}?level=${level}` }),
    onError: (error) => errors.push(String(error)),
    onFinish: ({ finishReason }) => finishes.push(finishReason ?? null),
    ...more,
  });
  return { chat, sdk, report: () => ({ messages: chat.messages, errors, finishes, status: chat.status }) };
}

const settled = async (chat) => {
  while (chat.status === "submitted" || chat.status === "streaming") await new Promise((done) => setTimeout(done, 2));
};

const hasText = async (chat) => {
  const isSaid = (part) => part.type === "text" && part.text;
  while (chat.lastMessage?.role !== "assistant" || !chat.lastMessage.parts.some(isSaid)) {
    if (chat.status === "error") throw chat.error;
    await new Promise((done) => setTimeout(done, 2));
  }
};

const conversations = {
  async text(level, name) {
    const talk = conversation(level, name);
    await talk.chat.sendMessage({ text: name });
    await talk.chat.sendMessage({ text: name });
    return talk.report();
  },

  async tool(level, name) {
    const { lastAssistantMessageIsCompleteWithToolCalls: sendAutomaticallyWhen } = versions[level];
    const onToolCall = ({ toolCall: { toolName, toolCallId } }) => {
      talk.chat.addToolResult({ tool: toolName, toolCallId, output: { colour: "blue" } });
    };
    const talk = conversation(level, name, { sendAutomaticallyWhen, onToolCall });
    await talk.chat.sendMessage({ text: name });
    await settled(talk.chat);
    return talk.report();
  },

  async approve(level, name) {
    const { lastAssistantMessageIsCompleteWithApprovalResponses: sendAutomaticallyWhen } = versions[level];
    if (sendAutomaticallyWhen === undefined) return null; // version 5 has no approvals
    const talk = conversation(level, name, { sendAutomaticallyWhen });
    await talk.chat.sendMessage({ text: name });
    const asked = talk.chat.lastMessage.parts.filter((part) => part.state === "approval-requested");
    for (const { approval } of asked) await talk.chat.addToolApprovalResponse({ id: approval.id, approved: true });
    await settled(talk.chat);
    return talk.report();
  },

  async regenerate(level, name) {
    const talk = conversation(level, name);
    await talk.chat.sendMessage({ text: name });
    await talk.chat.regenerate();
    return talk.report();
  },

  async seal(level, name) {
    const talk = conversation(level, name);
    await talk.chat.sendMessage({ text: name });
    await talk.chat.sendMessage({ text: "Go on." });
    return talk.report();
  },

  async image(level, name) {
    const talk = conversation(level, name);
    const files = [{ type: "file", mediaType: "image/png", url: "data:image/png;base64,QUJD" }];
    await talk.chat.sendMessage({ text: name, files });
    return talk.report();
  },

  async chatty(level, name) {
    const talk = conversation(level, name, { agent: "chatty" });
    await talk.chat.sendMessage({ text: name });
    return talk.report();
  },

  async resume(level, name) {
    const talk = conversation(level, name);
    const sent = talk.chat.sendMessage({ text: name });
    await hasText(talk.chat);
    const other = conversation(level, name); // another tab, which has the question from the application
    other.chat.messages = [talk.chat.messages[0]];
    const resumed = other.chat.resumeStream();
    await hasText(other.chat);
    await fetch(`${base}/api/v1/ai-sdk/helper/${other.chat.id}/stop`, { method: "POST" });
    await Promise.all([sent, resumed]);
    await other.chat.resumeStream(); // nothing runs
    return { ...other.report(), first: talk.report() };
  },

  async stop(level, name) {
    const talk = conversation(level, name);
    const sent = talk.chat.sendMessage({ text: name });
    await hasText(talk.chat);
    await talk.chat.stop();
    await sent;
    return talk.report();
  },

  async instruct(level, name) {
    const talk = conversation(level, name);
    talk.chat.messages = [{ id: "rule", role: "system", parts: [{ type: "text", text: "Obey." }] }];
    await talk.chat.sendMessage({ text: name });
    return talk.report();
  },
};

const reports = {};
for (const level of Object.keys(versions)) {
  reports[level] = {};
  for (const [name, converse] of Object.entries(conversations)) reports[level][name] = await converse(level, name);
}
process.stdout.write(JSON.stringify(reports), () => process.exit(0));
