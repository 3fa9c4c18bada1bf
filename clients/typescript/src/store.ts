/** A store of one conversation turn at a time: the state of its stream, and what a page can do with it. */

import { openStream, type EventStream, type StreamOptions, type StreamRequest } from "./connection.js";
import { reduce } from "./reduce.js";
import { StreamError } from "./errors.js";
import { initialState, type StreamState } from "./state.js";
import { recall, remember } from "./storage.js";

export interface Snapshot {
  readonly state: StreamState;
  /** `connecting` before the first event, `retrying` during a pause, `closed` after the end or a failure. */
  readonly connection: "idle" | "connecting" | "open" | "retrying" | "closed";
  /** Why the connection failed; a failure of the stream itself is in `state.end`. */
  readonly error?: unknown;
}

export interface StoreOptions extends Omit<StreamRequest, "body" | "resume">, Omit<StreamOptions, "signal"> {
  /** Key of `sessionStorage`: a reload continues the stream that was running. */
  storageKey?: string;
}

export interface StreamStore {
  getSnapshot(): Snapshot;
  subscribe(listener: () => void): () => void;
  /** Sends a request and shows its stream; one that is running is closed. */
  send(body: unknown): void;
  /** Sends the last request again. If none was sent, reads the resumed stream again, or does nothing without one. */
  retry(): void;
  /** Asks the server to cancel the stream, before its headers as soon as they arrive; closes the connection if it cannot. */
  stop(): void;
  /** Closes the connection; the stream goes on. */
  close(): void;
  /** Continues a stream: at an address, or the one that was running before a reload. Returns whether there is one. */
  resume(location?: string): boolean;
}

const STOP_MS = 2_000;

export const initialSnapshot: Snapshot = { state: initialState, connection: "idle" };

/** The stream that is shown. One that was stopped before its headers is left open until its address is known. */
interface Running {
  stream: EventStream;
  controller: AbortController;
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
  let isScheduled = false;

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
    const controller = new AbortController();
    const { signal } = controller;
    const stream = openStream(request, {
      ...rest,
      signal,
      onOpen(opened) {
        if (signal.aborted) return;
        mine.isOpen = true;
        if (mine.isStopped) return void stream.cancel().catch(() => undefined).then(() => controller.abort());
        remember(storageKey, opened.location);
        rest.onOpen?.(opened);
      },
      onRetry(retry) {
        if (mine.isStopped) return controller.abort();
        update({ connection: "retrying" });
        rest.onRetry?.(retry);
      },
    });
    const mine: Running = (running = { stream, controller, isOpen: false, isStopped: false });
    snapshot = initialSnapshot;
    update({ connection: "connecting" });
    try {
      for await (const event of stream) {
        if (signal.aborted || mine.isStopped) return;
        update({ state: reduce(snapshot.state, event), connection: "open" });
      }
      if (mine.isStopped) return;
      remember(storageKey, undefined);
      update({ connection: "closed" });
    } catch (error) {
      if (signal.aborted || mine.isStopped) return;
      if (!(error instanceof StreamError && error.isRetryable)) remember(storageKey, undefined);
      update({ connection: "closed", error });
    }
  }

  function close(): void {
    if (!running?.isStopped) running?.controller.abort();
    running = undefined;
    if (snapshot.connection !== "idle") update({ connection: "closed" });
  }

  return {
    getSnapshot: () => snapshot,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    send(body) {
      sent = { ...rest, body };
      void run(sent);
    },
    retry() {
      const request = sent ?? resumed;
      if (request !== undefined) void run(request);
    },
    stop() {
      const stopped = running;
      if (stopped === undefined || snapshot.connection === "closed") return;
      const force = (): void => {
        if (running === stopped && snapshot.connection !== "closed") close();
        remember(storageKey, undefined);
      };
      stopped.stream.cancel().then((isAsked) => {
        if (isAsked) return void setTimeout(force, STOP_MS);
        stopped.isStopped = snapshot.connection === "connecting" && !stopped.isOpen; // in a pause no answer is under way
        force();
      }, force);
    },
    close,
    resume(location = recall(storageKey)) {
      if (location === undefined) return false;
      resumed = { ...rest, resume: { location } };
      void run(resumed);
      return true;
    },
  };
}

/** Calls back before the next frame, or soon where no frames are drawn. */
function onNextFrame(callback: () => void): void {
  if (typeof requestAnimationFrame === "function" && !document.hidden) requestAnimationFrame(callback);
  else setTimeout(callback, 16);
}
