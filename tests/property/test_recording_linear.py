"""The cost of a recording grows in proportion to its stream (counted: `cost.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import pytest

from projector.recording import record
from tests.property.cost import assert_linear
from tests.property.recordings import FINDER, lines_of
from tests.rule_samples import MIXED

KEY: Final = "sk-" + MIXED[:48]


def delta(text: str, **owner: object) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "delta": text, **owner}


def call(index: int | None, text: str) -> dict[str, Any]:
    fragment = {"id": f"call_{index}", "function": {"arguments": text}} | ({} if index is None else {"index": index})
    return {"choices": [{"delta": {"tool_calls": [fragment]}}]}


class Row(NamedTuple):
    """A shape of stream, and the number of events to begin with."""

    name: str
    make: Callable[[int], Iterable[object]]
    size: int
    provider: str = "openai_responses"


ROWS: Final = (
    Row("one text", lambda n: [delta("a word ", item_id="m") for _ in range(n)], 200),
    Row("one text of secrets", lambda n: [delta(KEY[at % 50 : at % 50 + 1], item_id="m") for at in range(n)], 200),
    Row("one withheld value", lambda n: [delta('{"token": "'), *[delta("a") for _ in range(n)]], 200),
    Row("ids that rotate", lambda n: [delta("a word ", item_id=f"m{at}", output_index=0) for at in range(n)], 100),
    Row("ids that are secrets", lambda n: [delta("a", item_id=f"{KEY}{at}") for at in range(n)], 40),
    Row("a long string", lambda n: [{"type": "error", "message": "word " * 100 * n}], 20),
    Row("many strings of one event", lambda n: [{"type": "new", "a": [f"word {at}" for at in range(n)]}], 100),
    Row("many names", lambda n: [{"type": "new", **{f"name_{at}": "a" for at in range(n)}}], 60),
    Row("many types", lambda n: [{"type": f"new_{at}", "a": "b"} for at in range(n)], 80),
    Row("many calls", lambda n: [call(at, "a word") for at in range(n)], 80, "openai_chat"),
    Row("calls without index", lambda n: [call(None, "a word") for _ in range(n)], 80, "openai_chat"),
    Row(
        "unknown pieces", lambda n: [{"choices": [{"delta": {"new": "a word "}}]} for _ in range(n)], 80, "openai_chat"
    ),
)


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_cost_grows_with_size(row: Row) -> None:
    def work(size: int) -> Callable[[], object]:
        stream = lines_of(row.make(size))
        return lambda: record(row.provider, stream, FINDER, input_format="ndjson")

    assert_linear(work, row.size)
