"""A member that a provider adds is counted by the object it is in, and changes nothing else (CONTRACT D30)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from projector import StreamContext, build_pipeline
from projector.providers.anthropic_messages.block_fields import MEMBERS as OF_MESSAGES
from projector.providers.openai_responses.stage import MEMBERS as OF_RESPONSES

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson"
NEW: Final = "x_new_member"


def objects(provider: str, event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of an event whose members are known, and their names."""
    if provider in {"openai_responses", "anthropic_messages"}:
        known = OF_RESPONSES if provider == "openai_responses" else OF_MESSAGES
        yield "event", event
        yield from ((name, event[name]) for name in known if isinstance(event.get(name), dict))
    elif provider == "openai_chat":
        yield "chunk", event
        for choice in event.get("choices", ())[:1]:
            yield from (("choice", choice), ("delta", choice["delta"]))
    else:
        yield "chunk", event
        for candidate in event.get("candidates", ())[:1]:
            yield "candidate", candidate
            content = candidate.get("content", {})
            yield from (("part", part) for part in content.get("parts", ()))


def projected(provider: str, events: list[Any]) -> tuple[bytes, set[str]]:
    context = StreamContext(stream_id="stream_1")
    pipeline = build_pipeline(provider=provider, dialect="public_sse_v1", context=context, clock=lambda: 0.0)
    data = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
    output = b"".join(pipeline.feed(data[at : at + 1]) for at in range(len(data))) + pipeline.close()
    return output, set(pipeline.dropped)


CASES: Final = {
    "openai_responses": ("chat-interleaved-items", "chat-text-citations", "chat-reasoning-summary"),
    "openai_chat": ("chat-completions-parallel-tools", "chat-completions-reasoning-content"),
    "anthropic_messages": ("messages-parallel-tools", "messages-thinking"),
    "gemini": ("gemini-parallel-tools", "gemini-thinking"),
}


@pytest.mark.parametrize(("provider", "case"), [(name, case) for name, cases in CASES.items() for case in cases])
def test_a_new_member_is_counted_and_changes_nothing(provider: str, case: str) -> None:
    folder = "anthropic_messages_input" if provider == "anthropic_messages" else provider
    lines = (EXAMPLES / folder / f"{case}.ndjson").read_bytes().splitlines()
    events = [json.loads(line) for line in lines if line.startswith(b"{")]
    before, dropped = projected(provider, events)
    counted = set(dropped)
    for event in events:
        for name, value in [*objects(provider, event)]:
            value[NEW] = {"text": "unseen"}
            counted.add(f"{name}.{NEW}")
    assert counted - dropped
    assert projected(provider, events) == (before, counted)
