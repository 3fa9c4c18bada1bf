"""The content of a string, decoded: plain text, or a document in it (CONTRACT D25).

A text whose first character, blanks aside, is `{`, `[` or `"` may be JSON, and is cleaned as such while it is. Several
documents may follow each other (JSON lines). Where it stops being JSON the rest is plain text, unless it stops inside
something that is withheld: then the rest is withheld with it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, Protocol

from projector.redaction.detector import Detector
from projector.redaction.filters import ContentSieve, Step, ValueSieve, plain_sieve
from projector.redaction.grammar import BLANKS

_MAX_LEVELS: Final = 3
"""Documents in strings of documents; what is deeper is plain text."""
_CONTEXT_CHARS: Final = 512
"""How much of a document plain text behind it is read with: `"password"` may be all that was JSON of a fragment."""
_KEPT_CHARS: Final = _CONTEXT_CHARS + 16  # what a document may still hold of an escape is not context
OPENERS: Final = frozenset('{["')
"""How a text begins that may be JSON."""


class Document(ContentSieve, Protocol):
    """What is read as JSON, piece by piece: `projector.redaction.documents.JsonSieve`."""

    failed: bool
    rest: str

    @property
    def complete(self) -> bool:
        """Whether one whole value was read."""
        ...


class _Mode(Enum):
    """How the text is read."""

    BLANK = auto()
    PLAIN = auto()
    DOCUMENT = auto()
    SEALED = auto()


class StringSieve:
    """Withholds registered values, credentials, and the values of sensitive keys of a document in the text."""

    def __init__(self, detector: Detector, level: int, document: Callable[[Detector, int], Document]) -> None:
        self._detector = detector
        self._level = level
        self._new_document = document
        self._mode = _Mode.BLANK
        self._plain = plain_sieve(detector)
        self._document: Document | None = None
        self._guard = ValueSieve(detector.crossing) if detector.crossing else None
        self._guarded = ""
        self._recent = ""

    def seal(self, rest: str, /) -> str | None:
        """Give what stands for all that follows, if the text breaks off before `rest`; None when that may be said."""
        return "" if self._mode is _Mode.SEALED else (self._document or self._plain).seal(rest)

    @property
    def settled(self) -> ContentSieve | None:
        """The sieve that does all that is left to do, once that is known."""
        return self._plain if self._mode is _Mode.PLAIN else None

    def feed(self, text: str, /) -> list[Step]:
        """Take a piece; give the steps that are certain now."""
        if self._mode is _Mode.PLAIN:
            return self._plain.feed(text)
        if self._mode is _Mode.DOCUMENT:
            return self._guarded_document(text)
        if self._mode is _Mode.SEALED:
            return [(len(text), "")]
        return self._begin(text)

    def end(self) -> list[Step]:
        """Take the end of the text; give the steps over what was held."""
        steps = self._pass_on(self._guard.end(), "") if self._guard is not None and self._document is not None else []
        return steps + (self._document or self._plain).end()

    def _begin(self, text: str) -> list[Step]:
        blanks = BLANKS.match(text)
        start = blanks.end() if blanks else 0
        if start == len(text):
            return self._plain.feed(text)
        if text[start] not in OPENERS or self._level > _MAX_LEVELS:
            self._mode = _Mode.PLAIN
            return self._plain.feed(text)
        self._mode = _Mode.DOCUMENT
        self._document = self._new_document(self._detector, self._level)
        return self._plain.feed(text[:start]) + self._plain.end() + self._guarded_document(text[start:])

    def _guarded_document(self, text: str) -> list[Step]:
        """Look for values that JSON's syntax may cut in two before the text is read as JSON."""
        return self._in_document(text) if self._guard is None else self._pass_on(self._guard.feed(text), text)

    def _pass_on(self, found: list[Step], text: str) -> list[Step]:
        text = self._guarded + text
        steps: list[Step] = []
        at = 0
        for count, mark in found:
            if self._document is None:
                break
            if mark is None:
                steps += self._in_document(text[at : at + count])
            else:
                steps += [*self._document.end(), (count, mark)]
                self._document, self._mode = None, _Mode.SEALED
            at += count
        self._guarded = text[at:] if self._document is not None else ""
        return steps if self._document is not None else steps + (self.feed(text[at:]) if at < len(text) else [])

    def _in_document(self, text: str) -> list[Step]:
        steps: list[Step] = []
        self._recent = self._recent[-_KEPT_CHARS:] + text
        while self._document is not None:
            steps += self._document.feed(text)
            if not self._document.failed:
                break
            text = self._document.rest
            if self._document.complete and text[0] in OPENERS:
                self._document = self._new_document(self._detector, self._level)
                continue
            seal = self._document.seal(text)
            self._document = None
            if seal is None:
                self._mode = _Mode.PLAIN
                self._plain.follow(self._recent[: len(self._recent) - len(text)][-_CONTEXT_CHARS:])
                steps += self._plain.feed(text)
            else:
                self._mode = _Mode.SEALED
                steps.append((len(text), seal))
        return steps
