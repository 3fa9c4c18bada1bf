"""The Chat Completions dialect: the chunks of each stream, and the JSON answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import pytest

from projector.contracts.kinds import Kind, PrivateKind
from projector.contracts.public_sse_v1 import Envelope
from projector.contracts.stream_rules.table import check_lines
from projector.core.context import BranchContext, StreamContext
from projector.core.faults import FAULTS, Fault
from projector.core.pipeline import Pipeline, build_pipeline
from projector.dialects.chat_completions import DIALECT
from projector.dialects.chat_completions.completion import CompletionAssembly
from projector.dialects.chat_completions.writer import ANNOTATIONS_MAX_ITEMS, EXTENSIONS
from projector.dialects.descriptor import DialectOptions
from projector.dialects.frame_writer import ENVELOPE
from projector.dialects.openai_errors import CODE_STATUSES, status_of
from projector.redaction.policy import Policy
from tests.chat_sdk import accumulate, assemble, check_answer, message_of
from tests.protocols.chat_completions.checker import ChatCompletionsChecker

Event = dict[str, Any]

CREATED: Final[Event] = {
    "type": "response.created",
    "response": {"id": "resp_1", "status": "in_progress", "model": "m-1", "created_at": 1765800000},
}


def pipeline_of(*, run: bool = False, options: DialectOptions | None = None, **policy: object) -> Pipeline:
    return build_pipeline(
        provider="openai_responses",
        dialect="chat_completions",
        policy=Policy.load({"text": "off", **policy}),
        context=StreamContext(stream_id="stream_1"),
        run=run,
        input_format="ndjson",
        output_format="ndjson",
        takes_host_events=True,
        clock=lambda: 1765800001.5,
        options=options,
    )


def lines_of(events: Iterable[Event]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def play_lines(*events: Event, run: bool = False, **settings: Any) -> list[bytes]:
    """Return the output lines of a stream; check the stream rules and the SDK's models."""
    pipeline = pipeline_of(run=run, **settings)
    said = (pipeline.feed(lines_of(events)) + pipeline.close()).splitlines()
    assert check_lines(ChatCompletionsChecker(), said) == []
    assert said[-1] == b"[DONE]"
    accumulate(said)
    return said


def play(*events: Event, **settings: Any) -> list[Event]:
    return [json.loads(line) for line in play_lines(*events, **settings)[:-1]]


def deltas(chunks: list[Event]) -> list[Event]:
    """Return the deltas after the first one, without that of the finish reason."""
    found = [chunk["choices"][0]["delta"] for chunk in chunks if chunk.get("choices")]
    assert found[0] == {"role": "assistant", "content": ""}
    return [delta for delta in found[1:] if delta]


def joined(chunks: list[Event], member: str) -> str:
    return "".join(delta.get(member, "") for delta in deltas(chunks))


def finish(chunks: list[Event]) -> str:
    [found] = [one for chunk in chunks if chunk.get("choices") and (one := chunk["choices"][0]["finish_reason"])]
    return str(found)


def ended(status: str = "completed", **response: object) -> Event:
    return {"type": f"response.{status}", "response": {"id": "resp_1", "status": status, **response}}


def text(delta: str, index: int = 0, **members: object) -> Event:
    return {"type": "response.output_text.delta", "output_index": index, "delta": delta, **members}


def added(index: int, item_type: str, **item: object) -> Event:
    item = {"type": item_type, "id": f"item_{index}", **item}
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, item_type: str, **item: object) -> Event:
    return {**added(index, item_type, **item), "type": "response.output_item.done"}


def call(index: int, name: str = "get", **item: object) -> Event:
    return added(index, "function_call", call_id=f"call_{index}", name=name, **item)


def arguments(index: int, delta: str) -> Event:
    return {"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta}


def fragment(index: int, delta: str) -> Event:
    return {"tool_calls": [{"index": index, "function": {"arguments": delta}}]}


def first(index: int, call_id: str, name: str) -> Event:
    function = {"name": name, "arguments": ""}
    return {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}


# chunks


def test_a_text_is_chunks_of_one_completion() -> None:
    head = {"id": "resp_1", "object": "chat.completion.chunk", "created": 1765800000, "model": "m-1"}

    def chunk(delta: Event, finish_reason: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**head, "choices": [choice], "usage": None}

    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    counts = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert play(CREATED, text("Hello,"), text(" you"), ended(usage=usage)) == [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hello,"}),
        chunk({"content": " you"}),
        chunk({}, "stop"),
        {**head, "choices": [], "usage": counts},
    ]


def test_the_members_of_a_chunk_are_in_the_order_of_the_api() -> None:
    line = play_lines(CREATED, text("Hi"), ended(), options=DialectOptions(include_usage=False))[1]
    assert line == (
        b'{"id":"resp_1","object":"chat.completion.chunk","created":1765800000,"model":"m-1","choices":'
        b'[{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}]}'
    )


def test_a_stream_without_identity_has_that_of_the_stream() -> None:
    chunk = play(text("Hi"), {"type": "response.completed", "response": {}})[0]
    assert (chunk["id"], chunk["created"], chunk["model"]) == ("stream_1", 1765800001, "unknown")


def test_identity_does_not_change() -> None:
    second = {**CREATED, "response": {**CREATED["response"], "id": "resp_2", "model": "m-2", "created_at": 7}}
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    events = [CREATED, text("One"), ended(), {"type": "projector.next_response"}, second, text("Two"), ended()]
    chunks = play(*events[:-1], {"type": "response.completed", "response": {"id": "resp_2", "usage": usage}}, run=True)
    assert {(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks} == {("resp_1", 1765800000, "m-1")}


@pytest.mark.parametrize("include_usage", [True, False])
def test_usage_is_written_if_it_is_requested(*, include_usage: bool) -> None:
    usage = {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 20},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 39,
    }
    chunks = play(CREATED, text("Hi"), ended(usage=usage), options=DialectOptions(include_usage=include_usage))
    assert all(("usage" in chunk) == include_usage for chunk in chunks)
    assert [chunk["usage"] for chunk in chunks if chunk.get("usage")] == [
        {
            "prompt_tokens": 30,
            "completion_tokens": 9,
            "total_tokens": 39,
            "prompt_tokens_details": {"cached_tokens": 20},
            "completion_tokens_details": {"reasoning_tokens": 4},
        }
    ] * include_usage


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({}, None),
        ({"output_tokens": 4}, {"prompt_tokens": 0, "completion_tokens": 4, "total_tokens": 4}),
        ({"input_tokens": 6, "output_tokens": 4}, {"prompt_tokens": 6, "completion_tokens": 4, "total_tokens": 10}),
    ],
)
def test_unknown_counts(usage: Event, expected: Event | None) -> None:
    lines = play_lines(CREATED, text("Hi"), ended(usage=usage))
    assert json.loads(lines[-2])["usage"] == expected
    assert assemble(lines).body.get("usage") == expected


# texts


def test_parts_join_with_nothing_and_messages_with_a_blank_line() -> None:
    events = [text("One "), text("two.", content_index=1), done(0, "message"), text("Three.", 1), ended()]
    assert joined(play(CREATED, *events), "content") == "One two.\n\nThree."


def test_a_message_waits_for_the_one_before_it() -> None:
    events = [text("A1 ", 0), text("B1 ", 1), text("A2", 0), text("C", 2), text("B2", 1), done(1, "message")]
    chunks = play(CREATED, *events, text(".", 0), done(0, "message"), text("!", 2), ended())
    contents = [delta["content"] for delta in deltas(chunks)]
    assert contents == ["A1 ", "A2", ".", "\n\nB1 ", "B2", "\n\nC", "!"]


@pytest.mark.parametrize(
    ("events", "content"),
    [
        ([text("Let me look."), done(0, "message", phase="commentary"), text("High water.", 1)], "High water."),
        ([text("Let me look."), done(0, "message", phase="commentary")], "Let me look."),
        ([text("One.", 1), done(1, "message", phase="commentary"), text("Two.", 2)], "One.\n\nTwo."),
        ([text("One.", 1), text("Two.", 2), done(2, "message", phase="commentary")], "One.\n\nTwo."),
    ],
)
def test_commentary_is_left_out_of_an_answer_if_its_phase_is_known(events: list[Event], content: str) -> None:
    chunks = play(CREATED, added(0, "message", phase="commentary"), *events, ended())
    assert joined(chunks, "content") == content


def test_text_that_comes_only_with_the_end_is_written() -> None:
    empty = done(0, "message", status="completed", content=[])
    item = {"type": "message", "id": "item_0", "content": [{"type": "output_text", "text": "Late."}]}
    chunks = play(CREATED, added(0, "message"), empty, ended(output=[item]))
    assert deltas(chunks) == [{"content": "Late."}]


def test_a_refusal_is_a_member_of_its_own_and_stops() -> None:
    refusal = {"type": "response.refusal.delta", "output_index": 0, "delta": "I can't."}
    lines = play_lines(CREATED, refusal, ended())
    chunks = [json.loads(line) for line in lines[:-1]]
    assert (joined(chunks, "refusal"), joined(chunks, "content"), finish(chunks)) == ("I can't.", "", "stop")
    message = assemble(lines).body["choices"][0]["message"]
    assert message == {"role": "assistant", "content": None, "refusal": "I can't."}


def thought(delta: str, index: int = 0, part: int = 0) -> Event:
    return {"type": "response.reasoning_text.delta", "output_index": index, "content_index": part, "delta": delta}


def gist(delta: str, index: int = 0, part: int = 0) -> Event:
    kind = "response.reasoning_summary_text.delta"
    return {"type": kind, "output_index": index, "summary_index": part, "delta": delta}


@pytest.mark.parametrize(
    ("level", "events", "expected"),
    [
        ("off", [thought("T"), gist("S")], ""),
        ("summary", [thought("T"), gist("S"), gist("S2", part=1)], "S\n\nS2"),
        ("full", [thought("T"), gist("S"), thought("T2", part=1)], "T\n\nT2"),
        ("full", [gist("S"), thought("T"), gist("S2")], "SS2"),
        ("full", [gist("S"), done(0, "reasoning"), thought("T", 1)], "S\n\nT"),
    ],
)
def test_reasoning_is_written_as_the_policy_allows(level: str, events: list[Event], expected: str) -> None:
    chunks = play(CREATED, added(0, "reasoning"), *events, text("Hi", 2), ended(), reasoning=level)
    assert joined(chunks, "reasoning_content") == expected
    assert ("reasoning_content" in json.dumps(chunks)) == bool(expected)


# calls


def test_calls_are_numbered_as_they_appear_and_their_arguments_are_live() -> None:
    events = [text("Let me see."), call(1), arguments(1, '{"a"'), call(2, "put"), arguments(2, '{"b":')]
    chunks = play(CREATED, *events, arguments(1, ":1}"), ended())
    assert deltas(chunks)[1:] == [
        first(0, "call_1", "get"),
        fragment(0, '{"a"'),
        first(1, "call_2", "put"),
        fragment(1, '{"b":'),
        fragment(0, ":1}"),
    ]
    assert finish(chunks) == "tool_calls"


def test_arguments_that_come_complete_are_written_once() -> None:
    complete = {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{}"}
    finished = done(0, "function_call", call_id="call_0", name="get", arguments="{}")
    chunks = play(CREATED, call(0), complete, finished, ended())
    assert deltas(chunks) == [first(0, "call_0", "get"), fragment(0, "{}")]


def test_arguments_begin_without_blanks_which_official_clients_refuse() -> None:
    blanks = [arguments(0, " "), arguments(0, '\n\t {"a"'), arguments(0, ": 1}")]
    chunks = play(CREATED, call(0), *blanks, ended())
    assert deltas(chunks) == [first(0, "call_0", "get"), fragment(0, '{"a"'), fragment(0, ": 1}")]


@pytest.mark.parametrize("with_deltas", [True, False])
def test_a_call_waits_for_its_name(*, with_deltas: bool) -> None:
    fragments = [arguments(0, '{"a"'), arguments(0, ":1}")] if with_deltas else []
    finished = done(0, "function_call", call_id="call_0", name="get", arguments='{"a":1}')
    chunks = play(CREATED, added(0, "function_call"), *fragments, finished, ended())
    assert deltas(chunks)[0] == first(0, "item_0", "get")
    assert "".join(delta["tool_calls"][0]["function"]["arguments"] for delta in deltas(chunks)) == '{"a":1}'


def test_a_custom_tool_has_both_forms_while_it_streams() -> None:
    kind = "custom_tool_call"
    written = {"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": "select 1"}
    events = [added(0, kind, call_id="call_0", name="sql"), written]
    lines = play_lines(CREATED, *events, done(0, kind, call_id="call_0", name="sql", input="select 1"), ended())
    start, *more = deltas([json.loads(line) for line in lines[:-1]])
    function, custom = {"name": "sql", "arguments": ""}, {"name": "sql", "input": ""}
    entry = {"index": 0, "id": "call_0", "type": "function", "function": function, "custom": custom}
    assert start == {"tool_calls": [entry]}
    entries = [entry for delta in more for entry in delta["tool_calls"]]
    assert "".join(entry["custom"]["input"] for entry in entries) == "select 1"
    assert all(entry["function"] == {"arguments": entry["custom"]["input"]} for entry in entries)
    answer = assemble(lines)
    check_answer(answer)
    choice = answer.body["choices"][0]
    custom = {"name": "sql", "input": "select 1"}
    assert choice["message"]["tool_calls"] == [{"id": "call_0", "type": "custom", "custom": custom}]


def test_tools_of_the_provider_are_no_calls_of_the_client() -> None:
    events = [
        done(0, "web_search_call", status="completed", action={"type": "search", "query": "q"}),
        done(1, "mcp_call", name="m", server_label="s", arguments="{}", output="o"),
        done(2, "mcp_approval_request", name="m", server_label="s", arguments="{}"),
        done(3, "code_interpreter_call", code="1", outputs=[]),
        done(4, "image_generation_call", result="AAAA"),
        text("Hi", 5),
    ]
    chunks = play(CREATED, *events, ended())
    assert (deltas(chunks), finish(chunks)) == ([{"content": "Hi"}], "stop")


def output_of(call_id: str) -> Event:
    return {"type": "projector.tool_output", "call_id": call_id, "output": "done"}


NEXT: Final[Event] = {"type": "projector.next_response"}


@pytest.mark.parametrize(
    ("events", "names", "reason"),
    [
        pytest.param([call(0), ended(), output_of("call_0"), NEXT, text("Hi"), ended()], [], "stop", id="answered"),
        pytest.param([call(0), ended(), NEXT, CREATED, text("Hi"), ended()], [], "stop", id="followed"),
        pytest.param([call(0), arguments(0, "{}"), ended()], ["get"], "tool_calls", id="waits"),
        pytest.param(
            [call(0), call(1, "put"), ended(), output_of("call_0")], ["put"], "tool_calls", id="one of two waits"
        ),
        pytest.param([call(0), ended("incomplete")], ["get"], "length", id="cut off"),
    ],
)
def test_a_run_writes_only_the_calls_that_wait(events: list[Event], names: list[str], reason: str) -> None:
    lines = play_lines(CREATED, *events, run=True)
    assert [call["function"]["name"] for call in message_calls(lines)] == names
    assert assemble(lines).body["choices"][0]["finish_reason"] == reason


def message_calls(lines: list[bytes]) -> list[Event]:
    found: list[Event] = assemble(lines).body["choices"][0]["message"].get("tool_calls", [])
    return found


def test_a_call_that_was_executed_does_not_finish_with_tool_calls() -> None:
    chunks = play(CREATED, call(0), arguments(0, "{}"), output_of("call_0"), text("Done.", 1), ended())
    assert finish(chunks) == "stop"


def test_calls_of_workflows_do_not_wait_for_the_client() -> None:
    pipeline = pipeline_of(run=True)
    branch = pipeline.branch(BranchContext(workflow={"stage_name": "one", "step_name": "a"}))
    said = branch.feed(lines_of([CREATED, call(0), arguments(0, "{}"), ended()])) + branch.close() + pipeline.close()
    assert (message_calls(said.splitlines()), assemble(said.splitlines()).body["choices"][0]["finish_reason"]) == (
        [],
        "stop",
    )


# citations


def cited(start: int, end: int, index: int = 0, **members: object) -> Event:
    annotation = {"type": "url_citation", "url": "https://a.example/", "title": "A", "start_index": start}
    kind = "response.output_text.annotation.added"
    return {"type": kind, "output_index": index, "annotation": {**annotation, "end_index": end, **members}}


def test_citations_are_written_once_with_positions_in_the_joined_text() -> None:
    events = [text("One."), cited(0, 3), done(0, "message"), text("Two.", 1), cited(0, 4, 1)]
    lines = play_lines(CREATED, *events, ended())
    [annotations] = [delta["annotations"] for line in lines[:-1] if (delta := delta_of(line)).get("annotations")]
    places = [(one["url_citation"]["start_index"], one["url_citation"]["end_index"]) for one in annotations]
    assert places == [(0, 3), (6, 10)]
    assert annotations[0] == {
        "type": "url_citation",
        "url_citation": {"start_index": 0, "end_index": 3, "url": "https://a.example/", "title": "A"},
    }
    assert assemble(lines).body["choices"][0]["message"]["annotations"] == annotations
    completion = accumulate(lines)
    assert completion is not None
    assert message_of(completion)["annotations"] == annotations


def delta_of(line: bytes) -> Event:
    choices = json.loads(line).get("choices") or [{"delta": {}}]
    found: Event = choices[0]["delta"]
    return found


def test_members_that_a_citation_lacks_have_neutral_values() -> None:
    annotation = {"type": "url_citation", "url": "https://a.example/"}
    event = {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": annotation}
    [_, delta] = deltas(play(CREATED, text("Hi"), event, ended()))
    expected = {"start_index": 0, "end_index": 0, "url": "https://a.example/", "title": ""}
    assert delta["annotations"][0]["url_citation"] == expected


def test_positions_stay_within_the_content() -> None:
    [_, delta] = deltas(play(CREATED, text("Hi"), cited(1, 900), ended()))
    found = delta["annotations"][0]["url_citation"]
    assert (found["start_index"], found["end_index"]) == (1, 2)


def test_the_number_of_citations_is_limited() -> None:
    events = [cited(0, 1, url=f"https://a.example/{at}") for at in range(ANNOTATIONS_MAX_ITEMS + 5)]
    [_, delta] = deltas(play(CREATED, text("Hi"), *events, ended()))
    assert len(delta["annotations"]) == ANNOTATIONS_MAX_ITEMS


# ends


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (ended(), "stop"),
        (ended("incomplete", incomplete_details={"reason": "max_output_tokens"}), "length"),
        (ended("incomplete", incomplete_details={"reason": "length"}), "length"),
        (ended("incomplete", incomplete_details={"reason": "content_filter"}), "content_filter"),
        (ended("incomplete", incomplete_details={"reason": "steered"}), "length"),
        (ended("incomplete"), "length"),
        ({"type": "response.completed", "response": {"status": "cancelled"}}, "length"),
        ({"type": "projector.cancel"}, "length"),
    ],
)
def test_finish_reasons(end: Event, reason: str) -> None:
    assert finish(play(CREATED, text("Hi"), end)) == reason


@pytest.mark.parametrize(
    ("event", "error", "status"),
    [
        (
            {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down."},
            {"type": "rate_limit_error", "code": "rate_limit_exceeded"},
            429,
        ),
        (ended("failed", error={"code": "server_error"}), {"type": "server_error", "code": "server_error"}, 500),
        (ended("failed"), {"type": "server_error", "code": "provider_error"}, 500),
    ],
)
def test_a_failed_stream_ends_with_an_error(event: Event, error: Event, status: int) -> None:
    lines = play_lines(CREATED, text("Hi"), event)
    last = json.loads(lines[-2])
    assert last.keys() == {"error"}
    assert last["error"].keys() == {"message", "type", "param", "code"}
    assert last["error"].items() >= error.items()
    assert not any(b'"finish_reason":"' in line for line in lines)
    answer = assemble(lines)
    assert (answer.status, answer.body) == (status, last)


def test_an_error_may_be_the_whole_stream() -> None:
    pipeline = pipeline_of()
    lines = pipeline.close(Fault.of_status(401)).splitlines()
    assert [json.loads(line)["error"]["code"] for line in lines[:-1]] == ["upstream_http_401"]
    assert assemble(lines).status == 401


def test_every_status_of_a_failure_is_in_the_descriptor() -> None:
    assert DIALECT.assembler is not None
    statuses = {status_of(code) for code in [*CODE_STATUSES, *FAULTS, "none"]}
    assert statuses <= {*DIALECT.assembler.error_statuses}


# extensions


EXTENDED: Final = DialectOptions(extensions=True)


def extensions(chunks: list[Event]) -> list[Event]:
    return [chunk["public_sse"] for chunk in chunks if "public_sse" in chunk]


def test_extensions_are_written_only_for_clients_that_accept_them() -> None:
    events = [
        done(0, "web_search_call", status="completed", action={"type": "search", "query": "q"}),
        text("Hi", 1),
        cited(0, 1, 1, type="file_citation", file_id="f"),
        done(2, "mcp_call", name="m", server_label="s", arguments="{}", output="o"),
        done(3, "code_interpreter_call", code="1", outputs=[{"type": "logs", "logs": "1"}]),
        done(4, "image_generation_call", result="AAAA"),
        ended(),
    ]
    chunks = play(CREATED, *events, options=EXTENDED)
    found = extensions(chunks)
    kinds = {one["kind"] for one in found}
    assert kinds == {
        *("tool.status", "tool.arguments.done", "tool.output", "tool.code.done", "chunk.delta", "chunk.done"),
        *("message.citation", "final"),
    }
    assert found[-1] == {"kind": "final", "final": {"status": "completed"}}
    assert all(not one["choices"][0]["delta"] for one in chunks if "public_sse" in one)
    assert not extensions(play(CREATED, *events))


def test_commentary_is_an_extension() -> None:
    events = [added(0, "message", phase="commentary"), text("Let me look."), text("High water.", 1), ended()]
    found = extensions(play(CREATED, *events, options=EXTENDED))
    assert [one["delta"] for one in found if one["kind"] == "message.delta"] == ["Let me look."]


def test_notices_come_before_their_chunk() -> None:
    secret = '{"password":"hunter2-hunter2"}'
    chunks = play(CREATED, call(0), arguments(0, secret), ended(), options=EXTENDED)
    names = [one["public_sse"]["kind"] if "public_sse" in one else [*delta] for one, delta in pairs(chunks)]
    assert names == ["tool.status", ["tool_calls"], "tool.arguments.delta", ["tool_calls"], "final", []]
    notices = extensions(chunks)[1]
    assert notices.keys() == {"kind", "output_index", "item_id", "tool_call_id", "notices"}
    assert notices["notices"][0]["type"] == "redacted"


def pairs(chunks: list[Event]) -> list[tuple[Event, Event]]:
    return [(chunk, chunk["choices"][0]["delta"]) for chunk in chunks[1:] if chunk["choices"]]


def test_the_status_of_a_cancelled_stream_is_an_extension() -> None:
    chunks = play(CREATED, text("Hi"), {"type": "projector.cancel"}, options=EXTENDED)
    assert extensions(chunks)[-1]["final"] == {"status": "cancelled"}


def test_extensions_are_in_the_answer() -> None:
    lines = play_lines(CREATED, text("Hi"), ended(), options=EXTENDED)
    assert assemble(lines).body["public_sse"] == [{"kind": "final", "final": {"status": "completed"}}]


def test_an_extension_is_limited_like_a_public_event() -> None:
    output = done(0, "mcp_call", name="m", server_label="s", arguments="{}", output=json.dumps(["x" * 3_000] * 200))
    lines = play_lines(CREATED, output, ended(), options=EXTENDED, limits={"frame_max_bytes": 65_536})
    assert max(map(len, lines)) < 66_000


def test_the_envelope_is_not_repeated() -> None:
    names = {field.alias or name for name, field in Envelope.model_fields.items()}
    assert names - {"notices"} == ENVELOPE


def test_every_public_kind_has_a_row() -> None:
    assert EXTENSIONS.keys() == {*Kind, PrivateKind.REASONING_DELTA}


# the JSON answer


def test_the_answer_is_the_joined_stream() -> None:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    lines = play_lines(CREATED, gist("S"), text("Hello,", 1), text(" you", 1), call(2), ended(usage=usage))
    answer = assemble(lines)
    check_answer(answer)
    calls = [{"id": "call_2", "type": "function", "function": {"name": "get", "arguments": ""}}]
    assert answer.body == {
        "id": "resp_1",
        "object": "chat.completion",
        "created": 1765800000,
        "model": "m-1",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Hello, you",
                    "refusal": None,
                    "reasoning_content": "S",
                    "tool_calls": calls,
                },
                "logprobs": None,
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


def test_a_stream_without_an_end_has_no_answer() -> None:
    lines = play_lines(CREATED, text("Hi"), ended())
    with pytest.raises(ValueError, match="no chunk has a finish reason"):
        assemble(lines[:2])


def test_an_answer_is_limited() -> None:
    lines = play_lines(CREATED, *[text("word " * 20)] * 100, call(1), arguments(1, "{}"), ended())
    assembly = CompletionAssembly(max_bytes=2_000)
    answer = assemble(lines, assembly)
    check_answer(answer)
    assert assembly.held_bytes <= 2_000
    choice = answer.body["choices"][0]
    assert (choice["finish_reason"], "tool_calls" in choice["message"]) == ("length", False)
    assert choice["message"]["content"] == "word " * 20 * (2_000 // 102)


def test_held_bytes_grow_with_the_content_only() -> None:
    lines = play_lines(CREATED, *[text("0123456789")] * 50, ended())
    assembly = CompletionAssembly()
    for line in lines[:-1]:
        assembly.feed(line)
    assert assembly.held_bytes == 50 * 12
