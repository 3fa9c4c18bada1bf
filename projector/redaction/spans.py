"""Where secrets stand in texts that are kept, not shown: for recordings, which are searched when they are whole.

The sieves are those of the public stream; here nothing is held back or cut, and what is withheld is given as places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from projector.contracts import codec, limits
from projector.contracts.kinds import REDACTED
from projector.redaction import urls
from projector.redaction.detector import Detector
from projector.redaction.documents import JsonSieve
from projector.redaction.filters import Step, whole
from projector.redaction.policy import Policy
from projector.redaction.rules import Verdict
from projector.redaction.strings import OPENERS, StringSieve
from projector.redaction.texts import in_pieces

_ADDRESS: Final = re.compile(r"https?://\S*", re.IGNORECASE)

_AT_ONCE_MAX_CHARS: Final = 32_768
"""A longer text is read in pieces: no other thread of the process runs while one expression searches."""


class Span(NamedTuple):
    """A place in a text, and the mark that stands in it."""

    start: int
    end: int
    mark: str


class Finder:
    """What a policy looks for, in texts, keys and numbers that are known as a whole; immutable.

    `pause` is called between small pieces of work, for who must not keep a processor to itself.
    """

    def __init__(self, policy: Policy, pause: Callable[[], None] = lambda: None) -> None:
        self._detector = Detector(policy)
        self.pause = pause

    def spans(self, text: str) -> list[Span]:
        """Give what is withheld of a text, in order: credentials, registered values, sensitive values of JSON in it.

        Surrogates that stand in halves are searched as the character that they are. A text that is a web address loses
        what an address loses: then one span is all of it, and its mark what is left.
        """
        if _ADDRESS.fullmatch(text):
            said = urls.clean(self._detector, text, limits.EVENT_MAX_BYTES).value
            return [] if said == text else [Span(0, len(text), said)]
        if len(text) <= _AT_ONCE_MAX_CHARS and text.lstrip()[:1] not in OPENERS and self._detector.passes(text):
            return []
        scrubbed = codec.scrub(text)
        sieve = StringSieve(self._detector, 0, JsonSieve)
        steps: list[Step] = []
        for piece in in_pieces(scrubbed):
            self.pause()
            steps += sieve.feed(piece)
        return _spans(steps + sieve.end(), range(len(text) + 1) if scrubbed == text else _places(text))

    def key(self, key: str) -> str:
        """Give the key of an object without what a text would lose; it is never read as JSON."""
        return whole(self._detector, key)

    def hides(self, key: str, value: object) -> bool:
        """Say whether a key withholds its value; none is withheld of nothing, and what counts is no secret (D25)."""
        if value is None:
            return False
        verdict = self._detector.keys.verdict(key)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return verdict is Verdict.SENSITIVE or (verdict is Verdict.SENSITIVE_UNLESS_NUMBER and not is_number)

    def mark_of(self, number: float) -> str | None:
        """Give the mark for a number that is registered."""
        return self._detector.values.numbers.get(repr(number))


def without(text: str, spans: Iterable[Span]) -> str:
    """Give a text with marks in the place of its spans, which may overlap: then the first one's mark stands."""
    said: list[str] = []
    at = 0
    for start, end, mark in sorted(spans):
        if start >= at:
            said += (text[at:start], mark)
        at = max(at, end)
    return "".join([*said, text[at:]])


def _spans(steps: list[Step], places: range | list[int]) -> list[Span]:
    """Turn steps over a text into spans: a step without a mark goes on with the one before, and no step is a mark."""
    uncovered = len(places) - 1 - sum(count for count, _ in steps)
    found: list[Span] = []
    at = 0
    for count, mark in (*steps, (uncovered, REDACTED)):
        start, at = at, at + count
        if mark is None or not count:
            continue
        if not mark and found and found[-1].end == places[start]:
            found[-1] = found[-1]._replace(end=places[at])
        else:
            found.append(Span(places[start], places[at], mark))
    return found


def _places(text: str) -> list[int]:
    """Give where each character stands in a text in which surrogate pairs count as two, and the text's end."""
    places = []
    at = 0
    while at < len(text):
        places.append(at)
        at += 2 if "\ud800" <= text[at] <= "\udbff" and "\udc00" <= text[at + 1 : at + 2] <= "\udfff" else 1
    return [*places, at]
