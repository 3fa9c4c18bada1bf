"""Items appear and close (seed section 9.2, CONTRACT D22, D30)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

from projector.core.handlers.items import ITEMS_ONLY

Event: TypeAlias = dict[str, Any]

SECRET: Final = "harbour-master-7781"


def added(item: object, index: int = 0) -> Event:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(item: object, index: int = 0) -> Event:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


@pytest.mark.parametrize("item_type", ITEMS_ONLY)
def test_d22_items_without_a_public_tool_type_are_said_as_items_only(
    play: Callable[..., list[Event]], item_type: str
) -> None:
    item = {
        "type": item_type,
        "id": "it",
        "call_id": "call_1",
        "name": "name",
        "arguments": "{}",
        "output": "output",
        "action": {"commands": ["ls"]},
        "tools": [{"name": "tool"}],
        "encrypted_content": "gAAA",
    }
    place = {"output_index": 0, "item_id": "it", "item_type": item_type}
    said = play(added({**item, "status": "in_progress"}), done({**item, "status": "completed"}))
    assert [frame for frame in said if frame["kind"] != "item.members"] == [
        {"kind": "output_item.added", **place, "status": "in_progress"},
        {"kind": "output_item.done", **place, "status": "completed"},
    ]


@pytest.mark.parametrize(
    ("status", "opened", "closed"),
    [
        ("in_progress", "in_progress", "completed"),
        ("completed", "completed", "completed"),
        ("incomplete", "incomplete", "incomplete"),
        ("failed", "failed", "failed"),
        pytest.param("generating", "in_progress", "completed", id="a-tools-progress-is-no-status-of-an-item"),
        pytest.param(None, "in_progress", "completed", id="D30-null"),
        pytest.param(["completed"], "in_progress", "completed", id="D30-a-wrong-type"),
    ],
)
def test_statuses(play: Callable[..., list[Event]], status: object, opened: str, closed: str) -> None:
    item = {"type": "compaction", "id": "it", "status": status}
    assert [it["status"] for it in play(added(item), done(item))] == [opened, closed]


@pytest.mark.parametrize(
    ("item", "role"),
    [
        pytest.param({"type": "message"}, "assistant", id="a-message-is-the-assistants"),
        pytest.param({"type": "message", "role": "user"}, "user", id="as-the-provider-says"),
        pytest.param({"type": "message", "role": None}, "assistant", id="D3-null"),
        pytest.param({"type": "reasoning"}, None, id="D3-absent"),
    ],
)
def test_roles(play: Callable[..., list[Event]], item: Event, role: str | None) -> None:
    assert play(added(item))[0].get("role") == role


@pytest.mark.parametrize("role", [SECRET, "r" * 300, "a\ud800"])
def test_a_role_is_cleaned(open_stream: Callable[..., Any], role: str) -> None:
    stream = open_stream(policy={"registered": [{"value": SECRET}]})
    said = stream.feed(added({"type": "message", "id": "it", "role": role}))[0]["role"]
    assert SECRET not in said
    assert len(said) <= 256
    assert "\ud800" not in said


@pytest.mark.parametrize(
    ("event", "counted"),
    [
        pytest.param(added({"type": "frob_call", "id": "it"}), "item:frob_call", id="D30-unknown-type"),
        pytest.param(done({"type": "frob_call", "id": "it"}), "item:frob_call", id="D30-unknown-type-done"),
        pytest.param(
            {"type": "response.completed", "response": {"status": "completed", "output": [{"type": "frob_call"}]}},
            "item:frob_call",
            id="D30-unknown-type-in-the-snapshot",
        ),
        pytest.param(added({"id": "it"}), "response.output_item.added", id="D30-no-type"),
        pytest.param(added({"type": 5}), "response.output_item.added", id="D30-a-type-that-is-no-text"),
        pytest.param(added(None), "response.output_item.added", id="D30-no-item"),
        pytest.param(done("x"), "response.output_item.done", id="D30-an-item-that-is-no-object"),
    ],
)
def test_what_is_no_item_is_counted_and_dropped(open_stream: Callable[..., Any], event: Event, counted: str) -> None:
    stream = open_stream()
    assert [it for it in stream.feed(event) if it["kind"].startswith("output_item")] == []
    assert stream.dropped == {counted: 1}


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.output_text.delta", "delta": "x"},
        {"type": "response.function_call_arguments.delta", "delta": "{}"},
        {"type": "response.code_interpreter_call_code.delta", "delta": "x"},
        {"type": "response.reasoning_summary_text.delta", "delta": "x"},
        {"type": "response.mcp_call.in_progress"},
        {"type": "response.file_search_call.searching"},
        {"type": "response.image_generation_call.partial_image", "partial_image_index": 0, "partial_image_b64": "AAAA"},
    ],
    ids=lambda event: event["type"],
)
def test_an_event_of_another_type_than_its_item_costs_itself(open_stream: Callable[..., Any], event: Event) -> None:
    stream = open_stream()
    stream.feed(added({"type": "web_search_call", "id": "ws"}))
    assert stream.feed({**event, "output_index": 0, "item_id": "ws"}) == []
    assert stream.dropped == {event["type"]: 1}


def test_ids_and_types_are_bounded(play: Callable[..., list[Event]]) -> None:
    said = play(added({"type": "compaction", "id": "i" * 300}))
    assert said[0]["item_id"] == "i" * 256


@pytest.mark.parametrize(
    ("again", "is_new"),
    [
        pytest.param({}, False, id="the-same-call"),
        pytest.param({"id": "other"}, True, id="another-item"),
        pytest.param({"call_id": "call_2"}, True, id="another-call"),
        pytest.param({"id": None}, True, id="no-id"),
        pytest.param({"type": "custom_tool_call", "input": ""}, True, id="another-type"),
    ],
)
def test_a_call_that_ended_is_not_announced_again(
    open_stream: Callable[..., Any], again: Event, *, is_new: bool
) -> None:
    """A client would execute it twice. A provider may reuse the place for another one."""
    call = {"type": "function_call", "id": "fc", "call_id": "call_1", "name": "f", "arguments": "{}"}
    stream = open_stream()
    stream.feed(added(call), done(call))
    said = [frame["kind"] for frame in stream.feed(added({**call, **again}))]
    assert ("output_item.added" in said) is is_new
    assert stream.dropped == ({} if is_new else {"response.output_item.added": 1})


@pytest.mark.parametrize(
    ("again", "is_new"),
    [
        pytest.param({}, False, id="the-same-call"),
        pytest.param({"id": "other"}, False, id="ids-of-items-alone-may-rotate"),
        pytest.param({"call_id": "call_2"}, False, id="another-id-of-the-call-alone"),
        pytest.param({"id": None, "call_id": "call_2"}, False, id="no-id"),
        pytest.param({"id": "other", "call_id": "call_2"}, True, id="another-call"),
    ],
)
def test_a_call_at_the_place_of_an_open_one(play: Callable[..., list[Event]], again: Event, *, is_new: bool) -> None:
    call = {"type": "function_call", "id": "fc", "call_id": "call_1", "name": "f", "arguments": ""}
    said = play(added(call), added({**call, **again}))
    assert [frame["kind"] for frame in said].count("output_item.added") == 1 + is_new


def test_a_shell_call_that_ended_is_not_announced_again(open_stream: Callable[..., Any]) -> None:
    call = {"type": "shell_call", "id": "sh", "call_id": "call_1", "action": {"commands": ["ls"]}}
    stream = open_stream()
    stream.feed(added(call), done(call))
    assert stream.feed(added(call)) == []
