"""The cost of writing and checking a log grows in proportion to its size (counted: `cost.py`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

from projector.core.pipeline import build_pipeline
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.openwop_reader import check_log
from tests.property.cost import assert_linear
from tests.property.test_linear import added, done, event, text

Event: TypeAlias = Mapping[str, Any]

REDACTOR: Final = Redactor(Policy(reasoning="full"))


def thought(at: int) -> Event:
    return event("reasoning_text.delta", content_index=0, delta="ab") | {"output_index": at}


def turns(count: int) -> Iterator[Event]:
    """Interleaved reasoning items of one agent: each delta closes a block."""
    for number in range(count):
        yield thought(number % 2)


def grows(count: int) -> Iterator[Event]:
    for _ in range(count):
        yield thought(0)


def calls(count: int) -> Iterator[Event]:
    """Calls that are open at the same time."""
    for at in range(count):
        yield added(at, "web_search_call")
    for at in range(count):
        yield done(at, "web_search_call")


def approvals(count: int) -> Iterator[Event]:
    for at in range(count):
        yield done(at, "mcp_approval_request", name="book", arguments="{}")
    yield {"type": "response.completed", "response": {"status": "completed"}}


def steps(count: int) -> Iterator[Event]:
    """A workflow of many steps with different agents."""
    for number in range(count):
        yield {
            "type": "projector.context",
            "agent": f"agent {number}",
            "workflow": {"step_name": f"step {number}"},
        }
        yield text(at=number)


class Row(NamedTuple):
    """A kind of stream, and its initial size."""

    name: str
    make: Callable[[int], Iterator[Event]]
    size: int


ROWS: Final = (
    Row("items that reason in turns", turns, 160),
    Row("a long block", grows, 300),
    Row("many open calls", calls, 100),
    Row("many approvals", approvals, 50),
    Row("many steps and agents", steps, 100),
)


def written(row: Row, size: int) -> Callable[[], list[bytes]]:
    """Return a function that writes the log of a stream."""
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
    """Return a function that checks the log of a stream."""
    log = written(row, size)()

    def consume() -> None:
        assert check_log(log) == []

    return consume


@pytest.mark.parametrize("make", [written, consumed])
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_cost_grows_with_size(row: Row, make: Callable[[Row, int], Callable[[], object]]) -> None:
    assert_linear(lambda size: make(row, size), row.size)
