"""One text made of the texts of several items, in the order in which they were streamed (CONTRACT D13).

A completion has one `content`, one `refusal` and one `reasoning_content`. One item is written at a time: texts of items
that are streamed beside it, as by parallel branches, wait until it is done, so that sentences are never mixed.
"""

from __future__ import annotations

from typing import Final

BLANK_LINE: Final = "\n\n"
"""Between the texts of two items."""


class _Waiting:
    """Deltas of an item that cannot be written yet, with their parts."""

    __slots__ = ("deltas", "is_done")

    def __init__(self) -> None:
        self.deltas: list[tuple[int, str]] = []
        self.is_done = False


class JoinedText:
    """The joined text of one stream. Each method returns the deltas to write now.

    Args:
        between_parts: text between two parts of one item.
    """

    __slots__ = ("_between_parts", "_current", "_part", "_starts", "_waiting", "length")

    def __init__(self, between_parts: str = BLANK_LINE) -> None:
        self.length = 0
        """Length of everything written, in code points."""
        self._starts: dict[str, dict[int, int]] = {}
        """Item -> index of a part -> the position of its text."""
        self._between_parts = between_parts
        self._current: str | None = None
        self._part = 0
        self._waiting: dict[str, _Waiting] = {}

    def __contains__(self, item_id: str) -> bool:
        """Return whether an item has text, written or waiting."""
        return item_id in self._starts or item_id in self._waiting

    def start(self, item_id: str, index: int) -> int:
        """Return the position of the text of a part; 0 if it has none."""
        return self._starts.get(item_id, {}).get(index, 0)

    def is_current(self, item_id: str) -> bool:
        """Return whether deltas of an item are written at once, as they are within a part."""
        return item_id == self._current

    def feed(self, item_id: str, index: int, delta: str) -> list[str]:
        """Add a delta of a part of an item."""
        if item_id == self._current and index == self._part:
            self.length += len(delta)
            return [delta]
        if not delta:
            return []
        if self._current is None or item_id == self._current:
            return [self._write(item_id, index, delta)]
        self._waiting.setdefault(item_id, _Waiting()).deltas.append((index, delta))
        return []

    def close(self, item_id: str) -> list[str]:
        """End an item. If it is the current one, the next waiting item is written."""
        if item_id != self._current:
            if item_id in self._waiting:
                self._waiting[item_id].is_done = True
            return []
        self._current = None
        written: list[str] = []
        while self._waiting:
            following = next(iter(self._waiting))
            waiting = self._waiting.pop(following)
            written += [self._write(following, index, delta) for index, delta in waiting.deltas]
            if not waiting.is_done:
                break
            self._current = None
        return written

    def _write(self, item_id: str, index: int, delta: str) -> str:
        """Return a delta with what separates it from the text before it."""
        separator = ""
        if item_id != self._current:
            separator = BLANK_LINE if self.length else ""
        elif index != self._part:
            separator = self._between_parts
        self._current, self._part = item_id, index
        self._starts.setdefault(item_id, {}).setdefault(index, self.length + len(separator))
        self.length += len(separator) + len(delta)
        return separator + delta
