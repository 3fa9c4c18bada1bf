"""Events within the dialect's budget of bytes (CONTRACT D37).

Texts go first, all cut to one size; then items, the last first.
Deltas are bounded before they come here. Only what repeats a whole can be too large: the end of a part, of an item, of
the response, and what tools said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from projector.contracts import codec
from projector.redaction import bounds
from projector.redaction.clean import Notice, bounded, notice, render

Place = tuple[str | int, ...]

EVENT_MAX_BYTES: Final = 16 * 1024 * 1024
"""One event: a whole response object has all texts in it (D37)."""

SMALL_BYTES: Final = 1_024
"""Texts below this are not cut: ids, names, types and titles."""


def fit(event: dict[str, Any], max_bytes: int) -> tuple[dict[str, Any], list[Notice]]:
    """Give a copy of the event whose JSON takes at most `max_bytes`, and notices of what was cut."""
    event = _copy(event)
    excess = len(codec.dumps(event)) - max_bytes
    texts = [(holder, place, len(codec.dumps(holder[place[-1]]))) for holder, place in _texts(event, ())]
    large = [row for row in texts if row[2] > SMALL_BYTES]
    room = sum(size for _, _, size in large) - excess
    share = max(_share(sorted(size for _, _, size in large), room), SMALL_BYTES)
    notices = []
    for holder, place, size in large:
        if size > share:
            cut = bounds.shrink_text(holder[place[-1]], share)
            holder[place[-1]] = cut.value
            notices.append(notice("truncated", render(place).removeprefix(".")))
    return event, list(bounded(notices + _drop_items(event, max_bytes)))


def _share(sizes: list[int], room: int) -> int:
    """Give the greatest size so that texts of these sizes, in rising order, fit into the room when cut to it."""
    for done, size in enumerate(sizes):
        share = room // (len(sizes) - done)
        if size >= share:
            return share
        room -= size
    return room


def _drop_items(event: dict[str, Any], max_bytes: int) -> list[Notice]:
    """Leave out items of a response from its end, as far as the budget asks; clients have had each by itself."""
    output = event.get("response", {}).get("output")
    excess = len(codec.dumps(event)) - max_bytes
    if not output or excess <= 0:
        return []
    while output and excess > 0:
        excess -= len(codec.dumps(output.pop())) + 1
    return [notice("truncated", "response.output")]


def _texts(value: object, place: Place) -> Iterator[tuple[Any, Place]]:
    """Give every text below a value: what holds it, and its place."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in steps:
        if isinstance(member, str):
            yield value, (*place, step)
        else:
            yield from _texts(member, (*place, step))


def _copy(value: Any) -> Any:
    """Give a copy of the containers of a tree."""
    if isinstance(value, dict):
        return {key: _copy(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(member) for member in value]
    return value
