"""Tokens of a stream: as reported, estimated where they are not, whatever a provider or a caller sends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from projector import build_pipeline
from projector.core.faults import FAULTS
from projector.server.control.token_meter import (
    INPUT_MAX,
    OUTPUT_DEFAULT,
    OUTPUT_MAX,
    REPORTED_MAX,
    TokenMeter,
    input_tokens,
)
from projector.server.telemetry.stream_stats import StreamStats

BODY = {"input": "x" * 383}
"""400 bytes: 100 tokens."""


def text(chars: int, response: str = "r1", agent: str = "a", kind: str = "message.delta") -> dict[str, Any]:
    return {"kind": kind, "delta": "x" * chars, "response_id": response, "agent": agent}


def usage(response: str = "r1", agent: str = "a", **counts: int) -> dict[str, Any]:
    return {"kind": "response.usage", "usage": counts, "response_id": response, "agent": agent}


def begun(tokens: int, response: str = "r1", agent: str = "a") -> dict[str, Any]:
    return {"kind": "response.meta", "id": response, "input_tokens": tokens, "agent": agent}


BOTH = {"input_tokens": 30, "output_tokens": 12}


@pytest.mark.parametrize(
    ("name", "frames", "code", "used"),
    [
        ("reported in total", [text(8), usage(total_tokens=42)], None, 42),
        ("reported in parts", [text(8), usage(**BOTH)], None, 42),
        ("a total that is too small", [usage(total_tokens=1, **BOTH)], None, 42),
        ("reported, and then failed", [text(8), usage(**BOTH)], "upstream_truncated", 42),
        ("nothing", [], None, 100),
        ("only text", [text(9)], None, 103),
        ("only reasoning", [text(8, kind="reasoning.delta")], None, 102),
        ("arguments of a tool", [text(8, kind="tool.arguments.delta")], None, 102),
        ("text, and then failed", [text(8)], "upstream_reset", 102),
        ("reported as nothing", [text(8), usage(total_tokens=0)], None, 102),
        ("reported without tokens", [text(8), usage()], None, 102),
        ("an absurd report", [text(8), usage(total_tokens=REPORTED_MAX + 1)], None, 102),
        ("a large report", [text(8), usage(total_tokens=REPORTED_MAX)], None, REPORTED_MAX),
        ("input reported at the start, then cut off", [begun(5_000), text(8)], "upstream_reset", 5_002),
        ("input reported at the start, and all at the end", [begun(30), text(8), usage(**BOTH)], None, 42),
        ("input of another response", [begun(30, "r2"), usage(**BOTH)], None, 72),
        ("an absurd input", [begun(REPORTED_MAX + 1)], None, 100),
        ("refused by the provider", [], "upstream_http_400", 0),
        ("the provider cannot be reached", [], "upstream_unreachable", 0),
        ("the provider does not answer", [], "upstream_timeout_first_byte", 100),
        ("the answer is cut off", [], "upstream_reset", 100),
    ],
)
def test_used_tokens(name: str, frames: list[dict[str, Any]], code: str | None, used: int) -> None:
    meter = TokenMeter(["a"], BODY)
    meter.estimate()
    meter.on_request(BODY)
    for frame in frames:
        meter.on_frame(frame)
    assert meter.used(code) == (used, {"a": used}), name


CHUNK = {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "x" * 8}}]}
SAID = {"candidates": [{"content": {"parts": [{"text": "x" * 8}]}}], "responseId": "r"}


BEGUN = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 3_000, "output_tokens": 1}}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "x" * 8}}
COUNTED = {"prompt_tokens": 3_000, "completion_tokens": 4_000}
METADATA = {"promptTokenCount": 3_000, "candidatesTokenCount": 1_500, "thoughtsTokenCount": 2_500}
LATE = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 4_000}}


@pytest.mark.parametrize(
    ("provider", "messages"),
    [
        ("openai_chat", [CHUNK, {**CHUNK, "choices": [], "usage": COUNTED}]),
        ("gemini", [SAID, *([{**SAID, "usageMetadata": METADATA}] * 8)]),
        ("anthropic_messages", [BEGUN, BLOCK, LATE]),
    ],
)
@pytest.mark.parametrize("end", ["cancel", "close", "fail", "error"])
def test_usage_before_the_end_counts_if_the_response_is_cut_off(
    provider: str, messages: list[dict[str, Any]], end: str
) -> None:
    stats = StreamStats(dialect="public_sse_v1", meter=TokenMeter(["a"], BODY))
    assert stats.meter is not None
    stats.meter.on_request(BODY)
    pipeline = build_pipeline(provider=provider, dialect="public_sse_v1", on_frame=stats.on_frame)
    pipeline.feed(b"".join(b"data: %b\n\n" % json.dumps(message).encode() for message in messages))
    ends = {"close": pipeline.close, "fail": lambda: pipeline.close(FAULTS["upstream_reset"])}
    ends |= {
        "cancel": pipeline.cancel,
        "error": lambda: pipeline.feed(b'event: error\ndata: {"error": {"message": "x"}}\n\n'),
    }
    ends[end]()
    assert stats.terminal.get("final", {}).get("usage") is None
    assert stats.meter.used("upstream_truncated") == (7_000, {"a": 7_000})
    assert (stats.usage["input_tokens"], stats.usage["output_tokens"]) == (3_000, 4_000)


@pytest.mark.parametrize(
    ("usage", "tokens"), [({}, 200), ({"input": 0, "output": 0}, 200), ({"output": 5}, 200), ({"output": 150}, 250)]
)
@pytest.mark.parametrize("provider", ["openai_chat", "anthropic_messages"])
def test_usage_without_input_of_a_response_that_is_cut_off_leaves_its_input_estimated(
    provider: str, usage: dict[str, int], tokens: int
) -> None:
    stats = StreamStats(dialect="public_sse_v1", meter=TokenMeter(["a"], BODY))
    assert stats.meter is not None
    stats.meter.on_request(BODY)
    pipeline = build_pipeline(provider=provider, dialect="public_sse_v1", on_frame=stats.on_frame)
    counts = {f"{name}_tokens": count for name, count in usage.items()}
    messages: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "usage": counts}},
        {**BLOCK, "content_block": {"type": "text", "text": "x" * 400}},
    ]
    if provider == "openai_chat":
        names = {"input": "prompt_tokens", "output": "completion_tokens"}
        counts = {names[name]: count for name, count in usage.items()}
        said = {"index": 0, "delta": {"content": "x" * 400}}
        messages = [{**CHUNK, "choices": [said]}, {**CHUNK, "choices": [], "usage": counts}]
    pipeline.feed(b"".join(b"data: %b\n\n" % json.dumps(message).encode() for message in messages))
    pipeline.cancel()
    assert (stats.meter.used()[0], stats.tokens) == (tokens, tokens)


def test_a_log_has_no_usage_of_a_response_that_is_cut_off() -> None:
    pipeline = build_pipeline(provider="openai_chat", dialect="openwop")
    chunks = [CHUNK, {**CHUNK, "choices": [], "usage": COUNTED}]
    said = pipeline.feed(b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks))
    assert b"provider.usage" not in said + pipeline.cancel()


def test_output_beyond_what_a_provider_reported_counts_if_the_response_is_cut_off() -> None:
    meter = TokenMeter(["a"], BODY)
    meter.on_request(BODY)
    pipeline = build_pipeline(provider="anthropic_messages", dialect="public_sse_v1", on_frame=meter.on_frame)
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "x" * 400}}
    pipeline.feed(b"".join(b"data: %b\n\n" % json.dumps(message).encode() for message in [BEGUN, block]))
    pipeline.close()
    assert meter.used("upstream_truncated")[0] == 3_100


@pytest.mark.parametrize(
    ("provider", "messages"),
    [
        ("openai_chat", [{**CHUNK, "usage": {"prompt_tokens": 50_000, "completion_tokens": 1}}]),
        ("gemini", [{**SAID, "usageMetadata": {"promptTokenCount": 50_000}}]),
        (
            "anthropic_messages",
            [
                {
                    "type": "message_start",
                    "message": {"id": "m", "usage": {"input_tokens": 50_000, "output_tokens": 1}},
                },
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "x" * 8}},
            ],
        ),
    ],
)
@pytest.mark.parametrize("ends", ["cancel", "close"])
def test_input_that_a_provider_reports_first_is_paid_by_who_leaves(
    provider: str, messages: list[dict[str, Any]], ends: str
) -> None:
    meter = TokenMeter(["a"], BODY)
    meter.on_request(BODY)
    pipeline = build_pipeline(provider=provider, dialect="public_sse_v1", on_frame=meter.on_frame)
    pipeline.feed(b"".join(b"data: %b\n\n" % json.dumps(message).encode() for message in messages))
    getattr(pipeline, ends)()
    assert meter.used("upstream_truncated") == (50_002, {"a": 50_002})


def test_a_stream_without_a_request_to_a_provider_uses_nothing() -> None:
    meter = TokenMeter(["a"], BODY)
    meter.estimate()
    assert meter.used() == (0, {"a": 0})


def test_steps_are_counted_for_their_agents() -> None:
    meter = TokenMeter(["a", "b", "c"], {"message": "hi"})
    for _ in range(3):
        meter.on_request(BODY)
    for frame in (text(8), text(8, "r2", "b"), usage(**BOTH), text(4, "r2", "b"), usage("r3", "b", total_tokens=7)):
        meter.on_frame(frame)
    assert meter.used() == (42 + 7 + 3 + 100, {"a": 42, "b": 10, "c": 0})  # the input of one response is not reported


@pytest.mark.parametrize(
    ("name", "body", "reserved"),
    [
        ("no limit", {}, OUTPUT_DEFAULT + 1),
        ("a limit", {"max_output_tokens": 40}, 47),
        ("another name", {"max_completion_tokens": 40}, 48),
        ("the old name", {"max_tokens": 40}, 45),
        ("of Gemini", {"generationConfig": {"maxOutputTokens": 40}}, 52),
        ("of its other API", {"generation_config": {"max_output_tokens": 40}}, 53),
        ("characters of several bytes", {"a": "\u20ac" * 400}, OUTPUT_DEFAULT + 303),
        ("half characters", {"a": "\ud800" * 400}, OUTPUT_DEFAULT + 303),
        ("many values", {"a": [[{"b": 1}]] * 1_000_000}, OUTPUT_DEFAULT + INPUT_MAX),
        ("a long number", {"a": 10**4_000}, OUTPUT_DEFAULT + 3),
        ("a huge limit", {"max_output_tokens": 10**40}, None),
        ("a limit of nothing", {"max_output_tokens": 0}, None),
        ("a negative limit", {"max_output_tokens": -(10**9)}, None),
        ("text", {"max_output_tokens": "9" * 30}, None),
        ("true", {"max_output_tokens": True}, None),
        ("a number with a fraction", {"max_output_tokens": 1e300}, None),
        ("a list", {"max_output_tokens": [1]}, None),
        ("a huge body", {"input": "x" * 10_000_000}, INPUT_MAX + OUTPUT_DEFAULT),
    ],
)
def test_reserved_tokens(name: str, body: dict[str, Any], reserved: int | None) -> None:
    estimate = TokenMeter([], body).estimate()
    assert estimate == reserved if reserved is not None else 0 < estimate <= OUTPUT_MAX + 20, name


DATA = "iVBO" * 500_000
"""2,000,000 bytes in base64: 500,000 tokens as text."""
WORDS = "Some words. " * 250_000
"""3,000,000 bytes: 750,000 tokens."""
IMAGE, ANY_FILE, AS_TEXT = 1_600, INPUT_MAX, 500_000


def user(*content: object) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [*content]}]}


def source(media_type: str, kind: str = "base64") -> dict[str, Any]:
    return {"type": kind, "media_type": media_type, "data": DATA}


def schema(**members: object) -> dict[str, Any]:
    return {"tools": [{"name": "t", "input_schema": {"default": members}}], "messages": []}


def url(media_type: str) -> str:
    return f"data:{media_type};base64,{DATA}"


@pytest.mark.parametrize(
    ("name", "body", "tokens"),
    [
        ("text", {"input": WORDS}, 750_000),
        ("text of a message", user({"type": "text", "text": WORDS}), 750_000),
        ("instructions", {"instructions": WORDS, "input": "a"}, 750_000),
        (
            "an image of Responses",
            {"input": [{"content": [{"type": "input_image", "image_url": url("image/png")}]}]},
            IMAGE,
        ),
        ("an image of Chat Completions", user({"type": "image_url", "image_url": {"url": url("image/png")}}), IMAGE),
        ("an image of Messages", user({"type": "image", "source": source("image/png")}), IMAGE),
        ("a document of Messages", user({"type": "document", "source": source("application/pdf")}), ANY_FILE),
        ("a file", {"input": [{"content": [{"type": "input_file", "file_data": url("application/pdf")}]}]}, ANY_FILE),
        ("a file of Chat Completions", user({"type": "file", "file": {"file_data": url("application/pdf")}}), ANY_FILE),
        ("audio", user({"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}}), ANY_FILE),
        ("Gemini", {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": DATA}}]}]}, IMAGE),
        ("interactions", {"input": [{"content": [{"type": "image", "mime_type": "image/png", "data": DATA}]}]}, IMAGE),
        ("in a result", user({"type": "tool_result", "content": [{"source": source("image/png")}]}), IMAGE),
        ("a screenshot", {"input": [{"output": {"image_url": url("image/png")}}]}, IMAGE),
        ("a generated image", {"input": [{"type": "image_generation_call", "result": DATA}]}, IMAGE),
        ("a small file", user({"type": "file", "file": {"file_data": "data:application/pdf;base64,iVBO"}}), 0),
        ("a document of text", user({"type": "document", "source": source("text/plain")}), AS_TEXT),
        ("a source of text", user({"type": "document", "source": source("application/pdf", "text")}), AS_TEXT),
        ("a file of text", {"input": [{"content": [{"file_data": url("text/plain")}]}]}, AS_TEXT),
        ("a file of no type", {"input": [{"content": [{"file_data": DATA, "filename": "a.pdf"}]}]}, AS_TEXT),
        ("a result of a function", {"input": [{"type": "function_call_output", "output": DATA}]}, AS_TEXT),
        ("a data URL as text", user({"type": "text", "text": url("image/png")}), AS_TEXT),
        ("a data URL as an item", {"input": [url("image/png")]}, AS_TEXT),
        ("a data URL as instructions", {"instructions": url("image/png"), "input": "a"}, AS_TEXT),
        ("arguments", user({"type": "tool_use", "input": {"content": [{"source": source("image/png")}]}}), AS_TEXT),
        ("a schema", schema(content=[{"source": source("image/png")}]), AS_TEXT),
        (
            "a result of Gemini",
            {"contents": [{"parts": [{"functionResponse": {"response": {"data": DATA, "mimeType": "image/png"}}}]}]},
            AS_TEXT,
        ),
        ("text in another member", {"input": [{"type": "function_call", "result": DATA}]}, AS_TEXT),
        ("types that are none", user({"data": 1, "url": None, "file_data": [DATA], "image_url": {"url": {}}}), AS_TEXT),
    ],
)
def test_tokens_of_what_was_sent(name: str, body: dict[str, Any], tokens: int) -> None:
    """A request that is not reported is charged without a limit, so that text cannot be taken for a file."""
    assert tokens <= input_tokens(body) <= tokens + 60, name
    least = IMAGE if tokens == ANY_FILE else tokens
    assert least <= input_tokens(body, file_max=IMAGE) <= least + 60, name
    meter = TokenMeter(["a"], body)
    assert meter.estimate() <= INPUT_MAX + OUTPUT_DEFAULT
    meter.on_request(body)
    assert meter.used()[0] == input_tokens(body)
