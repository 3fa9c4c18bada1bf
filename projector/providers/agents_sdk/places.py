"""Items whose ids are placeholders, told apart by place, type and call id (CONTRACT D6).

The SDK writes one placeholder into every id when it makes Responses events of a Chat Completions stream. It also puts
reasoning that comes late at index 0, where the message may stand already. So an item is what stands at an index with a
type; the first at an index keeps it, any other goes without one and is known by its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from projector.core import canonical as read
from projector.core.canonical import CanonicalEvent
from projector.providers.agents_sdk.vocabulary import ITEM_OF_EVENT, PLACEHOLDER, STEMS


@dataclass(slots=True)
class _Place:
    """One item of the response."""

    item_id: str
    index: int | None
    """Where the SDK says that it stands, if nothing else stands there."""
    call_id: str | None


class Places:
    """The items of one response that come with placeholders; others pass as they are."""

    def __init__(self) -> None:
        self._response_id = ""
        self._count = 0
        self._owned: set[int] = set()
        self._by_index: dict[tuple[int | None, str], _Place] = {}
        self._by_call: dict[str, _Place] = {}

    def name(self, event: CanonicalEvent) -> list[CanonicalEvent]:
        """Give the event without placeholders, behind the id of its response where an item tells it (D4)."""
        response, item = event.get("response"), event.get("item")
        if read.is_mapping(response) and response.get("id") == PLACEHOLDER:
            return [{**event, "response": _unnamed(event, response)}]
        if read.is_mapping(item) and item.get("id") == PLACEHOLDER:
            learned = self._learn(item)
            item_type = read.text_or_none(item, "type") or ""
            place = self._place(event, item_type, read.text_or_none(item, "call_id"))
            return [*learned, _at(place, {**event, "item": {**item, "id": place.item_id}})]
        if event.get("item_id") == PLACEHOLDER:
            place = self._place(event, ITEM_OF_EVENT.get(str(event.get("type")), ""), None)
            return [_at(place, {**event, "item_id": place.item_id})]
        return [event]

    def _learn(self, item: Mapping[str, object]) -> list[CanonicalEvent]:
        """Say the provider's id of the response once it is known: the SDK keeps it beside the items."""
        known = read.text_or_none(read.mapping_or_empty(item, "provider_data"), "response_id")
        if known is None or self._response_id:
            return []
        self._response_id = known
        return [{"type": "response.in_progress", "response": {"id": known, "status": "in_progress"}}]

    def _place(self, event: CanonicalEvent, item_type: str, call_id: str | None) -> _Place:
        index = read.index_or_none(event, "output_index")
        place = self._by_call.get(call_id) if call_id else None
        place = place or self._by_index.get((index, item_type))
        if place is None or (call_id and place.call_id not in (None, call_id)):
            place = self._new(index, item_type)
        if call_id:
            place.call_id = call_id
            self._by_call[call_id] = place
        self._by_index[index, item_type] = place
        return place

    def _new(self, index: int | None, item_type: str) -> _Place:
        stem = STEMS.get(item_type, "item")
        stem = f"{stem}_{self._response_id}" if self._response_id else stem
        place = _Place(f"{stem}_{self._count}", index if index not in self._owned else None, None)
        self._count += 1
        if index is not None:
            self._owned.add(index)
        return place


def _at(place: _Place, event: dict[str, object]) -> CanonicalEvent:
    if place.index is None:
        event.pop("output_index", None)
    return event


def _unnamed(event: CanonicalEvent, response: Mapping[str, object]) -> dict[str, object]:
    """Give a response without placeholders, and with the status that such a response does not say when it begins."""
    known = {name: value for name, value in response.items() if name != "id" and value is not None}
    if event.get("type") == "response.created":
        known.setdefault("status", "in_progress")
    items = [
        {name: value for name, value in item.items() if name != "id" or value != PLACEHOLDER}
        for item in read.mappings(known, "output")
    ]
    return {**known, "output": items}
