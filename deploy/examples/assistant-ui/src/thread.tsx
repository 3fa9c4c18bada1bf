import {
  AuiIf,
  ComposerPrimitive,
  ErrorPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
  type ReasoningMessagePartProps,
  type SourceMessagePartProps,
  type TextMessagePartProps,
  type ToolCallMessagePartProps,
  useAuiState,
} from "@assistant-ui/react";
import type { MouseEvent, ReactNode } from "react";

const SUGGESTIONS = [
  "When does the reading room open?",
  "Which function tells when boats leave?",
  "Book two seats, with my approval",
];

const Text = ({ text }: TextMessagePartProps) => <p dir="auto">{text}</p>;

const Reasoning = ({ text }: ReasoningMessagePartProps) => <details dir="auto"><summary>Reasoning</summary>{text}</details>;

const Source = (part: SourceMessagePartProps) =>
  part.sourceType === "url" && <a href={part.url} rel="noreferrer" target="_blank">{part.title ?? part.url}</a>;

/** A call: its arguments while they are written, its result, and the decision that it may wait for. */
function ToolCall({ toolName, argsText, result, approval, respondToApproval }: ToolCallMessagePartProps) {
  const isAsked = approval !== undefined && approval.approved === undefined;
  const told = isAsked ? "asked for approval" : result !== undefined ? "done" : approval === undefined ? "running" : approval.approved ? "approved" : "declined";
  return (
    <section role="group" aria-label={toolName}>
      <b>{toolName}</b> <i>{told}</i>
      <pre>{argsText}</pre>
      {result !== undefined && <pre>{JSON.stringify(result)}</pre>}
      <AuiIf condition={({ message }) => isAsked && message.isLast}>
        <button type="button" onClick={(event) => (leave(event), respondToApproval({ approved: true }))}>Approve</button>{" "}
        <button type="button" onClick={(event) => (leave(event), respondToApproval({ approved: false }))}>Decline</button>
      </AuiIf>
    </section>
  );
}

const PARTS = { Text, Reasoning, Source, tools: { Fallback: ToolCall } };

const UserMessage = () => (
  <MessagePrimitive.Root className="message user">
    <MessagePrimitive.Parts components={PARTS} />
  </MessagePrimitive.Root>
);

const AssistantMessage = () => (
  <MessagePrimitive.Root className="message assistant">
    <MessagePrimitive.Parts components={PARTS} />
    <MessagePrimitive.Error>
      <p role="alert">The answer failed. <ErrorPrimitive.Message /></p>
    </MessagePrimitive.Error>
  </MessagePrimitive.Root>
);

/** Moves the focus to the messages, before the button that has it goes. */
const leave = ({ currentTarget }: MouseEvent): void => currentTarget.closest<HTMLElement>("[role=log]")?.focus();

/** The messages: read aloud when an answer is complete, and not word by word. */
function Messages({ children }: { children: ReactNode }) {
  const isRunning = useAuiState(({ thread }) => thread.isRunning);
  return <ThreadPrimitive.Viewport role="log" aria-label="Conversation" aria-busy={isRunning} tabIndex={0}>{children}</ThreadPrimitive.Viewport>;
}

export const Thread = () => (
  <ThreadPrimitive.Root>
    <Messages>
      <ThreadPrimitive.Empty>
        {SUGGESTIONS.map((one) => (
          <ThreadPrimitive.Suggestion key={one} prompt={one} send onClick={leave}>
            {one}
          </ThreadPrimitive.Suggestion>
        ))}
      </ThreadPrimitive.Empty>
      <ThreadPrimitive.Messages components={{ UserMessage, AssistantMessage }} />
    </Messages>
    <ComposerPrimitive.Root>
      <ComposerPrimitive.Input dir="auto" aria-label="Message" rows={1} />
      <AuiIf condition={({ thread }) => thread.isRunning}>
        <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
      </AuiIf>
      <AuiIf condition={({ thread }) => !thread.isRunning}>
        <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
      </AuiIf>
    </ComposerPrimitive.Root>
  </ThreadPrimitive.Root>
);
