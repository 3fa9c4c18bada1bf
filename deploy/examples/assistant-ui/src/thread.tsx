import {
  AuiIf,
  ComposerPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
  type ReasoningMessagePartProps,
  type SourceMessagePartProps,
  type TextMessagePartProps,
  type ToolCallMessagePartProps,
} from "@assistant-ui/react";

const SUGGESTIONS = ["When does the reading room open?", "Which function tells when boats leave?"];

const Text = ({ text }: TextMessagePartProps) => <p>{text}</p>;

const Reasoning = ({ text }: ReasoningMessagePartProps) => <details><summary>Reasoning</summary>{text}</details>;

const Source = (part: SourceMessagePartProps) =>
  part.sourceType === "url" && <a href={part.url} rel="noreferrer" target="_blank">{part.title ?? part.url}</a>;

const ToolCall = ({ toolName, argsText, result }: ToolCallMessagePartProps) => (
  <section aria-label={toolName}>
    <b>{toolName}</b> <i>{result === undefined ? "running" : "done"}</i>
    <pre>{argsText}</pre>
    {result !== undefined && <pre>{JSON.stringify(result)}</pre>}
  </section>
);

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
      <p role="alert">The answer failed.</p>
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
