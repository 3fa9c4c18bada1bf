// `@tanstack/ai-client` uses the route of a running server, over connections that a proxy breaks off.
//
//   node tanstack-client.mjs BASE_URL < PLAN
//
// PLAN is a list of `{agent, runId, method, headers, acknowledged}`; `method` is `connect`, `joinRun` or `chat`. The
// client tells the proxy when it has read so many chunks. Writes a list with what each of them read: chunks, or messages
// of the chat, and the error.

import { readFileSync } from "node:fs";
import { ChatClient, fetchServerSentEvents } from "@tanstack/ai-client";

const [base] = process.argv.slice(2);
const question = { id: "question", role: "user", parts: [{ type: "text", content: "hello" }] };

const connection = ({ agent, headers }) =>
  fetchServerSentEvents(`${base}/api/v1/ag-ui/${agent}`, { headers, reconnect: { delayMs: 1 } });

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
    const errors = [];
    const onError = (error) => errors.push(error.name);
    const client = new ChatClient({ connection: connection(plan), threadId: `thread-${plan.runId}`, onError });
    await client.sendMessage("hello");
    const texts = client.getMessages().map(({ role, parts }) => {
      const found = parts.filter(({ type }) => type === "text").map(({ content }) => content);
      return { role, text: found.join("") };
    });
    return { texts, error: errors[0] ?? null };
  },
};

const reports = [];
for (const plan of JSON.parse(readFileSync(0, "utf8"))) reports.push(await methods[plan.method](plan));
process.stdout.write(JSON.stringify(reports), () => process.exit(0));
