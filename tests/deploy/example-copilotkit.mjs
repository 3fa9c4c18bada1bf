// deploy/examples/copilotkit in Chromium: two turns, text that appears while it is streamed, a tool of the page, approvals.

import assert from "node:assert/strict";
import { test } from "node:test";
import { violations } from "./chromium.mjs";
import * as frame from "./example_page.mjs";
import { assertToolIsShown, BOATS, button, go, page, picture, visit } from "./example_page.mjs";

const answer = (text) => page.getByTestId("copilot-assistant-message").last().getByText(text).waitFor();
const ended = () => page.locator('[data-copilot-running="false"]').waitFor();

async function ask(text) {
  await page.getByRole("textbox").fill(text);
  await page.getByTestId("copilot-send-button").click();
}

/** Without a license key, CopilotKit warns of its terms; nothing else may be on the console. */
const assertQuiet = (isExpected = () => false) =>
  frame.assertQuiet((text) => isExpected(text) || (text.startsWith("[CopilotKit]") && text.includes("publicLicenseKey")));

test("two turns, and text that appears while the provider is still speaking", async () => {
  await visit();
  await ask("When does the reading room open?");
  await answer("opens at nine");
  await ended();
  await ask("A long answer until copilotkit");
  await answer("Sentence 5");
  assert.doesNotMatch(await page.locator("body").innerText(), /Sentence 6/);
  await go("copilotkit");
  await answer("Sentence 11");
  await ended();
  assertQuiet();
});

test("the page runs a tool, and the model goes on with its result", async () => {
  await visit();
  await ask("Which function tells when boats leave?");
  await answer(BOATS);
  await ended();
  await assertToolIsShown("done");
  assertQuiet();
  await picture("copilotkit-tool");
});

for (const [decision, text] of [["Approve", "Two seats are booked."], ["Decline", "No seats were booked."]]) {
  test(`${decision} a call`, async () => {
    await visit();
    await ask("Book two seats, with my approval");
    await button(decision).waitFor();
    await page.getByRole("region", { name: "book_seats" }).getByText('"seats":2').waitFor();
    await picture("copilotkit-approval");
    if (decision === "Approve") {
      await frame.approveTooLate();
      await picture("copilotkit-approval-late");
      await ask("When does the reading room open?"); // the chat goes on
      await answer("opens at nine");
      await ended();
      await visit();
      await ask("Book two seats, with my approval");
    }
    await button(decision).click();
    await answer(text);
    await ended();
    assert.equal(await button(decision).count(), 0);
    assertQuiet(frame.isLate);
  });
}

test("a narrow screen fits and is accessible, and a reload keeps the chat", async () => {
  await visit("", { viewport: { width: 320, height: 740 } });
  await ask("When does the reading room open?");
  await answer("opens at nine");
  await ended();
  await picture("copilotkit-narrow");
  assert.deepEqual([await violations(page), await frame.fits(page)], [[], true]);
  await page.reload();
  await answer("opens at nine");
  assert.equal(await page.getByTestId("copilot-assistant-message").count(), 1);
});
