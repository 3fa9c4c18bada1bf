"""Records of tool calls, items, responses and the run; how the status of a call may change (CONTRACT D12 to D18)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from projector.contracts.kinds import STATUS_RANKS, CallType, ToolType
from projector.core.frames import Lossy
from projector.core.growing_text import CallArguments, TextPart
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanJson, CleanText

CALL_TYPES: Final[Mapping[ToolType, CallType]] = {"function": "function", "mcp": "mcp"}
"""Tool types with arguments."""

NAME_FIELDS: Final[Mapping[ToolType, str]] = {"function": "name", "mcp": "tool_name"}


class ToolCall:
    """One tool call, from its item's first event to its last status (seed section 9.7)."""

    __slots__ = (
        "arguments",
        "call_id",
        "closed_chunks",
        "has_citations",
        "has_output",
        "last_status",
        "lossy",
        "name",
        "outcome",
        "plain",
        "sources",
        "status",
        "tool_type",
    )

    def __init__(self, tool_type: ToolType, call_id: CleanText, name: CleanText, arguments: CallArguments) -> None:
        self.tool_type = tool_type
        self.call_id = call_id
        self.name = name
        self.arguments = arguments
        self.status: str | None = None
        self.outcome: str | None = None
        """The final status reported by the provider, held until the outputs were emitted (D15)."""
        self.plain: dict[str, object] = {}
        """Fields of `tool` that are never redacted or cut."""
        self.lossy: dict[str, Lossy] = {}
        """Fields of `tool` that may carry notices."""
        self.sources: list[Cleaned[CleanText]] = []
        """URLs of a web search, its own and cited ones (D19)."""
        self.has_citations = False
        self.has_output = False
        self.closed_chunks: set[tuple[str, int]] = set()
        """Chunk targets that are closed; they do not reopen (D21)."""
        self.last_status: object = None
        """What the last `tool.status` contained."""

    def advance(self, status: str | None) -> bool:
        """Change the status if it is known and later; return whether there is something new to emit (D15)."""
        ranks = STATUS_RANKS[self.tool_type]
        if status is not None and status in ranks and (self.status is None or ranks[status] > ranks[self.status]):
            self.status = status
        if self.status is None:
            return False
        now = (self.status, dict(self.plain), {key: value and value.value for key, value in self.lossy.items()})
        if now == self.last_status:
            return False
        self.last_status = now
        return True

    @property
    def payload(self) -> dict[str, object]:
        """The plain members of section 9.7's `tool`."""
        name = {NAME_FIELDS[self.tool_type]: self.name} if self.tool_type in NAME_FIELDS else {}
        return {"tool_type": self.tool_type, "tool_call_id": self.call_id, "status": self.status, **name, **self.plain}


class Item:
    """One output item at its slot, with its texts by position."""

    __slots__ = (
        "call",
        "cited",
        "code",
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
        self.code: dict[int, TextPart] = {}
        """Of the code interpreter: one text, at position 0."""
        self.cited: set[object] = set()
        """Citations that were emitted, as (content index, content)."""


class Response:
    """The response that streams now, or the one that ended last."""

    def __init__(self, base_slot: int, *, after: CleanText | None) -> None:
        self.base_slot = base_slot
        self.id: CleanText | None = None
        self.after = after
        """The id of the response before it, if it had one."""
        self.status: str | None = None
        self.has_meta = False
        self.wants_structure = False
        self.container_mode: str | None = None
        self.items: list[Item] = []
        self.by_index: dict[int, Item] = {}
        self.by_id: dict[str, Item] = {}
        self.by_type: dict[str, list[Item]] = {}
        self.without_index: dict[str | None, Item] = {}
        """Items that came without an index, by the provider's id."""
        self.cited_urls: dict[CleanText, None] = {}
        """URLs cited by messages, in order (D19)."""

    @property
    def is_repeated(self) -> bool:
        """Whether it repeats the response before it: same id, and nothing emitted yet."""
        return self.id is not None and self.id == self.after and self.status is None and not self.items

    def last_open(self, item_type: str) -> Item | None:
        """Return the last open item of a type; closed ones are removed from the search."""
        items = self.by_type.get(item_type, [])
        while items and not items[-1].open:
            items.pop()
        return items[-1] if items else None


class ResponseEnd(NamedTuple):
    """How a response ended."""

    stage: int
    status: str
    text: str
    """Of its messages."""
    has_refusal: bool


class RunRecord:
    """What the ended responses of a run contribute to the terminal (D12, D13)."""

    def __init__(self) -> None:
        self.statuses: list[str] = []
        self.ends: dict[int, ResponseEnd] = {}
        """The last end of each branch."""
        self.wants_structure = False
        self.usage: Counter[str] = Counter()
        self.attachments: list[Cleaned[CleanJson]] = []
        self.conversation_id: CleanText | None = None
        self._texts: dict[str, tuple[int, dict[int, Cleaned[CleanText]]]] = {}
        """By name: the last stage that has such a text, and the text of each of its branches."""

    def release(self) -> None:
        """Drop the texts that `final` has emitted."""
        self._texts.clear()
        self.attachments.clear()
        self.ends.pop(0, None)

    @property
    def is_refused(self) -> bool:
        """Whether the last stage only refused: a completed refusal, and no branch of it has text."""
        last = max((end.stage for end in self.ends.values()), default=0)
        ends = [end for end in self.ends.values() if end.stage == last]
        is_refusal = any(end.has_refusal and end.status == "completed" for end in ends)
        return is_refusal and not any(end.text for end in ends)

    def keep(self, name: str, stage: int, branch: int, text: Cleaned[CleanText]) -> bool:
        """Keep a text for `final`; return False if a later stage already has one."""
        last, texts = self._texts.get(name, (stage, {}))
        if stage < last:
            return False
        kept = texts if stage == last else {}
        kept[branch] = text
        self._texts[name] = stage, kept
        return True

    def texts(self) -> dict[str, Cleaned[CleanText]]:
        """Return `response_text`, `refusal_text`, `reasoning_summary_text` of the last stage that has each."""
        return {
            name: compose.paragraphs(texts[branch] for branch in sorted(texts))
            for name, (_, texts) in self._texts.items()
        }
