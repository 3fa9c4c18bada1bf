"""Truncation of an event to the limit of one event (CONTRACT D37).

Deltas are short. Only events that repeat a whole can be too large: the end of a part, an item or the response, and
tool outputs. Their long texts are truncated to one size; then items are dropped from the end of the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from projector.contracts import codec
from projector.redaction import compose
from projector.redaction.clean import Notice, bounded, notice, render

Path: TypeAlias = tuple[str | int, ...]

EVENT_MAX_BYTES: Final = 16 * 1024 * 1024
"""Limit of one event. A whole response object repeats all texts (D37)."""

SMALL_BYTES: Final = 1_024
"""Shorter texts are not truncated: IDs, names, types and titles."""


def truncate_event(
    event: dict[str, Any], max_bytes: int, whole_members: frozenset[str] = frozenset()
) -> tuple[dict[str, Any], list[Notice]]:
    """Return a copy of an event within `max_bytes` of JSON, and notices of what was truncated.

    Args:
        event: the event.
        max_bytes: limit of its JSON.
        whole_members: members that are emptied instead of truncated.
    """
    event = _copied(event)
    excess = codec.size(event) - max_bytes
    texts = [(holder, path, codec.size(holder[path[-1]])) for holder, path in _texts(event, ())]
    long = [row for row in texts if row[2] > SMALL_BYTES]
    room = sum(size for _, _, size in long) - excess
    fitting = compose.greatest(lambda share: sum(min(size, share) for _, _, size in long) <= room, max_bytes)
    share = max(fitting, SMALL_BYTES)
    notices = []
    for holder, path, size in long:
        if size > share:
            name = path[-1]
            holder[name] = "" if name in whole_members else compose.shrink_text(holder[name], share).value
            notices.append(notice("truncated", render(path).removeprefix(".")))
    return event, list(bounded(notices + _drop_items(event, max_bytes)))


def _copied(value: Any) -> Any:
    """Return a copy of a tree, in which no container stands twice."""
    if isinstance(value, dict):
        return {name: _copied(member) for name, member in value.items()}
    return [_copied(entry) for entry in value] if isinstance(value, list | tuple) else value


def _drop_items(event: dict[str, Any], max_bytes: int) -> list[Notice]:
    """Drop as many items from the end of the output as necessary. Clients have received each of them before."""
    output = event.get("response", {}).get("output")
    excess = codec.size(event) - max_bytes
    if not output or excess <= 0:
        return []
    while output and excess > 0:
        excess -= codec.size(output.pop()) + 1
    return [notice("truncated", "response.output")]


def _texts(value: object, path: Path) -> Iterator[tuple[Any, Path]]:
    """Yield every text in a value: the container that holds it, and its path."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in steps:
        if isinstance(member, str):
            yield value, (*path, step)
        else:
            yield from _texts(member, (*path, step))
