// Reads UI message streams with the AI SDK of each version, as `useChat` does, and prints one line of JSON for each.
//
//   node ui-messages.mjs < lines of {"name", "level", "body"}
//
// The transport validates every chunk; the reader builds the message and fails for a chunk that does not fit.

import { readFileSync } from "node:fs";
import * as ai5 from "ai-5";
import * as ai6 from "ai-6";
import * as ai7 from "ai";

const versions = { 5: ai5, 6: ai6, 7: ai7 };
const lines = readFileSync(0, "utf8").split("\n").filter(Boolean);

for (const line of lines) {
  const { name, level, body } = JSON.parse(line);
  const { DefaultChatTransport, readUIMessageStream } = versions[level];
  const headers = { "content-type": "text/event-stream", "x-vercel-ai-ui-message-stream": "v1" };
  const fetch = async () => new Response(body, { headers });
  const errors = [];
  let message = null;
  let last = null;
  try {
    const transport = new DefaultChatTransport({ api: "http://localhost/chat", fetch });
    const chunks = await transport.sendMessages({ chatId: "c", messages: [], trigger: "submit-message" });
    const kept = chunks.pipeThrough(new TransformStream({ transform(it, out) { last = it; out.enqueue(it); } }));
    const onError = (error) => errors.push(error instanceof Error ? error.message : String(error));
    for await (const one of readUIMessageStream({ stream: kept, onError })) message = structuredClone(one);
  } catch (error) {
    errors.push(`${error}`);
  }
  console.log(JSON.stringify({ name, level, message, last: last?.type, errors }));
}
