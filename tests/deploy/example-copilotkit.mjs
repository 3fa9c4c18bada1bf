// deploy/examples/copilotkit in Chromium: two turns, text that appears while it is streamed, and a tool of the page.
//
//   node example-copilotkit.mjs URL PATH_OF_CHROMIUM FOLDER_FOR_PICTURES URL_OF_PROVIDER

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fits, launch, opened } from "./chromium.mjs";

const [, , url, executablePath, folder, provider] = process.argv;
let browser;
let page;
let complaints;

before(async () => void (browser = await launch(executablePath)));
after(() => browser.close());

/** Opens the page as a new visitor. */
async function visit() {
  await page?.context().close();
  ({ page, complaints } = await opened(await browser.newContext({ viewport: { width: 900, height: 900 } }), url));
}

const answer = (text) => page.getByTestId("copilot-assistant-message").last().getByText(text).waitFor();
const ended = () => page.locator('[data-copilot-running="false"]').waitFor();

async function ask(text) {
  await page.getByRole("textbox").fill(text);
  await page.getByTestId("copilot-send-button").click();
}

/** Without a license key, CopilotKit warns of its terms; nothing else may be on the console. */
const assertQuiet = () =>
  assert.deepEqual(complaints.filter((text) => !(text.startsWith("[CopilotKit]") && text.includes("publicLicenseKey"))), []);

test("two turns, and text that appears while the provider is still speaking", async () => {
  await visit();
  await ask("When does the reading room open?");
  await answer("opens at nine");
  await ended();
  await ask("A long answer until copilotkit");
  await answer("Sentence 5");
  assert.doesNotMatch(await page.locator("body").innerText(), /Sentence 6/);
  await fetch(`${provider}/go/copilotkit`);
  await answer("Sentence 11");
  await ended();
  assert.ok(await fits(page));
  assertQuiet();
});

test("the page runs a tool, and the model goes on with its result", async () => {
  await visit();
  await ask("Which function tells when boats leave?");
  await answer("The next boats leave at 14:10 and 14:35.");
  await ended();
  const tool = await page.getByRole("region", { name: "get_departures" }).innerText();
  assert.match(tool, /done.*"pier":"North".*"to":"Skarholm"/s);
  assertQuiet();
  await page.screenshot({ path: join(folder, "copilotkit-tool.png") });
});
