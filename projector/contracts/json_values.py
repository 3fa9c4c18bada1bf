"""What makes a JSON text expensive to parse, found without parsing it: many values, long texts.

A parsed value takes up to a hundred times its bytes: eight megabytes of `{}` become two hundred in memory, and parsing
them holds the interpreter for a second, in any thread. A character above U+FFFF makes each character of its text take
four bytes, so a single one at the end of 28 megabytes takes 70 ms. Texts are read in pieces: a search, too, holds the
interpreter until it ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_INSIDE: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+|)*+', re.DOTALL)
"""What a JSON string consists of between its quotes."""
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


def has_long_text(text: bytes, most: int) -> bool:
    """Return whether a string of a JSON text has more than `most` bytes and is not ASCII, which base64 is."""
    if len(text) <= most or text.isascii():
        return False
    return any(end - start > most and not text[start:end].isascii() for start, end in _strings(text))


def _strings(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of the content of each string; an unterminated one ends with the text."""
    end = len(text)
    quote = text.find(b'"')
    while quote >= 0:
        start = at = quote + 1
        while at < end:
            after = _INSIDE.match(text, at, min(at + _PIECE_BYTES, end)).end()  # type: ignore[union-attr] # matches nothing
            if text[after : after + 1] == b'"' or after == at:
                at = after
                break
            at = after
        yield start, at
        quote = text.find(b'"', at + 1)


def _separators_between_strings(text: bytes, most: int) -> int:
    count, end = 1, 0
    for number, (start, stop) in enumerate(_strings(text)):
        count += _separators(text, most, end, start) - 1
        end = stop + 1
        if count > most or number > 2 * most:  # each value has at most one string more, its name
            return most + 1
    return min(count + _separators(text, most, end) - 1, most + 1)
