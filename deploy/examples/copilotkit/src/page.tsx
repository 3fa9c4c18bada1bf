import { EventType, HttpAgent, type BaseEvent, type Interrupt, type Message, type RunAgentInput } from "@ag-ui/client";
import { CopilotChat, CopilotKitProvider, useAgent, useDefaultRenderTool, useFrontendTool, useInterrupt } from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import { useEffect, useState } from "react";
import { of, type Observable } from "rxjs";
import { z } from "zod";
import { request } from "./request";

// The conversation of this tab. An application with accounts stores it on its server.
const KEPT = "chat";
interface Chat {
  messages: Message[];
  /** The approvals that it waits for. */
  interrupts: Interrupt[];
}
const EARLIER: Chat = JSON.parse(sessionStorage.getItem(KEPT) ?? '{"messages":[],"interrupts":[]}');

/** The agent of the server, over AG-UI and without a runtime of CopilotKit between page and server. */
class Agent extends HttpAgent {
  /** Plays the conversation of before a reload as the events of a run, from which `useInterrupt` knows what waits. */
  protected override connect({ threadId, runId }: RunAgentInput): Observable<BaseEvent> {
    const { messages, interrupts } = EARLIER;
    const end = interrupts.length > 0 ? { outcome: { type: "interrupt", interrupts } } : {};
    return of(
      { type: EventType.RUN_STARTED, threadId, runId },
      { type: EventType.MESSAGES_SNAPSHOT, messages },
      { type: EventType.RUN_FINISHED, threadId, runId, ...end },
    );
  }
}
const agents = { default: new Agent({ url: "/api/v1/ag-ui/default", fetch: request }) };

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

/** What CopilotKit adds as the result of a call when a person has decided about it. */
const DECISIONS = new Map([['{"approved":true}', "approved"], ['{"approved":false}', "declined"]]);

/** A call: its arguments, which a person has to see before an approval, and its result. */
function ToolCall({ name, given, result = "" }: Call) {
  const decision = DECISIONS.get(result);
  return (
    <section role="group" aria-label={name}>
      <b>{name}</b> <i>{decision ?? (result === "" ? "called" : "done")}</i>
      <pre>{typeof given === "string" ? given : JSON.stringify(given)}</pre>
      {result !== "" && decision === undefined && <pre>{result}</pre>}
    </section>
  );
}

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

/** Moves the focus to the chat, before the button that has it goes. */
const leave = (): void => document.querySelector("main")!.focus();

/** Asks for the approval of a call; the answer is sent with the next run. */
function Approvals() {
  useInterrupt({
    agentId: "default",
    render: ({ interrupt, resolve }) => (
      <section aria-label="Approval">
        <p>{interrupt?.message ?? "A tool needs your approval."}</p>
        <button type="button" onClick={() => (leave(), resolve({ approved: true }))}>Approve</button>{" "}
        <button type="button" onClick={() => (leave(), resolve({ approved: false }))}>Decline</button>
      </section>
    ),
  });
  return null;
}

/** Shows the conversation of before a reload again, after the chat, which begins empty; and keeps what follows. */
function Kept() {
  const { agent } = useAgent({ agentId: "default" });
  useEffect(() => {
    if (agent.messages.length === 0 && EARLIER.messages.length > 0 && !agent.isRunning) void agent.connectAgent();
    const save = (): void => {
      const chat: Chat = { messages: agent.messages, interrupts: agent.pendingInterrupts };
      sessionStorage.setItem(KEPT, JSON.stringify(chat));
    };
    const { unsubscribe } = agent.subscribe({ onMessagesChanged: save, onRunFinalized: save });
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
      <main tabIndex={-1} aria-label="Conversation">
        <h1>CopilotKit</h1>
        <Failure />
        <CopilotChat agentId="default" input={NAMED} />
        <Kept />
      </main>
    </CopilotKitProvider>
  );
}
