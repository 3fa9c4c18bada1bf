// Takes pictures of the demo page with Chromium.
//
//   node screenshots.mjs URL FOLDER [PATH OF CHROMIUM]

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [, , url, folder, executablePath = "/usr/bin/chromium"] = process.argv;
const VIEWS = [
  ["light", { colorScheme: "light", viewport: { width: 1400, height: 880 } }, ["Secrets", "Search with citations", "Approval", "Image", "Code", "Failure"]],
  ["dark", { colorScheme: "dark", viewport: { width: 1400, height: 880 } }, ["Secrets", "Reasoning"]],
  ["narrow", { colorScheme: "light", viewport: { width: 360, height: 740 } }, ["Search with citations", "Approval"]],
];

await mkdir(folder, { recursive: true });
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
for (const [name, options, kinds] of VIEWS) {
  const page = await browser.newPage(options);
  page.on("console", (message) => console.log(name, message.type(), message.text()));
  page.on("pageerror", (error) => console.log(name, "error", String(error)));
  await page.goto(url);
  await page.screenshot({ path: join(folder, `${name}-start.png`) });
  for (const kind of kinds) {
    await page.getByRole("button", { name: kind, exact: true }).click();
    await page.getByRole("button", { name: "Stop" }).and(page.locator(":disabled")).waitFor();
    await page.waitForTimeout(200);
    await page.screenshot({ path: join(folder, `${name}-${kind.split(" ")[0].toLowerCase()}.png`), fullPage: name === "narrow" });
  }
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  console.log(name, "width", width);
  await page.close();
}
await browser.close();
