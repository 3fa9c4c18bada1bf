// The conversation of this tab, for each runtime. An application with accounts stores it on its server.
import type { AssistantRuntime } from "@assistant-ui/react";
import type { UIMessage } from "ai";
import { useEffect } from "react";

const AI_SDK = "chat-ai-sdk";

/** Shows the messages of before a reload again, and keeps those that follow; returns the runtime. */
export function useKept(name: string, runtime: AssistantRuntime): AssistantRuntime {
  useEffect(() => {
    const { thread } = runtime;
    const saved = sessionStorage.getItem(`chat-${name}`);
    if (saved !== null && thread.getState().messages.length === 0) thread.import(JSON.parse(saved));
    return thread.subscribe(() => {
      if (!thread.getState().isRunning) sessionStorage.setItem(`chat-${name}`, JSON.stringify(thread.export()));
    });
  }, [runtime, name]);
  return runtime;
}

export const savedMessages = (): UIMessage[] => JSON.parse(sessionStorage.getItem(AI_SDK) ?? "[]");

export const saveMessages = (messages: UIMessage[]): void => sessionStorage.setItem(AI_SDK, JSON.stringify(messages));
