"""A compiled policy: sensitive keys, credential formats, registered values.

A `Detector` is stateless. The filters of `projector.redaction.filters` and `projector.redaction.json_filter` hold the
state of a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Final

from projector.contracts import codec
from projector.contracts.kinds import REDACTED
from projector.redaction import patterns
from projector.redaction.patterns import WORD, Find, Search
from projector.redaction.policy import Policy
from projector.redaction.rules import Format, KeyRules, Verdict, shipped

_KEY: Final = re.compile(r"[\w.-]+(?: [\w.-]+)*")
_NUMBER: Final = re.compile(r"-?[0-9][0-9.eE+-]*")
_SYNTAX: Final = re.compile(r"^\s|[{}\[\]\"\\\x00-\x1f]")
_DIGITS: Final = frozenset("-0123456789")
_OPEN_CHARS: Final = 4
"""Number of leading characters that count as the whole registered value at the end of a text."""


class Formats:
    """The credential formats of a policy with its sensitive words, ready for searching."""

    def __init__(self, keys: KeyRules, off: frozenset[str]) -> None:
        self.keys = keys
        self.rows = tuple(row for row in shipped().formats if row.name not in off)
        self._tails: dict[str, re.Pattern[str]] = {}

    @cached_property
    def live(self) -> Search:
        """Search in text that may continue."""
        return self._search(at_end=False)

    @cached_property
    def last(self) -> Search:
        """Search in complete text."""
        return self._search(at_end=True)

    def tail(self, row: Format) -> re.Pattern[str]:
        """Return the expression for the characters of a credential after its shortest form."""
        tail = self._tails.get(row.name)
        if tail is None:
            pieces = patterns.pieces(patterns.alternatives(row.pattern)[0])
            last = [piece.atom for piece in pieces if piece.atom[0] == "["][-1:]
            self._tails[row.name] = tail = re.compile(f"{row.tail or last[0]}*+")
        return tail

    def _search(self, *, at_end: bool) -> Search:
        return Search(self.rows, [word for word in self.keys.words if word.isascii()], at_end=at_end)


@lru_cache(maxsize=64)
def _compiled(add: tuple[str, ...], remove: tuple[str, ...], off: frozenset[str]) -> Formats:
    """Return the formats of a policy, compiled once. The cache holds no registered value and so no secret."""
    return Formats(KeyRules(add, remove), off)


class Detector:
    """A policy, ready for searching."""

    def __init__(self, policy: Policy) -> None:
        self.formats = _compiled(policy.sensitive_keys_add, policy.sensitive_keys_remove, policy.formats_off)
        self.keys = self.formats.keys
        self.values = Values((row.value.get_secret_value(), _mark(row.id)) for row in policy.registered)
        self.crossing = self.values.crossing()

    def passes(self, text: str) -> bool:
        """Return whether a single search shows that nothing in a complete plain text is withheld."""
        return not self.values and self.formats.last.first(text) is None

    def find(self, text: str, start: int, *, at_end: bool) -> Find | None:
        """Return the first credential at or after a position, or text that may become one if more text follows."""
        search = self.formats.last if at_end else self.formats.live
        while (found := search.first(text, start)) is not None:
            start, body, _, row = found
            if row is None or WORD not in row.anchor or self._assigns(text[start:body], text[body : body + 1]):
                return found
            start += 1
        return None

    def _assigns(self, anchor: str, first: str) -> bool:
        """Return whether the key of an assignment is sensitive, as it would be in an object (`max_tokens=1` is not)."""
        key = _KEY.match(anchor)
        verdict = self.keys.verdict(key[0] if key else anchor)
        if verdict is Verdict.SENSITIVE_UNLESS_NUMBER:
            return first not in _DIGITS or anchor[-1] in "\"'"
        return verdict is Verdict.SENSITIVE


def _mark(name: str | None) -> str:
    return f"[REDACTED:{name}]" if name else REDACTED


class Values:
    """The registered values of a host, each with the mark that replaces it; the longest is tried first.

    A value that JSON writes with escapes is also searched in its escaped form, in which a model may quote it.
    """

    def __init__(self, rows: Iterable[tuple[str, str]]) -> None:
        self._rows = dict(reversed([*rows]))
        spelled = {codec.dumps(value).decode()[1:-1]: mark for value, mark in self._rows.items()}
        marks = {**spelled, **self._rows}
        self.marks = dict(sorted(marks.items(), key=lambda item: -len(item[0])))
        self.numbers = {value: mark for value, mark in marks.items() if _NUMBER.fullmatch(value)}
        self._whole = re.compile("|".join(map(re.escape, self.marks)) or "(?!)")
        self._first = re.compile(f"[{''.join({re.escape(value[0]) for value in marks})}]" if marks else "(?!)")
        self._longest = max(map(len, marks), default=0)

    def __bool__(self) -> bool:
        return bool(self.marks)

    def crossing(self) -> Values:
        """Return the values that contain JSON syntax, which are searched before a text is parsed as JSON."""
        return Values((value, mark) for value, mark in self._rows.items() if _SYNTAX.search(value))

    def find(self, text: str, *, at_end: bool) -> tuple[int, int, str] | None:
        """Return the first value in a text as (start, end, mark); the mark is empty if only its beginning was read."""
        whole = self._whole.search(text)
        start = self._open(text, whole.start() if whole else len(text))
        if start is not None and not at_end:
            return start, len(text), ""
        if whole is not None:
            return (*whole.span(), self.marks[whole[0]])
        if start is not None and len(text) - start >= _OPEN_CHARS:
            return start, len(text), REDACTED
        return None

    def mark_of_number(self, number: str, *, at_end: bool) -> str | None:
        """Return the mark of a registered number, or of the beginning of one at the end of the text."""
        if at_end and len(number) >= _OPEN_CHARS and any(value.startswith(number) for value in self.numbers):
            return self.numbers.get(number, REDACTED)
        return self.numbers.get(number)

    def _open(self, text: str, limit: int) -> int | None:
        """Return the first position up to `limit` where the rest of the text is a prefix of a value."""
        for first in self._first.finditer(text, max(0, len(text) - self._longest + 1)):
            rest = text[first.start() :]
            if first.start() <= limit and any(value.startswith(rest) and value != rest for value in self.marks):
                return first.start()
        return None
