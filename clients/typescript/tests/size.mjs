// Prints the size of entries, bundled, minified and gzipped, in bytes; React itself is not counted.

import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const NAME = "public-stream-client";
const BUNDLES = { client: [NAME], "client and hook": [NAME, `${NAME}/react`], "ai-sdk": [`${NAME}/ai-sdk`], "assistant-ui": [`${NAME}/assistant-ui`] };

const sizes = {};
for (const [bundle, entries] of Object.entries(BUNDLES)) {
  const contents = entries.map((entry) => `export * from "${entry}";`).join("\n");
  const { outputFiles } = await build({
    ...{ bundle: true, minify: true, format: "esm", target: "es2022", write: false, external: ["react"] },
    stdin: { contents, resolveDir: process.cwd() },
  });
  sizes[bundle] = gzipSync(outputFiles[0].contents, { level: 9 }).length;
}
console.log(JSON.stringify(sizes));
