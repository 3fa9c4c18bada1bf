"""Fits a frame into a budget of bytes: its longest fields are cut, each with a notice (CONTRACT D27, D37)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts import codec, paths
from projector.core.canonical import Frame
from projector.redaction import bounds
from projector.redaction.clean import Notice, bounded

HOLDERS: Final[Mapping[str, str]] = {
    "tool.status": "tool",
    "message.citation": "citation",
    "error": "error",
    "final": "final",
}
"""Kinds whose fields stand in a member of their own; those of every other kind stand at the top."""

NOTICES: Final = "notices"
SMALL_BYTES: Final = 1_024
"""Fields below this are never cut: ids, names and context together stay far below any budget."""
ROUNDS: Final = 8
"""Each round leaves room for the notices of the one before; two are enough for all that was seen."""


def fit(frame: Frame, max_bytes: int) -> Frame:
    """Give a copy of the frame whose JSON is at most `max_bytes`; the longest field is cut first."""
    target = max_bytes
    for _ in range(ROUNDS):
        fitted = _cut_to(frame, target)
        excess = len(codec.dumps(fitted)) - max_bytes
        if excess <= 0:
            break
        target -= excess
    return fitted


def _cut_to(frame: Frame, max_bytes: int) -> Frame:
    """Cut fields until they fit, not counting the notices that say so."""
    holder = HOLDERS.get(frame["kind"])
    prefix = f"{holder}." if holder else ""
    fields: dict[str, Any] = dict(frame[holder]) if holder else dict(frame)
    sizes = {name: len(codec.dumps(value)) for name, value in fields.items() if name != NOTICES}
    large = sorted((name for name, size in sizes.items() if size > SMALL_BYTES), key=sizes.__getitem__, reverse=True)
    excess = len(codec.dumps(frame)) - max_bytes
    share = max_bytes // (2 * len(large) or 1)  # all of them together leave half of the budget for the rest
    notices = [Notice(**notice) for notice in frame.get(NOTICES, ())]
    for name in large:
        if excess <= 0:
            break
        cut = bounds.shrink(fields[name], max(sizes[name] - excess, min(share, sizes[name] - 1)))
        fields[name] = cut.value
        notices += [notice._replace(path=f"{prefix}{name}{notice.path}") for notice in cut.notices]
        excess -= sizes[name] - len(codec.dumps(cut.value))
    fitted: Frame = {**frame, holder: fields} if holder else fields
    there = [notice for notice in notices if paths.resolve(fitted, notice.path) is not paths.ABSENT]
    if there:
        fitted[NOTICES] = [notice._asdict() for notice in bounded(there)]
    return fitted
