// Applies streams of any JSON to the reducer and to everything that reads its states; fails if one throws.
//
//   node reduce-hostile.mjs < lines of JSON lists of events

import { createInterface } from "node:readline";
import { initialState, reduce, withheld } from "public-stream-client";
import { toUIMessageStream } from "public-stream-client/ai-sdk";
import { toThreadMessage } from "public-stream-client/assistant-ui";
import { shown } from "./shown.mjs";

const prototype = Object.getOwnPropertyNames(Object.prototype).length;
let events = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const stream = JSON.parse(line);
  let state = initialState;
  for (const event of stream) {
    const before = JSON.stringify(state);
    const next = reduce(state, event);
    if (JSON.stringify(state) !== before) throw new Error("the reducer changed its input");
    if (next.lastEventId < state.lastEventId) throw new Error("the position went back");
    state = next;
    events += 1;
  }
  shown(state);
  withheld(state);
  toThreadMessage(state);
  for await (const chunk of toUIMessageStream((async function* () { yield* stream; })())) JSON.stringify(chunk);
}
if (Object.getOwnPropertyNames(Object.prototype).length !== prototype) throw new Error("a prototype was changed");
console.log(JSON.stringify({ events }));
