"""What one stream of Open Responses remembers, and how it says an event: numbered, bounded, begun before all else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.contracts import codec
from projector.core.canonical import Frame, WireEvent
from projector.dialects.openresponses.fitting import fit
from projector.dialects.openresponses.items import VENDOR, Item
from projector.dialects.openresponses.response import ResponseObject

ENVELOPE: Final = frozenset(
    {
        *("schema", "event_id", "stream_id", "server_timestamp", "conversation_id", "response_id", "agent", "workflow"),
        "provider_sequence_number",
    }
)
"""Members of the public envelope; an event of this dialect has its own. Notices are no part of it here."""

PLACED: Final = ENVELOPE | {"kind", "item_id", "output_index"}
"""Members of a frame that an event says in its own way."""


class Stream:
    """The items and the response of one stream, and what the frame at hand has made it say."""

    def __init__(self, max_bytes: int) -> None:
        self.response = ResponseObject()
        self.items: dict[str, Item] = {}
        """Announced items by their ids, those of which nothing is said left out."""
        self.said: list[WireEvent] = []
        """What the frame at hand says."""
        self._max_bytes = max_bytes
        self._sequence = 0
        self._output: list[Item] = []
        self._is_begun = False
        self._is_under_way = False

    def say(self, name: str, members: Mapping[str, Any]) -> None:
        """Say an event; where it is too large, what is cut of it is said before."""
        data = codec.dumps({"type": name, "sequence_number": self._sequence, **members})
        if len(data) > self._max_bytes:
            cut, notices = fit({"type": name, "sequence_number": self._sequence + 1, **members}, self._max_bytes)
            self.say(f"{VENDOR}:notices", {"about": name, "notices": [row._asdict() for row in notices]})
            data = codec.dumps(cut)
        self.said.append((name, data))
        self._sequence += 1

    def begin(self, frame: Frame, status: str = "in_progress") -> None:
        """Say that the response has begun, unless that was said."""
        if self._is_begun:
            return
        self._is_begun = True
        self.response.begin(frame)
        self.say("response.created", {"response": self.response.wire(status)})
        if status == "queued":
            self.say("response.queued", {"response": self.response.wire(status)})

    def go_on(self, frame: Frame) -> None:
        """Say that the response is under way, unless that was said."""
        if self._is_under_way:
            return
        self._is_under_way = True
        self.begin(frame)
        self.say("response.in_progress", {"response": self.response.wire("in_progress")})

    def announce(self, item: Item) -> None:
        """Say that an item begins, behind those that were said."""
        item.announce(len(self._output))
        self._output.append(item)
        self.say("response.output_item.added", {"output_index": item.index, "item": item.wire()})

    def finish(self, item: Item) -> None:
        """Say that an item has ended."""
        self.say("response.output_item.done", {"output_index": item.index, "item": item.wire()})

    def extend(self, frame: Frame, item: Item | None = None) -> None:
        """Say what Open Responses has no word for: the members of the public event, under our own name."""
        members = {name: value for name, value in frame.items() if name not in PLACED}
        self.say(f"{VENDOR}:{frame['kind']}", members if item is None else item.place | members)

    def note(self, frame: Frame) -> None:
        """Say what was withheld or cut in what the frame says."""
        if notices := frame.get("notices"):
            item = self.items.get(frame.get("item_id", ""))
            place = item.place if item is not None else {}
            self.say(f"{VENDOR}:notices", {"about": frame["kind"], **place, "notices": notices})

    def end(self, event: str, status: str, **members: Any) -> None:
        """Say the end of the response, with everything that was said."""
        output = [item.wire() for item in self._output]
        self.say(event, {"response": self.response.wire(status, output=output, **members)})
