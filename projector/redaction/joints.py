"""Registered values that cross from one text into another, where a client joins both (CONTRACT D40).

Clients join the parts of a message with nothing between them, and messages, refusals and summaries with a blank line or
with nothing, in the order in which they arrive. Each text is searched by itself as it grows. What this module adds is
the seam: where a text begins or continues after another one, the rest of each value that the texts before may have
begun is withheld. The first characters of a value that were shown before stay, as at the end of a stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from projector.redaction.detector import Values

SEPARATORS: Final = ("", "\n\n")
"""Texts that clients write between two texts."""


class Rest(NamedTuple):
    """The rest of a value that may have begun in the texts before."""

    text: str
    mark: str
    missing: int
    """Characters of the rest that count as the whole value if no more follow."""


class Joint:
    """The end of the joined texts of one kind, as the registered values see it.

    `owner` is the text that was read last, and `recent` the end of what was read of it since it became the owner.
    """

    __slots__ = ("_before", "_values", "longest", "owner", "recent")

    def __init__(self, values: Values) -> None:
        self._values = values
        self._before: frozenset[str] = frozenset()
        """Beginnings of values with which the texts before the owner end, with what may separate them from it."""
        self.longest = values.longest
        self.owner: object = None
        self.recent = ""

    def add(self, text: str) -> None:
        """Add text of the owner."""
        self.recent = (self.recent + text)[-self.longest :]

    def turn(self, owner: object) -> tuple[Rest, ...]:
        """Continue with another text; return the rests that it must not begin with."""
        ends = self._ends()
        joined = {self._values.beginning_at_end(end + between) for end in ends if end for between in SEPARATORS}
        self._before = frozenset(joined - {""})
        self.owner, self.recent = owner, ""
        return tuple(dict.fromkeys(Rest(*row) for before in sorted(self._before) for row in self._values.rests(before)))

    def _ends(self) -> set[str]:
        return {self._values.beginning_at_end(before + self.recent) for before in (*self._before, "")}


def at_beginning(rests: Iterable[Rest], text: str) -> tuple[int, str] | None:
    """Return how many characters at the beginning of a text are withheld, and their mark; None if more must follow."""
    if any(len(rest.text) > len(text) and rest.text.startswith(text) for rest in rests):
        return None
    return _whole(rests, text)


def at_end(rests: Iterable[Rest], text: str) -> tuple[int, str]:
    """Return the same for a text that ends here: most of a value counts as the whole."""
    marks = [rest.mark for rest in rests if text and rest.text.startswith(text) and len(text) >= rest.missing]
    return (len(text), marks[0]) if marks else _whole(rests, text)


def _whole(rests: Iterable[Rest], text: str) -> tuple[int, str]:
    found = [rest for rest in rests if text.startswith(rest.text)]
    longest = max(found, key=lambda rest: len(rest.text), default=None)
    return (0, "") if longest is None else (len(longest.text), longest.mark)
