// Functions that this page runs for the model. The agent's `client_tools` lists those that it accepts.
import type { AssistantToolProps } from "@assistant-ui/react";

type Wanted = { pier: string; limit?: number };

const TIMETABLE = [
  { pier: "North", to: "Skarholm", at: "14:10" },
  { pier: "North", to: "Vik", at: "14:35" },
  { pier: "South", to: "Vik", at: "15:05" },
];

export const GET_DEPARTURES: AssistantToolProps<Wanted, unknown> = {
  toolName: "get_departures",
  description: "Returns the next boats from a pier.",
  parameters: {
    type: "object",
    properties: { pier: { type: "string" }, limit: { type: "integer" } },
    required: ["pier"],
  },
  execute: ({ pier, limit = TIMETABLE.length }) => ({
    departures: TIMETABLE.filter((boat) => boat.pier === pier).slice(0, limit),
  }),
};
