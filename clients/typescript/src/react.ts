/** The React hook. Works with React 18 and 19, in StrictMode, and when rendered on a server. */

import { useEffect, useState, useSyncExternalStore } from "react";
import { createStreamStore, initialSnapshot, type Snapshot, type StoreOptions, type StreamStore } from "./store.js";

export interface UseStream extends Snapshot, Pick<StreamStore, "send" | "retry" | "stop" | "resume"> {
  isRunning: boolean;
}

const RUNNING = new Set<Snapshot["connection"]>(["connecting", "open", "retrying"]);

/** Returns the state of a stream and functions to start and stop it. `options` are those of the first render. */
export function useStream(options: StoreOptions): UseStream {
  const [mounted] = useState(() => mount(createStreamStore(options)));
  const { store } = mounted;
  const snapshot = useSyncExternalStore(store.subscribe, store.getSnapshot, () => initialSnapshot);
  useEffect(() => mounted.enter(), [mounted]);
  const { send, retry, stop, resume } = store;
  return { ...snapshot, isRunning: RUNNING.has(snapshot.connection), send, retry, stop, resume };
}

/**
 * Closes the connection when the component is gone, but not when StrictMode mounts it a second time at once. A component
 * that was hidden by `Activity` comes back: it reads the stream again that its hiding interrupted.
 */
function mount(store: StreamStore): { store: StreamStore; enter: () => () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isInterrupted = false;
  return {
    store,
    enter() {
      clearTimeout(timer);
      if (isInterrupted || store.getSnapshot().connection === "idle") store.resume();
      isInterrupted = false;
      return () => {
        timer = setTimeout(() => {
          isInterrupted = RUNNING.has(store.getSnapshot().connection);
          store.close();
        });
      };
    },
  };
}
