"""Tokens of a stream: as reported, estimated where they are not, whatever a provider or a caller sends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from projector import build_pipeline
from projector.server.control.token_meter import INPUT_MAX, OUTPUT_DEFAULT, OUTPUT_MAX, REPORTED_MAX, TokenMeter

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
