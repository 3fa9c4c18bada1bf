import { AssistantRuntimeProvider, useAssistantTool, type AssistantRuntime } from "@assistant-ui/react";
import { AssistantChatTransport, useChatRuntime } from "@assistant-ui/react-ai-sdk";
import { useDataStreamRuntime } from "@assistant-ui/react-data-stream";
import { lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from "ai";
import { useState } from "react";
import { savedMessages, saveMessages, useKept } from "./kept";
import { usePublicStreamRuntime } from "./public-stream";
import { request } from "./request";
import { Thread } from "./thread";
import { GET_DEPARTURES } from "./tools";

const AGENT = "/api/v1/ai-sdk/default";
const transport = new AssistantChatTransport({ api: `${AGENT}?level=7`, fetch: request }); // the major version of `ai`

const isToBeContinued: typeof lastAssistantMessageIsCompleteWithToolCalls = (chat) =>
  lastAssistantMessageIsCompleteWithToolCalls(chat) || lastAssistantMessageIsCompleteWithApprovalResponses(chat);

/** The runtime of the AI SDK: `useChat` below the components of assistant-ui. */
function WithAiSdk() {
  const [messages] = useState(savedMessages); // of `useChat`: the runtime cannot import them
  const runtime = useChatRuntime({ transport, messages, sendAutomaticallyWhen: isToBeContinued, onFinish: ({ messages }) => saveMessages(messages) });
  return <Chat runtime={runtime} />;
}

/** assistant-ui's own runtime, which reads the same stream without the AI SDK. Each answer counts as two steps. */
function WithDataStream() {
  return <Chat runtime={useKept("data-stream", useDataStreamRuntime({ api: AGENT, maxSteps: 20 }))} />;
}

/** The server's own events, with the reducer of `public-stream-client`. */
function WithPublicStream() {
  return <Chat runtime={useKept("public-stream", usePublicStreamRuntime())} />;
}

function Chat({ runtime }: { runtime: AssistantRuntime }) {
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <PageTools />
      <Thread />
    </AssistantRuntimeProvider>
  );
}

/** Registers the functions that this page runs for the model. */
function PageTools() {
  useAssistantTool(GET_DEPARTURES);
  return null;
}

const RUNTIMES = {
  "ai-sdk": { title: "AI SDK", Runtime: WithAiSdk },
  "data-stream": { title: "Data stream", Runtime: WithDataStream },
  "public-stream": { title: "Public stream", Runtime: WithPublicStream },
};

export function Page() {
  const asked = new URLSearchParams(location.search).get("runtime") ?? "";
  const name = asked in RUNTIMES ? (asked as keyof typeof RUNTIMES) : "ai-sdk";
  const { Runtime } = RUNTIMES[name];
  return (
    <main>
      <header>
        <h1>assistant-ui</h1>
        <nav aria-label="Runtimes">
          {Object.entries(RUNTIMES).map(([one, { title }]) => (
            <a key={one} href={`?runtime=${one}`} aria-current={one === name ? "page" : undefined}>{title}</a>
          ))}
        </nav>
      </header>
      <Runtime />
    </main>
  );
}
