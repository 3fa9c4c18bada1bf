"""Branches: parallel responses of one run, each with its own context, phase and ids (decision 13)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from projector import FAULTS, Pipeline, Policy, StreamContext, UsageError, build_pipeline
from projector.contracts.stream_rules import check_stream
from projector.core.context import BranchContext
from projector.core.delta_frames import frames_of
from projector.core.intake import PipelineBranch
from projector.redaction.redactor import Redactor
from tests.openwop_reader import check_log

Event = dict[str, Any]


def place(branch: int | None, stage: str = "s") -> dict[str, object]:
    group = {} if branch is None else {"parallel_group": "g", "branch_index": branch}
    return {"stage_name": stage, "step_name": f"step-{branch}", **group}


def pipeline(**settings: Any) -> Pipeline:
    settings = {
        "provider": "openai_responses",
        "dialect": "public_sse_v1",
        "run": True,
        "policy": Policy(text="off"),
        **settings,
    }
    return build_pipeline(output_format="ndjson", input_format="ndjson", **settings)


def branch(run: Pipeline, branch: int | None, *, optional: bool = False, stage: int | None = 1) -> PipelineBranch:
    context = BranchContext(f"agent-{branch}", place(branch), stage=stage, is_optional=optional)
    return run.branch(context)


def line(event_type: str, **members: object) -> bytes:
    return json.dumps({"type": event_type, **members}).encode() + b"\n"


def created(name: str) -> bytes:
    return line("response.created", response={"id": f"resp_{name}", "status": "in_progress"})


def delta(text: str, item: str = "m", index: int = 0) -> bytes:
    return line("response.output_text.delta", item_id=item, output_index=index, content_index=0, delta=text)


def ended(status: str = "completed", **members: object) -> bytes:
    name = status if status in {"completed", "incomplete", "failed"} else "completed"
    return line(f"response.{name}", response={"status": status, **members})


def frames(said: bytes) -> list[Event]:
    assert check_stream(said.splitlines()) == []
    return [json.loads(each) for each in said.splitlines()]


def brief(said: bytes) -> list[str]:
    """Return a summary of each event: branch, kind, and content."""
    short = []
    for frame in frames(said):
        branch = frame.get("workflow", {}).get("branch_index", "-")
        what = frame.get("delta") or frame.get("status") or frame.get("final", {}).get("status")
        short.append(f"{branch} {frame['kind']} {what or frame['error']['code']}")
    return short


def test_two_branches_speak_in_turn() -> None:
    run = pipeline(context=StreamContext("s1", workflow={"workflow_key": "k"}))
    left, right = branch(run, 0), branch(run, 1)
    said = left.feed(created("a")) + right.feed(created("b")) + right.feed(delta("x")) + left.feed(delta("y"))
    said += right.feed(delta("z")) + left.feed(ended(usage={"input_tokens": 1})) + left.close()
    said += right.feed(ended(usage={"input_tokens": 2})) + right.close() + run.close()
    assert brief(said) == [
        *("0 lifecycle in_progress", "1 lifecycle in_progress", "1 output_item.added in_progress"),
        *("1 message.delta x", "0 output_item.added in_progress", "0 message.delta y", "1 message.delta z"),
        *("0 output_item.done incomplete", "0 lifecycle completed"),
        *("1 output_item.done incomplete", "1 lifecycle completed", "- final completed"),
    ]
    told = frames(said)
    assert {(it["workflow"]["branch_index"], it["response_id"], it["agent"]) for it in told[:-1]} == {
        (0, "resp_a", "agent-0"),
        (1, "resp_b", "agent-1"),
    }
    assert {(it["output_index"], it["item_id"]) for it in told if "item_id" in it} == {(0, "m"), (1, "item_1")}
    final = told[-1]
    assert final["final"] == {"status": "completed", "response_text": "y\n\nxz", "usage": {"input_tokens": 3}}
    assert final["workflow"] == {"workflow_key": "k"}
    assert "response_id" not in final
    assert left.end is not None
    assert (left.end.text, left.is_over) == ("y", True)


def test_the_last_stage_that_has_text_is_the_answer() -> None:
    run = pipeline()
    first, second, last = branch(run, 0, stage=1), branch(run, 1, stage=1), branch(run, 2, stage=2)
    said = last.feed(delta("c")) + last.feed(ended()) + first.feed(delta("a")) + first.feed(ended())
    said += second.feed(delta("b")) + second.feed(ended())
    assert frames(said + run.close())[-1]["final"]["response_text"] == "c"
    run = pipeline()
    first, silent = branch(run, 0, stage=1), branch(run, 1, stage=2)
    said = first.feed(delta("a")) + first.feed(ended()) + silent.feed(ended())
    assert frames(said + run.close())[-1]["final"]["response_text"] == "a"


Ending = Callable[[PipelineBranch], bytes]
ENDINGS: Mapping[str, Ending] = {
    "reset": lambda one: one.close(FAULTS["upstream_reset"]),
    "truncated": lambda one: one.close(),
    "provider-error": lambda one: one.feed(line("error", code="bad", message="x")),
    "not-json": lambda one: one.feed(b"{" * 5 + b"\n" * 3) + one.close(),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("has_begun", [False, True])
def test_an_optional_branch_fails_alone(ending: str, *, has_begun: bool) -> None:
    run = pipeline()
    left, right = branch(run, 0, optional=True), branch(run, 1)
    said = right.feed(created("b")) + right.feed(delta("x"))
    if has_begun:
        said += left.feed(created("a") + delta("y"))
    said += ENDINGS[ending](left)
    assert left.is_over
    assert not run.ended
    assert left.end is not None
    assert left.end.status == "failed"
    said += left.feed(delta("late")) + left.close(FAULTS["internal_error"]) + left.stop()
    said += right.feed(ended()) + right.close() + run.close()
    told = frames(said)
    (failed,) = [it for it in told if it["kind"] == "lifecycle" and it["status"] == "failed"]
    assert failed["workflow"]["branch_index"] == 0
    assert failed["reason"]
    assert told[-1]["final"]["status"] == "incomplete"


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_branch_that_the_run_needs_ends_it(ending: str) -> None:
    run = pipeline()
    left, right = branch(run, 0), branch(run, 1)
    said = left.feed(created("a") + delta("y")) + right.feed(created("b") + delta("x")) + ENDINGS[ending](left)
    told = frames(said)
    assert told[-1]["kind"] == "error"
    assert (told[-1]["workflow"]["branch_index"], told[-1]["response_id"]) == (0, "resp_a")
    closed = [(it["workflow"]["branch_index"], it["response_id"]) for it in told if it["kind"] == "output_item.done"]
    assert closed == [(0, "resp_a"), (1, "resp_b")], "each in its own context"
    assert run.ended
    assert right.is_over
    assert right.feed(delta("late")) == right.close() == run.close() == run.cancel() == b""


@pytest.mark.parametrize(
    ("status", "optional", "expected"),
    [
        ("failed", False, "failed"),
        ("failed", True, "incomplete"),
        ("cancelled", True, "incomplete"),
        ("cancelled", False, "cancelled"),
        ("incomplete", True, "incomplete"),
    ],
)
def test_what_the_end_of_a_response_is_to_the_run(status: str, expected: str, *, optional: bool) -> None:
    run = pipeline()
    left, right = branch(run, 0, optional=optional), branch(run, 1)
    said = left.feed(ended(status)) + right.feed(delta("x") + ended()) + left.close() + right.close() + run.close()
    assert frames(said)[-1]["final"] == {"status": expected, "response_text": "x"}


def test_a_branch_that_is_stopped_says_no_status() -> None:
    run = pipeline()
    left, right = branch(run, 0), branch(run, 1)
    said = left.feed(created("a") + delta("y")) + right.feed(ended("failed")) + left.stop() + run.close()
    assert brief(said)[-3:] == ["1 lifecycle failed", "0 output_item.done incomplete", "- final failed"]


def test_cancelling_closes_every_branch_and_keeps_the_text() -> None:
    run = pipeline()
    left, right = branch(run, 0), branch(run, 1)
    said = right.feed(delta("x")) + left.feed(delta("y")) + run.cancel()
    assert brief(said)[-3:] == ["0 output_item.done incomplete", "1 output_item.done incomplete", "- final cancelled"]
    assert frames(said)[-1]["final"]["response_text"] == "y\n\nx"


def test_a_run_that_is_closed_too_early_is_truncated() -> None:
    run = pipeline()
    left, _right = branch(run, 0), branch(run, 1)
    assert brief(left.feed(delta("y")) + run.close())[-1] == "0 error upstream_truncated"
    run = pipeline()
    branch(run, 0)
    assert brief(run.close()) == ["- error upstream_empty"]


def test_a_fault_of_ours_closes_each_item_in_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Event] = []
    run = pipeline(on_output=lambda output, _: written.extend(frames_of(output)))
    left, right = branch(run, 0), branch(run, 1)
    said = left.feed(created("a") + delta("y")) + right.feed(created("b") + delta("x"))

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(Redactor, "identifier", broken)
        said += right.feed(delta("z", "n", 1))
    told = frames(said)
    closed = [(it["workflow"]["branch_index"], it["response_id"]) for it in told if it["kind"] == "output_item.done"]
    assert closed == [(0, "resp_a"), (1, "resp_b")]
    assert told[-1]["kind"] == "error"
    end = [(it["kind"], it.get("branch", it.get("output_index"))) for it in written[-5:]]
    items = [("branch", 1), ("output_item.done", 0), ("branch", 2), ("output_item.done", 1)]
    assert end == [*items, ("error", None)], "a branch is entered where it changes"


def test_calls_are_found_in_their_branch_and_named_once() -> None:
    run = pipeline()
    left, right = branch(run, 0), branch(run, 1)
    item = {"type": "function_call", "id": "fc", "call_id": "call_1", "name": "f", "arguments": "{}"}
    both = line("response.output_item.done", output_index=0, item=item) + ended()
    said = left.feed(both) + right.feed(both)
    said += right.host({"type": "projector.tool_output", "call_id": "call_1", "output": "two"})
    said += left.host({"type": "projector.tool_output", "call_id": "call_1", "output": "one"}) + run.close()
    outputs = {it["tool_call_id"]: it["output"] for it in frames(said) if it["kind"] == "tool.output"}
    assert outputs == {"call_1": "one", "call_1_1": "two"}


def test_a_branch_may_hold_several_responses_and_another_provider() -> None:
    run = pipeline()
    left = run.branch(BranchContext("a", place(0)), provider="openai_chat")
    right = branch(run, 1)
    chunk = json.dumps({"id": "c", "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]})
    said = left.feed(chunk.encode() + b"\n") + right.feed(delta("one") + ended()) + right.next_response()
    said += right.feed(delta("two") + ended()) + left.close() + right.close() + run.close()
    assert frames(said)[-1]["final"] == {"status": "completed", "response_text": "hi\n\ntwo"}


def test_what_is_no_branch() -> None:
    with pytest.raises(UsageError, match="expected a run"):
        build_pipeline(provider="openai_chat", dialect="public_sse_v1").branch(BranchContext())
    run = pipeline()
    first = branch(run, 0)
    with pytest.raises(UsageError, match="branch index not in use"):
        branch(run, 0)
    with pytest.raises(UsageError, match="provider"):
        run.branch(BranchContext(workflow=place(1)), provider="none")
    first.feed(ended())
    first.close()
    branch(run, 0)


def test_one_conversation_in_all_branches() -> None:
    run = pipeline(context=StreamContext("s1", "c1"))
    left = branch(run, 0)
    said = left.host({"type": "projector.context", "conversation_id": "c2"}) + left.feed(delta("a") + ended())
    assert {it["conversation_id"] for it in frames(said + left.close() + run.close())} == {"c1"}


def recorded(*lines: bytes, **settings: Any) -> bytes:
    run = pipeline(takes_host_events=True, **settings)
    return run.feed(b"".join(lines)) + run.close()


def to_branch(name: str, **members: object) -> bytes:
    return line("projector.branch", branch=name, **members)


def test_a_recording_switches_branches() -> None:
    said = recorded(
        to_branch("a", workflow=place(0), is_optional=True),
        delta("x"),
        to_branch("b", workflow=place(1), agent="b"),
        delta("y"),
        to_branch("a"),
        line("projector.branch_end", fault="upstream_reset"),
        to_branch("b"),
        delta("z"),
        ended(),
        line("projector.branch_end"),
    )
    assert brief(said)[-4:-1] == ["1 message.delta z", "1 output_item.done incomplete", "1 lifecycle completed"]
    assert frames(said)[-1]["final"]["status"] == "incomplete"


def test_a_recording_stops_a_branch_and_goes_back_to_the_main_one() -> None:
    said = recorded(
        to_branch("a", workflow=place(0)),
        delta("x"),
        line("projector.branch_end", is_stopped=True),
        line("projector.branch"),
        delta("main"),
        ended(),
    )
    assert frames(said)[-1]["final"] == {"status": "completed", "response_text": "main"}


def test_what_a_recording_says_wrongly_costs_that_line() -> None:
    wrong = [
        line("projector.branch_end"),
        to_branch("a", workflow=3, stage="x", provider="none"),
        to_branch("a", workflow=place(0), provider="none"),
        line("projector.branch", branch=[1]),
    ]
    run = pipeline(takes_host_events=True)
    said = run.feed(b"".join(wrong) + line("projector.branch") + delta("x") + ended()) + run.close()
    assert frames(said)[-1]["final"]["response_text"] == "x"
    assert run.dropped["projector.branch"] == 2
    assert run.dropped["projector.branch_end"] == 1


@pytest.mark.parametrize(
    ("last", "is_broken", "said"),
    [
        (ended().removesuffix(b"\n"), False, ["- lifecycle completed", "- final completed"]),
        (ended().removesuffix(b"\n"), True, ["- lifecycle completed", "- error upstream_reset"]),
        (ended()[:-20], False, ["- output_item.done incomplete", "- error upstream_truncated"]),
        (ended()[:-20], True, ["- output_item.done incomplete", "- error upstream_reset"]),
    ],
    ids=["whole", "whole-and-broken", "cut", "cut-and-broken"],
)
def test_the_last_line_of_a_recording(last: bytes, *, is_broken: bool, said: list[str]) -> None:
    run = pipeline(takes_host_events=True)
    shown = run.feed(delta("x") + last) + run.close(FAULTS["upstream_reset"] if is_broken else None)
    assert brief(shown)[-2:] == said


def test_the_main_branch_may_speak_beside_others() -> None:
    run = pipeline()
    left = branch(run, 0)
    said = left.feed(created("a") + delta("x")) + run.feed(created("main") + delta("y")) + left.feed(delta("z"))
    with pytest.raises(UsageError, match="branch index not in use"):
        run.branch(BranchContext())
    said += run.feed(ended()) + left.feed(ended()) + run.close()
    told = frames(said)
    places_of = [(it.get("workflow", {}).get("branch_index"), it["response_id"]) for it in told if "delta" in it]
    assert places_of == [(0, "resp_a"), (None, "resp_main"), (0, "resp_a")]
    assert told[-1]["final"]["response_text"] == "xz", "a branch's stage is behind that of the main one"


def test_a_recording_may_break_in_a_branch_or_go_on_in_it() -> None:
    limits = {"policy": Policy.load({"limits": {"event_max_bytes": 1_000}})}
    said = recorded(to_branch("a", workflow=place(0)), delta("x"), b"x" * 2_000 + b"\n", **limits)
    assert brief(said)[-1] == "0 error upstream_event_too_large"
    said = recorded(
        to_branch("a", workflow=place(0)),
        delta("x") + ended(),
        line("projector.next_response"),
        delta("y") + ended(),
        line("projector.branch_end"),
        line("projector.context", agent="late"),
    )
    assert frames(said)[-1]["final"]["response_text"] == "y"


def events_of(*said: bytes) -> list[Event]:
    return [json.loads(each) for each in b"".join(said).splitlines()]


def test_ag_ui_steps_begin_and_end_with_their_branches() -> None:
    run = pipeline(dialect="ag_ui")
    left, right = branch(run, 0), branch(run, 1, optional=True)
    events = events_of(left.feed(delta("x")), right.feed(delta("y")), left.feed(delta("z") + ended()), left.close())
    steps = [(event["type"], event["stepName"]) for event in events if event["type"].startswith("STEP")]
    begun = [("STEP_STARTED", "s/step-0#0"), ("STEP_STARTED", "s/step-1#1")]
    assert steps == [*begun, ("STEP_FINISHED", "s/step-0#0")]
    events = events_of(right.host({"type": "projector.context", "workflow": place(1, "later")}), right.feed(delta("w")))
    steps = [(event["type"], event["stepName"]) for event in events if event["type"].startswith("STEP")]
    assert steps == [("STEP_FINISHED", "s/step-1#1"), ("STEP_STARTED", "later/step-1#1")]
    events = events_of(right.close(), run.close())
    assert [event["type"] for event in events if event["type"] != "CUSTOM"] == [
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]


def test_ag_ui_calls_join_no_message_of_another_branch() -> None:
    run = pipeline(dialect="ag_ui")
    left, right = branch(run, 0), branch(run, 1)
    item = {"type": "function_call", "id": "fc", "call_id": "call_1", "name": "f", "arguments": "{}"}
    call = line("response.output_item.done", output_index=1, item=item)
    events = events_of(left.feed(delta("x")), right.feed(delta("y")), left.feed(call))
    (start,) = [event for event in events if event["type"] == "TOOL_CALL_START"]
    assert start["parentMessageId"] == "fc", "its own message is not the last one any more"
    events = events_of(left.feed(line("response.output_item.done", output_index=2, item={**item, "id": "fd"})))
    (start,) = [event for event in events if event["type"] == "TOOL_CALL_START"]
    assert start["parentMessageId"] == "fc"


@pytest.mark.parametrize("has_streamed", [True, False])
def test_ag_ui_says_the_texts_of_branches_once(*, has_streamed: bool) -> None:
    run = pipeline(dialect="ag_ui")
    branches = [branch(run, 0), branch(run, 1)]
    said = b""
    for at, (one, text) in enumerate(zip(branches, "xy", strict=True)):
        whole = {"type": "message", "id": f"m{at}", "content": [{"type": "output_text", "text": text}]}
        item = {"type": "message", "id": f"m{at}"}
        said += one.feed(delta(text, f"m{at}") if has_streamed else b"")
        said += one.feed(line("response.output_item.done", output_index=0, item=item))
        said += one.feed(ended(output=[whole]))
    events = events_of(said, run.close())
    contents = [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"]
    assert contents == (["x", "y"] if has_streamed else ["x\n\ny"])


def test_openwop_a_node_that_waits_for_an_approval_does_not_end_with_its_branch() -> None:
    run = pipeline(dialect="openwop")
    left, right = branch(run, 0), branch(run, 1)
    item = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "server_label": "s", "arguments": "{}"}
    said = left.feed(line("response.output_item.done", output_index=0, item=item) + ended()) + left.close()
    said += right.feed(delta("x") + ended()) + right.close() + run.close()
    assert check_log(said.splitlines()) == []
    ends = [(it["type"], it["nodeId"]) for it in events_of(said) if it["type"] in {"node.suspended", "node.completed"}]
    assert ends == [("node.suspended", "s/step-0#0"), ("node.completed", "s/step-1#1")]
