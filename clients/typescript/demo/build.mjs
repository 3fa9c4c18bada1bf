// Builds the demo page into the Python package; with `--check` it compares instead, and fails if a file is stale.
//
//   node build.mjs [--check]

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const target = join(here, "..", "..", "..", "projector", "server", "demo_page");
const isCheck = process.argv.includes("--check");

const { outputFiles } = await build({
  ...{ entryPoints: [join(here, "app.ts")], bundle: true, minify: true, format: "esm", target: "es2022", write: false },
  ...{ banner: { js: "// Built from clients/typescript by `make page`; do not edit." }, legalComments: "none", charset: "utf8" },
});
const files = {
  "app.js": outputFiles[0].text,
  "index.html": await readFile(join(here, "index.html"), "utf8"),
  "style.css": await readFile(join(here, "style.css"), "utf8"),
};

for (const [name, text] of Object.entries(files)) {
  const path = join(target, name);
  const isFresh = (await readFile(path, "utf8").catch(() => undefined)) === text;
  if (isFresh) continue;
  console.log(isCheck ? `stale: projector/server/demo_page/${name}; run \`make page\`` : `projector/server/demo_page/${name}`);
  if (isCheck) process.exitCode = 1;
  else await mkdir(target, { recursive: true }).then(() => writeFile(path, text));
}
