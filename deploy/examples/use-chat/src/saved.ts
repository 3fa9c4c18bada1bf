// The conversation of this browser. An application with accounts stores it on its server.
import type { UIMessage } from "ai";

type Saved = { id: string; messages: UIMessage[]; isAnswering: boolean };

const KEY = "chat";

export const save = (chat: Saved) => localStorage.setItem(KEY, JSON.stringify(chat));

export const forget = () => localStorage.removeItem(KEY);

export function load(): Saved {
  const text = localStorage.getItem(KEY);
  if (text === null) return { id: crypto.randomUUID(), messages: [], isAnswering: false };
  const chat: Saved = JSON.parse(text);
  const last = chat.messages.at(-1);
  // A resumed answer replaces the message with its ID. One that continues a message, after the result of a tool,
  // has the ID of that message but not its earlier parts: under another ID they stay.
  if (chat.isAnswering && last?.role === "assistant") last.id += "-earlier";
  return chat;
}
