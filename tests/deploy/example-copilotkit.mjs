// deploy/examples/copilotkit in Chromium: two turns, text that appears while it is streamed, a tool of the page, approvals.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as frame from "./example_page.mjs";
import { assertReadable, assertToolIsShown, BOATS, button, go, page, visit } from "./example_page.mjs";

const answer = (text) => page.getByTestId("copilot-assistant-message").last().getByText(text).waitFor();
const ended = () => page.locator('[data-copilot-running="false"]').waitFor();

async function ask(text) {
  await page.getByRole("textbox").fill(text);
  await page.getByTestId("copilot-send-button").click();
}

/** Without a license key, CopilotKit warns of its terms; nothing else may be on the console. */
const assertQuiet = (isExpected = () => false) =>
  frame.assertQuiet((text) => isExpected(text) || (text.startsWith("[CopilotKit]") && text.includes("publicLicenseKey")));

test("two turns, text that appears while the provider is still speaking, and a reload that keeps both", async () => {
  await visit();
  await assertReadable("copilotkit-start");
  await ask("When does the reading room open?");
  await answer("opens at nine");
  await ended();
  await ask("A long answer until copilotkit");
  await answer("Sentence 5");
  assert.doesNotMatch(await page.locator("body").innerText(), /Sentence 6/);
  await go("copilotkit");
  await answer("Sentence 11");
  await ended();
  await page.reload();
  await answer("Sentence 11");
  assert.equal(await page.getByTestId("copilot-assistant-message").count(), 2);
  await assertReadable("copilotkit");
  assertQuiet();
});

test("the page runs a tool, and the model goes on with its result", async () => {
  await visit();
  await ask("Which function tells when boats leave?");
  await answer(BOATS);
  await ended();
  await assertToolIsShown("done");
  await assertReadable("copilotkit-tool");
  assertQuiet();
});

for (const [decision, text] of [["Approve", "Two seats are booked."], ["Decline", "No seats were booked."]]) {
  test(`${decision} a call`, async () => {
    await visit();
    await ask("Book two seats, with my approval");
    await button(decision).waitFor();
    await page.getByRole("group", { name: "book_seats" }).getByText('"seats":2').waitFor();
    if (decision === "Approve") {
      await assertReadable("copilotkit-approval");
      await frame.approveTooLate();
      await assertReadable("copilotkit-approval-late");
      await ask("When does the reading room open?"); // the chat goes on
      await answer("opens at nine");
      await ended();
      await visit();
      await ask("Book two seats, with my approval");
      await button(decision).waitFor();
    }
    await ended();
    await page.reload(); // what waits for a person waits longer than a page
    await button(decision).click();
    await answer(text);
    await ended();
    assert.equal(await frame.focused(), "Conversation");
    assert.equal(await button(decision).count(), 0);
    assertQuiet(frame.isLate);
  });
}
