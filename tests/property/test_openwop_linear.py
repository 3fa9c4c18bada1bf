"""What a log costs to write, check, read and tell again grows with its size and no faster, as in `test_linear`."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

from projector.core.pipeline import build_pipeline
from projector.openwop.client import RunReader, replayed
from projector.openwop.contract.checker import check_log
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.property.test_linear import ROUNDS, added, done, event, text

Event: TypeAlias = Mapping[str, Any]

REDACTOR: Final = Redactor(Policy(reasoning="full"))


def thought(at: int) -> Event:
    return event("reasoning_text.delta", content_index=0, delta="ab") | {"output_index": at}


def turns(count: int) -> Iterator[Event]:
    """Two items of one agent reason in turns: each delta closes a block."""
    for number in range(count):
        yield thought(number % 2)


def grows(count: int) -> Iterator[Event]:
    for _ in range(count):
        yield thought(0)


def calls(count: int) -> Iterator[Event]:
    """Calls that are all open at once, then closed."""
    for at in range(count):
        yield added(at, "web_search_call")
    for at in range(count):
        yield done(at, "web_search_call")


def approvals(count: int) -> Iterator[Event]:
    for at in range(count):
        yield done(at, "mcp_approval_request", name="book", arguments="{}")
    yield {"type": "response.completed", "response": {"status": "completed"}}


def steps(count: int) -> Iterator[Event]:
    """A workflow of many steps, each with an agent of its own."""
    for number in range(count):
        yield {
            "type": "projector.context",
            "agent": f"agent {number}",
            "workflow": {"step_name": f"step {number}"},
        }
        yield text(at=number)


class Row(NamedTuple):
    """A shape of stream, and the size at which it takes some 20 ms."""

    name: str
    make: Callable[[int], Iterator[Event]]
    size: int


ROWS: Final = (
    Row("items that reason in turns", turns, 800),
    Row("a long block", grows, 1_500),
    Row("many open calls", calls, 500),
    Row("many approvals", approvals, 200),
    Row("many steps and agents", steps, 500),
)


def written(row: Row, size: int) -> Callable[[], list[bytes]]:
    """Give what writes the log of a stream."""
    lines = [json.dumps(said).encode() + b"\n" for said in row.make(size)]

    def write() -> list[bytes]:
        pipeline = build_pipeline(
            provider="openai_responses",
            dialect="openwop",
            redactor=REDACTOR,
            input_format="ndjson",
            output_format="ndjson",
            takes_host_events=True,
        )
        return (b"".join(map(pipeline.feed, lines)) + pipeline.close()).splitlines()

    return write


def consumed(row: Row, size: int) -> Callable[[], None]:
    """Give what checks, reads and replays the log of a stream."""
    log = written(row, size)()
    events = [json.loads(line) for line in log]

    def consume() -> None:
        assert check_log(log) == []
        reader = RunReader()
        for said in replayed(events, with_deltas=True):
            reader.feed(said)
        replayed(events, with_deltas=False)

    return consume


@pytest.mark.parametrize("make", [written, consumed])
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_cost_grows_with_size(row: Row, make: Callable[[Row, int], Callable[[], object]]) -> None:
    once, twice = make(row, row.size), make(row, 2 * row.size)
    cost_of_once, cost_of_twice = float("inf"), float("inf")
    for _ in range(ROUNDS):
        cost_of_once = min(cost_of_once, cpu_s(once))
        cost_of_twice = min(cost_of_twice, cpu_s(twice))
        if cost_of_twice < 3 * cost_of_once:
            return
    pytest.fail(f"{cost_of_twice / cost_of_once:.1f} times the cost for twice the size")


def cpu_s(work: Callable[[], object]) -> float:
    """Give the CPU seconds of some work; the collector rests meanwhile."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        work()
        return time.process_time() - start
    finally:
        gc.enable()
