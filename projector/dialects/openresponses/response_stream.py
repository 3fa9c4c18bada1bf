"""State of one Open Responses stream, and its events: numbering, size limit (CONTRACT D37), start and end.

Deltas are short. Only events that repeat a whole can be too large: the end of a part, an item or the response, and
tool outputs. Their long texts are truncated to one size; then items are dropped from the end of the output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import VENDOR
from projector.core.canonical import Frame, WireEvent
from projector.dialects.openresponses.output_items import Item
from projector.dialects.openresponses.response_object import ResponseObject
from projector.redaction import compose
from projector.redaction.clean import Notice, bounded, notice, render

Path: TypeAlias = tuple[str | int, ...]

EVENT_MAX_BYTES: Final = 16 * 1024 * 1024
"""Limit of one event. A whole response object repeats all texts (D37)."""

SMALL_BYTES: Final = 1_024
"""Shorter texts are not truncated: IDs, names, types and titles."""

ENVELOPE: Final = frozenset(
    {
        *("schema", "event_id", "stream_id", "server_timestamp", "conversation_id", "response_id", "agent", "workflow"),
        "provider_sequence_number",
    }
)
"""Members of the public envelope, without notices. Events of this dialect do not repeat them."""

TRANSLATED: Final = ENVELOPE | {"kind", "item_id", "output_index"}
"""Members of a frame that an event of our own does not copy."""


class ResponseStream:
    """Response, items and numbering of one stream. The events of the current frame are collected in `events`."""

    def __init__(self, max_bytes: int) -> None:
        self.response = ResponseObject()
        self.items: dict[str, Item] = {}
        """ID -> item, without the items that are not written."""
        self.events: list[WireEvent] = []
        self._max_bytes = max_bytes
        self._sequence = 0
        self._output: list[Item] = []
        self._has_begun = False
        self._is_in_progress = False

    def emit(self, name: str, members: Mapping[str, Any]) -> None:
        """Write an event. If it is too large it is truncated, and notices of that are written first."""
        data = codec.dumps({"type": name, "sequence_number": self._sequence, **members})
        if len(data) > self._max_bytes:
            event = {"type": name, "sequence_number": self._sequence + 1, **members}
            truncated, notices = truncate_event(event, self._max_bytes)
            self.emit(f"{VENDOR}:notices", {"about": name, "notices": [row._asdict() for row in notices]})
            data = codec.dumps(truncated)
        self.events.append((name, data))
        self._sequence += 1

    def begin(self, frame: Frame, status: str = "in_progress") -> None:
        """Write the start of the response, once."""
        if self._has_begun:
            return
        self._has_begun = True
        self.response.begin(frame)
        self.emit("response.created", {"response": self.response.wire(status)})
        if status == "queued":
            self.emit("response.queued", {"response": self.response.wire(status)})

    def set_in_progress(self, frame: Frame) -> None:
        """Write that the response is in progress, once."""
        if self._is_in_progress:
            return
        self._is_in_progress = True
        self.begin(frame)
        self.emit("response.in_progress", {"response": self.response.wire("in_progress")})

    def announce(self, item: Item) -> None:
        """Write the start of an item, at the end of the output."""
        item.index = len(self._output)
        item.position = {"item_id": item.id, "output_index": item.index}
        self._output.append(item)
        self.emit("response.output_item.added", {"output_index": item.index, "item": item.wire()})

    def finish(self, item: Item) -> None:
        """Write the end of an item."""
        self.emit("response.output_item.done", {"output_index": item.index, "item": item.wire()})

    def emit_extension(self, frame: Frame, item: Item) -> None:
        """Write an event of our own, with the members of the public event, if the protocol has none."""
        members = {name: value for name, value in frame.items() if name not in TRANSLATED}
        self.emit(f"{VENDOR}:{frame['kind']}", item.position | members)

    def emit_notices(self, frame: Frame) -> None:
        """Write the notices of a frame, if it has any."""
        if notices := frame.get("notices"):
            item = self.items.get(frame.get("item_id", ""))
            position = item.position if item is not None else {}
            self.emit(f"{VENDOR}:notices", {"about": frame["kind"], **position, "notices": notices})

    def end(self, event: str, status: str, **members: Any) -> None:
        """Write the end of the response, with its whole output."""
        output = [item.wire() for item in self._output]
        self.emit(event, {"response": self.response.wire(status, output=output, **members)})


def truncate_event(event: dict[str, Any], max_bytes: int) -> tuple[dict[str, Any], list[Notice]]:
    """Return a copy of an event within `max_bytes` of JSON, and notices of what was truncated."""
    event = codec.loads(codec.dumps(event))
    excess = len(codec.dumps(event)) - max_bytes
    texts = [(holder, path, len(codec.dumps(holder[path[-1]]))) for holder, path in _texts(event, ())]
    long = [row for row in texts if row[2] > SMALL_BYTES]
    room = sum(size for _, _, size in long) - excess
    fitting = compose.greatest(lambda share: sum(min(size, share) for _, _, size in long) <= room, max_bytes)
    share = max(fitting, SMALL_BYTES)
    notices = []
    for holder, path, size in long:
        if size > share:
            holder[path[-1]] = compose.shrink_text(holder[path[-1]], share).value
            notices.append(notice("truncated", render(path).removeprefix(".")))
    return event, list(bounded(notices + _drop_items(event, max_bytes)))


def _drop_items(event: dict[str, Any], max_bytes: int) -> list[Notice]:
    """Drop as many items from the end of the output as necessary. Clients have received each of them before."""
    output = event.get("response", {}).get("output")
    excess = len(codec.dumps(event)) - max_bytes
    if not output or excess <= 0:
        return []
    while output and excess > 0:
        excess -= len(codec.dumps(output.pop())) + 1
    return [notice("truncated", "response.output")]


def _texts(value: object, path: Path) -> Iterator[tuple[Any, Path]]:
    """Yield every text in a value: the container that holds it, and its path."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in steps:
        if isinstance(member, str):
            yield value, (*path, step)
        else:
            yield from _texts(member, (*path, step))
