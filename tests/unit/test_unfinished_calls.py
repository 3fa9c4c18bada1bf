"""Calls that the provider did not complete, in the dialect `anthropic_messages`: clients must not execute them.

Those whose arguments are blank, or begin with blanks, are complete, but official clients fail at a blank.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from projector.recording.replay import CaseSettings
from tests.clients.scripted_provider import EVENTS, Block, Turn, call
from tests.property.soundness import pipeline_of

WHOLE: Final = call("move", "toolu_1", {"to": "AKIAIOSFODNN7EXAMPLE"})
NEXT: Final = call("look", "toolu_2", {"at": "b"})
PIECES: Final = {"no arguments": (), "half": ('{"to": "A', "KIA"), "withheld": WHOLE.pieces}


def played(api: str, turn: Turn) -> list[dict[str, Any]]:
    pipeline = pipeline_of("anthropic_messages", api, CaseSettings())
    lines = b"".join(json.dumps(event).encode() + b"\n" for event in EVENTS[api](turn, "r"))
    return [json.loads(line) for line in (pipeline.feed(lines) + pipeline.close()).splitlines()]


@pytest.mark.parametrize("end", ["cut", "error", "max_tokens"])
@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("api", EVENTS)
def test_its_block_stops_only_before_a_stop_reason(api: str, pieces: tuple[str, ...], end: str) -> None:
    last = Block("tool", pieces, "toolu_1", "move")
    events = played(api, Turn((NEXT, last), end))
    if end == "max_tokens":
        assert [event["type"] for event in events[-3:]] == ["content_block_stop", "message_delta", "message_stop"]
        assert events[-2]["delta"]["stop_reason"] == "max_tokens"
    else:
        stops = [event["index"] for event in events if event["type"] == "content_block_stop"]
        assert (stops, events[-1]["type"]) in (([], "error"), ([0], "error")), events
        deltas = [event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta"]
        assert "{}" not in deltas


@pytest.mark.parametrize(("pieces", "said"), [((" ",), ["{}"]), (("\n", ' {"a"', ":1} "), ['{"a"', ":1} "])])
def test_arguments_begin_without_blanks(pieces: tuple[str, ...], said: list[str]) -> None:
    events = played("openai_chat", Turn((Block("tool", pieces, "toolu_1", "move"),)))
    assert [event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta"] == said
