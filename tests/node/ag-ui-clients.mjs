// Sends streams to a real AG-UI client over loopback HTTP and prints the results.
//
//   node ag-ui-clients.mjs PACKAGE < {"declared", "undeclared"} a line
//
// `declared` is the stream for clients that declare a protocol version, `undeclared` the one for other clients. Each
// stream is followed by a second request in the same conversation, which answers the approvals that the first run waits
// for. Writes one line for each stream: the client's warnings, its error, its messages, the end of the run, and the body
// of the second request.

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
