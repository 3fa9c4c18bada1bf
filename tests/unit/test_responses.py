"""A response begins, changes status and ends (seed section 9.1; CONTRACT D4, D5, D7, D10, D13, D30)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

Event: TypeAlias = dict[str, Any]
Play: TypeAlias = Callable[..., list[Event]]


def on(name: str, **response: object) -> Event:
    return {"type": f"response.{name}", "response": response}


def message(text: str, item_id: str = "msg", **members: object) -> Event:
    return {"type": "message", "id": item_id, "content": [{"type": "output_text", "text": text}], **members}


def phased(phase: object, index: int, item_id: str) -> Event:
    item = {"type": "message", "id": item_id, "phase": phase, "content": []}
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def delta(text: str, index: int = 0, item_id: str = "msg") -> Event:
    return {"type": "response.output_text.delta", "output_index": index, "item_id": item_id, "delta": text}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [
                on("created", status="queued"),
                on("queued", status="queued"),
                on("in_progress", status="in_progress"),
                on("in_progress", status="in_progress"),
                on("completed", status="completed"),
            ],
            [("queued", None), ("in_progress", None), ("completed", None)],
            id="D10-once-per-change",
        ),
        pytest.param([on("created", status="in_progress")], [("in_progress", None)], id="D10-from-the-status"),
        pytest.param([on("created"), on("queued", status=None), on("created", status="odd")], [], id="D10-no-status"),
        pytest.param([on("completed")], [("completed", None)], id="D10-an-end-says-so-itself"),
        pytest.param([on("incomplete", status="in_progress")], [("incomplete", None)], id="D10-a-stale-status"),
        pytest.param([on("completed", status="cancelled")], [("cancelled", None)], id="D10-cancelled-has-no-event"),
        pytest.param(
            [on("incomplete", status="incomplete", incomplete_details={"reason": "max_output_tokens"})],
            [("incomplete", "max_output_tokens")],
            id="D10-reason",
        ),
        pytest.param(
            [on("failed", status="failed", error={"code": "server_error", "message": "x"}, incomplete_details=None)],
            [("failed", "server_error")],
            id="D10-reason-of-a-failure",
        ),
        pytest.param(
            [on("created", status="in_progress"), on("queued", status="queued")],
            [("in_progress", None)],
            id="D10-no-status-goes-back",
        ),
        pytest.param(
            [on("in_progress", status="completed"), delta("Hi"), on("completed", status="completed")],
            [("completed", None)],
            id="D11-no-end-before-the-end",
        ),
        pytest.param([{"type": "response.created"}, {"type": "response.created", "response": 5}], [], id="D30-nothing"),
        pytest.param([{"type": "response.failed"}], [("failed", None)], id="D30-an-end-needs-no-response"),
        pytest.param([on("created", status=["queued"])], [], id="D30-a-status-that-is-no-text"),
        pytest.param([on("completed", status={})], [("completed", None)], id="D30-an-end-whose-status-is-no-text"),
    ],
)
def test_lifecycle(play: Play, events: list[Event], expected: list[tuple[str, str | None]]) -> None:
    said = play(*events)
    assert [(it["status"], it.get("reason")) for it in said if it["kind"] == "lifecycle"] == expected


def test_d11_the_order_of_the_end(play: Play) -> None:
    said = play(delta("Hi"), on("completed", status="completed"))
    assert [it["kind"] for it in said[-3:]] == ["output_item.done", "lifecycle", "final"]


def test_d7_d30_the_snapshot_says_what_nobody_streamed(play: Play) -> None:
    call = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"}
    said = play(on("completed", status="completed", output=[message("Hi", status="completed"), call, None, "x"]))
    assert [(it["kind"], it.get("output_index")) for it in said] == [
        ("output_item.added", 0),
        ("message.delta", 0),
        ("output_item.done", 0),
        ("output_item.added", 1),
        ("tool.status", 1),
        ("tool.arguments.done", 1),
        ("output_item.done", 1),
        ("lifecycle", None),
        ("final", None),
    ]


@pytest.mark.parametrize(
    ("streamed", "snapshot", "expected"),
    [
        pytest.param([delta("Hi")], [message("Hi you")], "Hi you", id="D13-fills-an-open-item"),
        pytest.param([delta("Hi")], [], "Hi", id="D13-an-empty-output"),
        pytest.param([delta("Hi")], [message("Ho")], "Hi", id="D13-our-own-text-wins"),
        pytest.param([], [message("Hi")], "Hi", id="D13-only-the-snapshot"),
        pytest.param([delta("Hi")], [message("Hi", "other")], "Hi", id="D13-rotated-ids"),
        pytest.param(
            [delta("A", 0, "a"), delta("B", 1, "b")],
            [message("B2", "b"), message("A1", "a")],
            "A1\n\nB2",
            id="D13-ids-before-places",
        ),
        pytest.param(
            [delta("A", 1, "a"), delta("B", 2, "b")],
            [message("A", "a"), message("B", "b")],
            "A\n\nB",
            id="D13-places-that-shift",
        ),
        pytest.param(
            [
                delta("A", 0, "a"),
                {"type": "response.output_item.done", "output_index": 0, "item": message("A", "a")},
                delta("B", 1, "b"),
            ],
            [{"type": "reasoning", "id": "r"}, {"type": "reasoning", "id": "s"}, message("B2", "other")],
            "A\n\nB2",
            id="D13-an-open-item-before-a-closed-one",
        ),
        pytest.param(
            [delta("Hi"), {"type": "response.output_item.done", "output_index": 0, "item": message("Hi")}],
            [message("Hi!")],
            "Hi",
            id="D13-what-is-closed-stays",
        ),
        pytest.param(
            [{"type": "response.output_item.done", "output_index": 0, "item": {"type": "message", "id": "msg"}}],
            [message("Hi")],
            "Hi",
            id="D13-fills-a-closed-item-without-text",
        ),
        pytest.param([delta("B", 1, "b"), delta("A", 0, "a")], [], "A\n\nB", id="D43-in-the-order-of-output-indexes"),
        pytest.param(
            [phased("commentary", 0, "a"), delta("C", 0, "a"), phased("final_answer", 1, "b"), delta("A", 1, "b")],
            [],
            "A",
            id="D43-commentary-before-an-answer",
        ),
        pytest.param(
            [delta("A", 0, "a"), phased("commentary", 1, "b"), delta("C", 1, "b")],
            [],
            "A",
            id="D43-commentary-beside-a-message-without-a-phase",
        ),
        pytest.param([phased("commentary", 0, "a"), delta("C", 0, "a")], [], "C", id="D43-commentary-alone"),
        pytest.param(
            [phased("commentary", 0, "a"), delta("C", 0, "a"), phased("final_answer", 1, "b")],
            [],
            "C",
            id="D43-commentary-beside-an-empty-answer",
        ),
        pytest.param(
            [delta("C", 0, "a"), delta("A", 1, "b")],
            [{**message("C", "a"), "phase": "commentary"}, message("A", "b")],
            "A",
            id="D43-a-phase-that-only-the-snapshot-has",
        ),
        pytest.param(
            [phased("thinking", 0, "a"), delta("C", 0, "a"), phased(5, 1, "b"), delta("A", 1, "b")],
            [],
            "C\n\nA",
            id="D43-unknown-phases",
        ),
        pytest.param(
            [],
            [{**message("C", "a"), "phase": "commentary"}, {**message("A", "b"), "phase": "final_answer"}],
            "A",
            id="D43-only-the-snapshot",
        ),
    ],
)
def test_the_text_of_final(
    open_stream: Callable[..., Any], streamed: list[Event], snapshot: list[Event], expected: str
) -> None:
    stream = open_stream()
    said = stream.feed(*streamed, on("completed", status="completed", output=snapshot))
    assert said[-1]["final"]["response_text"] == expected


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param(
            {
                "input_tokens": 10,
                "output_tokens": 4,
                "total_tokens": 14,
                "input_tokens_details": {"cached_tokens": 8},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
            {
                "input_tokens": 10,
                "output_tokens": 4,
                "total_tokens": 14,
                "cached_input_tokens": 8,
                "reasoning_output_tokens": 0,
            },
            id="D13-all",
        ),
        pytest.param({"input_tokens": 0, "output_tokens": None}, {"input_tokens": 0}, id="D13-null-is-not-0"),
        pytest.param({"input_tokens": -1, "output_tokens": "4", "total_tokens": True}, None, id="D30-no-counts"),
        pytest.param({"cost": 1, "input_tokens_details": 5}, None, id="D30-unknown-members"),
        pytest.param(None, None, id="D3-absent"),
    ],
)
@pytest.mark.parametrize("end", ["completed", "incomplete", "failed"])
def test_usage_is_taken_from_every_kind_of_end(play: Play, end: str, usage: object, expected: object) -> None:
    assert play(on(end, usage=usage))[-1]["final"].get("usage") == expected


def test_d13_usage_is_summed_over_responses(open_stream: Callable[..., Any]) -> None:
    stream = open_stream(run=True)
    stream.feed(on("completed", id="a", usage={"input_tokens": 3, "total_tokens": 4}))
    stream.next_response()
    stream.feed(on("completed", id="b", usage={"input_tokens": 5}))
    assert stream.close()[-1]["final"]["usage"] == {"input_tokens": 8, "total_tokens": 4}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([on("created", id="resp_1", status="queued")], ["resp_1"], id="D4-from-the-first-event"),
        pytest.param([on("created", status="queued")], [None], id="D3-absent-before-it-is-known"),
        pytest.param(
            [delta("Hi"), on("completed", id="resp_1")], [None, None, "resp_1", "resp_1", "resp_1"], id="D4-learnt-late"
        ),
        pytest.param(
            [on("created", id="resp_1", status="queued"), on("in_progress", id="resp_2", status="in_progress")],
            ["resp_1", "resp_1"],
            id="D4-the-first-one-stays",
        ),
        pytest.param([on("created", id=7, status="queued")], [None], id="D30-an-id-that-is-no-text"),
        pytest.param([on("created", id="", status="queued")], [None], id="D3-empty"),
    ],
)
def test_response_ids(open_stream: Callable[..., Any], events: list[Event], expected: list[str | None]) -> None:
    stream = open_stream()
    stream.feed(*events)
    assert [it.get("response_id") for it in stream.sealed if it["kind"] != "response.meta"] == expected


def test_d4_each_response_of_a_run_has_its_own_id(open_stream: Callable[..., Any]) -> None:
    stream = open_stream(run=True)
    stream.feed(on("completed", id="resp_1"))
    stream.next_response()
    stream.feed(delta("Hi"), on("completed", id="resp_2"))
    ids = [it.get("response_id") for it in stream.sealed if it["kind"] != "response.meta"]
    assert ids == ["resp_1", None, None, "resp_2", "resp_2"]


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, 0), (7, 7), (True, None), (1.0, None), ("7", None), (None, None), (-1, None), (2**70, None)],
)
def test_d5_sequence_numbers_are_integers(open_stream: Callable[..., Any], number: object, said: object) -> None:
    stream = open_stream()
    stream.feed({**on("created", status="queued"), "sequence_number": number})
    assert stream.sealed[-1].get("provider_sequence_number") == said


def test_d5_numbers_restart_with_each_response(open_stream: Callable[..., Any]) -> None:
    stream = open_stream(run=True)
    for response_id in ("resp_1", "resp_2"):
        stream.feed({**on("completed", id=response_id), "sequence_number": 0})
        stream.next_response()
    assert [it["provider_sequence_number"] for it in stream.sealed] == [0, 0, 0, 0]
    assert [it["event_id"] for it in stream.sealed if it["kind"] != "response.meta"] == [1, 2], "D1: ours go on"


def test_d37_model_and_time_travel_in_a_private_frame_once(play: Play) -> None:
    response = {"id": "resp_1", "status": "queued", "model": "m-1", "created_at": 1765800000, "instructions": "be kind"}
    said = play(on("created", **response), on("queued", **response))
    meta = {"kind": "response.meta", "id": "resp_1", "model": "m-1", "created_at": 1765800000}
    assert said == [meta, {"kind": "lifecycle", "status": "queued"}]


@pytest.mark.parametrize(
    ("text_format", "text", "expected"),
    [
        pytest.param("json_schema", '{"a": [1]}', {"a": [1]}, id="D13-json-schema"),
        pytest.param("json_object", '{"a": 1}', {"a": 1}, id="D13-json-object"),
        pytest.param("json_schema", "[1, 2]", [1, 2], id="D13-any-value"),
        pytest.param("json_schema", '{"a": ', None, id="D13-does-not-parse"),
        pytest.param("json_schema", "null", None, id="D3-null"),
        pytest.param("text", '{"a": 1}', None, id="D13-another-format"),
        pytest.param(["json_schema"], "1", None, id="D30-a-format-that-is-no-text"),
        pytest.param("json_schema", f'{{"a": {2**70}}}', {"a": str(2**70)}, id="D31-long-integers"),
    ],
)
def test_structured_output(open_stream: Callable[..., Any], text_format: object, text: str, expected: object) -> None:
    stream = open_stream()
    stream.feed(on("created", text={"format": {"type": text_format}}), delta(text), on("completed"))
    assert ("structured_output" in stream.sealed[-1]["final"]) == (expected is not None)
    final = json.loads(stream.lines[-1])["final"]
    assert final.get("structured_output") == expected


def test_d43_structured_output_is_that_of_the_answer(open_stream: Callable[..., Any]) -> None:
    stream = open_stream()
    stream.feed(
        on("created", text={"format": {"type": "json_schema"}}),
        *(phased("final_answer", 1, "b"), delta('{"a":', 1, "b")),
        *(phased("commentary", 0, "a"), delta('{"c": 1}', 0, "a")),
        *(delta(" 1}", 1, "b"), on("completed")),
    )
    assert stream.sealed[-1]["final"]["structured_output"] == {"a": 1}


def test_d43_commentary_beside_a_refusal_is_no_answer(open_stream: Callable[..., Any]) -> None:
    stream = open_stream()
    no = {"type": "response.refusal.delta", "output_index": 1, "item_id": "b", "delta": "No."}
    said = stream.feed(phased("commentary", 0, "a"), delta("C", 0, "a"), no, on("completed"))
    assert said[-1]["final"] == {"status": "refused", "refusal_text": "No."}


@pytest.mark.parametrize("levels", [64, 65, 253, 300, 5_000])
def test_d31_a_stream_does_not_die_of_deep_structured_output(open_stream: Callable[..., Any], levels: int) -> None:
    stream = open_stream()
    text = "[" * levels + "]" * levels
    stream.feed(on("created", text={"format": {"type": "json_schema"}}), delta(text), on("completed"))
    assert stream.sealed[-1]["final"]["response_text"] == text
    assert len(stream.lines) == 5
