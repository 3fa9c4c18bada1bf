"""Reasoning: summaries, and the full text for dialects that support it (seed section 9.5, CONTRACT D29, D36)."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Final

from projector.core import canonical as read
from projector.core import frames
from projector.core.canonical import Frame
from projector.core.handlers.text_channels import TextChannel
from projector.core.state import StreamState
from projector.core.transcript import Item
from projector.redaction import compose

SUMMARY: Final = TextChannel(
    "reasoning",
    attrgetter("summaries"),
    delta=frames.reasoning_summary_delta,
    index="summary_index",
    levels=frozenset({"summary", "full"}),
)
FULL_TEXT: Final = TextChannel(
    "reasoning",
    attrgetter("reasoning"),
    delta=frames.reasoning_delta,
    done=frames.reasoning_done,
    levels=frozenset({"full"}),
    is_done_on_close=True,
)


def finish(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Emit summaries and texts that come only with the finished item, once (D30)."""
    output = SUMMARY.finish(state, item, _texts(raw, "summary")) + FULL_TEXT.finish(state, item, _texts(raw, "content"))
    encrypted = read.text_or_none(raw, "encrypted_content")
    if encrypted is not None and state.policy.encrypted_reasoning:
        stream = state.redactor.message_stream()
        cleaned = compose.joined(stream.feed(encrypted), stream.close())
        output.append(frames.reasoning_encrypted(item.slot, item.item_id, cleaned.value))
    return output


def flush(item: Item) -> list[Frame]:
    """Emit what was held back, when the item closes; an open full text ends with what it has."""
    output = SUMMARY.flush(item) if item.summaries else []
    return output + FULL_TEXT.flush(item) if item.reasoning else output


def _texts(raw: Mapping[str, object], key: str) -> dict[int, str]:
    parts = enumerate(read.mappings(raw, key))
    return {position: text for position, part in parts if type(text := part.get("text")) is str}
