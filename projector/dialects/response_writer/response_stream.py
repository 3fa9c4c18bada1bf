"""State of one stream, and its events: numbering, size limit (CONTRACT D37), start and end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from projector.contracts import codec
from projector.contracts.kinds import VENDOR
from projector.core.canonical import Frame, WireEvent
from projector.dialects.frame_writer import NUMBER_PLACE, TEXT_PLACE, VALUES_MAX_BYTES, IdAllocator, pattern_of
from projector.dialects.response_writer.event_truncation import EVENT_MAX_BYTES, truncate_event
from projector.dialects.response_writer.output_items import Item
from projector.dialects.response_writer.protocol import WireProtocol
from projector.dialects.response_writer.response_object import ResponseObject

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
    """Response, items and numbering of one stream. The events of the current frame are collected in `events`.

    Args:
        protocol: what the stream may write.
        max_bytes: limit of one event.
        has_extensions: whether events of our own are written; None: as the protocol has it.
    """

    def __init__(
        self, protocol: WireProtocol, max_bytes: int = EVENT_MAX_BYTES, *, has_extensions: bool | None = None
    ) -> None:
        self.protocol = protocol
        self.has_extensions = protocol.has_extensions if has_extensions is None else has_extensions
        self.response = ResponseObject(protocol)
        self.items: dict[str, Item] = {}
        """ID -> item, without the items that are not written."""
        self.details: dict[str, Mapping[str, object]] = {}
        """ID -> members of an item that were known before its announcement."""
        self.output_ids = IdAllocator()
        """Allocates the IDs of outputs, which the provider does not announce."""
        self.events: list[WireEvent] = []
        self.last_delta: Mapping[str, Any] = {}
        """The event of the last delta of a text."""
        self._max_bytes = max_bytes
        self._sequence = 0
        self._output: list[Item] = []
        self._has_begun = False
        self._is_in_progress = False

    def emit(self, name: str, members: Mapping[str, Any]) -> dict[str, Any]:
        """Write an event, and return it. If it is too large it is truncated, and notices of that are written first."""
        event = {"type": name, "sequence_number": self._sequence, **members}
        is_large = "response" in members and codec.size(event) > self._max_bytes  # it may have texts of megabytes
        data = b"" if is_large else codec.dumps(event)
        if is_large or len(data) > self._max_bytes:
            event["sequence_number"] += self.has_extensions
            truncated, notices = truncate_event(event, self._max_bytes, self.protocol.whole_members)
            self.emit_own("notices", {"about": name, "notices": [row._asdict() for row in notices]})
            data = codec.dumps(truncated)
        self.events.append((name, data))
        self._sequence += 1
        return event

    def repeat_delta(self) -> Callable[[Sequence[bytes]], list[WireEvent]] | None:
        """Return a writer of further deltas of the last text; None if their events may be too large."""
        name, pattern = self.last_delta["type"], pattern_of(self.last_delta, _PLACES)
        if len(pattern) + VALUES_MAX_BYTES > self._max_bytes:
            return None

        def write(deltas: Sequence[bytes]) -> list[WireEvent]:
            first = self._sequence
            self._sequence += len(deltas)
            return [(name, pattern % values) for values in enumerate(deltas, first)]

        return write

    def emit_own(self, name: str, members: Mapping[str, Any]) -> None:
        """Write an event of our own, if the client accepts those."""
        if self.has_extensions:
            self.emit(f"{VENDOR}:{name}", members)

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
        if self.has_extensions:
            members = {name: value for name, value in frame.items() if name not in TRANSLATED}
            self.emit_own(frame["kind"], item.position | members)

    def emit_notices(self, frame: Frame) -> None:
        """Write the notices of a frame, if it has any."""
        if notices := frame.get("notices"):
            item = self.items.get(frame.get("item_id", ""))
            position = item.position if item is not None else {}
            self.emit_own("notices", {"about": frame["kind"], **position, "notices": notices})

    def end(self, event: str, status: str, **members: Any) -> None:
        """Write the end of the response, with its whole output."""
        output = [item.wire() for item in self._output]
        self.emit(event, {"response": self.response.wire(status, output=output, **members)})


_PLACES: Final[Mapping[str, bytes]] = {"sequence_number": NUMBER_PLACE, "delta": TEXT_PLACE}
"""What differs within a run of deltas, in the order in which an event has it."""
