"""No reasoning text of a Chat Completions stream, in any spelling, is emitted in any dialect below policy `full`."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from projector import build_pipeline
from projector.dialects import DIALECTS
from projector.redaction.policy import Policy

THOUGHT: Final = "the heron waits until the tide has turned"
WORDS: Final = {"heron", "waits", "until", "tide", "turned"}
SEALED: Final = "gAAAA-sealed-by-the-provider"
ANSWER: Final[dict[str, Any]] = {"content": "Hi"}
FINISH: Final = [{"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]

SAID: Final[dict[str, list[dict[str, Any]]]] = {
    "reasoning_content": [{"reasoning_content": THOUGHT}, ANSWER],
    "reasoning": [{"reasoning": THOUGHT}, ANSWER],
    "details": [{"reasoning_details": [{"type": "reasoning.text", "text": THOUGHT, "signature": SEALED}]}, ANSWER],
    "tags": [{"content": f"<think>{THOUGHT}</think>Hi"}],
    "tags in pieces": [{"content": "<thi"}, {"content": f"nk>{THOUGHT}</th"}, {"content": "ink>Hi"}],
    "tags in capitals": [{"content": f"<THINK>{THOUGHT}</THINK>Hi"}],
    "another tag": [{"content": "<think"}, {"content": f"ing>{THOUGHT}</thinking>Hi"}],
    "channels": [
        {"content": f"<|channel|>analysis<|message|>{THOUGHT}<|end|>"},
        {"content": "<|start|>assistant<|channel|>final<|message|>Hi"},
    ],
    "a tag that is never closed": [{"content": f"<think>{THOUGHT}"}],
    "after the answer": [ANSWER, {"reasoning_content": THOUGHT}],
}
"""Spelling of reasoning -> its deltas."""


def told(dialect: str, level: str, deltas: list[dict[str, Any]], *, ends: bool) -> bytes:
    chunks = [{"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    pipeline = build_pipeline(provider="openai_chat", dialect=dialect, policy=Policy.load({"reasoning": level}))
    data = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in [*chunks, *(FINISH if ends else [])])
    return pipeline.feed(data) + pipeline.close()


def words_in(said: bytes) -> set[str]:
    return {word for word in WORDS if word.encode() in said}


@pytest.mark.parametrize("ends", [True, False], ids=["whole", "cut off"])
@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_reasoning_of_a_chat_stream_leaves_under_full_only(dialect: str, name: str, *, ends: bool) -> None:
    for level in ("off", "summary"):
        assert words_in(told(dialect, level, SAID[name], ends=ends)) == set()
    if ends and dialect != "public_sse_v1":  # D29: that dialect has no event for it
        assert words_in(told(dialect, "full", SAID[name], ends=ends)) == WORDS


@pytest.mark.parametrize("level", ["off", "summary", "full"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_sealed_reasoning_of_a_chat_stream_leaves_in_no_dialect(dialect: str, level: str) -> None:
    details = {"reasoning_details": [{"type": "reasoning.encrypted", "data": SEALED}]}
    for deltas in (SAID["details"], [details, ANSWER]):
        assert SEALED.encode() not in told(dialect, level, deltas, ends=True)
