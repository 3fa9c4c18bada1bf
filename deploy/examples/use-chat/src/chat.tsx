import { useChat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from "ai";
import { useRef, useState, type FormEvent } from "react";
import { endingOf } from "./ending";
import { Part } from "./part";
import { request } from "./request";
import { forget, load, save } from "./saved";
import { TOOLS, runTool } from "./tools";

const AGENT = "/api/v1/ai-sdk/default";
const SUGGESTIONS = ["When does the reading room open?", "Which function tells when boats leave?", "Book two seats, with my approval"];

const transport = new DefaultChatTransport({
  fetch: request,
  api: `${AGENT}?level=7`, // the major version of `ai`
  body: { tools: TOOLS },
  prepareSendMessagesRequest: ({ id, messages, body, trigger, messageId }) => {
    save({ id, messages, isAnswering: true });
    return { body: { ...body, id, messages, trigger, messageId } };
  },
});

export function Chat() {
  const [saved] = useState(load);
  const [text, setText] = useState("");
  const list = useRef<HTMLOListElement>(null);
  const { messages, status, error, stop: close, setMessages, sendMessage, regenerate, addToolOutput, addToolApprovalResponse } = useChat({
    id: saved.id,
    messages: saved.messages,
    transport,
    resume: true, // reads a running answer again after a reload
    sendAutomaticallyWhen: (chat) =>
      lastAssistantMessageIsCompleteWithToolCalls(chat) || lastAssistantMessageIsCompleteWithApprovalResponses(chat),
    onToolCall: ({ toolCall: { toolName, toolCallId, input } }) => {
      const output = runTool(toolName, input);
      if (output !== undefined) void addToolOutput({ tool: toolName, toolCallId, output });
    },
    onFinish: ({ messages, isDisconnect }) => {
      if (!isDisconnect) save({ id: saved.id, messages, isAnswering: false });
    },
  });
  const isBusy = status === "submitted" || status === "streaming";
  // also if the answer to a decision was refused, or was lost in a reload
  const last = messages.at(-1);
  const isUnanswered = last?.role === "user" || lastAssistantMessageIsCompleteWithApprovalResponses({ messages });
  const isComplete = last === undefined || endingOf(last.metadata) === undefined;

  const send = (event: FormEvent) => {
    event.preventDefault();
    if (isBusy || text.trim() === "") return;
    void sendMessage({ text });
    setText("");
  };
  /** Ends an answer that the server cannot be asked to stop, as when the browser is offline. */
  const giveUp = async () => {
    await close();
    setMessages((all) => all.map((one) => (one.role === "assistant" && one === all.at(-1) ? { ...one, metadata: { status: "cancelled" } } : one)));
  };
  // Closing the connection would not stop the answer, because a reload must not. The stream then ends with `abort`.
  const stop = () => void fetch(`${AGENT}/${encodeURIComponent(saved.id)}/stop`, { method: "POST" }).then(({ ok }) => (ok ? undefined : giveUp()), giveUp);
  /** Moves the focus to the messages, before the button that has it goes. */
  const leave = () => list.current?.focus();
  const decide: typeof addToolApprovalResponse = (decision) => (leave(), addToolApprovalResponse(decision));
  const startOver = () => {
    forget();
    location.reload();
  };

  return (
    <main>
      <header>
        <h1>useChat</h1>
        <button onClick={startOver} disabled={isBusy}>New chat</button>
      </header>
      <ol ref={list} tabIndex={-1} aria-label="Conversation" aria-live="polite" aria-busy={isBusy}>
        {messages.map((message) => (
          <li key={message.id} className={message.role}>
            {message.parts.map((part, at) => (
              <Part key={at} part={part} onApproval={message === last ? decide : undefined} />
            ))}
            {(message !== last || error === undefined) && <i>{endingOf(message.metadata)}</i>}
          </li>
        ))}
      </ol>
      {error !== undefined && <p role="alert">{error.message}</p>}
      {!isBusy && (isUnanswered || !isComplete || error !== undefined) && <button onClick={() => (leave(), void regenerate())}>Ask again</button>}
      {messages.length === 0 && (
        <p>{SUGGESTIONS.map((one) => <button key={one} onClick={() => (leave(), void sendMessage({ text: one }))}>{one}</button>)}</p>
      )}
      <form onSubmit={send}>
        <input dir="auto" aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
        {isBusy ? <button type="button" onClick={stop}>Stop</button> : <button>Send</button>}
      </form>
    </main>
  );
}
