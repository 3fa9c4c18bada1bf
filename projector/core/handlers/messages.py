"""Texts of the model: messages, refusals, citations, reasoning (seed contract, sections 9.3 to 9.6; D29, D36)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple

from projector.contracts.limits import NAME_MAX_CHARS
from projector.core import canonical as read
from projector.core import frames
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.growing_text import TextPart, align_positions
from projector.core.handlers.text_channels import OpenText, TextChannel, is_plain_delta
from projector.core.state import StreamState
from projector.core.transcript import Item
from projector.redaction import compose


def _joined(name: str) -> Callable[[StreamState, Item], TextPart]:
    """Return a function that creates one of the texts of a stream that clients join."""
    return lambda state, _item: TextPart(partial(state.redactor.message_stream, state.run.joint(name)))


def _new_text(state: StreamState, item: Item) -> TextPart:
    """Return an empty text, a part of its message; that of a structured output is searched as JSON."""
    if state.response.wants_structure:
        return TextPart(state.redactor.structured_stream, is_costly=True)
    return TextPart(partial(state.redactor.message_stream, state.run.joint("message"), item.item_id))


TEXT: Final = TextChannel(
    item_type="message", parts=attrgetter("texts"), delta=frames.message_delta, new_part=_new_text
)
REFUSAL: Final = TextChannel(
    item_type="message",
    parts=attrgetter("refusals"),
    delta=frames.refusal_delta,
    done=frames.refusal_done,
    member="refusal",
    new_part=_joined("refusal"),
    skips_empty=True,  # some providers send an empty refusal with each text delta
)

SUMMARY: Final = TextChannel(
    item_type="reasoning",
    parts=attrgetter("summaries"),
    delta=frames.reasoning_summary_delta,
    new_part=_joined("summary"),
    index="summary_index",
    levels=frozenset({"summary", "full"}),
    is_in_turn=True,
)
REASONING: Final = TextChannel(
    item_type="reasoning",
    parts=attrgetter("reasoning"),
    delta=frames.reasoning_delta,
    new_part=_joined("reasoning"),
    done=frames.reasoning_done,
    levels=frozenset({"full"}),
    is_done_on_close=True,
    is_in_turn=True,
)


class Citation(NamedTuple):
    """The members that are read of a citation type (D30)."""

    positions: tuple[str, ...]
    name: str | None
    """Title or file name."""
    ids: tuple[str, ...] = ()
    url: str | None = None
    build: Callable[..., Frame] = frames.message_citation


CITATIONS: Final[Mapping[str, Citation]] = {
    "url_citation": Citation(("start_index", "end_index"), "title", url="url"),
    "file_citation": Citation(("index",), "filename", ("file_id",)),
    "container_file_citation": Citation(("start_index", "end_index"), "filename", ("container_id", "file_id")),
    "file_path": Citation(("index",), None, ("file_id",), build=frames.file_path),
}


def open_text(state: StreamState, event: CanonicalEvent, output: list[Frame]) -> OpenText | None:
    """Return the text of a delta that was handled, if the next one can be handled by repeating its frame."""
    content_index = event.get("content_index")
    item = state.known_item(event, "message")
    if item is None or type(content_index) is not int or not is_plain_delta(output):
        return None
    part = item.texts.get(content_index)
    if part is None or part.is_complete:
        return None
    return OpenText(event, part, output[0], partial(TEXT.emit_delta, item, content_index))


def on_annotation(state: StreamState, event: CanonicalEvent) -> list[Frame]:
    """Emit a citation of a known type."""
    content_index = read.index(event, "content_index")
    annotation = read.mapping(event, "annotation")
    item, output = state.item_of(event, "message")
    return output + cite(state, item, content_index, annotation)


def finish(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Emit texts, citations and refusals that come only with the finished message, once (D30)."""
    parts = read.mappings(raw, "content")
    texts = _texts(parts, "text", "output_text")
    output: list[Frame] = []
    positions = align_positions(item.texts, texts)
    for position, text in texts.items():
        output += TEXT.complete(state, item, positions[position], text)
        for annotation in read.mappings(parts[position], "annotations"):
            output += cite(state, item, positions[position], annotation)
    if len(texts) < len(parts):
        output += REFUSAL.finish(state, item, _texts(parts, "refusal", "refusal"))
    return output


def finish_reasoning(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Emit summaries and texts that come only with the finished item, once (D30)."""
    summaries, texts = _texts(read.mappings(raw, "summary"), "text"), _texts(read.mappings(raw, "content"), "text")
    return SUMMARY.finish(state, item, summaries) + REASONING.finish(state, item, texts)


def encrypted_reasoning(state: StreamState, item: Item, raw: Mapping[str, object]) -> list[Frame]:
    """Emit the encrypted content of a finished item of reasoning, if the policy shows it."""
    encrypted = read.text_or_none(raw, "encrypted_content")
    if encrypted is None or not state.policy.encrypted_reasoning:
        return []
    stream = state.redactor.value_stream()  # no text: base64 is like anything now and then
    cleaned = compose.joined(stream.feed(encrypted), stream.close())
    return [frames.reasoning_encrypted(item.place, cleaned.value)]


def cite(state: StreamState, item: Item, content_index: int, annotation: Mapping[str, object]) -> list[Frame]:
    """Emit a citation once; an unknown type is counted."""
    kind = annotation.get("type")
    row = CITATIONS.get(kind) if type(kind) is str else None
    if row is None:
        state.count(f"annotation:{read.type_name(kind)}")
        return []
    positions = {name: at for name in row.positions if (at := read.index_or_none(annotation, name)) is not None}
    ids = {name: text for name in row.ids if (text := read.text_or_none(annotation, name)) is not None}
    plain = {"type": kind, **positions, **{name: state.redactor.identifier(text) for name, text in ids.items()}}
    lossy = {}
    if row.name is not None and (text := read.text_or_none(annotation, row.name)) is not None:
        most = state.policy.limits.title_max_chars if row.name == "title" else NAME_MAX_CHARS
        lossy[row.name] = state.redactor.shown_text(state.redactor.label(text, most))
    if row.url is not None and (text := read.text_or_none(annotation, row.url)) is not None:
        lossy[row.url] = state.redactor.shown_text(state.redactor.url(text))
    key = (content_index, *plain.items(), *((name, text.value) for name, text in lossy.items()))
    if key in item.cited:
        return []
    item.cited.add(key)
    if (url := lossy.get("url")) is not None and not url.notices:
        state.response.cited_urls[url.value] = None
    part = item.texts.get(content_index)
    if part is not None:  # positions in the emitted text, where registered values may be redacted
        plain |= {name: part.position(at, is_end=name == "end_index") for name, at in positions.items()}
    return [row.build(item.place, content_index, plain, lossy)]


def _texts(parts: Sequence[Mapping[str, object]], member: str, kind: str | None = None) -> dict[int, str]:
    """Return the texts of the content parts of one type, or of all, by position."""
    return {
        position: text
        for position, part in enumerate(parts)
        if type(text := part.get(member)) is str and (kind is None or part.get("type") == kind)
    }
