r"""The pattern language of credential formats.

The language is a small subset of Python's regular expressions, so that a text can be cut anywhere. A pattern is a
sequence of pieces: a literal, an escaped literal, a class or `WORD`, with `?`, `{n}` or `{m,n}`; `|` separates whole
patterns. A class matches greedily without backtracking, so it must not match characters that the next piece needs.
`WORD` is any sensitive word, in any case, with `-`, `_`, `.` or a blank between its letters.

`projector.redaction.pattern_tries` writes many patterns as one expression, and `projector.redaction.format_search`
searches for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

WORD: Final = "WORD"
"""In an anchor: any sensitive word of the policy (`projector.redaction.rules`)."""

NEVER: Final = 1 << 30
"""Value of `open_chars` with which an unfinished credential is shown."""

PREFIX_CHARS: Final = 5
"""Length of the prefixes in the scan; `rule_files` rejects shorter formats."""

CONTEXT_CHARS: Final = 16
"""Length of the longest escape behind which a word begins."""

_PIECE: Final = re.compile(
    r"(?P<atom>WORD|\\[^0-9A-Za-z]|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\]{}|?()*+^$.])"
    r"(?:\{(?P<least>\d+)(?:,(?P<most>\d+))?\}|(?P<maybe>\?))?"
)
_ALTERNATIVE: Final = re.compile(r"(?:\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|[^|])+")


class Piece(NamedTuple):
    """One step of a pattern: an atom of Python's syntax, and how often it is repeated."""

    atom: str
    least: int = 1
    most: int = 1


def alternatives(pattern: str) -> list[str]:
    """Split a pattern at its top-level `|`."""
    return _ALTERNATIVE.findall(pattern)


def pieces(pattern: str, *, ignore_case: bool = False) -> list[Piece]:
    """Parse one pattern without `|`; raise `ValueError` if it is not in the language."""
    found: list[Piece] = []
    at = 0
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is None:
            raise ValueError(f"pattern: expected a literal, a class or a count at {at}")
        at = piece.end()
        atom, least, most, maybe = piece.groups()
        fewest = 0 if maybe else int(least or 1)
        found.append(_piece(atom, fewest, int(most or max(fewest, 1)), ignore_case))
    return found


def shortest_length(pattern: str, *, literal_only: bool = False) -> int:
    """Return how many characters a text of one alternative has at least; with `literal_only` without its classes."""
    return sum(piece.least for piece in pieces(pattern) if not literal_only or piece.atom[0] != "[")


def last_class(pattern: str) -> str:
    """Return the last class of the first alternative, "" if it has none: the default `tail` of a format."""
    return next((one.atom for one in reversed(pieces(alternatives(pattern)[0])) if one.atom[0] == "["), "")


def optional_ends(pattern: str) -> Iterator[Piece]:
    """Yield the pieces of which a text may have more behind the shortest form of an alternative."""
    for way in alternatives(pattern):
        for piece in reversed(pieces(way)):
            if piece.most > piece.least:
                yield piece
            if piece.least:
                break


def characters(atom: str, below: int = 0x250) -> frozenset[str]:
    """Return the characters that an atom matches, of those below a code point."""
    return frozenset(re.findall(atom, "".join(map(chr, range(below)))))


def first_fault(pattern: str) -> int | None:
    """Return the index of the first piece that is not in the language, None if all are."""
    at = 0
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is not None and _is_expression(piece["atom"]) and _is_count(piece["least"], piece["most"]):
            at = piece.end()
        elif pattern[at] == "|":
            at += 1
        else:
            return at
    return None


def _is_count(least: str | None, most: str | None) -> bool:
    return least is None or 0 < int(most or least) >= int(least)


def _is_expression(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


@lru_cache(maxsize=4_096)
def _piece(text: str, least: int, most: int, ignore_case: bool) -> Piece:  # noqa: FBT001 - the key of the cache
    """Return a step. Formats have 25,000 of a few hundred different ones, which would take three megabytes."""
    return Piece(_atom(text, ignore_case=ignore_case), least, most)


def _atom(text: str, *, ignore_case: bool) -> str:
    if text[0] in "[\\" or text == WORD:
        return text
    return any_case(text) if ignore_case else re.escape(text)


def any_case(char: str) -> str:
    """Return the expression for a character in any case."""
    lower, upper = char.lower(), char.upper()
    return re.escape(char) if lower == upper else f"[{upper}{lower}]"
