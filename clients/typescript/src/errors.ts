/** Errors of a connection. A failure of the stream itself is its `error` event, not an exception. */

import { isRecord, textOf } from "./checks.js";

export type StreamErrorCode =
  /** The server answered with an error; `problem` is its document. */
  | "http"
  /** The server could not be reached. */
  | "network"
  | "timeout_first_byte"
  | "timeout_idle"
  /** The answer is not `public_sse_v1`. */
  | "protocol"
  /** The connection was lost, and the stream cannot be resumed. */
  | "connection_lost"
  /** The server no longer has the events that are missing. */
  | "trimmed";

/** A problem document of the server (RFC 9457). */
export interface Problem {
  type?: string;
  title?: string;
  status?: number;
  detail?: string;
  instance?: string;
  code?: string;
  is_retryable?: boolean;
  /** The provider's code, such as `context_length_exceeded`, if its answer had one. */
  provider_code?: string;
  /** ID of the request in the log of the server. */
  request_id?: string;
}

export interface StreamErrorDetails {
  status?: number;
  problem?: Problem;
  retryAfterMs?: number | undefined;
  /** False if only a person should send the request again: the server has repeated it. */
  shouldRetry?: boolean;
  cause?: unknown;
}

export class StreamError extends Error {
  override readonly name = "StreamError";

  constructor(
    readonly code: StreamErrorCode,
    message: string,
    /** Whether the same request may succeed later. */
    readonly isRetryable: boolean,
    readonly details: StreamErrorDetails = {},
  ) {
    super(message, { cause: details.cause });
  }

  /** Whether a stream that has an address may still be read there: now, later, or by a user who has signed in. */
  get canResume(): boolean {
    return this.isRetryable || this.code === "http";
  }
}

const MAX_WAIT_MS = 3_600_000;
const RETRYABLE = new Set([408, 425, 429, 500, 502, 503, 504]);

/** Returns the error of a response that is not a stream. */
export async function errorOfResponse(response: Response): Promise<StreamError> {
  const { status, headers } = response;
  let problem: Problem = {};
  try {
    const body: unknown = await response.json();
    if (isRecord(body)) problem = body;
  } catch {
    // a proxy's page; the status is enough
  }
  const dateOf = (name: string): number => Date.parse(headers.get(name) ?? "");
  const seconds = Number(headers.get("retry-after"));
  const waitMs = seconds * 1000 || dateOf("retry-after") - (dateOf("date") || Date.now()); // of the server's clock
  const retryAfterMs = waitMs > 0 ? Math.min(waitMs, MAX_WAIT_MS) : undefined;
  const isRetryable = typeof problem.is_retryable === "boolean" ? problem.is_retryable : RETRYABLE.has(status);
  const detail = textOf(problem.detail) ?? `The server answered with status ${status}.`;
  const shouldRetry = headers.get("x-should-retry") !== "false";
  return new StreamError("http", detail, isRetryable, { status, problem, retryAfterMs, shouldRetry });
}
