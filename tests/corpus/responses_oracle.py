"""A second, simple reading of Responses streams, which shares no code with the handlers.

There are three readings of a run: from its deltas, from its finished items and snapshots, and from the public stream.
If the provider is consistent, all three are equal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Event: TypeAlias = Mapping[str, Any]

ENDS: Final = {"response.completed", "response.incomplete", "response.failed", "error"}

INPUTS: Final = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "mcp_call": "arguments",
    "mcp_approval_request": "arguments",
    "code_interpreter_call": "code",
}
"""Item type -> the member with the input of the tool."""

STREAMED: Final = {
    "response.output_text.delta": ("text", "content_index", "delta"),
    "response.refusal.delta": ("refusal", "content_index", "delta"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index", "delta"),
    "response.function_call_arguments.delta": ("input", "", "delta"),
    "response.custom_tool_call_input.delta": ("input", "", "delta"),
    "response.mcp_call_arguments.delta": ("input", "", "delta"),
    "response.code_interpreter_call_code.delta": ("input", "", "delta"),
}
"""Event type -> field of an item, the member with its position, the member with its text."""

WHOLE: Final = {
    "response.output_text.done": ("text", "content_index", "text"),
    "response.refusal.done": ("refusal", "content_index", "refusal"),
    "response.reasoning_summary_text.done": ("summary", "summary_index", "text"),
    "response.function_call_arguments.done": ("input", "", "arguments"),
    "response.custom_tool_call_input.done": ("input", "", "input"),
    "response.mcp_call_arguments.done": ("input", "", "arguments"),
    "response.code_interpreter_call_code.done": ("input", "", "code"),
}

SHOWN: Final = {
    "message.delta": ("text", "content_index", "delta"),
    "refusal.done": ("refusal", "content_index", "refusal_text"),
    "reasoning_summary.delta": ("summary", "summary_index", "delta"),
    "tool.arguments.done": ("input", "", "arguments_text"),
    "tool.code.done": ("input", "", "code"),
}
"""The same for public kinds."""

USAGE: Final = {
    "input_tokens": ("input_tokens", ""),
    "output_tokens": ("output_tokens", ""),
    "total_tokens": ("total_tokens", ""),
    "cached_input_tokens": ("input_tokens_details", "cached_tokens"),
    "reasoning_output_tokens": ("output_tokens_details", "reasoning_tokens"),
}


class Reading(NamedTuple):
    """Expected content of a page for a run."""

    terminal: str
    """`completed`, `incomplete`, `failed`, `refused`, or `error` and its code."""
    text: str
    refusal: str
    summary: str
    items: list[str]
    """The item types in their order."""
    inputs: list[str]
    """Input of each tool call, in the order of the calls."""
    citations: list[str]
    """Citations of messages, by URL or file id."""
    usage: dict[str, int]


class _Item:
    """One output item as it grows."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.streamed: dict[str, dict[int, str]] = {name: defaultdict(str) for name in ("text", "refusal", "summary")}
        self.streamed["input"] = defaultdict(str)
        self.citations: dict[tuple[object, str], None] = {}
        """Position and source of each citation."""
        self.finished: Event = {}


def responses(events: list[Event]) -> Iterator[list[Event]]:
    """Cut the events of a run into responses, each up to its end."""
    begun: list[Event] = []
    for event in events:
        begun.append(event)
        if event["type"] in ENDS:
            yield begun
            begun = []
    if begun:
        yield begun


def streamed(events: list[Event]) -> Reading:
    """Read deltas; content without deltas is read from its `done` event or finished item."""
    return _of_run([_response(response, [*_items(response).values()]) for response in responses(events)])


def finished(events: list[Event]) -> Reading:
    """Read the snapshots only; items that a snapshot omits are read from their own end."""
    read = []
    for response in responses(events):
        own = [item for item in _items(response).values() if item.finished]
        snapshot = [_finished_item(raw) for raw in _end(response).get("output") or []]
        read.append(_response(response, snapshot or own))
    return _of_run(read)


def public(frames: list[Event]) -> Reading:
    """Read the public stream by its own rules: positions, deltas, `done` events and the terminal."""
    items: dict[int, _Item] = {}
    for frame in frames:
        slot, tool = frame.get("output_index"), frame.get("tool") or {}
        if frame["kind"] == "output_item.added":
            items[frame["output_index"]] = _Item(frame["item_type"])
        if slot is not None and frame["kind"] in SHOWN:
            field, position, member = SHOWN[frame["kind"]]
            items[slot].streamed[field][frame.get(position, 0)] += frame[member]
        if slot is not None and "arguments_text" in tool:
            items[slot].streamed["input"][0] = tool["arguments_text"]
        if slot is not None and frame["kind"] == "message.citation":
            items[slot].citations[_place_of(frame["citation"])] = None
    error, final = frames[-1].get("error") or {}, frames[-1].get("final") or {}
    terminal = f"error {error['code']}" if error else final["status"]
    return _reading(terminal, [items[slot] for slot in sorted(items)], final.get("usage", {}))


def said_at_end(frames: list[Event]) -> tuple[str, str, str]:
    """Return text, refusal and summary of `final`."""
    final = frames[-1].get("final", {})
    return (
        final.get("response_text", ""),
        final.get("refusal_text", ""),
        final.get("reasoning_summary_text", ""),
    )


def private_texts(events: list[Event]) -> Iterator[str]:
    """Yield texts that must never be sent: instructions, tool configuration, full and encrypted reasoning."""
    for event in events:
        response = event.get("response") or {}
        yield from strings([response.get(name) for name in ("instructions", "tools", "tool_choice", "metadata")])
        if event["type"].startswith(("response.reasoning_text.", "response.reasoning_part.")):
            yield from strings([event.get(name) for name in ("delta", "text", "part")])
        for item in [event.get("item") or {}, *(response.get("output") or [])]:
            yield from strings(item.get("encrypted_content"))
            if item.get("type") == "reasoning":
                yield from strings(item.get("content"))
            if item.get("type") in {"mcp_list_tools", "tool_search_output", "additional_tools"}:
                yield from strings(item.get("tools"))


def public_words(events: list[Event], reading: Reading) -> Iterator[str]:
    """Yield public texts that may also occur in private ones: message texts, and names of called tools."""
    yield from (reading.text, reading.refusal, reading.summary, *reading.inputs)
    for event in events:
        item = event.get("item") or {}
        yield from strings([item.get(name) for name in ("name", "server_label")])


def _items(response: list[Event]) -> dict[int, _Item]:
    """Follow the items of one response by `output_index`."""
    items: dict[int, _Item] = {}
    for event in response:
        index, raw = event.get("output_index", 0), event.get("item") or {}
        if event["type"] == "response.output_item.added":
            items[index] = _Item(raw["type"])
        if event["type"] == "response.output_item.done":
            items.setdefault(index, _Item(raw["type"])).finished = raw
        if event["type"] in STREAMED:
            field, position, member = STREAMED[event["type"]]
            items[index].streamed[field][event.get(position, 0)] += event[member]
        if event["type"] in WHOLE:
            field, position, member = WHOLE[event["type"]]
            parts, at = items[index].streamed[field], event.get(position, 0)
            parts[at] = parts[at] or event[member]
        if event["type"] == "response.output_text.annotation.added":
            items[index].citations[_place_of(event["annotation"])] = None
    for item in items.values():
        _fill(item, _finished_item(item.finished))
    return dict(sorted(items.items()))


def _fill(item: _Item, end: _Item) -> None:
    """Fill in whole fields of the finished item that no event contained; positions may differ."""
    for field, parts in end.streamed.items():
        if not any(item.streamed[field].values()):
            item.streamed[field] = parts
    item.citations.update(end.citations)


def _finished_item(raw: Event) -> _Item:
    item = _Item(raw.get("type", ""))
    item.finished = raw
    for position, part in enumerate(raw.get("content") or []):
        if part.get("type") == "output_text":
            item.streamed["text"][position] = part["text"]
            item.citations.update({_place_of(annotation): None for annotation in part.get("annotations") or []})
        if part.get("type") == "refusal":
            item.streamed["refusal"][position] = part["refusal"]
    for position, part in enumerate(raw.get("summary") or []):
        item.streamed["summary"][position] = part["text"]
    if (given := raw.get(INPUTS.get(item.kind, ""))) is not None:
        item.streamed["input"][0] = given
    return item


def _end(response: list[Event]) -> Event:
    return response[-1].get("response") or {}


def _response(events: list[Event], items: list[_Item]) -> Reading:
    return _reading(_terminal(events), items, _usage(_end(events).get("usage") or {}))


def _reading(terminal: str, items: list[_Item], usage: dict[str, int]) -> Reading:
    return Reading(
        terminal,
        _joined(items, "text", ""),
        _joined(items, "refusal", "\n\n"),
        _joined(items, "summary", "\n\n"),
        [item.kind for item in items],
        [text for item in items for text in item.streamed["input"].values()],
        [cited for item in items for _, cited in item.citations],
        usage,
    )


def _terminal(events: list[Event]) -> str:
    end = events[-1]
    if end["type"] == "error":
        return f"error {(end.get('error') or end).get('code')}"
    return _end(events).get("status", "") if end["type"] in ENDS else "error upstream_truncated"


def _of_run(read: list[Reading]) -> Reading:
    """Join the readings of the responses: each text of the last response that has it, everything else in order."""
    texts = [[r for r in read if getattr(r, name)][-1:] for name in ("text", "refusal", "summary")]
    text, refusal, summary = (
        getattr(r[0], name) if r else "" for r, name in zip(texts, ("text", "refusal", "summary"), strict=True)
    )
    last = read[-1]
    return Reading(
        "refused" if last.refusal and not last.text and last.terminal == "completed" else last.terminal,
        text,
        refusal,
        summary,
        [kind for r in read for kind in r.items],
        [given for r in read for given in r.inputs],
        [url for r in read for url in r.citations],
        {name: sum(r.usage.get(name, 0) for r in read) for name in USAGE if any(name in r.usage for r in read)},
    )


def _usage(raw: Event) -> dict[str, int]:
    found = {
        name: (raw.get(outer) or {}).get(inner) if inner else raw.get(outer) for name, (outer, inner) in USAGE.items()
    }
    return {name: count for name, count in found.items() if count is not None}


def _joined(items: list[_Item], field: str, between: str) -> str:
    """Join parts of one item with `between`, items with a blank line."""
    texts = [between.join(text for _, text in sorted(item.streamed[field].items()) if text) for item in items]
    return "\n\n".join(filter(None, texts))


def _place_of(annotation: Event) -> tuple[object, str]:
    return annotation.get("start_index", annotation.get("index")), _cited(annotation)


def _cited(annotation: Event) -> str:
    return str(annotation.get("url") or annotation.get("file_id"))


def strings(value: object) -> Iterator[str]:
    """Yield every text in a tree."""
    if isinstance(value, str):
        yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(child)
