"""Cutting of clean values to a budget of encoded bytes (CONTRACT D27).

Long strings go first: all are cut to the same length, the greatest that fits. Where short strings are too many, the
tails of long containers go too: all keep the same number of entries, the greatest that fits. Short strings and small
containers are therefore kept, in whatever order they appear.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import islice
from typing import Final

from projector.contracts import codec
from projector.contracts.limits import CONTAINER_MAX_ENTRIES
from projector.redaction.clean import (
    TRUNCATED_HERE,
    Cleaned,
    CleanJson,
    CleanText,
    Notice,
    bounded,
    cut_text,
    notice,
    render,
)

_SHORT_BYTES: Final = 128
"""Minimum size of a truncated string while entries can still be dropped: whole words matter more than many entries."""
_QUOTES: Final = 2


def shrink_text(text: CleanText, max_bytes: int) -> Cleaned[CleanText]:
    """Cut text so that its JSON string takes at most `max_bytes`, quotes and escapes included."""
    short = _cut(text, max_bytes)
    return Cleaned(text) if short == text else Cleaned(CleanText(short), TRUNCATED_HERE)


def shrink(value: CleanJson, max_bytes: int) -> Cleaned[CleanJson]:
    """Cut a tree so that its JSON takes at most `max_bytes`; an object stays an object, an array an array.

    A number or a literal alone is returned as it is: there is nothing to cut.
    """
    if len(codec.dumps(value)) <= max_bytes:
        return Cleaned(value)
    entries = _greatest(lambda count: _Measure(count, _SHORT_BYTES, max_bytes).fits(value), CONTAINER_MAX_ENTRIES)
    measure = _Measure(entries, max_bytes)
    measure.fits(value)
    rest = max_bytes - measure.fixed
    length = _greatest(lambda most: sum(min(size, max(most, _QUOTES)) for size in measure.strings) <= rest, max_bytes)
    trim = _Trim(entries, length)
    tree = trim.value(value)
    return Cleaned(CleanJson(tree), bounded(trim.notices))


def _cut(text: str, max_bytes: int) -> str:
    if len(text) * 6 + _QUOTES <= max_bytes:
        return text
    if len(text) <= max_bytes and len(codec.dumps(text)) <= max_bytes:
        return text
    count = _greatest(lambda chars: len(codec.dumps(text[:chars])) <= max_bytes, min(len(text), max_bytes))
    return cut_text(text, count)


def _greatest(fits: Callable[[int], bool], most: int) -> int:
    """Return the greatest number up to `most` that fits, 0 if none does."""
    return bisect_left(range(1, most + 1), True, key=lambda number: not fits(number))  # the key to find


class _Measure:
    """Size of a tree with at most `entries` in each container and `string_bytes` in each string."""

    def __init__(self, entries: int, string_bytes: int, max_bytes: int | None = None) -> None:
        self._entries = entries
        self._string_bytes = string_bytes
        self._max_bytes = max_bytes
        self._total = 0
        self.fixed = 0
        self.strings: list[int] = []

    def fits(self, value: object) -> bool:
        """Return whether the tree fits into `max_bytes`, if there is such a limit; read no further than needed."""
        if isinstance(value, str):
            size = min(_size(value, self._string_bytes), self._string_bytes)
            self.strings.append(size)
            self._total += size
        elif isinstance(value, dict):
            self._add(_QUOTES + max(0, min(len(value), self._entries) - 1))
            for key, member in islice(value.items(), self._entries):
                self._add(len(codec.dumps(key)) + 1)
                if not self.fits(member):
                    return False
        elif isinstance(value, list):
            self._add(_QUOTES + max(0, min(len(value), self._entries) - 1))
            if not all(self.fits(entry) for entry in islice(value, self._entries)):
                return False
        else:
            self._add(len(codec.dumps(value)))
        return self._max_bytes is None or self._total <= self._max_bytes

    def _add(self, size: int) -> None:
        self.fixed += size
        self._total += size


def _size(text: str, enough: int) -> int:
    """Return the encoded size of a string, at most `enough` for a very long one."""
    return len(codec.dumps(text)) if len(text) < enough else enough


class _Trim:
    def __init__(self, entries: int, string_bytes: int) -> None:
        self._entries = entries
        self._string_bytes = string_bytes
        self._path: list[str | int] = []
        self.notices: list[Notice] = []

    def value(self, value: object) -> object:
        if isinstance(value, str):
            short = _cut(value, self._string_bytes)
            self._note(short != value)
            return short
        if isinstance(value, dict):
            self._note(len(value) > self._entries)
            return {key: self._at(key, member) for key, member in islice(value.items(), self._entries)}
        if isinstance(value, list):
            self._note(len(value) > self._entries)
            return [self._at(index, entry) for index, entry in enumerate(value[: self._entries])]
        return value

    def _at(self, step: str | int, value: object) -> object:
        self._path.append(step)
        trimmed = self.value(value)
        self._path.pop()
        return trimmed

    def _note(self, is_cut: bool) -> None:  # noqa: FBT001  # the fact, not a switch
        if is_cut:
            self.notices.append(notice("truncated", render(self._path)))
