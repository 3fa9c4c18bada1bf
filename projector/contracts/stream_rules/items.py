"""Rules of output items: their slots, and how they begin and end (seed sections 6.3 and 9.2, CONTRACT D6, D7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from projector.contracts.parts import FunctionTool, UrlCitation, WebSearchTool
from projector.contracts.public_sse_v1 import (
    ErrorEvent,
    FinalEvent,
    ItemEvent,
    MessageCitation,
    OutputItemAdded,
    OutputItemDone,
    PublicEvent,
    ToolOutput,
    ToolStatus,
)
from projector.contracts.stream_rules.fits import fits
from projector.contracts.stream_rules.table import Breach

STRAY: Final = frozenset({"slot", "item_added_once", "item_done_once", "item_after_done", "item_kind"})
"""What an event breaks that cannot be counted to its item: the rules of calls, chunks and texts do not look at it."""


@dataclass(slots=True)
class _Item:
    item_id: str
    item_type: str | None
    """None of one that was not announced."""
    is_open: bool
    response_id: str | None = None
    late_statuses: int = 0


class ItemWatch:
    """Follows each output item from its announcement to its end."""

    def __init__(self) -> None:
        self._items: dict[int, _Item] = {}
        self._slots: dict[str, int] = {}
        self._citing: set[int] = set()
        """Slots of the messages that cite a web page."""

    def see(self, event: PublicEvent, /) -> list[Breach]:
        """Take the next event; return what it breaks."""
        if isinstance(event, ItemEvent):
            return self._item_event(event)
        if isinstance(event, ErrorEvent | FinalEvent):
            return [
                Breach("item_closed", f"expected `output_item.done` of item {slot} before the terminal")
                for slot, item in self._items.items()
                if item.is_open
            ]
        return []

    def _item_event(self, event: ItemEvent) -> list[Breach]:
        slot = event.output_index
        item = self._items.get(slot)
        if item is not None and item.item_id != event.item_id:
            return [Breach("slot", f"expected the `item_id` that item {slot} was said with")]
        if self._slots.setdefault(event.item_id, slot) != slot:
            return [Breach("slot", f"expected `output_index` {self._slots[event.item_id]} for this `item_id`")]
        if isinstance(event, MessageCitation) and isinstance(event.citation, UrlCitation):
            self._citing.add(slot)
        return self._open(event) if item is None else self._response(event, item) + self._known(event, item)

    def _response(self, event: ItemEvent, item: _Item) -> list[Breach]:
        """Compare the response of an event with that of its item, which may have been unknown at first."""
        item.response_id = item.response_id or event.response_id
        if event.response_id in {None, item.response_id} or _is_of_a_function(event):
            return []
        return [Breach("item_response", f"expected the `response_id` that item {event.output_index} was said with")]

    def _known(self, event: ItemEvent, item: _Item) -> list[Breach]:
        slot, was_open = event.output_index, item.is_open
        if isinstance(event, OutputItemAdded):
            return [Breach("item_added_once", f"expected `output_item.added` of item {slot} once")]
        if isinstance(event, OutputItemDone):
            item.is_open = False
            return [] if was_open else [Breach("item_done_once", f"expected `output_item.done` of item {slot} once")]
        if not was_open and not self._may_be_late(event, item):
            return [Breach("item_after_done", f"expected nothing more of item {slot}")]
        if item.item_type is not None and not fits(event, item.item_type):
            return [Breach("item_kind", f"expected no such event of item {slot}, by its `item_type`")]
        return []

    def _open(self, event: ItemEvent) -> list[Breach]:
        is_open = not isinstance(event, OutputItemDone)
        item_type = event.item_type if isinstance(event, OutputItemAdded) else None
        self._items[event.output_index] = _Item(event.item_id, item_type, is_open, event.response_id)
        if item_type is not None:
            return []
        return [Breach("item_announced", f"expected `output_item.added` of item {event.output_index} first")]

    def _may_be_late(self, event: ItemEvent, item: _Item) -> bool:
        """Tell whether an event may follow the end of its item.

        A function runs after the response (D17). A search may learn at the end of a citing message what was cited of
        it: one status for each such message (D19).
        """
        if isinstance(event, ToolStatus) and isinstance(event.tool, WebSearchTool):
            item.late_statuses += 1
            return item.late_statuses <= len(self._citing)
        return _is_of_a_function(event)


def _is_of_a_function(event: ItemEvent) -> bool:
    """Tell whether an event says what a function gave, which may come when its response has long ended (D17)."""
    match event:
        case ToolOutput(tool_type="function") | ToolStatus(tool=FunctionTool()):
            return True
        case _:
            return False
