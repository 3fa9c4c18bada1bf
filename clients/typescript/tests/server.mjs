// A server on loopback that answers each request with the next of its answers, and remembers the requests.

import { createServer } from "node:http";
import { once } from "node:events";

export const LOCATION = "/api/v1/streams/stream_1";

/** Returns the bytes of events; `final` ends the stream. */
export function events(from, to, last = 99) {
  let text = "";
  for (let id = from; id <= to; id += 1) {
    const about = { schema: "public_sse_v1", event_id: id, stream_id: "stream_1", server_timestamp: "" };
    const kind = id === last ? { kind: "final", final: { status: "completed" } } : { kind: "lifecycle", status: "in_progress" };
    text += `data: ${JSON.stringify({ ...about, ...kind })}\n\n`;
  }
  return text;
}

/** An answer with a stream; `breaks` closes the connection in the middle, `hangs` leaves it open. */
export function stream(body, { breaks = false, hangs = false, headers = {} } = {}) {
  return async (response) => {
    response.writeHead(200, { "content-type": "text/event-stream", "x-stream-id": "stream_1", location: LOCATION, ...headers });
    response.flushHeaders();
    await new Promise((done) => (body === "" ? done() : response.write(body, done)));
    if (breaks) setImmediate(() => response.destroy());
    else if (!hangs) response.end();
  };
}

/** An answer with a problem document, or without a body. */
export function problem(status, members = {}, headers = {}) {
  return async (response) => {
    response.writeHead(status, { "content-type": "application/problem+json", ...headers });
    response.end(status === 204 ? undefined : JSON.stringify({ title: "t", detail: "d", ...members }));
  };
}

export const hang = async () => {};

/** Runs a test with a server: `use({ url, requests })`. */
export async function serving(answers, use) {
  const requests = [];
  const left = [...answers];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    requests.push({ method: request.method, url: request.url, headers: request.headers, body });
    response.on("error", () => undefined);
    const answer = left.shift();
    if (answer === undefined) return problem(599, { detail: "no answer is left" })(response);
    await answer(response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    return await use({ url: `http://127.0.0.1:${server.address().port}/api/v1/chat/stream`, requests });
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
