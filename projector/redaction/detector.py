"""A compiled policy: sensitive keys, credential formats, registered values.

A `Detector` is stateless. The filters of `projector.redaction.filters` and `projector.redaction.json_filter` hold the
state of a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Final

from projector.contracts import codec
from projector.contracts.kinds import REDACTED
from projector.redaction.format_search import Find, Search
from projector.redaction.patterns import (
    CONTEXT_CHARS,
    NEVER,
    PREFIX_CHARS,
    WORD,
    alternatives,
    last_class,
    pieces,
    shortest_length,
)
from projector.redaction.policy import Policy
from projector.redaction.rules import LOOKALIKES, Format, KeyRules, Rules, merged
from projector.redaction.spellings import INVISIBLE, MAY_BE_SPELLED, UNFINISHED, UNFINISHED_MAX_CHARS, as_read

_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,5})?")
_SYNTAX: Final = re.compile(r"^\s|[{}\[\]\"\\\x00-\x1f]")
_HALF: Final = re.compile(r"[\ud800-\udfff]")
_OPEN_CHARS: Final = 4
"""Number of leading characters that count as the whole registered value at the end of a text."""
SECRET_MIN_CHARS: Final = 8
"""Minimum length of a secret of the configuration; a shorter one would match ordinary words."""
_SECRET_OPEN_CHARS: Final = 16
"""The same as `_OPEN_CHARS` for secrets, at least half of one: many keys begin with words, or as in `sk-proj-`."""
_QUICK_CHARS: Final = 8
"""Leading characters of a value that `Values.lacks` compares."""


_PIECE_CHARS: Final = 6
"""Characters of a pattern that are a credential in two texts; fewer tell nothing."""


class Formats:
    """The credential formats of a policy with its sensitive words, ready for searching."""

    def __init__(self, keys: KeyRules, rows: Iterable[Format]) -> None:
        self.keys = keys
        self.rows = tuple(rows)
        self._live: Search | None = None
        self._last: Search | None = None
        self._pieces: Search | None = None
        self._of_prose: Formats | None = None
        self._tails: dict[tuple[str, bool], re.Pattern[str]] = {}

    @property
    def live(self) -> Search:
        """Search in text that may continue."""
        if self._live is None:
            self._live = Search(self.rows, self._words, at_end=False)
        return self._live

    @property
    def last(self) -> Search:
        """Search in complete text."""
        if self._last is None:
            self._last = Search(self.rows, self._words, at_end=True)
        return self._last

    @property
    def of_prose(self) -> Formats:
        """The formats for text that people read, where a sensitive word announces nothing.

        Sentences end with the dot or colon that some anchors begin with, so these begin with the character behind it.
        """
        if self._of_prose is None:
            self._of_prose = Formats(self.keys, [_in_prose(row) for row in self.rows if WORD not in row.anchor])
        return self._of_prose

    @property
    def pieces(self) -> Search:
        """Search in a text that was cut off and began in another one: an ordinary word would be in one text."""
        if self._pieces is None:
            rows = [
                row if row.open_chars == NEVER else row._replace(open_chars=min(row.open_chars, _PIECE_CHARS))
                for row in self.rows
            ]
            self._pieces = Search(rows, self._words, at_end=True)
        return self._pieces

    def compile(self) -> None:
        """Compile what is otherwise compiled on first use; it takes about a second for all formats."""
        for formats in (self, self.of_prose):
            for search in (formats.live, formats.last, formats.pieces):
                search.compile()

    def tail(self, row: Format, *, is_cut: bool = False) -> re.Pattern[str]:
        """Return the expression for the characters of a credential after its shortest form.

        The end of a text may cut a credential off before that: then all characters of its pattern may follow, too.
        """
        tail = self._tails.get((row.name, is_cut))
        if tail is None:
            ways = [[piece.atom for piece in pieces(way)] for way in alternatives(row.pattern)]
            last = row.tail or last_class(row.pattern)
            atoms = dict.fromkeys(sum(ways, [last])) if is_cut else [last]
            self._tails[row.name, is_cut] = tail = re.compile(f"(?:{'|'.join(atoms)})*+")
        return tail

    @property
    def _words(self) -> list[str]:
        return [word for word in self.keys.beginnings if word.isascii()]


_DOT: Final = re.compile(r"^(?::|\\\.)(?![{?])")
"""A dot or colon at the start of an anchor."""


def _in_prose(row: Format) -> Format:
    shortest = min(map(shortest_length, alternatives(row.pattern)))
    ways = [(way, _DOT.sub("", way)) for way in alternatives(row.anchor)]
    anchor = "|".join(rest if shortest_length(rest) + shortest >= PREFIX_CHARS else way for way, rest in ways)
    return row if anchor == row.anchor else row._replace(anchor=anchor, inside_words=False)


@lru_cache(maxsize=64)
def _compiled(own: Rules, add: tuple[str, ...], remove: tuple[str, ...], off: frozenset[str]) -> Formats:
    """Return the formats of a policy, compiled once. The cache holds no registered value and so no secret."""
    rules = merged(own)
    return Formats(KeyRules(add, remove, rules), [row for row in rules.formats if row.name not in off])


class Detector:
    """A policy and the secrets of the configuration, ready for searching."""

    def __init__(self, policy: Policy, secrets: Iterable[str] = (), *, of_prose: bool = False) -> None:
        self._policy = policy
        self._secrets = tuple(secrets)
        formats = _compiled(
            policy.own_rules, policy.sensitive_keys_add, policy.sensitive_keys_remove, policy.formats_off
        )
        self.formats = formats.of_prose if of_prose else formats
        self.keys = formats.keys
        registered = ((row.value.get_secret_value(), _mark(row.id)) for row in policy.registered)
        self.values = Values(registered, [value for value in self._secrets if len(value) >= SECRET_MIN_CHARS])
        self.crossing = self.values.crossing()

    def of_prose(self) -> Detector:
        """Return the detector for text that people read."""
        return Detector(self._policy, self._secrets, of_prose=True)

    def passes(self, text: str) -> bool:
        """Return whether a single search shows that nothing in a complete plain text is withheld."""
        if not self.values.lacks(text):
            return False
        if self.shown(f" {text}", 1, at_end=True) >= 0:
            return True
        if MAY_BE_SPELLED.search(text) is None:  # nearly every ID
            return self._passes(text)
        if UNFINISHED.search(text, max(0, len(text) - UNFINISHED_MAX_CHARS)) is not None:
            return False  # a credential that ends with half of a spelling is at the end, too
        read = as_read(text)
        return self._passes(text) and (read == text or (self.values.lacks(read) and self._passes(read)))

    def _passes(self, text: str) -> bool:
        return self.formats.last.first(_undisguised(text)) is None

    def undecided(self, text: str) -> int:
        """Return how many characters at the end of a text that passes may become a secret with what follows."""
        end = self.shown(f" {text}", 1, at_end=False) - 1
        if end < 0:
            found = self.formats.live.first(_undisguised(text))
            end = len(text) if found is None else found.start
        if self.values:
            end = min(end, len(text) - len(self.values.beginning_at_end(text)))
        return len(text) - end

    def find(self, text: str, start: int, *, at_end: bool, is_piece: bool = False) -> Find | None:
        """Return the first credential at or after a position, or text that may become one if more text follows.

        At the end of a piece, whose beginning is in another text, fewer characters make a credential.
        """
        search = self.formats.live if not at_end else self.formats.pieces if is_piece else self.formats.last
        return search.first(_undisguised(text), start)

    def shown(self, text: str, start: int, *, at_end: bool) -> int:
        """Return the position up to which a text is shown; -1 if only `find` can decide. `start` is at least 1."""
        if not text.isascii() and _DISGUISE.search(text, start - CONTEXT_CHARS) is not None:
            return -1
        return (self.formats.last if at_end else self.formats.live).quick(text, start)


DISGUISES: Final[dict[int, str | int]] = {
    **LOOKALIKES,
    **dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"), "_"),
}
_DISGUISE: Final = re.compile(f"[{''.join(map(chr, DISGUISES))}{INVISIBLE}]")


def _undisguised(text: str) -> str:
    """Return a text of the same length in which sensitive words have ASCII letters, and `_` for what is invisible."""
    return text if text.isascii() or _DISGUISE.search(text) is None else text.translate(DISGUISES)


def _mark(name: str | None) -> str:
    return f"[REDACTED:{name}]" if name else REDACTED


class Values:
    """The registered values of a host, each with the mark that replaces it; the longest is tried first.

    A value that JSON writes with escapes is also searched in its escaped form, in which a model may quote it.
    `secrets` are further values, without an id. Of these more characters count as the whole value at the end of a text.
    """

    def __init__(self, rows: Iterable[tuple[str, str]], secrets: Iterable[str] = ()) -> None:
        self._rows = dict(reversed([*rows]))
        self._secrets = [value for value in secrets if value not in self._rows]
        self._rows |= dict.fromkeys(self._secrets, REDACTED)
        marks = {**{_spelled(value): mark for value, mark in self._rows.items()}, **self._rows}
        self.marks = dict(sorted(marks.items(), key=lambda item: -len(item[0])))
        numbers = {
            Decimal(value).copy_abs(): (value, mark) for value, mark in marks.items() if _NUMBER.fullmatch(value)
        }
        self._numbers = {size: mark for size, (_, mark) in numbers.items()}
        self._digits = {_significant(value).rstrip("0"): value for value, _ in numbers.values()}
        self._open_chars = dict.fromkeys(marks, _OPEN_CHARS) | {
            spelling: min(_SECRET_OPEN_CHARS, max(SECRET_MIN_CHARS, len(value) // 2))
            for value in self._secrets
            for spelling in (value, _spelled(value))
        }
        self._whole = re.compile("|".join(map(re.escape, self.marks)) or "(?!)")
        self._first = re.compile(f"[{''.join({re.escape(value[0]) for value in marks})}]" if marks else "(?!)")
        self._longest = max(map(len, marks), default=0)
        self.beginning: Final = re.compile(_beginning_of(marks)).search
        """Return a match where a value may begin in a text; None proves that none does, not even at its end."""
        self.openings = {value[:end] for value in marks for end in range(1, min(len(value), _QUICK_CHARS))} - {*marks}
        """Texts of less than `_QUICK_CHARS` characters with which values begin, and which are no values."""

    def __bool__(self) -> bool:
        return bool(self.marks)

    def lacks(self, text: str) -> bool:
        """Return whether one quick search shows that a text has no value, and that none begins at its end.

        Not of a text with halves of characters: the search compares whole ones.
        """
        if not self.marks:
            return True
        return self.beginning(text) is None and (text.isascii() or _HALF.search(text) is None)

    def crossing(self) -> Values:
        """Return the values that contain JSON syntax, which are searched before a text is parsed as JSON."""
        found = {value: mark for value, mark in self._rows.items() if _SYNTAX.search(value)}
        return Values(found.items(), [value for value in self._secrets if value in found])

    def find(self, text: str, *, at_end: bool) -> tuple[int, int, str] | None:
        """Return the first value in a text as (start, end, mark); the mark is empty if only its beginning was read."""
        whole = self._whole.search(text)
        start = self._open(text, whole.start() if whole else len(text), at_end=at_end)
        if start is not None and not at_end:
            return start, len(text), ""
        if whole is not None:
            return (*whole.span(), self.marks[whole[0]])
        return None if start is None else (start, len(text), REDACTED)

    @property
    def longest(self) -> int:
        """Length of the longest value."""
        return self._longest

    def beginning_at_end(self, text: str) -> str:
        """Return the end of a text with which a value may begin; empty if none may."""
        if self.beginning(text[-self._longest :]) is None:
            return ""
        start = self._open(text, len(text), at_end=False)
        return "" if start is None else text[start:]

    def rests(self, beginning: str) -> Iterator[tuple[str, str, int]]:
        """Yield the rest of each value of which the end of a text is the beginning.

        With its mark, and how many characters of it count as the whole value if no more follow.
        """
        for start in range(len(beginning)):
            read = beginning[start:]
            for value, mark in self.marks.items():
                if value.startswith(read) and value != read:
                    yield value[len(read) :], mark, self._open_chars[value] - len(read)

    @property
    def has_numbers(self) -> bool:
        """Whether a value is a number."""
        return bool(self._numbers)

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
        return mark or (REDACTED if is_open else None)

    def may_be_number(self, beginning: str) -> bool:
        """Return whether a number that begins like this may be a registered one."""
        if len(beginning) > _NUMBER_MAX_CHARS:
            return False
        digits = _significant(beginning)
        return any(_is_prefix(digits, known) for known in self._digits)

    def _open(self, text: str, limit: int, *, at_end: bool) -> int | None:
        """Return the first position up to `limit` where the rest of the text is a prefix of a value.

        At the end of a text only prefixes count that are so long that they are withheld.
        """
        for first in self._first.finditer(text, max(0, len(text) - self._longest + 1)):
            rest = text[first.start() :]
            if first.start() <= limit and any(self._is_open(value, rest, at_end=at_end) for value in self.marks):
                return first.start()
        return None

    def _is_open(self, value: str, rest: str, *, at_end: bool) -> bool:
        """Return whether the rest of a text is the beginning of a value, but not all of it."""
        return value.startswith(rest) and value != rest and (not at_end or len(rest) >= self._open_chars[value])


def _significant(number: str) -> str:
    """Return the digits of a number without its sign, point and exponent, from its first significant digit."""
    return _EXPONENT.sub("", number).lstrip("-0.").replace(".", "")


_EXPONENT: Final = re.compile("[eE].*")
_NUMBER_MAX_CHARS: Final = 128
"""A longer number is shown: with so many zeros it can be no registered one."""


def _is_prefix(digits: str, known: str) -> bool:
    """Return whether a number that begins with some digits may have the known ones, which zeros may follow."""
    return known.startswith(digits) or (digits.startswith(known) and not digits[len(known) :].strip("0"))


def _spelled(value: str) -> str:
    """Return a value as JSON writes it in a string."""
    return codec.dumps(value).decode()[1:-1]


def _beginning_of(values: Iterable[str]) -> str:
    """Return the expression for the first characters of a value, or for fewer at the end of the text."""
    following: dict[str, list[str]] = {}
    for value in values:
        following.setdefault(value[0], []).append(value[1:_QUICK_CHARS])
    return "|".join(re.escape(first) + _then(rests) for first, rests in following.items()) or "(?!)"


def _then(rests: list[str]) -> str:
    """Return the expression for the end of the text, or what follows a character of `_beginning_of`."""
    if "" in rests:
        return ""
    following: dict[str, list[str]] = {}
    for rest in rests:
        following.setdefault(rest[0], []).append(rest[1:])
    ways = [re.escape(first) + _then(more) for first, more in following.items()]
    return rf"(?:\Z|{'|'.join(ways)})"
