"""Replay of a recorded run, with its deltas or collapsed: deterministic, without asking the provider."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from projector.core.context import StreamContext
from projector.core.pipeline import build_pipeline
from projector.openwop import event_log
from projector.openwop.client import InvocationLog, attempt_key, divergence, replayed
from projector.openwop.contract.checker import check_log
from projector.openwop.contract.events import parse_event
from projector.openwop.event_log import EventLog
from projector.redaction.policy import Policy

AT: Final = "2025-12-15T12:00:00.000Z"
REQUEST: Final = {"model": "m-1", "input": "why?"}

Event = dict[str, Any]
Recording = list[tuple[str, dict[str, Any]]]

BEGIN: Final[Recording] = [
    ("run.started", {"workflowId": "w"}),
    ("node.started", {"nodeId": "n", "typeId": "vendor.acme.llm"}),
]
END: Final[Recording] = [("node.completed", {"nodeId": "n"}), ("run.completed", {})]


def grows(agent: str, *pieces: str, is_closed: bool = True) -> Recording:
    deltas: Recording = [
        ("agent.reasoning.delta", event_log.reasoning_delta(agent, piece, number, "full"))
        for number, piece in enumerate(pieces)
    ]
    return [*deltas, ("agent.reasoned", event_log.reasoned(agent, "".join(pieces), "full"))] if is_closed else deltas


def log_of(recording: Recording, run_id: str = "r", at: str = AT) -> list[Event]:
    log = EventLog(run_id)
    return [
        log.event(name, payload, timestamp=at, node_id=None if name.startswith("run.") else "n")
        for name, payload in recording
    ]


RECORDED: Final = log_of([*BEGIN, *grows("one", "a", "b"), *grows("one", "c"), *END])


def test_a_replay_with_deltas_is_the_recording() -> None:
    assert replayed(RECORDED, with_deltas=True) == RECORDED


def test_a_collapsed_log_keeps_ids_and_times() -> None:
    again = replayed(RECORDED, with_deltas=False)
    kept = [event for event in RECORDED if event["type"] != "agent.reasoning.delta"]
    assert [event["eventId"] for event in again] == [event["eventId"] for event in kept]
    assert [event["timestamp"] for event in again] == [event["timestamp"] for event in kept]
    assert [event["sequence"] for event in again] == list(range(len(kept)))
    assert [event["payload"] for event in again] == [event["payload"] for event in kept]
    assert check_log([json.dumps(event) for event in again]) == []


@pytest.mark.parametrize("with_deltas", [True, False])
def test_an_open_block_is_closed_with_its_text(*, with_deltas: bool) -> None:
    cut_off = log_of([*BEGIN, *grows("one", "a"), *grows("two", "b", "c", is_closed=False)])
    again = replayed(cut_off, with_deltas=with_deltas)
    assert again == replayed(cut_off, with_deltas=with_deltas)
    for event in again:
        parse_event(event)
    assert again[-1]["payload"] == {"agentId": "two", "reasoning": "bc", "verbosity": "full"}
    assert again[-1]["eventId"] not in {event["eventId"] for event in cut_off}
    assert [event["sequence"] for event in again] == list(range(len(again)))


@pytest.mark.parametrize("with_deltas", [True, False])
def test_an_open_block_is_closed_before_its_node_ends(*, with_deltas: bool) -> None:
    again = replayed(log_of([*BEGIN, *grows("one", "a", is_closed=False), *END]), with_deltas=with_deltas)
    assert [event["type"] for event in again[-3:]] == ["agent.reasoned", "node.completed", "run.completed"]


def test_a_partial_log_keeps_its_first_number() -> None:
    assert [event["sequence"] for event in replayed(RECORDED[2:], with_deltas=False)] == [2, 3, 4, 5]
    assert replayed([], with_deltas=True) == []


def test_the_recording_is_not_changed() -> None:
    before = json.dumps(RECORDED)
    replayed(RECORDED, with_deltas=False)
    assert json.dumps(RECORDED) == before


# divergence


def edited(change: Callable[[Recording], object]) -> list[Event]:
    recording = json.loads(json.dumps([*BEGIN, *grows("one", "a", "b"), *grows("one", "c"), *END]))
    change(recording)
    return log_of(recording, run_id="s", at="2026-01-01T00:00:00.000Z")


@pytest.mark.parametrize(
    ("change", "kind", "at", "point"),
    [
        (lambda said: said[4][1].update(reasoning="x"), "output", 2, "agent.reasoned"),
        (lambda said: said.pop(), "missing", 5, "run.completed"),
        (lambda said: said.append(["run.failed", {}]), "extra", 6, "run.failed"),
        (lambda said: said.__setitem__(7, ["node.failed", {}]), "type-mismatch", 4, "node.completed"),
    ],
)
def test_the_first_difference_is_reported(
    change: Callable[[Recording], object], kind: str, at: int, point: str
) -> None:
    found = divergence(RECORDED, edited(change))
    assert found is not None
    assert (found["sourceRunId"], found["divergenceKind"], found["atSequence"]) == ("r", kind, at)
    assert found["divergencePoint"] == point
    assert ("originalEventId" in found) == (kind != "extra")
    log = EventLog("s")
    parse_event(log.event("replay.diverged", found, timestamp=AT))


@pytest.mark.parametrize(
    "change",
    [
        lambda _: None,
        lambda said: said.__delitem__(slice(2, 4)),
        lambda said: said.__setitem__(slice(2, 4), grows("one", "ab", is_closed=False)),
    ],
)
def test_ids_times_and_delta_boundaries_are_ignored(change: Callable[[Recording], object]) -> None:
    assert divergence(RECORDED, edited(change)) is None


def named(run_id: str, call: str, interrupt: str, cause: str) -> list[Event]:
    """Return a log with an id of each kind."""
    suspended = event_log.approval("n", interrupt, f"{run_id}:n:0", "one", call_id=call, tool_name="t", details={})
    rows: Recording = [
        ("run.started", {"workflowId": "w", "metadata": {"public-sse.stream_id": run_id}}),
        ("output.chunk", {"nodeId": "n", "runId": run_id, "chunk": "x", "isLast": False, "channel": f"msg_{call}"}),
        ("agent.toolCalled", event_log.tool_call("one", "t", call)),
        ("agent.toolCalled", event_log.tool_call("one", "t", f"{call}_2")),
        ("agent.toolReturned", event_log.tool_call("one", "t", cause)),
        ("node.suspended", suspended),
    ]
    return log_of(rows, run_id)


def test_runs_with_other_ids_are_the_same() -> None:
    first = named("r", "call_1", "int_1", "call_1")
    assert divergence(first, named("s", "call_7", "int_7", "call_7")) is None
    found = divergence(first, named("s", "call_7", "int_7", "call_7_2"))
    assert found is not None
    assert (found["atSequence"], found["divergenceKind"]) == (4, "output")


# no request is sent twice


class Provider:
    """A provider that counts its requests."""

    def __init__(self) -> None:
        self.asked = 0

    def answer(self) -> list[bytes]:
        self.asked += 1
        lines = (
            {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}},
            {"type": "response.reasoning_text.delta", "item_id": "rs", "delta": f"thought {self.asked}"},
            {"type": "response.output_text.delta", "item_id": "msg", "delta": "said"},
            {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}},
        )
        return [json.dumps(line).encode() + b"\n" for line in lines]


def attempt(
    kept: InvocationLog, provider: Provider, *, events: int | None = None, with_deltas: bool = True
) -> list[Event]:
    """Run an attempt of a node or replay it; the host crashes after `events` events."""
    key = attempt_key("r", "n", 0, REQUEST)
    again = kept.recorded(key, with_deltas=with_deltas)
    if again is not None:
        return again
    kept.release(key)
    pipeline = build_pipeline(
        provider="openai_responses",
        dialect="openwop",
        policy=Policy(reasoning="full", text="off"),
        context=StreamContext(stream_id="r"),
        input_format="ndjson",
        output_format="ndjson",
        clock=lambda: 1_765_800_000.0,
    )
    said = b"".join(map(pipeline.feed, provider.answer())) + pipeline.close()
    made = [json.loads(line) for line in said.splitlines()][:events]
    for event in made:
        kept.record(key, event)
    return made


def test_a_complete_attempt_is_replayed() -> None:
    kept, provider = InvocationLog(max_attempts=4), Provider()
    first = attempt(kept, provider)
    assert attempt(kept, provider) == first
    collapsed = attempt(kept, provider, with_deltas=False)
    assert collapsed == attempt(kept, provider, with_deltas=False)
    assert [event["payload"]["reasoning"] for event in collapsed if event["type"] == "agent.reasoned"] == ["thought 1"]
    assert provider.asked == 1


def test_an_incomplete_attempt_is_not_replayed() -> None:
    kept, provider = InvocationLog(max_attempts=4), Provider()
    attempt(kept, provider, events=3)
    assert attempt(kept, provider)[-1]["type"] == "run.completed"
    assert attempt(kept, provider)[2]["payload"]["delta"] == "thought 2"
    assert provider.asked == 2


def test_the_oldest_attempt_is_dropped_first() -> None:
    kept = InvocationLog(max_attempts=2)
    for key in ("a", "b", "c"):
        for event in RECORDED:
            kept.record(key, event)
    assert kept.recorded("a") is None
    assert kept.recorded("b") == kept.recorded("c") == RECORDED


@pytest.mark.parametrize(
    "other",
    [("s", "n", 0, REQUEST), ("r", "m", 0, REQUEST), ("r", "n", 1, REQUEST), ("r", "n", 0, {**REQUEST, "input": "x"})],
)
def test_attempts_have_different_keys(other: tuple[str, str, int, dict[str, str]]) -> None:
    assert attempt_key("r", "n", 0, REQUEST) == attempt_key("r", "n", 0, dict(reversed(REQUEST.items())))
    assert attempt_key("r", "n", 0, REQUEST) != attempt_key(*other)


def test_the_order_of_members_is_not_part_of_the_key() -> None:
    one, other = {"a": [{"b": 1, "c": 2}], "d": 3}, {"d": 3, "a": [{"c": 2, "b": 1}]}
    assert attempt_key("r", "n", 0, one) == attempt_key("r", "n", 0, other)
    assert attempt_key("r", "n", 0, {"a": [1, 2]}) != attempt_key("r", "n", 0, {"a": [2, 1]})
