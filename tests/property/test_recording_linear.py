"""A recording costs CPU time in proportion to its stream: time(2n)/time(n) < 3, the least of several runs."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import pytest

from projector.recording import record
from projector.redaction.formats.row import MIXED
from tests.property.recordings import FINDER, lines_of

ROUNDS: Final = 6
KEY: Final = "sk-" + MIXED[:48]


def delta(text: str, **owner: object) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "delta": text, **owner}


def call(index: int | None, text: str) -> dict[str, Any]:
    fragment = {"id": f"call_{index}", "function": {"arguments": text}} | ({} if index is None else {"index": index})
    return {"choices": [{"delta": {"tool_calls": [fragment]}}]}


class Row(NamedTuple):
    """A shape of stream, and the number of its events that take some 20 ms."""

    name: str
    make: Callable[[int], Iterable[object]]
    size: int
    provider: str = "openai_responses"


ROWS: Final = (
    Row("one text", lambda n: [delta("a word ", item_id="m") for _ in range(n)], 1_000),
    Row("one text of secrets", lambda n: [delta(KEY[at % 50 : at % 50 + 1], item_id="m") for at in range(n)], 1_000),
    Row("one withheld value", lambda n: [delta('{"token": "'), *[delta("a") for _ in range(n)]], 1_000),
    Row("ids that rotate", lambda n: [delta("a word ", item_id=f"m{at}", output_index=0) for at in range(n)], 500),
    Row("ids that are secrets", lambda n: [delta("a", item_id=f"{KEY}{at}") for at in range(n)], 200),
    Row("a long string", lambda n: [{"type": "error", "message": "word " * 100 * n}], 50),
    Row("many strings of one event", lambda n: [{"type": "new", "a": [f"word {at}" for at in range(n)]}], 500),
    Row("many names", lambda n: [{"type": "new", **{f"name_{at}": "a" for at in range(n)}}], 300),
    Row("many types", lambda n: [{"type": f"new_{at}", "a": "b"} for at in range(n)], 400),
    Row("many calls", lambda n: [call(at, "a word") for at in range(n)], 400, "openai_chat"),
    Row("calls without index", lambda n: [call(None, "a word") for _ in range(n)], 400, "openai_chat"),
    Row(
        "unknown pieces", lambda n: [{"choices": [{"delta": {"new": "a word "}}]} for _ in range(n)], 400, "openai_chat"
    ),
)


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_cost_grows_with_size(row: Row) -> None:
    once, twice = lines_of(row.make(row.size)), lines_of(row.make(2 * row.size))
    cost_of_once, cost_of_twice = float("inf"), float("inf")
    for _ in range(ROUNDS):
        cost_of_once = min(cost_of_once, cpu_s(row, once))
        cost_of_twice = min(cost_of_twice, cpu_s(row, twice))
        if cost_of_twice < 3 * cost_of_once:
            return
    pytest.fail(f"{cost_of_twice / cost_of_once:.1f} times the cost for twice the size")


def cpu_s(row: Row, stream: bytes) -> float:
    """Give the CPU seconds of one recording; the collector rests meanwhile."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        record(row.provider, stream, FINDER, input_format="ndjson")
        return time.process_time() - start
    finally:
        gc.enable()
