"""Frames as one value: each after its length, so that frames may have any bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_LENGTH: Final = 4
"""Bytes of a length."""


def pack(frames: Iterable[bytes]) -> bytes:
    """Join frames."""
    return b"".join([part for frame in frames for part in (len(frame).to_bytes(_LENGTH, "big"), frame)])


def unpack(packed: bytes) -> list[bytes]:
    """Split what `pack` has joined.

    Raises:
        ValueError: it was not made by `pack`.
    """
    frames, start = [], 0
    while start < len(packed):
        end = start + _LENGTH + int.from_bytes(packed[start : start + _LENGTH], "big")
        frames.append(packed[start + _LENGTH : end])
        start = end
    if start != len(packed):
        raise ValueError("packed frames are cut off")
    return frames
