// The npm package `openai` as a newcomer points it at the demo, with any model: text, search, tool loop, error, models.
//
//   node demo-client.mjs BASE_URL
//
// Writes one object: what each request of each API showed.

import OpenAI from "openai";

const client = new OpenAI({ apiKey: "none", baseURL: process.argv[2], maxRetries: 0, logLevel: "off" });
const model = "any-model";
const failed = (error) => ({ error: error.message });

async function responses(input) {
  const { output, output_text, status } = await client.responses.stream({ model, input }).finalResponse();
  return { status, text: output_text, items: output.map((item) => item.type) };
}

async function chat(content) {
  const stream = client.chat.completions.stream({ model, messages: [{ role: "user", content }] });
  const [{ message, finish_reason }] = (await stream.finalChatCompletion()).choices;
  return { status: finish_reason, text: message.content };
}

async function responsesLoop() {
  const input = [{ role: "user", content: "Call a tool" }];
  const tools = [{ type: "function", name: "next_departures", parameters: { type: "object", properties: {} }, strict: false }];
  for (let turns = 1; turns < 5; turns += 1) {
    const { output, output_text } = await client.responses.create({ model, input, tools });
    const calls = output.filter((item) => item.type === "function_call");
    if (calls.length === 0) return { turns, text: output_text };
    input.push(...output, ...calls.map(({ call_id }) => ({ type: "function_call_output", call_id, output: "14:10" })));
  }
  return { turns: "no end" };
}

async function chatLoop() {
  const parameters = { type: "object", properties: {} };
  const tools = [{ type: "function", function: { name: "get_weather", parse: JSON.parse, function: () => "4 degrees", parameters } }];
  const messages = [{ role: "user", content: "Call a tool" }];
  const runner = client.chat.completions.runTools({ model, messages, tools }, { maxChatCompletions: 5 });
  return { text: await runner.finalContent(), turns: runner.allChatCompletions().length };
}

const requests = {
  responses: { text: () => responses("Hello"), search: () => responses("Search the news for me"), error: () => responses("Please fail"), loop: responsesLoop },
  chat: { text: () => chat("Hello"), search: () => chat("Search the news for me"), error: () => chat("Please fail"), loop: chatLoop },
};
const shown = { models: (await client.models.list()).data.map(({ id }) => id), model: (await client.models.retrieve("demo")).id };
for (const [api, asked] of Object.entries(requests)) {
  shown[api] = {};
  for (const [name, ask] of Object.entries(asked)) shown[api][name] = await ask().catch(failed);
}
process.stdout.write(JSON.stringify(shown));
