"""The dialect of the AI SDK: the message, its parts, its calls, and its ends at each level."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

from projector.contracts.kinds import TOOL_TYPES
from projector.dialects.ai_sdk import ui_message, writer
from projector.dialects.ai_sdk.writer import ITEMS, AiSdk
from projector.dialects.descriptor import DialectOptions
from projector.dialects.page_run import ENCRYPTED_MAX_CHARS
from tests.protocols.ai_sdk.events import parse_chunk
from tests.unit.response_events import Event, added, delta, done

Run: TypeAlias = Callable[..., list[Event]]

CREATED: Final = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "model": "m-1"}}
COMPLETED: Final = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}
NEXT: Final = {"type": "next"}
PROVIDER: Final = {"providerExecuted": True, "dynamic": True}


@pytest.fixture
def run(open_stream: Callable[..., Any]) -> Run:
    """Feeds events as one run and returns its chunks, each valid."""

    def play(*events: Event, level: int = 6, ends: str = "close", **settings: Any) -> list[Event]:
        stream = open_stream(**settings)
        for event in events:
            stream.next_response() if event == NEXT else stream.feed(event)
        getattr(stream, ends)() if not ends.startswith("upstream") else stream.fail(ends)
        writer = AiSdk(DialectOptions(level=level))
        chunks = [json.loads(data) for frame in stream.sealed for _, data in writer.feed(frame)]
        for chunk in chunks:
            parse_chunk(chunk)
        return chunks

    return play


def of(said: list[Event], *kinds: str) -> list[Event]:
    return [chunk for chunk in said if chunk["type"] in kinds]


def types(said: list[Event]) -> list[str]:
    return [chunk["type"] for chunk in said if not chunk["type"].startswith("data-")]


def left_out(said: list[Event]) -> list[tuple[str, str, str]]:
    """Return what notices name: item, type, path."""
    return [
        (chunk["data"]["item_id"], one["type"], one["path"])
        for chunk in of(said, "data-notice")
        for one in chunk["data"]["notices"]
    ]


# the message


def test_a_text_is_one_part_of_one_step(run: Run) -> None:
    said = run(CREATED, delta("output_text", 0, "Hel"), delta("output_text", 0, "lo"), COMPLETED)
    assert types(said) == [
        "start", "start-step", "text-start", "text-delta", "text-delta", "text-end", "finish-step", "finish"
    ]  # fmt: skip
    assert said[0] == {"type": "start", "messageId": "stream_1", "messageMetadata": {"stream_id": "stream_1"}}
    assert {chunk["id"] for chunk in of(said, "text-start", "text-delta", "text-end")} == {"item_0:0"}


def test_each_response_is_a_step(run: Run) -> None:
    said = run(
        CREATED,
        delta("output_text", 0, "a"),
        COMPLETED,
        NEXT,
        CREATED,
        delta("output_text", 0, "b"),
        COMPLETED,
        run=True,
    )
    assert [chunk["type"] for chunk in said if "step" in chunk["type"]] == ["start-step", "finish-step"] * 2


def ended(status: str, **members: object) -> Event:
    kind = status if status in {"completed", "failed", "incomplete"} else "incomplete"
    return {"type": f"response.{kind}", "response": {"id": "resp_1", "status": status, **members}}


def reason(text: str) -> Event:
    return {"incomplete_details": {"reason": text}}


ERROR: Final = {"type": "error", "code": "rate_limit_exceeded", "message": "secret words"}


@pytest.mark.parametrize(
    ("level", "end", "expected"),
    [
        (6, ended("completed"), [{"type": "finish", "finishReason": "stop"}]),
        (6, ended("incomplete", **reason("max_output_tokens")), [{"type": "finish", "finishReason": "length"}]),
        (6, ended("incomplete", **reason("content_filter")), [{"type": "finish", "finishReason": "content-filter"}]),
        (6, ended("incomplete"), [{"type": "finish", "finishReason": "other"}]),
        (6, ended("cancelled"), [{"type": "message-metadata"}, {"type": "abort", "reason": "cancelled"}]),
        (5, ended("cancelled"), [{"type": "message-metadata"}, {"type": "abort"}]),
        (
            6,
            ended("failed", error={"code": "server_error", "message": "secret words"}),
            [{"type": "message-metadata"}, {"type": "error", "errorText": "The response failed."}],
        ),
        (
            7,
            ERROR,
            [
                {"type": "message-metadata"},
                {"type": "error", "errorText": "The provider's rate limit was reached. Try again later."},
            ],
        ),
    ],
)
def test_the_end_by_status_and_level(run: Run, level: int, end: Event, expected: list[Event]) -> None:
    last = of(run(CREATED, end, level=level), "finish", "abort", "error", "message-metadata")
    assert [{key: value for key, value in chunk.items() if key != "messageMetadata"} for chunk in last] == expected


@pytest.mark.parametrize(
    ("level", "ends", "last"),
    [
        (6, "upstream_reset", "error"),
        (7, "upstream_reset", "finish"),
        (7, "upstream_truncated", "finish"),
        (7, "upstream_timeout_idle", "error"),
    ],
)
def test_a_provider_that_vanished_interrupts_the_message_at_level_7(run: Run, level: int, ends: str, last: str) -> None:
    said = run(CREATED, delta("output_text", 0, "a"), level=level, ends=ends)
    assert said[-1]["type"] == last
    assert said[-1].get("finishReason", "interrupted") == "interrupted"
    about = of(said, "message-metadata", "finish")[0]["messageMetadata"]
    assert about["error"].pop("message").endswith(".")  # the finish `interrupted` has no text to show
    assert about["error"] == {"code": ends, "source": "provider", "is_retryable": True}


def test_the_end_has_the_model_and_the_usage(run: Run) -> None:
    usage = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
    said = run(CREATED, ended("completed", usage=usage))
    assert said[-1]["messageMetadata"] == {"status": "completed", "usage": usage, "model": "m-1"}


# parts


def test_a_refusal_is_a_marked_text(run: Run) -> None:
    refused = {"type": "response.refusal.done", "output_index": 0, "refusal": "No."}
    said = run(CREATED, delta("refusal", 0, "No."), refused, COMPLETED)
    assert of(said, "text-start")[0]["providerMetadata"] == {"public-sse": {"kind": "refusal"}}
    assert of(said, "data-refusal")[0]["data"] == {"item_id": "item_0", "content_index": 0}
    assert said[-1]["finishReason"] == "content-filter"


def test_reasoning_has_a_part_for_each_part_of_its_summary(run: Run) -> None:
    events = [delta("reasoning_summary_text", 0, text, summary_index=at) for at, text in enumerate("ab")]
    said = run(CREATED, *events, COMPLETED)
    assert [(chunk["type"], chunk["id"]) for chunk in said if chunk["type"].startswith("reasoning")] == [
        ("reasoning-start", "item_0:0"), ("reasoning-delta", "item_0:0"), ("reasoning-end", "item_0:0"),
        ("reasoning-start", "item_0:1"), ("reasoning-delta", "item_0:1"), ("reasoning-end", "item_0:1"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("citation", "source"),
    [
        (
            {"type": "url_citation", "url": "https://a.example/x", "title": "A"},
            {"type": "source-url", "url": "https://a.example/x", "title": "A"},
        ),
        ({"type": "url_citation", "url": "javascript:alert(1)"}, None),
        (
            {"type": "file_citation", "file_id": "file-1", "filename": "a.pdf"},
            {
                "type": "source-document",
                "mediaType": ui_message.UNKNOWN_MEDIA_TYPE,
                "title": "a.pdf",
                "filename": "a.pdf",
            },
        ),
    ],
)
def test_a_citation_has_a_source_and_a_place(run: Run, citation: Event, source: Event | None) -> None:
    annotation = {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": citation}
    said = run(CREATED, delta("output_text", 0, "a"), annotation, COMPLETED)
    source_id = "item_0:source:1"
    expected = [{**source, "sourceId": source_id}] if source else []
    assert of(said, "source-url", "source-document") == expected
    [place] = of(said, "data-citation")
    assert (place["id"], place["data"].get("source_id")) == (source_id, source_id if source else None)


def test_citations_are_limited(run: Run) -> None:
    name = "response.output_text.annotation.added"
    cited = [
        {"type": "url_citation", "url": f"https://a.example/{at}"} for at in range(ui_message.CITATIONS_MAX_ITEMS + 5)
    ]
    events = [{"type": name, "output_index": 0, "annotation": one} for one in cited]
    said = run(CREATED, delta("output_text", 0, "a"), *events, COMPLETED)
    assert len(of(said, "source-url")) == ui_message.CITATIONS_MAX_ITEMS
    assert left_out(said) == [("item_0", "truncated", "citation")]


def test_encrypted_reasoning_beyond_the_limit_is_left_out(run: Run) -> None:
    value = "g" * (ENCRYPTED_MAX_CHARS + 1)
    events = [done(0, "reasoning", encrypted_content=value), delta("output_text", 1, "a")]
    said = run(CREATED, *events, COMPLETED, policy={"encrypted_reasoning": True})
    assert left_out(said) == [("item_0", "truncated", "encrypted_content")]
    assert "reasoning-start" not in types(said)


# calls


def test_a_function_waits_for_the_page(run: Run) -> None:
    call = {"call_id": "call_1", "name": "add", "arguments": '{"a": 1}'}
    said = run(
        CREATED,
        added(0, "function_call", call_id="call_1", name="add"),
        delta("function_call_arguments", 0, '{"a": 1}'),
        done(0, "function_call", **call),
        COMPLETED,
    )
    assert of(said, "tool-input-start", "tool-input-delta", "tool-input-available") == [
        {"type": "tool-input-start", "toolCallId": "call_1", "toolName": "add"},
        {"type": "tool-input-delta", "toolCallId": "call_1", "inputTextDelta": '{"a": 1}'},
        {"type": "tool-input-available", "toolCallId": "call_1", "toolName": "add", "input": {"a": 1}},
    ]
    assert said[-1]["finishReason"] == "tool-calls"


def test_the_input_of_a_custom_tool_is_a_json_string(run: Run) -> None:
    said = run(
        CREATED,
        added(0, "custom_tool_call", call_id="c", name="sql"),
        delta("custom_tool_call_input", 0, 'select "a"\n'),
        delta("custom_tool_call_input", 0, "from b"),
        done(0, "custom_tool_call", call_id="c", name="sql", input='select "a"\nfrom b'),
        COMPLETED,
    )
    written = "".join(chunk["inputTextDelta"] for chunk in of(said, "tool-input-delta"))
    [complete] = of(said, "tool-input-available")
    assert json.loads(written) == complete["input"] == 'select "a"\nfrom b'


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (done(0, "function_call", call_id="c", name="f", arguments="no JSON"), "The arguments are not a JSON object."),
        (added(0, "function_call", call_id="c", name="f"), "The call was cut off."),
        (added(0, "function_call", call_id="c"), "The call was cut off."),
    ],
)
def test_input_that_is_unusable_is_an_error(run: Run, item: Event, error: str) -> None:
    said = run(CREATED, item, COMPLETED)
    assert [chunk["errorText"] for chunk in of(said, "tool-input-error")] == [error]
    assert of(said, "tool-input-available") == []
    assert said[-1]["finishReason"] == "stop"


@pytest.mark.parametrize(("kind", "member"), [("function_call", "arguments"), ("custom_tool_call", "input")])
@pytest.mark.parametrize("pieces", [1, 9])
@pytest.mark.parametrize("count", [5_000, 12_000])
def test_no_client_runs_a_call_with_a_part_of_its_input(
    run: Run, kind: str, member: str, pieces: int, count: int
) -> None:
    """The text has at most 8,000 characters, the strings of its tree 4,000."""
    value: Any = "ab " * (count // 3)
    text = value if kind == "custom_tool_call" else json.dumps(value := {"path": "a.py", "text": value})
    name = f"{kind}_{member}"
    size = len(text) // pieces + 1
    deltas = [delta(name, 0, text[at : at + size]) for at in range(0, len(text), size)]
    call = {"call_id": "c", "name": "write", member: text}
    events = [CREATED, added(0, kind, call_id="c", name="write"), *deltas, done(0, kind, **call)]
    said = run(*events, COMPLETED)
    available, refused = of(said, "tool-input-available"), of(said, "tool-input-error")
    if count < 8_000:
        assert [chunk["input"] for chunk in available] == [value]
        assert (refused, said[-1]["finishReason"]) == ([], "tool-calls")
        return
    assert [chunk["errorText"] for chunk in refused] == ["The arguments are longer than the server passes on."]
    assert (available, said[-1]["finishReason"]) == ([], "stop")
    answered = run(*events, {"type": "projector.tool_output", "call_id": "c", "output": "ok"}, COMPLETED)
    assert types(of(answered, "tool-input-available", "tool-input-error", "tool-output-available")) == [
        "tool-input-available",
        "tool-output-available",
    ]
    broken = run(*events, ends="upstream_reset")
    assert types(of(broken, "tool-input-available", "tool-input-error")) == ["tool-input-error"]
    later = [COMPLETED, NEXT, CREATED, delta("output_text", 0, "a"), COMPLETED]
    assert types(run(*events, *later, run=True)).count("start-step") == 1, "clients look in the last step"


def test_what_follows_an_answer_of_the_host_is_another_step(run: Run) -> None:
    """Else a client that sends answers by itself would ask again: its last step has an answered function."""
    call = [
        added(0, "function_call", call_id="c", name="f"),
        done(0, "function_call", call_id="c", name="f", arguments="{}"),
    ]
    output = {"type": "projector.tool_output", "call_id": "c", "output": "ok"}
    said = types(run(CREATED, *call, output, delta("output_text", 1, "a"), COMPLETED))
    steps = " ".join(said).split("start-step ")[1:]
    assert [("tool-output-available" in step, "text-delta" in step) for step in steps] == [(True, False), (False, True)]
    assert said.count("finish-step") == 2
    late = types(run(CREATED, *call, delta("output_text", 1, "a"), output, delta("output_text", 1, "b"), COMPLETED))
    assert late.count("start-step") == 1, "clients drop a text that is open where a step ends"
    search = added(1, "web_search_call")
    open_call = types(run(CREATED, search, *call, output, delta("output_text", 2, "a"), COMPLETED))
    assert open_call.count("start-step") == 1, "clients make a second call of the end of one of an earlier step"


@pytest.mark.parametrize("members", [{"arguments": "{}"}, {"arguments": ""}, {}])
@pytest.mark.parametrize(("level", "kind"), [(5, "data-approval"), (6, "tool-approval-request")])
def test_an_approval_by_level(run: Run, level: int, kind: str, members: Event) -> None:
    item = done(0, "mcp_approval_request", name="book", server_label="desk", **members)
    said = run(CREATED, item, COMPLETED, level=level)
    complete, asked = of(said, "tool-input-available", "data-approval", "tool-approval-request", "tool-input-error")
    assert (complete["input"], asked["type"]) == ({}, kind)
    assert {**complete, **PROVIDER} == complete
    assert said[-1]["finishReason"] == "tool-calls"


def test_a_call_that_a_later_response_has_passed_is_answered(run: Run) -> None:
    call = done(0, "function_call", call_id="c", name="f", arguments="{}")
    said = run(CREATED, call, COMPLETED, NEXT, CREATED, delta("output_text", 0, "a"), COMPLETED, run=True)
    assert [chunk["output"] for chunk in of(said, "tool-output-available")] == [{"status": "answered"}]
    assert said[-1]["finishReason"] == "stop"


def test_a_failed_tool_has_an_error(run: Run) -> None:
    item = done(0, "mcp_call", name="book", server_label="desk", arguments="{}", error={"message": "No seats."})
    said = run(CREATED, item, COMPLETED)
    [failed] = of(said, "tool-output-error")
    assert {**failed, **PROVIDER} == failed
    assert "No seats." in failed["errorText"]


@pytest.mark.parametrize(("code", "may_retry"), [("server_error", True), ("invalid_prompt", False), (None, False)])
def test_a_failed_response_says_whether_a_retry_may_help(run: Run, *, code: str | None, may_retry: bool) -> None:
    error = {} if code is None else {"error": {"code": code, "message": "Secret words."}}
    said = run(CREATED, {"type": "response.failed", "response": {"id": "resp_1", "status": "failed", **error}})
    [about] = of(said, "message-metadata")
    failed = {"message": "The response failed.", "source": "provider"}
    expected = {"code": code or "provider_error", "is_retryable": may_retry, **failed}
    assert about["messageMetadata"]["error"] == expected


def test_a_search_lists_each_source_once(run: Run) -> None:
    urls = ["https://a.example", "https://b.example", "https://a.example"]
    action = {"query": "q", "sources": [{"url": url} for url in urls]}
    said = run(CREATED, done(0, "web_search_call", action=action), COMPLETED)
    assert [chunk["url"] for chunk in of(said, "source-url")] == urls[:2]
    assert [chunk["input"] for chunk in of(said, "tool-input-available")] == [{"query": "q"}]


def test_a_large_image_is_named_but_not_written(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "IMAGE_MAX_CHARS", 4)
    small = run(CREATED, done(0, "image_generation_call", result="aaaa"), COMPLETED)
    assert [chunk["url"] for chunk in of(small, "file")] == ["data:image/png;base64,aaaa"]
    large = run(CREATED, done(0, "image_generation_call", result="aaaaaaaa"), COMPLETED)
    assert of(large, "file") == []
    assert [chunk["data"]["field"] for chunk in of(large, "data-image-omitted")] == ["image_b64"]


def test_every_tool_type_has_a_writer() -> None:
    assert TOOL_TYPES.keys() <= ITEMS.keys()
