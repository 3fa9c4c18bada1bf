// Reads streams with the client and prints one line of JSON for each: the states after some of its events.
//
//   node states.mjs < lines of {"name", "body": base64, "cuts": [bytes], "drops": [event IDs], "after": [counts]}
//
// The body arrives in pieces; the connection breaks behind each dropped event and is resumed from there.

import { createInterface } from "node:readline";
import { initialState, openStream, reduce } from "public-stream-client";
import { shown } from "./shown.mjs";

const headers = { "content-type": "text/event-stream", location: "/api/v1/streams/s" };

/** Returns a `fetch` that answers with the events behind `after`, in pieces, up to the next drop. */
function serving({ body, cuts, drops }) {
  const events = Buffer.from(body, "base64").toString().split(/(?<=\n\n)/);
  const left = [...drops];
  return async (url) => {
    const after = Number(/after=(\d+)/.exec(url)?.[1] ?? 0);
    const bytes = Buffer.from(events.slice(after, left.shift()).join(""));
    const edges = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
    const pieces = edges.slice(1).map((end, at) => bytes.subarray(edges[at], end));
    return new Response(new ReadableStream({ start: (to) => (pieces.forEach((piece) => to.enqueue(piece)), to.close()) }), { headers });
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line);
  const states = [];
  let state = initialState;
  let count = 0;
  try {
    const wait = async () => {};
    for await (const event of openStream({ url: "http://localhost/" }, { fetch: serving(given), wait })) {
      state = reduce(state, event);
      if (given.after.includes(++count)) states.push(shown(state));
    }
    console.log(JSON.stringify({ name: given.name, states, last: shown(state) }));
  } catch (error) {
    console.log(JSON.stringify({ name: given.name, error: `${error.stack}` }));
  }
}
