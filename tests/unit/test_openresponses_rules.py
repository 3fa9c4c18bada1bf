"""The checker of Open Responses finds what a stream breaks, and says where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from projector.dialects.openresponses.models import check_stream, parse_event
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
    """Give the stream after some edits, numbered again."""
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
    "no beginning": ((drop(0),), {"created, queued, in_progress, each once at most and before the items"}),
    "two beginnings": ((repeat(1, 1),), {"created, queued, in_progress, each once at most and before the items"}),
    "work before the beginning": ((drop(1),), {"`response.in_progress` before everything else"}),
    "another response id": ((put(19, "response", "id", value="other"),), {"one id of the response"}),
    "another status": ((put(19, "response", "status", value="failed"),), {"status completed, and `completed_at`"}),
    "a reason for nothing": (
        (put(19, "response", "incomplete_details", value={"reason": "r"}),),
        {"status completed, and `completed_at`"},
    ),
    "an error, and no failure": (
        (insert(19, ERROR),),
        {"a response that failed with the error that was said"},
    ),
    "something behind an error": (
        (
            insert(18, ERROR),
            put(20, "type", value="response.failed"),
            *(put(20, "response", name, value=value) for name, value in FAILED.items()),
        ),
        {"`response.failed` behind an error"},
    ),
    "something behind the end": ((repeat(11, 20),), {"nothing behind the end of the response"}),
    "an item that is not in the response": (
        (put(19, "response", "output", value=[]),),
        {"every item of the response in its place"},
    ),
    "an item that is another in the response": (
        (put(19, "response", "output", 0, "name", value="other"),),
        {"each item of the response as it was done"},
    ),
    "an item that stays open": ((drop(18),), {"every item done before the end"}),
    "an item out of its place": (
        (put(12, "output_index", value=7),),
        {
            "items counted by `output_index`, each with an id of its own",
            "an item that was added, at its place",
            "the end of an open item",
            "every item done before the end",
        },
    ),
    "an item that is complete at once": (
        (put(9, "item", "status", value="completed"),),
        {"an item that begins in progress, with nothing in it"},
    ),
    "an item that ends twice": ((repeat(18, 19),), {"the end of an open item"}),
    "an item that ends in progress": (
        (
            put(18, "item", "status", value="in_progress"),
            put(19, "response", "output", 2, "status", value="in_progress"),
        ),
        {"an item that ends"},
    ),
    "text behind the end of its item": ((move(15, 18),), {"nothing of an item behind its end"}),
    "a part that stays open": (
        (drop(17),),
        {"every part done before its item"},
    ),
    "a part that is not empty": (
        (put(13, "part", "text", value="Hi"),),
        {
            "an empty part, counted by `content_index`",
            "the whole text once, as its deltas made it",
            "the end of a part behind its whole text, with what was said",
            "an item that holds what its events made",
        },
    ),
    "a part that was not added": ((drop(13),), {"a part that is open", "an item that holds what its events made"}),
    "text without an item": ((drop(12),), {"an item that was added, at its place", "the end of an open item"}),
    "a whole text that is another": (
        (put(16, "text", value="Hi"),),
        {"the whole text once, as its deltas made it"},
    ),
    "a whole text that was cut": (
        (put(16, "text", value="Hi"), insert(2, NOTICES | {"about": STREAM[16]["type"]})),
        set(),
    ),
    "a delta behind the whole text": (
        (move(15, 16),),
        {"no delta behind the whole text", "the whole text once, as its deltas made it"},
    ),
    "a part without its whole text": (
        (drop(16),),
        {"the end of a part behind its whole text, with what was said"},
    ),
    "arguments that are others": (
        (put(7, "arguments", value="{}"),),
        {"arguments as their deltas made them"},
    ),
    "arguments of a message": (
        (put(3, "item_id", value=STREAM[12]["item"]["id"]), put(3, "output_index", value=2), move(3, 12)),
        {
            "arguments of a function call",
            "arguments as their deltas made them",
            "an item that holds what its events made",
        },
    ),
    "a shape": (
        (put(14, "delta", value=7),),
        {"an event of the model: `delta` must be a string"},
    ),
}


@pytest.mark.parametrize(("edits", "expected"), CASES.values(), ids=CASES)
def test_breaches(edits: tuple[Edit, ...], expected: set[str]) -> None:
    found = {breach.expected for breach in check_stream(said(edits))}
    assert expected <= found
    assert bool(found) == bool(expected)


def test_where() -> None:
    assert [breach.line for breach in check_stream(said((put(16, "text", value="Hi"),)))] == [17]


def test_numbers_rise_by_one() -> None:
    lines = [json.dumps({**event, "sequence_number": at + (at > 3)}).encode() for at, event in enumerate(STREAM)]
    assert {breach.expected for breach in check_stream([*lines, b"[DONE]"])} == {
        "`sequence_number` rising by one from 0"
    }


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], "the end mark"),
        ([b"[DONE]"], "one end mark, behind the end of the response"),
        ([*said(()), b"[DONE]"], "one end mark, behind the end of the response"),
        ([b"{"], "JSON"),
        (said((put(11, "type", value="response.cancelled"),)), "`event` has an unsupported"),
        ([b"7"], "`event` must be an object"),
    ],
)
def test_streams_that_are_none(lines: list[bytes], expected: str) -> None:
    assert any(expected in breach.expected for breach in check_stream(lines))


def test_a_breach_shows_no_text() -> None:
    assert "secret" not in repr(
        check_stream([b'{"type":"response.output_text.delta","delta":["secret"],"is it secret?":1}'])
    )


def test_an_event_is_read() -> None:
    assert parse_event(STREAM[14]).type == "response.output_text.delta"
