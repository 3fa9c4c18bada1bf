// The AI SDK against a running server: its OpenAI provider in both APIs, its OpenAI-compatible provider, and the one for
// Open Responses.
//
//   node ai-sdk-client.mjs GENERATION BASE_URL PROVIDER_URL [PART_OF_A_NAME]
//
// The generation is the suffix of the packages: `latest` has none, `6` is `ai-6` with the providers made for it.

import { Record, apiKey, baseURL, errorOf, failures, functions, loops, packages, prompt, report, scenarios, shortenWaits } from "./client-report.mjs";

const generations = {
  latest: ["ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible", "@ai-sdk/open-responses-2"],
  6: ["ai-6", "@ai-sdk/openai-3", "@ai-sdk/openai-compatible-2", "@ai-sdk/open-responses"],
};
const [ai, openaiPackage, compatiblePackage, openResponsesPackage] = generations[packages];
const { Output, generateObject, generateText, stepCountIs, streamText, tool } = await import(ai);
const { createOpenAI } = await import(openaiPackage);
const { createOpenAICompatible } = await import(compatiblePackage);
const { createOpenResponses } = await import(openResponsesPackage);
globalThis.AI_SDK_LOG_WARNINGS = false;

const openai = createOpenAI({ apiKey, baseURL });
const compatible = createOpenAICompatible({ name: "projector", apiKey, baseURL, includeUsage: true, supportsStructuredOutputs: true });
const openResponses = createOpenResponses({ name: "projector", apiKey, url: `${baseURL}/responses` });
const apis = { responses: openai, chat: openai.chat, compatible, "open-responses": openResponses };

const clientTools = Object.fromEntries(
  Object.entries(functions).map(([name, { description, input, run }]) => [
    name,
    tool({ description, inputSchema: input, execute: async (args) => run(args) }),
  ]),
);
const hosted = {
  search: { web_search: openai.tools.webSearch({}) },
  files: { file_search: openai.tools.fileSearch({ vectorStoreIds: ["vs_1"] }) },
  code: { code_interpreter: openai.tools.codeInterpreter({}) },
  image: { image_generation: openai.tools.imageGeneration({}) },
  mcp: { mcp: openai.tools.mcp({ serverLabel: "stock", serverUrl: "https://mcp.example.com" }) },
};

/** Return the error as the application meets it: after retries, the last one. */
const failure = (error) => ({ ...errorOf(error.lastError ?? error), tries: error.errors?.length ?? 1 });

function readParts(parts) {
  const of = (type) => parts.filter((part) => part.type === type);
  const text = of("text").map((part) => part.text).join("");
  return {
    text,
    reasoning: of("reasoning").map((part) => part.text).join(""),
    called: of("tool-call").filter((it) => !it.providerExecuted).map((it) => [it.toolName, JSON.stringify(it.input)]),
    hosted: of("tool-call").filter((it) => it.providerExecuted).map((it) => it.toolName),
    results: of("tool-result").map((it) => it.toolName),
    invalid: of("tool-call").filter((it) => it.invalid).map((it) => String(it.error)),
    citations: of("source").map((it) => it.sourceType),
  };
}

const usageOf = ({ inputTokens, outputTokens }) => ({ input: inputTokens, output: outputTokens });

async function stream(options) {
  const result = streamText({ prompt, onError: () => {}, ...options });
  const parts = [];
  const open = new Map(); // ID of a part -> its text so far
  const read = { deltas: "", finish: null, usage: null, steps: 0, errors: [], unended: [] };
  for await (const part of result.fullStream) {
    const kind = part.type.split("-")[0];
    if (part.type === "text-start" || part.type === "reasoning-start") open.set(part.id, { type: kind, text: "" });
    else if (part.type === "text-delta" || part.type === "reasoning-delta") {
      open.get(part.id).text += part.text;
      if (kind === "text") read.deltas += part.text;
    } else if (part.type === "text-end" || part.type === "reasoning-end") {
      parts.push(open.get(part.id));
      open.delete(part.id);
    } else if (part.type === "error") read.errors.push(failure(part.error));
    else if (part.type === "finish-step") read.steps += 1;
    else if (part.type === "finish") Object.assign(read, { finish: part.finishReason, usage: usageOf(part.totalUsage) });
    else parts.push(part);
  }
  read.unended = [...open.keys()];
  if (options.output && read.errors.length === 0) read.parsed = await result.output;
  return { ...readParts(parts), ...read, error: read.errors[0] };
}

async function generate(options) {
  const result = await generateText({ prompt, ...options }).catch((error) => ({ error }));
  if (result.error) return { error: failure(result.error) };
  const parts = result.steps.flatMap((step) => step.content);
  const read = { finish: result.finishReason, usage: usageOf(result.totalUsage ?? result.usage), steps: result.steps.length, errors: [] };
  return { ...readParts(parts), ...read, ...(options.output ? { parsed: result.output } : {}) };
}

const cases = {};
for (const [api, model] of Object.entries(apis)) {
  for (const [form, read] of Object.entries({ stream, json: generate })) {
    for (const name of [...(api.endsWith("responses") ? scenarios.responses : scenarios.chat), ...failures]) {
      const tools = api === "responses" && hosted[name] ? { tools: hosted[name] } : {};
      cases[`${api}/${name}/${form}`] = () => read({ model: model(name), ...tools });
    }
    for (const name of loops) cases[`${api}/${name}/${form}`] = () => read({ model: model(name), tools: clientTools, stopWhen: stepCountIs(5) });
    cases[`${api}/structured/${form}`] = () => read({ model: model("structured"), output: Output.object({ schema: Record }) });
  }
  cases[`${api}/structured/object`] = async () => ({ parsed: (await generateObject({ model: model("structured"), prompt, schema: Record })).object });
}

shortenWaits();
await report(cases);
