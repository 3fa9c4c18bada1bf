// deploy/examples/assistant-ui in Chromium: two turns, a tool of the page and approvals, with each of the runtimes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { approveTooLate, ask, assertQuiet, assertReadable, assertToolIsShown, BOATS, button, ended, focused, go, isLate, page, testScripted, visit } from "./example_page.mjs";

const answer = (at, text) => page.locator(".assistant").nth(at).getByText(text).waitFor();

/** Runtime -> what it does: `@assistant-ui/react-data-stream` has no approvals, and `public_sse_v1` no tools of pages. */
const RUNTIMES = {
  "ai-sdk": ["tool", "approval"],
  "data-stream": ["tool"],
  "public-stream": ["approval"],
};

for (const [name, features] of Object.entries(RUNTIMES)) {
  const search = `?runtime=${name}`;
  const add = (feature, otherwise) => (features.includes(feature) ? otherwise : () => undefined);

  test(`${name}: two turns`, async () => {
    await visit(search);
    if (name === "public-stream") await assertReadable("assistant-ui-start");
    await button("When does the reading room open?").click();
    await answer(0, "opens at nine");
    await ended();
    await ask("And once more?");
    await answer(1, "opens at nine");
    await ended();
    assert.equal(await page.locator(".message").count(), 4);
    const before = await page.locator(".message").allInnerTexts();
    await page.reload();
    await answer(1, "opens at nine");
    assert.deepEqual(await page.locator(".message").allInnerTexts(), before);
    if (name === "public-stream") await assertReadable("assistant-ui");
    assertQuiet();
  });

  add("tool", test)(`${name}: the page runs a tool, and the model goes on with its result`, async () => {
    await visit(search);
    await button("Which function tells when boats leave?").click();
    await answer(0, BOATS);
    await ended();
    await assertToolIsShown("done");
    assert.equal(await page.locator(".assistant").count(), 1);
    await assertReadable(`assistant-ui-${name}-tool`);
    assertQuiet();
  });

  for (const [decision, text] of [["Approve", "Two seats are booked."], ["Decline", "No seats were booked."]]) {
    add("approval", testScripted)(`${name}: ${decision} a call`, async () => {
      await visit(search);
      await button("Book two seats, with my approval").click();
      await button(decision).waitFor();
      if (decision === "Approve") {
        await assertReadable(`assistant-ui-${name}-approval`);
        await approveTooLate();
        assert.equal(await focused(), "Conversation"); // Approve is gone
        await assertReadable(`assistant-ui-${name}-approval-late`);
        await ask("Book two seats, with my approval");
      }
      await button(decision).click();
      await page.locator(".assistant").last().getByText(text).waitFor();
      await ended();
      assert.equal(await button(decision).count(), 0);
      assertQuiet(isLate);
    });
  }

  testScripted(`${name}: text appears while the provider is still speaking`, async () => {
    await visit(search);
    await ask(`A long answer until ${name}`);
    await answer(0, "Sentence 5");
    assert.doesNotMatch(await page.locator(".assistant").innerText(), /Sentence 6/);
    await go(name);
    await answer(0, "Sentence 11");
    await ended();
    assertQuiet();
  });
}
