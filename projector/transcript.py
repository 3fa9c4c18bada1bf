"""What is remembered of items, responses and the run: plain records without rules."""

from __future__ import annotations

from collections import Counter

from projector.calls import ToolCall
from projector.parts import TextPart
from redaction.clean import Cleaned, CleanJson, CleanText


class Item:
    """One row of the transcript: an output item at its slot."""

    __slots__ = (
        "call",
        "cited",
        "item_id",
        "open",
        "reasoning",
        "refusals",
        "role",
        "slot",
        "summaries",
        "texts",
        "type",
    )

    def __init__(self, slot: int, item_id: CleanText, item_type: CleanText, role: CleanText | None) -> None:
        self.slot = slot
        self.item_id = item_id
        self.type = item_type
        self.role = role
        self.open = True
        self.call: ToolCall | None = None
        self.texts: dict[int, TextPart] = {}
        self.refusals: dict[int, TextPart] = {}
        self.summaries: dict[int, TextPart] = {}
        self.reasoning: dict[int, TextPart] = {}
        self.cited: set[object] = set()
        """Citations that have been said, as (content index, what was said)."""


class Response:
    """The response that streams now, or the one that ended last."""

    def __init__(self, base_slot: int, *, after: CleanText | None) -> None:
        self.base_slot = base_slot
        self.id: CleanText | None = None
        self.after = after
        """The id of the response before it, if that had one."""
        self.status: str | None = None
        self.meta_said = False
        self.wants_structure = False
        self.container_mode: str | None = None
        self.items: list[Item] = []
        self.by_index: dict[int, Item] = {}
        self.by_id: dict[str, Item] = {}
        self.by_type: dict[str, list[Item]] = {}
        self.unplaced: dict[str | None, Item] = {}
        """Items that came without an index, by the provider's id."""
        self.cited_urls: dict[CleanText, None] = {}
        """URLs that messages cite and no search has said, in order (D19)."""

    @property
    def is_repeated(self) -> bool:
        """Whether it is the response before it once more, as far as its id and its silence tell."""
        return self.id is not None and self.id == self.after and self.status is None and not self.items

    def last_open(self, item_type: str) -> Item | None:
        """Give the last item of a type that is open; closed ones are passed over once and for all."""
        items = self.by_type.get(item_type, [])
        while items and not items[-1].open:
            items.pop()
        return items[-1] if items else None


class Run:
    """What the ended responses leave for the terminal (D12, D13)."""

    def __init__(self) -> None:
        self.statuses: list[str] = []
        self.texts: dict[str, Cleaned[CleanText]] = {}
        """`response_text`, `refusal_text`, `reasoning_summary_text` of the last response that has each."""
        self.wants_structure = False
        self.refused_last = False
        """Whether the last response is a refusal without text."""
        self.usage: Counter[str] = Counter()
        self.attachments: list[Cleaned[CleanJson]] = []
