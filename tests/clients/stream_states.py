"""What a page shows of a public stream, computed from all events at once: the oracle of the TypeScript reducer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final

Event = dict[str, Any]

PLACE: Final = ("stage_name", "step_name", "parallel_group", "branch_index")
FIELDS: Final = {"partial_image_b64": "partial", "image_b64": "final"}
ENDED_CALLS: Final = {"completed", "failed"}


def state_of(events: list[Event]) -> dict[str, Any]:
    """Return the state after valid events."""
    end = next((event for event in events if event["kind"] in {"final", "error"}), None)
    said = [event for event in events if event is not end]
    ids = list(dict.fromkeys(event["item_id"] for event in said if "item_id" in event))
    items = [item_of([event for event in said if event.get("item_id") == item_id], said) for item_id in ids]
    state: dict[str, Any] = {
        "lastEventId": events[-1]["event_id"] if events else 0,
        "status": status_of(said, end),
        "items": sorted(items, key=lambda item: item["outputIndex"]),
        "branches": branches_of(said),
        "notices": [notice_of(event, notice) for event in events for notice in event.get("notices", [])],
        **newest(events, streamId="stream_id", conversationId="conversation_id"),
        **newest([event for event in said if event["kind"] == "lifecycle"], reason="reason"),
    }
    if end is not None:
        state["end"] = {"kind": end["kind"], end["kind"]: end[end["kind"]]}
    for item in state["items"]:
        add_shown(item, state)
    state["approvals"] = [item["id"] for item in state["items"] if item.get("approval") == "pending"]
    state["responseText"] = text_of(state)
    return state


def newest(events: Iterable[Event], **members: str) -> dict[str, Any]:
    """Return the last value of each member that an event has."""
    return {ours: event[name] for event in events for ours, name in members.items() if event.get(name) is not None}


def status_of(said: list[Event], end: Event | None) -> str:
    if end is not None:
        return str(end.get("final", {"status": "failed"})["status"])
    if not said:
        return "idle"
    statuses = [event["status"] for event in said if event["kind"] == "lifecycle"]
    has_items = any("item_id" in event for event in said)
    return "queued" if statuses[-1:] == ["queued"] and not has_items else "in_progress"


def notice_of(event: Event, notice: dict[str, str]) -> dict[str, Any]:
    return {**notice, "eventId": event["event_id"], "kind": event["kind"], **newest([event], itemId="item_id")}


def key_of(event: Event) -> str:
    workflow = event.get("workflow")
    if workflow is None:
        return ""
    return json.dumps([workflow.get(name) for name in PLACE], separators=(",", ":"), ensure_ascii=False)


def branches_of(said: list[Event]) -> list[dict[str, Any]]:
    found = []
    for key in dict.fromkeys(map(key_of, said)):
        events = [event for event in said if key_of(event) == key]
        branch = {"key": key, "status": "in_progress", **newest(events[:1], workflow="workflow")}
        branch |= newest(events, agent="agent", responseId="response_id")
        branch |= newest([event for event in events if event["kind"] == "lifecycle"], status="status", reason="reason")
        found.append(branch)
    return found


def item_of(events: list[Event], said: list[Event]) -> dict[str, Any]:
    first = events[0]
    marks = [event for event in events if event["kind"].startswith("output_item.")]
    last = marks[-1] if marks else {}
    is_done = last.get("kind") == "output_item.done"
    kind = next(filter(None, map(kind_of, events)), "other")
    return {
        "kind": kind,
        "id": first["item_id"],
        "outputIndex": first["output_index"],
        "itemType": last.get("item_type", ""),
        "status": last.get("status", "completed" if is_done else "in_progress"),
        "isDone": is_done,
        "branch": key_of(first),
        "images": images_of(events),
        **newest(marks, role="role"),
        **newest([first], agent="agent", responseId="response_id"),
        **KINDS[kind](events, said),
    }


def kind_of(event: Event) -> str | None:
    """Return the kind of item that an event belongs to; None if the event does not show it."""
    family = event["kind"].partition(".")[0]
    if family == "output_item":
        return {"message": "message", "reasoning": "reasoning"}.get(event["item_type"])
    return {"message": "message", "refusal": "message", "reasoning_summary": "reasoning", "tool": "tool"}.get(family)


def message(events: list[Event], _said: list[Event]) -> dict[str, Any]:
    indexes = sorted({event["content_index"] for event in events if "content_index" in event})
    return {"parts": [part_of(index, [e for e in events if e.get("content_index") == index]) for index in indexes]}


def part_of(index: int, events: list[Event]) -> dict[str, Any]:
    refusals = [event["refusal_text"] for event in events if event["kind"] == "refusal.done"]
    return {
        "index": index,
        "text": joined(events, "message.delta"),
        "refusal": refusals[-1] if refusals else joined(events, "refusal.delta"),
        "citations": [event["citation"] for event in events if event["kind"] == "message.citation"],
    }


def joined(events: Iterable[Event], kind: str) -> str:
    return "".join(event["delta"] for event in events if event["kind"] == kind)


def reasoning(events: list[Event], _said: list[Event]) -> dict[str, Any]:
    indexes = sorted({event["summary_index"] for event in events if "summary_index" in event})
    parts = {index: [event for event in events if event.get("summary_index") == index] for index in indexes}
    return {"parts": [{"index": n, "text": joined(of, "reasoning_summary.delta")} for n, of in parts.items()]}


def tool(events: list[Event], said: list[Event]) -> dict[str, Any]:
    calls = [event.get("tool", event) for event in events if event["kind"].startswith("tool.")]
    typed = [call["tool_type"] for call in calls if "tool_type" in call]
    names = [call.get("name", call.get("tool_name")) for call in calls]
    statuses = [event for event in events if event["kind"] == "tool.status"]
    found: dict[str, Any] = {
        "toolType": typed[-1] if typed else "code_interpreter",
        "toolCallId": calls[0]["tool_call_id"],
        "name": next((name for name in reversed(names) if name is not None), typed[-1] if typed else ""),
        "argumentsText": grown(events, "tool.arguments", "arguments_text"),
        "code": grown(events, "tool.code", "code"),
        "outputs": [event["output"] for event in events if event["kind"] == "tool.output"],
        **newest(statuses, tool="tool"),
        **newest(calls, argumentsJson="arguments_json"),
    }
    if any(event["kind"] == "tool.arguments.done" for event in events):
        found["hasArguments"] = True
    asked = [event for event in statuses if event["tool"]["status"] == "awaiting_approval"]
    if asked:
        same = [event for event in said if key_of(event) == key_of(events[0])]
        later = [event for event in same if event["event_id"] > asked[0]["event_id"]]
        answers = [b for a, b in pairwise([asked[0], *later]) if changed(a, b)]
        found["approval"] = "answered" if answers else "pending"
    return found


def changed(before: Event, after: Event) -> bool:
    return "response_id" in after and after["response_id"] != before.get("response_id", after["response_id"])


def grown(events: list[Event], family: str, member: str) -> str:
    whole = [event.get("tool", event) for event in events if event["kind"] in {f"{family}.done", "tool.status"}]
    texts = [call[member] for call in whole if member in call]
    return texts[-1] if texts else joined(events, f"{family}.delta")


KINDS: Final[dict[str, Callable[[list[Event], list[Event]], dict[str, Any]]]] = {
    "message": message,
    "reasoning": reasoning,
    "tool": tool,
    "other": lambda _events, _said: {},
}


def images_of(events: list[Event]) -> list[dict[str, Any]]:
    images: dict[tuple[str, int], list[Event]] = {}
    for event in events:
        if event["kind"].startswith("chunk."):
            images.setdefault((event["target"]["field"], event["target"].get("part_index", 0)), []).append(event)
    return [image_of(key, chunks) for key, chunks in images.items()]


def image_of(key: tuple[str, int], chunks: list[Event]) -> dict[str, Any]:
    texts = [event["data"] for event in chunks if event["kind"] == "chunk.delta"]
    ends = [event for event in chunks if event["kind"] == "chunk.done"]
    cut = [notice for event in ends for notice in event.get("notices", []) if notice["type"] == "truncated"]
    flags = {"isComplete": bool(ends), "isTruncated": bool(cut)}
    return {"field": FIELDS[key[0]], "partIndex": key[1], "data": "".join(texts), "chunks": len(texts), **flags}


# what a page derives from a state


def add_shown(item: dict[str, Any], state: dict[str, Any]) -> None:
    """Add what the scripts of the client add to an item."""
    whole = [image for image in item["images"] if image["isComplete"] and image["data"] and not image["isTruncated"]]
    final = [image for image in whole if image["field"] == "final"]
    if whole:
        data = (final[0] if final else whole[-1])["data"]
        item["shownImage"] = f"data:image/{item.get('tool', {}).get('format', 'png')};base64,{data}"
    if item["kind"] == "tool":
        item["shownStatus"] = call_status(item, state)
    if item["kind"] == "message":
        item["shownParts"] = [segments(part["text"], part["citations"]) for part in item["parts"]]


def is_cut_argument(notice: dict[str, Any]) -> bool:
    return notice["type"] == "truncated" and notice["path"] in {"arguments_text", "tool.arguments_text"}


def call_status(item: dict[str, Any], state: dict[str, Any]) -> str:
    said = item.get("tool", {}).get("status")
    cut = {notice.get("itemId") for notice in state["notices"] if is_cut_argument(notice)}
    rows = (
        (item.get("approval") == "pending", "awaiting_approval"),
        (item.get("approval") == "answered", "completed"),
        (said in ENDED_CALLS, said),
        (item["status"] in {"failed", "incomplete"}, "failed"),
        ("end" not in state, "running"),
        (item["id"] in cut, "failed"),
        (item["toolType"] == "function" and item["isDone"] and state["status"] == "completed", "waiting"),
        (True, "failed"),
    )
    return next(status for is_it, status in rows if is_it)


def segments(text: str, citations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a text in pieces with the citations of each, by looking at every place."""
    spans = [span_of(citation, len(text)) for citation in citations]
    edges = sorted({0, len(text), *(place for span in spans for place in span)})
    found = []
    for at, start in enumerate(edges):
        points = [one for one, span in zip(citations, spans, strict=True) if span == (start, start)]
        if points:
            found.append({"text": "", "citations": points})
        for end in edges[at + 1 : at + 2]:
            over = [one for one, (a, b) in zip(citations, spans, strict=True) if a <= start and end <= b]
            found.append({"text": text[start:end], "citations": over})
    return found


def span_of(citation: dict[str, Any], length: int) -> tuple[int, int]:
    place = citation.get("index")
    end = citation.get("end_index", place)
    start = citation.get("start_index", place)
    end = length if end is None else min(end, length)
    return (end if start is None else min(start, end), end)


def text_of(state: dict[str, Any]) -> str:
    said = state.get("end", {}).get("final", {}).get("response_text")
    if said is not None:
        return str(said)
    texts = ["".join(p["text"] for p in item["parts"]) for item in state["items"] if item["kind"] == "message"]
    return "\n\n".join(filter(None, texts))
