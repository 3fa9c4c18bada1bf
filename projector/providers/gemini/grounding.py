"""Where an answer is from: positions in bytes become characters, and sources become annotations of a message.

Positions are bytes of UTF-8 in the text of one part of the whole answer. They are checked against the text that is
quoted with them; if they do not fit, that text is searched, else the citation has no position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from projector.core import canonical as read
from projector.core.canonical import Drops
from projector.providers.stage_parts import UNCITED, Annotation
from projector.redaction.clean import Gathered

Span: TypeAlias = tuple[int, int]
Metadata: TypeAlias = Mapping[str, object]

SEARCHES_MAX: Final = 64
"""Quoted texts of a response that are searched; each search reads the whole text."""
_BLOCK_BYTES: Final = 4096
_CONTINUATIONS: Final = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that begin no character."""
_CONTINUING: Final = frozenset(_CONTINUATIONS)


class Passage:
    """The text of one part of the answer, within its message."""

    def __init__(self, part: int, start: int) -> None:
        self.part = part
        """Number of the part in the answer."""
        self.start = start
        """Characters of the message before it."""
        self._text: Gathered[str] = Gathered()
        self._raw: bytes | None = None
        self._counts: list[int] = []
        """Characters before each block of bytes."""

    def add(self, text: str) -> None:
        """Add text."""
        self._text.add(text)
        self._raw = None

    def span(self, first: int, last: int, quoted: str) -> Span | None:
        """Return the characters of the message at a position in bytes; None if other text is there, or parts of one."""
        raw = self._encoded()
        is_there = 0 <= first < last <= len(raw) and not {raw[first], *raw[last : last + 1]} & _CONTINUING
        if not is_there or (quoted and raw[first:last] != quoted.encode("utf-8", "surrogatepass")):
            return None
        return self._chars(first), self._chars(last)

    def find(self, quoted: str) -> Span | None:
        """Return the characters of the message with a text."""
        raw = quoted.encode("utf-8", "surrogatepass")
        at = self._encoded().find(raw)
        return (self._chars(at), self._chars(at + len(raw))) if at >= 0 else None

    def _encoded(self) -> bytes:
        if self._raw is None:
            self._raw = self._text.text.encode("utf-8", "surrogatepass")
            self._counts = [0]
            for at in range(0, len(self._raw), _BLOCK_BYTES):
                self._counts.append(self._counts[-1] + _characters(self._raw[at : at + _BLOCK_BYTES]))
        return self._raw

    def _chars(self, position: int) -> int:
        block = position // _BLOCK_BYTES
        return self.start + self._counts[block] + _characters(self._encoded()[block * _BLOCK_BYTES : position])


def _characters(raw: bytes) -> int:
    return len(raw.translate(None, _CONTINUATIONS))


class Citations:
    """The citations of one response. Each is returned once, for the message that has its text."""

    def __init__(self, dropped: Drops) -> None:
        self._dropped = dropped
        self._searches = 0
        self._names: dict[str, dict[str, None]] = {"webSearchQueries": {}, "retrievalQueries": {}}
        """Queries, by their member of the grounding metadata."""
        self._sources: dict[str, Metadata] = {}
        """All sources, by their JSON."""
        self._chunks: list[Metadata] = []
        """The last list of sources, to which numbers refer."""
        self._supports: dict[str, tuple[Metadata, list[Metadata]]] = {}
        """What was grounded, with the list of its sources, by the JSON of both: metadata may come again."""
        self._given: list[Mapping[str, object]] = []
        """Citations with their own source."""
        self._cited = 0
        """Supports that are cited."""

    def note_grounding(self, metadata: Metadata) -> None:
        """Keep grounding metadata: usually all is in the last chunk, but each search may have its own, or it grows."""
        for name, known in self._names.items():
            known.update(dict.fromkeys(read.texts(metadata, name)))
        self._chunks = read.mappings(metadata, "groundingChunks") or self._chunks
        self._sources.update((read.json_text(chunk), chunk) for chunk in self._chunks)
        for support in read.mappings(metadata, "groundingSupports"):
            sources = [_at(self._chunks, index) for index in _indices(support)]
            self._supports.setdefault(read.json_text([support.get("segment"), sources]), (support, self._chunks))

    def note_sources(self, metadata: Metadata) -> None:
        """Keep `citationMetadata`, under either name of its list."""
        for name in ("citations", "citationSources"):
            self._given += read.mappings(metadata, name)

    def queries(self, name: str) -> list[str]:
        """Return what was searched: `webSearchQueries`, or `retrievalQueries` in files."""
        return [*self._names[name]]

    def sources(self, kind: str) -> list[Mapping[str, object]]:
        """Return the sources of a kind: `web`, `retrievedContext`, `maps`."""
        chunks = self._sources.values()
        return [read.mapping_or_empty(chunk, kind) for chunk in chunks if read.is_mapping(chunk.get(kind))]

    def of(self, passages: list[Passage], *, is_last: bool) -> list[Annotation]:
        """Return the annotations of a message; after the last one, the others are counted."""
        annotations: list[Annotation] = []
        supports = [*self._supports.values()]
        waiting = len(supports) - self._cited
        if passages:
            for support, chunks in supports[self._cited :]:
                annotations += self._of_support(support, chunks, passages)
            for source in self._given:
                annotations += self._of_source(source, passages)
            self._cited, waiting = len(supports), 0
            self._given.clear()
        if is_last and (uncited := waiting + len(self._given)):
            self._dropped.note(UNCITED, uncited)
        return annotations

    def _of_support(self, support: Metadata, chunks: list[Metadata], passages: list[Passage]) -> Iterator[Annotation]:
        segment = read.mapping_or_empty(support, "segment")
        span = self._span(segment, read.text_or_none(segment, "text") or "", passages)
        for index in _indices(support):
            annotation = annotation_of(_at(chunks, index), index, span)
            if annotation is None:
                self._dropped.note("citation of no source")
            else:
                yield annotation

    def _of_source(self, source: Metadata, passages: list[Passage]) -> Iterator[Annotation]:
        url = read.text_or_none(source, "uri")
        if url is None:
            self._dropped.note("citation of no source")
            return
        yield url_citation(url, read.text_or_none(source, "title"), self._span(source, "", passages))

    def _span(self, segment: Metadata, quoted: str, passages: list[Passage]) -> Span | None:
        """Return the position of a segment: where it says, in another part, or where its text is."""
        part = read.index_or_none(segment, "partIndex") or 0
        first, last = (read.index_or_none(segment, name) or 0 for name in ("startIndex", "endIndex"))
        ordered = sorted(passages, key=lambda passage: passage.part != part)
        spans = (passage.span(first, last, quoted) for passage in (ordered if quoted else ordered[:1]))
        found = next((span for span in spans if span is not None), None)
        if found is not None or not quoted or self._searches == SEARCHES_MAX:
            return found
        self._searches += 1
        return next((span for passage in ordered if (span := passage.find(quoted)) is not None), None)


def _indices(support: Metadata) -> list[Any]:
    indices = support.get("groundingChunkIndices")
    return indices if isinstance(indices, list) else []


def _at(chunks: list[Metadata], index: object) -> Metadata:
    return chunks[index] if type(index) is int and 0 <= index < len(chunks) else {}


def annotation_of(chunk: Metadata, number: int, span: Span | None) -> Annotation | None:
    """Return the annotation of a source; None if it has no known kind."""
    for kind in ("web", "maps", "image"):
        source = read.mapping_or_empty(chunk, kind)
        url = read.text_or_none(source, "uri") or read.text_or_none(source, "sourceUri")
        if url is not None:
            return url_citation(url, read.text_or_none(source, "title"), span)
    file = chunk.get("retrievedContext")
    return file_citation(number, read.text_or_none(file, "title"), span) if read.is_mapping(file) else None


def file_citation(number: int, name: str | None, span: Span | None) -> Annotation:
    """Return the annotation of a file, which has no ID in the API."""
    about: dict[str, object] = {"type": "file_citation", "file_id": f"document_{number}"}
    return {**about, **({"filename": name} if name else {}), **({"index": span[1]} if span is not None else {})}


def url_citation(url: str, title: str | None, span: Span | None) -> Annotation:
    """Return the annotation of a page."""
    place = {} if span is None else {"start_index": span[0], "end_index": span[1]}
    return {"type": "url_citation", "url": url, **({"title": title} if title else {}), **place}
