// Shared by the scripts of the OpenAI-compatible clients: the tools, the schema, and the report.
//
//   node SCRIPT PACKAGE BASE_URL PROVIDER_URL [PART_OF_A_NAME]
//
// A script runs its cases one after another. For each it prints one line of JSON: the name of the case
// (`api/scenario/form`), what the client read, and how many requests reached the provider, by model.

import { z } from "zod";

export const [, , packages, baseURL, provider, only = ""] = process.argv;
export const apiKey = "none"; // the server has the provider's key
export const prompt = "What is the weather in Oslo?";
export const failures = [400, 401, 403, 404, 409, 413, 422, 429, "429-later", 500, 503].map((status) => `fail-${status}`);

const common = ["text", "search", "reasoning", "refusal", "secrets", "incomplete", "error-midstream", "truncated", "fails-once"];

/** API -> models of the provider that answer without the client's functions. */
export const scenarios = {
  responses: [...common, "unicode", "files", "code", "citations", "image", "mcp", "failed-midstream"],
  chat: common,
};
export const loops = ["tools", "parallel-tools"];

/** The loan record of the scenario `structured`. */
export const Record = z.object({ title: z.string(), year: z.number(), loans: z.array(z.string()) });

/** Name -> description, parameters and result of the functions that the scenarios call. */
export const functions = {
  get_weather: { description: "Weather of a city", input: z.object({ city: z.string() }), run: ({ city }) => `${city}: 4 degrees` },
  get_time: { description: "Time of a zone", input: z.object({ zone: z.string() }), run: ({ zone }) => `${zone}: 13:05` },
};

/** Call a function with its arguments as text, as a model sends them. */
export const call = (name, args) => functions[name].run(functions[name].input.parse(JSON.parse(args)));

const { setTimeout } = globalThis;
const isBackoff = (ms) => ms >= 200 && ms <= 120_000; // shorter: the client's logic; longer: its time-outs

/** Shorten the waits between retries, so that clients run with their default retries. */
export function shortenWaits() {
  globalThis.setTimeout = (callback, ms, ...rest) => setTimeout(callback, isBackoff(ms) ? 1 : ms, ...rest);
}

/** Return the members of an error that an application can rely on. */
export function errorOf(error) {
  const { status, statusCode, code, type, message, requestID, isRetryable } = error;
  return { kind: error.constructor.name, name: error.name, status: status ?? statusCode, code, type, message, requestID, isRetryable };
}

/** Run the cases in their order, or those with `only` in their names, and print a line for each. */
export async function report(cases) {
  for (const [name, read] of Object.entries(cases).filter(([name]) => name.includes(only))) {
    await fetch(`${provider}/calls`, { method: "DELETE" });
    const reading = await read().catch((error) => ({ error: errorOf(error), stack: error.stack }));
    const requests = await (await fetch(`${provider}/calls`)).json();
    console.log(JSON.stringify({ name, requests, ...reading }));
  }
}
