// Runs a script of this folder with the client's source in place of the package.
//
//   node run-source.mjs SCRIPT

import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";

const root = join(import.meta.dirname, "..");
const outfile = join(tmpdir(), `public-stream-client-${process.pid}.mjs`);
await build({
  ...{ entryPoints: [join(import.meta.dirname, process.argv[2])], outfile, bundle: true, format: "esm", platform: "node" },
  alias: { "public-stream-client": join(root, "src", "index.ts") },
});
try {
  await import(pathToFileURL(outfile));
} finally {
  rmSync(outfile);
}
