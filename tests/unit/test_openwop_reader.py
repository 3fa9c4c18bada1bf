"""The client's reader: deltas at once, closing events replace them, unknown input is skipped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from projector.openwop import event_log
from projector.openwop.client import PAYLOADS, STATUSES, Handoff, RunReader, read_event, replayed
from projector.openwop.event_log import EventLog

AT: Final = "2025-12-15T12:00:00.000Z"
EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson" / "openwop"
GOLDENS: Final = sorted(EXAMPLES.glob("*.ndjson"))

Event = dict[str, Any]
Row = tuple[str, dict[str, Any]]


def delta(text: str, sequence: int, agent: str = "one") -> Row:
    return "agent.reasoning.delta", {"agentId": agent, "delta": text, "sequence": sequence}


def closing(text: str, agent: str = "one") -> Row:
    return "agent.reasoned", {"agentId": agent, "reasoning": text}


def read(*rows: Row, **settings: Any) -> RunReader:
    """Return the reader of a log whose first event has the sequence number 0."""
    reader, log = RunReader(**settings), EventLog("r")
    for name, payload in rows:
        reader.feed(log.event(name, payload, timestamp=AT))
    return reader


def shown(reader: RunReader) -> list[tuple[str, str, bool, bool]]:
    return [(thought.agent_id, thought.text, thought.is_closed, thought.has_gap) for thought in reader.thoughts]


def test_deltas_are_available_at_once() -> None:
    reader, log = RunReader(), EventLog("r")
    seen = []
    for name, payload in (delta("Let ", 0), delta("me", 1), closing("Let me think.")):
        reader.feed(log.event(name, payload, timestamp=AT))
        seen.append((reader.thoughts[0].text, reader.thoughts[0].is_closed))
    assert seen == [("Let ", False), ("Let me", False), ("Let me think.", True)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([closing("all")], [("one", "all", True, False)]),
        ([delta("a", 0), closing("[REDACTED:key]")], [("one", "[REDACTED:key]", True, False)]),
        ([delta("a", 0), delta("", 1), closing("a")], [("one", "a", True, False)]),
        ([delta("a", 0), closing("")], [("one", "", True, False)]),
        ([closing("")], [("one", "", True, False)]),
        ([delta("a", 0)], [("one", "a", False, False)]),
        ([delta("a", 0), delta("c", 2)], [("one", "ac", False, True)]),
        ([delta("b", 1)], [("one", "b", False, True)]),
        ([delta("a", 0), delta("c", 2), closing("abc")], [("one", "abc", True, False)]),
        (
            [delta("a", 0), closing("a"), delta("b", 0), closing("b")],
            [("one", "a", True, False), ("one", "b", True, False)],
        ),
        ([delta("a", 0), delta("b", 0)], [("one", "a", False, False), ("one", "b", False, False)]),
        (
            [delta("a", 0), delta("x", 0, "two"), delta("b", 1), closing("x", "two"), closing("ab")],
            [("one", "ab", True, False), ("two", "x", True, False)],
        ),
    ],
)
def test_thoughts(rows: list[Row], expected: list[tuple[str, str, bool, bool]]) -> None:
    assert shown(read(*rows)) == expected


def event(number: int) -> Event:
    return EventLog("r").event("log.appended", {}, timestamp=AT) | {"sequence": number}


def numbered(*numbers: int) -> RunReader:
    reader = RunReader()
    for number in numbers:
        reader.feed(event(number))
    return reader


@pytest.mark.parametrize(
    ("numbers", "missing"),
    [
        ((0, 1, 2), []),
        ((0, 3), [range(1, 3)]),
        ((2,), [range(2)]),
        ((0, 2, 5), [range(1, 2), range(3, 5)]),
        ((0, 1, 1, 0, 2), []),
    ],
)
def test_missing_numbers_are_reported(numbers: tuple[int, ...], missing: list[range]) -> None:
    assert numbered(*numbers).missing == missing


def test_resumed_and_filtered_readers_report_no_gap() -> None:
    resumed = RunReader(last_sequence=4)
    assert resumed.feed(event(4)) is None
    assert resumed.feed(event(5)) is not None
    some = RunReader(is_filtered=True)
    some.feed(event(9))
    assert resumed.missing == some.missing == []


def test_unknown_types_are_skipped() -> None:
    rows: list[Row] = [("acme.canvas.published", {"a": 1}), ("run.paused", {}), closing("all")]
    reader = read(*rows)
    assert shown(reader) == [("one", "all", True, False)]
    assert (reader.unread, reader.missing) == (0, [])
    widened = EventLog("r").event(*closing("all"), timestamp=AT) | {"new": 1}
    widened["payload"] = {**widened["payload"], "tokenCount": 24}
    assert RunReader().feed(widened) is not None


@pytest.mark.parametrize(
    "value",
    [None, 7, [], {}, {"type": "agent.reasoned"}, {"eventId": 1, "runId": "r", "type": "t", "sequence": 0}],
)
def test_invalid_values_are_counted(value: object) -> None:
    reader = RunReader()
    assert reader.feed(value) is None
    assert (reader.unread, reader.last_sequence) == (1, -1)


def test_invalid_payloads_are_counted() -> None:
    rows: list[Row] = [("agent.reasoned", {}), ("agent.reasoned", {"agentId": "one", "reasoning": 7}), closing("b")]
    reader = read(*rows)
    assert (reader.unread, reader.missing) == (2, [])
    assert shown(reader) == [("one", "b", True, False)]


def test_calls() -> None:
    reader = read(
        ("agent.toolCalled", event_log.tool_call("one", "find", "c1", inputs=[1])),
        ("agent.toolCalled", event_log.tool_call("one", "look", "c2")),
        ("agent.toolReturned", event_log.tool_call("one", "find", "c1", outcome=None)),
        ("agent.toolReturned", event_log.tool_call("one", "lost", "c3", error={"code": "c", "message": "m"})),
    )
    calls = [(call.name, call.inputs, call.has_returned, call.outcome, call.error) for call in reader.calls.values()]
    assert calls == [
        ("find", [1], True, None, None),
        ("look", None, False, None, None),
        ("lost", None, True, None, {"code": "c", "message": "m"}),
    ]


def test_text_is_joined_by_its_channel() -> None:
    def chunk(text: str, **members: object) -> Row:
        return "output.chunk", {"nodeId": "n", "runId": "r", "chunk": text, "isLast": False, **members}

    reader = read(chunk("a", channel="m1"), chunk("b"), chunk("c", channel="m1"), chunk("", isLast=True))
    assert reader.texts == {"m1": "ac", "n": "b"}


def test_status_of_the_run() -> None:
    waits = {"nodeId": "n", "interruptId": "i1", "kind": "approval"}
    rows: list[Row] = [
        ("run.started", {"workflowId": "w"}),
        ("agent.handoff", event_log.handoff("one", "two")),
        ("agent.decided", event_log.decided("two", {"next": "x"}, 0.5)),
        ("node.suspended", waits),
        ("node.suspended", {**waits, "interruptId": "i2"}),
        ("node.resumed", {"nodeId": "n", "interruptId": "i1"}),
        ("node.resumed", {"nodeId": "n", "interruptId": "i2"}),
        ("run.completed", {"outputs": {"text": "a"}}),
    ]
    standing = [read(*rows[:count]).status for count in range(len(rows) + 1)]
    waiting = ["waiting-approval"] * 3
    assert standing == ["pending", "running", "running", "running", *waiting, "running", "completed"]
    reader = read(*rows)
    assert (reader.agent_id, reader.outputs, reader.interrupts) == ("two", {"text": "a"}, {})
    assert [(decision.decision, decision.confidence) for decision in reader.decisions] == [({"next": "x"}, 0.5)]


@pytest.mark.parametrize(("end", "status"), [("run.failed", "failed"), ("run.cancelled", "cancelled")])
def test_how_a_run_ends(end: str, status: str) -> None:
    reader = read((end, {"error": {"code": "c", "message": "m"}} if status == "failed" else {}))
    assert (reader.status, reader.error and reader.error["code"]) == (status, "c" if status == "failed" else None)


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_every_golden_is_read_the_same_with_deltas_and_collapsed(path: Path) -> None:
    events = [json.loads(line) for line in path.read_bytes().splitlines()]
    readers = []
    for log in (events, replayed(events, with_deltas=False)):
        reader = RunReader()
        for event in log:
            reader.feed(event)
        assert (reader.missing, reader.unread) == ([], 0)
        readers.append((shown(reader), reader.texts, reader.status, list(reader.calls), reader.outputs))
    assert readers[0] == readers[1]


def test_events_are_typed() -> None:
    typed = read_event(EventLog("r").event("agent.handoff", event_log.handoff("one", "two"), timestamp=AT))
    assert typed is not None
    assert isinstance(typed.payload, Handoff)
    assert typed.payload.to_agent_id == "two"


def test_the_tables_are_complete() -> None:
    assert all("apply" in vars(payload) for payload in PAYLOADS.values())
    assert STATUSES.keys() <= PAYLOADS.keys()
