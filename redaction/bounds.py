"""Cutting clean values down to a budget of encoded bytes (CONTRACT D27)."""

from __future__ import annotations

from contracts import codec
from redaction.clean import TRUNCATED_HERE, Cleaned, CleanJson, CleanText


def shrink_text(text: CleanText, max_bytes: int) -> Cleaned[CleanText]:
    """Cut text so that its JSON string takes at most `max_bytes`, quotes included."""
    if len(codec.dumps(text)) <= max_bytes:
        return Cleaned(text)
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(codec.dumps(text[:middle])) <= max_bytes else (low, middle - 1)
    return Cleaned(CleanText(text[:low]), TRUNCATED_HERE)


def shrink(value: CleanJson, max_bytes: int) -> Cleaned[CleanJson]:
    """Cut a tree so that its JSON takes at most `max_bytes`."""
    if len(codec.dumps(value)) <= max_bytes:
        return Cleaned(value)
    empty: object = {} if isinstance(value, dict) else [] if isinstance(value, list) else None
    return Cleaned(CleanJson(empty), TRUNCATED_HERE)
