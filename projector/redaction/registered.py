"""Registered values: the secrets of a host and of a server's configuration, searched as they are.

A value may begin wherever one of its first characters stands, so the search looks up a few characters of the text at
each position in a table of beginnings, and then in the sorted values. Its cost hardly depends on the number of values.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Final

from projector.contracts import codec
from projector.contracts.kinds import REDACTED
from projector.redaction.value_ends import Found, Registered

SECRET_MIN_CHARS: Final = 8
"""Minimum length of a secret of the configuration; a shorter one would match ordinary words."""
OPEN_CHARS: Final = 4
"""Number of leading characters that count as the whole value at the end of a text; no value is shorter."""
_SECRET_OPEN_CHARS: Final = 16
"""The same for secrets, at least half of one: many keys begin with words, or as in `sk-proj-`."""
_FEW: Final = 32
"""Values whose beginnings are searched with one expression; more would make it slower than the table."""
_SYNTAX: Final = re.compile(r"^\s|[{}\[\]\"\\\x00-\x1f]")
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,5})?")
_EXPONENT: Final = re.compile("[eE].*")
_NUMBER_MAX_CHARS: Final = 128
"""A longer number is shown: with so many zeros it can be no registered one."""
_SLICES: Final = tuple(slice(at, at + OPEN_CHARS) for at in range(4_096))


class Values:
    """The registered values of a policy, each with the mark that replaces it; the longest is tried first.

    A value that JSON writes with escapes is also searched in its escaped forms, in which a model may quote it.
    `secrets` are further values, without an id. Of these more characters count as the whole value at the end of a text.
    """

    def __init__(self, rows: Iterable[tuple[str, str]], secrets: Iterable[str] = ()) -> None:
        self._rows = dict(reversed([*rows]))
        self._secrets = [value for value in secrets if value not in self._rows]
        self._rows |= dict.fromkeys(self._secrets, REDACTED)
        spellings = {value: _spellings(value) for value in self._rows}
        self._marks = {spellings[value][at]: Registered(self._rows[value]) for at in (2, 1, 0) for value in self._rows}
        self.longest = max(map(len, self._marks), default=0)
        """Length of the longest value."""
        self._open_chars = dict.fromkeys(self._marks, OPEN_CHARS) | {
            spelling: min(_SECRET_OPEN_CHARS, max(SECRET_MIN_CHARS, len(value) // 2))
            for value in self._secrets
            for spelling in spellings[value]
        }
        self._beginnings = {value[:OPEN_CHARS] for value in self._marks}
        self._few = None  # an expression for all beginnings
        if len(self._beginnings) <= _FEW:
            self._few = re.compile("|".join(map(re.escape, self._beginnings)) or "(?!)")
        self._sorted = sorted(self._marks)
        self._begun_by = {"": ""}  # value -> the longest other value that it begins with
        for before, value in pairwise(["", *self._sorted]):
            self._begun_by[value] = self._first(value, before)
        numbers = {
            Decimal(value).copy_abs(): (value, mark) for value, mark in self._marks.items() if _NUMBER.fullmatch(value)
        }
        self._numbers = {size: mark for size, (_, mark) in numbers.items()}
        self.has_numbers = bool(numbers)
        """Whether a value is a number."""
        self._digits = {_significant(value).rstrip("0"): value for value, _ in numbers.values()}

    def __bool__(self) -> bool:
        return bool(self._marks)

    def crossing(self) -> Values:
        """Return the values that contain JSON syntax, which are searched before a text is parsed as JSON."""
        found = {value: mark for value, mark in self._rows.items() if _SYNTAX.search(value)}
        return Values(found.items(), [value for value in self._secrets if value in found])

    def may_begin(self, text: str, start: int) -> int:
        """Return the first position at or after `start` where a value may begin; -1 if none does, even at the end."""
        at = self._next(text, start)
        if at >= 0:
            return at
        for count in range(min(OPEN_CHARS - 1, len(text) - start), 0, -1):
            if self._begins_with(text[-count:]):
                return len(text) - count
        return -1

    def find(self, text: str, start: int, *, at_end: bool, waits: bool = True) -> Found | None:  # noqa: ARG002 - a search
        """Return the first value at or after a position, or what may become one. At the end most of one counts."""
        at = start
        while (at := self.may_begin(text, at)) >= 0:
            rest = text[at : at + self.longest]
            is_cut = at + len(rest) == len(text)
            if is_cut and not at_end and self._begins_with(rest):
                return Found(at, at, len(text) + 1, None)
            if value := self._first(rest, self._sorted[bisect_right(self._sorted, rest) - 1]):
                return Found(at, at, at + len(value), self._marks[value])
            if is_cut and at_end and self._begins_with(rest, counts=True):
                return Found(at, at, len(text), Registered(REDACTED))
            at += 1
        return None

    def _first(self, text: str, before: str) -> str:
        """Return the longest value that a text begins with, given the last one in order that is not after the text."""
        while not text.startswith(before):
            before = self._begun_by[before]
        return before

    def _begins_with(self, rest: str, *, counts: bool = False) -> bool:
        """Return whether a longer value begins with a text; with `counts` one of which that much counts as all."""
        for at in range(bisect_right(self._sorted, rest), len(self._sorted)):
            value = self._sorted[at]
            if not value.startswith(rest):
                break
            if not counts or len(rest) >= self._open_chars[value]:
                return True
        return False

    def _next(self, text: str, start: int) -> int:
        """Return the first position where the first characters of a value stand; -1 if there is none."""
        if self._few is not None:
            found = self._few.search(text, start)
            return -1 if found is None else found.start()
        known = self._beginnings
        for begin in range(start, len(text), len(_SLICES)):
            part = text[begin : begin + len(_SLICES) + OPEN_CHARS - 1]
            beginnings = map(part.__getitem__, _SLICES[: len(part)])
            at = next((at for at, is_known in enumerate(map(known.__contains__, beginnings)) if is_known), -1)
            if at >= 0:
                return begin + at
        return -1

    # numbers

    def mark_of_number(self, number: str, *, at_end: bool = False) -> str | None:
        """Return the mark of a number that is registered, with any sign and spelling: 4711 is `-4711.0` and `4.711e3`.

        At the end of the text also of the beginning of one.
        """
        try:
            mark = self._numbers.get(Decimal(number).copy_abs())
        except InvalidOperation:  # it ends in its exponent
            mark = None
        digits = _significant(number)
        is_open = at_end and any(
            len(digits) >= self._open_chars[value] and _is_prefix(digits, known)
            for known, value in self._digits.items()
        )
        return mark or (Registered(REDACTED) if is_open else None)

    def may_be_number(self, beginning: str) -> bool:
        """Return whether a number that begins like this may be a registered one."""
        if len(beginning) > _NUMBER_MAX_CHARS:
            return False
        digits = _significant(beginning)
        return any(_is_prefix(digits, known) for known in self._digits)


def _significant(number: str) -> str:
    """Return the digits of a number without its sign, point and exponent, from its first significant digit."""
    return _EXPONENT.sub("", number).lstrip("-0.").replace(".", "")


def _is_prefix(digits: str, known: str) -> bool:
    """Return whether a number that begins with some digits may have the known ones, which zeros may follow."""
    return known.startswith(digits) or (digits.startswith(known) and not digits[len(known) :].strip("0"))


def _spellings(value: str) -> tuple[str, str, str]:
    """Return a value as it is, as JSON writes it in a string, and as JSON writes that in a string."""
    once = codec.dumps(value).decode()[1:-1]
    return value, once, codec.dumps(once).decode()[1:-1]
