// The AI SDK's Open Responses provider requests a stream and a JSON response from a running server.
//
//   node openresponses-route.mjs URL
//
// Writes one object: text, finish reason and usage of each form, and the status of a rejected request.

import { createOpenResponses } from "@ai-sdk/open-responses";

const url = process.argv[2];
const model = createOpenResponses({ name: "projector", url }).languageModel("gpt-x");
const prompt = [{ role: "user", content: [{ type: "text", text: "Hi" }] }];

const whole = await model.doGenerate({ prompt });
const text = whole.content.filter((part) => part.type === "text").map((part) => part.text);
const reports = { whole: { text: text.join(""), finish: whole.finishReason, usage: whole.usage.raw ?? null } };

const { stream } = await model.doStream({ prompt });
reports.stream = { text: "", finish: null, usage: null };
for await (const part of stream) {
  if (part.type === "text-delta") reports.stream.text += part.delta;
  if (part.type === "finish") Object.assign(reports.stream, { finish: part.finishReason, usage: part.usage.raw ?? null });
}

const refused = createOpenResponses({ name: "projector", url: `${url}x` }).languageModel("gpt-x");
reports.refused = await refused.doGenerate({ prompt }).then(() => 200, (error) => error.statusCode);
process.stdout.write(JSON.stringify(reports));
