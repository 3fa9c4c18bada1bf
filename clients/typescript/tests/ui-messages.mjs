// Builds messages with the AI SDK of each version, from the adapter's chunks and from those of the server's dialect.
//
//   node ui-messages.mjs < lines of {"name", "events": public events, "chunks": {level: chunks of `ai_sdk`}}

import { createInterface } from "node:readline";
import * as ai5 from "ai-5";
import * as ai6 from "ai-6";
import * as ai7 from "ai";
import { toUIMessageStream } from "public-stream-client/ai-sdk";

const versions = { 5: ai5, 6: ai6, 7: ai7 };

/** Returns the message that a version builds of chunks, the last chunk, and the errors. */
async function read(version, stream) {
  const errors = [];
  let message = null;
  let last = null;
  const kept = stream.pipeThrough(new TransformStream({ transform: (chunk, to) => ((last = chunk), to.enqueue(chunk)) }));
  try {
    const onError = (error) => errors.push(error instanceof Error ? error.message : String(error));
    for await (const one of version.readUIMessageStream({ stream: kept, onError })) message = structuredClone(one);
  } catch (error) {
    errors.push(`${error}`);
  }
  return { message, last, errors };
}

async function* each(values) {
  yield* values;
}

for await (const line of createInterface({ input: process.stdin })) {
  const { name, events, chunks } = JSON.parse(line);
  const readings = {};
  for (const [level, version] of Object.entries(versions)) {
    readings[level] = {
      adapter: await read(version, toUIMessageStream(each(events))),
      dialect: await read(version, ReadableStream.from(chunks)),
    };
  }
  console.log(JSON.stringify({ name, readings }));
}
