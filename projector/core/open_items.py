"""The announced items that are not done, as they were said: what is closed even if nothing else can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from projector.contracts.kinds import Kind
from projector.core.canonical import Frame

Announced: TypeAlias = tuple[Mapping[str, object], Frame]
"""The context in which an item was announced, and the frame that did it."""


class OpenItems:
    """Follows `output_item.added` and `output_item.done`; what was not sent can be taken back."""

    def __init__(self) -> None:
        self._open: dict[object, Announced] = {}
        self.unsent: list[tuple[object, Announced | None]] = []
        """How each change since the last sending is undone."""

    def follow(self, context: Mapping[str, object], frame: Frame) -> None:
        """Take the frame that announces an item or ends it."""
        item_id = frame["item_id"]
        self.unsent.append((item_id, self._open.get(item_id)))
        self._book(item_id, (context, frame) if frame["kind"] == Kind.OUTPUT_ITEM_ADDED else None)

    def take_back(self) -> None:
        """Forget what was not sent."""
        for item_id, before in reversed(self.unsent):
            self._book(item_id, before)

    def all(self) -> list[Announced]:
        """Give what is open, in the order of its announcement."""
        return [*self._open.values()]

    def _book(self, item_id: object, added: Announced | None) -> None:
        if added is None:
            self._open.pop(item_id, None)
        else:
            self._open[item_id] = added
