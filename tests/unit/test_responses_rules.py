"""The checker of the dialect `responses` reports what differs from Open Responses; the rest is tested there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from projector.contracts.stream_rules.table import check_lines
from tests.protocols.responses.checker import ResponsesChecker
from tests.unit.stream_edits import Edit, Event, drop, put

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson" / "responses"
STREAMS: Final[dict[str, list[Event]]] = {
    name: [json.loads(line) for line in (EXAMPLES / f"{name}.ndjson").read_bytes().splitlines()]
    for name in ("chat-mcp-tool", "chat-code-interpreter", "chat-provider-error", "chat-cancelled")
}
# chat-mcp-tool: 2 call added, 3 in_progress, 4 to 6 arguments, 7 whole, 8 completed, 9 call done
# chat-code-interpreter: 2 call added, 3 in_progress


def insert(to: int, event: Event) -> Edit:
    return lambda events: events.insert(to, {**event})


CASES: Final[dict[str, tuple[str, tuple[Edit, ...], str | None]]] = {
    "nothing": ("chat-mcp-tool", (), None),
    "a cancelled response": ("chat-cancelled", (), None),
    "a failed response": ("chat-provider-error", (), None),
    "no end": ("chat-mcp-tool", (drop(-1),), "the end of the response"),
    "an end mark": ("chat-mcp-tool", (insert(99, {"type": "[DONE]"}),), "an event of the schema"),
    "an unknown event": (
        "chat-mcp-tool",
        (insert(4, {"type": "response.mcp_call.imagined", "item_id": "x", "output_index": 0}),),
        "an event of the schema",
    ),
    "an unknown item": ("chat-mcp-tool", (put(2, "item", "type", value="shell_call"),), "an event of the schema"),
    "a member that the API lacks": (
        "chat-mcp-tool",
        (put(2, "item", "tool_call_id", value="x"),),
        "an event of the schema",
    ),
    "a status of another tool": (
        "chat-mcp-tool",
        (put(3, "type", value="response.web_search_call.in_progress"),),
        "an item of type `web_search_call`",
    ),
    "arguments of another text": (
        "chat-mcp-tool",
        (put(7, "arguments", value="{}"),),
        "`arguments` equal to the deltas",
    ),
    "an item with other arguments": (
        "chat-mcp-tool",
        (put(9, "item", "arguments", value="{}"),),
        "an item equal to what its events contained",
    ),
    "an error that the response does not repeat": (
        "chat-provider-error",
        (put(-1, "response", "error", "message", value="Another."),),
        "a failed response with the error of the `error` event",
    ),
    "a status of another end": (
        "chat-cancelled",
        (put(-1, "response", "status", value="completed"),),
        "status `cancelled` or `incomplete` and `incomplete_details`",
    ),
}


@pytest.mark.parametrize(("name", "edits", "expected"), CASES.values(), ids=CASES)
def test_violations(name: str, edits: tuple[Edit, ...], expected: str | None) -> None:
    events = json.loads(json.dumps(STREAMS[name]))
    for edit in edits:
        edit(events)
    lines = [json.dumps({**event, "sequence_number": at}).encode() for at, event in enumerate(events)]
    found = [one.message.removeprefix("expected ") for one in check_lines(ResponsesChecker(), lines)]
    assert any(one.startswith(expected) for one in found) if expected else found == []


def test_large_events_may_be_truncated() -> None:
    """Without extensions no notice names them. Joined deltas may be longer than what a large event repeats."""
    text = "x" * 9_000_000
    beginning = STREAMS["chat-mcp-tool"][:2]
    call = {
        "type": "function_call",
        "id": "fc_1",
        "status": "in_progress",
        "call_id": "c",
        "name": "f",
        "arguments": "",
    }
    place = {"item_id": "fc_1", "output_index": 0}
    events: list[Event] = [
        *beginning,
        {"type": "response.output_item.added", "output_index": 0, "item": call},
        {"type": "response.function_call_arguments.delta", **place, "delta": text + "y"},
        {"type": "response.function_call_arguments.done", **place, "arguments": text},
    ]
    lines = [json.dumps({**event, "sequence_number": at}).encode() for at, event in enumerate(events)]
    checker = ResponsesChecker()
    assert [one for at, line in enumerate(lines, 1) for one in checker.feed(at, line)] == []
