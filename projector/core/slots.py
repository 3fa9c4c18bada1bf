"""Where items stand and how they and their calls are called, one to one over the whole stream (CONTRACT D6, D8)."""

from __future__ import annotations

from typing import Final

from projector.redaction.clean import CleanText
from projector.redaction.redactor import Redactor

CALL_ID_ROOM: Final = 200
"""What is kept of a repeated call id, so that its suffix stays within the limit of ids."""


class Places:
    """What is taken; the branches of a run share it."""

    def __init__(self, redactor: Redactor) -> None:
        self.next_slot = 0
        """The first slot behind all that are taken."""
        self._redactor = redactor
        self._slots: set[int] = set()
        self._item_ids: set[str] = set()
        self._spare_id = 0
        """The last number that a taken id was replaced by: they are tried once each, not once per item."""
        self._call_ids: set[str] = set()
        self._branches = 0

    def next_branch(self) -> int:
        """Give the number of a new branch; that of the main one is 0."""
        number, self._branches = self._branches, self._branches + 1
        return number

    def slot(self, wanted: int | None) -> int:
        """Take a slot: the one that is wanted, unless it is taken or none is; then the next free one."""
        slot = self.next_slot if wanted is None or wanted in self._slots else wanted
        self._slots.add(slot)
        self.next_slot = max(self.next_slot, slot + 1)
        return slot

    def item_id(self, provider_id: str | None, slot: int) -> CleanText:
        """Give the public id of a slot: the provider's unless another slot has it (D6)."""
        item_id = self._redactor.identifier(provider_id or f"item_{slot}")
        if item_id in self._item_ids:
            item_id = self._redactor.identifier(f"item_{slot}")
        while item_id in self._item_ids:
            self._spare_id = max(self._spare_id, slot) + 1
            item_id = self._redactor.identifier(f"item_{self._spare_id}")
        self._item_ids.add(item_id)
        return item_id

    def call_id(self, provider_id: str | None, item_id: CleanText, slot: int) -> CleanText:
        """Give the id of a call: the provider's, else the item's, once per stream (D8)."""
        call_id = self._redactor.identifier(provider_id or item_id)
        while call_id in self._call_ids:
            call_id = self._redactor.identifier(f"{call_id[-CALL_ID_ROOM:]}_{slot}")
        self._call_ids.add(call_id)
        return call_id
