"""Slots of items (CONTRACT D6), their announcement (D7), and the ids of calls (D8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

Event: TypeAlias = dict[str, Any]
Place: TypeAlias = tuple[str, int, str]

SHORT: Final = {"output_item.added": "+", "output_item.done": "-"}


def added(item_type: str, item_id: str | None, index: object = None, **members: object) -> Event:
    item = {"type": item_type, "id": item_id, **members}
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(item_type: str, item_id: str | None, index: object = None, **members: object) -> Event:
    return added(item_type, item_id, index, **members) | {"type": "response.output_item.done"}


def delta(item_id: str | None, index: object = None) -> Event:
    return {"type": "response.output_text.delta", "output_index": index, "item_id": item_id, "delta": "Hi"}


def refused(item_id: str, index: int) -> Event:
    return {"type": "response.refusal.delta", "output_index": index, "item_id": item_id, "delta": "No"}


UNNAMED: Final = (("+", 2, "item_2"), ("message.delta", 2, "item_2"))
COMPLETED: Event = {"type": "response.completed", "response": {"status": "completed"}}


def places(said: list[Event]) -> list[Place]:
    return [
        (SHORT.get(kind := str(it["kind"]), kind), it["output_index"], it["item_id"]) for it in said if "item_id" in it
    ]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [added("reasoning", "rs", 0), added("message", "msg", 1)],
            [("+", 0, "rs"), ("+", 1, "msg")],
            id="D6-the-index-of-the-provider-is-the-place",
        ),
        pytest.param(
            [added("message", "b", 3), added("message", "a", 1)],
            [("+", 3, "b"), ("+", 1, "a")],
            id="D6-places-may-be-taken-in-any-order",
        ),
        pytest.param(
            [added("message", "a", 2), added("message", "b")],
            [("+", 2, "a"), ("+", 3, "b")],
            id="D6-without-an-index-the-next-free-slot",
        ),
        pytest.param(
            [added("message", "a"), delta("a"), added("message", "b"), delta("a")],
            [("+", 0, "a"), ("message.delta", 0, "a"), ("+", 1, "b"), ("message.delta", 0, "a")],
            id="D6-without-an-index-the-id-correlates",
        ),
        pytest.param(
            [added("message", "a"), delta("a", 4), delta("x", 4), delta("b", 5)],
            [("+", 0, "a"), *[("message.delta", 0, "a")] * 2, ("+", 5, "b"), ("message.delta", 5, "b")],
            id="D6-an-index-that-comes-later-than-its-item",
        ),
        pytest.param(
            [added("message", None), delta(None), delta(None)],
            [("+", 0, "item_0"), ("message.delta", 0, "item_0"), ("message.delta", 0, "item_0")],
            id="D6-with-neither-the-last-open-item-of-the-type",
        ),
        pytest.param(
            [added("message", "a", 0), added("message", "b", 0)],
            [("+", 0, "a")],
            id="D6-an-item-announced-twice-is-one",
        ),
        pytest.param(
            [added("message", "a"), added("reasoning", "b"), delta(None), done("message", "a"), delta(None)],
            [("+", 0, "a"), ("+", 1, "b"), ("message.delta", 0, "a"), ("-", 0, "a"), *UNNAMED],
            id="D6-neither-a-closed-item-nor-one-of-another-type",
        ),
        pytest.param(
            [added("reasoning", "a", 0), done("reasoning", "a", 0), added("message", "b", 0), delta("b", 0)],
            [("+", 0, "a"), ("-", 0, "a"), ("+", 1, "b"), ("message.delta", 1, "b")],
            id="D6-added-on-a-closed-slot-opens-a-new-one",
        ),
        pytest.param(
            [added("reasoning", None, 0), added("message", "b", 0), delta("b", 0)],
            [("+", 0, "item_0"), ("-", 0, "item_0"), ("+", 1, "b"), ("message.delta", 1, "b")],
            id="D6-one-that-collides-gets-the-next-free-slot",
        ),
        pytest.param(
            [added("message", "a", 0), added("reasoning", "b", 0), delta("a", 0), done("message", "a", 0)],
            [("+", 0, "a"), ("+", 1, "b"), ("message.delta", 0, "a"), ("-", 0, "a")],
            id="D6-the-ids-correlate-where-items-share-an-index",
        ),
        pytest.param(
            [added("reasoning", "a", 0), done("message", "b", 0), done("reasoning", "a", 0)],
            [("+", 0, "a"), ("+", 1, "b"), ("-", 1, "b"), ("-", 0, "a")],
            id="D6-the-end-of-another-item-at-the-index",
        ),
        pytest.param(
            [added("message", "a", 0), added("message", "b", 0), refused("x", 0), done("message", "y", 0)],
            [("+", 0, "a"), ("refusal.delta", 0, "a"), ("-", 0, "a")],
            id="D6-ids-that-rotate-keep-the-first",
        ),
        pytest.param(
            [added("message", "msg", 0), added("message", "msg", 1), delta("msg", 0), delta("msg", 1)],
            [("+", 0, "msg"), ("+", 1, "item_1"), ("message.delta", 0, "msg"), ("message.delta", 1, "item_1")],
            id="D6-a-placeholder-of-several-items",
        ),
        pytest.param(
            [added("message", "item_1", 0), added("message", "item_1", 1), added("message", "item_1", 2)],
            [("+", 0, "item_1"), ("+", 1, "item_2"), ("+", 2, "item_3")],
            id="D6-names-of-slots-skip-taken-ones",
        ),
        pytest.param(
            [added("message", "a", -1), added("message", "b", True), added("message", "c", "0"), delta("a", 1.0)],
            [("+", 0, "a"), ("+", 1, "b"), ("+", 2, "c"), ("message.delta", 0, "a")],
            id="D6-what-is-no-position-is-no-index",
        ),
        pytest.param(
            [delta("msg", 0)],
            [("+", 0, "msg"), ("message.delta", 0, "msg")],
            id="D7-unannounced-item",
        ),
        pytest.param(
            [done("message", "msg", 0)],
            [("+", 0, "msg"), ("-", 0, "msg")],
            id="D7-unannounced-item-that-is-done",
        ),
        pytest.param(
            [added("message", "msg", 0), done("message", "msg", 0), delta("msg", 0), done("message", "msg", 0)],
            [("+", 0, "msg"), ("-", 0, "msg")],
            id="D7-a-closed-item-says-nothing",
        ),
        pytest.param(
            [added("message", "a", 0), added("message", "b", 1), done("message", "b", 1), COMPLETED],
            [("+", 0, "a"), ("+", 1, "b"), ("-", 1, "b"), ("-", 0, "a")],
            id="D7-open-items-are-closed-at-the-end",
        ),
    ],
)
def test_places(play: Callable[..., list[Event]], events: list[Event], expected: list[Place]) -> None:
    assert places(play(*events)) == expected


def test_d6_a_later_response_stands_behind_the_slots_already_used(open_stream: Callable[..., Any]) -> None:
    stream = open_stream(run=True)
    stream.feed(added("message", "a", 4), COMPLETED)
    assert stream.next_response() == []
    said = stream.feed(added("message", "a", 0), added("message", "b", 2), COMPLETED)
    assert places(said)[:2] == [("+", 5, "item_5"), ("+", 7, "b")]


@pytest.mark.parametrize(
    ("output", "status"),
    [
        pytest.param([], "incomplete", id="D7-not-in-the-snapshot"),
        pytest.param([{"type": "message", "id": "msg", "status": "completed"}], "completed", id="D7-completed"),
        pytest.param([{"type": "message", "id": "msg", "status": "incomplete"}], "incomplete", id="D7-incomplete"),
        pytest.param([{"type": "message", "id": "msg", "status": "in_progress"}], "incomplete", id="D7-in-progress"),
        pytest.param([{"type": "message", "id": "new", "status": "completed"}], "completed", id="D7-by-place"),
        pytest.param([{"type": "reasoning"}, {"type": "message", "status": "completed"}], "completed", id="D7-by-type"),
        pytest.param([{"type": "reasoning", "id": "msg", "status": "completed"}], "incomplete", id="D7-another-type"),
    ],
)
def test_the_snapshot_says_how_an_open_item_ended(
    play: Callable[..., list[Event]], output: list[Event], status: str
) -> None:
    ended = {"type": "response.incomplete", "response": {"status": "incomplete", "output": output}}
    said = play(added("message", "msg", 0), ended)
    assert [it["status"] for it in said if it["kind"] == "output_item.done" and it["item_id"] == "msg"] == [status]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param([("fc", "call_1")], ["call_1"], id="D8-call-id"),
        pytest.param([("ws", "")], ["ws"], id="D8-an-empty-one-is-none"),
        pytest.param([("ws", None)], ["ws"], id="D8-item-id"),
        pytest.param([("a", "call_0"), ("b", "call_0")], ["call_0", "call_0_1"], id="D8-repeated"),
        pytest.param([("a", "b_1"), ("b", None), ("b", "b")], ["b_1", "b", "b_2"], id="D8-repeated-by-an-item-id"),
        pytest.param([("a", "x" * 300), ("b", "x" * 300)], ["x" * 256, "x" * 200 + "_1"], id="D8-within-the-limit"),
    ],
)
def test_call_ids(play: Callable[..., list[Event]], calls: list[tuple[str, str | None]], expected: list[str]) -> None:
    events = [added("function_call", item_id, at, call_id=call_id) for at, (item_id, call_id) in enumerate(calls)]
    said = [it["tool"]["tool_call_id"] for it in play(*events) if it["kind"] == "tool.status"]
    assert said == expected


def test_d8_a_call_keeps_the_id_it_was_first_said_with(play: Callable[..., list[Event]]) -> None:
    arguments = {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc", "delta": "{}"}
    said = play(arguments, done("function_call", "fc", 0, call_id="call_9", name="f", arguments="{}"))
    ids = {it.get("tool_call_id") or it["tool"]["tool_call_id"] for it in said if it["kind"].startswith("tool.")}
    assert ids == {"fc"}


def test_d30_names_of_dropped_events_are_bounded(open_stream: Callable[..., Any]) -> None:
    stream = open_stream()
    stream.feed(*({"type": f"noise.{number}"} for number in range(100)), {"type": "x" * 1_000}, {"type": 5}, {})
    assert len(stream.dropped) == 65
    assert stream.dropped["other"] == 100 - 64 + 3


def of_call(kind: str, number: int, **members: object) -> Event:
    return {"type": f"response.function_call_arguments.{kind}", "item_id": f"fc_{number}", "output_index": 0, **members}


def call(number: int, arguments: object = "") -> Event:
    return added("function_call", f"fc_{number}", 0, call_id=f"call_{number}", name=f"f{number}", arguments=arguments)


def test_d6_parallel_calls_at_one_index_keep_their_arguments(play: Callable[..., list[Event]]) -> None:
    texts = ['{"a":1}', '{"b":2}']
    events = [call(0), call(1)]
    events += [of_call("delta", number, delta=text) for number, text in enumerate(texts)]
    events += [of_call("done", number, arguments=text) for number, text in enumerate(texts)]
    events += [call(number, text) | {"type": "response.output_item.done"} for number, text in enumerate(texts)]
    said = [one for one in play(*events, COMPLETED) if one["kind"] == "tool.arguments.done"]
    assert [(one["output_index"], one["tool_name"], one["arguments_text"]) for one in said] == [
        (0, "f0", texts[0]),
        (1, "f1", texts[1]),
    ]
