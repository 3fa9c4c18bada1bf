// The page of recent streams in Chromium: the list, the panes, what is saved, small screens, a server with keys.
//
//   node streams.test.mjs URL_OF_A_DEMO PATH_OF_CHROMIUM FOLDER_FOR_PICTURES PYTHON

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { fits, launch, lowContrasts, opened, violations } from "../../../tests/deploy/chromium.mjs";
import { startProjector, startProvider, until } from "../../../tests/deploy/scripted_provider.mjs";

const [, , url, executablePath, folder, python] = process.argv;
const SECRETS = ["hunter2-not-a-real-key", "ter2-not-a-real-key", "example-bearer-000", "s3same", "AKIAIOSFODNN7EXAMPLE", "rt-example-1", "harbour-master-7781", "back office"];
let browser;
let page;
let complaints;

before(async () => {
  browser = await launch(executablePath);
  for (const message of ["Tell me a secret", "Let it fail"]) await (await ask(url, message)).text();
});
after(() => browser.close());

const ask = (server, message, headers = {}) =>
  fetch(`${server}api/v1/chat/stream`, { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify({ message }) });

async function open(options = {}, server = url) {
  await page?.context().close();
  const context = await browser.newContext({ viewport: { width: 1400, height: 880 }, reducedMotion: "reduce", ...options });
  ({ page, complaints } = await opened(context, `${server}streams`));
}

const rows = () => page.locator("#rows > tr");
const openRow = (text) => rows().filter({ hasText: text }).last().getByRole("link").click();
const areListed = (side, count) => page.waitForFunction(([name, least]) => document.querySelectorAll(`#${name}-events > li:not(.gap, .empty)`).length >= least, [side, count]);
const picture = (name) => page.screenshot({ path: join(folder, `streams-${name}.png`), fullPage: true });

async function assertSound(name) {
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  assert.deepEqual([await violations(page), await lowContrasts(page), await fits(page)], [[], [], true], name);
  await picture(name);
}

test("list and stream are accessible in both themes and on small screens, and have no secret", async () => {
  for (const [name, options] of [["wide", {}], ["dark", { colorScheme: "dark" }], ["small", { viewport: { width: 320, height: 640 } }]]) {
    await open(options);
    await rows().nth(1).waitFor();
    await assertSound(`list-${name}`);
    await openRow("redacted");
    await areListed("provider", 25);
    await areListed("page", 20);
    assert.equal(await page.evaluate(() => document.activeElement.id), "name");
    await assertSound(`one-${name}`);
  }
  await page.getByText("Something was withheld for safety.").first().waitFor();
  await page.locator("#figures").getByText("1 response.content_part.added").waitFor();
  for (const summary of await page.locator(".wire summary").all()) await summary.click();
  const html = await page.content();
  assert.deepEqual(SECRETS.filter((secret) => html.includes(secret)), []);
  assert.ok((await page.locator("#shown mark").count()) > 5);
  assert.deepEqual(complaints, []);
});

test("what is saved is what was shown, line by line, without a secret, and replays", async () => {
  await open();
  await openRow("redacted");
  await areListed("provider", 25);
  await page.locator("#holds").getByText("what the provider sent").waitFor();
  const text = await readFile(await saved("Save the events (NDJSON)"), "utf8");
  assert.deepEqual(SECRETS.filter((secret) => text.includes(secret)), []);
  assert.equal(text.trimEnd().split("\n").map((line) => JSON.parse(line)).length, 22);
  const { stdout } = await promisify(execFile)(python, ["-m", "projector", "replay", await saved("Save as a case (ZIP)")]);
  assert.match(stdout, /1 case replayed in 1 dialect, 0 differ/);
});

/** Presses a button, and returns the path of the file that it saves. */
async function saved(button) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: button }).click()]);
  assert.match(download.suggestedFilename(), /^stream_[0-9a-f]{32}\.(public_sse_v1\.ndjson|zip)$/);
  return download.path();
}

test("a stream of a passthrough route opens with what the provider sent", async () => {
  const body = JSON.stringify({ model: "demo", stream: true, messages: [{ role: "user", content: "Tides" }] });
  await (await fetch(`${url}v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body })).text();
  await open();
  await openRow("/v1/chat/completions");
  await areListed("provider", 5);
  await areListed("page", 5);
  await assertSound("passthrough");
});

test("it is live, it can be searched, and the keyboard stays where it is", async () => {
  await open();
  await rows().nth(1).waitFor();
  const before = await rows().count();
  await page.getByRole("searchbox").fill("rate_limit error");
  await page.getByText("1 found.").waitFor();
  assert.equal(await rows().count(), 1);
  await page.getByRole("searchbox").fill("nothing like that");
  await page.getByText("No stream has all of these words.").waitFor();
  await picture("none-found");
  await page.getByRole("searchbox").fill("");
  await rows().first().getByRole("link").focus();
  const focused = await page.evaluate(() => document.activeElement.href);
  const answering = ask(url, "Think about it step by step").then((response) => response.text());
  await until(async () => (await rows().count()) === before + 1, "the new stream is listed");
  assert.equal(await page.evaluate(() => document.activeElement.href), focused);
  await rows().first().getByRole("link").click();
  await areListed("page", 1);
  await picture("running");
  await answering;
  await page.locator("#name").getByText("Complete").waitFor();
  await areListed("provider", 5);
  assert.deepEqual(complaints, []);
  await page.getByRole("link", { name: "All streams" }).click();
  await rows().first().waitFor();
  await page.evaluate(() => (location.hash = "#stream_of_yesterday"));
  await page.getByText("The store does not have this stream any more.").waitFor();
  await page.getByText("No event can be read.").waitFor();
  await assertSound("gone");
  await page.context().setOffline(true);
  await page.getByText("The server cannot be reached. Trying again.").waitFor();
  await assertSound("offline");
});

test("a server with keys shows a caller its own streams, without what its provider sent", async (t) => {
  const provider = await startProvider();
  const projector = await startProjector(python, provider, "key-of-a-caller");
  t.after(async () => {
    await projector.close();
    provider.close();
  });
  await open({}, `${projector.url}/`);
  await page.getByText("This server needs the key of a caller").waitFor();
  await assertSound("key");
  await page.getByLabel("API key of this server").fill("key-of-a-caller");
  await page.keyboard.press("Enter");
  await page.getByText("There is no stream yet.").waitFor();
  await assertSound("empty");
  const asking = ask(`${projector.url}/`, "Hello", { authorization: "Bearer key-of-a-caller" });
  const call = await provider.next();
  call.text("One, two.");
  call.end();
  await (await asking).text();
  await openRow("key:caller");
  await page.locator("#shown").getByText("One, two.").waitFor();
  assert.ok(await page.locator("#provider").isHidden());
  await page.locator("#holds").getByText("nothing of the provider").waitFor();
  await assertSound("two-panes");
});
