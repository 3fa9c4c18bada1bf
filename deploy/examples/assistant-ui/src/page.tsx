import { AssistantRuntimeProvider, useAssistantTool, type AssistantRuntime } from "@assistant-ui/react";
import { AssistantChatTransport, useChatRuntime } from "@assistant-ui/react-ai-sdk";
import { useDataStreamRuntime } from "@assistant-ui/react-data-stream";
import { lastAssistantMessageIsCompleteWithToolCalls } from "ai";
import { Thread } from "./thread";
import { GET_DEPARTURES } from "./tools";

const AGENT = "/api/v1/ai-sdk/default";
const transport = new AssistantChatTransport({ api: `${AGENT}?level=7` }); // the major version of `ai`

/** The runtime of the AI SDK: `useChat` below the components of assistant-ui. */
function WithAiSdk() {
  return <Chat runtime={useChatRuntime({ transport, sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls })} />;
}

/** assistant-ui's own runtime, which reads the same stream without the AI SDK. Each answer counts as two steps. */
function WithDataStream() {
  return <Chat runtime={useDataStreamRuntime({ api: AGENT, maxSteps: 20 })} />;
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

export function Page() {
  const isDataStream = new URLSearchParams(location.search).get("runtime") === "data-stream";
  return (
    <main>
      <header>
        <h1>assistant-ui</h1>
        {isDataStream ? <a href="./">With the AI SDK</a> : <a href="?runtime=data-stream">With the data stream runtime</a>}
      </header>
      {isDataStream ? <WithDataStream /> : <WithAiSdk />}
    </main>
  );
}
