"""Message text, refusals and citations (seed contract, sections 9.3, 9.4, 9.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.contracts.limits import DELTA_MAX_CHARS
from projector.core import canonical as read
from projector.core import frames
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.parts import TextPart, aligned
from projector.core.state import StreamState
from projector.core.transcript import Item
from projector.core.truncation import split_delta
from projector.redaction.clean import Cleaned, CleanText

CITATION_POSITIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "url_citation": ("start_index", "end_index"),
    "file_citation": ("index",),
    "container_file_citation": ("start_index", "end_index"),
}
CITATION_IDS: Final[Mapping[str, tuple[str, ...]]] = {
    "url_citation": (),
    "file_citation": ("file_id",),
    "container_file_citation": ("container_id", "file_id"),
}
"""The allow-list of each citation type; `title`, `filename` and `url` are read where the type has them (D30)."""
CITATION_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "url_citation": ("title",),
    "file_citation": ("filename",),
    "container_file_citation": ("filename",),
}


def on_text_delta(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say what may be said of the delta now."""
    content_index = read.index(event, "content_index")
    delta = read.text(event, "delta")
    item, said = state.item_of(event, "message")
    clean = (item.texts.get(content_index) or state.part(item.texts, content_index)).feed(delta)
    if 0 < len(clean.value) <= DELTA_MAX_CHARS:  # the way of nearly every delta: nothing to split
        said.append(frames.message_delta(item.slot, item.item_id, content_index, clean))
        return said
    return said + [frames.message_delta(item.slot, item.item_id, content_index, part) for part in split_delta(clean)]


def on_text_done(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say what the deltas did not."""
    content_index = read.index(event, "content_index")
    text = read.text(event, "text")
    item, said = state.item_of(event, "message")
    return said + complete_text(state, item, content_index, text)


def on_refusal_delta(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say what may be said of the delta now."""
    content_index = read.index(event, "content_index")
    delta = read.text(event, "delta")
    if not delta:
        return []  # some providers send an empty refusal beside each text delta; it opens nothing
    item, said = state.item_of(event, "message")
    part = state.part(item.refusals, content_index)
    if part.done:
        raise read.UnreadableEvent("`response.refusal.delta`: its refusal is done")
    return said + _refusal_deltas(item, content_index, part.feed(delta))


def on_refusal_done(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say what the deltas did not, then the whole refusal."""
    content_index = read.index(event, "content_index")
    text = read.text(event, "refusal")
    item, said = state.item_of(event, "message")
    return said + complete_refusal(state, item, content_index, text)


def on_annotation(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Say a citation of a known type."""
    content_index = read.index(event, "content_index")
    annotation = read.mapping(event, "annotation")
    item, said = state.item_of(event, "message")
    return said + cite(state, item, content_index, annotation)


def complete_text(state: StreamState, item: Item, content_index: int, text: str) -> list[Frame]:
    """Say what was not yet said of a text that is now known as a whole."""
    rest = state.complete(state.part(item.texts, content_index), text)
    return [frames.message_delta(item.slot, item.item_id, content_index, piece) for piece in split_delta(rest)]


def complete_refusal(state: StreamState, item: Item, content_index: int, text: str) -> list[Frame]:
    """Say what was not yet said of a refusal that is now known as a whole, and its end, once."""
    part = state.part(item.refusals, content_index)
    if part.done or (not text and not part.text):
        return []
    said = _refusal_deltas(item, content_index, state.complete(part, text))
    part.done = True
    whole = Cleaned(part.text, part.notices)
    return [*said, frames.refusal_done(item.slot, item.item_id, content_index, whole)]


def finish(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Say what arrives only in the finished message, once (D30)."""
    parts = dict(enumerate(read.mappings(raw, "content")))
    texts = {
        at: text for at, part in parts.items() if type(text := part.get("text")) is str and _is(part, "output_text")
    }
    refusals = {
        at: text for at, part in parts.items() if type(text := part.get("refusal")) is str and _is(part, "refusal")
    }
    said: list[Frame] = []
    places = aligned(item.texts, texts)
    for position, text in texts.items():
        said += complete_text(state, item, places[position], text)
        for annotation in read.mappings(parts[position], "annotations"):
            said += cite(state, item, places[position], annotation)
    for position, content_index in aligned(item.refusals, refusals).items():
        said += complete_refusal(state, item, content_index, refusals[position])
    return said


def flush(item: Item) -> list[Frame]:
    """Say what was held back of texts and refusals, now that the item closes."""
    said: list[Frame] = []
    for content_index, part in item.texts.items():
        said += [frames.message_delta(item.slot, item.item_id, content_index, p) for p in split_delta(part.close())]
    for content_index, part in item.refusals.items():
        if not part.done:
            said += _refusal_deltas(item, content_index, part.close())
    return said


def cite(state: StreamState, item: Item, content_index: int, annotation: Mapping[str, object]) -> list[Frame]:
    """Say a citation with what it has, once; an unknown type is counted."""
    kind = annotation.get("type")
    if type(kind) is not str or kind not in CITATION_POSITIONS:
        state.count(f"annotation:{kind if type(kind) is str else '(no type)'}")
        return []
    plain: dict[str, object] = {"type": kind}
    for name in CITATION_POSITIONS[kind]:
        if (position := read.index_or_none(annotation, name)) is not None:
            plain[name] = position
    for name in CITATION_IDS[kind]:
        if (identifier := read.text_or_none(annotation, name)) is not None:
            plain[name] = state.redactor.identifier(identifier)
    lossy = _citation_texts(state, kind, annotation)
    key = (content_index, *plain.items(), *((name, text.value) for name, text in lossy.items()))
    if key in item.cited:
        return []
    item.cited.add(key)
    if (url := lossy.get("url")) is not None and not url.notices:
        state.response.cited_urls[url.value] = None
    plain |= _places(item.texts.get(content_index), kind, plain)
    return [frames.message_citation(item.slot, item.item_id, content_index, plain, lossy)]


def _places(text: TextPart | None, kind: str, positions: Mapping[str, object]) -> dict[str, int]:
    """Give a citation's positions in the text as it was said, where registered values may be withheld."""
    if text is None:
        return {}
    return {
        name: text.place(position, is_end=name == "end_index")
        for name in CITATION_POSITIONS[kind]
        if type(position := positions.get(name)) is int
    }


def _is(part: Mapping[str, object], kind: str) -> bool:
    return part.get("type") == kind


def _citation_texts(state: StreamState, kind: str, annotation: Mapping[str, object]) -> dict[str, Cleaned[CleanText]]:
    texts: dict[str, Cleaned[CleanText]] = {}
    for name in CITATION_NAMES[kind]:
        if (text := read.text_or_none(annotation, name)) is not None:
            texts[name] = state.redactor.label(text, state.policy.limits.title_max_chars)
    if kind == "url_citation" and (url := read.text_or_none(annotation, "url")) is not None:
        texts["url"] = state.redactor.url(url)
    return texts


def _refusal_deltas(item: Item, content_index: int, delta: Cleaned[CleanText]) -> list[Frame]:
    return [frames.refusal_delta(item.slot, item.item_id, content_index, piece) for piece in split_delta(delta)]
