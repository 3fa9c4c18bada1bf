// Takes the picture of the demo page in the README, with a demo server of its own.
//
//   node picture.mjs PROJECTOR FILE [PATH_OF_CHROMIUM]

import { spawn } from "node:child_process";
import { once } from "node:events";
import { chromium } from "playwright-core";

const [, , projector, file, executablePath = "/usr/bin/chromium"] = process.argv;
const server = spawn(projector, ["demo", "--port", "0"], { stdio: ["ignore", "pipe", "ignore"] });
const [line] = await once(server.stdout.setEncoding("utf8"), "data");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme: "light", reducedMotion: "reduce" });
  await page.goto(/http:\/\/\S+/.exec(line)[0]);
  await page.getByRole("button", { name: "Secrets" }).click();
  await page.locator(".end b").waitFor();
  await page.locator("#provider li.dim").first().waitFor();
  await page.screenshot({ path: file });
} finally {
  await browser.close();
  server.kill();
}
