// The AI SDK's Open Responses provider against a running server, with the dialect that is in the URL.
//
//   node open-responses-client.mjs PACKAGE URL PROVIDER_URL

import { apiKey, baseURL as url, errorOf, failures, loops, packages, prompt as question, report, scenarios } from "./client-report.mjs";

const { createOpenResponses } = await import(packages);
const provider = createOpenResponses({ name: "projector", url, apiKey });
const prompt = [{ role: "user", content: [{ type: "text", text: question }] }];
const joined = (parts, type) => parts.filter((part) => part.type === type).map((part) => part.text ?? part.delta).join("");

async function stream(model) {
  const result = await provider.languageModel(model).doStream({ prompt });
  const parts = [];
  for await (const part of result.stream) parts.push(part);
  const finish = parts.find((part) => part.type === "finish");
  const calls = parts.filter((part) => part.type === "tool-call").map((part) => [part.toolName, part.input]);
  const errors = parts.filter((part) => part.type === "error").map(({ error }) => errorOf(error));
  return {
    text: joined(parts, "text-delta"), reasoning: joined(parts, "reasoning-delta"), calls, errors, error: errors[0],
    finish: finish?.finishReason.unified, citations: parts.filter((part) => part.type === "source").map((part) => part.sourceType),
  };
}

async function json(model) {
  const { content, finishReason } = await provider.languageModel(model).doGenerate({ prompt });
  const calls = content.filter((part) => part.type === "tool-call").map((part) => [part.toolName, part.input]);
  return {
    text: joined(content, "text"), reasoning: joined(content, "reasoning"), calls, errors: [],
    finish: finishReason.unified, citations: content.filter((part) => part.type === "source").map((part) => part.sourceType),
  };
}

const cases = {};
for (const [form, read] of Object.entries({ stream, json })) {
  for (const name of [...scenarios.responses, ...loops, "structured", ...failures]) cases[`responses/${name}/${form}`] = () => read(name);
}
await report(cases);
