/** Streams in any dialect, event by event, which go on where a connection was lost. */

import { backoff, sseParser, StreamError } from "../src/index.js";
import { errorOfResponse } from "../src/errors.js";

const ATTEMPTS_MAX = 8;
const NO_CONTENT = 204;

export interface Resuming {
  /** Requests the events after a number; events are counted from 1. */
  open: (after: number) => Promise<Response>;
  signal: AbortSignal;
  /** Called before each pause; throws to give up. */
  onLost?: (after: number, error: unknown) => void;
}

/** Yields the data of each event; throws if the server refuses the request, or cannot be reached for long. */
export async function* resumed({ open, signal, onLost }: Resuming): AsyncGenerator<string, void, undefined> {
  let after = 0;
  for (let attempt = 1; ; attempt += 1) {
    try {
      const response = await open(after);
      if (response.status === NO_CONTENT) return;
      if (!response.ok || response.body === null) throw await errorOfResponse(response);
      for await (const data of dataOf(response.body)) {
        signal.throwIfAborted();
        after += 1;
        attempt = 1;
        yield data;
      }
      return;
    } catch (error) {
      signal.throwIfAborted();
      if ((error instanceof StreamError && !error.isRetryable) || attempt > ATTEMPTS_MAX) throw error;
      onLost?.(after, error);
      await new Promise((resolve) => setTimeout(resolve, backoff(attempt)));
    }
  }
}

async function* dataOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const parser = sseParser();
  const reader = body.getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield* parser.feed(decoder.decode(value, { stream: true }));
  }
}
