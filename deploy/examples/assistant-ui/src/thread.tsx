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
} from "@assistant-ui/react";

const SUGGESTIONS = [
  "When does the reading room open?",
  "Which function tells when boats leave?",
  "Book two seats, with my approval",
];

const Text = ({ text }: TextMessagePartProps) => <p>{text}</p>;

const Reasoning = ({ text }: ReasoningMessagePartProps) => <details><summary>Reasoning</summary>{text}</details>;

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
        <button type="button" onClick={() => respondToApproval({ approved: true })}>Approve</button>{" "}
        <button type="button" onClick={() => respondToApproval({ approved: false })}>Decline</button>
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

export const Thread = () => (
  <ThreadPrimitive.Root>
    <ThreadPrimitive.Viewport>
      <ThreadPrimitive.Empty>
        {SUGGESTIONS.map((one) => (
          <ThreadPrimitive.Suggestion key={one} prompt={one} send>
            {one}
          </ThreadPrimitive.Suggestion>
        ))}
      </ThreadPrimitive.Empty>
      <ThreadPrimitive.Messages components={{ UserMessage, AssistantMessage }} />
    </ThreadPrimitive.Viewport>
    <ComposerPrimitive.Root>
      <ComposerPrimitive.Input aria-label="Message" rows={1} />
      <AuiIf condition={({ thread }) => thread.isRunning}>
        <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
      </AuiIf>
      <AuiIf condition={({ thread }) => !thread.isRunning}>
        <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
      </AuiIf>
    </ComposerPrimitive.Root>
  </ThreadPrimitive.Root>
);
