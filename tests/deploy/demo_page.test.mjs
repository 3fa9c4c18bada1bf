// The demo page in Chromium, when the network or the server fails, and with a long answer.
//
//   node demo_page.test.mjs PYTHON PATH_OF_CHROMIUM FOLDER_FOR_PICTURES

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { launch, opened } from "./chromium.mjs";
import { assertShortTasks, sections } from "./long_answer.mjs";
import { startProjector, startProvider, startWire } from "./scripted_provider.mjs";

const [, , python, executablePath, pictures] = process.argv;
let provider, projector, wire, browser, page;

before(async () => {
  [provider, browser] = await Promise.all([startProvider(), launch(executablePath)]);
  projector = await startProjector(python, provider);
  wire = await startWire(projector.url);
});
after(async () => {
  await browser?.close();
  wire?.close();
  await projector?.close();
  provider?.close();
});
beforeEach(() => open());
afterEach(() => page.context().close());

async function open() {
  await page?.context().close();
  ({ page } = await opened(await browser.newContext(), wire.url));
}

const answer = () => page.locator(".answer").last();
const shows = (text) => answer().getByText(text).first().waitFor();

/** Sends a question, and returns the provider's call. */
async function ask(question) {
  await page.getByRole("textbox", { name: "Message" }).fill(question);
  await page.keyboard.press("Enter");
  return provider.next();
}

test("offline for five seconds, and then complete", async () => {
  const call = await ask("Count");
  call.text("one, ");
  await shows("one,");
  wire.cut();
  for (const text of ["two, ", "three, ", "four, "]) call.text(text);
  await shows("Connection lost.");
  await page.waitForTimeout(5_000);
  wire.mend();
  call.text("five.");
  call.end();
  await shows("one, two, three, four, five.");
  await shows("Complete");
});

test("the server is killed: the page says so, and tries again", async () => {
  const call = await ask("Count");
  call.text("one, ");
  await shows("one,");
  await projector.kill();
  await shows("Connection lost.");
  await page.screenshot({ path: join(pictures, "demo-lost.png") });
  await projector.start();
  await page.getByRole("button", { name: "Try again" }).click();
  const again = await provider.next();
  again.text("one, two.");
  again.end();
  await shows("one, two.");
  await shows("Complete");
});

test("an answer of 10,000 deltas at once blocks the page for less than 50 ms at a time, and is complete", async (t) => {
  const all = sections(10_000);
  await assertShortTasks(join(pictures, "demo-long-answer.txt"), t, async () => {
    await open();
    const call = await ask("Tell me everything");
    const action = async () => {
      for (const delta of all.flat()) call.text(delta);
      call.end();
      await shows(`Pier ${all.length} is done.`);
      await shows("Complete");
    };
    return { page, action };
  });
  const paragraphs = await answer().locator(".text p").allTextContents();
  assert.equal(paragraphs.join("\n\n"), all.flat().join("").trim().replace(/\n{2,}/g, "\n\n"));
});
