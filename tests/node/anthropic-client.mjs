// Clients of Anthropic against a running server: stream helper, JSON answer and tool loops, one line of JSON each.
//
//   node anthropic-client.mjs CLIENT BASE_URL MODEL...
//
// The client is `npm` (@anthropic-ai/sdk) or `ai-sdk` (@ai-sdk/anthropic). A line has the model, the way of asking, and
// the content or what was raised; of the model `loop`, also the executed calls, and everything that the client received.

import { shortenWaits } from "./client-report.mjs";
import { z } from "zod";

const [, , client, baseURL, ...models] = process.argv;
const apiKey = "sk-client";
const prompt = "Hi";
const maxTurns = 40;
const inputSchema = z.object({ at: z.string().optional() });
const names = ["look", "find"];

/** Return what a block has. */
const blockOf = ({ type, text, thinking, name, input }) => ({ type, text, thinking, name, input });

async function npm() {
  const { default: Anthropic } = await import("@anthropic-ai/sdk");
  const { betaZodTool } = await import("@anthropic-ai/sdk/helpers/beta/zod");
  const { messages, models: listed, beta } = new Anthropic({ apiKey, baseURL, logLevel: "off" });
  const body = (model) => ({ model, max_tokens: 100, messages: [{ role: "user", content: prompt }] });
  const read = ({ content, stop_reason }) => ({ content: content.map(blockOf), stop_reason });

  async function loop(model, stream) {
    const [executed, received] = [[], []];
    const run = (name) => (input) => { executed.push([name, input]); return `${name}: done`; };
    const tools = names.map((name) => betaZodTool({ name, description: name, inputSchema, run: run(name) }));
    const runner = beta.messages.toolRunner({ ...body(model), tools, stream, max_iterations: maxTurns });
    for await (const answer of runner) {
      if (stream) for await (const event of answer) received.push(event);
      else received.push(answer);
    }
    return { ...read(await runner.done()), executed, received };
  }

  return {
    streamed: async (model) => read(await messages.stream(body(model)).finalMessage()),
    whole: async (model) => read(await messages.create(body(model))),
    counted: async (model) => ({ tokens: (await beta.messages.countTokens({ ...body(model), max_tokens: undefined, betas: ["one"] })).input_tokens }),
    listed: async () => {
      const found = {};
      for await (const { id, display_name } of listed.list({ limit: 2 })) found[id] = display_name;
      return { names: found };
    },
    loop_streamed: (model) => loop(model, true),
    loop_whole: (model) => loop(model, false),
    raised: ({ status, error, requestID, constructor }) => ({ raised: [status ?? null, error?.error?.type ?? null], class: constructor.name, has_id: Boolean(requestID) }),
  };
}

async function aiSdk() {
  const { generateText, stepCountIs, streamText, tool } = await import("ai");
  const { createAnthropic } = await import("@ai-sdk/anthropic");
  globalThis.AI_SDK_LOG_WARNINGS = false;
  const anthropic = createAnthropic({ apiKey, baseURL: `${baseURL}/v1` });
  const types = { reasoning: "thinking", "tool-call": "tool_use" };

  const read = ({ content, finishReason, rawFinishReason }) => ({
    content: content
      .filter(({ type }) => type in types || type === "text")
      .map(({ type, text, toolName: name, input }) => blockOf({ type: types[type] ?? type, name, input, ...(type === "reasoning" ? { thinking: text } : { text }) })),
    stop_reason: rawFinishReason ?? finishReason,
  });

  function toolsOf(executed) {
    const execute = (name) => async (input) => { executed.push([name, input]); return `${name}: done`; };
    return Object.fromEntries(names.map((name) => [name, tool({ description: name, inputSchema, execute: execute(name) })]));
  }

  async function stream(options) {
    const parts = [];
    const result = streamText({ prompt, onError: () => {}, ...options });
    for await (const part of result.fullStream) {
      if (part.type === "error") throw part.error;
      parts.push(part);
    }
    return { ...read({ content: await result.content, finishReason: await result.finishReason, rawFinishReason: await result.rawFinishReason }), received: parts };
  }

  async function generate(options) {
    const result = await generateText({ prompt, ...options });
    return { ...read(result), received: result.steps.map(({ content }) => content) };
  }

  const loop = async (model, ask) => {
    const executed = [];
    return { ...(await ask({ model: anthropic(model), tools: toolsOf(executed), stopWhen: stepCountIs(maxTurns) })), executed };
  };
  const once = async (model, ask) => {
    const executed = [];
    const { received, ...shown } = await ask({ model: anthropic(model), tools: toolsOf(executed) }).catch((error) => { throw Object.assign(error, { executed }); });
    return { ...shown, executed };
  };

  return {
    streamed: (model) => once(model, stream),
    whole: (model) => once(model, generate),
    loop_streamed: (model) => loop(model, stream),
    loop_whole: (model) => loop(model, generate),
    raised: (error) => {
      const { statusCode, data, constructor, message, type, error: inner } = error.lastError ?? error;
      return { raised: [statusCode ?? null, data?.error?.type ?? inner?.type ?? type ?? null], class: constructor.name, message, executed: error.executed };
    },
  };
}

shortenWaits();
const { raised, ...ways } = await { npm, "ai-sdk": aiSdk }[client]();
for (const [way, ask] of Object.entries(ways)) {
  const asked = way === "listed" ? [""] : models.filter((model) => model.startsWith("loop") === way.startsWith("loop"));
  for (const model of asked) {
    const line = await ask(way.startsWith("loop") ? `${model}-${way}` : model).then((result) => ({ result }), raised);
    console.log(JSON.stringify({ model, way, ...line }));
  }
}
