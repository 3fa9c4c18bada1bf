// deploy/examples/use-chat in Chromium: two turns, a tool of the page, approvals, stop, and reloads in the middle.

import assert from "node:assert/strict";
import { test } from "node:test";
import { approveTooLate, ask, assertQuiet, assertReadable, assertToolIsShown, BOATS, button, ended, focused, go, isLate, page, reached, testScripted, visit } from "./example_page.mjs";

const shown = (text) => page.getByText(text, { exact: false }).last().waitFor();
const answers = () => page.locator("li.assistant").allInnerTexts();

test("two turns", async () => {
  await visit();
  await assertReadable("use-chat-start");
  await button("When does the reading room open?").click();
  await shown("opens at nine");
  await ended();
  await ask("And once more?");
  await page.locator("li.assistant").nth(1).getByText("opens at nine").waitFor();
  await ended();
  const [first, second] = await answers();
  assert.equal(first, second);
  assert.equal(await page.locator("li").count(), 4);
  await assertReadable("use-chat");
  assertQuiet();
});

test("the page runs a tool, and the model goes on with its result", async () => {
  await visit();
  await button("Which function tells when boats leave?").click();
  await shown(BOATS);
  await ended();
  await assertToolIsShown("output-available");
  assert.equal(await page.locator("li.assistant").count(), 1);
  await assertReadable("use-chat-tool");
  assertQuiet();
});

test("an answer that is cut off says so, also after a reload and when the conversation has gone on", async () => {
  const cut = "The provider's stream ended before it was complete.";
  await visit();
  await ask("Please truncate this");
  await shown(cut);
  await button("Ask again").waitFor();
  await page.reload();
  await shown(cut);
  await ask("When does the reading room open?");
  await page.locator("li.assistant").nth(1).getByText("opens at nine").waitFor();
  await ended();
  await page.locator("li.assistant").first().getByText(cut).waitFor();
  assert.equal(await button("Ask again").count(), 0);
  await assertReadable("use-chat-cut-off");
  assertQuiet();
});

// the built-in provider books in any case
for (const [decision, answer, add] of [["Approve", "Two seats are booked.", test], ["Deny", "No seats were booked.", testScripted]]) {
  add(`${decision} a call`, async () => {
    await visit();
    await ask("Book two seats, with my approval");
    await button(decision).waitFor();
    if (decision === "Approve") {
      await assertReadable("use-chat-approval");
      await approveTooLate();
      assert.equal(await focused(), "Conversation"); // Approve is gone
      await assertReadable("use-chat-approval-late");
      await button("Ask again").click();
    }
    await button(decision).click();
    await shown(answer);
    await ended();
    assert.equal(await button(decision).count(), 0);
    assertQuiet(isLate);
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
  assertQuiet();
});

testScripted("a stop without a network closes the answer", async () => {
  await visit();
  await ask("A long answer until offline");
  await shown("Sentence 5");
  await page.context().setOffline(true); // the stream stays open
  await button("Stop").click();
  await ended();
  await shown("Stopped.");
  await button("Ask again").waitFor();
  await go("offline");
  assertQuiet((text) => text.includes("ERR_INTERNET_DISCONNECTED"));
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
  assertQuiet();
});

testScripted("a reload while the model goes on keeps the tool and its result", async () => {
  await visit();
  await ask("When do boats leave, slowly, until continued");
  await page.getByText("output-available").waitFor();
  await reached("continued");
  await page.reload();
  await page.getByText("output-available").waitFor();
  await go("continued");
  await shown(BOATS);
  await ended();
  assert.equal(await page.getByRole("group", { name: "get_departures" }).count(), 1);
  assert.equal(await page.getByText(BOATS).count(), 1);
  await ask("And once more?");
  await shown("opens at nine");
  await ended();
  assertQuiet();
});
