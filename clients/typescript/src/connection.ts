/** A stream over HTTP: opens it, reads its events, and resumes it where a connection was lost. */

import { isIndex, isRecord } from "./checks.js";
import { errorOfResponse, StreamError } from "./errors.js";
import type { PublicSseEvent } from "./public_sse_v1.js";
import { sseParser } from "./sse.js";

export interface StreamRequest {
  /** Route that answers with a stream. */
  url: string | URL;
  /** Sent as JSON. */
  body?: unknown;
  /** Headers, or a function that returns them for each request, such as one that renews a token. */
  headers?: HeadersInit | (() => HeadersInit | Promise<HeadersInit>) | undefined;
  credentials?: RequestCredentials | undefined;
  /** Sent as `Idempotency-Key`: the same request with the same key gets the stream of the first one. */
  idempotencyKey?: string | undefined;
  /** Attaches to a stream that was opened before, at its address, of the origin of `url`; nothing is sent to `url`. */
  resume?: { location: string; after?: number | undefined } | undefined;
}

export interface StreamOptions {
  signal?: AbortSignal | undefined;
  fetch?: typeof fetch | undefined;
  /** Until the first byte of a response (default: 120,000). */
  firstByteTimeoutMs?: number | undefined;
  /** Between two reads; the server sends a heartbeat every 15 s (default: 45,000). */
  idleTimeoutMs?: number | undefined;
  /** Requests without a new event before the stream fails (default: 8). */
  maxAttempts?: number | undefined;
  /** Called when the server has accepted the stream; store `location` to resume after a reload. */
  onOpen?: ((stream: { streamId: string | undefined; location: string | undefined }) => void) | undefined;
  /** Called before each pause. */
  onRetry?: ((retry: Retry) => void) | undefined;
  /** Pauses; replaced in tests. */
  wait?: ((ms: number, signal: AbortSignal) => Promise<void>) | undefined;
}

/** A pause before another request. */
export interface Retry {
  /** Counts the pauses since the last event, from 1. */
  attempt: number;
  delayMs: number;
  /** Why the connection was lost, or the request refused. */
  error: StreamError;
}

export interface EventStream extends AsyncIterable<PublicSseEvent> {
  /** Asks the server to end the stream with `final` `cancelled`. Returns false if the stream has no address. */
  cancel(): Promise<boolean>;
}

const INITIAL_WAIT_MS = 500;
const MAX_WAIT_MS = 8_000;
const PATIENCE_MS = 60_000; // a longer `Retry-After` is for the caller to decide
const MAX_EVENT_CHARS = 4_194_304; // the server sends at most 262,144 bytes
const NO_CONTENT = 204;
const SLICE_MS = 8; // half a frame: a long answer may arrive at once
const EVENTS = /\/events$/;

/**
 * Opens a stream. Iterating sends the request; leaving the loop closes the connection, which by itself does not cancel
 * the stream. Throws `StreamError`, the reason of `signal`, or a `TypeError` if `body` is no JSON or a header is illegal.
 */
export function openStream(request: StreamRequest, options: StreamOptions = {}): EventStream {
  const send: typeof fetch = options.fetch ?? ((...call) => fetch(...call));
  const { firstByteTimeoutMs = 120_000, idleTimeoutMs = 45_000, maxAttempts = 8, signal: outer } = options;
  const stored = request.resume?.location;
  let location = stored && sameOrigin(stored, request.url)?.replace(EVENTS, "");
  let last = request.resume?.after ?? 0;
  let json: string;

  async function* events(): AsyncGenerator<PublicSseEvent, void, undefined> {
    if (stored && !location) throw new StreamError("connection_lost", `${stored} is of another origin than \`url\`.`, false);
    json = JSON.stringify(request.body ?? {}); // a body that is no JSON is no failure of the network
    for (let attempt = 0, barren = 0; ; ) {
      const before = last;
      try {
        if (yield* connect()) return;
        throw new StreamError("connection_lost", "The connection ended before the stream.", true);
      } catch (error) {
        outer?.throwIfAborted();
        if (!(error instanceof StreamError)) throw error;
        [attempt, barren] = last > before ? [1, 0] : [attempt + 1, barren + 1];
        const delayMs = Math.max(backoff(attempt), error.details.retryAfterMs ?? 0);
        // without its address a stream cannot be resumed; a request is repeated only if the server refused it
        const canRepeat = location !== undefined || (error.code === "http" && last === 0 && error.details.shouldRetry);
        if (!error.isRetryable || !canRepeat || barren >= maxAttempts || delayMs > PATIENCE_MS) throw error;
        options.onRetry?.({ attempt, delayMs, error });
        await (options.wait ?? wait)(delayMs, outer ?? new AbortController().signal);
      }
    }
  }

  /** Reads one response, and returns whether the stream has ended. */
  async function* connect(): AsyncGenerator<PublicSseEvent, boolean, undefined> {
    const watch = watching(outer);
    try {
      watch.start(firstByteTimeoutMs, "timeout_first_byte");
      const more = await watch.guard(given());
      const init = location === undefined ? initOf(more, "POST", json) : initOf(more, "GET");
      const response = await watch.guard(open({ ...init, signal: watch.signal }));
      if (!response) return true;
      options.onOpen?.({ streamId: response.headers.get("x-stream-id") ?? undefined, location });
      return yield* read(response.body!, watch);
    } finally {
      watch.close();
    }
  }

  async function open(init: RequestInit): Promise<Response | undefined> {
    const isResumed = location !== undefined;
    const response = await send(isResumed ? `${location}/events?after=${last}` : request.url, init);
    if (isResumed && response.status === NO_CONTENT) return undefined;
    if (!response.ok) throw isResumed ? await lost(response) : await errorOfResponse(response);
    if (!response.headers.get("content-type")?.startsWith("text/event-stream") || !response.body) {
      throw new StreamError("protocol", "The answer is not an event stream, or `fetch` cannot stream.", false, { status: response.status });
    }
    const given = response.headers.get("location");
    const base = sameOrigin(response.url, request.url) || request.url; // a redirect may have led to another path or origin
    if (!isResumed && given) location = sameOrigin(given, base)?.replace(EVENTS, "");
    return response;
  }

  async function* read(body: ReadableStream<Uint8Array>, watch: Watch): AsyncGenerator<PublicSseEvent, boolean, undefined> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const parser = sseParser();
    let sliceEnd = performance.now() + SLICE_MS;
    try {
      for (;;) {
        const { done, value } = await watch.guard(reader.read());
        if (done) return false;
        for (const data of parser.feed(decoder.decode(value, { stream: true }))) {
          const event = accept(data);
          if (!event) continue;
          watch.stop(); // the caller may take its time
          if (performance.now() > sliceEnd) sliceEnd = (await nextTask(), performance.now() + SLICE_MS);
          yield event;
          if (event.kind === "final" || event.kind === "error") return true;
        }
        if (parser.pending > MAX_EVENT_CHARS) throw new StreamError("protocol", "An event is too large.", false);
        watch.start(idleTimeoutMs, "timeout_idle");
      }
    } finally {
      reader.cancel().catch(() => undefined);
    }
  }

  /** Returns an event, or nothing if it was received before. */
  function accept(data: string): PublicSseEvent | undefined {
    let event: unknown;
    try {
      event = JSON.parse(data);
    } catch {
      throw new StreamError("protocol", "An event is not JSON.", true);
    }
    if (!isRecord(event) || event.schema !== "public_sse_v1" || !isIndex(event.event_id)) {
      throw new StreamError("protocol", "An event is not of `public_sse_v1`: check `?dialect=`.", false);
    }
    if (event.event_id <= last) return undefined;
    if (event.event_id > last + 1) throw new StreamError("protocol", "Events are missing.", true);
    last = event.event_id;
    return event as unknown as PublicSseEvent;
  }

  async function given(): Promise<HeadersInit | undefined> {
    return typeof request.headers === "function" ? request.headers() : request.headers;
  }

  /** Throws a `TypeError` without the value of an illegal header, which may be a token. */
  function initOf(more: HeadersInit | undefined, method: string, body: string | null = null): RequestInit {
    const { credentials, idempotencyKey } = request;
    try {
      const headers = new Headers(more);
      if (!headers.has("accept")) headers.set("accept", "text/event-stream");
      if (body) headers.set("content-type", "application/json");
      if (body && idempotencyKey) headers.set("idempotency-key", idempotencyKey);
      return { method, headers, body, cache: "no-store", ...(credentials && { credentials }) };
    } catch {
      throw new TypeError("A header is illegal: expected Latin-1 in one line.");
    }
  }

  async function cancel(): Promise<boolean> {
    if (!location) return false;
    const response = await send(`${location}/cancel`, initOf(await given(), "POST"));
    if (!response.ok) throw await errorOfResponse(response);
    return true;
  }

  return { [Symbol.asyncIterator]: events, cancel };
}

type Watch = ReturnType<typeof watching>;

/** Aborts a request when its caller does, or when the server is silent for too long. */
function watching(outer: AbortSignal | undefined) {
  const controller = new AbortController();
  const { signal } = controller;
  const onAbort = (): void => controller.abort(outer?.reason);
  let timer: ReturnType<typeof setTimeout> | undefined;
  outer?.throwIfAborted();
  outer?.addEventListener("abort", onAbort);
  const stop = (): void => clearTimeout(timer);
  return {
    signal,
    stop,
    start(ms: number, code: "timeout_first_byte" | "timeout_idle"): void {
      stop();
      timer = setTimeout(() => controller.abort(new StreamError(code, `The server sent nothing for ${ms} ms.`, true)), ms);
    },
    /** Awaits a step of the request; failures of the network become a `StreamError`. */
    async guard<T>(step: Promise<T>): Promise<T> {
      step.catch(() => undefined); // it may fail after it was given up
      signal.throwIfAborted();
      let give: () => void;
      const aborted = new Promise<never>((_, reject) => {
        give = () => reject(signal.reason);
        signal.addEventListener("abort", give);
      });
      try {
        return await Promise.race([step, aborted]);
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        const { message, cause } = error as Error & { cause?: Error & { code?: string; input?: string } };
        if (error instanceof StreamError || cause?.input) throw error; // Node: `url` is no address
        const reason = cause?.message || cause?.code || message; // Node: `fetch failed` is not the reason
        throw new StreamError("network", `No connection: ${reason}`, true, { cause: error });
      } finally {
        signal.removeEventListener("abort", give!);
      }
    },
    close(): void {
      stop();
      outer?.removeEventListener("abort", onAbort);
      controller.abort();
    },
  };
}

/** Returns the error of a resumption that failed. */
async function lost(response: Response): Promise<StreamError> {
  const error = await errorOfResponse(response);
  const code = { 400: "protocol", 404: "connection_lost", 410: "trimmed" } as const;
  const known = code[response.status as keyof typeof code];
  return known ? new StreamError(known, error.message, false, error.details) : error;
}

/** Returns the pause before an attempt: 0.5 s that doubles up to 8 s, of which a random half is left out. */
export function backoff(attempt: number, random: () => number = Math.random): number {
  return Math.min(INITIAL_WAIT_MS * 2 ** (attempt - 1), MAX_WAIT_MS) * (1 - random() / 2);
}

/** Lets the browser draw and react to input. Unlike a timer, a channel is not slower in a hidden tab; React Native has none. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    if (!globalThis.MessageChannel) return void setTimeout(resolve);
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => resolve(port1.close());
    port2.postMessage(0);
  });
}

/** Waits, but not longer than until `signal` is aborted. */
function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done);
    if (signal.aborted) done();
  });
}

/** Returns an address relative to another, unless it is of another origin: headers may contain credentials. */
function sameOrigin(location: string, base: string | URL): string | undefined {
  try {
    const from = new URL(base, globalThis.document?.baseURI ?? globalThis.location?.href);
    const url = new URL(location, from);
    return url.origin === from.origin ? url.href : undefined;
  } catch {
    return /^\/(?![/\\\s])/.test(location) ? location : undefined; // no page, or one without address
  }
}
