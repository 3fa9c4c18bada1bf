// The page of deploy/nextjs in Chromium, before a real server and a provider that sends what each test dictates.
//
//   node nextjs_page.test.mjs FOLDER_OF_THE_APP PYTHON PATH_OF_CHROMIUM FOLDER_FOR_PICTURES

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { assertReadable, forgetful, launch, opened } from "./chromium.mjs";
import { assertShortTasks, callsPerSection, growth, sections } from "./long_answer.mjs";
import { startNext, startProjector, startProvider, startWire, until } from "./scripted_provider.mjs";

const [, , app, python, executablePath, pictures] = process.argv;
let provider, projector, next, wire, browser, context, page, complaints;

before(async () => {
  [provider, browser] = await Promise.all([startProvider(), launch(executablePath)]);
  projector = await startProjector(python, provider);
  next = await startNext(app, projector);
  wire = await startWire(next.url);
});
after(async () => {
  await browser?.close();
  wire?.close();
  next?.close();
  await projector?.close();
  provider?.close();
});
beforeEach(() => open());
afterEach(() => context.close());

async function open(options = {}) {
  await context?.close();
  context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options });
  ({ page, complaints } = await opened(context, wire.url));
}

const field = (on = page) => on.getByRole("textbox", { name: "Your message" });
const button = (name) => page.getByRole("button", { name, exact: true });
const answer = (on = page) => on.getByRole("region", { name: "Answer" }).last();
const shows = (text, on = page) => answer(on).getByText(text).first().waitFor();
const told = (text, on = page) => on.getByRole("status").filter({ hasText: text }).waitFor({ state: "attached" });
const complete = (on = page) => told("The answer is complete.", on);
const readable = (name) => assertReadable(page, join(pictures, `nextjs-${name}`));

/** Returns the name of the element with the focus. */
const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label"));

/** Sends a question, and returns the provider's call. */
async function ask(question) {
  await field().fill(question);
  await field().press("Enter");
  return provider.next();
}

test("Markdown is safe, and citations are in place", async () => {
  const call = await ask("What about the strike?");
  const text = [
    "# News", "The **strike** ended. <img src=x onerror=alert(1)> <b>raw</b> <redacted>", "",
    "- [good](https://example.com/a)", "- [script](javascript:alert(1))", "- [own](/api/chat)", "- ![pixel](https://tracker.example/p.png)",
    "", "| boat | time |", "|---|---|", "| Ada | 14:10 |", "", "```", "<script>alert(1)</script>", "```", "",
  ].join("\n");
  for (const piece of text.match(/[^]{1,7}/g)) call.text(piece);
  const at = text.indexOf(" ended");
  const annotation = { type: "url_citation", start_index: at - 8, end_index: at, title: "Strike over", url: "https://northquay.example/news" };
  call.event({ type: "response.output_text.annotation.added", item_id: "msg_1", output_index: 0, content_index: 0, annotation_index: 0, annotation });
  const earlier = { ...annotation, start_index: 2, end_index: 6, title: "All news", url: "https://northquay.example/all" }; // arrives later
  call.event({ type: "response.output_text.annotation.added", item_id: "msg_1", output_index: 0, content_index: 0, annotation_index: 1, annotation: earlier });
  call.end();
  await complete();
  await answer().locator("code", { hasText: "alert(1)" }).waitFor(); // a text takes some frames to appear, its end last
  const html = await answer().innerHTML();
  assert.match(html, /<strong>strike<sup class="cite"><a [^>]*href="https:\/\/northquay.example\/news"[^>]*>2<\/a><\/sup><\/strong>|<strong>strike<\/strong><sup class="cite">/);
  assert.match(html, /<mark>\[withheld\]<\/mark>/);
  assert.match(html, /<table>/);
  assert.deepEqual(await answer().locator("img, script, b").count(), 0);
  const links = await answer().locator(".markdown a").evaluateAll((all) => all.map((one) => [one.getAttribute("href"), one.rel, one.target]));
  const safe = ["noopener noreferrer nofollow", "_blank"];
  const [all, news] = ["https://northquay.example/all", "https://northquay.example/news"];
  const hrefs = [all, news, "https://example.com/a", "https://tracker.example/p.png", all, news];
  assert.deepEqual(links, hrefs.map((href) => [href, ...safe]));
  assert.deepEqual(complaints, []);
});

test("all of an answer is printed, and its copy has no numbers of citations", async () => {
  await (await ask("Is the strike over?")).play("chat-web-search");
  await complete();
  const lines = Array.from({ length: 60 }, (_, n) => `- ${n}`).join("\n");
  const call = await ask("Count");
  call.text(lines);
  call.end();
  await complete();
  await shows("59");
  await page.emulateMedia({ media: "print" });
  const { printed, shown } = await page.evaluate(() => {
    const all = document.querySelector(".scroll");
    return { printed: document.documentElement.scrollHeight, shown: [all.clientHeight, all.scrollHeight] };
  });
  assert.deepEqual([printed >= shown[1], shown[0]], [true, shown[1]]);
  assert.equal(await button("Send").isVisible(), false);
  const copied = await page.evaluate(() => {
    getSelection().selectAllChildren(document.querySelector(".markdown"));
    return getSelection().toString();
  });
  assert.match(copied, /^The strike ended on Sunday \(northquay\.example\)\. Sailings/);
});

test("text from right to left is shown so, and code is not", async () => {
  const call = await ask("שלום (עולם)!");
  call.text("שלום (עולם)!\n\n- אחת.\n\nHello.\n\n| א |\n|---|\n| ב |\n\n```\n// שלום\n```\n");
  call.end();
  await complete();
  await field().fill("שלום!");
  await answer().locator("code").waitFor();
  const shown = page.locator(".question, .markdown :is(p, ul, .wide, code), nav a, textarea");
  const directions = await shown.evaluateAll((all) => all.map((one) => `${one.localName} ${getComputedStyle(one).direction}`));
  assert.deepEqual(directions, ["a rtl", "h2 rtl", "p rtl", "ul rtl", "p ltr", "div rtl", "code ltr", "textarea rtl"]);
});

test("what was withheld is shown wherever it is in Markdown, and counted once", async () => {
  const call = await ask("Who wrote?");
  const text = [
    "<redacted>", "the **rest**", "", "Write to <redacted:email> or **<redacted:payment_card>**, see [REDACTED:vault](note).", "",
    "In `key = <redacted>`, and:", "", "```", "key = <redacted:email>", "```", "", "a \\* b <redacted> c, [help@northquay.example", "",
  ].join("\n");
  for (const piece of text.match(/[^]{1,7}/g)) call.text(piece);
  const at = text.indexOf(" or **");
  const annotation = { type: "url_citation", start_index: at - 5, end_index: at - 2, title: "Mail", url: "https://northquay.example/mail" };
  call.event({ type: "response.output_text.annotation.added", item_id: "msg_1", output_index: 0, content_index: 0, annotation_index: 0, annotation });
  call.end();
  await complete();
  await answer().getByText("a * b").waitFor();
  const marks = await answer().locator("mark").allInnerTexts();
  assert.deepEqual(marks, ["[withheld]", "[email withheld]", "[payment card withheld]", "[vault withheld]", "[withheld]"]);
  assert.deepEqual(await answer().locator("code").allInnerTexts(), ["key = ‹redacted›", "key = ‹redacted:email›\n"]);
  assert.match(await answer().innerHTML(), /<mark>\[email withheld\]<\/mark><sup class="cite">.*?<\/sup> or <strong><mark>\[payment card/);
  assert.equal(await answer().locator("strong", { hasText: "rest" }).count(), 1);
  await answer().getByText("Withheld in 7 places").waitFor();
  await readable("marks");

  const key = `AKIA${"Q7ZT4M2X6WKD3R5B"}`;
  const next = await ask("And the key?");
  next.text(`It is ${key}.`);
  next.end();
  await shows("It is [withheld].");
  await answer().getByText("Withheld in 1 place").waitFor();
  assert.deepEqual(complaints, []);
});

// how the provider ends, the message for a screen reader, whether the same may be asked again
const failed = { type: "response.failed", response: { id: "r", status: "failed", error: null } };
const filtered = { type: "response.incomplete", response: { id: "r", status: "incomplete", incomplete_details: { reason: "content_filter" } } };
for (const [name, end, message, canRetry] of [
  ["a failure", (call) => call.event(failed), "failed", true],
  ["a content filter", (call) => call.event(filtered), "Incomplete: the content filter", false],
  ["an error that stays", (call) => call.play("chat-provider-error-nested"), "The provider rejected the server's credentials", false],
]) {
  test(`${name} is told as it is, and offers another try only if that may help`, async () => {
    const call = await ask("Count");
    call.text("one, ");
    await end(call);
    call.response.end();
    await told(message);
    await button("Send").waitFor();
    assert.deepEqual([await button("Try again").count(), await page.getByText("The answer is complete.").count()], [canRetry ? 1 : 0, 0]);
  });
}

test("an answer that failed is not shown as complete when the conversation goes on, nor after a reload", async () => {
  const call = await ask("Count");
  call.text("one, ");
  await call.play("chat-provider-error-nested");
  await told("The provider rejected the server's credentials");
  const next = await ask("Count again");
  next.text("one, two.");
  next.end();
  await complete();
  for (const step of [async () => {}, () => page.reload()]) {
    await step();
    const first = page.getByRole("region", { name: "Answer 1" });
    await first.getByText("The provider rejected the server's credentials").waitFor();
    assert.equal(await button("Try again").count(), 0);
  }
  await readable("failed-before");
});

test("what was too long is counted", async () => {
  const call = await ask("How is the weather?");
  await call.play("chat-oversized-fields");
  await answer().getByText(/Shortened in \d places/).waitFor();
});

test("a refused request has the server's reason, and the wait that it asks for", async () => {
  const refusals = [
    [429, { detail: "Too many requests.", is_retryable: true }, "Too many requests. Trying again in 50 s…", "Stop", 0],
    [422, { detail: "`message` is too long.", is_retryable: false }, "`message` is too long.", "Send", 0],
    [500, { detail: "A failure.", is_retryable: true }, "A failure. Trying again…", "Stop", 0],
  ];
  for (const [status, problem, message, state, count] of refusals) {
    await open();
    const headers = { "content-type": "application/problem+json", ...(status === 429 && { "retry-after": "50" }) };
    await page.route("**/api/chat", (route) => route.fulfill({ status, headers, body: JSON.stringify(problem) }));
    await field().fill("Count");
    await field().press("Enter");
    await told(message);
    await button(state).waitFor();
    assert.equal(await button("Try again").count(), count);
    if (status === 429) await readable("refused-for-now");
  }
});

test("a tool's arguments are shown while they are written, and then its output", async () => {
  const call = await ask("How is the weather?");
  const item = { id: "fc_1", type: "function_call", status: "in_progress", call_id: "call_1", name: "get_weather", arguments: "" };
  call.event({ type: "response.output_item.added", output_index: 0, item });
  const piece = (delta) => call.event({ type: "response.function_call_arguments.delta", item_id: "fc_1", output_index: 0, delta });
  piece('{"city": "Northquay", "days": ');
  const card = page.getByRole("group", { name: "get_weather: running" });
  await card.getByText('{"city": "Northquay"').waitFor();
  piece('3, "detail": true}');
  await card.getByText('"days": 3').waitFor();
  await readable("tool");
  call.end();
  await complete();
});

test("the output of a tool is shown as text", async () => {
  const call = await ask("How is the wind?");
  const output = '{"wind": "<img src=x onerror=alert(1)> SW"}';
  const item = { id: "mcp_1", type: "mcp_call", status: "in_progress", arguments: "", error: null, name: "wind", output: null, server_label: "coast" };
  call.event({ type: "response.output_item.added", output_index: 0, item });
  call.event({ type: "response.output_item.done", output_index: 0, item: { ...item, status: "completed", arguments: "{}", output } });
  const card = page.getByRole("group", { name: "wind: done" });
  await card.getByText("on coast").click(); // a card that is done is closed
  assert.equal(await card.getByLabel("Output").innerText(), output);
  call.end();
  await complete();
  assert.equal(await card.locator("img").count(), 0);
  await page.reload();
  await card.getByText("on coast").click();
  assert.equal(await card.getByLabel("Output").innerText(), output);
  assert.deepEqual(complaints, []);
});

test("recorded answers: searches, code, images, reasoning, a refusal, a failure", async () => {
  const cases = [
    ["chat-web-search", "Web search: done"],
    ["chat-code-interpreter", "Code: done"],
    ["chat-image-generation-partials", "Image: done"],
  ];
  for (const [name, label] of cases) {
    await (await ask(name)).play(name);
    await complete();
    await answer().getByRole("group", { name: label }).first().waitFor();
  }
  assert.equal(await answer().locator("img").count(), 1);
  await (await ask("think")).play("chat-reasoning-summary");
  await answer().getByText("Reasoning").waitFor();
  await (await ask("refuse")).play("chat-refusal");
  await answer().locator(".refusal").waitFor();
  await (await ask("fail")).play("chat-provider-error");
  await answer().getByRole("button", { name: "Try again" }).waitFor();
  await readable("recorded");
  assert.deepEqual(complaints, []);
});

test("an approval is asked for, and answered with the response that waits", async () => {
  await (await ask("Book two seats")).play("chat-mcp-approval");
  await told("The answer needs your approval.");
  await readable("approval");
  const remember = await forgetful(page);
  await button("Approve").click();
  await told("This request for approval is not known any more: it is too old, or the server was restarted. Ask again.");
  await readable("approval-late");
  await remember();
  assert.equal(await focused(), "Messages");
  await button("Ask again").click();
  await (await provider.next()).play("chat-mcp-approval");
  assert.equal(await focused(), "Messages");
  await told("The answer needs your approval.");
  await button("Approve").click();
  const call = await provider.next();
  assert.deepEqual(call.body.input.map(({ type, approve }) => [type, approve]), [["mcp_approval_response", true]]);
  assert.match(call.body.previous_response_id, /^resp_/);
  call.text("Two seats are booked.");
  call.end();
  await shows("Two seats are booked.");
  await complete();
  const asked = page.getByRole("group", { name: "book_seats: asked for approval" }).last();
  await asked.getByText("on bookings").click(); // it has gone on, so the card is closed
  assert.deepEqual([await asked.locator("mark").innerText(), (await asked.innerText()).includes("<redacted>")], ["[withheld]", false]);
  assert.equal(await button("Approve").count(), 0);
});

for (const how of ["button", "Escape"]) {
  test(`stop by ${how}: the provider's stream is closed, and the text stays`, async () => {
    const call = await ask("Talk");
    call.text("As I was saying");
    await shows("As I was saying");
    await (how === "button" ? button("Stop").click() : page.keyboard.press("Escape"));
    await told("Stopped.");
    await readable("stopped");
    await until(() => call.isGone, "the provider's connection is closed");
    assert.match(await answer().innerText(), /As I was saying/);
    await button("Send").waitFor();
  });
}

test("a stop before the headers says so, also after a reload, and the next question is asked", async () => {
  let release;
  await page.route("**/api/chat", (route) => new Promise((resolve) => (release = resolve)).then(() => route.continue()), { times: 1 });
  await field().fill("Talk");
  await field().press("Enter");
  await until(() => release !== undefined, "the page sends its request");
  await button("Stop").click();
  await told("Stopped.");
  release();
  const stopped = await provider.next();
  await until(() => stopped.isGone, "the answer is cancelled");
  await page.reload();
  await shows("Stopped.");
  const call = await ask("And now?");
  call.text("yes.");
  call.end();
  await shows("yes.");
  await complete();
});

test("a reload in the middle continues the answer", async () => {
  const call = await ask("Count");
  call.text("one, ");
  await shows("one,");
  await page.reload();
  await shows("one,");
  call.text("two.");
  await shows("one, two.");
  call.end();
  await complete();
  await page.reload();
  await shows("one, two.");
  assert.deepEqual(complaints, []);
});

test("a conversation that is left, and then reloaded, before its answer begins is asked once", async () => {
  provider.isSilent = true;
  const call = await ask("Count");
  await button("New").click();
  await page.getByText("Ask something to begin.").waitFor();
  await page.getByRole("link", { name: "Count" }).click();
  await shows("Waiting");
  await page.reload();
  await shows("Waiting");
  provider.isSilent = false;
  call.begin();
  call.text("one.");
  call.end();
  await shows("one.");
  await complete();
  assert.equal((await ask("And then?")).body.input.at(-1).content, "And then?");
});

test("a question whose answer is unknown is sent with the same key, and with a new one if the server has forgotten it", async () => {
  const keys = [];
  await page.route("**/api/chat", (route) => {
    keys.push(route.request().headers()["idempotency-key"]);
    if (keys.length === 1) return route.abort();
    const [status, code, detail] = keys.length === 2 ? [503, "overloaded", "It has not begun."] : [410, "events_gone", "It has expired."];
    const body = JSON.stringify({ status, code, detail, is_retryable: status === 503 });
    return route.fulfill({ status, contentType: "application/problem+json", headers: { "x-should-retry": "false" }, body });
  });
  await field().fill("Count");
  await field().press("Enter");
  await button("Try again").click();
  await told("It has not begun.");
  await button("Try again").click();
  await told("It has expired.");
  await page.unroute("**/api/chat");
  const sent = page.waitForRequest("**/api/chat");
  await button("Try again").click();
  keys.push((await sent).headers()["idempotency-key"]);
  (await provider.next()).end();
  await complete();
  assert.deepEqual([keys.length, keys[0] === keys[2], new Set(keys).size, new Set(keys.slice(0, 3)).size], [4, true, 2, 1]);
});

test("an answer without an address, as of a server without a store, is not asked for again by a reload", async () => {
  await page.addInitScript(() => {
    const { fetch } = window;
    window.fetch = async (...call) => {
      const { body, status, headers } = await fetch(...call);
      return new Response(body, { status, headers: [...headers].filter(([name]) => name !== "location") });
    };
  });
  await page.reload();
  const call = await ask("Count");
  call.text("one, ");
  await shows("one,");
  await page.reload();
  await button("Try again").waitFor();
  call.end();
});

test("a second tab joins the same stream, and follows the next question", async () => {
  const call = await ask("Count");
  call.text("one, ");
  await shows("one,");
  const { page: second } = await opened(context, page.url());
  await shows("one,", second);
  call.text("two.");
  await Promise.all([shows("one, two."), shows("one, two.", second)]);
  call.end();
  await Promise.all([complete(), complete(second)]);
  const next = await ask("And then?");
  next.text("three.");
  await Promise.all([shows("three."), shows("three.", second)]);
  next.end();
  await Promise.all([complete(), complete(second)]);
});

test("two tabs ask before either has its headers: each answer is below its question", async () => {
  const call = await ask("First?");
  call.text("one.");
  call.end();
  await complete();
  const { page: second } = await opened(context, page.url());
  await shows("one.", second);
  let release;
  await second.route("**/api/chat", (route) => new Promise((resolve) => (release = resolve)).then(() => route.continue()));
  await field(second).fill("Second?");
  await field(second).press("Enter");
  await answer().getByText("Waiting").waitFor();
  assert.equal(await button("Try again").count(), 0);
  const third = await ask("Third?");
  await until(() => release !== undefined, "the second tab sends its request");
  release();
  const late = await provider.next();
  third.text("three.");
  late.text("two.");
  await shows("three.");
  late.end();
  third.end();
  await Promise.all([complete(), complete(second), shows("three.", second)]);
  for (const one of [page, second]) {
    const answers = await one.getByRole("region", { name: "Answer" }).allInnerTexts();
    assert.deepEqual(answers.map((text) => text.split("\n")[0]), ["one.", "two.", "three."]);
  }
});

test("a conversation that another tab deletes while it is answered stays deleted", async () => {
  const call = await ask("Count");
  call.text("one, ");
  await shows("one,");
  const { page: second } = await opened(context, wire.url);
  await second.getByRole("button", { name: "Delete: Count" }).click();
  await page.getByText("Ask something to begin.").waitFor();
  call.end();
  await button("Send").waitFor();
  await page.reload();
  await page.getByText("Your conversations are listed here.").waitFor();
});

test("a browser that forbids storage: conversations last as long as the page", async () => {
  await context.addInitScript(() => {
    Object.defineProperty(window, "localStorage", { get: () => { throw new DOMException("denied", "SecurityError"); } });
  });
  await page.reload();
  for (const text of ["one.", "two."]) {
    const call = await ask(`Say ${text}`);
    call.text(text);
    call.end();
    await shows(text);
    await complete();
    await button("New").click();
  }
  await page.getByRole("link", { name: "Say one." }).click();
  await shows("one.");
  assert.deepEqual(complaints, []);
});

test("offline for five seconds, and then complete", async () => {
  const call = await ask("Count");
  call.text("one, ");
  await shows("one,");
  await context.setOffline(true); // leaves open connections as they are
  wire.cut();
  for (const text of ["two, ", "three, ", "four, "]) call.text(text);
  await told("The connection was lost.");
  await page.waitForTimeout(5_000);
  wire.mend();
  await context.setOffline(false);
  call.text("five.");
  call.end();
  await complete();
  assert.match(await answer().innerText(), /^one, two, three, four, five\.$/m);
});

test("the server is killed: the page says so, and tries again", async () => {
  const call = await ask("Count");
  call.text("one, ");
  await shows("one,");
  await projector.kill();
  await told("The connection was lost.");
  await readable("lost");
  await projector.start();
  await answer().getByText("The connection was lost before the answer was complete.").waitFor();
  assert.match(await answer().innerText(), /one,/);
  await button("Try again").click();
  const again = await provider.next();
  again.text("one, two.");
  again.end();
  await shows("one, two.");
  await complete();
});

test("a user who is signed out is told to sign in, and loses nothing", async () => {
  const key = "key-of-ada";
  const guarded = await startProjector(python, provider, key);
  const variables = { STREAM_SERVER_COOKIE: "token", SIGN_IN_URL: "/sign-in" };
  const site = await startNext(app, guarded, variables);
  const line = await startWire(site.url);
  try {
    ({ page, complaints } = await opened(context, line.url));
    const signIn = (value) => context.addCookies([{ name: "token", value, url: line.url }]);
    const isTold = async () => {
      await told("You are signed out.");
      assert.match(await page.getByRole("link", { name: "Sign in" }).getAttribute("href"), /sign-in$/);
    };

    await field().fill("Count");
    await field().press("Enter");
    await isTold(); // by this site: there is no token
    await page.reload();
    await signIn("a-token-that-has-expired");
    await button("Try again").click();
    await isTold(); // by the projector
    await signIn(key);
    await button("Try again").click();
    const call = await provider.next();
    assert.equal(call.body.input, "Count");
    call.text("one, ");
    await shows("one,");

    await context.clearCookies();
    line.cut();
    line.mend();
    await isTold();
    assert.match(await answer().innerText(), /one,/);
    call.text("two.");
    await readable("signed-out");
    await page.reload();
    await isTold();
    await signIn(key);
    await button("Try again").click();
    await shows("one, two.");
    call.end();
    await complete();
  } finally {
    line.close();
    site.close();
    await guarded.close();
  }
});

test("a key that the projector refuses is a line in the log, and nobody is signed out", async () => {
  const guarded = await startProjector(python, provider, "key-of-the-page");
  try {
    for (const [variables, line] of [
      [{ STREAM_SERVER_KEY: "another-key" }, `The projector at ${guarded.url} refused STREAM_SERVER_KEY.`],
      [{ STREAM_SERVER_KEY: "" }, `STREAM_SERVER_KEY is not set, and the projector at ${guarded.url} needs it.`],
    ]) {
      const site = await startNext(app, guarded, variables);
      try {
        ({ page, complaints } = await opened(context, site.url));
        await field().fill("Count");
        await field().press("Enter");
        await told("The server does not accept this page.");
        await until(() => site.log().includes(line), "the log has the reason");
        await readable("refused");
      } finally {
        site.close();
      }
    }
  } finally {
    await guarded.close();
  }
});

test("no projector: the page says so, and the log has the reason", async () => {
  for (const [address, line] of [
    ["http://127.0.0.1:9", "There is no projector at http://127.0.0.1:9 (STREAM_SERVER_URL)."],
    ["127.0.0.1:9", "STREAM_SERVER_URL: expected http:// or https:// before 127.0.0.1:9."],
  ]) {
    const site = await startNext(app, { url: address });
    try {
      ({ page, complaints } = await opened(context, site.url));
      await field().fill("Count");
      await field().press("Enter");
      await told("No server is available. Trying again…");
      await until(() => site.log().includes(line), "the log has the reason");
      await readable("no-connection");
    } finally {
      site.close();
    }
  }
});

test("a conversation has a history, is kept, and is found again", async () => {
  const first = await ask("My name is Ada.");
  first.text("Hello, Ada.");
  first.end();
  await complete();
  const second = await ask("What is my name?");
  assert.deepEqual(second.body.input.map(({ role }) => role), ["user", "assistant", "user"]);
  second.text("It is Ada.");
  second.end();
  await complete();
  await button("New").click();
  await page.getByText("Ask something to begin.").waitFor();
  await readable("empty");
  await page.getByRole("navigation", { name: "Conversations" }).getByRole("link", { name: "My name is Ada." }).click();
  await shows("It is Ada.");
  assert.equal(await page.getByRole("heading", { level: 2 }).count(), 2);
  await page.getByRole("button", { name: "Delete: My name is Ada." }).click();
  await page.getByText("Ask something to begin.").waitFor();
  assert.equal(await page.getByRole("navigation").getByRole("link").count(), 0);
  (await ask("Once more.")).end();
  await complete();
  await button("New").click();
  await page.getByText("Ask something to begin.").waitFor();
  await page.getByRole("button", { name: "Delete: Once more." }).click();
  assert.equal(await focused(), "Conversations");
});

test("readable in both themes and on a narrow screen, with little motion too", async () => {
  await open({ reducedMotion: "reduce" });
  await (await ask("Is the strike over?")).play("chat-web-search");
  await complete();
  await readable("chat");
  assert.deepEqual(complaints, []);
});

test("an answer of 10,000 deltas: the last ones cost what the first ones did", async () => {
  const call = await ask("Tell me everything");
  const shows = (text) => answer().locator(".markdown > :last-child").filter({ hasText: text }).waitFor();
  const counts = await callsPerSection(page, sections(10_000), (delta) => call.text(delta), shows);
  assert.ok(growth(counts) < 1.5, `${growth(counts)}: ${counts}`);
  call.end();
  await complete();
});

test("an answer of 10,000 deltas at once blocks the page for less than 50 ms at a time", async (t) => {
  const all = sections(10_000);
  await assertShortTasks(join(pictures, "nextjs-long-answer.txt"), t, async () => {
    await open();
    const call = await ask("Tell me everything");
    const action = async () => {
      for (const delta of all.flat()) call.text(delta);
      call.end();
      await answer().getByText(`Pier ${all.length} is done.`).waitFor();
      await complete();
    };
    return { page, action };
  });
});
