// Functions that this page runs for the model. The agent's `client_tools` lists those that it accepts.

export const TOOLS = {
  get_departures: {
    description: "Returns the next boats from a pier.",
    parameters: {
      type: "object",
      properties: { pier: { type: "string" }, limit: { type: "integer" } },
      required: ["pier"],
    },
  },
};

const TIMETABLE = [
  { pier: "North", to: "Skarholm", at: "14:10" },
  { pier: "North", to: "Vik", at: "14:35" },
  { pier: "South", to: "Vik", at: "15:05" },
];

/** Returns the output of a function; undefined for a tool that is not the page's. */
export function runTool(name: string, input: unknown): unknown {
  if (name !== "get_departures") return undefined;
  const { pier, limit = TIMETABLE.length } = input as { pier: string; limit?: number };
  return { departures: TIMETABLE.filter((boat) => boat.pier === pier).slice(0, limit) };
}
