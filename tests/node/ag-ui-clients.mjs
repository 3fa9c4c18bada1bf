// Plays streams to a real AG-UI client over loopback HTTP and says what it made of them.
//
//   node ag-ui-clients.mjs PACKAGE < {"declared", "undeclared"} a line
//
// `declared` is what a client gets that names its protocol version, `undeclared` what one gets that names none. Each
// stream is followed by a second request in the same conversation, which approves what the first run waits for. Writes
// one line for each stream: what the client warned of, how it failed, its messages, how the run ended, and the body of
// the second request.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const { HttpAgent } = await import(process.argv[2]);
const streams = readFileSync(0, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));

const said = [];
for (const level of ["log", "info", "warn", "error"]) {
  console[level] = (...words) => said.push(`${level}: ${words.map(String).join(" ")}`);
}

let next;
const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const input = JSON.parse(Buffer.concat(chunks).toString());
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  if (input.runId === "next") {
    next = input;
    const place = { threadId: input.threadId, runId: input.runId };
    const events = [{ type: "RUN_STARTED", ...place }, { type: "RUN_FINISHED", ...place }];
    response.end(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
  } else {
    const stream = streams[Number(input.runId)];
    response.end(input.protocolVersion === undefined ? stream.undeclared : stream.declared);
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${server.address().port}/`;

async function play(index) {
  const agent = new HttpAgent({ url, threadId: "thread" });
  agent.messages = [{ id: "question", role: "user", content: "?" }];
  const ended = { thrown: null };
  said.length = 0;
  const note = (params) => Object.assign(ended, { terminal: params.event, pending: params.pendingToolCallIds });
  try {
    await agent.runAgent({ runId: String(index) }, { onRunFinishedEvent: note, onRunErrorEvent: note });
  } catch (error) {
    ended.thrown = String(error);
  }
  const result = { ...ended, warnings: [...said], messages: agent.messages.slice(1), interrupts: agent.pendingInterrupts };
  const resume = result.interrupts?.map(({ id }) => ({ interruptId: id, status: "resolved", payload: { approved: true } }));
  await agent.runAgent({ runId: "next", ...(resume?.length ? { resume } : {}) });
  return { ...result, next };
}

for (const index of streams.keys()) {
  process.stdout.write(`${JSON.stringify(await play(index))}\n`);
}
server.close();
server.closeAllConnections();
