// The demo page in Chromium: every kind of answer, withheld secrets, stop, a dropped connection, keyboard, small screens.
//
//   node page.test.mjs URL PATH_OF_CHROMIUM FOLDER_FOR_PICTURES URL_OF_A_SLOW_DEMO

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { assertReadable, fits, forgetful, launch, lowContrasts, opened, violations } from "../../../tests/deploy/chromium.mjs";
import { until } from "../../../tests/deploy/scripted_provider.mjs";

const [, , url, executablePath, folder, slowUrl] = process.argv; // what acts in the middle of an answer may be late by seconds
const SECRETS = ["hunter2-not-a-real-key", "example-bearer-000", "s3same", "AKIAIOSFODNN7EXAMPLE", "rt-example-1", "harbour-master-7781"];
let browser;
let page;
let complaints;

before(async () => void (browser = await launch(executablePath)));
after(() => browser.close());

/** Opens the page, which plays nothing by itself; whatever the console complains about fails the test. */
async function open(options = {}, server = url) {
  await page?.context().close();
  const context = await browser.newContext({ viewport: { width: 1400, height: 880 }, reducedMotion: "reduce", ...options });
  ({ page, complaints } = await opened(context, server));
}

const button = (name) => page.getByRole("button", { name, exact: true });
const answer = () => page.locator(".answer").last();
const ended = async () => {
  await answer().locator(".end b").waitFor();
  await until(areListed, "all events are listed");
};
const areListed = () =>
  page.evaluate(() =>
    ["page", "provider"].every((side) => {
      const rows = document.querySelectorAll(`#${side}-events > li:not(.gap, .empty)`);
      return rows.length === (Number.parseInt(document.querySelector(`#${side}-count`).textContent) || 0);
    }),
  );
const events = (side = "page") => page.locator(`#${side}-events > li:not(.gap)`);
const remarks = (side) => page.locator(`#${side}-events > .gap`).allInnerTexts();

async function choose(kind) {
  await button(kind).click();
  await ended();
}

/** Does something in the page as soon as it has received some events, however slow this script is. */
const atEvent = (count, action) =>
  page.evaluate(
    ([most, name]) => {
      const actions = {
        drop: () => document.querySelector("#drop").click(),
        reload: () => location.reload(),
        escape: () => document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" })),
      };
      const list = document.querySelector("#page-events");
      const observer = new MutationObserver(() => {
        if (list.children.length < most) return;
        observer.disconnect();
        actions[name]();
      });
      observer.observe(list, { childList: true });
    },
    [count, action],
  );

// kind of answer, what the page shows of it, and how it ends
const KINDS = [
  ["Text", ["opens at nine", "Opening hours"], "Complete"],
  ["Search with citations", ["Search of the web", "The strike ended on Sunday", "Live sailings"], "Complete"],
  ["Code", ["import statistics", "The mean fare is 5.20."], "Complete"],
  ["Image", ["Image"], "Complete"],
  ["Tools", ["get_departures", "waits for this page", "Run it here"], "Complete"],
  ["Approval", ["book_seats", "needs your approval", "Approve"], "Complete"],
  ["Reasoning", ["Twelve bays of six shelves", "Seventy shelves are free."], "Complete"],
  ["Refusal", ["I'm sorry, but I can't help"], "Refused"],
  ["Failure", [], "Failed"],
  ["Secrets", ["call_service", "The dock opens with withheld"], "Complete"],
];

test("the first visit plays an answer by itself", async () => {
  await open({ reducedMotion: "no-preference" });
  await page.getByText("The dock opens with").first().waitFor();
  await ended();
  assert.equal(await button("Secrets").getAttribute("aria-pressed"), "true");
  assert.ok(await page.locator(".hint").isVisible());
  assert.equal(await page.locator(".answer").count(), 1);
  assert.deepEqual(complaints, []);
});

test("every kind of answer, without a complaint of the browser", async () => {
  await open();
  assert.equal(await page.locator(".answer").count(), 0, "with reduced motion, the first visit plays nothing");
  for (const [kind, texts, end] of KINDS) {
    await choose(kind);
    const shown = await answer().innerText();
    for (const text of texts) assert.ok(shown.includes(text), `${kind}: ${text} is not in ${shown}`);
    assert.ok(!shown.includes("**"), kind);
    assert.equal(await answer().locator(".end b").innerText(), end, kind);
    assert.ok((await events().count()) > 3, kind);
    await page.screenshot({ path: join(folder, `demo-kind-${kind.replaceAll(" ", "-").toLowerCase()}.png`) });
  }
  assert.equal(await page.locator(".answer img").count(), 1);
  assert.deepEqual(complaints, []);
});

test("secrets are marked on the provider's side, and nowhere else on the page", async () => {
  await open();
  await choose("Secrets");
  await page.locator("#provider li.dim").first().waitFor();
  for (const summary of await page.locator(".wire summary").all()) await summary.click();
  const [provider, public_, shown] = await Promise.all(["#provider", "#page", "#shown"].map((id) => page.locator(id).innerText()));
  const opened = await page.locator("#provider pre").evaluateAll((all) => all.map((one) => one.cloneNode(true)).map((one) => (one.querySelectorAll("mark").forEach((mark) => mark.remove()), one.textContent)).join());
  assert.ok(!opened.includes("harbour-master-7781") && !opened.includes("back office"), "marked where an event is opened");
  for (const secret of SECRETS) {
    assert.ok(secret === SECRETS[3] || provider.includes(secret), secret); // that one is cut by the deltas
    assert.ok(!public_.includes(secret) && !shown.includes(secret), secret);
  }
  assert.ok(!public_.includes("Northquay back office"), "instructions");
  const marks = (await page.locator("#provider summary mark").allInnerTexts()).join("|");
  for (const piece of ["hun", "ter2-not-a-real", "har", "bour-mast", "er-7781"]) assert.ok(marks.includes(piece), `${piece} in ${marks}`);
  assert.deepEqual(complaints, []);
  await page.screenshot({ path: join(folder, "demo-secrets.png") });
});

const said = () => page.locator("#said").innerText();

test("what is announced: the text without markup, and what the answer waits for", async () => {
  await open();
  for (const [kind, start, text] of [
    ["Search with citations", "Complete. ", "The strike ended on Sunday"],
    ["Secrets", "Complete. ", "The dock opens with withheld"],
    ["Approval", "book_seats needs your approval.", ""],
    ["Tools", "The answer waits until this page runs get_departures.", ""],
    ["Failure", "The answer failed: ", ""],
  ]) {
    await choose(kind);
    await until(async () => (await said()).startsWith(start), start);
    assert.ok((await said()).includes(text), await said());
    assert.ok(!/[[<*`]|\]\(/.test(await said()), await said());
  }
});

test("citations are numbered in reading order, as their sources are", async () => {
  await open();
  for (const kind of ["Text", "Search with citations"]) {
    await choose(kind);
    const cites = await answer().locator(".cite").evaluateAll((all) => all.map((one) => [one.textContent, one.title]));
    const sources = await answer().locator("ol.sources li").allInnerTexts();
    assert.ok(cites.length > 0);
    assert.deepEqual(cites, sources.map((title, n) => [`${n + 1}`, title]), kind);
  }
});

test("a block that scrolls is a stop of the keyboard, and no other", async () => {
  await open();
  await page.evaluate(() => document.styleSheets[0].insertRule(".answer .card pre { max-height: 6rem }", document.styleSheets[0].cssRules.length));
  for (const kind of ["Secrets", "Tools"]) await choose(kind);
  const blocks = () => page.locator(".answer").locator("pre").evaluateAll((all) => all.map((one) => [one.scrollHeight > one.clientHeight, one.tabIndex === 0]));
  await until(async () => (await blocks()).every(([scrolls, isStop]) => scrolls === isStop), "only blocks that scroll are stops");
  assert.deepEqual(new Set((await blocks()).map(([scrolls]) => scrolls)), new Set([true, false]));
});

test("an approval is given, and the call goes on; one that comes too late says so", async () => {
  await open();
  await choose("Approval");
  const remember = await forgetful(page);
  await button("Approve").click();
  await answer().getByText("not known any more").waitFor();
  assert.match(await said(), /Ask again/);
  await assertReadable(page, join(folder, "demo-approval-late"));
  await remember();
  await button("Ask again").click();
  await button("Approve").waitFor();
  await ended();
  await button("Approve").click();
  await page.getByText("Two seats are booked.").first().waitFor();
  await ended();
  assert.equal(await page.getByRole("button", { name: "Approve" }).count(), 0);
  assert.deepEqual(complaints.filter((text) => !text.includes("404")), []);
});

test("the page runs a function, and the answer goes on", async () => {
  await open();
  await choose("Tools");
  await until(async () => (await events("provider").count()) === 10, "what the provider sent for one request");
  assert.deepEqual(await remarks("provider"), ["Request 1"]);
  await button("Run it here").click();
  await page.locator(".answer p").getByText("boats leave").waitFor();
  assert.equal(await page.getByRole("button", { name: "Run it here" }).count(), 0);
  assert.deepEqual(complaints, []);
});

test("a dropped connection is resumed without losing or repeating an event", async () => {
  await open({}, slowUrl);
  await page.evaluate(() => {
    window.announced = [];
    const region = document.querySelector("#said");
    new MutationObserver(() => /^Connect/.test(region.textContent) && window.announced.push(region.textContent)).observe(region, { childList: true });
  });
  await atEvent(4, "drop");
  await button("Search with citations").click();
  await page.locator("#page-events .gap").waitFor();
  await ended();
  assert.match(await answer().innerText(), /The strike ended on Sunday.*Sailings are normal again/s);
  assert.equal(await events().count(), 19);
  assert.equal(await page.locator("#page-events .gap").count(), 1);
  assert.deepEqual(await page.evaluate(() => window.announced), ["Connection lost. Trying again.", "Connected again."]);
});

test("a reload brings back the conversation and continues the answer", async () => {
  await open();
  await choose("Approval");
  await atEvent(4, "reload");
  await Promise.all([page.waitForEvent("load"), button("Code").click()]);
  await page.locator(".answer").nth(1).waitFor();
  await ended();
  assert.deepEqual(await page.locator(".question").allInnerTexts(), ["Book two seats, but let me approve it", "Calculate the mean fare"]);
  assert.match(await answer().innerText(), /The mean fare is 5.20./);
  await page.locator(".answer").first().getByText("asked for approval").waitFor();
  assert.equal(await button("Approve").count(), 0); // it is not the last answer
  assert.equal(await button("Code").getAttribute("aria-pressed"), "true");
  assert.equal(await events().count(), 19);
  await until(async () => (await events("provider").count()) === 21, "the provider's side");
});

test("Escape stops an answer, which ends as cancelled, and its request", async () => {
  await open({}, slowUrl);
  await atEvent(2, "escape");
  await button("Tools").click();
  await ended();
  assert.equal(await answer().locator(".end b").innerText(), "Stopped");
  await until(async () => (await remarks("provider")).length === 2, "the end of the provider's side");
  assert.match((await remarks("provider"))[1], /closed the request/);
  assert.ok((await events("provider").count()) < 10);
  await page.screenshot({ path: join(folder, "demo-stopped.png") });
});

test("the keyboard is enough", async () => {
  await open();
  await page.keyboard.press("/");
  await page.keyboard.type("refuse this");
  await page.keyboard.press("Enter");
  await ended();
  assert.equal(await answer().locator(".end b").innerText(), "Refused");
  await button("Text").focus();
  await page.keyboard.press("Enter");
  await page.getByText("The reading room opens at nine").first().waitFor();
});

// dialect, one of its events, and how many it has of the secrets
const DIALECTS = [
  ["public_sse_v1", "message.delta", 22],
  ["ai_sdk", "text-delta", 33],
  ["ag_ui", "TEXT_MESSAGE_CONTENT", 20],
  ["responses", "response.output_text.delta", 22],
  ["chat_completions", "[DONE]", 16],
  ["openresponses", "response.output_text.delta", 34],
];

test("each dialect shows its own events; what was withheld, and the answer, are the same", async () => {
  await open();
  assert.deepEqual((await page.locator("#dialect option").allInnerTexts()).sort(), DIALECTS.map(([name]) => name).sort());
  for (const [dialect, type, count] of DIALECTS) {
    await page.locator("#dialect").selectOption(dialect);
    await choose("Secrets");
    await until(async () => (await events().count()) === count, `${count} events of ${dialect}`);
    await page.locator("#page-events b").getByText(type, { exact: true }).first().waitFor();
    await page.locator("#provider li.dim").first().waitFor();
    assert.equal(await page.locator("#provider summary mark").count(), 27, dialect);
    assert.match(await answer().innerText(), /The dock opens with withheld.*withheld in 9 places/s);
    await page.screenshot({ path: join(folder, `demo-${dialect}.png`) });
  }
  assert.deepEqual(complaints, []);
});

// provider, the type of an event with a secret, what is withheld of it, and a kind of answer of which there is no example
const PROVIDERS = [
  ["openai_chat", "delta.tool_calls", ["not-for-", "pages"], "Code"],
  ["anthropic_messages", "text_delta", ["AKIAIOSF", "ODNN7EXAMPLE", "hun", "ter-22"], "Image"],
  ["gemini", "functionCall", ["AKIA", "QYLPMN5HNXKZ7TEW", "hunter2-hunter2"], "Approval"],
];

test("each provider shows its own events, and what was withheld of them; a reload brings back the choice", async () => {
  await open();
  for (const [provider, type, withheld, missing] of PROVIDERS) {
    await page.locator("#agent").selectOption(provider);
    await until(() => button(missing).isDisabled(), `${missing} is not offered`);
    await choose("Secrets");
    await page.locator("#provider li.held b").getByText(type, { exact: true }).first().waitFor();
    const marks = await page.locator("#provider summary mark").allInnerTexts();
    assert.deepEqual([...new Set(marks)], withheld);
    for (const side of ["page-events", "turns"]) {
      await page.locator(`#${side} mark`).first().waitFor();
      const shown = await page.locator(`#${side}`).innerText();
      for (const piece of withheld.filter((text) => text.length > 4)) assert.ok(!shown.includes(piece), `${piece} in ${side}`);
    }
    await assertReadable(page, join(folder, `demo-provider-${provider}`));
    await page.reload();
    await ended();
    await until(async () => (await page.locator("#provider summary mark").count()) === marks.length, "the marks again");
    assert.equal(await page.locator("#agent").inputValue(), provider);
  }
  await choose("Tools");
  await button("Run it here").first().click();
  await answer().getByText("The harbour opens at six.").waitFor();
  assert.match(await page.locator(".question").last().innerText(), /from Gemini$/);
  assert.deepEqual(complaints, []);
});

test("a dropped connection and a reload cost nothing in another dialect", async () => {
  await open({}, slowUrl);
  await page.locator("#dialect").selectOption("ai_sdk");
  await atEvent(4, "drop");
  await button("Secrets").click();
  await ended();
  await until(async () => (await events().count()) === 33, "all events");
  assert.match((await remarks("page")).join(), /^Connection lost after event \d+\. The client asks again for what follows\.$/);
  const panes = () => Promise.all(["provider", "page", "shown"].map((id) => page.locator(`#${id} li:not(.gap), #${id} .question, #${id} .answer`).allInnerTexts()));
  await page.locator("#provider li.dim").first().waitFor();
  const before = await panes();
  await page.reload();
  await ended();
  await page.locator("#provider li.dim").first().waitFor();
  await until(async () => (await events().count()) === 33, "all events again");
  assert.deepEqual(await panes(), before);
  assert.equal(await page.locator("#dialect").inputValue(), "ai_sdk");
  assert.deepEqual(complaints, []);
});

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing in any state, narrow or wide: ${colorScheme}`, async () => {
    await open({ colorScheme });
    const check = async (state, begin) => {
      for (const width of [320, 1920]) {
        await page.setViewportSize({ width, height: 900 });
        await begin?.();
        await page.screenshot({ path: join(folder, `demo-${state}-${colorScheme}-${width}.png`), fullPage: width === 320 });
        assert.deepEqual([await violations(page), await fits(page)], [[], true], `${state}, ${width} px`);
      }
    };
    await check("before");
    await check("answering", async () => {
      await button("Secrets").click();
      await page.locator("#page-events b").first().waitFor();
    });
    for (const [kind] of KINDS) await choose(kind);
    await page.locator("#provider li.dim").first().waitFor();
    await check("ended");
    for (const side of ["provider", "page"]) await page.locator(`#${side}-events summary`).last().click();
    await check("opened");
    assert.deepEqual(await lowContrasts(page), []);
    for (const [dialect] of DIALECTS.slice(1)) {
      await page.locator("#dialect").selectOption(dialect);
      await choose("Refusal");
      await check(dialect);
    }
    await page.context().setOffline(true);
    await button("Text").click();
    await page.locator(".end.bad").last().getByText("cannot be reached").waitFor();
    await page.locator("#page-events").getByText("No event came.").waitFor();
    await check("offline");
    await page.context().setOffline(false);
    await page.route("**/chat/stream*", (route) => route.fulfill({ status: 401, json: { detail: "A key is required." } }));
    await button("Text").click();
    await page.locator("#key").waitFor();
    await check("key");
    assert.deepEqual(await lowContrasts(page), []);
  });
}
