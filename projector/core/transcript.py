"""What is remembered of items, responses and the run: plain records without rules."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from projector.core.calls import ToolCall
from projector.core.parts import TextPart
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanJson, CleanText


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


class End(NamedTuple):
    """How a response ended."""

    stage: int
    status: str
    text: str
    """Of its messages."""
    has_refusal: bool


class Run:
    """What the ended responses leave for the terminal (D12, D13)."""

    def __init__(self) -> None:
        self.statuses: list[str] = []
        self.ends: dict[int, End] = {}
        """The last end of each branch."""
        self.wants_structure = False
        self.usage: Counter[str] = Counter()
        self.attachments: list[Cleaned[CleanJson]] = []
        self.conversation_id: CleanText | None = None
        self._texts: dict[str, tuple[int, dict[int, Cleaned[CleanText]]]] = {}
        """By name: the last stage that has such a text, and the text of each of its branches."""

    def forget(self) -> None:
        """Keep no text for `final`, nor that of a stream without further branches: it has been said."""
        self._texts.clear()
        self.attachments.clear()
        self.ends.pop(0, None)

    @property
    def is_refused(self) -> bool:
        """Whether the last response is a refusal without text; of several, none has text and one is."""
        last = max((end.stage for end in self.ends.values()), default=0)
        ends = [end for end in self.ends.values() if end.stage == last]
        is_refusal = any(end.has_refusal and end.status == "completed" for end in ends)
        return is_refusal and not any(end.text for end in ends)

    def keep(self, name: str, stage: int, branch: int, text: Cleaned[CleanText]) -> bool:
        """Keep a text for `final`; give whether it counts, which a stage before the last does not."""
        last, texts = self._texts.get(name, (stage, {}))
        if stage < last:
            return False
        kept = texts if stage == last else {}
        kept[branch] = text
        self._texts[name] = stage, kept
        return True

    def texts(self) -> dict[str, Cleaned[CleanText]]:
        """Give `response_text`, `refusal_text`, `reasoning_summary_text` of the last responses that have each."""
        return {
            name: compose.paragraphs(texts[branch] for branch in sorted(texts))
            for name, (_, texts) in self._texts.items()
        }
