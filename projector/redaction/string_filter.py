"""Streaming filter of a decoded string: plain text, or JSON in it.

A string is read in one of four modes, and the first character after blanks decides:

    BLANK       only blanks so far
    PLAIN       any other first character: plain text to the end (`plain_filter`)
    DOCUMENT    `{`, `[` or `"`: the decoded text is read by an inner filter of documents
    WITHHELD    the document broke off inside a value that is withheld, so the rest is withheld too

Documents may follow each other (JSON lines). After a syntax error outside a withheld value the mode is PLAIN, and the
end of the document is context of the search: `{"password": hunter2` is no JSON, but its value is withheld.

A string in an array may also continue what the string before it left (`Carry`): a key, a private key in lines, or a
credential that was cut.

A registered value that contains JSON syntax would be torn apart by the grammar. So a document is searched for these
values before it is parsed, and what follows one of them is withheld.

Most strings are plain from their first character and never need this filter: `JsonStreamFilter` gives them a plain
filter at once. `settled` lets it replace this one as soon as the text is known to be plain.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, Protocol, TypeAlias

from projector.redaction import json_grammar as grammar
from projector.redaction.content_filter import Carry, ContentFilter, Filter
from projector.redaction.detector import Detector
from projector.redaction.filters import ValueFilter, plain_filter
from projector.redaction.steps import Step

OPENERS: Final = frozenset('{["')
"""First characters of a text that may be JSON."""
MAY_BE_JSON: Final = frozenset(" \t\n\r") | OPENERS
"""First characters of a string that needs this filter."""

_MAX_LEVELS: Final = 6
"""Maximum levels of JSON inside strings; deeper JSON is read as plain text."""
_CONTEXT_CHARS: Final = 512
"""Trailing characters of a document that are searched with the plain text after it, as in `"password": hunter2`."""
_WRITTEN_CHARS: Final = 4 * _CONTEXT_CHARS
"""Characters of a document that are kept before they are cut, because to cut them after each fragment costs more."""
_KEPT_CHARS: Final = _CONTEXT_CHARS + 16  # an unfinished escape is not context


class Document(Filter, Protocol):
    """The filter of a JSON document, as `JsonStreamFilter` is. The modules import each other in one direction only."""

    @property
    def failed(self) -> bool:
        """Whether the text is not JSON from here on; `rest` is the unread text."""
        ...

    @property
    def rest(self) -> str:
        """The text after the syntax error."""
        ...

    @property
    def complete(self) -> bool:
        """Whether one whole value was read."""
        ...

    def mark_of_rest(self, rest: str, /) -> str | None:
        """Return the mark in place of the remaining text if reading stops there; None if it may be plain text."""
        ...


NewDocument: TypeAlias = Callable[[Detector, int], Document]
"""Creates the filter of a document from the policy and the number of strings around it."""


class _Mode(Enum):
    BLANK = auto()
    PLAIN = auto()
    DOCUMENT = auto()
    WITHHELD = auto()


class StringFilter:
    """The filter of a decoded string: plain text, or a document in it.

    Args:
        detector: the policy.
        new_document: creates the filter of a document.
        level: number of strings that contain each other, this one included; beyond the limit it is plain text.
        after: what the string before it left, if both are in one array.
    """

    def __init__(
        self, detector: Detector, new_document: NewDocument, level: int = 0, after: Carry | None = None
    ) -> None:
        self._detector = detector
        self._new_document = new_document
        self._level = level
        self._after = after
        self._mode = _Mode.BLANK
        self._plain = plain_filter(detector)
        self._document: Document | None = None
        self._guard = ValueFilter(detector.crossing) if detector.crossing else None
        self._guarded = ""
        self._recent = ""
        self._blanks = ""  # at the beginning of a string behind another one
        self._written: list[str] = []  # the end of a document, which may be a piece of a text that was cut
        self._written_chars = 0

    def mark_of_rest(self, rest: str, /) -> str | None:
        """Return the mark in place of the remaining text if the string ends before `rest`; None if it may be shown."""
        return "" if self._mode is _Mode.WITHHELD else (self._document or self._plain).mark_of_rest(rest)

    def carry(self) -> Carry:
        """Return what the string leaves to the next string of its list, after `end`."""
        if self._mode in (_Mode.BLANK, _Mode.PLAIN):
            return self._plain.carry()
        if self._document is not None and self._document.complete:
            return Carry()
        plain = plain_filter(self._detector)
        plain.feed("".join(self._written)[-_CONTEXT_CHARS:])
        return Carry(text=plain.undecided, lines=plain.undecided)  # nothing is known about its end

    @property
    def settled(self) -> ContentFilter | None:
        """Filter that can replace this one once the text is known to be plain."""
        return self._plain if self._mode is _Mode.PLAIN else None

    def quick(self, text: str, /) -> int:
        """Read a piece that needs no steps (`Filter.quick`)."""
        return self._plain.quick(text) if self._mode is _Mode.PLAIN else -1

    def feed(self, text: str, /) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""
        if self._mode is _Mode.PLAIN:
            return self._plain.feed(text)
        if self._mode is _Mode.DOCUMENT:
            return self._guarded_document(text)
        if self._mode is _Mode.WITHHELD:
            return [(len(text), "")]
        return self._begin(text)

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the text."""
        if self._blanks:
            return [(len(self._blanks), None)]
        steps = self._read_rest(self._guard.end(), "") if self._guard is not None and self._document is not None else []
        return steps + (self._document or self._plain).end()

    def _begin(self, text: str) -> list[Step]:
        text, self._blanks = self._blanks + text, ""
        blanks = grammar.BLANKS.match(text)
        start = blanks.end() if blanks else 0
        if start == len(text):
            if self._after is None:
                return self._plain.feed(text)
            if not self._after.takes_all and len(text) <= _CONTEXT_CHARS:
                self._blanks = text  # what follows decides how the string is read
                return []
        is_document = text[start : start + 1] in OPENERS and self._level <= _MAX_LEVELS
        if self._after is not None and (not is_document or self._after.takes_all):
            self._plain.begin_after(self._after)
            is_document = False
        if not is_document:
            self._mode = _Mode.PLAIN
            return self._plain.feed(text)
        self._mode = _Mode.DOCUMENT
        self._document = self._new_document(self._detector, self._level)
        return self._plain.feed(text[:start]) + self._plain.end() + self._guarded_document(text[start:])

    def _guarded_document(self, text: str) -> list[Step]:
        """Search for registered values that contain JSON syntax before the text is parsed as JSON."""
        self._written.append(text)
        self._written_chars += len(text)
        if self._written_chars > _WRITTEN_CHARS:
            self._written = ["".join(self._written)[-_CONTEXT_CHARS:]]
            self._written_chars = len(self._written[0])
        return self._in_document(text) if self._guard is None else self._read_rest(self._guard.feed(text), text)

    def _read_rest(self, found: list[Step], text: str) -> list[Step]:
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
                self._document, self._mode = None, _Mode.WITHHELD
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
            mark = self._document.mark_of_rest(text)
            self._document = None
            if mark is None:
                self._mode = _Mode.PLAIN
                self._plain.continue_after(self._recent[: len(self._recent) - len(text)][-_CONTEXT_CHARS:])
                steps += self._plain.feed(text)
            else:
                self._mode = _Mode.WITHHELD
                steps.append((len(text), mark))
        return steps
