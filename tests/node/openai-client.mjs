// The npm package `openai` against a running server, in both APIs: events, helpers, one piece, parse, tool loops, errors.
//
//   node openai-client.mjs PACKAGE BASE_URL PROVIDER_URL [PART_OF_A_NAME]

import { Record, apiKey, baseURL, call, failures, functions, loops, packages, prompt, report, scenarios, shortenWaits } from "./client-report.mjs";
import { z } from "zod";

const { default: OpenAI } = await import(packages);
const { zodResponseFormat, zodTextFormat } = await import(`${packages}/helpers/zod`);
const { toResponseInputItems } = await import(`${packages}/lib/responses/ResponseInputItems`).catch(() => ({}));
const client = new OpenAI({ apiKey, baseURL, logLevel: "off" });
const input = [{ role: "user", content: prompt }];

const responseTools = Object.entries(functions).map(([name, { description, input: schema }]) => ({
  type: "function", name, description, parameters: z.toJSONSchema(schema), strict: false,
}));
const chatTools = Object.entries(functions).map(([name, { description, input: schema }]) => ({
  type: "function", function: { name, description, parameters: z.toJSONSchema(schema) },
}));

// Responses

function readResponse({ id, model, status, output, output_text, usage, error, incomplete_details }) {
  const messages = output.filter((item) => item.type === "message").flatMap((item) => item.content);
  return {
    id, model, status, incomplete: incomplete_details?.reason, reported: error?.message,
    text: output_text ?? messages.map((part) => part.text ?? "").join(""),
    hosted: output.map((item) => item.type).filter((type) => type.endsWith("_call") && type !== "function_call"),
    calls: output.filter((item) => item.type === "function_call").map((item) => [item.name, item.arguments]),
    reasoning: output.filter((item) => item.type === "reasoning").flatMap((item) => item.summary.map((part) => part.text)).join(""),
    refusal: messages.map((part) => part.refusal ?? "").join(""),
    citations: messages.flatMap((part) => part.annotations ?? []).map((it) => it.type),
    usage: usage && { input: usage.input_tokens, output: usage.output_tokens },
  };
}

async function readEvents(stream) {
  const read = { deltas: "", refusals: "", types: [] };
  let last;
  for await (const event of stream) {
    if (read.types.at(-1) !== event.type) read.types.push(event.type);
    if (event.type === "response.output_text.delta") read.deltas += event.delta;
    if (event.type === "response.refusal.delta") read.refusals += event.delta;
    if (event.type.startsWith("response.") && event.response) last = event.response;
  }
  return { ...read, ...readResponse(last), text: read.deltas };
}

const responses = {
  events: async (model, more) => readEvents(await client.responses.create({ model, input, stream: true, ...more })),
  helper: async (model, more) => {
    const stream = client.responses.stream({ model, input, ...more });
    let deltas = "";
    stream.on("response.output_text.delta", (event) => (deltas += event.delta));
    const response = await stream.finalResponse();
    return { deltas, parsed: response.output_parsed, ...readResponse(response) };
  },
  json: async (model, more) => readResponse(await client.responses.create({ model, input, ...more })),
};

/** Return output as input: older versions leave the removal of their own members to the application. */
const asInput = toResponseInputItems ?? ((output) => output.map(({ parsed_arguments, ...item }) => item));

/** Ask until the model calls no function, at most five times. */
async function responsesLoop(model, ask) {
  const items = [...input];
  const turns = [];
  for (let n = 0; n < 5; n += 1) {
    const response = await ask({ model, input: items, tools: responseTools });
    turns.push(readResponse(response));
    const calls = response.output.filter((item) => item.type === "function_call");
    if (calls.length === 0) break;
    items.push(...asInput(response.output));
    for (const { call_id, name, arguments: args } of calls) items.push({ type: "function_call_output", call_id, output: call(name, args) });
  }
  return { ...turns.at(-1), called: turns.flatMap((turn) => turn.calls) };
}

const responsesAsk = {
  helper: (body) => client.responses.stream(body).finalResponse(),
  json: (body) => client.responses.create(body),
};

// Chat Completions

function readCompletion({ id, model, choices, usage }) {
  const [{ message, finish_reason }] = choices;
  return {
    id, model, finish: finish_reason, text: message.content ?? "", refusal: message.refusal ?? "",
    calls: (message.tool_calls ?? []).map((it) => [it.function.name, it.function.arguments]),
    reasoning: message.reasoning_content ?? "",
    citations: (message.annotations ?? []).map((it) => it.type),
    usage: usage && { input: usage.prompt_tokens, output: usage.completion_tokens },
  };
}

const chat = {
  events: async (model, more) => {
    const message = { content: "", refusal: "", reasoning_content: "", tool_calls: [], annotations: [] };
    let last = {};
    let finish_reason;
    const stream = await client.chat.completions.create({ model, messages: input, stream: true, stream_options: { include_usage: true }, ...more });
    for await (const chunk of stream) {
      last = { ...last, ...chunk };
      const [{ delta, finish_reason: reason } = { delta: {} }] = chunk.choices;
      finish_reason = reason ?? finish_reason;
      for (const member of ["content", "refusal", "reasoning_content"]) message[member] += delta[member] ?? "";
      message.annotations.push(...(delta.annotations ?? []));
      for (const { index, function: { name, arguments: args } } of delta.tool_calls ?? []) {
        message.tool_calls[index] ??= { function: { name, arguments: "" } };
        message.tool_calls[index].function.arguments += args ?? "";
      }
    }
    return readCompletion({ ...last, choices: [{ message, finish_reason }] });
  },
  helper: async (model, more) => {
    const stream = client.chat.completions.stream({ model, messages: input, stream_options: { include_usage: true }, ...more });
    let deltas = "";
    stream.on("content", (delta) => (deltas += delta));
    const completion = await stream.finalChatCompletion();
    return { deltas, parsed: completion.choices[0].message.parsed, ...readCompletion(completion) };
  },
  json: async (model, more) => readCompletion(await client.chat.completions.create({ model, messages: input, ...more })),
};

/** The client's own loop: it runs the functions and asks again. */
async function chatLoop(model, stream) {
  const tools = chatTools.map((tool) => ({
    ...tool, function: { ...tool.function, function: functions[tool.function.name].run, parse: JSON.parse },
  }));
  const streaming = stream ? { stream: true, stream_options: { include_usage: true } } : {};
  const runner = client.chat.completions.runTools({ model, messages: input, tools, ...streaming });
  const completion = await runner.finalChatCompletion();
  const called = runner.messages.flatMap((message) => message.tool_calls ?? []);
  return { ...readCompletion(completion), called: called.map((it) => [it.function.name, it.function.arguments]) };
}

// cases

const cases = {};
for (const [api, forms] of Object.entries({ responses, chat })) {
  for (const [form, read] of Object.entries(forms)) {
    for (const name of scenarios[api]) cases[`${api}/${name}/${form}`] = () => read(name);
  }
  for (const form of ["events", "json"]) {
    for (const name of failures) cases[`${api}/${name}/${form}`] = () => forms[form](name);
  }
}
for (const name of loops) {
  for (const [form, ask] of Object.entries(responsesAsk)) cases[`responses/${name}/${form}`] = () => responsesLoop(name, ask);
  cases[`chat/${name}/helper`] = () => chatLoop(name, true);
  cases[`chat/${name}/json`] = () => chatLoop(name, false);
}

cases["responses/structured/json"] = async () => {
  const response = await client.responses.parse({ model: "structured", input, text: { format: zodTextFormat(Record, "record") } });
  return { parsed: response.output_parsed, ...readResponse(response) };
};
cases["responses/structured/helper"] = () => responses.helper("structured", { text: { format: zodTextFormat(Record, "record") } });
const response_format = zodResponseFormat(Record, "record");
cases["chat/structured/json"] = async () => {
  const completion = await client.chat.completions.parse({ model: "structured", messages: input, response_format });
  return { parsed: completion.choices[0].message.parsed, ...readCompletion(completion) };
};
cases["chat/structured/helper"] = () => chat.helper("structured", { response_format });

cases["models/list"] = async () => ({
  models: (await client.models.list()).data.map(({ id, object }) => [id, object]),
  owners: (await client.models.list()).data.map((it) => it.owned_by),
});
cases["models/unknown"] = async () => client.models.retrieve("no-such-model");
cases["other/embeddings"] = async () => client.embeddings.create({ model: "text", input: "Hi" });
cases["other/no-model"] = async () => client.responses.create({ input });

shortenWaits();
await report(cases);
