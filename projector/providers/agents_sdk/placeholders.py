"""Items with placeholder IDs, identified by output index, type and call ID (CONTRACT D6).

The SDK writes one placeholder into every ID when it makes Responses events of a Chat Completions stream. It also gives
late reasoning index 0, where the message may be already. So an item is identified by its index and type: the first item
at an index keeps it, any other has none and is known by its ID.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from projector.core import canonical as read
from projector.core.canonical import CanonicalEvent

PLACEHOLDER: Final = "__fake_id__"
"""The ID of every response and item that the SDK builds for a model without such IDs, as with Chat Completions."""

ITEM_OF_EVENT: Final[Mapping[str, str]] = {
    "response.content_part.added": "message",
    "response.content_part.done": "message",
    "response.output_text.delta": "message",
    "response.output_text.done": "message",
    "response.output_text.annotation.added": "message",
    "response.refusal.delta": "message",
    "response.refusal.done": "message",
    "response.reasoning_summary_part.added": "reasoning",
    "response.reasoning_summary_part.done": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_summary_text.done": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_text.done": "reasoning",
    "response.function_call_arguments.delta": "function_call",
    "response.function_call_arguments.done": "function_call",
}
"""Event that may have a placeholder -> type of its item."""

STEMS: Final[Mapping[str, str]] = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
"""Item type -> prefix of the IDs that replace its placeholders."""


@dataclass(slots=True)
class _Item:
    item_id: str
    index: int | None
    """The SDK's output index, unless another item has it."""
    call_id: str | None


class Placeholders:
    """The items of one response that have placeholders. Others pass unchanged."""

    def __init__(self) -> None:
        self._response_id = ""
        self._count = 0
        self._taken: set[int] = set()
        self._by_index: dict[tuple[int | None, str], _Item] = {}
        self._by_call: dict[str, _Item] = {}

    def replace(self, event: CanonicalEvent) -> list[CanonicalEvent]:
        """Return the event without placeholders, after an event with the ID of its response if an item shows it."""
        response, item = event.get("response"), event.get("item")
        if read.is_mapping(response) and response.get("id") == PLACEHOLDER:
            return [{**event, "response": _without_ids(event, response)}]
        if read.is_mapping(item) and item.get("id") == PLACEHOLDER:
            announced = self._announce_response(item)
            item_type = read.text_or_none(item, "type") or ""
            known = self._find(event, item_type, read.text_or_none(item, "call_id"))
            return [*announced, _with_index(known, {**event, "item": {**item, "id": known.item_id}})]
        if event.get("item_id") == PLACEHOLDER:
            known = self._find(event, ITEM_OF_EVENT.get(str(event.get("type")), ""), None)
            return [_with_index(known, {**event, "item_id": known.item_id})]
        return [event]

    def _announce_response(self, item: Mapping[str, object]) -> list[CanonicalEvent]:
        """Return an event with the provider's ID of the response, once: the SDK keeps it in the items (D4)."""
        known = read.text_or_none(read.mapping_or_empty(item, "provider_data"), "response_id")
        if known is None or self._response_id:
            return []
        self._response_id = known
        return [{"type": "response.in_progress", "response": {"id": known, "status": "in_progress"}}]

    def _find(self, event: CanonicalEvent, item_type: str, call_id: str | None) -> _Item:
        index = read.index_or_none(event, "output_index")
        item = self._by_call.get(call_id) if call_id else None
        item = item or self._by_index.get((index, item_type))
        if item is None or (call_id and item.call_id not in (None, call_id)):
            item = self._new(index, item_type)
        if call_id:
            item.call_id = call_id
            self._by_call[call_id] = item
        self._by_index[index, item_type] = item
        return item

    def _new(self, index: int | None, item_type: str) -> _Item:
        stem = STEMS.get(item_type, "item")
        stem = f"{stem}_{self._response_id}" if self._response_id else stem
        item = _Item(f"{stem}_{self._count}", index if index not in self._taken else None, None)
        self._count += 1
        if index is not None:
            self._taken.add(index)
        return item


def _with_index(item: _Item, event: dict[str, object]) -> CanonicalEvent:
    if item.index is None:
        event.pop("output_index", None)
    return event


def _without_ids(event: CanonicalEvent, response: Mapping[str, object]) -> dict[str, object]:
    """Return a response without placeholders, and with a status at its beginning, where such a response has none."""
    known = {name: value for name, value in response.items() if name != "id" and value is not None}
    if event.get("type") == "response.created":
        known.setdefault("status", "in_progress")
    items = [
        {name: value for name, value in item.items() if name != "id" or value != PLACEHOLDER}
        for item in read.mappings(known, "output")
    ]
    return {**known, "output": items}
