// Plays streams to a real AG-UI client over loopback HTTP and says what it made of them.
//
//   node ag-ui-clients.mjs PACKAGE < {"name", "declared", "undeclared"} a line
//
// `declared` is what a client gets that names its protocol version, `undeclared` what one gets that names none. Writes
// one line for each stream: what the client warned of, how it failed, its messages, and how the run ended.

import { createServer } from "node:http";
import { readFileSync } from "node:fs";

const { HttpAgent } = await import(process.argv[2]);
const streams = readFileSync(0, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));

const said = [];
for (const level of ["log", "info", "warn", "error"]) {
  console[level] = (...words) => said.push(`${level}: ${words.map(String).join(" ")}`);
}

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const input = JSON.parse(Buffer.concat(chunks).toString());
  const stream = streams[Number(request.url.slice(1))];
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  response.end(input.protocolVersion === undefined ? stream.undeclared : stream.declared);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

async function play(index) {
  const ended = {};
  const agent = new HttpAgent({ url: `http://127.0.0.1:${server.address().port}/${index}`, threadId: "thread" });
  said.length = 0;
  try {
    await agent.runAgent(
      { runId: "run" },
      {
        onRunFinishedEvent: ({ event, outcome, pendingToolCallIds }) => {
          Object.assign(ended, { terminal: event, outcome, pendingToolCallIds });
        },
        onRunErrorEvent: ({ event }) => {
          ended.terminal = event;
        },
      },
    );
  } catch (error) {
    ended.thrown = String(error);
  }
  return { ...ended, warnings: [...said], messages: agent.messages, interrupts: agent.pendingInterrupts };
}

for (const [index, { name }] of streams.entries()) {
  process.stdout.write(`${JSON.stringify({ name, ...(await play(index)) })}\n`);
}
server.close();
server.closeAllConnections();
