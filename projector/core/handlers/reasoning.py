"""Reasoning: summaries for the page, full text for dialects that may say it (seed section 9.5, CONTRACT D29, D36)."""

from __future__ import annotations

from collections.abc import Mapping

from projector.core import canonical as read
from projector.core import frames
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.parts import TextPart, aligned
from projector.core.state import StreamState
from projector.core.transcript import Item
from projector.core.truncation import split_delta
from projector.redaction.clean import Cleaned, CleanText


def on_summary_delta(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say what may be said of the delta now."""
    summary_index = read.index(event, "summary_index")
    delta = read.text(event, "delta")
    item, said = state.item_of(event, "reasoning")
    if state.policy.reasoning == "off":
        return said
    return said + _summary_deltas(item, summary_index, state.part(item.summaries, summary_index).feed(delta))


def on_summary_done(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say what the deltas did not."""
    summary_index = read.index(event, "summary_index")
    text = read.text(event, "text")
    item, said = state.item_of(event, "reasoning")
    return said + _complete_summary(state, item, summary_index, text)


def on_text_delta(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Give the full text to dialects that may say it; the page sees the item only (D29)."""
    content_index = read.index(event, "content_index")
    delta = read.text(event, "delta")
    item, said = state.item_of(event, "reasoning")
    if state.policy.reasoning != "full":
        return said
    return said + _text_deltas(item, content_index, state.part(item.reasoning, content_index).feed(delta))


def on_text_done(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Give what the deltas did not, then the whole text of the part."""
    content_index = read.index(event, "content_index")
    text = read.text(event, "text")
    item, said = state.item_of(event, "reasoning")
    return said + _complete_text(state, item, content_index, text)


def finish(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Say what arrives only in the finished item, once (D30)."""
    summaries, texts = _texts(raw, "summary"), _texts(raw, "content")
    said: list[Frame] = []
    for position, place in aligned(item.summaries, summaries).items():
        said += _complete_summary(state, item, place, summaries[position])
    for position, place in aligned(item.reasoning, texts).items():
        said += _complete_text(state, item, place, texts[position])
    encrypted = read.text_or_none(raw, "encrypted_content")
    if encrypted is not None and state.policy.encrypted_reasoning:
        said.append(frames.reasoning_encrypted(item.slot, item.item_id, state.whole(encrypted).value))
    return said


def flush(item: Item) -> list[Frame]:
    """Say what was held back, now that the item closes; an open full text is closed with what it has."""
    said: list[Frame] = []
    for position, part in item.summaries.items():
        said += _summary_deltas(item, position, part.close())
    for position, part in item.reasoning.items():
        said += _text_deltas(item, position, part.close())
        said += _text_done(item, position, part)
    return said


def _texts(raw: Mapping[str, object], key: str) -> dict[int, str]:
    parts = enumerate(read.mappings(raw, key))
    return {position: text for position, part in parts if type(text := part.get("text")) is str}


def _complete_summary(state: StreamState, item: Item, position: int, text: str) -> list[Frame]:
    if state.policy.reasoning == "off":
        return []
    return _summary_deltas(item, position, state.complete(state.part(item.summaries, position), text))


def _complete_text(state: StreamState, item: Item, position: int, text: str) -> list[Frame]:
    if state.policy.reasoning != "full":
        return []
    part = state.part(item.reasoning, position)
    return _text_deltas(item, position, state.complete(part, text)) + _text_done(item, position, part)


def _summary_deltas(item: Item, position: int, delta: Cleaned[CleanText]) -> list[Frame]:
    return [frames.reasoning_summary_delta(item.slot, item.item_id, position, piece) for piece in split_delta(delta)]


def _text_deltas(item: Item, position: int, delta: Cleaned[CleanText]) -> list[Frame]:
    return [frames.reasoning_delta(item.slot, item.item_id, position, piece) for piece in split_delta(delta)]


def _text_done(item: Item, position: int, part: TextPart) -> list[Frame]:
    if part.done:
        return []
    part.done = True
    return [frames.reasoning_done(item.slot, item.item_id, position, part.text)]
