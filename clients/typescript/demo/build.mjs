// Builds the pages of the demo into the Python package; with `--check` it compares instead, and fails if a file is stale.
//
//   node build.mjs [--check]

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const target = join(here, "..", "..", "..", "projector", "server", "demo_page");
const isCheck = process.argv.includes("--check");

const { outputFiles } = await build({
  ...{ entryPoints: [join(here, "app.ts"), join(here, "streams.ts")], outdir: here, bundle: true, minify: true, format: "esm", target: "es2022", write: false },
  ...{ banner: { js: "// Built from clients/typescript by `make page`; do not edit." }, legalComments: "none", charset: "utf8" },
});
const files = Object.fromEntries(outputFiles.map(({ path, text }) => [basename(path), text]));
for (const name of ["index.html", "streams.html", "style.css"]) files[name] = await readFile(join(here, name), "utf8");

for (const [name, text] of Object.entries(files)) {
  const path = join(target, name);
  const isFresh = (await readFile(path, "utf8").catch(() => undefined)) === text;
  if (isFresh) continue;
  console.log(isCheck ? `stale: projector/server/demo_page/${name}; run \`make page\`` : `projector/server/demo_page/${name}`);
  if (isCheck) process.exitCode = 1;
  else await mkdir(target, { recursive: true }).then(() => writeFile(path, text));
}
