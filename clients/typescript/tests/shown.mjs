import { approvals, imageUrl, responseText, segments, toolStatus } from "public-stream-client";

/** Returns a state with what a page derives from it. */
export function shown(state) {
  const items = state.items.map((item) => ({
    ...item,
    shownImage: imageUrl(item),
    ...(item.kind === "tool" && { shownStatus: toolStatus(item, state) }),
    ...(item.kind === "message" && { shownParts: item.parts.map(segments) }),
  }));
  return { ...state, items, responseText: responseText(state), approvals: approvals(state).map((item) => item.id) };
}
