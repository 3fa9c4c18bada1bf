// The hook in React: `react` and `react-test-renderer` are those of the version that the test runs with.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as React from "react";
import { renderToString } from "react-dom/server";
import { act, create } from "react-test-renderer";
import { externalStore } from "public-stream-client/assistant-ui";
import { useStream } from "public-stream-client/react";
import { createStreamStore } from "public-stream-client/store";
import { events, hang, LOCATION, problem, serving, stream } from "./server.mjs";

const { Activity, createElement, StrictMode, version } = React;
globalThis.IS_REACT_ACT_ENVIRONMENT = true;
const silence = console.error;
console.error = (message, ...more) => /deprecated/.test(String(message)) || silence(message, ...more);

/** Renders the hook; `shown` is what it returned last. */
async function mount(options, { strict = true } = {}) {
  const shown = { renders: 0 };
  function Page() {
    Object.assign(shown, { error: undefined, pause: undefined }, useStream(options), { renders: shown.renders + 1 });
    return null;
  }
  let root;
  await act(async () => void (root = create(strict ? createElement(StrictMode, null, createElement(Page)) : createElement(Page))));
  return { shown, unmount: () => act(async () => root.unmount()) };
}

/** Waits for a condition, and lets React render meanwhile. */
async function until(condition) {
  while (!condition()) await act(async () => new Promise((resolve) => setTimeout(resolve, 5)));
}

class Storage extends Map {
  getItem = (key) => this.get(key) ?? null;
  setItem = (key, value) => void this.set(key, value);
  removeItem = (key) => void this.delete(key);
}

test(`React ${version}: an answer`, () =>
  serving([stream(events(1, 3, 3))], async ({ url, requests }) => {
    const { shown, unmount } = await mount({ url });
    assert.equal(shown.connection, "idle");
    await act(async () => shown.send({ message: "m" }));
    await until(() => shown.connection === "closed");
    assert.deepEqual([shown.state.status, shown.state.lastEventId, shown.isRunning, requests.length], ["completed", 3, false, 1]);
    await unmount();
  }));

test("StrictMode mounts twice and keeps the connection; unmounting closes it", () =>
  serving([stream(events(1, 1), { hangs: true })], async ({ url, requests }) => {
    let isClosed = false;
    const fetching = (target, init) => {
      init.signal.addEventListener("abort", () => (isClosed = true));
      return fetch(target, init);
    };
    const { shown, unmount } = await mount({ url, fetch: fetching });
    await act(async () => shown.send({}));
    await until(() => shown.connection === "open");
    assert.deepEqual([isClosed, requests.length, shown.isRunning], [false, 1, true]);
    await unmount();
    await until(() => isClosed);
  }));

test("many events are few renders", () =>
  serving([stream(events(1, 5000, 5000))], async ({ url }) => {
    const { shown, unmount } = await mount({ url }, { strict: false });
    await act(async () => shown.send({}));
    await until(() => shown.connection === "closed");
    assert.equal(shown.state.lastEventId, 5000);
    assert.ok(shown.renders < 500, `${shown.renders} renders`);
    await unmount();
  }));

test("a failed request can be retried", () =>
  serving([problem(422, { code: "invalid_request" }), stream(events(1, 1, 1))], async ({ url, requests }) => {
    const { shown, unmount } = await mount({ url });
    await act(async () => shown.send({ message: "again" }));
    await until(() => shown.connection === "closed");
    assert.equal(shown.error.details.problem.code, "invalid_request");
    await act(async () => shown.retry());
    await until(() => shown.state.end !== undefined);
    assert.deepEqual([shown.error, requests.map(({ body }) => body)], [undefined, Array(2).fill('{"message":"again"}')]);
    await unmount();
  }));

test("stop asks the server, and closes where the server cannot", () =>
  serving([stream(events(1, 1), { hangs: true }), problem(202), stream(events(1, 1), { hangs: true, headers: { location: "" } })], async ({ url, requests }) => {
    const { shown, unmount } = await mount({ url });
    for (const count of [2, 3]) {
      await act(async () => shown.send({}));
      await until(() => shown.connection === "open");
      await act(async () => shown.stop());
      if (count === 3) await until(() => shown.connection === "closed");
      else await until(() => requests.length === count);
    }
    assert.equal(requests[1].url, `${LOCATION}/cancel`);
    assert.equal(requests.length, 3);
    await unmount();
  }));

test("a stop before the headers shows its end at once, and cancels the answer when its address is known", async () => {
  let release;
  const held = (answer) => async (response) => {
    await new Promise((resolve) => (release = resolve));
    await answer(response);
  };
  const answers = [held(stream(events(1, 1), { hangs: true })), problem(202), held(problem(503)), stream(events(1, 1, 1))];
  await serving(answers, async ({ url, requests }) => {
    globalThis.sessionStorage = new Storage();
    const { shown, unmount } = await mount({ url, storageKey: "k", wait: async () => {} });
    for (const count of [2, 3]) {
      release = undefined;
      await act(async () => shown.send({}));
      await until(() => release !== undefined);
      await act(async () => shown.stop());
      await until(() => shown.connection === "closed");
      release();
      await until(() => requests.length === count);
      await act(async () => new Promise((resolve) => setTimeout(resolve, 50)));
      assert.deepEqual([shown.connection, shown.state.lastEventId, sessionStorage.size], ["closed", 0, 0]);
    }
    assert.deepEqual(requests.map((one) => one.url), ["/api/v1/chat/stream", `${LOCATION}/cancel`, "/api/v1/chat/stream"]);
    await unmount();
    delete globalThis.sessionStorage;
  });
});

for (const [what, answer, isClosed] of [
  ["does not follow leaves the next stream its address", problem(202), false],
  ["refuses does not forget the next stream, although that was closed meanwhile", problem(500), true],
]) {
  test(`a stop that the server ${what}`, () =>
    serving([stream(events(1, 1), { hangs: true }), answer, stream(events(1, 1), { hangs: true })], async ({ url, requests }) => {
      globalThis.sessionStorage = new Storage();
      const { shown, unmount } = await mount({ url, storageKey: "k" });
      await act(async () => shown.send({}));
      await until(() => shown.connection === "open");
      await act(async () => shown.stop());
      await until(() => requests.length === 2);
      await act(async () => shown.send({}));
      await until(() => requests.length === 3 && shown.connection === "open" && sessionStorage.size === 1); // not the first one's
      if (isClosed) await unmount();
      await act(async () => new Promise((resolve) => setTimeout(resolve, 2_100)));
      assert.equal(sessionStorage.size, 1);
      if (!isClosed) {
        assert.equal(shown.connection, "open");
        await unmount();
      }
      delete globalThis.sessionStorage;
    }));
}

test("a stop in a pause before another attempt sends nothing more", () =>
  serving([problem(503), stream(events(1, 1, 1))], async ({ url, requests }) => {
    let goOn;
    const { shown, unmount } = await mount({ url, wait: () => new Promise((resolve) => (goOn = resolve)) });
    await act(async () => shown.send({}));
    await until(() => shown.connection === "retrying" && goOn !== undefined);
    await act(async () => shown.stop());
    await until(() => shown.connection === "closed");
    goOn();
    await act(async () => new Promise((resolve) => setTimeout(resolve, 50)));
    assert.deepEqual([requests.length, shown.connection], [1, "closed"]);
    await unmount();
  }));

test("a stop that no one answers closes the connection, as on a dead network", () =>
  serving([stream(events(1, 1), { hangs: true }), hang], async ({ url, requests }) => {
    const { shown, unmount } = await mount({ url });
    await act(async () => shown.send({}));
    await until(() => shown.connection === "open");
    const start = performance.now();
    await act(async () => shown.stop());
    await until(() => shown.connection === "closed" || performance.now() - start > 5_000);
    assert.deepEqual([shown.connection, requests.length], ["closed", 2]);
    await unmount();
  }));

test("a stop before the headers cancels the answer, although the next request is sent at once", async () => {
  let release;
  const held = async (response) => {
    await new Promise((resolve) => (release = resolve));
    await stream(events(1, 1), { hangs: true })(response);
  };
  await serving([held, stream(events(1, 1), { hangs: true }), problem(202)], async ({ url, requests }) => {
    const { shown, unmount } = await mount({ url });
    await act(async () => shown.send({}));
    await until(() => release !== undefined);
    await act(async () => {
      shown.stop();
      shown.send({});
    });
    await until(() => shown.connection === "open");
    release();
    await act(async () => new Promise((resolve) => setTimeout(resolve, 100)));
    assert.deepEqual(requests.map((one) => one.url).slice(2), [`${LOCATION}/cancel`]);
    assert.equal(shown.connection, "open");
    await unmount();
  });
});

// React 18 has no `Activity`
if (Activity !== undefined) {
  test("a stream that was closed with a hidden `Activity` goes on when it is shown", () =>
    serving([stream(events(1, 2), { hangs: true }), stream(events(1, 3, 3))], async ({ url, requests }) => {
      const shown = {};
      function Page() {
        Object.assign(shown, useStream({ url }));
        return null;
      }
      const render = (mode) => createElement(StrictMode, null, createElement(Activity, { mode }, createElement(Page)));
      let root;
      await act(async () => void (root = create(render("visible"))));
      await act(async () => shown.send({}));
      await until(() => shown.state.lastEventId === 2);
      await act(async () => root.update(render("hidden")));
      await act(async () => new Promise((resolve) => setTimeout(resolve, 50)));
      await act(async () => root.update(render("visible")));
      await act(async () => new Promise((resolve) => setTimeout(resolve, 200)));
      assert.deepEqual([shown.connection, shown.state.status], ["closed", "completed"]);
      assert.deepEqual(requests.map((one) => one.url).slice(1), [`${LOCATION}/events?after=0`]);
      await act(async () => root.unmount());
    }));
}

test("a reload continues the stream from its beginning, once in StrictMode", () =>
  serving([stream(events(1, 2), { hangs: true }), stream(events(1, 3, 3))], async ({ url, requests }) => {
    globalThis.sessionStorage = new Storage();
    const first = await mount({ url, storageKey: "k" });
    await act(async () => first.shown.send({}));
    await until(() => first.shown.state.lastEventId === 2);
    await first.unmount();
    const second = await mount({ url, storageKey: "k" });
    await until(() => second.shown.connection === "closed");
    assert.deepEqual([second.shown.state.lastEventId, requests.map((one) => one.url)], [3, ["/api/v1/chat/stream", `${LOCATION}/events?after=0`]]);
    assert.equal(sessionStorage.size, 0);
    await second.unmount();
    delete globalThis.sessionStorage;
  }));

test("a retry after a reload reads the resumed stream again, and sends no request that the page did not make", () =>
  serving([problem(404), problem(404), problem(422), problem(404), problem(422)], async ({ url, requests }) => {
    globalThis.sessionStorage = new Storage([["k", LOCATION]]);
    const { shown, unmount } = await mount({ url, storageKey: "k" });
    await until(() => shown.connection === "closed");
    await act(async () => shown.retry());
    await until(() => requests.length === 2 && shown.connection === "closed");
    for (const step of [() => shown.send({ message: "m" }), () => shown.resume(LOCATION), () => shown.retry()]) {
      const { length } = requests;
      await act(async () => step());
      await until(() => requests.length > length && shown.connection === "closed");
    }
    await unmount();
    const idle = await mount({ url });
    await act(async () => idle.shown.retry());
    assert.deepEqual([idle.shown.connection, requests.map(({ method }) => method)], ["idle", ["GET", "GET", "POST", "GET", "POST"]]);
    assert.deepEqual(requests.slice(2).map(({ body }) => body), ['{"message":"m"}', "", '{"message":"m"}']);
    await idle.unmount();
    delete globalThis.sessionStorage;
  }));

// what a page has that README.md describes: with and without a key of `sessionStorage`
for (const storageKey of ["k", undefined]) {
  test(`a resumption that is refused until the user signs in asks nothing again, ${storageKey ? "with" : "without"} storage`, () =>
    serving([stream(events(1, 1)), problem(401), problem(401), problem(403), stream(events(1, 2, 2))], async ({ url, requests }) => {
      globalThis.sessionStorage = new Storage();
      const { shown, unmount } = await mount({ url, wait: async () => {}, ...(storageKey && { storageKey }) });
      const again = () => shown.resume() || shown.retry();
      await act(async () => shown.send({ message: "m" }));
      for (const count of [2, 3, 4]) {
        await until(() => requests.length === count && shown.connection === "closed");
        assert.ok(shown.error.details.status >= 401);
        assert.equal(sessionStorage.size, storageKey ? 1 : 0);
        await act(async () => again());
      }
      await until(() => shown.state.end !== undefined && shown.connection === "closed");
      assert.deepEqual(requests.map(({ method }) => method), ["POST", "GET", "GET", "GET", "GET"]);
      assert.deepEqual([shown.resume(), sessionStorage.size], [false, 0]);
      await unmount();
      delete globalThis.sessionStorage;
    }));
}

test("a request that is refused leaves no address of the stream before it", () =>
  serving([stream(events(1, 1), { hangs: true }), problem(422), stream(events(1, 1, 1))], async ({ url, requests }) => {
    globalThis.sessionStorage = new Storage();
    const { shown, unmount } = await mount({ url, storageKey: "k" });
    await act(async () => shown.send({ message: "one" }));
    await until(() => shown.connection === "open");
    await act(async () => shown.send({ message: "two" }));
    await until(() => shown.error !== undefined);
    assert.equal(sessionStorage.size, 0);
    await act(async () => shown.resume() || shown.retry());
    await until(() => shown.state.end !== undefined);
    assert.deepEqual(requests.map(({ body }) => body), ["one", "two", "two"].map((message) => JSON.stringify({ message })));
    await unmount();
    delete globalThis.sessionStorage;
  }));

test("a pause has its reason and its end", () =>
  serving([problem(429, { detail: "Too many." }, { "retry-after": "9" }), stream(events(1, 1), { hangs: true })], async ({ url }) => {
    let go;
    const { shown, unmount } = await mount({ url, wait: () => new Promise((resolve) => (go = resolve)) });
    const start = Date.now();
    await act(async () => shown.send({}));
    await until(() => shown.connection === "retrying");
    const { attempt, delayMs, error, nextAt } = shown.pause;
    assert.deepEqual([attempt, delayMs, error.message, shown.error], [1, 9000, "Too many.", undefined]);
    assert.ok(nextAt >= start + 9000 && nextAt <= Date.now() + 9000);
    go();
    await until(() => shown.connection === "open");
    assert.equal(shown.pause, undefined);
    await unmount();
  }));

test("a stream that is resumed is open before its next event", () =>
  serving([stream(events(1, 1)), stream("", { hangs: true })], async ({ url, requests }) => {
    let go;
    const { shown, unmount } = await mount({ url, wait: () => new Promise((resolve) => (go = resolve)) });
    await act(async () => shown.send({}));
    await until(() => shown.connection === "retrying" && go !== undefined);
    go();
    await until(() => requests.length === 2 && shown.connection !== "retrying");
    assert.deepEqual([shown.connection, shown.pause, shown.state.lastEventId], ["open", undefined, 1]);
    await unmount();
  }));

test("a tab that is hidden after it has asked for a frame hears of the end", () =>
  serving([stream(events(1, 2, 2))], async ({ url }) => {
    Object.assign(globalThis, { document: { hidden: false }, requestAnimationFrame: () => 1 });
    const store = createStreamStore({ url });
    try {
      const ended = new Promise((resolve) => store.subscribe(() => store.getSnapshot().connection === "closed" && resolve()));
      store.send({});
      await ended;
      assert.equal(store.getSnapshot().state.status, "completed");
    } finally {
      delete globalThis.document;
      delete globalThis.requestAnimationFrame;
    }
  }));

test("a worker, which has frames but no document, hears of the end", () =>
  serving([stream(events(1, 1, 1))], async ({ url }) => {
    globalThis.requestAnimationFrame = () => 1;
    const store = createStreamStore({ url });
    let connection;
    store.subscribe(() => ({ connection } = store.getSnapshot()));
    store.send({});
    while (connection !== "closed") await new Promise((resolve) => setTimeout(resolve, 5));
    delete globalThis.requestAnimationFrame;
  }));

test("a retry has the idempotency key of its request until the stream has begun", () =>
  serving([problem(422), stream(events(1, 1, 1)), stream(events(1, 1, 1))], async ({ url, requests }) => {
    const { shown, unmount } = await mount({ url });
    await act(async () => shown.send({ message: "m" }, { idempotencyKey: "k-1" }));
    await until(() => shown.error !== undefined);
    await act(async () => shown.retry());
    await until(() => shown.state.end !== undefined);
    await act(async () => shown.retry());
    await until(() => requests.length === 3);
    assert.deepEqual(requests.map(({ headers }) => headers["idempotency-key"]), ["k-1", "k-1", undefined]);
    await unmount();
  }));

for (const [how, answer, shownAs] of [
  ["was stopped, at a server that cannot cancel it,", { hangs: true }, { reason: "cancelled" }],
  ["was lost", { breaks: true }, { reason: "error", error: "No connection: other side closed" }],
]) {
  test(`assistant-ui: an answer that ${how} is not running any more`, () =>
    serving([stream(events(1, 1), { ...answer, headers: { location: "" } })], async ({ url }) => {
      const { shown, unmount } = await mount({ url });
      const status = () => externalStore(shown, [], () => {}).messages[0]?.status;
      await act(async () => shown.send({}));
      if (answer.hangs) {
        await until(() => shown.connection === "open");
        assert.deepEqual(status(), { type: "running" });
        await act(async () => shown.stop());
      }
      await until(() => shown.connection === "closed");
      assert.deepEqual(status(), { type: "incomplete", ...shownAs });
      await unmount();
    }));
}

test("a server renders the first state, without a request", async () => {
  const Page = () => createElement("p", null, useStream({ url: "/x" }).connection);
  assert.equal(renderToString(createElement(Page)), "<p>idle</p>");
});
