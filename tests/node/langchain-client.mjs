// LangChain's ChatOpenAI against a running server, in both APIs: stream, invoke, tool loops, structured output, errors.
//
//   node langchain-client.mjs PACKAGE BASE_URL PROVIDER_URL [PART_OF_A_NAME]

import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { Record, apiKey, baseURL, failures, functions, loops, packages, prompt, report, scenarios, shortenWaits } from "./client-report.mjs";

const { ChatOpenAI } = await import(packages);
const tools = Object.entries(functions).map(([name, { description, input, run }]) => tool(run, { name, description, schema: input }));
const chatModel = (api, model) => new ChatOpenAI({ model, apiKey, configuration: { baseURL, logLevel: "off" }, useResponsesApi: api === "responses" });

function readMessage(message) {
  const { tool_calls = [], usage_metadata, additional_kwargs, response_metadata } = message;
  const blocks = Array.isArray(message.content) ? message.content : [];
  return {
    kind: message.constructor.name,
    text: message.text,
    calls: tool_calls.map(({ name, args }) => [name, JSON.stringify(args)]),
    invalid: (message.invalid_tool_calls ?? []).map((it) => it.error),
    refusal: additional_kwargs.refusal ?? "",
    reasoning: additional_kwargs.reasoning_content ?? (additional_kwargs.reasoning?.summary ?? []).map((part) => part.text).join(""),
    hosted: (additional_kwargs.tool_outputs ?? []).map((item) => item.type),
    citations: blocks.flatMap((block) => block.annotations ?? []).map((it) => it.source),
    finish: response_metadata.finish_reason ?? response_metadata.status ?? null,
    model: response_metadata.model_name ?? null,
    usage: usage_metadata ? { input: usage_metadata.input_tokens, output: usage_metadata.output_tokens } : null,
  };
}

async function streamed(model, input) {
  let whole;
  let deltas = "";
  for await (const chunk of await model.stream(input)) {
    whole = whole ? whole.concat(chunk) : chunk;
    deltas += chunk.text;
  }
  return Object.assign(whole, { deltas });
}

const forms = { stream: streamed, json: (model, input) => model.invoke(input) };

/** Ask until the model calls no tool, at most five times. */
async function loop(model, ask) {
  const messages = [new HumanMessage(prompt)];
  const turns = [];
  for (let n = 0; n < 5; n += 1) {
    const answer = await ask(model.bindTools(tools), messages);
    turns.push(readMessage(answer));
    messages.push(answer);
    if (answer.tool_calls.length === 0) break;
    for (const call of answer.tool_calls) {
      const content = await tools.find((it) => it.name === call.name).invoke(call.args);
      messages.push(new ToolMessage({ tool_call_id: call.id, content }));
    }
  }
  return { ...turns.at(-1), called: turns.flatMap((turn) => turn.calls) };
}

const cases = {};
for (const [api, names] of Object.entries(scenarios)) {
  for (const [form, ask] of Object.entries(forms)) {
    for (const name of [...names, ...failures]) {
      cases[`${api}/${name}/${form}`] = async () => {
        const message = await ask(chatModel(api, name), [new HumanMessage(prompt)]);
        return { deltas: message.deltas, ...readMessage(message) };
      };
    }
    for (const name of loops) cases[`${api}/${name}/${form}`] = () => loop(chatModel(api, name), ask);
  }
  cases[`${api}/structured/json`] = async () => ({ parsed: await chatModel(api, "structured").withStructuredOutput(Record).invoke(prompt) });
}

shortenWaits();
await report(cases);
