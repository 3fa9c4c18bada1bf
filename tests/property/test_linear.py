"""The cost of a whole stream grows in proportion to its size, also for hostile input.

A row is a stream of one shape, and a size at which a quadratic cost would show. Cost is counted (`cost.py`), so a busy
machine cannot fail a row. The decoder and the cleaners have rows of their own, in `test_sse_properties` and
`test_redaction_linear`; `bench/linear.py` prints ratios of CPU time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

from bench import inputs as bench_inputs
from bench import memory
from projector.core.pipeline import build_pipeline
from projector.dialects import DIALECTS
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.property.cost import alone, assert_linear, assert_linear_up_to_eight

Event: TypeAlias = Mapping[str, Any]

READ_BYTES: Final = 1_400
REDACTOR: Final = Redactor(Policy())


class Input(NamedTuple):
    """Input of the pipeline: reads of a provider, then events of the host."""

    reads: list[bytes]
    hosted: tuple[Event, ...] = ()
    provider: str = "openai_responses"
    redactor: Callable[[], Redactor] = lambda: REDACTOR


class Row(NamedTuple):
    """A shape of input, and the size to begin with."""

    name: str
    make: Callable[[int], Input]
    size: int


def event(name: str, **members: object) -> dict[str, object]:
    return {"type": f"response.{name}", "output_index": 0, **members}


def added(at: int, item_type: str, **members: object) -> Event:
    return event("output_item.added", item={"type": item_type, **members}) | {"output_index": at}


def done(at: int, item_type: str, **members: object) -> Event:
    return event("output_item.done", item={"type": item_type, **members}) | {"output_index": at}


def text(delta: str = "ab", at: int = 0) -> Event:
    return event("output_text.delta", content_index=at, delta=delta)


def wire(events: Iterable[Event]) -> bytes:
    return b"".join(b"data: " + json.dumps(said).encode() + b"\n\n" for said in events)


def cut(data: bytes, size: int = READ_BYTES) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def events(said: Iterable[Event]) -> Input:
    return Input(cut(wire(said)))


def fragments(unit: str, size: int, count: int) -> Input:
    """Return the arguments of one call, an opening and a repeated unit, in fragments of equal size."""
    whole = '{"a": ' + unit * count
    return events(
        event("function_call_arguments.delta", item_id="fc", delta=whole[start : start + size])
        for start in range(0, len(whole), size)
    )


def redactions(count: int) -> Input:
    whole = json.dumps({f"password {at}": "x" for at in range(count)})
    return events([added(0, "function_call", id="fc"), done(0, "function_call", id="fc", arguments=whole)])


def output(value: Callable[[int], object], count: int) -> Input:
    """Return an MCP call with a large output."""
    return events([added(0, "mcp_call", id="m"), done(0, "mcp_call", id="m", output=json.dumps(value(count)))])


def hosted_output(count: int) -> Input:
    value = {"rows": [["a"] * 50] * count}
    answer = {"type": "projector.tool_output", "call_id": "c", "output": value}
    return Input(cut(wire([added(0, "function_call", id="fc", call_id="c")])), hosted=(answer,))


def citation(at: int) -> Event:
    page = {"type": "url_citation", "url": f"https://example.org/{at}", "title": f"page {at}"}
    return event("output_text.annotation.added", content_index=0, annotation=page)


def cited_search(count: int) -> Input:
    """Return a search, and a message that cites many pages."""
    said = [added(1, "web_search_call", id="ws"), *map(citation, range(count)), done(0, "message")]
    return events([*said, done(1, "web_search_call", id="ws")])


def sources(count: int) -> Input:
    """Return a search of many pages that reports its progress many times."""
    pages = [{"type": "url", "url": f"https://example.org/{at}"} for at in range(count)]
    search = added(0, "web_search_call", id="ws", action={"type": "search", "query": "q", "sources": pages})
    return events([search, *[event("web_search_call.searching", item_id="ws")] * count])


def open_items(count: int) -> Input:
    """Return items that stay open, and many reads without events."""
    return Input([wire(added(at, "message", id=f"m{at}") for at in range(count)), *[b":\n"] * (4 * count)])


def taken_ids(count: int) -> Input:
    """Return items with the ids that would replace the duplicate ids of later items."""
    taken = [added(at, "message", id=f"item_{count + at}") for at in range(count)]
    return events([*taken, *(added(count + at, "message", id="same") for at in range(count))])


def calls_of_one_id(count: int) -> Input:
    said = ([added(at, "function_call", call_id="c"), done(at, "function_call", call_id="c")] for at in range(count))
    return events(both for pair in said for both in pair)


def lanes_in_one_read(count: int) -> Input:
    """Return two texts that take turns, so that each run of deltas ends a lane."""
    said = ({**text(" word"), "item_id": f"msg_{at // 8 % 2}", "sequence_number": at} for at in range(count))
    return Input([wire(said)])


def placeless(count: int) -> Input:
    """Return deltas without item id, after many items of another type."""
    other = [added(at, "function_call", id=f"fc{at}") for at in range(1, count)]
    return events([added(0, "message", id="m"), *other, *[{"type": text()["type"], "delta": "ab"}] * count])


def displaced(count: int) -> Input:
    """Return texts at positions where the finished message has refusals."""
    parts = [{"type": "refusal", "refusal": ""}] * count + [{"type": "output_text", "text": "ab"}] * count
    return events([*(text(at=at) for at in range(count)), done(0, "message", content=parts)])


def registered(count: int) -> Input:
    """Return many registered values, and a text with many prefixes of them."""
    values = [f"value-{at:08d}-secret" for at in range(count)]
    policy = Policy.model_validate({"registered": [{"value": value} for value in values]})
    return events([text("value-0000 and value-1")] * 500)._replace(redactor=lambda: Redactor(policy))


def chat(contents: Iterable[str]) -> Input:
    chunks = ({"id": "c", "choices": [{"index": 0, "delta": {"content": content}}]} for content in contents)
    return Input(cut(wire(chunks)), provider="openai_chat")


def chat_calls(count: int) -> Input:
    """Return calls that all begin before the first one ends."""
    begun = [{"index": at, "id": f"call_{at}", "function": {"name": "f", "arguments": "{"}} for at in range(count)]
    ended = [{"index": at, "function": {"arguments": "}"}} for at in range(count)]
    chunks = ({"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in begun + ended)
    return Input(cut(wire(chunks)), provider="openai_chat")


COMPLETED: Final = {"type": "response.completed", "response": {"status": "completed", "output": []}}

ROWS: Final = (
    # bytes
    Row("one huge event in tiny reads", lambda n: Input(cut(wire([text("a" * n)]), 7)), 10_000),
    Row("CR-only lines", lambda n: Input(cut(wire([text()] * n).replace(b"\n", b"\r"), 10)), 120),
    Row("many lines in one read", lambda n: Input([b": comment\n" * n + b"data:\n" * n]), 5_000),
    Row("many events in one read", lambda n: Input([wire([text()] * n)]), 600),
    Row("lanes that end in one read", lanes_in_one_read, 1_500),
    Row("deep JSON in events", lambda n: Input(cut((b"data: " + b"[" * 2_000 + b"\n\n") * n)), 25),
    # places
    Row("many text deltas", lambda n: events([text()] * n), 800),
    Row("many unknown event types", lambda n: events({"type": f"unknown.{at}"} for at in range(n)), 1_200),
    Row(
        "many items",
        lambda n: events(said for at in range(n) for said in (added(at, "message"), done(at, "message"))),
        150,
    ),
    Row("many items that stay open", open_items, 250),
    Row("many items whose ids are taken", taken_ids, 80),
    Row("many calls of one id", calls_of_one_id, 80),
    Row("many parts of one message", lambda n: events(text(at=at) for at in range(n)), 200),
    Row("many parts at other places", displaced, 100),
    Row("many deltas without a place", placeless, 150),
    Row("many citations", lambda n: events(map(citation, range(n))), 100),
    Row("many citations of a search", cited_search, 100),
    Row("many sources of a search", sources, 800),
    # arguments
    Row("many deltas of arguments", partial(fragments, '"word ', 4), 600),
    Row("deep JSON in arguments", partial(fragments, '{"a": ', 4), 400),
    Row("a long near-match of a credential", partial(fragments, "a-", 4), 2_000),
    Row("many near-matches of a credential", partial(fragments, '"sk-a AKIA ghp_ ', 4), 250),
    Row("thousands of redactions in one object", redactions, 250),
    # outputs
    Row("a huge output object", partial(output, lambda n: [["text"] * 100] * n), 10),
    Row("a huge output of the host", hosted_output, 2),
    # of the host
    Row("many registered values", registered, 100),
    # reasoning in tags
    Row("deltas in a think tag", lambda n: events([text("<think>"), *[text("word ")] * n]), 300),
    Row("beginnings of its end", lambda n: events([text("<think>"), *[text("</thin"), text("k")] * n]), 150),
    Row("ends of responses", lambda n: events([*(text("a", at) for at in range(n)), *[COMPLETED] * n]), 150),
    # Chat
    Row("a long unclosed think tag", lambda n: chat(["<think>", *["word "] * n]), 400),
    Row("many beginnings of a think tag's end", lambda n: chat(["<think>", *["</thin", "k"] * n]), 200),
    Row("many blanks before a text", lambda n: chat([*["  "] * n, "a"]), 500),
    Row("many calls of Chat", chat_calls, 80),
)


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_cost_grows_with_size(row: Row) -> None:
    assert_linear(lambda size: work_of(row.make(size)), row.size)


LONG_ID: Final = "fc_" + "x" * 220
"""The beginning of IDs that differ only behind what the ID of an output repeats of them."""


def alternating(*said: Event) -> Callable[[int], Input]:
    """Return a stream of some events in turn."""
    return lambda count: events([*said] * count)


def guarded(make: Callable[[int], Input]) -> Callable[[int], Input]:
    """Return the same stream under a policy with registered values."""
    policy = Policy.model_validate({"registered": [{"value": "Quiet-Heron-7741"}, {"value": "eter\n\nnal"}]})
    redactor = Redactor(policy)
    return lambda count: make(count)._replace(redactor=lambda: redactor)


def outputs_of_one_prefix(count: int) -> Input:
    """Return calls whose IDs have a long prefix in common, and their outputs."""
    said: list[Event] = []
    for at in range(0, 2 * count, 2):
        call = {"id": f"{LONG_ID}{at}", "call_id": f"c{at}", "name": "f", "arguments": "{}"}
        said += [added(at, "function_call", **call), done(at, "function_call", **call)]
        said.append(done(at + 1, "function_call_output", id=f"o{at}", call_id=f"c{at}", output="x"))
    return events(said)


def chained_call_ids(count: int) -> Input:
    """Return calls that have the IDs with which repeated ones would be replaced."""
    names = ["_9" * 101, *("c" + f"_{count + 1}" * at for at in range(1, count))]
    return events(added(at, "function_call", call_id=name) for at, name in enumerate([*names, *["_9" * 101, "c"] * 2]))


def cited_messages(count: int) -> Input:
    """Return a search, and many messages that cite one page each."""
    said: list[Event] = [added(0, "web_search_call", id="ws"), done(0, "web_search_call", id="ws")]
    for at in range(1, count + 1):
        page = {"type": "url_citation", "url": f"https://example.org/{at}", "start_index": 0, "end_index": 2}
        part = {"type": "output_text", "text": "ab", "annotations": [page]}
        said += [added(at, "message", id=f"m{at}"), done(at, "message", id=f"m{at}", content=[part])]
    return events(said)


def summary(at: int) -> Event:
    return event("reasoning_summary_text.delta", item_id="rs", summary_index=at, delta="ab ")


REFUSAL: Final = event("refusal.delta", content_index=1, delta="no ")
ANSWER: Final = event("output_text.delta", content_index=0, delta="ab ")
CONTRADICTION: Final = event("output_text.done", content_index=0, text="x")

PROVOKED: Final = (
    Row("summaries in turn", alternating(summary(0), summary(1)), 16),
    Row("text and refusal in turn", alternating(ANSWER, REFUSAL), 16),
    Row("two texts in turn", alternating(text(at=0), text(at=1)), 10),
    Row("two texts in turn with registered values", guarded(alternating(text("say Qui"), text("eter", 1))), 8),
    Row("deltas and contradictions in turn", alternating(ANSWER, CONTRADICTION), 20),
    Row("outputs of calls with one long prefix", outputs_of_one_prefix, 16),
    Row("calls with the IDs of others", chained_call_ids, 12),
    Row("calls of one ID", calls_of_one_id, 12),
    Row("messages with one citation each", cited_messages, 8),
)
"""Shapes that a provider can choose."""


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("row", PROVOKED, ids=[row.name for row in PROVOKED])
def test_no_dialect_can_be_slowed_down(row: Row, dialect: str) -> None:
    assert_linear_up_to_eight(lambda size: work_of(row.make(size), dialect), row.size)


def work_of(given: Input, dialect: str = "public_sse_v1") -> Callable[[], None]:
    """Return a function that runs one stream from start to end."""
    redactor = given.redactor()

    def run() -> None:
        pipeline = build_pipeline(provider=given.provider, dialect=dialect, redactor=redactor)
        for read in given.reads:
            pipeline.feed(read)
        for hosted in given.hosted:
            pipeline.host(hosted)
        pipeline.close()

    return run


@pytest.mark.parametrize("make", memory.GROWING.values(), ids=memory.GROWING)
def test_memory_grows_with_the_text_and_not_with_its_deltas(make: Callable[[int], bench_inputs.Input]) -> None:
    once, more = make(2_000), make(8_000)
    with alone():
        held = memory.after_deltas(more) - memory.after_deltas(once)
    needed = memory.of_text(more) - memory.of_text(once)
    assert held < 3 * needed  # twice where a stage keeps it too; each delta by itself would take ten times as much
