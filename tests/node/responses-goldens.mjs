// Prints one line of JSON for each golden of the dialect `responses`, as the npm clients read it.
//
// node responses-goldens.mjs BASE_URL < names, one per line
//
// `openai` accumulates the events and throws on an unknown one; the AI SDK validates each event by its schema.

import { readFileSync } from "node:fs";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAI as createOpenAI3 } from "@ai-sdk/openai-3";
import OpenAI from "openai";
import OpenAI6 from "openai-6";

const base = process.argv[2];
const names = readFileSync(0, "utf8").split("\n").filter(Boolean);
const prompt = [{ role: "user", content: [{ type: "text", text: "Hi" }] }];

const textOf = (output) =>
  output
    .filter((item) => item.type === "message")
    .flatMap((item) => item.content)
    .map((part) => part.text ?? "")
    .join("");

async function accumulate(Client, name) {
  const client = new Client({ apiKey: "none", baseURL: `${base}/streams/${name}`, maxRetries: 0 });
  const read = { types: [], text: null, raised: null, code: null };
  try {
    const stream = client.responses.stream({ model: "any", input: "Hi" });
    for await (const event of stream) read.types.push(event.type);
    read.text = textOf((await stream.finalResponse()).output);
  } catch (error) {
    read.raised = error.constructor.name;
    read.code = error.code ?? error.message;
  }
  return read;
}

async function stream(model) {
  const read = { text: "", calls: [], errors: [], finish: null };
  try {
    const { stream: parts } = await model.doStream({ prompt });
    for await (const part of parts) {
      if (part.type === "text-delta") read.text += part.delta;
      else if (part.type === "tool-call" && !part.providerExecuted) read.calls.push([part.toolCallId, part.toolName, part.input]);
      else if (part.type === "error") read.errors.push(part.error.message ?? String(part.error));
      else if (part.type === "finish") read.finish = part.finishReason.unified;
    }
  } catch (error) {
    read.errors.push(error.message);
    read.finish = "thrown";
  }
  return read;
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

async function aiSdk(create, name) {
  const model = (kind) => create({ apiKey: "none", baseURL: `${base}/${kind}/${name}` }).responses("any");
  return { stream: await stream(model("streams")), answer: await generate(model("answers")) };
}

for (const name of names) {
  const report = {
    name,
    openai: await accumulate(OpenAI, name),
    "openai-6": await accumulate(OpenAI6, name),
    "ai-sdk": await aiSdk(createOpenAI, name),
    "ai-sdk-6": await aiSdk(createOpenAI3, name),
  };
  console.log(JSON.stringify(report));
}
