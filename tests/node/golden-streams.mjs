// Reads recorded streams with the strict readers of the npm clients, and prints one line of JSON for each name.
//
//   node golden-streams.mjs responses|chat|openresponses BASE_URL < names, one per line
//
// BASE_URL/streams/NAME is the base URL of a stream, BASE_URL/answers/NAME that of its JSON answer. The readers: the
// accumulators of `openai`, which throw on an unknown event, and the providers of the AI SDK, whose schemas reject a
// whole event for one unexpected member. Each reading has `errors`, also of what was thrown.

import { readFileSync } from "node:fs";
import OpenAI from "openai";
import OpenAI6 from "openai-6";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAI as createOpenAI3 } from "@ai-sdk/openai-3";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createOpenResponses } from "@ai-sdk/open-responses";

const [, , api, base] = process.argv;
const names = readFileSync(0, "utf8").split("\n").filter(Boolean);
const prompt = [{ role: "user", content: [{ type: "text", text: "Hi" }] }];
const asked = [{ role: "user", content: "Hi" }];
const messageOf = (error) => error.message ?? JSON.stringify(error);

async function accumulateResponse(client, read) {
  const stream = client.responses.stream({ model: "any", input: asked });
  for await (const event of stream) read.types.push(event.type);
  const { output, status } = await stream.finalResponse();
  const parts = output.filter((item) => item.type === "message").flatMap((item) => item.content);
  return {
    text: parts.map((part) => part.text ?? "").join(""), refusal: parts.map((part) => part.refusal ?? "").join(""),
    calls: output.filter((it) => it.type === "function_call").map((it) => [it.call_id, it.name, it.arguments]), status,
  };
}

async function accumulateCompletion(client) {
  const [{ message }] = (await client.chat.completions.stream({ model: "any", messages: asked }).finalChatCompletion()).choices;
  const calls = (message.tool_calls ?? []).filter((it) => it.type === "function");
  return {
    text: message.content ?? "", refusal: message.refusal ?? "",
    calls: calls.map((it) => [it.id, it.function.name, it.function.arguments]),
  };
}

const accumulator = (Client) => async (name) => {
  const client = new Client({ apiKey: "none", baseURL: `${base}/streams/${name}`, maxRetries: 0, logLevel: "off" });
  const read = { types: [], errors: [] };
  try {
    Object.assign(read, await (api === "responses" ? accumulateResponse(client, read) : accumulateCompletion(client)));
  } catch (error) {
    Object.assign(read, { raised: error.constructor.name, code: error.code ?? error.message, errors: [messageOf(error)] });
  }
  return { stream: read };
};

async function stream(model) {
  const texts = new Map(); // the parts of a run may interleave
  const read = { reasoning: "", calls: [], spans: [], errors: [], finish: null, usage: null };
  try {
    const { stream: parts } = await model.doStream({ prompt });
    for await (const part of parts) {
      if (part.type === "text-start") texts.set(part.id, texts.get(part.id) ?? "");
      else if (part.type === "text-delta") texts.set(part.id, (texts.get(part.id) ?? "") + part.delta);
      else if (part.type === "reasoning-delta") read.reasoning += part.delta;
      else if (part.type === "tool-call" && !part.providerExecuted) read.calls.push([part.toolCallId, part.toolName, part.input]);
      else if (part.type === "error") read.errors.push(messageOf(part.error));
      else if (part.type === "finish") Object.assign(read, { finish: part.finishReason.unified, usage: part.usage.raw ?? null });
      if (/^(text|reasoning)-(start|end)$/.test(part.type)) read.spans.push([part.type, part.id]);
    }
  } catch (error) {
    Object.assign(read, { errors: [...read.errors, messageOf(error)], finish: "thrown" });
  }
  return { ...read, text: [...texts.values()].join("") };
}

async function generate(model) {
  try {
    const { content } = await model.doGenerate({ prompt });
    const texts = content.filter((part) => part.type === "text").map((part) => part.text);
    return { text: texts.join(""), error: null, status: 200 };
  } catch (error) {
    return { text: null, error: error.message, status: error.statusCode };
  }
}

const provider = (create) => async (name) => {
  const model = (kind) => {
    const url = `${base}/${kind}/${name}`;
    const made = create({ name: "projector", apiKey: "none", baseURL: url, url });
    return (api === "chat" ? (made.chat ?? made.chatModel) : (made.responses ?? made.languageModel))("any");
  };
  return { stream: await stream(model("streams")), answer: await generate(model("answers")) };
};

const openai = {
  openai: accumulator(OpenAI), "openai-6": accumulator(OpenAI6),
  "ai-sdk": provider(createOpenAI), "ai-sdk-6": provider(createOpenAI3),
};
const readers = {
  responses: openai,
  chat: { ...openai, compatible: provider(createOpenAICompatible) },
  openresponses: { "ai-sdk": provider(createOpenResponses) },
};

for (const name of names) {
  const readings = {};
  for (const [reader, read] of Object.entries(readers[api])) readings[reader] = await read(name);
  console.log(JSON.stringify({ name, readings }));
}
