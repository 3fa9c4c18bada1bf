// deploy/examples/assistant-ui in Chromium: two turns and a tool of the page, with each of the runtimes.
//
//   node example-assistant-ui.mjs URL PATH_OF_CHROMIUM FOLDER_FOR_PICTURES [URL_OF_PROVIDER]

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fits, launch, lowContrasts, opened } from "./chromium.mjs";

const [, , url, executablePath, folder, provider] = process.argv;
const BOATS = "The next boats leave at 14:10 and 14:35.";
const testScripted = provider === undefined ? () => undefined : test;
let browser;
let page;
let complaints;

before(async () => void (browser = await launch(executablePath)));
after(() => browser.close());

/** Opens the page with a runtime, as a new visitor. */
async function visit(search) {
  await page?.context().close();
  ({ page, complaints } = await opened(await browser.newContext({ viewport: { width: 900, height: 900 } }), `${url}${search}`));
}

const button = (name) => page.getByRole("button", { name, exact: true });
const ended = () => button("Send").waitFor();
const answer = (at, text) => page.locator(".assistant").nth(at).getByText(text).waitFor();

async function ask(text) {
  await page.getByLabel("Message").fill(text);
  await button("Send").click();
}

for (const [name, search] of [["AI SDK", ""], ["data stream", "?runtime=data-stream"]]) {
  test(`${name}: two turns`, async () => {
    await visit(search);
    await button("When does the reading room open?").click();
    await answer(0, "opens at nine");
    await ended();
    await ask("And once more?");
    await answer(1, "opens at nine");
    await ended();
    assert.equal(await page.locator(".message").count(), 4);
    assert.ok(await fits(page));
    assert.deepEqual(await lowContrasts(page), []);
    assert.deepEqual(complaints, []);
  });

  test(`${name}: the page runs a tool, and the model goes on with its result`, async () => {
    await visit(search);
    await button("Which function tells when boats leave?").click();
    await answer(0, BOATS);
    await ended();
    const tool = await page.getByRole("region", { name: "get_departures" }).innerText();
    assert.match(tool, /done.*"pier":"North".*"to":"Skarholm"/s);
    assert.equal(await page.locator(".assistant").count(), 1);
    assert.deepEqual(complaints, []);
    await page.screenshot({ path: join(folder, `assistant-ui-${name.replace(" ", "-")}.png`) });
  });

  testScripted(`${name}: text appears while the provider is still speaking`, async () => {
    await visit(search);
    await ask(`A long answer until ${name.replace(" ", "-")}`);
    await answer(0, "Sentence 5");
    assert.doesNotMatch(await page.locator(".assistant").innerText(), /Sentence 6/);
    await fetch(`${provider}/go/${name.replace(" ", "-")}`);
    await answer(0, "Sentence 11");
    await ended();
    assert.deepEqual(complaints, []);
  });
}
