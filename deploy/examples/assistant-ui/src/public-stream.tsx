import { useExternalStoreRuntime, type AssistantRuntime } from "@assistant-ui/react";
import type { ToolItem } from "public-stream-client";
import { externalStore, type ThreadMessage } from "public-stream-client/assistant-ui";
import { useStream } from "public-stream-client/react";
import { useState } from "react";

/** The runtime of an external store: `public-stream-client` reads `public_sse_v1`, and this page keeps the messages. */
export function usePublicStreamRuntime(): AssistantRuntime {
  const [earlier, setEarlier] = useState<readonly ThreadMessage[]>([]);
  const stream = useStream({ url: "/api/v1/chat/stream" });

  function add(text: string): ThreadMessage[] {
    const shown = stream.state.streamId === undefined ? earlier : store.messages;
    const messages = [...shown, userMessage(text)];
    setEarlier(messages);
    return messages;
  }

  function decide({ id, name, responseId }: ToolItem, approve: boolean): void {
    add(`${approve ? "Approved" : "Declined"}: ${name}`);
    const decision = { type: "mcp_approval_response", approval_request_id: id, approve };
    stream.send({ input: [decision], previous_response_id: responseId });
  }

  const send = (text: string): void => stream.send({ input: add(text).flatMap(inputOf) });
  const store = externalStore(stream, earlier, send, decide);
  return useExternalStoreRuntime({ ...store, onImport: (messages) => setEarlier(messages as readonly ThreadMessage[]) });
}

const userMessage = (text: string): ThreadMessage => ({
  id: `question-${Date.now()}`,
  role: "user",
  content: [{ type: "text", text }],
});

/** Returns a message as an item of a request: its texts. An answer without text, such as a call, is left out. */
function inputOf({ role, content: parts }: ThreadMessage): object[] {
  const content = parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  return content === "" ? [] : [{ role, content }];
}
