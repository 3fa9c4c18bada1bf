"""What a policy looks for, compiled once: sensitive keys, credential formats, registered values.

A `Detector` has no state; the sieves of `projector.redaction.filters` and `projector.redaction.documents` carry the
state of one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from typing import Final, NamedTuple

from projector.contracts import codec
from projector.contracts.kinds import REDACTED
from projector.redaction import patterns
from projector.redaction.formats import FORMATS, WORD, Format
from projector.redaction.policy import Policy
from projector.redaction.rules import KeyRules, Verdict

_SEPARATOR: Final = "[-_. ]?"
_KEY: Final = re.compile(r"[\w.-]+(?: [\w.-]+)*")
_NUMBER: Final = re.compile(r"-?[0-9][0-9.eE+-]*")
_SYNTAX: Final = re.compile(r"^\s|[{}\[\]\"\\\x00-\x1f]")
_DIGITS: Final = frozenset("-0123456789")
_OPEN_CHARS: Final = 4
"""At the end of a text so many characters of a registered value count as the value: the fewest that one may have."""


class Find(NamedTuple):
    """A place in a text: from `start`, `withheld` on to `end` stands a secret; open when `row` is None.

    An open one is what may still become a secret; it reaches to the end of the text.
    """

    start: int
    withheld: int
    end: int
    row: Format | None


class Detector:
    """The rules of a policy in the form in which text is searched."""

    def __init__(self, policy: Policy) -> None:
        self.keys = KeyRules(policy.sensitive_keys_add, policy.sensitive_keys_remove)
        self.rows = tuple(row for row in FORMATS if row.name not in policy.formats_off)
        self.live = patterns.compile_branches(self._branches(at_end=False), at_end=False)
        self.last = patterns.compile_branches(self._branches(at_end=True), at_end=True)
        self.tails = {row.name: _tail(row) for row in self.rows}
        self.values = Values((row.value.get_secret_value(), _mark(row.id)) for row in policy.registered)
        self.crossing = self.values.crossing()

    def passes(self, text: str) -> bool:
        """Say whether nothing is withheld of a whole plain text; False when that takes more than one search."""
        return not self.values and self.last.regex.search(text) is None

    def find(self, text: str, start: int, *, at_end: bool) -> Find | None:
        """Give the first credential in a text from a place on, or what may become one if the text goes on."""
        expression = self.last if at_end else self.live
        while (match := expression.regex.search(text, start)) is not None:
            group = expression.groups[match.lastindex or 0]
            if not group.complete and not at_end:
                return Find(match.start(), match.start(), match.end(), None)
            row = self.rows[group.row]
            body = match.start(group.body)
            if WORD not in row.anchor or self._assigns(text[match.start() : body], text[body : body + 1]):
                return Find(match.start(), body if row.says_anchor else match.start(), match.end(), row)
            start = match.start() + 1
        return None

    def _branches(self, *, at_end: bool) -> Iterable[patterns.Branch]:
        for index, row in enumerate(self.rows):
            bodies = patterns.alternatives(row.body) + (patterns.alternatives(row.body_at_end) if at_end else [])
            for anchor, body in product(self._anchors(row.anchor), bodies):
                yield patterns.branch(
                    index,
                    patterns.pieces(anchor, any_case=row.any_case),
                    patterns.pieces(body),
                    open_chars=row.open_chars,
                    inside_words=row.inside_words,
                )

    def _anchors(self, anchor: str) -> list[str]:
        words = [_SEPARATOR.join(re.escape(char) for char in word) for word in self.keys.words if word.isascii()]
        spelled = [anchor.replace(WORD, word) for word in words] if WORD in anchor else [anchor]
        return [way for each in spelled for way in patterns.alternatives(each)]

    def _assigns(self, anchor: str, first: str) -> bool:
        """Say whether the key of an assignment is sensitive, as it would be in an object (`max_tokens=1` is not)."""
        key = _KEY.match(anchor)
        verdict = self.keys.verdict(key[0] if key else anchor)
        if verdict is Verdict.SENSITIVE_UNLESS_NUMBER:
            return first not in _DIGITS or anchor[-1] in "\"'"
        return verdict is Verdict.SENSITIVE


def _tail(row: Format) -> re.Pattern[str]:
    """Give what goes on with a credential after its shortest form."""
    classes = [piece.atom for piece in patterns.pieces(patterns.alternatives(row.body)[0]) if piece.atom[0] == "["]
    return re.compile(f"{row.tail or classes[-1]}*+")


def _mark(name: str | None) -> str:
    return f"[REDACTED:{name}]" if name else REDACTED


class Values:
    """The values that a host registered, each with the mark that stands in its place; the longest is tried first.

    A value that JSON writes with escapes is known in that spelling too: a model quotes it so in text.
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
        """Give those that JSON's own syntax may cut in two: they are looked for before text is read as JSON."""
        return Values((value, mark) for value, mark in self._rows.items() if _SYNTAX.search(value))

    def find(self, text: str, *, at_end: bool) -> tuple[int, int, str] | None:
        """Give the first value in a text as (start, end, mark); the mark is empty where one may only be beginning."""
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
        """Give the mark for a number that is registered, or that the end of the text cut off from one."""
        if at_end and len(number) >= _OPEN_CHARS and any(value.startswith(number) for value in self.numbers):
            return self.numbers.get(number, REDACTED)
        return self.numbers.get(number)

    def _open(self, text: str, limit: int) -> int | None:
        """Give the first place, not behind `limit`, whose rest is the beginning of a value."""
        for first in self._first.finditer(text, max(0, len(text) - self._longest + 1)):
            rest = text[first.start() :]
            if first.start() <= limit and any(value.startswith(rest) and value != rest for value in self.marks):
                return first.start()
        return None
