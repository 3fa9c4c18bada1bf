/** The questions of a visit in `sessionStorage`, so that a reload shows them and their answers again. */

import { recall, remember } from "../src/storage.js";
import { isRecord, parsed } from "./wires.js";

const STORED = "projector-demo";
const TURNS_MAX = 10;

export type Body = ({ message: string } | { input: unknown[]; previous_response_id?: string }) & { agent?: string };

/** A question, and where its answer is. */
export interface Turn {
  body: Body;
  /** What the page shows as the question; nothing for another attempt. */
  question?: string | undefined;
  dialect: string;
  /** Address of the stream, once the server has accepted it. */
  location?: string;
  /** Whether it follows an answer that the server does not know any more. */
  isLate?: boolean;
}

export interface Visit {
  dialect: string;
  /** The agent of the chosen provider. */
  agent?: string;
  turns: Turn[];
}

/** Keeps the last answers that can be read again. */
export function keep({ turns, ...chosen }: Visit): void {
  const kept = turns.filter((turn) => turn.location !== undefined).slice(-TURNS_MAX);
  remember(STORED, JSON.stringify({ ...chosen, turns: kept }));
}

/** Returns what was kept, if it can be read. */
export function kept(): Visit | undefined {
  const visit = parsed(recall(STORED) ?? "");
  return isRecord(visit) && typeof visit.dialect === "string" && Array.isArray(visit.turns) ? (visit as unknown as Visit) : undefined;
}
