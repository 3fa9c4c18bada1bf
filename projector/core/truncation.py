"""Keep frames within their limits: split long fields into pieces, cut a frame that is too large (CONTRACT D21, D27)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts import codec, limits, paths
from projector.core.canonical import Frame
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanText, Notice, bounded

HOLDERS: Final[Mapping[str, str]] = {
    "tool.status": "tool",
    "message.citation": "citation",
    "error": "error",
    "final": "final",
}
"""Kinds with their fields in a member of their own; all other kinds have them at the top level."""

NOTICES: Final = "notices"
SMALL_BYTES: Final = 1_024
"""Smaller fields are never cut: ids, names and context together stay far below any budget."""
ROUNDS: Final = 16
"""Each round leaves room for the notices of the one before; two were enough for nearly every frame seen."""


def split_delta(delta: Cleaned[CleanText]) -> list[Cleaned[CleanText]]:
    """Split a delta into deltas that fit a frame each; none for an empty one. The first carries the notices."""
    if len(delta.value) <= limits.DELTA_MAX_CHARS:
        return [delta] if delta.value or delta.notices else []
    first, *more = compose.split(delta.value, limits.DELTA_MAX_CHARS)
    return [Cleaned(first, delta.notices), *(Cleaned(piece) for piece in more)]


def split_base64(text: CleanText, max_chars: int) -> list[CleanText]:
    """Split base64 text into pieces that each decode alone: `max_chars` rounded down to a multiple of 4."""
    return compose.split(text, max(max_chars - max_chars % 4, 4))


def fit(frame: Frame, max_bytes: int) -> Frame:
    """Return a copy of a frame whose JSON has at most `max_bytes`: the longest fields are cut first, with notices."""
    target, step, before = max_bytes, 0, codec.size(frame)
    for _ in range(ROUNDS):
        truncated = _cut_to(frame, target)
        excess = codec.size(truncated) - max_bytes
        if excess <= 0:
            break
        step = excess if excess < before else 2 * step  # a thousand strings lose a thousand characters at a time
        target, before = target - step, excess
    return truncated


def _cut_to(frame: Frame, max_bytes: int) -> Frame:
    """Cut fields until they fit, not counting the added notices."""
    holder = HOLDERS.get(frame["kind"])
    prefix = f"{holder}." if holder else ""
    fields: dict[str, Any] = dict(frame[holder]) if holder else dict(frame)
    sizes = {name: codec.size(value) for name, value in fields.items() if name != NOTICES}
    large = sorted((name for name, size in sizes.items() if size > SMALL_BYTES), key=sizes.__getitem__, reverse=True)
    excess = codec.size(frame) - max_bytes
    share = max_bytes // (2 * len(large) or 1)  # all of them together leave half of the budget for the rest
    notices = [Notice(**notice) for notice in frame.get(NOTICES, ())]
    for name in large:
        if excess <= 0:
            break
        cut = compose.shrink(fields[name], max(sizes[name] - excess, min(share, sizes[name] - 1)))
        fields[name] = cut.value
        notices += [notice._replace(path=f"{prefix}{name}{notice.path}") for notice in cut.notices]
        excess -= sizes[name] - codec.size(cut.value)
    truncated: Frame = {**frame, holder: fields} if holder else fields
    present = [notice for notice in notices if paths.resolve(truncated, notice.path) is not paths.ABSENT]
    if present:
        truncated[NOTICES] = [notice._asdict() for notice in bounded(present)]
    return truncated
