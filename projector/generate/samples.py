"""Samples of events, taken from the golden outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector._resources import resource
from projector.contracts import codec
from projector.generate.member_tables import ENVELOPE_MEMBERS

SAMPLES: Final[Mapping[str, str]] = {
    "lifecycle": "chat-incomplete",
    "output_item.added": "chat-web-search",
    "output_item.done": "chat-web-search",
    "message.delta": "chat-web-search",
    "message.citation": "chat-web-search",
    "reasoning_summary.delta": "chat-reasoning-summary",
    "refusal.delta": "chat-refusal",
    "refusal.done": "chat-refusal",
    "tool.status": "chat-web-search",
    "tool.arguments.delta": "chat-function-tool",
    "tool.arguments.done": "chat-function-tool",
    "tool.code.delta": "chat-code-interpreter",
    "tool.code.done": "chat-code-interpreter",
    "tool.output": "chat-weather-run",
    "chunk.delta": "chat-hosted-tools-in-detail",
    "chunk.done": "chat-hosted-tools-in-detail",
    "error": "chat-timeout",
    "final": "chat-web-search",
}
"""Kind -> the golden with its sample, which is the first event of the kind."""


def golden(case: str) -> list[dict[str, Any]]:
    """Return the events of a golden."""
    path = resource("examples_ndjson") / "public_sse_v1" / f"{case}.ndjson"
    return [codec.loads_exact(line) for line in path.read_text(encoding="utf-8").splitlines()]


def sample(kind: str, case: str | None = None) -> dict[str, Any]:
    """Return the first event of a kind, of a golden or of that of `SAMPLES`."""
    return next(event for event in golden(case or SAMPLES[kind]) if event["kind"] == kind)


def sample_block(kind: str, case: str | None = None) -> list[str]:
    """Return a sample as a code block, without the envelope except `notices`."""
    event = sample(kind, case)
    kept = {name: value for name, value in event.items() if name not in ENVELOPE_MEMBERS or name == "notices"}
    return ["```json", codec.dumps(kept).decode(), "```"]


def stream_block(case: str) -> list[str]:
    """Return a whole golden as it is sent."""
    return ["```", "\n\n".join(f"data: {codec.dumps(event).decode()}" for event in golden(case)), "```"]
