"""The Open Responses dialect: the events of each stream, and the members of the response object."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import pytest

from projector.contracts import codec
from projector.contracts.kinds import Kind, PrivateKind
from projector.contracts.public_sse_v1 import Envelope
from projector.contracts.stream_rules.table import check_lines
from projector.core.context import StreamContext
from projector.core.faults import FAULTS, Fault
from projector.core.pipeline import Pipeline, build_pipeline
from projector.core.reported_errors import generic_message
from projector.dialects.frame_writer import ENVELOPE
from projector.dialects.openresponses.writer import (
    DROPPED,
    DROPPED_ITEMS,
    ERROR_TYPES,
    HANDLED,
    HTTP_STATUSES,
    SOURCE_TYPES,
    OpenResponses,
)
from projector.dialects.response_writer.response_stream import EVENT_MAX_BYTES
from projector.redaction.policy import Policy
from tests.json_answers import assemble
from tests.protocols.openresponses.checker import OpenResponsesChecker

Event = dict[str, Any]

CREATED: Final[Event] = {
    "type": "response.created",
    "response": {
        "id": "resp_1",
        "status": "in_progress",
        "model": "m-1",
        "created_at": 1765800000,
        "instructions": "Never say the word marzipan.",
        "metadata": {"note": "marzipan"},
        "tools": [{"type": "function", "name": "marzipan"}],
        "temperature": 0.25,
    },
}
BEGINNING: Final = ["response.created", "response.in_progress"]


def pipeline_of(provider: str = "openai_responses", *, run: bool = False, **policy: object) -> Pipeline:
    return build_pipeline(
        provider=provider,
        dialect="openresponses",
        policy=Policy.load(policy),
        context=StreamContext(stream_id="stream_1"),
        run=run,
        input_format="ndjson",
        output_format="ndjson",
        takes_host_events=True,
        clock=lambda: 1765800001.5,
    )


def lines_of(events: Iterable[Event]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def play(*events: Event, provider: str = "openai_responses", run: bool = False, **policy: Any) -> list[Event]:
    """Return the output events of a stream; check the stream rules and the end mark."""
    pipeline = pipeline_of(provider, run=run, **policy)
    said = (pipeline.feed(lines_of(events)) + pipeline.close()).splitlines()
    assert check_lines(OpenResponsesChecker(), said) == []
    assert said[-1] == b"[DONE]"
    return [json.loads(line) for line in said[:-1]]


def names(events: list[Event]) -> list[str]:
    return [event["type"] for event in events]


def ended(status: str, **response: object) -> Event:
    return {"type": f"response.{status}", "response": {"id": "resp_1", "status": status, **response}}


def text(delta: str, index: int = 0, **members: object) -> Event:
    return {"type": "response.output_text.delta", "output_index": index, "delta": delta, **members}


def done(index: int, item_type: str, **item: object) -> Event:
    return {"type": "response.output_item.done", "output_index": index, "item": {"type": item_type, **item}}


def chunk(**delta: object) -> Event:
    return {"id": "chat_1", "model": "m-1", "created": 1765800000, "choices": [{"index": 0, "delta": delta}]}


def finish(reason: str) -> Event:
    return {"id": "chat_1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


# totality


def test_every_kind_is_handled_or_dropped_with_a_reason() -> None:
    assert HANDLED.keys() | DROPPED.keys() == {*Kind, *PrivateKind}
    assert not HANDLED.keys() & DROPPED.keys()
    assert all([*DROPPED.values(), *DROPPED_ITEMS.values()])


def test_the_envelope_is_the_public_one() -> None:
    assert {field.alias or name for name, field in Envelope.model_fields.items()} == ENVELOPE | {"notices"}


# the sequence of events

TEXT: Final = [
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
]
REASONING: Final = [
    "response.output_item.added",
    "response.content_part.added",
    "response.reasoning.delta",
    "response.reasoning.done",
    "response.content_part.done",
    "response.output_item.done",
]
SUMMARY: Final = [
    "response.output_item.added",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
    "response.reasoning_summary_part.done",
    "response.output_item.done",
]
REFUSAL: Final = [name.replace("output_text", "refusal") for name in TEXT]
CALL: Final = [
    "response.output_item.added",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.output_item.done",
]
OUTPUT: Final = ["response.output_item.added", "response.output_item.done", "public-sse:tool.status"]

CALL_ITEM: Final[Event] = {"id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"a":1}'}
ADDED: Final[Event] = {
    "type": "response.output_item.added",
    "output_index": 0,
    "item": {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "status": "in_progress"},
}
ARGUMENTS: Final[Event] = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"a":1}'}
REASONED: Final = done(0, "reasoning", content=[{"type": "reasoning_text", "text": "Two and two."}])
SUMMARIZED: Final = done(0, "reasoning", summary=[{"type": "summary_text", "text": "Adding."}])
CITATION: Final[Event] = {
    "type": "response.output_text.annotation.added",
    "output_index": 0,
    "annotation": {"type": "url_citation", "url": "https://example.org/"},
}
COMPLETED: Final = ended("completed")

SEQUENCES: Final[dict[str, tuple[list[Event], dict[str, Any], list[str]]]] = {
    "text": ([text("Hi"), COMPLETED], {}, [*BEGINNING, *TEXT, "response.completed"]),
    "nothing": ([COMPLETED], {}, [*BEGINNING, "response.completed"]),
    "a summary": ([SUMMARIZED, COMPLETED], {}, [*BEGINNING, *SUMMARY, "response.completed"]),
    "a summary, policy off": (
        [SUMMARIZED, COMPLETED],
        {"reasoning": "off"},
        [*BEGINNING, TEXT[0], TEXT[-1], "response.completed"],
    ),
    "full reasoning, policy full": (
        [REASONED, COMPLETED],
        {"reasoning": "full"},
        [*BEGINNING, *REASONING, "response.completed"],
    ),
    "full reasoning, policy summary": (
        [REASONED, COMPLETED],
        {},
        [*BEGINNING, TEXT[0], TEXT[-1], "response.completed"],
    ),
    "empty reasoning": (
        [done(0, "reasoning", content=[{"type": "reasoning_text", "text": ""}]), COMPLETED],
        {"reasoning": "full"},
        [*BEGINNING, TEXT[0], TEXT[-1], "response.completed"],
    ),
    "a refusal": (
        [{"type": "response.refusal.delta", "delta": "No."}, {"type": "response.refusal.done", "refusal": "No."}],
        {},
        [*BEGINNING, *REFUSAL[:-1], "response.output_item.done", "error", "response.failed"],
    ),
    "a call": ([ADDED, ARGUMENTS, done(0, "function_call", **CALL_ITEM)], {}, [*BEGINNING, *CALL, "error", "..."]),
    "a call that was cut off": ([ADDED, ARGUMENTS], {}, [*BEGINNING, *CALL[:2], CALL[-1], "error", "..."]),
    "a call and its output": (
        [
            done(0, "function_call", **CALL_ITEM),
            {"type": "projector.tool_output", "call_id": "call_1", "output": {"b": 2}},
            COMPLETED,
        ],
        {},
        [*BEGINNING, CALL[0], *CALL[2:], *OUTPUT, "response.completed"],
    ),
    "a call and the provider's item of its output": (
        [
            done(0, "function_call", **CALL_ITEM),
            done(1, "function_call_output", call_id="call_1", output="2"),
            COMPLETED,
        ],
        {},
        [*BEGINNING, CALL[0], *CALL[2:], *OUTPUT, "response.completed"],
    ),
    "a citation": (
        [CITATION, text("Hi"), COMPLETED],
        {},
        [*BEGINNING, *TEXT[:2], "response.output_text.annotation.added", *TEXT[2:], "response.completed"],
    ),
    "queued": (
        [{**CREATED, "response": {"id": "resp_1", "status": "queued"}}, text("Hi"), COMPLETED],
        {},
        ["response.created", "response.queued", "response.in_progress", *TEXT, "response.completed"],
    ),
    "a hosted tool": (
        [done(0, "web_search_call", action={"query": "q"}), COMPLETED],
        {},
        [*BEGINNING, TEXT[0], *["public-sse:tool.status"] * 2, TEXT[-1], "response.completed"],
    ),
    "an attachment": (
        [text("Hi"), {"type": "projector.attachment", "attachment": {"object_id": "o"}}, COMPLETED],
        {},
        [*BEGINNING, *TEXT, "public-sse:attachments", "response.completed"],
    ),
    "something withheld": (
        [done(0, "function_call", **{**CALL_ITEM, "arguments": '{"password":"x"}'}), COMPLETED],
        {},
        [*BEGINNING, *CALL[::2], "public-sse:notices", CALL[-1], "response.completed"],
    ),
}


@pytest.mark.parametrize(("events", "policy", "expected"), SEQUENCES.values(), ids=SEQUENCES)
def test_event_names_by_stream(events: list[Event], policy: dict[str, Any], expected: list[str]) -> None:
    expected = [name if name != "..." else "response.failed" for name in expected]
    assert names(play(*events, **policy)) == expected


def test_event_names_are_types() -> None:
    pipeline = build_pipeline(provider="openai_responses", dialect="openresponses", clock=lambda: 0.0)
    said = pipeline.feed(b"data: " + lines_of([text("Hi")]) + b"\n") + pipeline.close()
    messages = [message.split(b"\n") for message in said.removesuffix(b"\n\n").split(b"\n\n")]
    assert messages.pop() == [b"data: [DONE]"]
    for name, data in messages:
        assert name == b"event: " + json.loads(data.removeprefix(b"data: "))["type"].encode()


# reasoning from Chat Completions (seed 003)


def test_reasoning_of_a_chat_stream_precedes_its_text() -> None:
    """FR-001 to FR-006."""
    deltas = [chunk(reasoning_content="Two "), chunk(reasoning_content="and two."), chunk(content="Four.")]
    said = play(*deltas, finish("stop"), provider="openai_chat", reasoning="full")
    reasoning = [*REASONING[:2], "response.reasoning.delta", *REASONING[2:]]
    assert names(said) == [*BEGINNING, *reasoning, *TEXT, "response.completed"]
    place = {"item_id": said[2]["item"]["id"], "output_index": 0, "content_index": 0}
    assert [{**event, **place} for event in said[3:8]] == said[3:8]
    assert [event["sequence_number"] for event in said] == list(range(len(said)))
    assert said[6]["text"] == "Two and two."
    output = said[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message"]
    assert output[0]["content"] == [{"type": "reasoning_text", "text": "Two and two."}]


def test_reasoning_and_text_may_come_in_one_chunk() -> None:
    said = play(
        chunk(reasoning_content="So.", content="Four."), finish("stop"), provider="openai_chat", reasoning="full"
    )
    assert names(said) == [*BEGINNING, *REASONING, *TEXT, "response.completed"]


def test_reasoning_without_an_answer_is_incomplete() -> None:
    said = play(chunk(reasoning_content="So."), finish("length"), provider="openai_chat", reasoning="full")
    assert names(said) == [*BEGINNING, *REASONING, "response.incomplete"]
    response = said[-1]["response"]
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"


@pytest.mark.parametrize("deltas", [[{"content": "Four."}], [{"reasoning_content": ""}, {"content": "Four."}]])
def test_models_without_reasoning_write_no_reasoning(deltas: list[Event]) -> None:
    """FR-007, FR-008."""
    said = play(*(chunk(**delta) for delta in deltas), finish("stop"), provider="openai_chat", reasoning="full")
    assert names(said) == [*BEGINNING, *TEXT, "response.completed"]


def test_each_response_of_a_run_has_its_reasoning() -> None:
    """User story 3: sequence numbers continue, and items are listed one after another."""
    call = {"index": 0, "id": "call_1", "function": {"name": "f", "arguments": "{}"}}
    said = play(
        *(chunk(reasoning_content="First."), chunk(tool_calls=[call]), finish("tool_calls")),
        {"type": "projector.next_response"},
        {"type": "projector.tool_output", "call_id": "call_1", "output": "ok"},
        *(chunk(reasoning_content="Then."), chunk(content="Done."), finish("stop")),
        provider="openai_chat",
        run=True,
        reasoning="full",
    )
    assert names(said) == [*BEGINNING, *REASONING, *CALL, *OUTPUT, *REASONING, *TEXT, "response.completed"]
    added = [event for event in said if event["type"] == "response.output_item.added"]
    assert [(event["output_index"], event["item"]["type"]) for event in added] == [
        *((0, "reasoning"), (1, "function_call"), (2, "function_call_output"), (3, "reasoning"), (4, "message")),
    ]


# items


def test_a_call_is_announced_with_its_name() -> None:
    said = play(ADDED, ARGUMENTS, done(0, "function_call", **CALL_ITEM), COMPLETED)
    item = {"type": "function_call", "id": "fc_1", "status": "in_progress", "call_id": "call_1", "name": "f"}
    assert said[2]["item"] == item | {"arguments": ""}
    assert said[-1]["response"]["output"] == [item | {"arguments": '{"a":1}', "status": "completed"}]


def test_truncated_arguments_are_in_their_item() -> None:
    item = play(ADDED, {**ARGUMENTS, "delta": '{"a":'})[-1]["response"]["output"][0]
    assert (item["arguments"], item["status"]) == ('{"a":', "incomplete")


@pytest.mark.parametrize(("output", "said"), [("two", "two"), ({"b": [2]}, '{"b":[2]}'), (None, "null"), (2, "2")])
def test_outputs_are_text(output: object, said: str) -> None:
    answer = {"type": "projector.tool_output", "call_id": "call_1", "output": output}
    items = play(done(0, "function_call", **CALL_ITEM), answer, COMPLETED)[-1]["response"]["output"]
    assert items[1] == {
        "type": "function_call_output",
        "id": "fc_1_output",
        "status": "completed",
        "call_id": "call_1",
        "output": said,
    }


def test_the_id_of_an_output_is_new() -> None:
    answer = {"type": "projector.tool_output", "call_id": "call_1", "output": "two"}
    events = [done(0, "function_call", **CALL_ITEM), done(1, "message", id="fc_1_output", content=[]), answer]
    assert [item["id"] for item in play(*events)[-1]["response"]["output"]] == ["fc_1", "fc_1_output", "fc_1_output.2"]


def test_indexes_count_the_announced_items_and_parts() -> None:
    """Clients look up `output[output_index].content[content_index]`, whatever the provider's numbers."""
    said = play(text("b", 7, content_index=3), text("a", 7, content_index=1), text("c", 2), COMPLETED)
    deltas = [event for event in said if event["type"] == "response.output_text.delta"]
    assert [(event["output_index"], event["content_index"]) for event in deltas] == [(0, 0), (0, 1), (1, 0)]
    output = said[-1]["response"]["output"]
    assert [[part["text"] for part in item["content"]] for item in output] == [["b", "a"], ["c"]]


def test_other_item_types_have_our_prefix() -> None:
    said = play(
        done(0, "mcp_call", id="mcp_1", name="look", server_label="s", arguments="{}", output="seen"), COMPLETED
    )
    assert said[-1]["response"]["output"] == [
        {
            "type": "public-sse:mcp_call",
            "id": "mcp_1",
            "status": "completed",
            "tool_call_id": "mcp_1",
            "tool_name": "look",
            "server_label": "s",
            "arguments_text": "{}",
            "arguments_json": {},
            "output": "seen",
        }
    ]


def test_citations_have_every_required_member() -> None:
    foreign = {**CITATION, "annotation": {"type": "file_citation", "file_id": "file_1"}}
    said = play(text("Hi"), CITATION, foreign, COMPLETED)[-1]["response"]["output"][0]["content"][0]["annotations"]
    assert said == [
        {"type": "url_citation", "url": "https://example.org/", "title": "", "start_index": 0, "end_index": 0},
        {"type": "public-sse:file_citation", "file_id": "file_1"},
    ]


@pytest.mark.parametrize(("role", "said"), [("user", "user"), ("critic", "assistant"), (None, "assistant")])
def test_roles(role: str | None, said: str) -> None:
    assert play(done(0, "message", role=role, content=[]), COMPLETED)[2]["item"]["role"] == said


def test_text_after_the_end_of_a_part_is_dropped() -> None:
    reasoned = {"type": "response.reasoning_text.done", "output_index": 0, "text": "So."}
    more = {"type": "response.reasoning_text.delta", "output_index": 0, "delta": " And so."}
    said = play(reasoned, more, COMPLETED, reasoning="full")
    assert [part["text"] for part in said[-1]["response"]["output"][0]["content"]] == ["So."]


def test_encrypted_reasoning_has_its_own_setting() -> None:
    item = done(0, "reasoning", encrypted_content="c2VhbGVk")
    assert "encrypted_content" not in play(item, COMPLETED, reasoning="full")[3]["item"]
    assert (
        play(item, COMPLETED, reasoning="off", encrypted_reasoning=True)[3]["item"]["encrypted_content"] == "c2VhbGVk"
    )


def test_an_unknown_item_is_announced_when_it_ends() -> None:
    """After an internal error, `PublicStreamProjector.fail_closed` may close items that this writer does not know."""
    writer = OpenResponses()
    envelope = {"stream_id": "stream_1", "server_timestamp": "2025-12-15T12:00:00.000Z", "item_id": "fc_1"}
    frame = {**envelope, "kind": "output_item.done", "item_type": "function_call", "status": "incomplete"}
    said = [name for name, _ in writer.feed({**frame, "output_index": 0})]
    assert said == [*BEGINNING, "response.output_item.added", "response.output_item.done"]
    assert writer.feed({**envelope, "kind": "a kind of tomorrow"}) == []


# the response object


def test_the_response_is_rebuilt_not_copied() -> None:
    said = play(CREATED, text("Hi"), ended("completed", instructions="marzipan", usage={"input_tokens": 3}))
    assert "marzipan" not in json.dumps(said)
    response = said[-1]["response"]
    assert {response[name] for name in ("instructions", "previous_response_id", "reasoning")} == {None}
    assert (response["id"], response["model"], response["temperature"]) == ("resp_1", "m-1", 1.0)
    assert (response["created_at"], response["completed_at"]) == (1765800000, 1765800001)
    assert response["usage"] == {
        "input_tokens": 3,
        "output_tokens": 0,
        "total_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }


def test_a_response_without_an_id_has_that_of_its_stream() -> None:
    said = play(text("Hi"), {**CREATED, "response": {"id": "resp_9", "model": "m-9"}}, ended("completed", id="resp_9"))
    assert [event["response"]["id"] for event in said if "response" in event] == ["stream_1"] * 3
    assert [event["response"]["model"] for event in said if "response" in event] == ["unknown", "unknown", "m-9"]
    assert said[0]["response"]["created_at"] == 1765800001


def test_a_run_is_one_response() -> None:
    other = {"type": "response.created", "response": {"id": "resp_2", "status": "in_progress", "model": "m-2"}}
    said = play(
        *(CREATED, text("One."), COMPLETED, {"type": "projector.next_response"}),
        *(other, text("Two."), ended("completed")),
        run=True,
    )
    assert names(said) == [*BEGINNING, *TEXT, *TEXT, "response.completed"]
    response = said[-1]["response"]
    assert (response["id"], response["model"]) == ("resp_1", "m-1")
    assert [item["content"][0]["text"] for item in response["output"]] == ["One.", "Two."]


ENDS: Final[dict[str, tuple[list[Event], str, str, object]]] = {
    "completed": ([COMPLETED], "response.completed", "completed", None),
    "refused": (
        [{"type": "response.refusal.delta", "delta": "No."}, COMPLETED],
        "response.completed",
        "completed",
        None,
    ),
    "incomplete": (
        [ended("incomplete", incomplete_details={"reason": "content_filter"})],
        *("response.incomplete", "incomplete", {"reason": "content_filter"}),
    ),
    "incomplete without a reason": (
        [ended("incomplete")],
        *("response.incomplete", "incomplete", {"reason": "unknown"}),
    ),
    "cancelled by the provider": (
        [{"type": "response.completed", "response": {"status": "cancelled"}}],
        *("response.incomplete", "incomplete", {"reason": "cancelled"}),
    ),
    "cancelled by the host": (
        [text("Hi"), {"type": "projector.cancel"}],
        *("response.incomplete", "incomplete", {"reason": "cancelled"}),
    ),
    "failed": (
        [ended("failed", error={"code": "server_error", "message": "of the provider"})],
        *("response.failed", "failed", {"code": "server_error", "message": generic_message("server_error")}),
    ),
    "error": (
        [{"type": "error", "code": "rate_limit_exceeded", "message": "Too fast."}],
        *(
            "response.failed",
            "failed",
            {"code": "rate_limit_exceeded", "message": generic_message("rate_limit_exceeded")},
        ),
    ),
    "empty": (
        [],
        *("response.failed", "failed"),
        {"code": "upstream_empty", "message": FAULTS["upstream_empty"].message},
    ),
}


@pytest.mark.parametrize(("events", "name", "status", "why"), ENDS.values(), ids=ENDS)
def test_the_end_of_the_response_by_status(events: list[Event], name: str, status: str, why: object) -> None:
    last = play(*events)[-1]
    response = last["response"]
    assert (last["type"], response["status"]) == (name, status)
    assert (response["error"] or response["incomplete_details"]) == why


# errors

ERRORS: Final = [
    ("rate_limit_exceeded", "too_many_requests", 429),
    ("429", "too_many_requests", 429),
    ("context_length_exceeded", "invalid_request", 400),
    ("model_not_found", "not_found", 404),
    ("server_error", "model_error", 500),
    ("anything", "model_error", 500),
]


@pytest.mark.parametrize(("code", "error_type", "status"), ERRORS)
def test_error_types(code: str, error_type: str, status: int) -> None:
    said = play({"type": "error", "code": code, "message": "Because."})
    assert said[-2]["error"] == {"type": error_type, "code": code, "message": generic_message(code), "param": None}
    assert assemble(map(codec.dumps, said)) == (status, {"error": said[-2]["error"]})


def test_our_own_faults_are_server_errors() -> None:
    pipeline = pipeline_of()
    said = pipeline.close(FAULTS["server_shutdown"]).splitlines()
    assert json.loads(said[-3])["error"]["type"] == "server_error"
    assert check_lines(OpenResponsesChecker(), said) == []


def test_every_error_type_has_a_status() -> None:
    assert {*ERROR_TYPES.values(), *SOURCE_TYPES.values()} == HTTP_STATUSES.keys()


def test_http_statuses_of_upstreams() -> None:
    for status, expected in ((429, 429), (400, 400), (404, 404), (503, 500)):
        assert assemble(pipeline_of().close(Fault.of_status(status)).splitlines()).status == expected


# requests that do not stream


def test_the_answer_is_the_last_response() -> None:
    pipeline = pipeline_of()
    said = pipeline.feed(lines_of([CREATED, text("Hi"), COMPLETED])) + pipeline.close()
    answer = assemble(said.splitlines())
    assert answer.body == json.loads(said.splitlines()[-2])["response"]
    assert answer.status == 200
    assert answer.body["output"][0]["content"][0]["text"] == "Hi"


def test_a_failed_response_is_an_answer() -> None:
    events = play(ended("failed"))
    assert assemble(map(codec.dumps, events)) == (200, events[-1]["response"])


@pytest.mark.parametrize(
    "lines", [[], [b"[DONE]"], [b"", b'{"type":"response.created","response":{"status":"queued"}}']]
)
def test_an_incomplete_stream_has_no_answer(lines: list[bytes]) -> None:
    with pytest.raises(ValueError, match="a complete stream"):
        assemble(lines)


# the budget of bytes


def written(max_bytes: int, *events: Event) -> list[bytes]:
    """Return the output of a writer with a small limit."""
    public = build_pipeline(provider="openai_responses", dialect="public_sse_v1", clock=lambda: 0.0, **_NDJSON)
    frames = [json.loads(line) for line in (public.feed(lines_of(events)) + public.close()).splitlines()]
    writer = OpenResponses(max_bytes)
    return [data for frame in frames for _, data in writer.feed(frame)] + [b"[DONE]"]


_NDJSON: Final[dict[str, Any]] = {"input_format": "ndjson", "output_format": "ndjson"}


def test_the_limit_of_an_event() -> None:
    assert EVENT_MAX_BYTES == 16 * 1024 * 1024


def test_long_texts_are_truncated_to_one_size() -> None:
    texts = ["a" * 3_000, "é" * 9_000, "c" * 1_100]
    events = [text(part[at : at + 900], n) for n, part in enumerate(texts) for at in range(0, len(part), 900)]
    said = written(8_000, *events, COMPLETED)
    assert check_lines(OpenResponsesChecker(), said) == []
    assert max(map(len, said)) <= 8_000
    shown = [item["content"][0]["text"] for item in json.loads(said[-2])["response"]["output"]]
    assert [texts[n][: len(part)] for n, part in enumerate(shown)] == shown
    assert 0 <= len(shown[0]) - len(shown[1].encode()) <= 1
    assert shown[2] == texts[2]
    assert json.loads(said[-3])["notices"][0]["path"] == "response.output[0].content[0].text"
    deltas = [event for event in map(json.loads, said[:-1]) if "delta" in event and event["output_index"] == 1]
    assert "".join(event["delta"] for event in deltas) == texts[1]


def test_items_are_dropped_after_the_texts() -> None:
    said = written(20_000, *(text(f"short text {n}", n) for n in range(200)), COMPLETED)
    assert check_lines(OpenResponsesChecker(), said) == []
    assert max(map(len, said)) <= 20_000
    assert 50 < len(json.loads(said[-2])["response"]["output"]) < 200
    assert json.loads(said[-3])["notices"] == [
        {"type": "truncated", "path": "response.output", "message": "Some content was left out."}
    ]
