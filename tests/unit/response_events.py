"""Events of the Responses API, built from the index and the type of an item."""

from __future__ import annotations

from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]


def added(index: int, item_type: str, **item: object) -> Event:
    item = {"type": item_type, "id": f"item_{index}", **item}
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, item_type: str, **item: object) -> Event:
    item = {"type": item_type, "id": f"item_{index}", "status": "completed", **item}
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def delta(kind: str, index: int, text: str, **members: object) -> Event:
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": text, **members}
