// `@tanstack/ai-client` uses the route of a running server, over connections that a proxy breaks off.
//
//   node tanstack-client.mjs BASE_URL < PLAN
//
// PLAN is a list of `{agent, runId, method, headers, acknowledged}`; `method` is one of those below. The client tells the
// proxy when it has read so many chunks. Writes a list with what each of them read: chunks, or messages of the chat, and
// the error.

import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { ChatClient, fetchServerSentEvents } from "@tanstack/ai-client";

const [base] = process.argv.slice(2);
const question = { id: "question", role: "user", parts: [{ type: "text", content: "hello" }] };

const connection = ({ agent, headers }, options = {}) =>
  fetchServerSentEvents(`${base}/api/v1/ag-ui/${agent}`, { headers, reconnect: { delayMs: 1 }, ...options });

const textsOf = (client) =>
  client.getMessages().map(({ role, parts }) => {
    const found = parts.filter(({ type }) => type === "text").map(({ content }) => content);
    return { role, text: found.join("") };
  });

const answerOf = (client) => textsOf(client).find(({ role }) => role === "assistant")?.text;

/** Returns a chat, and the names of its errors. */
function chat(plan, options = {}) {
  const errors = [];
  const onError = (error) => errors.push(error.name);
  const client = new ChatClient({ connection: connection(plan), threadId: `thread-${plan.runId}`, onError, ...options });
  return { client, errors };
}

/** Waits until something holds; a limit of the caller ends this process. */
async function until(holds) {
  while (!holds()) await pause(5);
}

const read = async (stream, { acknowledged }) => {
  const chunks = [];
  try {
    for await (const chunk of stream) {
      if (chunks.push(chunk) === acknowledged) await fetch(`${base}/read`);
    }
  } catch (error) {
    return { chunks, error: error.name };
  }
  return { chunks, error: null };
};

const methods = {
  connect: (plan) => {
    const context = { threadId: `thread-${plan.runId}`, runId: plan.runId };
    return read(connection(plan).connect([question], undefined, undefined, context), plan);
  },
  joinRun: (plan) => read(connection(plan).joinRun(plan.runId), plan),
  async chat(plan) {
    const { client, errors } = chat(plan);
    await client.sendMessage("hello");
    return { texts: textsOf(client), error: errors[0] ?? null };
  },
  /** The page runs a function, and hands its result to the client, which goes on by itself. */
  async tool(plan) {
    const { client, errors } = chat(plan);
    await client.sendMessage("tool");
    const call = client.getMessages().at(-1).parts.find(({ type }) => type === "tool-call");
    await client.addToolResult({ toolCallId: call.id, tool: call.name, output: { colour: "blue" } });
    return { texts: textsOf(client), call, error: errors[0] ?? null };
  },
  /** The client shows what waits, but resolves only interrupts of its own server; its connection takes the answer. */
  async approve(plan) {
    const { client, errors } = chat(plan);
    await client.sendMessage("approve");
    const interrupts = client.getPendingInterrupts().map(({ id, kind, canResolve, message }) => ({ id, kind, canResolve, message }));
    const resume = interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: { approved: true } }));
    const context = { threadId: `thread-${plan.runId}`, runId: `${plan.runId}-2`, resume };
    const { chunks } = await read(connection(plan).connect(client.getMessages(), undefined, undefined, context), plan);
    return { interrupts, chunks, error: errors[0] ?? null };
  },
  /** A page is gone in the middle of an answer; the next one has what the first one kept, and reads the run again. */
  async reload(plan) {
    const kept = new Map();
    const persistence = {
      getItem: (id) => structuredClone(kept.get(id)),
      setItem: (id, state) => void kept.set(id, structuredClone(state)),
      removeItem: (id) => void kept.delete(id),
    };
    const first = chat(plan, { persistence });
    void first.client.sendMessage("hello");
    await until(() => answerOf(first.client) && [...kept.values()].some(({ resume }) => resume));
    first.client.detach();
    const second = chat(plan, { persistence });
    second.client.attach();
    await until(() => second.errors.length > 0 || answerOf(second.client));
    await until(() => second.errors.length > 0 || [...kept.values()].every(({ resume }) => !resume));
    return { texts: textsOf(second.client), error: second.errors[0] ?? null };
  },
  /** The server keeps no transcripts, so there is none to hydrate a page from. */
  async hydrate(plan) {
    const refused = await connection(plan).hydrate(`thread-${plan.runId}`).then(() => null, (error) => error.message);
    return { refused, error: null };
  },
};

const reports = [];
for (const plan of JSON.parse(readFileSync(0, "utf8"))) reports.push(await methods[plan.method](plan));
process.stdout.write(JSON.stringify(reports), () => process.exit(0));
