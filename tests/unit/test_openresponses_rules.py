"""The checker of Open Responses reports each violated rule and its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from projector.contracts.stream_rules.table import check_lines
from tests.protocols.openresponses.checker import OpenResponsesChecker
from tests.protocols.openresponses.events import parse_event
from tests.unit.stream_edits import Edit, Event, drop, move, put, repeat

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson" / "openresponses"

# 0 created, 1 in_progress, 2 call added, 3 to 6 arguments, 7 whole, 8 call done, 9 and 10 its output, 11 status,
# 12 message added, 13 part added, 14 and 15 text, 16 whole, 17 part done, 18 message done, 19 completed
STREAM: Final = [json.loads(line) for line in (EXAMPLES / "chat-function-tool.ndjson").read_bytes().splitlines()[:-1]]
ERROR: Final[Event] = {
    "type": "error",
    "error": {"type": "model_error", "code": "c", "message": "m", "param": None},
}
FAILED: Final[Event] = {"status": "failed", "completed_at": None, "error": {"code": "c", "message": "m"}}


def insert(to: int, event: Event) -> Edit:
    return lambda events: events.insert(to, {**event})


def said(edits: tuple[Edit, ...]) -> list[bytes]:
    """Return the stream after some edits, with new sequence numbers."""
    events = json.loads(json.dumps(STREAM))
    for edit in edits:
        edit(events)
    return [json.dumps({**event, "sequence_number": at}).encode() for at, event in enumerate(events)] + [b"[DONE]"]


NOTICES: Final[Event] = {
    "type": "public-sse:notices",
    "notices": [{"type": "truncated", "path": "part.text", "message": "Some content was left out."}],
}

CASES: Final[dict[str, tuple[tuple[Edit, ...], set[str]]]] = {
    "nothing": ((), set()),
    "no beginning": ((drop(0),), {"created, queued, in_progress, in order, each at most once, before any item"}),
    "two beginnings": ((repeat(1, 1),), {"created, queued, in_progress, in order, each at most once, before any item"}),
    "work before the beginning": ((drop(1),), {"`response.in_progress` before any other event"}),
    "another response id": ((put(19, "response", "id", value="other"),), {"one response ID"}),
    "another status": ((put(19, "response", "status", value="failed"),), {"status `completed` and `completed_at`"}),
    "a reason for nothing": (
        (put(19, "response", "incomplete_details", value={"reason": "r"}),),
        {"status `completed` and `completed_at`"},
    ),
    "an error, and no failure": (
        (insert(19, ERROR),),
        {"a failed response with the error of the `error` event"},
    ),
    "something after an error": (
        (
            insert(18, ERROR),
            put(20, "type", value="response.failed"),
            *(put(20, "response", name, value=value) for name, value in FAILED.items()),
        ),
        {"`response.failed` after an error"},
    ),
    "something after the end": ((repeat(11, 20),), {"nothing after the end of the response"}),
    "an item that is not in the response": (
        (put(19, "response", "output", value=[]),),
        {"all items in the response, in order"},
    ),
    "an item that is another in the response": (
        (put(19, "response", "output", 0, "name", value="other"),),
        {"each item in the response as it was when done"},
    ),
    "an item that stays open": ((drop(18),), {"all items done before the end"}),
    "an item out of its place": (
        (put(12, "output_index", value=7),),
        {
            "`output_index` rising by one from 0, and a new item ID",
            "the ID and index of an added item",
            "an open item",
            "all items done before the end",
        },
    ),
    "an item that is complete at once": (
        (put(9, "item", "status", value="completed"),),
        {"an empty item with status `in_progress`"},
    ),
    "an item that ends twice": ((repeat(18, 19),), {"an open item"}),
    "an item that ends in progress": (
        (
            put(18, "item", "status", value="in_progress"),
            put(19, "response", "output", 2, "status", value="in_progress"),
        ),
        {"the final status of an item"},
    ),
    "text after the end of its item": ((move(15, 18),), {"no event of an item after its end"}),
    "a part that stays open": (
        (drop(17),),
        {"all parts done before their item"},
    ),
    "a part that is not empty": (
        (put(13, "part", "text", value="Hi"),),
        {
            "an empty part, and `content_index` rising by one from 0",
            "the complete text once, equal to its deltas",
            "the end of a part after its text, with equal content",
            "an item equal to what its events contained",
        },
    ),
    "a part that was not added": ((drop(13),), {"an open part", "an item equal to what its events contained"}),
    "text without an item": ((drop(12),), {"the ID and index of an added item", "an open item"}),
    "a complete text that differs": (
        (put(16, "text", value="Hi"),),
        {"the complete text once, equal to its deltas"},
    ),
    "a whole text that was cut": (
        (put(16, "text", value="Hi"), insert(2, NOTICES | {"about": STREAM[16]["type"]})),
        set(),
    ),
    "a delta after the complete text": (
        (move(15, 16),),
        {"no delta after the complete text", "the complete text once, equal to its deltas"},
    ),
    "a part without its whole text": (
        (drop(16),),
        {"the end of a part after its text, with equal content"},
    ),
    "arguments that are others": (
        (put(7, "arguments", value="{}"),),
        {"`arguments` equal to the deltas"},
    ),
    "arguments of a message": (
        (put(3, "item_id", value=STREAM[12]["item"]["id"]), put(3, "output_index", value=2), move(3, 12)),
        {
            "an item of type `function_call`",
            "`arguments` equal to the deltas",
            "an item equal to what its events contained",
        },
    ),
    "a shape": (
        (put(14, "delta", value=7),),
        {"an event of the schema: `delta` must be a string"},
    ),
}


@pytest.mark.parametrize(("edits", "expected"), CASES.values(), ids=CASES)
def test_violations(edits: tuple[Edit, ...], expected: set[str]) -> None:
    found = {one.message.removeprefix("expected ") for one in check_lines(OpenResponsesChecker(), said(edits))}
    assert expected <= found
    assert bool(found) == bool(expected)


def test_a_violation_has_its_line() -> None:
    assert [one.line for one in check_lines(OpenResponsesChecker(), said((put(16, "text", value="Hi"),)))] == [17]


def test_numbers_rise_by_one() -> None:
    lines = [json.dumps({**event, "sequence_number": at + (at > 3)}).encode() for at, event in enumerate(STREAM)]
    assert {one.message for one in check_lines(OpenResponsesChecker(), [*lines, b"[DONE]"])} == {
        "expected `sequence_number` rising by one from 0"
    }


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], "the end mark"),
        ([b"[DONE]"], "one end mark, after the end of the response"),
        ([*said(()), b"[DONE]"], "one end mark, after the end of the response"),
        ([b"{"], "JSON"),
        (said((put(11, "type", value="response.cancelled"),)), "`event` has an unsupported"),
        ([b"7"], "`event` must be an object"),
    ],
)
def test_streams_that_are_invalid(lines: list[bytes], expected: str) -> None:
    assert any(expected in one.message for one in check_lines(OpenResponsesChecker(), lines))


def test_a_violation_contains_no_text_of_the_stream() -> None:
    assert "secret" not in repr(
        check_lines(
            OpenResponsesChecker(), [b'{"type":"response.output_text.delta","delta":["secret"],"is it secret?":1}']
        )
    )


def test_an_event_is_read() -> None:
    assert parse_event(STREAM[14]).type == "response.output_text.delta"
