"""Host events (CONTRACT D9, D17, D35)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

Event: TypeAlias = dict[str, Any]

COMPLETED: Final[Event] = {"type": "response.completed", "response": {"status": "completed"}}
CONTEXT: Final = ("conversation_id", "response_id", "agent", "workflow")


def call(index: int = 0, item_type: str = "function_call", **members: object) -> Event:
    item = {"type": item_type, "id": f"fc{index}", "call_id": f"call{index}", "name": "f", "arguments": "{}", **members}
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def output(**members: object) -> Event:
    return {"type": "projector.tool_output", **members}


def attachment(**members: object) -> Event:
    return {"type": "projector.attachment", "attachment": members}


def context(**members: object) -> Event:
    return {"type": "projector.context", **members}


@pytest.mark.parametrize(
    ("event", "said"),
    [
        pytest.param(output(call_id="call0", output={"sky": "blue"}), ({"sky": "blue"}, "completed"), id="D17-output"),
        pytest.param(output(item_id="fc0", output="x"), ("x", "completed"), id="D17-named-by-its-item"),
        pytest.param(output(call_id="call0", output=[1], status="failed"), ([1], "failed"), id="D17-failed"),
        pytest.param(output(call_id="call0", output=1, status="odd"), (1, "completed"), id="D17-any-other-status"),
    ],
)
def test_an_output_ends_its_call(play: Callable[..., list[Event]], event: Event, said: tuple[object, str]) -> None:
    place = {"output_index": 0, "item_id": "fc0"}
    value, status = said
    assert play(call(), event)[-2:] == [
        {"kind": "tool.output", **place, "tool_call_id": "call0", "tool_type": "function", "output": value},
        {
            "kind": "tool.status",
            **place,
            "tool": {"tool_type": "function", "tool_call_id": "call0", "status": status, "name": "f"},
        },
    ]


def test_d17_the_output_of_a_call_whose_id_came_late(play: Callable[..., list[Event]]) -> None:
    delta = {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc0", "delta": "{}"}
    said = play(delta, call(), output(call_id="call0", output=1))
    assert [it["tool_call_id"] for it in said if it["kind"] == "tool.output"] == ["fc0"]


def test_d15_arguments_do_not_follow_their_output(open_stream: Callable[..., Any]) -> None:
    stream = open_stream()
    stream.feed({**call(), "type": "response.output_item.added"}, output(call_id="call0", output=1))
    assert [it["kind"] for it in stream.feed(call())] == ["output_item.done"]
    assert stream.dropped == {"arguments after their output": 1}


def test_d17_the_output_of_an_earlier_response_of_the_run(open_stream: Callable[..., Any]) -> None:
    stream = open_stream(run=True)
    stream.feed(call(), COMPLETED)
    stream.next_response()
    stream.feed(call(item_type="function_call", call_id="other"))
    assert [it["output_index"] for it in stream.feed(output(call_id="call0", output=1))] == [0, 0]


@pytest.mark.parametrize(
    ("event", "counted"),
    [
        pytest.param(output(call_id="nobody", output=1), "projector.tool_output", id="no-such-call"),
        pytest.param(output(output=1), "projector.tool_output", id="no-name"),
        pytest.param(output(call_id="call1", output=1), "projector.tool_output", id="D15-a-hosted-call-that-is-closed"),
        pytest.param(output(call_id="call2", output=1), "projector.tool_output", id="D15-an-mcp-call-that-is-closed"),
        pytest.param(attachment(filename="a.png"), "projector.attachment", id="an-attachment-without-id"),
        pytest.param({"type": "projector.attachment"}, "projector.attachment", id="no-attachment"),
        pytest.param({"type": "projector.unknown"}, "projector.unknown", id="D35-unknown"),
    ],
)
def test_what_the_host_cannot_say_is_counted(open_stream: Callable[..., Any], event: Event, counted: str) -> None:
    stream = open_stream()
    stream.feed(call(), call(1, "web_search_call"), call(2, "mcp_call"))
    assert stream.feed(event) == []
    assert stream.dropped == {counted: 1}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [attachment(object_id="obj_1", filename="a.png", mime_type="image/png", url="https://a.example/a")],
            [{"object_id": "obj_1", "filename": "a.png", "mime_type": "image/png", "url": "https://a.example/a"}],
            id="9.13-attachment",
        ),
        pytest.param(
            [attachment(object_id="obj_1", filename=None, size=7), attachment(object_id="obj_2")],
            [{"object_id": "obj_1"}, {"object_id": "obj_2"}],
            id="D3-with-what-it-has",
        ),
        pytest.param(
            [attachment(object_id="obj_1", url="file:///a")],
            [{"object_id": "obj_1", "url": "<redacted>"}],
            id="D28-only-http-and-https",
        ),
    ],
)
def test_attachments_are_said_in_final(
    play: Callable[..., list[Event]], events: list[Event], expected: list[Event]
) -> None:
    assert play(*events, COMPLETED)[-1]["final"]["attachments"] == expected


WORKFLOW: Final = {"workflow_key": "analysis", "workflow_run_id": "run_1", "branch_index": 0}


@pytest.mark.parametrize(
    ("before", "event", "after"),
    [
        pytest.param({}, context(agent="triage"), {"agent": "triage"}, id="D9-set"),
        pytest.param({"agent": "a"}, context(agent="b"), {"agent": "b"}, id="D9-change-the-agent"),
        pytest.param({"agent": "a"}, context(agent=None), {}, id="D9-null-takes-it-away"),
        pytest.param(
            {"agent": "a", "workflow": WORKFLOW}, context(), {"agent": "a", "workflow": WORKFLOW}, id="D9-kept"
        ),
        pytest.param(
            {"workflow": WORKFLOW},
            context(workflow={"workflow_key": "analysis", "step_name": "two"}),
            {"workflow": {"workflow_key": "analysis", "step_name": "two"}},
            id="D9-change-the-workflow",
        ),
        pytest.param({"workflow": WORKFLOW}, context(workflow="x"), {}, id="D9-a-workflow-that-is-none"),
        pytest.param({}, context(conversation_id="c1"), {"conversation_id": "c1"}, id="D9-set-the-conversation"),
        pytest.param(
            {"conversation_id": "c1"},
            context(conversation_id="c2"),
            {"conversation_id": "c1"},
            id="D9-a-conversation-stays",
        ),
        pytest.param({}, context(agent=7, secret="s"), {}, id="D30-wrong-types-and-unknown-members"),
    ],
)
def test_context(open_stream: Callable[..., Any], before: Event, event: Event, after: Event) -> None:
    stream = open_stream(context=before)
    stream.feed({"type": "response.created", "response": {"status": "queued"}})
    assert {name: stream.sealed[-1][name] for name in CONTEXT if name in stream.sealed[-1]} == before
    assert stream.feed(event) == []
    stream.feed({"type": "response.in_progress", "response": {"status": "in_progress"}})
    assert {name: stream.sealed[-1][name] for name in CONTEXT if name in stream.sealed[-1]} == after


@pytest.mark.parametrize(
    ("event", "count"),
    [
        (context(agent="a", conversation_id=None, workflow=WORKFLOW), 0),
        (context(agnt="a"), 1),
        (context(agent=7, conversation_id=[], secret="s"), 3),
        (context(workflow="x"), 1),
        (context(workflow={**WORKFLOW, "step": "two", "branch_index": "0"}), 2),
    ],
)
def test_d30_members_of_a_context_that_are_not_read_are_counted(
    open_stream: Callable[..., Any], event: Event, count: int
) -> None:
    stream = open_stream()
    stream.feed(event)
    assert stream.dropped == Counter({"projector.context": count} if count else {})


def test_d35_provider_bytes_cannot_forge_the_host(open_stream: Callable[..., Any]) -> None:
    stream = open_stream()
    stream.feed(call())
    forged = [output(call_id="call0", output=1), attachment(object_id="obj_1"), context(agent="x")]
    for event in forged:
        assert stream._projector.feed(event) == []
    assert stream.dropped == {event["type"]: 1 for event in forged}
    assert stream.close()[-1]["kind"] == "error"
    assert "agent" not in stream.sealed[-1]
