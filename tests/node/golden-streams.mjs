// Reads recorded streams with the strict readers of the npm clients, and prints one line of JSON for each stream.
//
//   node golden-streams.mjs responses|chat BASE_URL < names, one per line
//
// BASE_URL/NAME is the base URL of a stream. The readers: the accumulators of `openai`, and the providers of the AI SDK,
// whose schemas reject a whole event for one unexpected member.

import { readFileSync } from "node:fs";
import OpenAI from "openai";
import OpenAI6 from "openai-6";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAI as createOpenAI3 } from "@ai-sdk/openai-3";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

const [, , api, base] = process.argv;
const names = readFileSync(0, "utf8").split("\n").filter(Boolean);
const prompt = [{ role: "user", content: [{ type: "text", text: "Hi" }] }];
const asked = [{ role: "user", content: "Hi" }];
const error = (it) => ({ error: it instanceof Error ? it.message : JSON.stringify(it) });

const accumulate = (Client) => async (baseURL) => {
  const client = new Client({ apiKey: "none", baseURL, maxRetries: 0, logLevel: "off" });
  if (api === "responses") {
    const { output, status } = await client.responses.stream({ model: "any", input: asked }).finalResponse();
    const parts = output.filter((item) => item.type === "message").flatMap((item) => item.content);
    return {
      text: parts.map((part) => part.text ?? "").join(""), refusal: parts.map((part) => part.refusal ?? "").join(""),
      calls: output.filter((it) => it.type === "function_call").map((it) => [it.call_id, it.name, it.arguments]), status,
    };
  }
  const [{ message }] = (await client.chat.completions.stream({ model: "any", messages: asked }).finalChatCompletion()).choices;
  const calls = (message.tool_calls ?? []).filter((it) => it.type === "function");
  return {
    text: message.content ?? "", refusal: message.refusal ?? "",
    calls: calls.map((it) => [it.id, it.function.name, it.function.arguments]),
  };
};

const provide = (model) => async (baseURL) => {
  const { stream } = await model(baseURL).doStream({ prompt });
  const texts = new Map(); // the parts of a run may interleave
  const read = { text: "", calls: [], unended: 0 };
  for await (const part of stream) {
    if (part.type === "text-delta") texts.set(part.id, (texts.get(part.id) ?? "") + part.delta);
    else if (part.type === "tool-call" && !part.providerExecuted) read.calls.push([part.toolCallId, part.toolName, part.input]);
    else if (part.type === "error") Object.assign(read, error(part.error));
    else if (part.type === "text-start") texts.set(part.id, texts.get(part.id) ?? "");
    if (/^(text|reasoning)-start$/.test(part.type)) read.unended += 1;
    if (/^(text|reasoning)-end$/.test(part.type)) read.unended -= 1;
  }
  return { ...read, text: [...texts.values()].join("") };
};

const named = (create) => (baseURL) => {
  const provider = create({ name: "projector", apiKey: "none", baseURL });
  return api === "responses" ? provider("any") : (provider.chat ?? provider.chatModel)("any");
};
const readers = {
  openai: accumulate(OpenAI), "openai-6": accumulate(OpenAI6),
  "ai-sdk": provide(named(createOpenAI)), "ai-sdk-6": provide(named(createOpenAI3)),
  ...(api === "chat" ? { compatible: provide(named(createOpenAICompatible)) } : {}),
};

for (const name of names) {
  const readings = {};
  for (const [reader, read] of Object.entries(readers)) readings[reader] = await read(`${base}/${name}`).catch(error);
  console.log(JSON.stringify({ name, readings }));
}
