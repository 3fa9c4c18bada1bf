"""The checker of OpenWOP logs: a violation of every rule, with its position."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from projector.openwop import event_log
from projector.openwop.checker import RULES, LogChecker
from projector.openwop.event_log import EventLog
from tests.openwop_reader import check_log
from tests.unit.stream_edits import Edit, Event, drop, move, put, repeat

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson" / "openwop"
Rows: TypeAlias = tuple[tuple[str, dict[str, Any], dict[str, Any]], ...]
"""Type, payload, and further members of each event."""

AT: Final = "2025-12-15T12:00:00.000Z"


# 0 run.started, 1 node.started, 2 and 3 deltas, 4 reasoned, 5 called, 6 returned, 7 handoff, 8 and 9 chunks, 10 node
# completed, 11 run.completed
STREAM: Final[Rows] = (
    ("run.started", {"workflowId": "w"}, {}),
    ("node.started", {"nodeId": "n", "typeId": "vendor.acme.llm"}, {"node_id": "n"}),
    ("agent.reasoning.delta", event_log.reasoning_delta("one", "a", 0, "full"), {"node_id": "n"}),
    ("agent.reasoning.delta", event_log.reasoning_delta("one", "b", 1, "full"), {"node_id": "n"}),
    ("agent.reasoned", event_log.reasoned("one", "ab", "full"), {"node_id": "n"}),
    ("agent.toolCalled", event_log.tool_call("one", "t", "c", {"inputs": {"a": 1}}), {"node_id": "n"}),
    (
        "agent.toolReturned",
        event_log.tool_call("one", "t", "c", {"outcome": 1}),
        {"node_id": "n", "causation_id": "r:5"},
    ),
    ("agent.handoff", {"fromAgentId": "one", "toAgentId": "two"}, {}),
    ("output.chunk", {"nodeId": "n", "runId": "r", "chunk": "x", "isLast": False}, {"node_id": "n"}),
    ("output.chunk", {"nodeId": "n", "runId": "r", "chunk": "", "isLast": True}, {"node_id": "n"}),
    ("node.completed", {"nodeId": "n"}, {"node_id": "n"}),
    ("run.completed", {"outputs": {}}, {}),
)


# 0 run.started, 1 and 2 node.started, 3 and 4 deltas of "a" and "x", 5 and 6 of "b" and "y", 7 and 8 reasoned, 9 and 10
# node.completed, 11 run.completed: of nodes m and n, in turn
_BEGIN: Final = STREAM[0]
PARALLEL: Final[Rows] = (
    _BEGIN,
    *(("node.started", {"nodeId": node, "typeId": "vendor.acme.llm"}, {"node_id": node}) for node in "mn"),
    *(
        (
            "agent.reasoning.delta",
            event_log.reasoning_delta("one", text, number // 2, "full"),
            {"node_id": "mn"[number % 2]},
        )
        for number, text in enumerate("axby")
    ),
    ("agent.reasoned", event_log.reasoned("one", "ab", "full"), {"node_id": "m"}),
    ("agent.reasoned", event_log.reasoned("one", "xy", "full"), {"node_id": "n"}),
    *(("node.completed", {"nodeId": node}, {"node_id": node}) for node in "mn"),
    ("run.completed", {"outputs": {}}, {}),
)
"""The same agent thinks in two nodes at a time."""


def stream(rows: Rows = STREAM) -> list[Event]:
    """Return a log of its own for each test, which edits it."""
    log = EventLog("r")
    return [
        log.event(name, payload, timestamp=AT, **members) for name, payload, members in json.loads(json.dumps(rows))
    ]


def insert(to: int, event_type: str, payload: dict[str, Any], **members: object) -> Edit:
    event = {
        "eventId": f"new:{to}",
        "runId": "r",
        "type": event_type,
        "payload": payload,
        "timestamp": AT,
        "sequence": 0,
    }
    return lambda events: events.insert(to, {**event, **members})


def decided(to: int, confidence: float) -> Edit:
    return insert(to, "agent.decided", {"agentId": "one", "decision": "d", "confidence": confidence}, nodeId="n")


def unsure(to: int, observed: float) -> Edit:
    known = {"agentId": "one", "threshold": 0.7, "observed": observed}
    payload = event_log.suspension("low-confidence", "n", "int_1", "k", **known)
    return insert(to, "node.suspended", payload, nodeId="n")


def resumed(to: int) -> Edit:
    return insert(to, "node.resumed", {"nodeId": "n", "interruptId": "int_1"}, nodeId="n")


def broken(*edits: Edit, is_numbered: bool = True, rows: Rows = STREAM) -> list[str]:
    """Return the violated rules of an edited stream, renumbered unless the numbers are tested."""
    events = stream(rows)
    for edit in edits:
        edit(events)
    if is_numbered:
        events = [{**event, "sequence": number} for number, event in enumerate(events)]
    return [violation.rule for violation in check_log([json.dumps(event) for event in events])]


@pytest.mark.parametrize("rows", [STREAM, PARALLEL])
def test_a_valid_log_has_no_violation(rows: Rows) -> None:
    assert broken(rows=rows) == []


ROWS: Final[tuple[tuple[str, tuple[Edit, ...]], ...]] = (
    ("shape", (put(0, "type", value="run.unknown"),)),
    ("shape", (put(0, "runId", value=None),)),
    ("shape", (put(4, "payload", "reasoning", value=7),)),
    ("shape", (put(4, "payload", "agentId", value="ab"),)),
    ("shape", (put(2, "payload", "sequence", value=-1),)),
    ("shape", (put(1, "nodeId", value=""),)),
    ("shape", (put(6, "causationId", value=None),)),
    ("shape", (put(0, "extra", value=1),)),
    ("one_run", (put(4, "runId", value="s"),)),
    ("one_run", (put(8, "payload", "runId", value="s"),)),
    ("event_id_unique", (put(4, "eventId", value="r:3"),)),
    ("causation_known", (put(4, "causationId", value="r:9"),)),
    ("run_started", (repeat(0, 1), put(1, "eventId", value="new"))),
    ("run_started", (move(0, 1),)),
    ("one_terminal", (repeat(11, 12), put(12, "eventId", value="new"))),
    ("one_terminal", (move(7, 11),)),
    ("terminal_missing", (drop(11),)),
    ("node_open", (move(1, 5),)),
    ("node_open", (move(10, 9),)),
    ("node_open", (repeat(1, 2), put(2, "eventId", value="new"))),
    ("node_open", (put(10, "payload", "nodeId", value="m"), put(9, "payload", "nodeId", value="n"))),
    ("node_closed", (drop(10),)),
    ("node_waits", (decided(10, 0.5), unsure(11, 0.5))),
    ("node_waits", (decided(10, 0.5), unsure(11, 0.5), drop(12))),
    ("node_waits", (resumed(9),)),
    ("low_confidence", (unsure(10, 0.5), resumed(11))),
    ("low_confidence", (decided(10, 0.6), unsure(11, 0.5), resumed(12))),
    ("low_confidence", (decided(10, 0.7), unsure(11, 0.7), resumed(12))),
    ("block_sequence", (put(2, "payload", "sequence", value=1), put(3, "payload", "sequence", value=1))),
    ("block_sequence", (put(3, "payload", "sequence", value=2),)),
    ("block_sequence", (put(3, "payload", "sequence", value=0),)),
    ("block_closed", (drop(4), put(5, "causationId", value="r:5"), put(4, "eventId", value="r:5"))),
    ("block_streamed", (repeat(4, 5), put(5, "eventId", value="new"))),
    ("block_streamed", (move(4, 2),)),
    ("block_text", (put(4, "payload", "reasoning", value="b"),)),
    ("block_verbosity", (put(4, "payload", "verbosity", value="summary"),)),
    ("call_id_unique", (repeat(5, 6), put(6, "eventId", value="new"))),
    ("call_id_unique", (repeat(6, 7), put(7, "eventId", value="new"))),
    ("call_cause", (put(6, "causationId", value="r:4"),)),
    ("call_cause", (put(6, "payload", "callId", value="d"),)),
    ("call_cause", (put(6, "payload", "toolName", value="u"),)),
    ("call_cause", (put(6, "payload", "agentId", value="two"),)),
    ("call_end", (put(6, "payload", "error", value={"code": "c", "message": "m"}),)),
    ("handoff", (put(7, "payload", "toAgentId", value="one"),)),
    ("chunk_last", (drop(9),)),
)


@pytest.mark.parametrize(("rule", "edits"), ROWS)
def test_each_rule_is_reported(rule: str, edits: tuple[Edit, ...]) -> None:
    assert rule in broken(*edits)


def swapped(one: int, two: int, *path: str) -> Edit:
    """Return an edit that exchanges the values at a path of two events."""

    def edit(events: list[Event]) -> None:
        *names, last = path
        holders: list[Any] = [events[one], events[two]]
        for name in names:
            holders = [holder[name] for holder in holders]
        holders[0][last], holders[1][last] = holders[1][last], holders[0][last]

    return edit


MUTATIONS: Final[Mapping[str, tuple[Edit, ...]]] = {
    "a delta is lost": (drop(5),),
    "the first delta is lost": (drop(3),),
    "a delta is repeated": (repeat(3, 4), put(4, "eventId", value="new")),
    "two deltas of a block change places": (move(5, 3),),
    "a delta has another number": (put(5, "payload", "sequence", value=2),),
    "a block starts again": (put(5, "payload", "sequence", value=0),),
    "deltas of two nodes are exchanged": (swapped(3, 4, "nodeId"),),
    "a delta is in another node": (put(5, "nodeId", value="n"),),
    "a delta has no node": (lambda events: events[5].pop("nodeId"),),
    "a delta is of another agent": (put(5, "payload", "agentId", value="two"),),
    "a delta has another verbosity": (put(5, "payload", "verbosity", value="summary"),),
    "a delta has another text": (put(5, "payload", "delta", value="c"),),
    "a delta follows the end of its block": (move(5, 7),),
    "a delta follows the end of its node": (move(5, 9),),
    "a block is not closed": (drop(7),),
    "a block is closed twice": (repeat(7, 8), put(8, "eventId", value="new")),
    "a block is closed by the other node": (put(7, "nodeId", value="n"),),
    "two blocks close each other": (swapped(7, 8, "nodeId"),),
    "the closing events exchange their texts": (swapped(7, 8, "payload", "reasoning"),),
    "a closing event has no node": (lambda events: events[7].pop("nodeId"),),
    "a closing event is of another agent": (put(7, "payload", "agentId", value="two"),),
    "a closing event lacks the end of the text": (put(7, "payload", "reasoning", value="a"),),
    "a closing event has more text": (put(7, "payload", "reasoning", value="abc"),),
    "a closing event has the text of both blocks": (put(7, "payload", "reasoning", value="axby"),),
    "a closing event has another verbosity": (put(7, "payload", "verbosity", value="summary"),),
    "a closing event is too early": (move(7, 5),),
    "a closing event precedes all deltas": (move(7, 3),),
    "a closing event follows the end of its node": (move(7, 9),),
    "a closing event follows the end of the run": (move(7, 11),),
    "a node ends before its block": (move(9, 7),),
    "each delta is closed on its own by the other branch": (
        insert(4, "agent.reasoned", event_log.reasoned("one", "a", "full"), nodeId="n"),
        insert(6, "agent.reasoned", event_log.reasoned("one", "x", "full"), nodeId="m"),
    ),
}
"""How blocks may be broken."""


@pytest.mark.parametrize("edits", MUTATIONS.values(), ids=MUTATIONS)
def test_each_broken_block_is_found(edits: tuple[Edit, ...]) -> None:
    assert any(rule.startswith(("block_", "node_open", "one_terminal")) for rule in broken(*edits, rows=PARALLEL))


def test_every_rule_has_a_row() -> None:
    assert {rule for rule, _ in ROWS} | {"json", "sequence"} == RULES.keys()


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ((put(3, "sequence", value=9),), ["sequence", "sequence"]),
        ((drop(7),), ["sequence"]),
        ((put(0, "sequence", value=1),), ["sequence", "sequence"]),
    ],
)
def test_sequence_gaps_are_found(edits: tuple[Edit, ...], expected: list[str]) -> None:
    assert broken(*edits, is_numbered=False) == expected


@pytest.mark.parametrize(
    "edits",
    [
        (decided(10, 0.5), unsure(11, 0.5), resumed(12)),
        (decided(10, 0.7),),
        (decided(10, 0.5), unsure(11, 0.5), lambda events: events.__delitem__(slice(12, None))),
        (put(4, "payload", "verbosity", value="full"),),
        (drop(6),),
        (drop(2), drop(2)),
    ],
)
def test_allowed_logs_have_no_violation(edits: tuple[Edit, ...]) -> None:
    assert broken(*edits) == []


@pytest.mark.parametrize("line", [b"{", b"[]", b"7", b"\xff", b'{"a":' * 2_000])
def test_invalid_json_is_a_violation(line: bytes) -> None:
    checker = LogChecker()
    assert [(violation.line, violation.rule) for violation in checker.feed(3, line)] == [(3, "json")]
    assert checker.feed(4, b"  ") == []


def test_a_violation_names_the_position_without_the_value() -> None:
    events = stream()
    events[4]["payload"]["s3cret of the payload"] = "s3cret"
    found = check_log([json.dumps(event) for event in events])
    assert (found[0].line, found[0].event_id, found[0].rule, found[0].level) == (5, 4, "shape", "spec")
    assert found[0].message == "`payload.?` is unknown"
    assert "s3cret" not in repr(found)


def test_every_rule_has_a_text() -> None:
    assert all(rule.name == name and len(rule.text.split()) > 3 and rule.source for name, rule in RULES.items())
