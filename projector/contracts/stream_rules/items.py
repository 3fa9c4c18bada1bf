"""Rules of output items and their chunks (seed sections 6.3, 7.3, 9.2 and 9.11, CONTRACT D6, D7, D21, D22)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from projector.contracts import public_sse_v1 as events
from projector.contracts.kinds import TOOL_TYPES
from projector.contracts.limits import IMAGE_CHUNK_MAX_CHARS
from projector.contracts.parts import ChunkTarget, FunctionTool, UrlCitation, WebSearchTool
from projector.contracts.stream_rules.table import Finding

STRAY: Final = frozenset({"slot", "item_added_once", "item_done_once", "item_after_done", "item_kind"})
"""Rules whose violation means that an event cannot be assigned to its item; other groups then skip the event."""


@dataclass(slots=True)
class _Item:
    item_id: str
    item_type: str | None
    """None if the item was not announced."""
    is_open: bool
    response_id: str | None = None
    late_statuses: int = 0


class ItemRules:
    """Rules of each output item, from its announcement to its end."""

    def __init__(self) -> None:
        self._items: dict[int, _Item] = {}
        self._slots: dict[str, int] = {}
        self._citing: set[int] = set()
        """Slots of messages that cite a web page."""

    def check(self, event: events.PublicEvent, /) -> list[Finding]:
        """Check the next event."""
        if isinstance(event, events.ItemEvent):
            return self._item_event(event)
        if isinstance(event, events.ErrorEvent | events.FinalEvent):
            return [
                Finding("item_closed", f"expected `output_item.done` of item {slot} before the terminal")
                for slot, item in self._items.items()
                if item.is_open
            ]
        return []

    def _item_event(self, event: events.ItemEvent) -> list[Finding]:
        slot = event.output_index
        item = self._items.get(slot)
        if item is not None and item.item_id != event.item_id:
            return [Finding("slot", f"expected the `item_id` that item {slot} was announced with")]
        if self._slots.setdefault(event.item_id, slot) != slot:
            return [Finding("slot", f"expected `output_index` {self._slots[event.item_id]} for this `item_id`")]
        if isinstance(event, events.MessageCitation) and isinstance(event.citation, UrlCitation):
            self._citing.add(slot)
        return self._open(event) if item is None else self._response(event, item) + self._known(event, item)

    def _response(self, event: events.ItemEvent, item: _Item) -> list[Finding]:
        """Compare the response of an event with that of its item, which may be unknown at first."""
        item.response_id = item.response_id or event.response_id
        if event.response_id in {None, item.response_id} or _is_of_a_function(event):
            return []
        expected = f"expected the `response_id` that item {event.output_index} was announced with"
        return [Finding("item_response", expected)]

    def _known(self, event: events.ItemEvent, item: _Item) -> list[Finding]:
        slot, was_open = event.output_index, item.is_open
        if isinstance(event, events.OutputItemAdded):
            return [Finding("item_added_once", f"expected `output_item.added` of item {slot} once")]
        if isinstance(event, events.OutputItemDone):
            item.is_open = False
            return [] if was_open else [Finding("item_done_once", f"expected `output_item.done` of item {slot} once")]
        if not was_open and not self._may_be_late(event, item):
            return [Finding("item_after_done", f"expected no further event of item {slot}")]
        if item.item_type is not None and not fits(event, item.item_type):
            return [Finding("item_kind", f"expected only events that the `item_type` of item {slot} allows")]
        return []

    def _open(self, event: events.ItemEvent) -> list[Finding]:
        is_open = not isinstance(event, events.OutputItemDone)
        item_type = event.item_type if isinstance(event, events.OutputItemAdded) else None
        self._items[event.output_index] = _Item(event.item_id, item_type, is_open, event.response_id)
        if item_type is not None:
            return []
        return [Finding("item_announced", f"expected `output_item.added` of item {event.output_index} first")]

    def _may_be_late(self, event: events.ItemEvent, item: _Item) -> bool:
        """Return whether an event may follow the end of its item: of a function (D17) or of a cited search (D19)."""
        if isinstance(event, events.ToolStatus) and isinstance(event.tool, WebSearchTool):
            item.late_statuses += 1
            return item.late_statuses <= len(self._citing)
        return _is_of_a_function(event)


def _is_of_a_function(event: events.ItemEvent) -> bool:
    """Return whether an event is the result of a function, which may follow the end of its response (D17)."""
    match event:
        case events.ToolOutput(tool_type="function") | events.ToolStatus(tool=FunctionTool()):
            return True
        case _:
            return False


ITEM_TYPES: Final[Mapping[type[events.ItemEvent], str]] = {
    **dict.fromkeys((events.MessageDelta, events.MessageCitation), "message"),
    **dict.fromkeys((events.RefusalDelta, events.RefusalDone), "message"),
    events.ReasoningSummaryDelta: "reasoning",
    **dict.fromkeys((events.ToolCodeDelta, events.ToolCodeDone), "code_interpreter_call"),
    **dict.fromkeys((events.ChunkDelta, events.ChunkDone), "image_generation_call"),
}
"""Event -> type of its item. The others name the type of their tool; an item of any other type has none of them."""


def fits(event: events.ItemEvent, item_type: str) -> bool:
    """Return whether an event other than `output_item.*` may belong to an item of this type."""
    match event:
        case events.ToolStatus():
            return TOOL_TYPES.get(item_type) == event.tool.tool_type
        case events.ToolArgumentsDelta() | events.ToolArgumentsDone() | events.ToolOutput():
            return TOOL_TYPES.get(item_type) == event.tool_type
        case _:
            return ITEM_TYPES.get(type(event)) == item_type


_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


@dataclass(slots=True)
class _Chunks:
    slot: int
    next_index: int = 0
    is_open: bool = True


class ChunkRules:
    """Rules of each chunk target."""

    def __init__(self) -> None:
        self._targets: dict[ChunkTarget, _Chunks] = {}

    def check(self, event: events.PublicEvent, /) -> list[Finding]:
        """Check the next event."""
        match event:
            case events.ChunkDelta() | events.ChunkDone():
                chunks = self._targets.setdefault(event.target, _Chunks(event.output_index))
                return _check(chunks, event)
            case events.ErrorEvent() | events.FinalEvent():
                return [
                    Finding("chunk_unfinished", f"expected `chunk.done` of item {chunks.slot} before the terminal")
                    for chunks in self._targets.values()
                    if chunks.is_open
                ]
        return []


def _check(chunks: _Chunks, event: events.ChunkDelta | events.ChunkDone) -> list[Finding]:
    if chunks.slot != event.output_index:
        return [Finding("chunk_item", f"expected the target to belong to item {chunks.slot}")]
    if not chunks.is_open:
        return [Finding("chunk_closed", f"expected no `{event.kind}` after `chunk.done`")]
    if isinstance(event, events.ChunkDone):
        chunks.is_open = False
        return []
    found = []
    if event.chunk_index != chunks.next_index:
        found.append(Finding("chunk_index", f"expected {chunks.next_index}, found {event.chunk_index}"))
    chunks.next_index = event.chunk_index + 1
    if len(event.data) > IMAGE_CHUNK_MAX_CHARS:
        found.append(Finding("chunk_chars", f"expected at most {IMAGE_CHUNK_MAX_CHARS}, found {len(event.data)}"))
    if _BASE64.fullmatch(event.data) is None:
        found.append(Finding("chunk_base64", "expected base64 that decodes alone"))
    return found
