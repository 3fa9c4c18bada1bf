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
from projector.redaction.text_checks import CHECKS, EXTENSIONS, next_card

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
_CARD: Final = "payment_card"
_CARD_MAX_CHARS: Final = 40
_OF_NUMBERS: Final = "0123456789 ./-"
_NUMBERS: Final = re.compile(r"[0-9 ./-]{80,576}")
"""Many numbers, in which the search for cards goes from number to number without an expression for each."""
_AFTER_CHARS: Final = 64
"""At least so many characters of numbers follow where it goes: as many as an e-mail address has before its `@`."""
_REST: Final = re.compile("[0-9]+")


class Candidate(NamedTuple):
    """A value of a class, or text that may become one (`row` is None)."""

    start: int
    end: int
    row: TextClass | None


class TextSearch:
    """The search for some classes at once."""

    def __init__(self, rows: Sequence[TextClass]) -> None:
        self._rows = rows
        self._whole = [re.compile("|".join(_way(way, row, None) for way in _ways(row))) for row in rows]
        ways = [f"(?:{_near(row, _ways(row))})()" for row in rows]
        self._from = [re.compile("|".join(ways[first:]) or "(?!)") for first in range(len(rows) + 1)]
        """For each class, and behind the last one: the candidates of this class and those after it; the empty groups
        tell the class."""
        self.near = self._from[0].search
        """Finds the first position where a value may begin."""
        self._goes_past_digits = all(map(_begins_no_rest_of_number, rows))
        self._others: re.Pattern[str] | None = None
        if self._goes_past_digits and any(row.check == _CARD for row in rows) and all(map(_knows_numbers, rows)):
            nears = (_near(row, [*filter(_is_of_numbers, _ways(row))]) for row in rows if row.check != _CARD)
            self._others = re.compile(f"[^0-9](?=[0-9])(?:{'|'.join(filter(None, nears)) or '(?!)'})")

    def first(self, text: str, start: int, *, at_end: bool) -> Candidate | None:
        """Return the first value at or after a position, or the first text that may become one."""
        at = start
        while (near := self.near(text, at)) is not None:
            found = self._at(text, near, at_end=at_end)
            if found is not None:
                return found
            at = self._after(text, near.start())
        return None

    def _after(self, text: str, at: int) -> int:
        """Return where the search goes on after a position at which no value begins."""
        rest = _REST.match(text, at) if self._goes_past_digits else None
        at = at + 1 if rest is None else rest.end()
        numbers = _NUMBERS.match(text, at) if self._others is not None else None
        if numbers is None or self._others is None:
            return at
        stop = numbers.end() - _AFTER_CHARS
        other = self._others.search(text, at - 1, stop)
        return next_card(text, at, stop if other is None else other.start() + 1)

    def _at(self, text: str, near: re.Match[str], *, at_end: bool) -> Candidate | None:
        """Return the longest value at the position of a candidate; open text if any class may still have one there."""
        best: Candidate | None = None
        at, match, row = near.start(), near, 0
        while True:
            row += match.lastindex or 0
            last = match.end()
            end = self._end(row - 1, text, at, last, at_end=at_end) if at_end or last < len(text) else None
            if end is None:
                return Candidate(at, len(text), None)
            if end > at and (best is None or end > best.end):
                best = Candidate(at, end, self._rows[row - 1])
            following = self._from[row].match(text, at)
            if following is None:
                return best
            match = following

    def _end(self, number: int, text: str, at: int, last: int, *, at_end: bool) -> int | None:
        """Return the end of the value of a candidate; its start if there is none, None if later text decides."""
        row = self._rows[number]
        extension = EXTENSIONS.get(row.check)
        stops = [last]
        if extension is not None and _WORD_CHAR.match(text, last) is not None:
            # digits before a letter, as in `9am`, count only if that begins an extension
            after = extension(text, last, at_end=at_end)
            if after is None:
                return None
            stops = [*([last] if after > last else []), at + len(text[at:last].rstrip(_DIGITS))]
        end = at
        for stop in stops:
            candidate = text[at:stop]
            if row.check:
                end = at + CHECKS[row.check](candidate, stop == len(text))
            elif (whole := self._whole[number].match(candidate)) is not None:
                end = at + whole.end()
            if end > at:
                break
        else:
            return at
        behind = end if extension is None else extension(text, end, at_end=at_end)
        if behind != end:
            return behind
        if not at_end and _EMPHASIS.match(text, end) is not None:
            return None
        return at if _REST_OF_WORD.match(text, end) is not None else end


def _begins_no_rest_of_number(row: TextClass) -> bool:
    """Return whether no value begins with a digit after another one."""
    ways = [patterns.pieces(way) for way in patterns.alternatives(row.before)]
    before = frozenset[str]().union(*(patterns.characters(way[0].atom) for way in ways if len(way) == 1))
    firsts = "".join(patterns.pieces(way)[0].atom for way in patterns.alternatives(row.begins))
    return bool(row.sure) or before.issuperset(_DIGITS) or _REST.search(firsts) is None


def _knows_numbers(row: TextClass) -> bool:
    """Return whether a class has what `next_card` knows in a candidate, or is no card and begins at no separator."""
    if row.check == _CARD:
        return row.run == "[0-9 ./-]" and row.most <= _CARD_MAX_CHARS
    return all(patterns.characters(patterns.pieces(way)[0].atom).isdisjoint("./-") for way in _ways(row))


def _is_of_numbers(way: str) -> bool:
    """Return whether what a class begins with may begin in many numbers: its first characters are those of numbers."""
    pieces = patterns.pieces(way)
    count = 0
    for piece in pieces:
        if piece.least and patterns.characters(piece.atom).isdisjoint(_OF_NUMBERS):
            return count > _AFTER_CHARS
        count += piece.most
    return not patterns.characters(pieces[0].atom).isdisjoint(_DIGITS)


def _near(row: TextClass, ways: Sequence[str]) -> str:
    """Return the expression for a candidate of a class, or for the end of the text inside one."""
    first, *others = _lookbehinds(row.before)
    before = first, "".join(others)
    if row.sure:
        before = "".join(_lookbehinds(f"{_WORD}|{row.sure}")), f"(?:(?<={row.sure})|{first}{before[1]})"
    return "|".join(_way(way, row, before) for way in ways)


def _ways(row: TextClass) -> list[str]:
    return patterns.alternatives(row.begins)


def _way(way: str, row: TextClass, before: tuple[str, str] | None) -> str:
    """Return the expression for one alternative of what a class begins with, and its run; whole if `before` is None.

    It begins with one character, which excludes most alternatives at once. What most often precedes other text is
    looked at next, the rest of it once the first characters of a value are there.
    """
    first, *more = pieces = patterns.pieces(way)
    least = row.least - sum(piece.most for piece in pieces)
    most = row.most - sum(piece.least for piece in pieces)
    run = [patterns.Piece(row.run, max(0, least), max(1, most))] if row.run else []
    if first.most > 1:
        more.insert(0, first._replace(least=first.least - 1, most=first.most - 1))
    expression = patterns.sequence([*more, *run], may_end=before is not None)
    if before is None:
        return first.atom + expression
    begins = f"(?={patterns.sequence(more, may_end=True)})" if before[1] and more else ""
    return first.atom + before[0] + begins + before[1] + expression


def looks_back(row: TextClass) -> int:
    """Return how many characters before a candidate decide whether it is one."""
    return max(len(patterns.pieces(way)) for way in patterns.alternatives(row.before))


def _lookbehinds(before: str) -> list[str]:
    """Return the expressions for a first character that none of the alternatives of `before` precedes."""
    ways = ["".join(piece.atom for piece in patterns.pieces(way)) for way in patterns.alternatives(before)]
    return [rf"(?<!{way}[\s\S])" for way in ways]


@lru_cache(maxsize=64)
def search_of(rows: tuple[TextClass, ...]) -> TextSearch:
    """Return the search for classes, compiled once."""
    return TextSearch(rows)
