// Renders answer.tsx: reads lines of {"name", "events"}, and writes lines of {"name", "html"}; `html` after each event.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { join } from "node:path";
import { build } from "esbuild";
import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { initialState, reduce } from "public-stream-client";

const outfile = join(import.meta.dirname, "answer.built.mjs");
const external = ["react", "react/jsx-runtime", "public-stream-client"];
await build({ entryPoints: [join(import.meta.dirname, "answer.tsx")], bundle: true, format: "esm", jsx: "automatic", external, outfile });
const { Answer } = await import(pathToFileURL(outfile));

for (const line of readFileSync(0, "utf8").trim().split("\n")) {
  const { name, events } = JSON.parse(line);
  let state = initialState;
  const html = events.map((event) => renderToStaticMarkup(createElement(Answer, { state: (state = reduce(state, event)) })));
  console.log(JSON.stringify({ name, html }));
}
