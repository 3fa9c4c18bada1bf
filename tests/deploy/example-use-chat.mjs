// deploy/examples/use-chat in Chromium: two turns, a tool of the page, approvals, stop, and reloads in the middle.
//
//   node example-use-chat.mjs URL PATH_OF_CHROMIUM FOLDER_FOR_PICTURES [URL_OF_PROVIDER]
//
// Without the scripted provider (example_provider.py), what `projector demo` answers is tested.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fits, launch, lowContrasts, opened } from "./chromium.mjs";

const [, , url, executablePath, folder, provider] = process.argv;
const testScripted = provider === undefined ? () => undefined : test;
const BOATS = "The next boats leave at 14:10 and 14:35.";
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

const button = (name) => page.getByRole("button", { name, exact: true });
const go = (gate) => fetch(`${provider}/go/${gate}`);
const shown = (text) => page.getByText(text, { exact: false }).last().waitFor();
const ended = () => button("Send").waitFor();
const answers = () => page.locator("li.assistant").allInnerTexts();

async function ask(text) {
  await page.getByLabel("Message").fill(text);
  await button("Send").click();
}

test("two turns", async () => {
  await visit();
  await button("When does the reading room open?").click();
  await shown("opens at nine");
  await ended();
  await ask("And once more?");
  await page.locator("li.assistant").nth(1).getByText("opens at nine").waitFor();
  await ended();
  const [first, second] = await answers();
  assert.equal(first, second);
  assert.equal(await page.locator("li").count(), 4);
  assert.ok(await fits(page));
  assert.deepEqual(await lowContrasts(page), []);
  assert.deepEqual(complaints, []);
});

test("the page runs a tool, and the model goes on with its result", async () => {
  await visit();
  await button("Which function tells when boats leave?").click();
  await shown(BOATS);
  await ended();
  const tool = await page.getByRole("region", { name: "get_departures" }).innerText();
  assert.match(tool, /output-available.*"pier":"North".*"to":"Skarholm"/s);
  assert.equal(await page.locator("li.assistant").count(), 1);
  assert.deepEqual(complaints, []);
  await page.screenshot({ path: join(folder, "use-chat-tool.png") });
});

// the built-in provider books in any case
for (const [decision, answer, add] of [["Approve", "Two seats are booked.", test], ["Deny", "No seats were booked.", testScripted]]) {
  add(`${decision} a call`, async () => {
    await visit();
    await ask("Book two seats, with my approval");
    await button(decision).waitFor();
    await page.screenshot({ path: join(folder, "use-chat-approval.png") });
    await button(decision).click();
    await shown(answer);
    await ended();
    assert.equal(await button(decision).count(), 0);
    assert.deepEqual(complaints, []);
  });
}

testScripted("stop", async () => {
  await visit();
  await ask("A long answer until stop");
  await shown("Sentence 5");
  await button("Stop").click();
  await ended();
  const [stopped] = await answers();
  assert.match(stopped, /Sentence 5/);
  assert.doesNotMatch(stopped, /Sentence 6/);
  await page.reload();
  await shown("Sentence 5");
  assert.deepEqual(await answers(), [stopped]);
  assert.deepEqual(complaints, []);
});

testScripted("a reload in the middle loses and doubles nothing", async () => {
  await visit();
  await go("undisturbed");
  await ask("A long answer until undisturbed");
  await shown("Sentence 11");
  await ended();
  const undisturbed = await answers();
  await button("New chat").click();
  await page.locator("li").first().waitFor({ state: "detached" });

  await ask("A long answer until reloaded");
  await shown("Sentence 5");
  await page.reload();
  await shown("Sentence 5");
  assert.doesNotMatch((await answers()).join(), /Sentence 6/);
  await go("reloaded");
  await shown("Sentence 11");
  await ended();
  assert.deepEqual(await answers(), undisturbed);
  await page.reload();
  await shown("Sentence 11");
  assert.deepEqual(await answers(), undisturbed);
  assert.deepEqual(complaints, []);
});

testScripted("a reload while the model goes on keeps the tool and its result", async () => {
  await visit();
  await ask("When do boats leave, slowly, until continued");
  await page.getByText("output-available").waitFor();
  await button("Stop").waitFor();
  await page.reload();
  await page.getByText("output-available").waitFor();
  await go("continued");
  await shown(BOATS);
  await ended();
  assert.equal(await page.getByRole("region", { name: "get_departures" }).count(), 1);
  assert.equal(await page.getByText(BOATS).count(), 1);
  await ask("And once more?");
  await shown("opens at nine");
  await ended();
  assert.deepEqual(complaints, []);
});
