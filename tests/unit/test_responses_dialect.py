"""The dialect `responses`: the events of each stream, items, errors, and the tables against the SDK's models."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any, Final, get_args

import pytest
from openai.types.responses import Response, ResponseError
from openai.types.responses.response import IncompleteDetails

from projector.contracts import codec
from projector.contracts.kinds import Kind, PrivateKind
from projector.contracts.stream_rules.table import check_lines
from projector.core.context import StreamContext
from projector.core.faults import FAULTS, Fault
from projector.core.handlers import items
from projector.core.pipeline import Pipeline, build_pipeline
from projector.dialects.descriptor import DialectOptions
from projector.dialects.responses.writer import (
    CITATIONS,
    CODES,
    DROPPED,
    DROPPED_ITEMS,
    HANDLED,
    INCOMPLETE_REASONS,
    ITEMS,
    REQUEST_MEMBERS,
    STATUS_CODES,
    STATUS_EVENTS,
    WITH_STATUS_EVENTS,
    Responses,
)
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.json_answers import assemble
from tests.protocols.responses.checker import ResponsesChecker
from tests.sdk_models import MODELS, faults_of

Event = dict[str, Any]

BEGINNING: Final = ["response.created", "response.in_progress"]
COMPLETED: Final[Event] = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}


@cache
def redactor_of(policy: str) -> Redactor:
    """Compile a policy, given as JSON, once."""
    return Redactor(Policy.load(json.loads(policy)))


def pipeline_of(*, extensions: bool = False, run: bool = False, **policy: object) -> Pipeline:
    return build_pipeline(
        provider="openai_responses",
        dialect="responses",
        redactor=redactor_of(json.dumps(policy)),
        context=StreamContext(stream_id="stream_1"),
        run=run,
        options=DialectOptions(extensions=extensions),
        input_format="ndjson",
        output_format="ndjson",
        takes_host_events=True,
        clock=lambda: 1765800001.5,
    )


def lines_of(*events: Event) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def play(*events: Event, extensions: bool = False, **settings: Any) -> list[Event]:
    """Return the output events of a stream; check the stream rules, and the models of the SDK."""
    pipeline = pipeline_of(extensions=extensions, **settings)
    said = (pipeline.feed(lines_of(*events)) + pipeline.close()).splitlines()
    assert check_lines(ResponsesChecker(), said) == []
    assert extensions or faults_of(said) == []
    return [json.loads(line) for line in said]


def names(events: list[Event]) -> list[str]:
    return [event["type"] for event in events]


def done(index: int, item_type: str, **item: object) -> Event:
    return {"type": "response.output_item.done", "output_index": index, "item": {"type": item_type, **item}}


def output_of(*events: Event, **settings: Any) -> list[Event]:
    """Return the items of the finished response."""
    output: list[Event] = play(*events, COMPLETED, **settings)[-1]["response"]["output"]
    return output


def text(delta: str, index: int = 0) -> Event:
    return {"type": "response.output_text.delta", "output_index": index, "delta": delta}


# tables


def test_every_kind_is_handled_or_dropped_with_a_reason() -> None:
    assert HANDLED.keys() | DROPPED.keys() == {*Kind, *PrivateKind}
    assert not HANDLED.keys() & DROPPED.keys()


def test_every_item_type_is_written_or_has_a_reason() -> None:
    assert ITEMS.keys() | DROPPED_ITEMS.keys() == items.FINISHERS.keys() | items.ITEMS_ONLY.keys()
    assert not ITEMS.keys() & DROPPED_ITEMS.keys()
    assert all(len(reason.split()) >= 3 for reason in DROPPED_ITEMS.values())


def test_every_event_of_a_call_is_one_of_the_sdk() -> None:
    statuses = {*STATUS_EVENTS.values()}
    texts = {
        f"{shape.text.event}.{suffix}"
        for shape in ITEMS.values()
        if shape.text is not None
        for suffix in ("delta", "done")
    }
    assert statuses | texts <= MODELS.keys()
    progress = {name for name in MODELS if name.split(".")[1:2] and name.split(".")[1] in WITH_STATUS_EVENTS}
    assert progress - statuses == {"response.image_generation_call.partial_image"}


def test_the_words_are_those_of_the_sdk() -> None:
    reasons = get_args(get_args(IncompleteDetails.model_fields["reason"].annotation)[0])
    assert {*get_args(ResponseError.model_fields["code"].annotation)} == CODES
    assert {*STATUS_CODES.values()} <= CODES
    assert {*INCOMPLETE_REASONS.values()} == {*reasons}
    assert REQUEST_MEMBERS.keys() <= Response.model_fields.keys()
    required = {name for name, field in Response.model_fields.items() if field.is_required()}
    assert required <= play(COMPLETED)[-1]["response"].keys()


# the sequence of events

CODE: Final = "response.code_interpreter_call_code"
SEQUENCES: Final[dict[str, tuple[list[Event], list[str]]]] = {
    "text": (
        [text("Hi")],
        [
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
        ],
    ),
    "full reasoning": (
        [done(0, "reasoning", content=[{"type": "reasoning_text", "text": "So."}])],
        [
            "response.output_item.added",
            "response.content_part.added",
            "response.reasoning_text.delta",
            "response.reasoning_text.done",
            "response.content_part.done",
            "response.output_item.done",
        ],
    ),
    "a call that comes whole": (
        [done(0, "function_call", call_id="call_1", name="f", arguments="{}")],
        [
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
        ],
    ),
    "a custom call": (
        [done(0, "custom_tool_call", call_id="call_1", name="f", input="go")],
        [
            "response.output_item.added",
            "response.custom_tool_call_input.delta",
            "response.custom_tool_call_input.done",
            "response.output_item.done",
        ],
    ),
    "a web search": (
        [{"type": "response.web_search_call.searching", "output_index": 0}, done(0, "web_search_call")],
        [
            "response.output_item.added",
            "response.web_search_call.in_progress",
            "response.web_search_call.searching",
            "response.web_search_call.completed",
            "response.output_item.done",
        ],
    ),
    "code": (
        [done(0, "code_interpreter_call", code="1", outputs=[{"type": "logs", "logs": "1"}])],
        [
            "response.output_item.added",
            "response.code_interpreter_call.in_progress",
            f"{CODE}.delta",
            f"{CODE}.done",
            "response.code_interpreter_call.completed",
            "response.output_item.done",
        ],
    ),
    "an MCP call that fails": (
        [done(0, "mcp_call", name="f", arguments="{}", error="no")],
        [
            "response.output_item.added",
            "response.mcp_call.in_progress",
            "response.mcp_call_arguments.delta",
            "response.mcp_call_arguments.done",
            "response.mcp_call.failed",
            "response.output_item.done",
        ],
    ),
    "an approval request": (
        [done(0, "mcp_approval_request", name="f", arguments="{}")],
        ["response.output_item.added", "response.output_item.done"],
    ),
    "items that are not written": ([done(at, name) for at, name in enumerate(DROPPED_ITEMS)], []),
    "an output of the host": (
        [
            done(0, "function_call", call_id="call_1", name="f", arguments="{}"),
            {"type": "projector.tool_output", "call_id": "call_1", "output": "two"},
        ],
        [
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
        ],
    ),
}


@pytest.mark.parametrize(("events", "expected"), SEQUENCES.values(), ids=SEQUENCES)
def test_event_names_by_stream(events: list[Event], expected: list[str]) -> None:
    said = play(*events, COMPLETED, reasoning="full")
    assert names(said) == [*BEGINNING, *expected, "response.completed"]
    assert [event["sequence_number"] for event in said] == list(range(len(said)))


def test_indexes_have_no_gap_for_an_item_that_is_not_written() -> None:
    said = play(done(0, "mcp_list_tools", server_label="s", tools=[]), text("Hi", 1), COMPLETED)
    assert {event["output_index"] for event in said if "output_index" in event} == {0}
    assert said[-1]["response"]["output"][0]["content"][0]["text"] == "Hi"


# items


@pytest.mark.parametrize(
    ("item_type", "name"),
    [(one, name) for one, members in items.MEMBERS.items() for name in members if name in items.MEMBER_TYPES],
)
def test_a_member_of_another_type_is_left_out(item_type: str, name: str) -> None:
    """Clients check the types of members."""
    for wrong in (True, 7):
        for item in output_of(done(0, item_type, **{"call_id": "c", name: wrong})):
            assert item.get(name) is not wrong


def test_the_phase_of_a_message_is_in_its_announcement() -> None:
    added = {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"type": "message", "phase": "commentary"},
    }
    said = play(added, text("Hi"), COMPLETED)
    assert [said[at]["item"]["phase"] for at in (2, 7)] == ["commentary"] * 2
    assert said[-1]["response"]["output"][0]["phase"] == "commentary"


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ({"type": "search", "query": "q", "url": "https://a.example"}, {"type": "search", "query": "q"}),
        ({"type": "open_page", "url": "https://a.example"}, {"type": "open_page", "url": "https://a.example"}),
        ({"type": "find", "pattern": "p"}, {"type": "find_in_page", "url": "", "pattern": "p"}),
        ({"type": "tomorrow", "queries": ["a", 7, "b"]}, {"type": "search", "queries": ["a", "b"]}),
        (None, {"type": "search"}),
    ],
)
def test_actions_of_a_search(action: Event | None, expected: Event) -> None:
    [item] = output_of(done(0, "web_search_call", id="ws_1", action=action))
    assert item == {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": expected}


def test_sources_of_a_search_have_a_type() -> None:
    sources = [{"type": "url", "url": "https://a.example"}, {"type": "api", "name": "oai-weather"}]
    [item] = output_of(done(0, "web_search_call", action={"type": "search", "sources": sources}))
    assert item["action"]["sources"] == sources[:1]


def test_the_image_of_a_call_is_joined_from_its_chunks() -> None:
    data = base64.b64encode(bytes(300_000)).decode()
    partial = {"partial_image_index": 1, "partial_image_b64": data, "output_format": "webp", "quality": "hd"}
    said = play(
        {"type": "response.image_generation_call.partial_image", "output_index": 0, **partial},
        done(0, "image_generation_call", result=data[:-4], size="1x1", quality="high"),
        COMPLETED,
    )
    [event] = [event for event in said if event["type"].endswith("partial_image")]
    assert (event["partial_image_b64"], event["partial_image_index"], event["output_format"]) == (data, 1, "webp")
    assert "quality" not in event
    item = said[-1]["response"]["output"][0]
    assert (item["result"], item["status"], item["size"], item["quality"]) == (data[:-4], "completed", "1x1", "high")


@pytest.mark.parametrize(("result", "policy"), [(None, {}), ("no base64!", {}), ("aGk=", {"images": "host"})])
def test_a_finished_call_without_an_image_has_an_empty_result(result: str | None, policy: Event) -> None:
    said = play(done(0, "image_generation_call", result=result), COMPLETED, **policy)
    assert (said[2]["item"]["result"], said[-1]["response"]["output"][0]["result"]) == (None, "")


def test_code_that_is_longer_than_its_limit_is_complete() -> None:
    code = "x = 1\n" * 10_000
    deltas = [
        {"type": f"{CODE}.delta", "output_index": 0, "delta": code[at : at + 900]} for at in range(0, 60_000, 900)
    ]
    said = play(*deltas, done(0, "code_interpreter_call", code=code, container_id="cntr_1"), COMPLETED)
    assert said[-1]["response"]["output"][0]["code"] == code
    assert [event["code"] for event in said if event["type"] == f"{CODE}.done"] == [code]


PIXEL: Final = "data:image/png;base64,aGk="


@pytest.mark.parametrize(
    ("url", "policy", "is_written"),
    [
        (PIXEL, {}, True),
        ("https://files.example/plot.png", {}, True),
        (PIXEL, {"images": "host"}, False),
        ("data:image/png;base64,not base64!", {}, False),
        ("data:image/svg+xml;base64,aGk=", {}, False),
        ("data:text/html;base64,aGk=", {}, False),
        (f"data:image/png;base64,{'a' * 5_000_000}", {}, False),
        ("file:///etc/passwd", {}, False),
    ],
)
def test_images_of_the_code_interpreter(url: str, policy: Event, *, is_written: bool) -> None:
    """A URL that is withheld is no URL: pydantic-ai raises an exception on it."""
    outputs = [{"type": "logs", "logs": "1"}, {"type": "image", "url": url}, {"type": "files", "files": []}]
    [item] = output_of(done(0, "code_interpreter_call", outputs=outputs), **policy)
    image = [{"type": "image", "url": url}] if is_written else []
    assert item["outputs"] == [{"type": "logs", "logs": "1"}, *image]


@pytest.mark.parametrize(
    ("text_format", "expected"),
    [
        ({"type": "text"}, {"type": "text"}),
        ({"type": "json_object"}, {"type": "json_object"}),
        (
            {"type": "json_schema", "name": "book", "schema": {"marzipan": 1}, "strict": True},
            {"type": "json_schema", "name": "response", "schema": {}},
        ),
        ({"type": "json_schema"}, {"type": "json_schema", "name": "response", "schema": {}}),
        ({"type": "marzipan"}, {"type": "text"}),
    ],
)
def test_the_response_has_the_format_of_its_text(text_format: Event, expected: Event) -> None:
    """LangChain parses a structured answer only if its response says so."""
    response = {"id": "resp_1", "status": "in_progress", "text": {"format": text_format}}
    said = play({"type": "response.created", "response": response}, text("{}"), COMPLETED)
    assert [event["response"]["text"] for event in said if "response" in event] == [{"format": expected}] * 3


@pytest.mark.parametrize("kind", CITATIONS)
def test_citations_have_every_required_member(kind: str) -> None:
    added = {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": {"type": kind, "x": 1}}
    said = play(text("Hi"), added, COMPLETED)
    [event] = [event for event in said if event["type"] == added["type"]]
    assert event["annotation"] == {"type": kind, **CITATIONS[kind]}
    assert said[-1]["response"]["output"][0]["content"][0]["annotations"] == [event["annotation"]]


def test_encrypted_reasoning_has_its_own_setting() -> None:
    item = done(0, "reasoning", encrypted_content="c2VhbGVk")
    assert "encrypted_content" not in output_of(item)[0]
    assert output_of(item, encrypted_reasoning=True)[0]["encrypted_content"] == "c2VhbGVk"


# ends and errors

ENDS: Final[dict[str, tuple[Event, str, str, Event | None]]] = {
    "incomplete": (
        {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
        *("response.incomplete", "incomplete", {"reason": "content_filter"}),
    ),
    "incomplete for another reason": (
        {"status": "incomplete", "incomplete_details": {"reason": "the moon"}},
        *("response.incomplete", "incomplete", None),
    ),
    "cancelled": ({"status": "cancelled"}, "response.incomplete", "cancelled", None),
}


@pytest.mark.parametrize(("response", "name", "status", "details"), ENDS.values(), ids=ENDS)
def test_the_end_of_the_response_by_status(response: Event, name: str, status: str, details: Event | None) -> None:
    last = play(text("Hi"), {"type": "response.completed", "response": response})[-1]
    assert (last["type"], last["response"]["status"], last["response"]["incomplete_details"]) == (name, status, details)


ERRORS: Final = [
    ("rate_limit_exceeded", "rate_limit_error", "rate_limit_exceeded", 429),
    ("insufficient_quota", "rate_limit_error", "rate_limit_exceeded", 429),
    ("context_length_exceeded", "invalid_request_error", "invalid_prompt", 400),
    ("invalid_api_key", "authentication_error", "server_error", 401),
    ("invalid_image", "server_error", "invalid_image", 500),
    ("anything", "server_error", "server_error", 500),
]


@pytest.mark.parametrize("source", ["error", "response.failed"])
@pytest.mark.parametrize(("code", "kind", "in_response", "status"), ERRORS)
def test_errors(source: str, code: str, kind: str, in_response: str, status: int) -> None:
    reported = {"code": code, "message": "Because."}
    event = (
        {"type": "error", **reported} if source == "error" else {"response": {"status": "failed", "error": reported}}
    )
    said = play(text("Hi"), {"type": source, **event})
    assert names(said)[-2:] == ["error", "response.failed"]
    error, last = said[-2], said[-1]["response"]
    message = error["message"]
    assert {name: error[name] for name in ("code", "param")} == {"code": code, "param": None}
    assert error["error"] == {"message": message, "type": kind, "param": None, "code": code}
    assert last["error"] == {"code": in_response, "message": message, "type": kind, "param": None}
    assert last["status"] == "failed"
    assert assemble(map(codec.dumps, said), "responses") == (status, {"error": error["error"]})


def test_faults_of_the_server_and_the_upstream() -> None:
    for fault, status in ((FAULTS["server_shutdown"], 503), (Fault.of_status(404), 404)):
        said = pipeline_of().close(fault).splitlines()
        assert faults_of(said) == check_lines(ResponsesChecker(), said) == []
        assert assemble(said, "responses").status == status


def test_the_answer_is_the_last_response() -> None:
    said = play(text("Hi"), COMPLETED)
    assert assemble(map(codec.dumps, said), "responses") == (200, said[-1]["response"])


# extensions

WITHHELD: Final[Event] = {"call_id": "call_1", "name": "f", "arguments": '{"password":"swordfish"}'}
EXTENSIONS: Final[dict[str, tuple[list[Event], str]]] = {
    "a notice": ([done(0, "function_call", **WITHHELD)], "public-sse:notices"),
    "an attachment": (
        [{"type": "projector.attachment", "attachment": {"object_id": "o"}}],
        "public-sse:attachments",
    ),
    "a status of a function": ([done(0, "function_call", **WITHHELD)], "public-sse:tool.status"),
    "an output of a function": (
        [
            done(0, "function_call", **WITHHELD),
            {"type": "projector.tool_output", "call_id": "call_1", "output": "two"},
        ],
        "public-sse:tool.output",
    ),
}


@pytest.mark.parametrize(("events", "name"), EXTENSIONS.values(), ids=EXTENSIONS)
def test_events_of_our_own_are_opt_in(events: list[Event], name: str) -> None:
    assert name in names(play(*events, COMPLETED, extensions=True))
    assert not any(one.startswith("public-sse") for one in names(play(*events, COMPLETED)))


# the budget of bytes


def written(max_bytes: int, *events: Event) -> list[bytes]:
    """Return the output of a writer with a small limit."""
    frames: list[Any] = []
    pipeline = build_pipeline(
        provider="openai_responses",
        dialect="public_sse_v1",
        redactor=redactor_of('{"encrypted_reasoning": true}'),
        input_format="ndjson",
        clock=lambda: 0.0,
        on_frame=frames.append,
    )
    pipeline.feed(lines_of(*events))
    pipeline.close()
    writer = Responses(max_bytes)
    return [data for frame in frames for _, data in writer.feed(frame)]


def test_large_texts_are_truncated_and_large_images_left_out() -> None:
    image, sealed = base64.b64encode(bytes(9_000)).decode(), "c2VhbGVk" * 1_000
    said = written(
        6_000,
        *(text("word " * 150, 0) for _ in range(20)),
        {"type": "response.image_generation_call.partial_image", "output_index": 1, "partial_image_index": 0}
        | {"partial_image_b64": image},
        done(1, "image_generation_call", result=image),
        done(2, "reasoning", encrypted_content=sealed),
        COMPLETED,
    )
    assert max(map(len, said)) <= 6_000
    assert faults_of(said) == []
    message, picture, reasoning = json.loads(said[-1])["response"]["output"]
    assert 1_000 < len(message["content"][0]["text"]) < 15_000
    assert (picture["result"], reasoning["encrypted_content"]) == ("", "")
    assert [json.loads(line)["sequence_number"] for line in said] == list(range(len(said)))


def test_an_error_keeps_the_parameter_that_the_provider_names() -> None:
    pipeline = build_pipeline(
        provider="openai_responses",
        dialect="responses",
        policy=Policy(error_messages="provider"),
        input_format="ndjson",
        output_format="ndjson",
    )
    error = {"type": "error", "code": "invalid_value", "message": "Bad value", "param": "input[0]"}
    lines = (pipeline.feed(json.dumps(error).encode() + b"\n") + pipeline.close()).splitlines()
    assert check_lines(ResponsesChecker(), lines) == []
    [event] = [event for event in map(json.loads, lines) if event["type"] == "error"]
    assert (event["param"], event["error"]["param"]) == ("input[0]", "input[0]")
