"""Reasoning between tags in the text of a Chat model, as blocks of an OpenWOP log, for all chunk boundaries."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from projector.core.context import StreamContext
from projector.core.pipeline import build_pipeline
from projector.redaction.policy import Policy
from tests.openwop_reader import check_log

Event = dict[str, Any]


def log_of(*pieces: str, verbosity: str = "full", finish: str | None = "stop") -> list[Event]:
    """Return the log of one response, with a chunk for each piece of its text, after checking it."""
    pipeline = build_pipeline(
        provider="openai_chat",
        dialect="openwop",
        policy=Policy.load({"reasoning": verbosity, "text": "off"}),
        context=StreamContext(stream_id="r"),
        profile={"think_mode": "anywhere"},
        input_format="ndjson",
        output_format="ndjson",
        clock=lambda: 1_765_800_000.0,
    )
    choices = [{"index": 0, "delta": {"content": piece}} for piece in pieces]
    choices += [{"index": 0, "delta": {}, "finish_reason": finish}] if finish else []
    chunks = [{"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]} for choice in choices]
    said = b"".join(pipeline.feed(json.dumps(chunk).encode() + b"\n") for chunk in chunks) + pipeline.close()
    assert check_log(said.splitlines()) == []
    return [json.loads(line) for line in said.splitlines()]


def visible(said: list[Event]) -> str:
    return "".join(event["payload"]["chunk"] for event in said if event["type"] == "output.chunk")


def deltas(said: list[Event]) -> list[tuple[int, str]]:
    payloads = [event["payload"] for event in said if event["type"] == "agent.reasoning.delta"]
    return [(payload["sequence"], payload["delta"]) for payload in payloads]


def closings(said: list[Event]) -> list[str]:
    return [event["payload"]["reasoning"] for event in said if event["type"] == "agent.reasoned"]


VECTORS: Final[tuple[tuple[tuple[str, ...], str, list[str]], ...]] = (
    (("plain words",), "plain words", []),
    (("in front <think>within</think> behind",), "in front  behind", ["within"]),
    (tuple("<think>one two three</think>said"), "said", ["one two three"]),
    (("in<thi", "nk>not shown</think>out"), "inout", ["not shown"]),
    (("<think>foo</thi", "nk>seen"), "seen", ["foo"]),
    (("<thinker>",), "<thinker>", []),
    (("1 < 2 and 3 > 0",), "1 < 2 and 3 > 0", []),
    (("<think>a", " b", " c</think>d"), "d", ["a b c"]),
    (("<think>a</think>mid<think>b</think>end",), "midend", ["a", "b"]),
    (("said<thi",), "said<thi", []),
    (("<think>if a < b: pass</think>so",), "so", ["if a < b: pass"]),
    (("seen<think>never closed",), "seen", ["never closed"]),
    (("<think>a", "A</think>x<think>b", "B</think>y"), "xy", ["aA", "bB"]),
    (("<think></think>so",), "so", [""]),
    (("<think></think>a<think></think>b",), "ab", ["", ""]),
    (("<think> \n</think>so",), "so", []),  # blanks alone are not reasoning
    (("so<think>",), "so", []),
)


@pytest.mark.parametrize(("pieces", "text", "blocks"), VECTORS)
def test_think_blocks_are_separated_from_the_text(pieces: tuple[str, ...], text: str, blocks: list[str]) -> None:
    said = log_of(*pieces)
    assert visible(said) == text
    assert closings(said) == blocks
    assert "".join(delta for _, delta in deltas(said)) == "".join(blocks)


@pytest.mark.parametrize(("pieces", "text", "blocks"), VECTORS)
def test_chunk_boundaries_do_not_matter(pieces: tuple[str, ...], text: str, blocks: list[str]) -> None:
    whole = "".join(pieces)
    for at in range(len(whole) + 1):
        said = log_of(whole[:at], whole[at:])
        assert visible(said) == text
        assert closings(said) == blocks


def test_two_blocks_in_one_chunk_are_separate() -> None:
    said = log_of("<think>a", "A</think>x<think>b", "B</think>y")
    assert deltas(said) == [(0, "a"), (1, "A"), (0, "b"), (1, "B")]
    order = [event["type"] for event in said if event["type"] in {"agent.reasoned", "output.chunk"}]
    assert order == ["agent.reasoned", "output.chunk", "agent.reasoned", "output.chunk", "output.chunk"]


@pytest.mark.parametrize("finish", ["stop", "length", None])
def test_an_unclosed_think_block_is_closed_with_its_text(finish: str | None) -> None:
    assert closings(log_of("<think>so ", "far", finish=finish)) == ["so far"]


@pytest.mark.parametrize("verbosity", ["summary", "off"])
def test_without_full_reasoning_nothing_is_emitted(verbosity: str) -> None:
    said = log_of("<think>not ", "shown</think>seen", verbosity=verbosity)
    assert (visible(said), deltas(said)) == ("seen", [])
    assert closings(said) == ([""] if verbosity == "summary" else [])
