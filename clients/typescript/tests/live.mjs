// Talks to a running demo server: answers, a lost connection, cancelling, the AI SDK. Prints one line of JSON.
//
//   node live.mjs URL URL_OF_A_SLOW_DEMO

import { readUIMessageStream } from "ai";
import { initialState, openStream, reduce, responseText } from "public-stream-client";
import { PublicChatTransport } from "public-stream-client/ai-sdk";

const [url, slowUrl] = process.argv.slice(2).map((server) => `${server}/api/v1/chat/stream`);
const ask = (message, server = url) => ({ url: server, body: { message } });
const wait = async () => {};

/** Reads a stream; `onEvent` may act on it. */
async function read(stream, onEvent = () => {}) {
  let state = initialState;
  const ids = [];
  for await (const event of stream) {
    state = reduce(state, event);
    ids.push(event.event_id);
    await onEvent(event.event_id);
  }
  return { ids, status: state.status, text: responseText(state) };
}

/** Returns a `fetch` that loses each connection after some reads, a few times. */
function losing(times) {
  return async (target, init) => {
    const lost = new AbortController();
    const response = await fetch(target, { ...init, signal: AbortSignal.any([init.signal, lost.signal]) });
    if (!response.ok || times === 0) return response;
    times -= 1;
    let reads = 0;
    const body = response.body.pipeThrough(new TransformStream({ transform: (piece, to) => (++reads > 2 ? lost.abort() : to.enqueue(piece)) }));
    return new Response(body, response);
  };
}

const answer = await read(openStream(ask("Search the news")));
const lost = await read(openStream(ask("Search the news"), { fetch: losing(3), wait }));
const stopped = openStream(ask("Call a tool", slowUrl));
const cancelled = await read(stopped, (id) => (id === 1 ? stopped.cancel() : undefined));

globalThis.sessionStorage = Object.assign(new Map(), {
  getItem: (key) => sessionStorage.get(key) ?? null,
  setItem: (key, value) => sessionStorage.set(key, value),
  removeItem: (key) => sessionStorage.delete(key),
});
const transport = new PublicChatTransport({ url, wait });
const messages = [{ id: "1", role: "user", parts: [{ type: "text", text: "Think about it" }] }];
const sent = await transport.sendMessages({ chatId: "c", messages, trigger: "submit-message" });
const reader = sent.getReader();
await reader.read();
await reader.cancel(); // the page was reloaded
const resumed = await transport.reconnectToStream({ chatId: "c" });
let message;
for await (const one of readUIMessageStream({ stream: resumed })) message = one;
const nothing = await transport.reconnectToStream({ chatId: "c" });
console.log(JSON.stringify({ answer, lost, cancelled, parts: message.parts.map((part) => part.type), nothing }));
