"""Texts that come with the end of their response, in the dialects that write an answer: each once, and only if new."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from projector.core.pipeline import build_pipeline
from projector.dialects.descriptor import DialectOptions
from tests.dialect_checks import violations_of

Event = dict[str, Any]

NEXT: Final = {"type": "projector.next_response"}


def message(at: int, *deltas: str, **members: object) -> list[Event]:
    """Return the events of a message; one without deltas has no text."""
    item = {"id": f"msg_{at}", "type": "message", "role": "assistant", "content": [], **members}
    place = {"output_index": at, "item_id": item["id"]}
    return [
        {"type": "response.output_item.added", "output_index": at, "item": {**item, "status": "in_progress"}},
        *({"type": "response.output_text.delta", **place, "content_index": 0, "delta": delta} for delta in deltas),
        {"type": "response.output_item.done", "output_index": at, "item": {**item, "status": "completed"}},
    ]


def response(number: int, *messages: list[Event], late: str = "", kind: str = "output_text") -> list[Event]:
    """Return the events of a response; `late` is the text of its first message in the final snapshot."""
    about = {"id": f"resp_{number}", "model": "m"}
    part = {"type": kind, "refusal" if kind == "refusal" else "text": late}
    output = [{"id": "msg_0", "type": "message", "role": "assistant", "content": [part]}] if late else []
    return [
        {"type": "response.created", "response": {**about, "status": "in_progress"}},
        *(event for one in messages for event in one),
        {"type": "response.completed", "response": {**about, "status": "completed", "output": output}},
    ]


COMMENTARY: Final = message(0, "Looking.", phase="commentary")
STREAMS: Final[dict[str, tuple[list[Event], str]]] = {
    "alone": (response(1, message(0), late="Late."), "Late."),
    "a refusal": (response(1, message(0), late="I can't.", kind="refusal"), "I can't."),
    "after a response with deltas": (
        [*response(1, message(0, "First.")), NEXT, *response(2, message(0), late="Late.")],
        "First.Late.",
    ),
    "after a text of the same length": (
        [*response(1, message(0, "Yes.")), NEXT, *response(2, message(0), late="No!!")],
        "Yes.No!!",
    ),
    "before a response without a text": (
        [*response(1, message(0), late="Late."), NEXT, *response(2, message(0))],
        "Late.",
    ),
    "before a response with deltas": (
        [*response(1, message(0), late="Late."), NEXT, *response(2, message(0, "Second."))],
        "Second.",
    ),
    "not late": (response(1, message(0, "One", "."), message(1)), "One."),
    "not late, with commentary": (response(1, COMMENTARY, message(1, "One."), message(2)), "One."),
}
"""Name -> the events of a run, and the text of its answer without commentary."""

TEXTS: Final[Mapping[str, Callable[[Event], list[str]]]] = {
    "ag_ui": lambda event: [event["delta"]] if event["type"] == "TEXT_MESSAGE_CONTENT" else [],
    "ai_sdk": lambda event: [event["delta"]] if event["type"] == "text-delta" else [],
    "anthropic_messages": lambda event: [event["delta"]["text"]] if event["type"] == "content_block_delta" else [],
    "chat_completions": lambda event: [
        (choice["delta"].get("content") or choice["delta"].get("refusal") or "").strip() for choice in event["choices"]
    ],
}
"""Dialect -> returns the texts of an event."""


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("dialect", TEXTS)
def test_a_text_is_written_once(dialect: str, name: str) -> None:
    events, expected = STREAMS[name]
    pipeline = build_pipeline(
        provider="openai_responses",
        dialect=dialect,
        run=True,
        input_format="ndjson",
        output_format="ndjson",
        takes_host_events=True,
        options=DialectOptions(include_usage=False),
    )
    data = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    lines = (pipeline.feed(data) + pipeline.close()).splitlines()
    assert violations_of(dialect, lines) == []
    said = "".join(text for line in lines if line != b"[DONE]" for text in TEXTS[dialect](json.loads(line)))
    assert said.replace("Looking.", "") == expected
