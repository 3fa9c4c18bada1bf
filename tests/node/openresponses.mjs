// Prints one line of JSON for each stream at a base URL, as read by the AI SDK's Open Responses provider.
//
// node openresponses.mjs BASE_URL < names, one per line

import { readFileSync } from "node:fs";
import { createOpenResponses } from "@ai-sdk/open-responses";

const base = process.argv[2];
const names = readFileSync(0, "utf8").split("\n").filter(Boolean);
const prompt = [{ role: "user", content: [{ type: "text", text: "Hi" }] }];

for (const name of names) {
  const provider = createOpenResponses({ name: "projector", url: `${base}/${name}` });
  const { stream } = await provider.languageModel("any").doStream({ prompt });
  const read = { name, text: "", reasoning: "", calls: [], spans: [], errors: [], finish: null, usage: null };
  const texts = new Map(); // those of a run may interleave
  for await (const part of stream) {
    if (part.type === "text-start") texts.set(part.id, "");
    else if (part.type === "text-delta") texts.set(part.id, texts.get(part.id) + part.delta);
    else if (part.type === "reasoning-delta") read.reasoning += part.delta;
    else if (part.type === "tool-call") read.calls.push([part.toolCallId, part.toolName, part.input]);
    else if (part.type === "error") read.errors.push(String(part.error));
    else if (part.type === "finish") {
      read.finish = part.finishReason;
      read.usage = part.usage.raw ?? null;
    }
    if (/-(start|end)$/.test(part.type) && part.id) read.spans.push([part.type, part.id]);
  }
  read.text = [...texts.values()].join("");
  console.log(JSON.stringify(read));
}
