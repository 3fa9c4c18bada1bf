r"""The search for classes of personal data in text that may continue.

A class is data: `begins` in the pattern language, then a `run` of one class of characters, `least` to `most` in all,
and a check (`text_checks`) that finds the value in this candidate, and what belongs to it behind that. Two expressions
are made of each:

    near    the candidate, or the end of the text inside it: what could still become a value
    whole   the same without the end of the text, for classes without a check

One expression with the candidates of all classes finds the first position where a value may begin. All text before it
is shown at once. A candidate is decided when its run has ended; until then it is held, and no character before it.
Classes match without backtracking and a candidate is at most `most` characters long, so a search is linear.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from projector.redaction import patterns
from projector.redaction.rules import TextClass
from projector.redaction.text_checks import CHECKS, EXTENSIONS

FENCE: Final = TextClass("fence", "", "", "```|~~~", run="[0-9A-Za-z_+#-]", least=3, most=32, before="`|~")
"""The beginning or end of fenced code in Markdown."""
ASSIGNED: Final = TextClass(
    "credentials", "", "", r"[0-9A-Za-z_!@#$%^&*+~/.-]", run="[0-9A-Za-z_!@#$%^&*+~/.-]", least=10, most=256,
    before="[0-9A-Za-z_!@#$%^&*+~/.-]",
)  # fmt: skip
"""A word in code that may be the value of a sensitive word."""
_WORD: Final = "[0-9A-Za-z]|[0-9A-Za-z]_|[0-9A-Za-z]__"
"""The end of a word before a value. Markdown emphasises with one or two `_`."""
_WORD_CHAR: Final = re.compile("[0-9A-Za-z]")
_REST_OF_WORD: Final = re.compile("_{0,2}[0-9A-Za-z]|___")
_EMPHASIS: Final = re.compile(r"_{1,2}\Z")
_DIGITS: Final = "0123456789"


class Candidate(NamedTuple):
    """A value of a class, or text that may become one (`row` is None)."""

    start: int
    end: int
    row: TextClass | None


class _Row(NamedTuple):
    row: TextClass
    near: re.Pattern[str]
    whole: re.Pattern[str]


class TextSearch:
    """The search for some classes at once."""

    def __init__(self, rows: Sequence[TextClass]) -> None:
        self._rows = [_Row(row, re.compile(_near(row)), re.compile(_whole(row))) for row in rows]
        self.expression = "|".join(row.near.pattern for row in self._rows) or "(?!)"
        """Where a value may begin, as an alternative of a larger expression."""
        self.behind_first = "|".join(_near(row, is_read=True) for row in rows)
        """The same behind the first character."""
        self._near = re.compile(self.expression)
        self.looks_back = max(map(looks_back, rows), default=1)
        """How many characters before a candidate decide whether it is one."""

    def near(self, text: str, start: int) -> int:
        """Return the first position at or after `start` where a value may begin; -1 if none does."""
        found = self._near.search(text, start)
        return -1 if found is None else found.start()

    def first(self, text: str, start: int, *, at_end: bool) -> Candidate | None:
        """Return the first value at or after a position, or the first text that may become one."""
        at = start
        while (near := self._near.search(text, at)) is not None:
            found = self._at(text, near.start(), at_end=at_end)
            if found is not None:
                return found
            at = near.start() + 1
        return None

    def _at(self, text: str, at: int, *, at_end: bool) -> Candidate | None:
        """Return the longest value at a position; open text if any class may still have one there."""
        best: Candidate | None = None
        for each in self._rows:
            match = each.near.match(text, at)
            if match is None:
                continue
            is_cut = match.end() == len(text)
            end = None if is_cut and not at_end else _end(each, text, match, at_end=at_end)
            if end is None:
                return Candidate(at, len(text), None)
            if end > at and (best is None or end > best.end):
                best = Candidate(at, end, each.row)
        return best


def _end(each: _Row, text: str, candidate: re.Match[str], *, at_end: bool) -> int | None:
    """Return the end of the value of a candidate; its start if there is none, None if later text decides."""
    at, last = candidate.span()
    extension = EXTENSIONS.get(each.row.check)
    if extension is None or _WORD_CHAR.match(text, last) is None:
        stops = [last]
    else:  # digits before a letter, as in `9am`, count only if that begins an extension
        after = extension(text, last, at_end=at_end)
        if after is None:
            return None
        stops = [*([last] if after > last else []), at + len(candidate[0].rstrip(_DIGITS))]
    ends = (at + _value(each.row, each.whole, text[at:stop], is_cut=stop == len(text)) for stop in stops)
    end = next((end for end in ends if end > at), at)
    behind = end if extension is None or end == at else extension(text, end, at_end=at_end)
    if behind != end or end == at:
        return behind
    if not at_end and _EMPHASIS.match(text, end) is not None:
        return None
    return at if _REST_OF_WORD.match(text, end) is not None else end


def _value(row: TextClass, whole: re.Pattern[str], candidate: str, *, is_cut: bool) -> int:
    if row.check:
        return CHECKS[row.check](candidate, is_cut)
    match = whole.match(candidate)
    return match.end() if match is not None else 0


def _near(row: TextClass, *, is_read: bool = False) -> str:
    """Return the expression for a candidate of a class, or for the end of the text inside one."""
    before = _lookbehinds(row.before)
    if row.sure:
        least = _lookbehinds(f"{_WORD}|{row.sure}")
        before = f"{least}(?:(?<={row.sure})|{before})"
    ways = [(patterns.pieces(way), _way(patterns.pieces(way), row, before, r"\Z")) for way in _ways(row)]
    if is_read:
        return "|".join(f"(?<={pieces[0].atom}){way.removeprefix(pieces[0].atom)}" for pieces, way in ways)
    return "|".join(way for _, way in ways)


def _whole(row: TextClass) -> str:
    """Return the expression for a whole candidate."""
    return "|".join(_way(patterns.pieces(way), row, "", "") for way in _ways(row))


def _ways(row: TextClass) -> list[str]:
    return patterns.alternatives(row.begins)


def _way(pieces: Sequence[patterns.Piece], row: TextClass, before: str, end: str) -> str:
    """Return the expression for one alternative of what a class begins with, and its run.

    It begins with one character, which excludes most alternatives at once, then looks at what is before that.
    """
    shortest = sum(piece.least for piece in pieces)
    longest = sum(piece.most for piece in pieces)
    expression = ""
    if row.run:
        least, most = max(0, row.least - longest), max(1, row.most - shortest)
        expression = f"{row.run}{{{least},{most}}}+"
        if end and least:
            expression = f"(?:{expression}|{row.run}{{0,{least - 1}}}+{end})"
    first, *more = pieces
    if first.most > 1:
        more.insert(0, first._replace(least=first.least - 1, most=first.most - 1))
    for piece in reversed(more):
        is_one = piece.least == piece.most == 1
        expression = (piece.atom if is_one else f"{piece.atom}{{{piece.least},{piece.most}}}+") + expression
        if end:
            short = "" if is_one else f"{piece.atom}{{0,{piece.most - (piece.least > 0)}}}+"
            expression = f"(?:{expression}|{short}{end})"
    return first.atom + before + expression


def looks_back(row: TextClass) -> int:
    """Return how many characters before a candidate decide whether it is one."""
    return max(len(patterns.pieces(way)) for way in patterns.alternatives(row.before))


def _lookbehinds(before: str) -> str:
    """Return the expression for a first character that none of the alternatives of `before` precedes."""
    ways = ["".join(piece.atom for piece in patterns.pieces(way)) for way in patterns.alternatives(before)]
    return "".join(rf"(?<!{way}[\s\S])" for way in ways)


@lru_cache(maxsize=64)
def search_of(rows: tuple[TextClass, ...]) -> TextSearch:
    """Return the search for classes, compiled once."""
    return TextSearch(rows)
