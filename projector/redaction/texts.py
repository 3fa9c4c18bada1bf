"""Whole texts: cleaned, and cut to their limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from projector.contracts import codec
from projector.redaction.clean import REDACTED_HERE, TRUNCATED_HERE, Cleaned, CleanText
from projector.redaction.detector import Detector
from projector.redaction.documents import JsonSieve
from projector.redaction.filters import Said, whole
from projector.redaction.grammar import BLANKS
from projector.redaction.strings import OPENERS, StringSieve

PIECE_CHARS: Final = 4_096
"""Text is read in pieces, so that a step that looks at its rest again costs a bounded time."""

MARK: Final = re.compile(r"<redacted>|\[REDACTED:[A-Za-z0-9._-]{1,64}\]")
_MARK_MAX_CHARS: Final = 80
_AT_ONCE_MAX_CHARS: Final = 32_768
"""A longer text is read only as far as it will be said, not searched as a whole first."""


def in_pieces(text: str) -> Iterator[str]:
    """Give the text in pieces of at most `PIECE_CHARS`."""
    for start in range(0, len(text), PIECE_CHARS):
        yield text[start : start + PIECE_CHARS]


def string_sieve(detector: Detector) -> StringSieve:
    """Give the sieve for a text that may hold JSON: an output, code, a query."""
    return StringSieve(detector, 1, JsonSieve)


def clean(detector: Detector, text: str, max_chars: int | None = None) -> Cleaned[CleanText]:
    """Give a text without credentials, registered values and sensitive values of JSON that it holds, cut to a limit."""
    text = codec.scrub(text)
    if _is_clean(detector, text):
        return bound(text, max_chars)
    sieve, said = string_sieve(detector), Said()
    parts: list[str] = []
    count = 0
    for piece in in_pieces(text):
        parts.append(said.take(sieve.feed(piece), piece))
        count += len(parts[-1])
        if max_chars is not None and count > max_chars:
            break
    else:
        parts.append(said.take(sieve.end(), ""))
    bounded = bound("".join(parts), max_chars)
    shows_mark = said.marked and MARK.search(bounded.value) is not None
    return Cleaned(bounded.value, REDACTED_HERE + bounded.notices) if shows_mark else bounded


def clean_key(detector: Detector, text: str, max_chars: int) -> Cleaned[CleanText]:
    """Give the key of an object; it is searched as text is, but never read as JSON."""
    text = codec.scrub(text)
    said = whole(detector, text)
    key = bound(said, max_chars)
    return key if said == text else Cleaned(key.value, REDACTED_HERE + key.notices)


def bound(text: str, max_chars: int | None) -> Cleaned[CleanText]:
    """Give clean text, cut to a limit, with a notice where it is cut."""
    if max_chars is None or len(text) <= max_chars:
        return Cleaned(CleanText(text))
    return Cleaned(CleanText(cut(text, max_chars)), TRUNCATED_HERE)


def cut(text: str, max_chars: int) -> str:
    """Give at most `max_chars` of clean text, and no part of a mark."""
    if len(text) <= max_chars:
        return text
    for mark in MARK.finditer(text, max(0, max_chars - _MARK_MAX_CHARS), max_chars + _MARK_MAX_CHARS):
        if mark.start() < max_chars < mark.end():
            return text[: mark.start()]
    return text[: max(0, max_chars)]


def _is_clean(detector: Detector, text: str) -> bool:
    """Say whether one search of the whole shows that nothing is withheld."""
    blanks = BLANKS.match(text)
    first = text[blanks.end() : blanks.end() + 1] if blanks else ""
    return len(text) <= _AT_ONCE_MAX_CHARS and first not in OPENERS and detector.passes(text)
