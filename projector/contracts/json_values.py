"""Number of values in a JSON text, without parsing it.

A parsed value takes up to a hundred times its bytes: eight megabytes of `{}` become two hundred in memory, and parsing
them holds the interpreter for a second, in any thread.
"""

from __future__ import annotations

import re
from typing import Final

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A JSON string, or an unterminated one up to the end, so that each byte is scanned once."""
_PIECE_BYTES: Final = 2**20
"""Bytes that are counted at once, so that a text with too many values is not counted to its end."""


def count_values(text: bytes, most: int) -> int:
    """Return an upper bound of the number of values in a JSON text; `most + 1` if there are more than `most`.

    The content of strings is skipped only if the limit would be exceeded otherwise.
    """
    count = _separators(text, most)
    return count if count <= most else _separators_between_strings(text, most)


def _separators(text: bytes, most: int, start: int = 0, end: int | None = None) -> int:
    count, end = 1, len(text) if end is None else end
    for at in range(start, end, _PIECE_BYTES):
        stop = min(at + _PIECE_BYTES, end)
        count += text.count(b",", at, stop) + text.count(b"{", at, stop) + text.count(b"[", at, stop)
        if count > most:
            return most + 1
    return count


def _separators_between_strings(text: bytes, most: int) -> int:
    count, end = 1, 0
    for number, string in enumerate(_STRING.finditer(text)):
        count += _separators(text, most, end, string.start()) - 1
        end = string.end()
        if count > most or number > 2 * most:  # each value has at most one string more, its name
            return most + 1
    return min(count + _separators(text, most, end) - 1, most + 1)
