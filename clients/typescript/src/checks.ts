/** Checks of values from the network. A member of the wrong type is left out, so a state always has its types. */

export type Json = Record<string, unknown>;

export const isRecord = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const isIndex = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

export const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

type Check = (value: unknown) => unknown;

const when =
  (test: (value: unknown) => boolean): Check =>
  (value) =>
    test(value) ? value : undefined;
const list =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) ? value.map(check).filter((one) => one !== undefined) : undefined;
const index = when(isIndex);
const number = when(Number.isFinite);
const flag = when((value) => typeof value === "boolean");
const record = when(isRecord);
const members: Check = (value) => (isRecord(value) ? checked(value) : undefined);
const anything: Check = (value) => value;

/** Member -> check. A name has one type in the whole contract. */
const ROWS: [Check, string][] = [
  [textOf, "type title url file_id filename container_id container_mode tool_type tool_call_id tool_name name"],
  [textOf, "status query text revised_prompt format size quality background server_label arguments_text"],
  [textOf, "object_id mime_type response_text reasoning_summary_text refusal_text code message source path"],
  [textOf, "workflow_key workflow_run_id stage_name step_name step_agent parallel_group"],
  [index, "start_index end_index index branch_index input_tokens output_tokens total_tokens cached_input_tokens reasoning_output_tokens"],
  [number, "score"],
  [flag, "is_retryable"],
  [record, "arguments_json attributes"],
  [members, "usage"],
  [list(textOf), "sources queries"],
  [list(members), "results attachments"],
  [anything, "output structured_output"],
];
const MEMBERS = new Map(ROWS.flatMap(([check, names]) => names.split(" ").map((name) => [name, check])));

/** Returns the known members of a record that have the right type. */
export function checked(source: Json): Json {
  const found: Json = {};
  for (const name of Object.keys(source)) {
    const value = MEMBERS.get(name)?.(source[name]);
    if (value !== undefined) found[name] = value;
  }
  return found;
}
