// How a stream is opened, resumed and ended, over sockets.

import assert from "node:assert/strict";
import { test } from "node:test";
import { backoff, openStream, sseParser, StreamError } from "public-stream-client";
import { events, hang, LOCATION, problem, serving, stream } from "./server.mjs";

/** Reads a stream; returns its event IDs, the error, and the pauses. */
async function read(url, { request = {}, ...options } = {}) {
  const ids = [];
  const retries = [];
  const wait = async (ms) => void retries[retries.length - 1].push(ms);
  const onRetry = ({ attempt, error }) => retries.push([attempt, error.code]);
  try {
    for await (const event of openStream({ url, body: { message: "m" }, ...request }, { wait, onRetry, ...options })) ids.push(event.event_id);
  } catch (error) {
    return { ids, retries, error };
  }
  return { ids, retries };
}

const asked = (requests) => requests.map(({ method, url }) => `${method} ${url}`);
const POST = "POST /api/v1/chat/stream";
const after = (id) => `GET ${LOCATION}/events?after=${id}`;

const { MessageChannel } = globalThis;
for (const [runtime, channel] of [["a browser", MessageChannel], ["React Native, which has no MessageChannel", undefined]]) {
  test(`events that arrive at once leave time for other tasks in ${runtime}`, () =>
    serving([stream(events(1, 200, 200))], async ({ url }) => {
      let ticks = 0;
      const ticking = setInterval(() => ticks++, 0);
      const seen = [];
      globalThis.MessageChannel = channel;
      try {
        for await (const event of openStream({ url, body: {} })) {
          for (const start = performance.now(); performance.now() < start + 1; ); // a reader that takes 1 ms for each
          if (event.event_id > 1) seen.push(ticks);
        }
      } finally {
        globalThis.MessageChannel = MessageChannel;
        clearInterval(ticking);
      }
      assert.ok(new Set(seen).size > 5, `${seen}`); // a piece has 8 ms
    }));
}

test("the error of a relative URL outside a page says so", async () => {
  const { error } = await read("/api/v1/chat/stream");
  assert.deepEqual([error instanceof StreamError, error.message], [false, "Failed to parse URL from /api/v1/chat/stream"]);
});

test("a body that is no JSON is the caller's error, and not one of the network", () =>
  serving([], async ({ url, requests }) => {
    const { error } = await read(url, { request: { body: { count: 1n } } });
    assert.deepEqual([error.constructor, requests.length], [TypeError, 0]);
  }));

// an illegal header, of the first request or of a resumption
const SECRET = "tok\nen";
for (const [name, request] of [
  ["a value that is not Latin-1", { headers: { authorization: "Bearer \u043a" } }],
  ["a value of two lines", { headers: () => ({ authorization: SECRET }) }],
  ["a name", { headers: async () => [["a b", SECRET]] }],
  ["an idempotency key", { idempotencyKey: SECRET }],
  ["a resumption", { headers: { authorization: SECRET }, resume: { location: LOCATION } }],
]) {
  test(`an illegal header is the caller's error, and its value is not shown: ${name}`, () =>
    serving([], async ({ url, requests }) => {
      const { error } = await read(url, { request });
      assert.deepEqual([error.constructor, requests.length], [TypeError, 0]);
      assert.equal(error.message, "A header is illegal: expected Latin-1 in one line.");
    }));
}

test("headers that cannot be had are a failure of the network", async () => {
  const { error } = await read("http://127.0.0.1:1", { request: { headers: async () => Promise.reject(new TypeError("fetch failed")) } });
  assert.deepEqual([error.code, error.isRetryable, error.message], ["network", true, "No connection: fetch failed"]);
});

test("an `onOpen` that throws is the caller's error", () =>
  serving([stream(events(1, 1, 1))], async ({ url, requests }) => {
    const { error } = await read(url, { onOpen: () => null.location });
    assert.deepEqual([error.constructor, requests.length], [TypeError, 1]);
  }));

test("the error of a `fetch` without streams says so", () =>
  serving([stream(events(1, 1, 1))], async ({ url }) => {
    const { error } = await read(url, { fetch: async (...call) => Object.defineProperty(await fetch(...call), "body", { value: undefined }) });
    assert.deepEqual([error.code, error.message], ["protocol", "The answer is not an event stream, or `fetch` cannot stream."]);
  }));

test("the error of a refused connection names the address", async () => {
  const { url } = await serving([], async (server) => server);
  const { error } = await read(url);
  assert.deepEqual([error.code, error.message], ["network", `No connection: connect ECONNREFUSED ${new URL(url).host}`]);
});

test("the error of another dialect names the parameter", () =>
  serving([stream('data: {"type":"start"}\n\n')], async ({ url }) => {
    const { error } = await read(url);
    assert.deepEqual([error.code, error.message], ["protocol", "An event is not of `public_sse_v1`: check `?dialect=`."]);
  }));

test("a stream is one request", () =>
  serving([stream(events(1, 3, 3))], async ({ url, requests }) => {
    const { ids } = await read(url, { request: { headers: { authorization: "Bearer x" } } });
    assert.deepEqual([ids, asked(requests)], [[1, 2, 3], [POST]]);
    assert.equal(requests[0].body, '{"message":"m"}');
    assert.equal(requests[0].headers.authorization, "Bearer x");
    assert.equal(requests[0].headers["content-type"], "application/json");
  }));

// name, answers, event IDs, requests, [attempt, reason] of the pauses, code of the error
const rows = [
  ["a connection that breaks", [stream(events(1, 2), { breaks: true }), stream(events(3, 4, 4))], [1, 2, 3, 4], [POST, after(2)], [[1, "network"]]],
  ["a connection that ends early", [stream(events(1, 2)), stream(events(3, 4, 4))], [1, 2, 3, 4], [POST, after(2)], [[1, "connection_lost"]]],
  ["events that were received before", [stream(events(1, 3)), stream(events(2, 5, 5))], [1, 2, 3, 4, 5], [POST, after(3)], [[1, "connection_lost"]]],
  ["missing events", [stream(events(1, 2) + events(4, 5)), stream(events(3, 5, 5))], [1, 2, 3, 4, 5], [POST, after(2)], [[1, "protocol"]]],
  ["an event that is no JSON", [stream(events(1, 1) + "data: {\n\n"), stream(events(2, 2, 2))], [1, 2], [POST, after(1)], [[1, "protocol"]]],
  ["attempts count from the last progress", [stream(events(1, 1)), problem(503), stream(events(2, 2)), stream(events(3, 3, 3))], [1, 2, 3], [POST, after(1), after(1), after(2)], [[1, "connection_lost"], [2, "http"], [1, "connection_lost"]]],
  ["a stream that has ended", [stream(events(1, 1)), problem(204)], [1], [POST, after(1)], [[1, "connection_lost"]]],
  ["a server that does not know the stream", [stream(events(1, 1)), problem(404)], [1], [POST, after(1)], [[1, "connection_lost"]], "connection_lost"],
  ["events that are gone", [stream(events(1, 1)), problem(410)], [1], [POST, after(1)], [[1, "connection_lost"]], "trimmed"],
  ["a position beyond the end", [stream(events(1, 1)), problem(400)], [1], [POST, after(1)], [[1, "connection_lost"]], "protocol"],
  ["a server without resume", [stream(events(1, 1), { headers: { location: "" } })], [1], [POST], [], "connection_lost"],
  ["an address of another origin", [stream(events(1, 1), { headers: { location: "http://127.0.0.2:1/s" } })], [1], [POST], [], "connection_lost"],
  ["a request that the server refused for now", [problem(503, { is_retryable: true }), stream(events(1, 1, 1))], [1], [POST, POST], [[1, "http"]]],
  ["a request that the server refused", [problem(422, { is_retryable: false, code: "invalid_request" })], [], [POST], [], "http"],
  ["a request that the server has repeated itself", [problem(429, { is_retryable: true }, { "x-should-retry": "false" })], [], [POST], [], "http"],
  ["a problem that is not retryable by its document", [problem(503, { is_retryable: false })], [], [POST], [], "http"],
  ["a wait that is too long", [problem(429, {}, { "retry-after": "3600" })], [], [POST], [], "http"],
  ["an answer that is no stream", [problem(200)], [], [POST], [], "protocol"],
  ["another contract", [stream('data: {"schema":"public_sse_v2","event_id":1}\n\n')], [], [POST], [], "protocol"],
];

for (const [name, answers, ids, requests, retries, code] of rows) {
  test(name, () =>
    serving(answers, async (server) => {
      const found = await read(server.url);
      assert.deepEqual(found.ids, ids);
      assert.deepEqual(asked(server.requests), requests);
      assert.deepEqual(found.retries.map(([attempt, reason]) => [attempt, reason]), retries);
      assert.equal(found.error?.code, code);
      assert.ok(found.error === undefined || found.error instanceof StreamError);
    }));
}

// status of a resumption that is refused, whether the stream may still be read at its address
for (const [status, canResume] of [[400, false], [401, true], [403, true], [404, false], [410, false], [503, true]]) {
  test(`a resumption that is refused with ${status}: the address is ${canResume ? "kept" : "useless"}`, () =>
    serving([stream(events(1, 1)), problem(status, { is_retryable: status === 503 })], async ({ url }) => {
      const { error } = await read(url, { maxAttempts: 1 });
      assert.deepEqual([error.details.status, error.canResume], [status, canResume]);
    }));
}

test("an error has the problem of the server", () =>
  serving([problem(429, { code: "too_many_streams", is_retryable: false, detail: "Too many." }, { "retry-after": "7" })], async ({ url }) => {
    const { error } = await read(url);
    assert.deepEqual([error.message, error.details.status, error.details.problem.code, error.details.retryAfterMs], ["Too many.", 429, "too_many_streams", 7000]);
  }));

// headers, least pause
const DATE = "Wed, 21 Oct 2015 07:28:00 GMT";
for (const [headers, pause] of [
  [{ "retry-after": "20" }, 20_000],
  [{ "retry-after": "Wed, 21 Oct 2015 07:28:20 GMT", date: DATE }, 20_000],
  [{ "retry-after": DATE }, undefined],
  [{ "retry-after": "soon" }, undefined],
  [{ "retry-after": "-5" }, undefined],
]) {
  test(`the pause is at least that of the server: ${JSON.stringify(headers)}`, () =>
    serving([problem(503, {}, headers), stream(events(1, 1, 1))], async ({ url }) => {
      const { retries } = await read(url);
      assert.equal(retries.length, 1);
      if (pause > 0) assert.equal(retries[0][2], pause);
    }));
  test(`an error has the pause of the server: ${JSON.stringify(headers)}`, () =>
    serving([problem(429, { is_retryable: false }, headers)], async ({ url }) => {
      const { error } = await read(url);
      assert.equal(error.details.retryAfterMs, pause);
    }));
}

test("attempts are limited", () =>
  serving([stream(events(1, 1)), ...Array(9).fill(problem(503))], async ({ url, requests }) => {
    const { error, retries } = await read(url, { maxAttempts: 3 });
    assert.deepEqual([error.code, retries.length, requests.length], ["http", 3, 4]);
  }));

// `maxAttempts`, requests of a stream that the server refuses, requests of one that is lost after its first event
for (const [maxAttempts, refused, lost] of [[0, 1, 1], [1, 1, 2], [3, 3, 4], [undefined, 8, 9]]) {
  test(`${maxAttempts ?? "the default of"} attempts are ${refused} requests without an event`, async () => {
    for (const [first, count] of [[[], refused], [[stream(events(1, 1))], lost]]) {
      await serving([...first, ...Array(20).fill(problem(503))], async ({ url, requests }) => {
        const { retries } = await read(url, { ...(maxAttempts !== undefined && { maxAttempts }) });
        assert.deepEqual([requests.length, retries.length], [count, count - 1]);
      });
    }
  });
}

test("an idempotency key is sent with the request, and not when the stream is resumed", () =>
  serving([problem(503), stream(events(1, 1)), stream(events(2, 2, 2))], async ({ url, requests }) => {
    await read(url, { request: { idempotencyKey: "k-1" } });
    assert.deepEqual(requests.map(({ headers }) => headers["idempotency-key"]), ["k-1", "k-1", undefined]);
  }));

test("a request whose answer is unknown is not repeated", () =>
  serving([async (response) => response.destroy()], async ({ url, requests }) => {
    const { error } = await read(url);
    assert.deepEqual([error.code, requests.length], ["network", 1]);
  }));

test("headers are renewed for each request", () =>
  serving([stream(events(1, 1)), stream(events(2, 2, 2))], async ({ url, requests }) => {
    let token = 0;
    await read(url, { request: { headers: async () => ({ authorization: `Bearer ${(token += 1)}` }) } });
    assert.deepEqual(requests.map(({ headers }) => headers.authorization), ["Bearer 1", "Bearer 2"]);
  }));

test("a server that is silent before the first byte is left", () =>
  serving([hang], async ({ url }) => {
    const { error } = await read(url, { firstByteTimeoutMs: 20 });
    assert.equal(error.code, "timeout_first_byte");
  }));

test("a server that is silent between events is left", () =>
  serving([stream(events(1, 1), { hangs: true }), stream(events(2, 2, 2))], async ({ url, requests }) => {
    const { ids, retries } = await read(url, { idleTimeoutMs: 20 });
    assert.deepEqual([ids, retries[0].slice(0, 2), asked(requests)], [[1, 2], [1, "timeout_idle"], [POST, after(1)]]);
  }));

test("abort ends the iteration with its reason and closes the connection", () =>
  serving([stream(events(1, 1), { hangs: true })], async ({ url, requests }) => {
    const controller = new AbortController();
    const reason = new Error("enough");
    const stream = openStream({ url }, { signal: controller.signal });
    await assert.rejects(async () => {
      for await (const _ of stream) controller.abort(reason);
    }, reason);
    assert.equal(requests.length, 1);
  }));

test("abort ends a pause", () =>
  serving([problem(503)], async ({ url }) => {
    const controller = new AbortController();
    const onRetry = () => controller.abort(new Error("enough"));
    await assert.rejects(async () => {
      for await (const _ of openStream({ url }, { signal: controller.signal, onRetry }));
    }, /enough/);
  }));

test("an aborted signal sends nothing", () =>
  serving([], async ({ url, requests }) => {
    const { error } = await read(url, { signal: AbortSignal.abort(new Error("before")) });
    assert.deepEqual([error.message, requests.length], ["before", 0]);
  }));

test("cancel asks the server, and the stream ends by itself", () =>
  serving([stream(events(1, 1), { hangs: true }), problem(202), stream(events(2, 2, 2))], async ({ url, requests }) => {
    const opened = openStream({ url }, { idleTimeoutMs: 50, wait: async () => {} });
    assert.equal(await opened.cancel(), false);
    const ids = [];
    for await (const { event_id } of opened) {
      ids.push(event_id);
      if (event_id === 1) assert.equal(await opened.cancel(), true);
    }
    assert.deepEqual([ids, asked(requests)], [[1, 2], [POST, `POST ${LOCATION}/cancel`, after(1)]]);
  }));

test("a stream is attached to by its address", () =>
  serving([stream(events(1, 2, 2)), stream(events(1, 2, 2))], async ({ url, requests }) => {
    const location = new URL(`${LOCATION}/events`, url).href;
    assert.deepEqual((await read(url, { request: { resume: { location } } })).ids, [1, 2]);
    assert.deepEqual((await read(url, { request: { resume: { location: LOCATION } } })).ids, [1, 2]);
    assert.deepEqual(asked(requests), [after(0), after(0)]);
  }));

// address of the server that is asked to open streams, address to resume at, whether it is asked
const LOCATIONS = [
  ["http://127.0.0.1:1/api/v1/chat/stream", (own) => own, false],
  ["//127.0.0.1:1/chat", (own) => own, false],
  ["/api/chat", (own) => own, true], // a relative `url`, and the address that `onOpen` had, of the page's origin
  ["/api/chat", () => "https://elsewhere.example/streams/1", false],
  ["/api/chat", () => "//elsewhere.example/streams/1", false],
  ["/api/chat", () => LOCATION, true],
];
// a worker has no document
const PLACES = { page: (href) => ({ document: { baseURI: href } }), worker: (href) => ({ location: { href } }) };
for (const [place, globalsOf] of Object.entries(PLACES)) for (const [given, locationOf, isAsked] of LOCATIONS) {
  const stored = locationOf("its own address");
  test(`in a ${place} with the url ${given}, a stream at ${stored} is ${isAsked ? "resumed" : "refused, and no header sent"}`, () =>
    serving([stream(events(1, 1, 1))], async ({ url, requests }) => {
      const globals = globalsOf(new URL("/page", url).href);
      Object.assign(globalThis, globals);
      const location = locationOf(new URL(LOCATION, url).href);
      const sent = [];
      const fetching = (target, init) => (sent.push(`${target}`), fetch(new URL(target, url), init));
      const request = { headers: { authorization: "Bearer x" }, resume: { location } };
      const { error } = await read(given, { request, fetch: fetching });
      for (const name of Object.keys(globals)) delete globalThis[name];
      assert.deepEqual([requests.length, sent.length], isAsked ? [1, 1] : [0, 0]);
      if (isAsked) return;
      assert.deepEqual([error.code, error.canResume], ["connection_lost", false]);
      assert.equal(error.message, `${location} is of another origin than \`url\`.`);
    }));
}

for (const location of ["//elsewhere.example/1", "/\\elsewhere.example/1", "/\t/elsewhere.example/1"]) {
  test(`without a page, a stream at ${JSON.stringify(location)} is refused`, async () => {
    const request = { resume: { location } };
    const { error } = await read("/api/chat", { request, fetch: () => assert.fail("nothing is sent") });
    assert.deepEqual([error.code, error.canResume], ["connection_lost", false]);
  });
}

test("a stream that another origin answers, after a redirect, is not resumed there with the headers", () =>
  serving([stream(events(1, 1)), stream(events(2, 2, 2))], ({ url: other, requests }) =>
    serving([problem(307, {}, { location: other }), problem(404)], async ({ url }) => {
      const { ids, error } = await read(url, { request: { headers: { authorization: "Bearer x" } } });
      assert.deepEqual([ids, error.code], [[1], "connection_lost"]);
      assert.deepEqual(requests.map(({ headers }) => headers.authorization), [undefined]);
    }),
  ));

test("an address is relative to the path that a redirect led to", () => {
  const answers = [problem(307, {}, { location: "/v2/chat" }), stream(events(1, 1), { headers: { location: "streams/1" } })];
  return serving([...answers, stream(events(2, 2, 2))], async ({ url, requests }) => {
    const { ids } = await read(url);
    assert.deepEqual([ids, asked(requests)], [[1, 2], [POST, "POST /v2/chat", "GET /v2/streams/1/events?after=1"]]);
  });
});

test("an event that is too large is refused", () =>
  serving([stream(`data: ${"x".repeat(4_200_000)}`, { hangs: true })], async ({ url }) => {
    const { error } = await read(url);
    assert.deepEqual([error.code, error.isRetryable], ["protocol", false]);
  }));

test("pauses double from 0.5 s to 8 s, of which a random half is left out", () => {
  assert.deepEqual([1, 2, 3, 4, 5, 6].map((attempt) => backoff(attempt, () => 0)), [500, 1000, 2000, 4000, 8000, 8000]);
  assert.deepEqual([1, 5].map((attempt) => backoff(attempt, () => 1)), [250, 4000]);
});

test("the parser reads every line ending, comments and data of several lines, cut anywhere", () => {
  for (const end of ["\n", "\r\n", "\r"]) {
    const text = [": heartbeat", "", "event: x", "data: a", "data:b", "data", "id: 1", "", "", "data:  c", "", "data: cut"].join(end);
    const whole = ["a\nb\n", " c"];
    for (let cut = 0; cut <= text.length; cut += 1) {
      const parser = sseParser();
      assert.deepEqual([...parser.feed(text.slice(0, cut)), ...parser.feed(""), ...parser.feed(text.slice(cut))], whole, `${JSON.stringify(end)} ${cut}`);
    }
    const pieces = sseParser();
    assert.deepEqual([...text].flatMap((piece) => pieces.feed(piece)), whole);
  }
});
