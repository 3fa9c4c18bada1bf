// The frame of the tests of deploy/examples: a browser, a page as a new visitor sees it, and what a visitor does.
//
//   node example-NAME.mjs URL PATH_OF_CHROMIUM FOLDER_FOR_PICTURES [URL_OF_PROVIDER]
//
// Without the scripted provider (example_provider.py), only what `projector demo` answers is tested.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { assertReadable as readable, forgetful, launch, opened } from "./chromium.mjs";

const [, , url, executablePath, folder, provider] = process.argv;
export const BOATS = "The next boats leave at 14:10 and 14:35.";
export const testScripted = provider === undefined ? () => undefined : test;

/** The page of the last visit, and what the browser complained about. */
export let page;
let complaints;
let browser;

before(async () => void (browser = await launch(executablePath)));
after(() => browser.close());

/** Opens the page as a new visitor. */
export async function visit(search = "") {
  await page?.context().close();
  ({ page, complaints } = await opened(await browser.newContext({ viewport: { width: 900, height: 900 } }), `${url}${search}`));
}

/** Asserts that the page can be read on each screen; with the scripted provider only, since with the demo it looks the same. */
export const assertReadable = async (name) => void (provider !== undefined && (await readable(page, join(folder, name))));

export const button = (name) => page.getByRole("button", { name, exact: true });

/** Lets the provider go on where it waits, or waits until it does wait there. */
export const go = (gate) => fetch(`${provider}/go/${gate}`);
export const reached = (gate) => fetch(`${provider}/at/${gate}`);

/** Asserts that the console is empty, but for texts that are expected. */
export const assertQuiet = (isExpected = () => false) =>
  assert.deepEqual(complaints.filter((text) => !isExpected(text)), []);

/** Approves a call whose response the server does not know any more; the page has to say so. */
export async function approveTooLate() {
  const remember = await forgetful(page);
  await button("Approve").click();
  await page.getByRole("alert").getByText("not known any more").first().waitFor();
  await remember();
}

/** The browser reports an answer to `approveTooLate`. */
export const isLate = (text) => text.includes("404") || text.includes("not known any more");

/** Returns the label of the element with the focus. */
export const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label"));

/** Sends a question. */
export async function ask(text) {
  await page.getByLabel("Message").fill(text);
  await button("Send").click();
}

export const ended = () => button("Send").waitFor();

/** Asserts that the page has run the tool: its state, the arguments and the result are shown. */
export async function assertToolIsShown(state) {
  const tool = await page.getByRole("group", { name: "get_departures" }).innerText();
  assert.match(tool, new RegExp(`${state}.*"pier":"North".*"to":"Skarholm"`, "s"));
}
