"""Cuts large clean fields into pieces that fit a frame (seed section 7.3, CONTRACT D21 and D27)."""

from __future__ import annotations

from projector.contracts import limits
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanText


def split_delta(delta: Cleaned[CleanText]) -> list[Cleaned[CleanText]]:
    """Give a delta as deltas that fit a frame each; nothing for an empty one. The first carries the notices."""
    if len(delta.value) <= limits.DELTA_MAX_CHARS:
        return [delta] if delta.value or delta.notices else []
    first, *more = compose.split(delta.value, limits.DELTA_MAX_CHARS)
    return [Cleaned(first, delta.notices), *(Cleaned(piece) for piece in more)]


def split_base64(text: CleanText, max_chars: int) -> list[CleanText]:
    """Give base64 text in pieces that each decode alone: `max_chars` rounded down to a multiple of 4."""
    return compose.split(text, max(max_chars - max_chars % 4, 4))
