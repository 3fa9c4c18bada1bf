// Compiled, not run: the adapters fit the types of the packages that they are for, and `kind` narrows events and items.

import { useExternalStoreRuntime } from "@assistant-ui/react";
import type { ChatTransport as Transport7, UIMessage as Message7 } from "ai";
import type { ChatTransport as Transport6, UIMessage as Message6 } from "ai-6";
import { openStream, type Item, type PublicSseEvent, type StreamError } from "public-stream-client";
import { PublicChatTransport, type PublicDataParts, type PublicMetadata } from "public-stream-client/ai-sdk";
import { externalStore, type ThreadMessage } from "public-stream-client/assistant-ui";
import { useStream } from "public-stream-client/react";
import { createStreamStore } from "public-stream-client/store";

export const transport = new PublicChatTransport({ url: "/api/v1/chat/stream" });
export const for6: Transport6<Message6> = transport;
export const for7: Transport7<Message7> = transport;

export function Thread({ earlier }: { earlier: ThreadMessage[] }) {
  const stream = useStream({ url: "/api/v1/chat/stream" });
  useExternalStoreRuntime(externalStore(stream, earlier, (message) => stream.send({ message })));
  return null;
}

export function textOf(event: PublicSseEvent, item: Item): string {
  // @ts-expect-error: only some kinds have a delta
  event.delta;
  // @ts-expect-error: a state is read-only
  item.id = "";
  if (event.kind === "message.delta") return event.delta;
  return item.kind === "message" ? item.parts.map((part) => part.text).join("") : "";
}

/** For the person who looks into the log of the server. */
export const requestOf = (error: StreamError): string | undefined => error.details.problem?.request_id;

export const codeOf = (error: StreamError): string | undefined => error.details.problem?.provider_code;

/** What a page of `useChat` shows of a message of the dialect `ai_sdk`: metadata and data parts narrow. */
export function troubleOf({ metadata, parts }: Message7<PublicMetadata, PublicDataParts>): string | undefined {
  for (const part of parts) if (part.type === "data-notice") part.data.notices.map(({ type, path }) => type + path);
  // @ts-expect-error: no such data
  parts.some((part) => part.type === "data-nothing");
  return metadata?.error?.message ?? metadata?.status;
}
export const typed6 = (message: Message6<PublicMetadata, PublicDataParts>): string | undefined => message.metadata?.stream_id;

/** An option may be undefined, also for `exactOptionalPropertyTypes`. */
export const optional = (text: string | undefined, after: number | undefined, signal: AbortSignal | undefined) => [
  openStream({ url: "/", headers: undefined, credentials: undefined, idempotencyKey: text, resume: text ? { location: text, after } : undefined }, { signal }),
  createStreamStore({ url: "/", storageKey: text, fetch: undefined, firstByteTimeoutMs: after, idleTimeoutMs: after, maxAttempts: after, onOpen: undefined, onRetry: undefined, wait: undefined }),
  new PublicChatTransport({ url: "/", body: undefined }),
];

// @ts-expect-error: a request has an address
openStream({});
