"""Sequence numbers that were read, to find deltas that a gateway sends again (CONTRACT D52)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

RECENT_MAX: Final = 64
"""Events of which the content is kept: a gateway repeats the last ones, after a connection of its own broke."""


class ReadNumbers:
    """The numbers of one stream. Once a number stands for two events, numbers mean nothing in it."""

    __slots__ = ("_is_reliable", "_recent", "highest")

    def __init__(self) -> None:
        self._recent: deque[tuple[int, object]] = deque(maxlen=RECENT_MAX)
        self.highest = -1
        """The highest number so far."""
        self._is_reliable = True

    def is_repeated(self, event: Mapping[str, Any]) -> bool:
        """Record an event; return whether it is a delta that was read before, under its number."""
        number, delta = event.get("sequence_number"), event.get("delta")
        if type(number) is not int or not self._is_reliable:
            return False
        content = event["type"] if delta is None else delta
        if number > self.highest:  # nearly every event
            self.highest = number
            self._recent.append((number, content))
            return False
        known = [said for at, said in self._recent if at == number]
        self._is_reliable = not known or known[0] == content
        return delta is not None and bool(known) and self._is_reliable

    def add(self, numbers: Iterable[int], deltas: Iterable[str]) -> None:
        """Record deltas, whose numbers rise."""
        self._recent.extend(zip(numbers, deltas, strict=True))
        self.highest = self._recent[-1][0]
