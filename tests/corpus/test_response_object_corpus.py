"""Every recorded stream in the dialects with a `response` object obeys the rules and has the content of the public one.

In `responses` each event is also valid for the models of the `openai` SDK.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import pytest

from projector.contracts.stream_rules.table import check_lines
from projector.core.sse import DONE
from tests.corpus.recorded import STREAMS, each_stream, play
from tests.dialect_checks import checker_of
from tests.json_answers import assemble
from tests.sdk_models import faults_of

SAME: Final = {
    "message.delta": "response.output_text.delta",
    "refusal.delta": "response.refusal.delta",
    "reasoning_summary.delta": "response.reasoning_summary_text.delta",
}
"""Deltas of the public stream -> the same ones here."""


def test_the_corpus_is_there(corpus: Path) -> None:
    assert len(STREAMS) > 600, corpus


@pytest.mark.parametrize("dialect", ["openresponses", "responses"])
@each_stream
def test_the_stream_says_what_the_public_stream_says(path: Path, provider: str, dialect: str) -> None:
    lines = play(path, provider, dialect)
    assert check_lines(checker_of(dialect), lines) == []
    assert dialect == "openresponses" or faults_of(lines) == []
    public = [json.loads(line) for line in play(path, provider, "public_sse_v1")]
    events = [json.loads(line) for line in lines if line != DONE]
    joined = texts(events, "type")
    for kind, name in SAME.items():
        assert joined[name] == texts(public, "kind")[kind]
    assert calls_of(events) == calls_in(public)
    assert ended(assemble(lines, dialect).body) == ended_in(public, dialect)


def texts(events: list[dict[str, Any]], name: str) -> dict[str, list[tuple[str, str]]]:
    """Return the joined deltas: event type -> pairs of item id and text."""
    joined: dict[str, dict[str, str]] = defaultdict(lambda: defaultdict(str))
    for event in events:
        if "delta" in event:
            joined[event[name]][event["item_id"]] += event["delta"]
    return defaultdict(list, {kind: [*items.items()] for kind, items in joined.items()})


def calls_of(events: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    done = [event for event in events if event["type"] == "response.function_call_arguments.done"]
    items = {event["item"]["id"]: event["item"] for event in events if event["type"] == "response.output_item.done"}
    calls = [(items[event["item_id"]], event["arguments"]) for event in done]
    return [(item["call_id"], item["name"], arguments) for item, arguments in calls]


def calls_in(public: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    types = {frame["item_id"]: frame["item_type"] for frame in public if frame["kind"] == "output_item.added"}
    done = [frame for frame in public if frame["kind"] == "tool.arguments.done"]
    core = [frame for frame in done if types[frame["item_id"]] == "function_call"]
    return [(frame["tool_call_id"], frame["tool_name"], frame["arguments_text"]) for frame in core]


def ended(body: dict[str, Any]) -> tuple[str, int | None]:
    if "object" not in body:
        return body["error"]["code"], None
    return body["status"], (body["usage"] or {}).get("output_tokens")


STATUSES: Final[dict[str, dict[str, str]]] = {
    "openresponses": {"refused": "completed", "cancelled": "incomplete"},
    "responses": {"refused": "completed"},
}
"""Dialect -> status of `final` -> status of the response, if they differ."""


def ended_in(public: list[dict[str, Any]], dialect: str) -> tuple[str, int | None]:
    if public[-1]["kind"] == "error":
        return public[-1]["error"]["code"], None
    final = public[-1]["final"]
    if final["status"] == "failed" and dialect == "responses":  # the answer is an error
        reasons = [frame["reason"] for frame in public if frame["kind"] == "lifecycle" and "reason" in frame]
        return reasons[-1] if reasons else "provider_error", None
    status = STATUSES[dialect].get(final["status"], final["status"])
    return status, final["usage"].get("output_tokens", 0) if "usage" in final else None
