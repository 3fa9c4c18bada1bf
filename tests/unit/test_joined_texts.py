"""A registered value that crosses from one text into another is withheld wherever clients join them (CONTRACT D40)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import pytest

from projector.core.pipeline import build_pipeline
from projector.dialects import DIALECTS
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

Event: TypeAlias = dict[str, Any]

SECRET: Final = "Quiet-Heron-7741-vault"
REDACTOR: Final = Redactor(
    Policy.load({"registered": [{"value": SECRET}, {"value": "two\n\nlines"}], "reasoning": "full"})
)


def text(delta: str, part: int = 0, item: int = 0) -> Event:
    place = {"output_index": item, "item_id": f"m{item}", "content_index": part}
    return {"type": "response.output_text.delta", **place, "delta": delta}


def text_done(whole: str, part: int = 0, item: int = 0) -> Event:
    return {**text("", part, item), "type": "response.output_text.done", "text": whole}


def item_done(item: int, *parts: str) -> Event:
    content = [{"type": "output_text", "text": part} for part in parts]
    message = {"type": "message", "id": f"m{item}", "role": "assistant", "content": content}
    return {"type": "response.output_item.done", "output_index": item, "item": message}


END: Final[Event] = {"type": "response.completed", "response": {"id": "r", "status": "completed"}}

ROWS: Final[dict[str, tuple[list[Event], str]]] = {
    "two parts": ([text("say Qui", 0), text("et-Heron-7741-vault now", 1)], "say Qui<redacted> now"),
    "in pieces": (
        [text("say Q"), text("ui"), *(text(char, 1) for char in "et-Heron-7741-vault!")],
        "say Qui<redacted>!",
    ),
    "three parts": ([text("Qu"), text("i", 1), text("et-Heron-7741-vault.", 2)], "Qui<redacted>."),
    "a part for each character": (
        [text(char, at) for at, char in enumerate(SECRET)],
        "Qui<redacted>",
    ),
    "almost a value": ([text("Qui"), text("et-Herons", 1)], "Quiet-Herons"),
    "the beginning of the rest": ([text("Qui"), text("e", 1), text("ter", 2)], "Qui<redacted>ter"),
    "finished parts": ([item_done(0, "a Qui", "et-Heron-7741-vault b")], "a Qui<redacted> b"),
    "parts that are done": (
        [text("Qui"), text_done("Qui"), text("et-Her", 1), text_done("et-Heron-7741-vault", 1)],
        "Qui<redacted>",
    ),
    "a delta after its done": ([text("Qui"), text_done("Qui"), text("et-Heron-7741-vault")], "Qui"),
    "a delta after a contradiction": ([text("Qui"), text_done("No"), text("et-Heron-7741-vault")], "Qui"),
    "two messages": ([item_done(0, "Qui"), item_done(1, "et-Heron-7741-vault")], "Qui\n\n<redacted>"),
    "a blank line": ([item_done(0, "two"), item_done(1, "lines")], "two\n\n<redacted>"),
    "parts in turn": ([text("Qui", 0), text("x", 1), text("et-Heron-7741-vault", 0)], "<redacted>x"),
    "a value between the deltas of another part": (
        [text("x", 0), text("Qui", 1), text("et-Heron-7741-vault", 0)],
        "x<redacted>Qui",
    ),
    "the second part first": ([text("et-Heron-7741-vault", 1), text("Qui", 0)], "<redacted>"),
    "messages that arrive in another order": ([item_done(1, "b"), item_done(0, "a")], "a\n\nb"),
}


@pytest.mark.parametrize(("events", "said"), ROWS.values(), ids=ROWS.keys())
def test_the_final_text(events: list[Event], said: str) -> None:
    final = run("public_sse_v1", [*events, END])[-1]
    assert final["final"]["response_text"] == said
    assert ("notices" in final) == ("<redacted>" in said)


def run(dialect: str, events: Iterable[Event]) -> list[Event]:
    pipeline = build_pipeline(provider="openai_responses", dialect=dialect, redactor=REDACTOR, output_format="ndjson")
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    lines = (pipeline.feed(data) + pipeline.close()).splitlines()
    return [json.loads(line) for line in lines if line != b"[DONE]"]


def deltas(said: list[Event], event_type: str, *path: str) -> str:
    """Return the joined deltas of the events of a type."""
    found: list[str] = []
    for event in said:
        value: Any = event
        for member in path:
            value = value.get(member, {}) if isinstance(value, dict) else {}
        if event_type in {event.get("type"), event.get("kind")} and isinstance(value, str):
            found.append(value)
    return "".join(found)


def chat_content(said: list[Event]) -> str:
    return "".join(choice["delta"].get("content", "") for event in said for choice in event["choices"])


def sdk_text(said: list[Event]) -> str:
    """Return what `output_text` of an SDK is: all texts of the finished response."""
    output = said[-1]["response"]["output"]
    return "".join(part["text"] for item in output for part in item["content"])


JOINED: Final[dict[str, Callable[[list[Event]], str]]] = {
    "public_sse_v1": lambda said: deltas(said, "message.delta", "delta"),
    "ag_ui": lambda said: deltas(said, "TEXT_MESSAGE_CONTENT", "delta"),
    "ai_sdk": lambda said: deltas(said, "text-delta", "delta"),
    "responses": lambda said: deltas(said, "response.output_text.delta", "delta") + "|" + sdk_text(said),
    "openresponses": lambda said: deltas(said, "response.output_text.delta", "delta") + "|" + sdk_text(said),
    "chat_completions": chat_content,
    "openwop": lambda said: deltas(said, "output.chunk", "payload", "chunk"),
    "anthropic_messages": lambda said: deltas(said, "content_block_delta", "delta", "text"),
}

OF_THE_PAGE: Final = {"the second part first"}
"""Parts that arrive in another order: their snapshot is in the order of the positions, and only `final` is searched."""


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ROWS)
def test_the_texts_of_a_dialect_joined(dialect: str, name: str) -> None:
    joined = JOINED[dialect](run(dialect, [*ROWS[name][0], END]))
    parts = joined.partition("|")[::2] if name not in OF_THE_PAGE else joined.split("|")[:1]
    assert [part for part in parts if SECRET in part or "two\n\nlines" in part] == []


def test_refusals_summaries_and_reasoning() -> None:
    rows = {"response.refusal": "content_index", "response.reasoning_summary_text": "summary_index"}
    for at, (name, index) in enumerate([*rows.items(), ("response.reasoning_text", "content_index")]):
        place = {"output_index": at, "item_id": f"i{at}"}
        events = [
            {"type": f"{name}.delta", **place, index: part, "delta": delta}
            for part, delta in enumerate(["two", "lines", "Qui", "et-Heron-7741-vault"])
        ]
        written = json.dumps(run("responses", [*events, END]))
        assert "lines" not in written
        assert "Heron" not in written
