"""The AG-UI dialect: messages, reasoning, calls, activities, steps and the end of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import pytest
from pydantic import ValidationError

from projector.contracts.kinds import Kind
from projector.dialects.ag_ui import writer
from projector.dialects.ag_ui.ag_ui_run import CITATIONS_MAX_BYTES
from projector.dialects.ag_ui.writer import AgUi
from projector.dialects.descriptor import DialectOptions
from projector.dialects.frame_writer import FRAME_MAX_BYTES
from projector.dialects.page_run import ENCRYPTED_MAX_CHARS
from tests.protocols.ag_ui.events import parse_event
from tests.unit.response_events import Event, added, delta, done

Run: TypeAlias = Callable[..., list[Event]]

CREATED: Final = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "model": "m-1"}}
COMPLETED: Final = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}


def text(index: int, words: str, content_index: int = 0) -> Event:
    return delta("output_text", index, words, content_index=content_index)


def context(**members: object) -> Event:
    return {"type": "projector.context", **members}


@pytest.fixture
def run(open_stream: Callable[..., Any]) -> Run:
    """Feeds events as one run and returns its AG-UI events, from start to end, without timestamps."""

    def play(
        *events: Event, options: DialectOptions | None = None, ends: str = "close", **settings: Any
    ) -> list[Event]:
        stream = open_stream(**settings)
        for event in events:
            stream.next_response() if event == NEXT else stream.feed(event)
        getattr(stream, ends)() if not ends.startswith("upstream") else stream.fail(ends)
        dialect = AgUi(options or DialectOptions())
        lines = [data for frame in stream.sealed for _, data in dialect.feed(frame)]
        said = [json.loads(line) for line in lines]
        for event in said:
            parse_event(event)
            assert event.pop("timestamp") == 1_765_800_000_000
        return said

    return play


NEXT: Final = {"type": "next"}


def of(said: list[Event], kind: str) -> list[Event]:
    """Return the events of a type, without their type."""
    return [{name: value for name, value in event.items() if name != "type"} for event in said if event["type"] == kind]


def types(said: list[Event]) -> list[str]:
    """Return the event types between start and end of the run, without `CUSTOM` events."""
    return [event["type"] for event in said[1:-1] if event["type"] != "CUSTOM"]


# the run


@pytest.mark.parametrize(
    ("options", "conversation_id", "thread_id", "run_id"),
    [
        (DialectOptions(), None, "stream_1", "stream_1"),
        (DialectOptions(), "conversation", "conversation", "stream_1"),
        (DialectOptions(thread_id="thread", run_id="run"), "conversation", "thread", "run"),
    ],
)
def test_the_run_has_the_ids_of_its_caller(
    run: Run, options: DialectOptions, conversation_id: str | None, thread_id: str, run_id: str
) -> None:
    said = run(CREATED, COMPLETED, options=options, context={"conversation_id": conversation_id})
    place = {"threadId": thread_id, "runId": run_id}
    assert of(said, "RUN_STARTED") == [
        {**place, "protocolVersion": "1.0", "metadata": {"public-sse.stream_id": "stream_1"}}
    ]
    assert of(said, "RUN_FINISHED") == [{**place, "outcome": {"type": "success"}}]


def test_an_empty_stream_is_a_run(run: Run) -> None:
    said = run()
    assert [event["type"] for event in said] == ["RUN_STARTED", "RUN_ERROR"]
    assert said[-1]["code"] == "upstream_empty"
    assert said[-1]["metadata"] == {"public-sse.source": "provider", "public-sse.is_retryable": True}


def ended(status: str, **members: object) -> Event:
    kind = status if status in {"completed", "failed", "incomplete"} else "incomplete"
    return {"type": f"response.{kind}", "response": {"id": "resp_1", "status": status, **members}}


SUCCESS: Final = {"type": "success"}


@pytest.mark.parametrize(
    ("end", "options", "expected"),
    [
        (ended("completed"), DialectOptions(), {"outcome": SUCCESS}),
        (
            ended("incomplete", incomplete_details={"reason": "max_output_tokens"}),
            DialectOptions(),
            {
                "outcome": SUCCESS,
                "metadata": {"public-sse.status": "incomplete", "public-sse.reason": "max_output_tokens"},
            },
        ),
        (
            ended("failed", error={"code": "server_error", "message": "secret words"}),
            DialectOptions(),
            {
                "message": "The response failed.",
                "code": "server_error",
                "metadata": {
                    "public-sse.status": "failed",
                    "public-sse.reason": "server_error",
                    "public-sse.is_retryable": True,
                },
            },
        ),
        (
            ended("failed"),
            DialectOptions(),
            {
                "message": "The response failed.",
                "code": "failed",
                "metadata": {"public-sse.status": "failed", "public-sse.is_retryable": False},
            },
        ),
        (
            ended("cancelled"),
            DialectOptions(),
            {"outcome": {"type": "cancelled"}, "metadata": {"public-sse.status": "cancelled"}},
        ),
        (
            ended("cancelled"),
            DialectOptions(is_before_1_0=True),
            {
                "message": "The run was cancelled.",
                "code": "cancelled",
                "metadata": {"public-sse.status": "cancelled"},
            },
        ),
        (
            {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down."},
            DialectOptions(),
            {
                "message": "The provider's rate limit was reached. Try again later.",
                "code": "rate_limit_exceeded",
                "metadata": {"public-sse.source": "provider", "public-sse.is_retryable": True},
            },
        ),
    ],
)
def test_the_end_of_a_run_by_status(run: Run, end: Event, options: DialectOptions, expected: Event) -> None:
    last = run(CREATED, end, options=options)[-1]
    place = {"threadId": "stream_1", "runId": "stream_1"} if last["type"] == "RUN_FINISHED" else {}
    assert last == {"type": last["type"], **place, **expected}
    assert (last["type"] == "RUN_ERROR") == ("code" in expected)


def test_a_refusal_is_a_success_with_the_status_refused(run: Run) -> None:
    said = run(CREATED, delta("refusal", 0, "No."), COMPLETED)
    assert of(said, "TEXT_MESSAGE_START")[0]["metadata"] == {"public-sse.kind": "refusal"}
    assert of(said, "TEXT_MESSAGE_CONTENT") == [{"messageId": "item_0", "delta": "No."}]
    assert said[-1]["outcome"] == SUCCESS
    assert said[-1]["metadata"] == {"public-sse.status": "refused"}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 5}, [{"model": "m-1", "inputTokens": 5}]),
        ({}, None),
        ({"input_tokens": 2**53}, None),
        (
            {
                "input_tokens": 9,
                "output_tokens": 4,
                "total_tokens": 13,
                "input_tokens_details": {"cached_tokens": 3},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
            [
                {
                    "model": "m-1",
                    "inputTokens": 9,
                    "outputTokens": 4,
                    "totalTokens": 13,
                    "cachedInputTokens": 3,
                    "reasoningTokens": 0,
                }
            ],
        ),
    ],
)
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_usage_is_what_the_provider_reported(run: Run, status: str, usage: Event, expected: list[Event] | None) -> None:
    assert run(CREATED, ended(status, usage=usage))[-1].get("usage") == expected


def test_usage_of_several_models_has_no_model(run: Run) -> None:
    second = {"type": "response.created", "response": {"id": "resp_2", "status": "in_progress", "model": "m-2"}}
    end = ended("completed", usage={"input_tokens": 1})
    said = run(CREATED, end, NEXT, second, end, run=True)
    assert said[-1]["usage"] == [{"inputTokens": 2}]


def test_counts_above_the_safe_integer_are_dropped(run: Run) -> None:
    end = ended("completed", usage={"input_tokens": 2**53 - 1, "output_tokens": 1})
    said = run(CREATED, end, NEXT, CREATED, end, run=True)
    assert said[-1]["usage"] == [{"model": "m-1", "outputTokens": 2}]


def test_a_run_has_the_reason_of_its_worst_response(run: Run) -> None:
    cut = ended("incomplete", incomplete_details={"reason": "max_output_tokens"})
    said = run(CREATED, cut, NEXT, CREATED, COMPLETED, run=True)
    assert said[-1]["metadata"] == {"public-sse.status": "incomplete", "public-sse.reason": "max_output_tokens"}


def test_a_structured_output_is_the_result(run: Run) -> None:
    created = {"type": "response.created", "response": {"id": "r", "text": {"format": {"type": "json_object"}}}}
    said = run(created, text(0, '{"a": [1, null]}'), COMPLETED)
    assert said[-1]["result"] == {"a": [1, None]}


def test_attachments_are_metadata_of_the_end(run: Run) -> None:
    attachment = {"type": "projector.attachment", "attachment": {"object_id": "obj_1", "filename": "a.png"}}
    said = run(CREATED, attachment, COMPLETED)
    assert said[-1]["metadata"] == {"public-sse.attachments": [{"object_id": "obj_1", "filename": "a.png"}]}


def test_the_status_of_a_response_is_an_event_of_our_own(run: Run) -> None:
    assert of(run(CREATED, COMPLETED), "CUSTOM") == [
        {"name": "public-sse.lifecycle", "value": {"status": status, "response_id": "resp_1"}}
        for status in ("in_progress", "completed")
    ]


# messages


def test_a_message_starts_with_its_first_text(run: Run) -> None:
    said = run(CREATED, added(0, "message"), text(0, "Hi"), text(0, " there"), done(0, "message"), COMPLETED)
    assert [event for event in said[1:-1] if event["type"] != "CUSTOM"] == [
        {"type": "TEXT_MESSAGE_START", "messageId": "item_0", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "item_0", "delta": "Hi"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "item_0", "delta": " there"},
        {"type": "TEXT_MESSAGE_END", "messageId": "item_0"},
    ]


@pytest.mark.parametrize("role", ["system", "tool", "user", None])
def test_any_role_of_the_provider_becomes_assistant(run: Run, role: str | None) -> None:
    said = run(CREATED, added(0, "message", role=role), text(0, "x"), COMPLETED)
    assert of(said, "TEXT_MESSAGE_START")[0]["role"] == "assistant"


def test_a_message_without_text_is_not_written(run: Run) -> None:
    assert types(run(CREATED, added(0, "message"), done(0, "message"), COMPLETED)) == []


def test_the_agent_is_the_name_of_its_messages(run: Run) -> None:
    said = run(context(agent="triage"), CREATED, text(0, "x"), COMPLETED)
    assert of(said, "TEXT_MESSAGE_START")[0]["name"] == "triage"


def test_parts_of_a_message_are_one_text(run: Run) -> None:
    said = run(CREATED, text(0, "a"), text(0, "b", 1), text(0, "c", 1), text(0, "d"), COMPLETED)
    assert of(said, "TEXT_MESSAGE_CONTENT") == [
        {"messageId": "item_0", "delta": "a"},
        {"messageId": "item_0", "delta": "b", "metadata": {"public-sse.content_index": 1}},
        {"messageId": "item_0", "delta": "c"},
        {"messageId": "item_0", "delta": "d", "metadata": {"public-sse.content_index": 0}},
    ]


def test_text_and_refusal_of_one_item_are_two_messages(run: Run) -> None:
    said = run(CREATED, text(0, "a"), delta("refusal", 0, "b", content_index=1), text(0, "c"), COMPLETED)
    assert [(event["type"][13:], event["messageId"]) for event in said if event["type"].startswith("TEXT")] == [
        *(("START", "item_0"), ("CONTENT", "item_0"), ("END", "item_0")),
        *(("START", "item_0:refusal"), ("CONTENT", "item_0:refusal"), ("END", "item_0:refusal")),
        *(("START", "item_0:text"), ("CONTENT", "item_0:text"), ("END", "item_0:text")),
    ]


def test_an_incomplete_message_has_its_status(run: Run) -> None:
    said = run(CREATED, text(0, "a"), ends="upstream_reset")
    assert of(said, "TEXT_MESSAGE_END") == [{"messageId": "item_0", "metadata": {"public-sse.status": "incomplete"}}]


def url_citation(url: str, **members: object) -> Event:
    annotation = {"type": "url_citation", "url": url, **members}
    return {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": annotation}


def test_citations_are_in_the_end_of_their_message(run: Run) -> None:
    said = run(CREATED, text(0, "a"), url_citation("https://a.example", start_index=0, end_index=1), COMPLETED)
    cited = {"content_index": 0, "type": "url_citation", "start_index": 0, "end_index": 1, "url": "https://a.example"}
    assert of(said, "TEXT_MESSAGE_END")[0]["metadata"]["public-sse.citations"] == [cited]


def test_a_citation_may_precede_its_text(run: Run) -> None:
    said = run(CREATED, url_citation("https://a.example"), COMPLETED)
    assert types(said) == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END"]


def test_citations_beyond_the_limit_are_dropped(run: Run) -> None:
    citations = [url_citation(f"https://a.example/{number:0>4000}") for number in range(100)]
    about = of(run(CREATED, text(0, "a"), *citations, COMPLETED), "TEXT_MESSAGE_END")[0]["metadata"]
    assert 60 < len(about["public-sse.citations"]) < CITATIONS_MAX_BYTES // 4_000
    assert [(one["type"], one["path"]) for one in about["public-sse.notices"]] == [("truncated", "citation")]


VALUE: Final = {"registered": [{"value": "marzipan"}]}


def test_notices_are_on_the_event_and_repeated_at_the_end(run: Run) -> None:
    said = run(CREATED, text(0, "I like marzipan."), text(0, " And marzipan."), COMPLETED, policy=VALUE)
    contents, (end,) = of(said, "TEXT_MESSAGE_CONTENT"), of(said, "TEXT_MESSAGE_END")
    assert "".join(content["delta"] for content in contents) == "I like <redacted>. And <redacted>."
    noticed = [content["metadata"]["public-sse.notices"] for content in contents if "metadata" in content]
    assert [notice["path"] for notices in noticed for notice in notices] == ["delta"] * len(noticed)
    assert [notice["path"] for notice in end["metadata"]["public-sse.notices"]] == ["delta"]


@pytest.mark.parametrize(
    ("kind", "item_type", "index", "closing"),
    [
        ("message.delta", "message", "content_index", "TEXT_MESSAGE_END"),
        ("reasoning_summary.delta", "reasoning", "summary_index", "REASONING_MESSAGE_END"),
    ],
)
def test_notices_of_an_empty_delta_are_at_the_end(kind: str, item_type: str, index: str, closing: str) -> None:
    envelope = {"server_timestamp": "2025-12-15T12:00:00.000Z", "stream_id": "s", "output_index": 0, "item_id": "i"}
    notices = [{"type": "redacted", "path": "delta", "message": "Something was withheld for safety."}]
    item = {"item_type": item_type, "status": "completed"}
    dialect = AgUi(DialectOptions())
    frames = [
        {**envelope, "kind": "output_item.added", **item},
        {**envelope, "kind": kind, index: 0, "delta": "", "notices": notices},
        {**envelope, "kind": "output_item.done", **item},
    ]
    said = [json.loads(data) for frame in frames for _, data in dialect.feed(frame)]
    assert not [event for event in said if event["type"].endswith("CONTENT")]
    assert of(said, closing)[0]["metadata"] == {"public-sse.notices": notices}


def test_a_text_without_deltas_is_written_from_the_snapshot(run: Run) -> None:
    item = {"type": "message", "id": "item_0", "content": [{"type": "output_text", "text": "x" * 40_000}]}
    said = run(CREATED, added(0, "message"), done(0, "message"), ended("completed", output=[item]))
    contents = of(said, "TEXT_MESSAGE_CONTENT")
    assert [len(content["delta"]) for content in contents] == [32_768, 7_232]
    assert types(said)[-1] == "TEXT_MESSAGE_END"


@pytest.mark.parametrize(
    "first",
    [
        [text(0, "a"), text(1, "b")],
        [added(0, "message"), text(1, "b"), text(0, "a")],
        [text(0, "a"), text(1, "b"), text(0, "c", 1), text(1, "d"), text(0, "e")],
        [delta("refusal", 0, "a"), delta("refusal", 0, "b", content_index=1), delta("refusal", 1, "c")],
    ],
)
def test_a_text_of_an_earlier_response_is_not_repeated(run: Run, first: list[Event]) -> None:
    second = [added(0, "message"), done(0, "message"), COMPLETED]
    contents = of(run(CREATED, *first, COMPLETED, NEXT, *second, run=True), "TEXT_MESSAGE_CONTENT")
    assert [content["delta"] for content in contents] == [event["delta"] for event in first if "delta" in event]


def test_a_text_as_long_as_one_of_an_earlier_response_is_written(run: Run) -> None:
    item = {"type": "message", "id": "item_0", "content": [{"type": "output_text", "text": "cd"}]}
    second = [CREATED, added(0, "message"), done(0, "message"), ended("completed", output=[item])]
    contents = of(run(CREATED, text(0, "ab"), COMPLETED, NEXT, *second, run=True), "TEXT_MESSAGE_CONTENT")
    assert [content["delta"] for content in contents] == ["ab", "cd"]


def test_a_refusal_without_deltas_is_written_from_the_snapshot(run: Run) -> None:
    item = {"type": "message", "id": "item_0", "content": [{"type": "refusal", "refusal": "No."}]}
    said = run(CREATED, added(0, "message"), done(0, "message"), ended("completed", output=[item]))
    assert of(said, "TEXT_MESSAGE_START")[0]["metadata"] == {"public-sse.kind": "refusal"}
    assert of(said, "TEXT_MESSAGE_CONTENT") == [{"messageId": "item_0", "delta": "No."}]


# ids


def test_taken_ids_are_not_reused(run: Run) -> None:
    options = DialectOptions(taken_ids=frozenset({"item_0", "item_0.2", "call_1"}))
    said = run(CREATED, text(0, "a"), done(1, "function_call", call_id="call_1", name="f"), COMPLETED, options=options)
    assert of(said, "TEXT_MESSAGE_START")[0]["messageId"] == "item_0.3"
    assert of(said, "TOOL_CALL_START")[0]["toolCallId"] == "call_1.2"
    assert said[-1]["outcome"]["pendingToolCallIds"] == ["call_1.2"]


# reasoning


def summary(words: str, index: int = 0) -> Event:
    return delta("reasoning_summary_text", 0, words, summary_index=index)


def test_a_reasoning_item_is_a_span_of_messages(run: Run) -> None:
    said = run(CREATED, summary("a"), summary("b"), summary("c", 1), summary("d"), COMPLETED)
    about = {"public-sse.kind": "summary", "public-sse.item_id": "item_0"}
    start = {"type": "REASONING_MESSAGE_START", "role": "reasoning", "metadata": about}
    assert [event for event in said if event["type"].startswith("REASONING")] == [
        {"type": "REASONING_START", "messageId": "item_0"},
        {**start, "messageId": "item_0:0"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "item_0:0", "delta": "a"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "item_0:0", "delta": "b"},
        {"type": "REASONING_MESSAGE_END", "messageId": "item_0:0"},
        {**start, "messageId": "item_0:1"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "item_0:1", "delta": "c"},
        {"type": "REASONING_MESSAGE_END", "messageId": "item_0:1"},
        {**start, "messageId": "item_0:0.2"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "item_0:0.2", "delta": "d"},
        {"type": "REASONING_MESSAGE_END", "messageId": "item_0:0.2"},
        {"type": "REASONING_END", "messageId": "item_0", "metadata": {"public-sse.status": "incomplete"}},
    ]


def test_reasoning_without_text_is_an_empty_span(run: Run) -> None:
    thinking = delta("reasoning_text", 0, "hidden")
    assert types(run(CREATED, thinking, done(0, "reasoning"), COMPLETED)) == ["REASONING_START", "REASONING_END"]


def test_full_reasoning_has_its_kind(run: Run) -> None:
    said = run(CREATED, delta("reasoning_text", 0, "aloud"), summary("short"), COMPLETED, policy={"reasoning": "full"})
    starts = of(said, "REASONING_MESSAGE_START")
    assert [(start["messageId"], start["metadata"]["public-sse.kind"]) for start in starts] == [
        ("item_0:full:0", "full"),
        ("item_0:0", "summary"),
    ]


SEALED: Final = {"encrypted_reasoning": True}


@pytest.mark.parametrize("before", [[], [summary("a"), summary("b", 1)]], ids=["alone", "with summaries"])
def test_an_encrypted_value_belongs_to_the_first_message(run: Run, before: list[Event]) -> None:
    said = run(CREATED, *before, done(0, "reasoning", encrypted_content="gAAA"), COMPLETED, policy=SEALED)
    assert of(said, "REASONING_ENCRYPTED_VALUE") == [
        {"subtype": "message", "entityId": "item_0:0", "encryptedValue": "gAAA"}
    ]
    assert types(said)[-2:] == ["REASONING_MESSAGE_END", "REASONING_END"]


def test_an_encrypted_value_beyond_the_limit_is_dropped(run: Run) -> None:
    value = "g" * (ENCRYPTED_MAX_CHARS + 1)
    said = run(CREATED, done(0, "reasoning", encrypted_content=value), COMPLETED, policy=SEALED)
    assert types(said) == ["REASONING_START", "REASONING_END"]
    notices = of(said, "REASONING_END")[0]["metadata"]["public-sse.notices"]
    assert [(notice["type"], notice["path"]) for notice in notices] == [("truncated", "encrypted_content")]


# calls


def arguments(index: int, words: str) -> Event:
    return delta("function_call_arguments", index, words)


def function(index: int, **item: object) -> Event:
    return added(index, "function_call", call_id=f"call_{index}", name="f", **item)


def output(call_id: str, value: object, **members: object) -> Event:
    return {"type": "projector.tool_output", "call_id": call_id, "output": value, **members}


def test_a_pending_call_is_listed_in_the_outcome(run: Run) -> None:
    said = run(CREATED, function(0), arguments(0, '{"a"'), arguments(0, ":1}"), done(0, "function_call"), COMPLETED)
    assert [event for event in said[1:-1] if event["type"] != "CUSTOM"] == [
        {"type": "TOOL_CALL_START", "toolCallId": "call_0", "toolCallName": "f", "parentMessageId": "item_0"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "call_0", "delta": '{"a"'},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "call_0", "delta": ":1}"},
        {"type": "TOOL_CALL_END", "toolCallId": "call_0"},
    ]
    assert said[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["call_0"]}


@pytest.mark.parametrize(("count", "pending"), [(5_000, ["call_0"]), (12_000, None)])
@pytest.mark.parametrize("ends_early", [False, True])
def test_no_client_runs_a_call_with_a_part_of_its_arguments(
    run: Run, *, count: int, pending: list[str] | None, ends_early: bool
) -> None:
    text = json.dumps({"text": "ab " * (count // 3)})
    parts = [arguments(0, text[at : at + 999]) for at in range(0, len(text), 999)]
    ended = [] if ends_early else [done(0, "function_call", call_id="call_0", name="f", arguments=text)]
    said = run(CREATED, function(0), *parts, *ended, COMPLETED)
    assert said[-1]["outcome"].get("pendingToolCallIds") == (None if ends_early else pending)
    assert len(of(said, "TOOL_CALL_RESULT")) == (ends_early or pending is None)


def test_clients_before_1_0_get_no_list_of_pending_calls(run: Run) -> None:
    said = run(CREATED, done(0, "function_call", name="f"), COMPLETED, options=DialectOptions(is_before_1_0=True))
    assert said[-1]["outcome"] == SUCCESS


@pytest.mark.parametrize(
    ("value", "content"),
    [("plain", "plain"), ({"a": [1, None]}, '{"a":[1,null]}'), (None, "null"), ([], "[]"), ("", "")],
)
@pytest.mark.parametrize(("status", "about"), [("completed", {}), ("failed", {"public-sse.status": "failed"})])
def test_a_result_is_text(run: Run, value: object, content: str, status: str, about: Event) -> None:
    said = run(
        CREATED, done(0, "function_call", call_id="call_0", name="f"), output("call_0", value, status=status), COMPLETED
    )
    result = {"messageId": "call_0:result", "toolCallId": "call_0", "content": content, "role": "tool"}
    assert of(said, "TOOL_CALL_RESULT") == [{**result, **({"metadata": about} if about else {})}]
    assert said[-1]["outcome"] == SUCCESS


@pytest.mark.parametrize(
    ("between", "parent"),
    [
        ([], "item_0"),
        ([delta("reasoning_summary_text", 3, "Hm.")], "item_4"),
        ([text(3, "And")], "item_3"),
        ([done(3, "web_search_call")], "item_4"),
        ([output("call_1", "42")], "item_4"),
        ([COMPLETED, NEXT, CREATED], "item_4"),
    ],
)
def test_consecutive_calls_share_a_message(run: Run, between: list[Event], parent: str) -> None:
    calls = [done(index, "function_call", call_id=f"call_{index}", name="f") for index in (1, 2)]
    last = done(4 - 3 * (NEXT in between), "function_call", id="item_4", call_id="call_4", name="f")
    said = run(CREATED, text(0, "I call."), *calls, *between, last, COMPLETED, run=True)
    assert [start["parentMessageId"] for start in of(said, "TOOL_CALL_START")] == ["item_0", "item_0", parent]


def test_arguments_are_held_until_the_call_has_a_name(run: Run) -> None:
    said = run(CREATED, arguments(0, '{"a"'), arguments(0, ":1}"), done(0, "function_call", name="f"), COMPLETED)
    assert of(said, "TOOL_CALL_START")[0]["toolCallName"] == "f"
    assert [event["delta"] for event in of(said, "TOOL_CALL_ARGS")] == ['{"a":1}']


def test_a_call_without_any_name_is_written(run: Run) -> None:
    said = run(CREATED, arguments(0, '{"a"'), ends="upstream_reset")
    assert of(said, "TOOL_CALL_START")[0]["toolCallName"] == "unknown"
    assert of(said, "TOOL_CALL_END")[0]["metadata"] == {"public-sse.status": "incomplete"}


def test_a_truncated_call_is_not_pending(run: Run) -> None:
    said = run(CREATED, function(0), arguments(0, '{"a"'), ended("incomplete"))
    assert of(said, "TOOL_CALL_END") == [{"toolCallId": "call_0", "metadata": {"public-sse.status": "incomplete"}}]
    (result,) = of(said, "TOOL_CALL_RESULT")
    assert (result["content"], result["metadata"]) == ("", {"public-sse.status": "incomplete"})
    assert said[-1]["outcome"] == SUCCESS


def test_whole_arguments_are_one_delta(run: Run) -> None:
    said = run(CREATED, done(0, "function_call", name="f", arguments='{"api_key":"k","b":2}'), COMPLETED)
    assert [event["delta"] for event in of(said, "TOOL_CALL_ARGS")] == ['{"api_key":"<redacted>","b":2}']
    notices = of(said, "TOOL_CALL_END")[0]["metadata"]["public-sse.notices"]
    assert [notice["path"] for notice in notices] == ["arguments_json.api_key"]


def test_a_custom_call_has_its_item_type(run: Run) -> None:
    said = run(CREATED, done(0, "custom_tool_call", name="sql", input="select 1"), COMPLETED)
    assert of(said, "TOOL_CALL_START")[0]["metadata"] == {"public-sse.item_type": "custom_tool_call"}
    assert of(said, "TOOL_CALL_ARGS")[0]["delta"] == "select 1"


MCP: Final = {"name": "wind", "server_label": "weather", "arguments": "{}"}


@pytest.mark.parametrize(
    ("item", "content", "status"),
    [
        ({"output": "SW 14"}, "SW 14", None),
        ({"output": None}, "", None),
        ({"output": None, "error": "closed", "status": "failed"}, '{"error":"closed"}', "failed"),
        ({"output": None, "status": "failed"}, "", "failed"),
    ],
)
def test_a_call_of_an_mcp_tool_has_its_result(run: Run, item: Event, content: str, status: str | None) -> None:
    said = run(CREATED, done(0, "mcp_call", **MCP, **item), COMPLETED)
    about = of(said, "TOOL_CALL_START")[0]["metadata"]
    assert about == {"public-sse.item_type": "mcp_call", "public-sse.server_label": "weather"}
    (result,) = of(said, "TOOL_CALL_RESULT")
    assert (result["content"], result.get("metadata", {}).get("public-sse.status")) == (content, status)


def test_an_approval_interrupts_the_run(run: Run) -> None:
    said = run(CREATED, done(0, "mcp_approval_request", id="mcpr_1", **MCP), COMPLETED)
    assert types(said) == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
    (interrupt,) = said[-1]["outcome"]["interrupts"]
    assert interrupt == {
        "id": "int-mcpr_1",
        "reason": "tool_call",
        "message": "Approve the call of wind?",
        "toolCallId": "mcpr_1",
        "responseSchema": {
            "type": "object",
            "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
            "required": ["approved"],
        },
    }


def test_an_approval_before_a_later_response_does_not_interrupt(run: Run) -> None:
    first = [CREATED, done(0, "mcp_approval_request", **MCP), COMPLETED]
    said = run(*first, NEXT, CREATED, text(0, "Done."), COMPLETED, run=True)
    assert said[-1]["outcome"] == SUCCESS
    assert of(said, "TOOL_CALL_RESULT")[0]["metadata"] == {"public-sse.status": "answered"}


def test_an_output_of_a_truncated_call_is_written(run: Run) -> None:
    said = run(CREATED, done(0, "mcp_call", **MCP, output="half", status="incomplete"), COMPLETED)
    (result,) = of(said, "TOOL_CALL_RESULT")
    assert (result["content"], result["metadata"]) == ("half", {"public-sse.status": "incomplete"})


def test_an_output_item_is_the_result_of_its_call(run: Run) -> None:
    answer = done(1, "function_call_output", call_id="call_0", output="42")
    said = run(CREATED, function(0), done(0, "function_call"), answer, COMPLETED)
    assert types(said) == ["TOOL_CALL_START", "TOOL_CALL_END", "TOOL_CALL_RESULT"]


# activities


def test_a_search_is_a_growing_activity(run: Run) -> None:
    searching = {"type": "response.web_search_call.searching", "output_index": 0}
    action = {"type": "search", "query": "boats", "sources": [{"url": "https://a.example"}]}
    said = run(CREATED, added(0, "web_search_call"), searching, done(0, "web_search_call", action=action), COMPLETED)
    delta_of = {"messageId": "item_0", "activityType": "web_search"}
    assert of(said, "ACTIVITY_SNAPSHOT") == [{**delta_of, "content": {"status": "in_progress"}}]
    assert of(said, "ACTIVITY_DELTA") == [
        {**delta_of, "patch": [{"op": "add", "path": "/status", "value": "searching"}]},
        {
            **delta_of,
            "patch": [
                {"op": "add", "path": "/status", "value": "completed"},
                {"op": "add", "path": "/query", "value": "boats"},
                {"op": "add", "path": "/sources", "value": ["https://a.example"]},
            ],
        },
    ]


def test_code_grows_by_patches(run: Run) -> None:
    code = [delta("code_interpreter_call_code", 0, piece) for piece in ("a = 1\n", "a")]
    outputs = [{"type": "logs", "logs": "1"}]
    said = run(CREATED, *code, done(0, "code_interpreter_call", code="a = 1\na", outputs=outputs), COMPLETED)
    steps = [step for event in of(said, "ACTIVITY_DELTA") for step in event["patch"]]
    assert [(step["path"], step["value"]) for step in steps] == [
        ("/code", ["a = 1\n"]),
        ("/code/-", "a"),
        ("/outputs", [[{"type": "logs", "logs": "1"}]]),
        ("/status", "completed"),
    ]


def test_whole_code_is_one_entry(run: Run) -> None:
    said = run(CREATED, done(0, "code_interpreter_call", code="a"), COMPLETED)
    steps = [step for event in of(said, "ACTIVITY_DELTA") for step in event["patch"]]
    assert ("/code", ["a"]) in [(step["path"], step["value"]) for step in steps]


def test_a_failed_tool_has_its_status(run: Run) -> None:
    said = run(CREATED, done(0, "web_search_call", status="failed"), COMPLETED)
    assert of(said, "ACTIVITY_DELTA")[-1]["patch"] == [{"op": "add", "path": "/status", "value": "failed"}]


def test_items_without_a_public_tool_type_are_activities_of_their_own_name(run: Run) -> None:
    said = run(CREATED, added(0, "shell_call"), done(0, "shell_call"), COMPLETED)
    assert of(said, "ACTIVITY_SNAPSHOT")[0]["activityType"] == "shell_call"
    assert of(said, "ACTIVITY_DELTA")[0]["patch"] == [{"op": "add", "path": "/status", "value": "completed"}]


def test_image_chunks_are_events_of_our_own(run: Run) -> None:
    image = {"type": "response.image_generation_call.partial_image", "output_index": 0, "partial_image_b64": "QUJD"}
    said = run(CREATED, image, COMPLETED)
    target = {"entity_kind": "tool_call", "entity_id": "item_0", "field": "partial_image_b64", "part_index": 0}
    chunk = {"message_id": "item_0", "target": target}
    assert [event for event in of(said, "CUSTOM") if "chunk" in event["name"]] == [
        {"name": "public-sse.chunk.delta", "value": {**chunk, "encoding": "base64", "chunk_index": 0, "data": "QUJD"}},
        {"name": "public-sse.chunk.done", "value": chunk},
    ]


# steps


def workflow(step: str | None, branch: int | None = None, **members: object) -> Event:
    where = {"stage_name": "s", "step_name": step, "branch_index": branch, **members}
    return context(workflow={name: value for name, value in where.items() if value is not None})


def word(number: int) -> Event:
    return text(0, f"{number}")


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([word(1)], []),
        ([workflow("a"), word(1), workflow("a"), word(2)], ["+s/a", "-s/a"]),
        ([workflow("a"), word(1), workflow("b"), word(2)], ["+s/a", "-s/a", "+s/b", "-s/b"]),
        ([workflow("a"), word(1), context(workflow=None), word(2)], ["+s/a", "-s/a"]),
        ([workflow("a"), word(1), workflow("a", step_agent="x"), word(2)], ["+s/a", "-s/a"]),
        ([workflow(None, stage_name="t"), word(1)], ["+t", "-t"]),
        ([context(workflow={"workflow_key": "w"}), word(1)], []),
        (
            [workflow("a", 0), word(1), workflow("a", 1), word(2), workflow("b", 0), word(3)],
            ["+s/a#0", "+s/a#1", "-s/a#0", "+s/b#0", "-s/a#1", "-s/b#0"],
        ),
        (
            [workflow("a", 0), word(1), workflow("a", 1), word(2), workflow("c"), word(3)],
            ["+s/a#0", "+s/a#1", "-s/a#0", "-s/a#1", "+s/c", "-s/c"],
        ),
        (
            [workflow("a", 0, parallel_group="g"), word(1), workflow("a", 1, parallel_group="h"), word(2)],
            ["+s/a#0", "-s/a#0", "+s/a#1", "-s/a#1"],
        ),
        ([word(1), workflow("late")], ["+s/late", "-s/late"]),
    ],
)
def test_steps_follow_the_workflow(run: Run, events: list[Event], expected: list[str]) -> None:
    said = run(CREATED, *events, {"type": "response.completed", "response": {}}, run=True)
    steps = [event for event in said if event["type"].startswith("STEP")]
    signs = {"STEP_STARTED": "+", "STEP_FINISHED": "-"}
    assert [f"{signs[step['type']]}{step['stepName']}" for step in steps] == expected


def test_a_step_has_its_workflow_as_metadata(run: Run) -> None:
    said = run(workflow("a", step_agent="x"), CREATED, COMPLETED)
    where = {"stage_name": "s", "step_name": "a", "step_agent": "x"}
    assert of(said, "STEP_STARTED") == [{"stepName": "s/a", "metadata": {"public-sse.workflow": where}}]


# bounds and tables


def test_large_trees_are_truncated_with_a_notice(run: Run) -> None:
    tree = {f"k{number}": ["x" * 7_000] * 100 for number in range(40)}
    said = run(CREATED, done(0, "function_call", call_id="c", name="f"), output("c", tree), COMPLETED)
    (result,) = of(said, "TOOL_CALL_RESULT")
    assert len(result["content"]) < 2 * FRAME_MAX_BYTES
    assert {notice["type"] for notice in result["metadata"]["public-sse.notices"]} == {"truncated"}


def test_nothing_is_null(run: Run) -> None:
    def nulls(value: object) -> bool:
        if isinstance(value, Mapping):
            return any(map(nulls, value.values()))
        return any(map(nulls, value)) if isinstance(value, list) else value is None

    assert not nulls(run(CREATED, text(0, "a"), done(1, "mcp_call", **MCP), done(2, "reasoning"), COMPLETED))


def test_the_dropped_kinds() -> None:
    assert set(writer.DROPPED) == {
        Kind.REFUSAL_DONE,
        "response.usage",
        "response.error",
        "reasoning.done",
        "item.details",
        "item.members",
        "message.file_path",
    }


def test_after_a_failed_frame_only_an_error_is_written() -> None:
    envelope = {"server_timestamp": "2025-12-15T12:00:00.000Z", "stream_id": "s", "output_index": 0, "item_id": "i"}
    item = {**envelope, "item_type": "message", "status": "completed"}
    error = {"code": "internal_error", "message": "m", "source": "server", "is_retryable": False}
    dialect = AgUi(DialectOptions())
    dialect.feed({**item, "kind": "output_item.added"})
    with pytest.raises(KeyError):
        dialect.feed({**envelope, "kind": "message.delta"})
    assert dialect.feed({**item, "kind": "output_item.done"}) == []
    ((_, last),) = dialect.feed({**envelope, "kind": "error", "error": error})
    assert json.loads(last)["type"] == "RUN_ERROR"


START: Final = {"type": "RUN_STARTED", "timestamp": 1, "threadId": "t", "runId": "r", "protocolVersion": "1.0"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"timestamp": 1.5},
        {"timestamp": None},
        {"protocolVersion": "1.1"},
        {"threadId": None},
        {"thread_id": "t"},
        {"private": 1},
        {"metadata": {}},
        {"metadata": None},
        {"metadata": {"stream_id": "s"}},
        {"type": "THINKING_START"},
    ],
)
def test_the_models_reject_unknown_members(wrong: Event) -> None:
    parse_event(START)
    with pytest.raises(ValidationError):
        parse_event({**START, **wrong})
