"""Search of complete texts, for recordings.

The filters are those of the public stream, but nothing is held back or truncated: the result is a list of spans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from projector.contracts import codec, limits
from projector.contracts.kinds import REDACTED
from projector.redaction.json_filter import string_filter
from projector.redaction.policy import CREDENTIALS, Policy
from projector.redaction.rules import merged
from projector.redaction.search import Prose, Search
from projector.redaction.spellings import Step
from projector.redaction.strings import clean_plain
from projector.redaction.text_filter import TextFilter, in_pieces
from projector.redaction.whole_values import clean_url, is_clean

_ADDRESS: Final = re.compile(r"https?://\S*", re.IGNORECASE)


class Span(NamedTuple):
    """A part of a text, and the mark that replaces it."""

    start: int
    end: int
    mark: str

    def overlaps(self, other: Span) -> bool:
        """Return whether a character belongs to both."""
        return self.start < other.end and other.start < self.end


class Finder:
    """Search of complete texts, keys and numbers for data that a policy withholds; immutable.

    `pause` is called between small pieces of work, so that the caller can yield to other tasks.
    """

    def __init__(self, policy: Policy, pause: Callable[[], None] = lambda: None, secrets: Iterable[str] = ()) -> None:
        self._search = Search(policy, secrets)
        classes = merged(policy.own_rules).classes
        actions = {name: action for name, action in policy.text_actions.items() if action != "report"}
        self._classes = Prose(
            self._search, {name: action for name, action in actions.items() if name != CREDENTIALS}, classes
        )
        self.pause = pause

    def spans(self, text: str) -> list[Span]:
        """Return the withheld parts of a text: what `tool_spans` finds, and values of classes that the policy names."""
        found = self.tool_spans(text)
        if not self._classes.rows:
            return found
        words = TextFilter(self._classes)
        personal = _spans(words.feed(text) + words.end(), range(len(text) + 1))
        return sorted([*found, *(span for span in personal if not any(map(span.overlaps, found)))])

    def tool_spans(self, text: str) -> list[Span]:
        """Return the credentials, registered values and sensitive values of embedded JSON in a text.

        Two halves of a surrogate pair are searched as the character that they are. A text that is a web address is
        cleaned as one: then one span covers all of it, and its mark is the clean address.
        """
        if _ADDRESS.fullmatch(text):
            address = clean_url(self._search, text, limits.EVENT_MAX_BYTES).value
            return [] if address == text else [Span(0, len(text), address)]
        if is_clean(self._search, text):
            return []
        scrubbed = codec.scrub(text)
        string = string_filter(self._search)
        steps: list[Step] = []
        for piece in in_pieces(scrubbed):
            self.pause()
            steps += string.feed(piece)
        return _spans(steps + string.end(), range(len(text) + 1) if scrubbed == text else _positions(text))

    def key(self, key: str) -> str:
        """Return the key of an object, cleaned; it is never read as JSON."""
        return clean_plain(self._search, key)

    def hides(self, key: str, value: object) -> bool:
        """Return whether the value of a key is withheld. Null and token counts are not (D25)."""
        return value is not None and self._search.keys.hides(key, value)

    def mark_of(self, number: float) -> str | None:
        """Return the mark for a number that is registered."""
        values = self._search.values
        return values.mark_of_number(repr(number)) if values.has_numbers else None


def without(text: str, spans: Iterable[Span]) -> str:
    """Return a text with marks in place of its spans. Overlapping spans get the mark of the first."""
    parts: list[str] = []
    at = 0
    for start, end, mark in sorted(spans):
        if start >= at:
            parts += (text[at:start], mark)
        at = max(at, end)
    return "".join([*parts, text[at:]])


def _spans(steps: list[Step], positions: range | list[int]) -> list[Span]:
    """Convert steps over a text into spans. An empty mark extends the previous span; uncovered text is withheld."""
    uncovered = len(positions) - 1 - sum(count for count, _ in steps)
    found: list[Span] = []
    at = 0
    announced = ""  # the mark of a value that is read after it
    for count, mark in (*steps, (uncovered, REDACTED)):
        start, at = at, at + count
        if mark is None:
            continue
        if not count:
            announced = announced or mark
        elif not mark and not announced and found and found[-1].end == positions[start]:
            found[-1] = found[-1]._replace(end=positions[at])
        else:
            found.append(Span(positions[start], positions[at], announced or mark))
            announced = ""
    return found


_PAIR: Final = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")


def _positions(text: str) -> list[int]:
    """Return the position of each character in a text where surrogate pairs count as two, and the text's end."""
    positions = []
    at = 0
    while at < len(text):
        positions.append(at)
        at += 2 if _PAIR.match(text, at) else 1
    return [*positions, at]
