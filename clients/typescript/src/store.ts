/** A store of one conversation turn at a time: the state of its stream, and what a page can do with it. */

import { openStream, type EventStream, type Retry, type StreamOptions, type StreamRequest } from "./connection.js";
import { StreamError } from "./errors.js";
import { reduce } from "./reduce.js";
import { initialState, type StreamState } from "./state.js";
import { recall, remember } from "./storage.js";

export interface Snapshot {
  readonly state: StreamState;
  /** `connecting` before the first event, `retrying` during a pause, `closed` after the end or a failure. */
  readonly connection: "idle" | "connecting" | "open" | "retrying" | "closed";
  /** Why the connection failed; a failure of the stream itself is in `state.end`. */
  readonly error?: unknown;
  /** While `retrying`: the reason, and when the next request is sent (milliseconds, as `Date.now()`). */
  readonly pause?: (Retry & { nextAt: number }) | undefined;
}

export interface StoreOptions extends Omit<StreamRequest, "body" | "resume" | "idempotencyKey">, Omit<StreamOptions, "signal"> {
  /** Key of `sessionStorage`: a reload continues the stream that was running. */
  storageKey?: string | undefined;
}

export interface StreamStore {
  getSnapshot(): Snapshot;
  subscribe(listener: () => void): () => void;
  /** Sends a request and shows its stream; one that is running is closed. */
  send(body: unknown, options?: Pick<StreamRequest, "idempotencyKey">): void;
  /**
   * Sends the last request again, without its idempotency key if that has a stream. If none was sent, reads the resumed
   * stream again, or does nothing without one.
   */
  retry(): void;
  /** Asks the server to cancel the stream, before its headers as soon as they arrive; closes the connection if it cannot. */
  stop(): void;
  /** Closes the connection; the stream goes on. */
  close(): void;
  /** Reads a stream: at an address, or the one that was lost or ran before a reload. Returns whether there is one. */
  resume(location?: string): boolean;
}

const STOP_MS = 2_000;
const FRAME_MS = 16;
const HIDDEN_MS = 250; // a busy page draws a frame before

export const initialSnapshot: Snapshot = { state: initialState, connection: "idle" };

/** The stream that is shown. One that was stopped before its headers is left open until its address is known. */
interface Running {
  stream: EventStream;
  controller: AbortController;
  /** Whether its headers have arrived, or its address was known before. */
  isOpen: boolean;
  isStopped: boolean;
}

export function createStreamStore(options: StoreOptions): StreamStore {
  const { storageKey, ...rest } = options;
  const listeners = new Set<() => void>();
  let snapshot = initialSnapshot;
  let running: Running | undefined;
  let sent: StreamRequest | undefined;
  let resumed: StreamRequest | undefined;
  let address: string | undefined;
  let runs = 0;
  let isScheduled = false;

  /** Keeps the address of the stream that is shown, as long as it may be read there. */
  function keep(location: string | undefined): void {
    address = location;
    remember(storageKey, location);
  }

  /** Tells the listeners once for all events that arrive together. */
  function update(change: Partial<Snapshot>): void {
    snapshot = { ...snapshot, ...change };
    if (isScheduled) return;
    isScheduled = true;
    onNextFrame(() => {
      isScheduled = false;
      for (const listener of [...listeners]) listener();
    });
  }

  async function run(request: StreamRequest): Promise<void> {
    running?.controller.abort();
    runs += 1;
    const controller = new AbortController();
    const { signal } = controller;
    const stream = openStream(request, {
      ...rest,
      signal,
      onOpen(opened) {
        if (signal.aborted) return;
        mine.isOpen = true;
        if (mine.isStopped) return void stream.cancel().catch(() => undefined).then(() => controller.abort());
        keep(opened.location);
        request.idempotencyKey = undefined; // it belongs to this stream
        if (snapshot.connection === "retrying") {
          update({ connection: snapshot.state.streamId === undefined ? "connecting" : "open", pause: undefined });
        }
        rest.onOpen?.(opened);
      },
      onRetry(retry) {
        if (mine.isStopped) return controller.abort();
        update({ connection: "retrying", pause: { ...retry, nextAt: Date.now() + retry.delayMs } });
        rest.onRetry?.(retry);
      },
    });
    const mine: Running = (running = { stream, controller, isOpen: request.resume !== undefined, isStopped: false });
    snapshot = initialSnapshot;
    update({ connection: "connecting" });
    try {
      for await (const event of stream) {
        if (signal.aborted || mine.isStopped) return;
        update({ state: reduce(snapshot.state, event), connection: "open", pause: undefined });
      }
      if (mine.isStopped) return;
      keep(undefined);
      update({ connection: "closed", pause: undefined });
    } catch (error) {
      if (signal.aborted || mine.isStopped) return;
      if (!(error instanceof StreamError && error.canResume)) keep(undefined);
      update({ connection: "closed", error, pause: undefined });
    }
  }

  function close(): void {
    if (!running?.isStopped) running?.controller.abort();
    running = undefined;
    if (snapshot.connection !== "idle") update({ connection: "closed", pause: undefined });
  }

  return {
    getSnapshot: () => snapshot,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    send(body, { idempotencyKey } = {}) {
      sent = { ...rest, body, idempotencyKey };
      keep(undefined);
      void run(sent);
    },
    retry() {
      const request = sent ?? resumed;
      if (request !== undefined) void run(request);
    },
    stop() {
      const stopped = running;
      if (stopped === undefined || snapshot.connection === "closed") return;
      const mine = runs;
      const force = (): void => {
        if (mine !== runs) return; // another stream is shown, or was since
        if (snapshot.connection !== "closed") close();
        keep(undefined);
      };
      if (!stopped.isOpen) {
        stopped.isStopped = snapshot.connection === "connecting"; // in a pause no answer is under way
        return force();
      }
      setTimeout(force, STOP_MS); // also if the request hangs
      stopped.stream.cancel().then((isAsked) => isAsked || force(), force);
    },
    close,
    resume(location = address ?? recall(storageKey)) {
      if (location === undefined) return false;
      resumed = { ...rest, resume: { location } };
      keep(location);
      void run(resumed);
      return true;
    },
  };
}

/** Calls back before the next frame, or soon where no frames are drawn, as in a worker or a tab that is hidden meanwhile. */
function onNextFrame(callback: () => void): void {
  const isDrawn = typeof requestAnimationFrame === "function" && globalThis.document?.hidden === false;
  if (!isDrawn) return void setTimeout(callback, FRAME_MS);
  let isCalled = false;
  const call = (): void => {
    clearTimeout(timer);
    if (!isCalled) callback();
    isCalled = true;
  };
  const timer = setTimeout(call, HIDDEN_MS);
  requestAnimationFrame(call);
}
