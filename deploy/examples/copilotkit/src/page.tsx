import { HttpAgent, type Message } from "@ag-ui/client";
import { CopilotChat, CopilotKitProvider, useAgent, useDefaultRenderTool, useFrontendTool, useInterrupt } from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import { useEffect, useState } from "react";
import { z } from "zod";
import { request } from "./request";

// The agent of the server, over AG-UI and without a runtime of CopilotKit between page and server.
const agents = { default: new HttpAgent({ url: "/api/v1/ag-ui/default", fetch: request }) };

// The conversation of this tab. An application with accounts stores it on its server.
const KEPT = "chat";
const EARLIER: Message[] = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");

const TIMETABLE = [
  { pier: "North", to: "Skarholm", at: "14:10" },
  { pier: "North", to: "Vik", at: "14:35" },
  { pier: "South", to: "Vik", at: "15:05" },
];

interface Call {
  name: string;
  given: unknown;
  result: string | undefined;
}

/** A call: its arguments, which a person has to see before an approval, and its result. */
const ToolCall = ({ name, given, result }: Call) => (
  <section aria-label={name}>
    <b>{name}</b> <i>{result === undefined ? "called" : "done"}</i>
    <pre>{typeof given === "string" ? given : JSON.stringify(given)}</pre>
    {result !== undefined && <pre>{result}</pre>}
  </section>
);

/** A function that this page runs for the model. The agent's `client_tools` lists those that it accepts. */
function PageTools() {
  useFrontendTool({
    name: "get_departures",
    description: "Returns the next boats from a pier.",
    parameters: z.object({ pier: z.string(), limit: z.number().int().optional() }),
    handler: async ({ pier, limit = TIMETABLE.length }) => ({
      departures: TIMETABLE.filter((boat) => boat.pier === pier).slice(0, limit),
    }),
    render: ({ name, args, result }) => <ToolCall name={name} given={args} result={result} />,
  });
  useDefaultRenderTool({ render: ({ name, parameters, result }) => <ToolCall name={name} given={parameters} result={result} /> });
  return null;
}

/** Asks for the approval of a call; the answer is sent with the next run. */
function Approvals() {
  useInterrupt({
    agentId: "default",
    render: ({ interrupt, resolve }) => (
      <section aria-label="Approval">
        <p>{interrupt?.message ?? "A tool needs your approval."}</p>
        <button type="button" onClick={() => resolve({ approved: true })}>Approve</button>{" "}
        <button type="button" onClick={() => resolve({ approved: false })}>Decline</button>
      </section>
    ),
  });
  return null;
}

/** Shows the messages of before a reload again, after the chat, which begins empty; and keeps those that follow. */
function Kept() {
  const { agent } = useAgent({ agentId: "default" });
  useEffect(() => {
    if (agent.messages.length === 0) agent.setMessages(EARLIER);
    const save = (): void => sessionStorage.setItem(KEPT, JSON.stringify(agent.messages));
    const { unsubscribe } = agent.subscribe({ onMessagesChanged: save });
    return unsubscribe;
  }, [agent]);
  return null;
}

/**
 * Says why a run failed, which the chat does not, until the next one. The client refuses to send anything while it waits
 * for a decision: one that failed, and one in whose place a person writes a message, is given up.
 */
function Failure() {
  const { agent } = useAgent({ agentId: "default" });
  const [text, setText] = useState("");
  useEffect(() => {
    const giveUp = (): void => void (agent.pendingInterrupts = []);
    const { unsubscribe } = agent.subscribe({
      onNewMessage: ({ message }) => (message.role === "user" ? giveUp() : undefined),
      onRunInitialized: () => setText(""),
      onRunFailed: ({ error }) => {
        giveUp();
        setText(error.message);
      },
      onRunErrorEvent: ({ event }) => setText(event.message),
    });
    return unsubscribe;
  }, [agent]);
  return text === "" ? null : <p role="alert">{text}</p>;
}

/** Buttons of the chat that have an icon and no name. */
const NAMED = { sendButton: { "aria-label": "Send" }, addMenuButton: { "aria-label": "Add" } };

export function Page() {
  return (
    <CopilotKitProvider selfManagedAgents={agents}>
      <PageTools />
      <Approvals />
      <main>
        <h1>CopilotKit</h1>
        <Failure />
        <CopilotChat agentId="default" input={NAMED} />
        <Kept />
      </main>
    </CopilotKitProvider>
  );
}
