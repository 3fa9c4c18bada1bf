"""Records of tool calls, items, responses and the run; how the status of a call may change (CONTRACT D12 to D18)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from projector.contracts.kinds import STATUS_RANKS, CallType, ToolType
from projector.core.frames import Lossy, Place
from projector.core.growing_text import CallArguments, TextPart
from projector.core.reported_errors import ProviderError
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanJson, CleanText
from projector.redaction.streams import Seam

CALL_TYPES: Final[Mapping[ToolType, CallType]] = {"function": "function", "mcp": "mcp"}
"""Tool types with arguments."""

NAME_FIELDS: Final[Mapping[ToolType, str]] = {"function": "name", "mcp": "tool_name"}


@dataclass(slots=True, eq=False)
class ToolCall:
    """One tool call, from its item's first event to its last status (seed section 9.7)."""

    tool_type: ToolType
    call_id: CleanText
    name: CleanText
    arguments: CallArguments
    status: str | None = None
    outcome: str | None = None
    """The final status reported by the provider, held until the outputs were emitted (D15)."""
    plain: dict[str, object] = field(default_factory=dict)
    """Fields of `tool` that are never redacted or cut."""
    lossy: dict[str, Lossy] = field(default_factory=dict)
    """Fields of `tool` that may carry notices."""
    sources: list[Cleaned[CleanText]] = field(default_factory=list)
    """URLs of a web search, its own and cited ones (D19)."""
    has_citations: bool = False
    has_output: bool = False
    closed_chunks: set[tuple[str, int]] = field(default_factory=set)
    """Chunk targets that are closed; they do not reopen (D21)."""
    last_status: object = None
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


COMMENTARY: Final = "commentary"
PHASES: Final = frozenset({COMMENTARY, "final_answer"})
"""Phases of messages; commentary precedes the answer (CONTRACT D43)."""


@dataclass(slots=True, eq=False)
class Item:
    """One output item at its slot, with its texts by position."""

    place: Place
    type: CleanText
    role: CleanText | None
    has_id: bool = False
    """Whether the provider gave it an ID."""
    open: bool = True
    phase: CleanText | None = None
    """Phase of a message, one of `PHASES`; None if the provider sends none."""
    call: ToolCall | None = None
    texts: dict[int, TextPart] = field(default_factory=dict)
    refusals: dict[int, TextPart] = field(default_factory=dict)
    summaries: dict[int, TextPart] = field(default_factory=dict)
    reasoning: dict[int, TextPart] = field(default_factory=dict)
    code: dict[int, TextPart] = field(default_factory=dict)
    """Code of a code interpreter call: one text, at position 0."""
    cited: set[object] = field(default_factory=set)
    """Citations that were emitted, as (content index, content)."""
    is_late: bool = False
    """Whether its texts came after its end, so that no delta contains them."""

    @property
    def item_id(self) -> CleanText:
        """Its public ID."""
        return self.place[1]


SEARCH: Final = "web_search_call"


@dataclass(slots=True, eq=False)
class Response:
    """The current response, or the last one that ended."""

    base_slot: int
    after: CleanText | None
    """The id of the response before it, if it had one."""
    id: CleanText | None = None
    status: str | None = None
    has_meta: bool = False
    service_tier: str | None = None
    usage: Mapping[str, object] = field(default_factory=dict)
    """As the provider sent it last."""
    is_counted: bool = False
    """Whether its usage was emitted."""
    wants_structure: bool = False
    container_mode: str | None = None
    items: list[Item] = field(default_factory=list)
    by_index: dict[int, Item] = field(default_factory=dict)
    by_id: dict[str, Item] = field(default_factory=dict)
    shared: set[int] = field(default_factory=set)
    """Indexes that several items had at the same time: there, the provider's IDs correlate."""
    by_type: dict[str, list[Item]] = field(default_factory=dict)
    without_index: dict[str | None, Item] = field(default_factory=dict)
    """Items that came without an index, by the provider's id."""
    cited_urls: dict[CleanText, None] = field(default_factory=dict)
    """URLs cited by messages, in order (D19)."""
    searches: list[Item] = field(default_factory=list)
    """The first two web searches: one search gets the cited URLs, several do not."""

    @property
    def is_repeated(self) -> bool:
        """Whether it repeats the response before it: same id, and nothing emitted yet."""
        return self.id is not None and self.id == self.after and self.status is None and not self.items

    def add(self, item: Item) -> None:
        """Add an item, at the end of those that arrived."""
        self.items.append(item)
        self.by_type.setdefault(item.type, []).append(item)
        if item.type == SEARCH and len(self.searches) < 2:  # noqa: PLR2004 - more than one
            self.searches.append(item)

    def release(self) -> None:
        """Drop items and citations one by one: thousands at once would hold the interpreter for 100 ms."""
        for more in (self.by_index, self.by_id, self.by_type, self.without_index):
            more.clear()
        self.searches.clear()
        while self.items:
            cited = self.items.pop().cited
            while cited:
                cited.pop()
        while self.cited_urls:
            self.cited_urls.popitem()

    @property
    def only_search(self) -> Item | None:
        """The web search, if there is only one."""
        return self.searches[0] if len(self.searches) == 1 else None

    def last_open(self, item_type: str) -> Item | None:
        """Return the last open item of a type; closed ones are removed from the search."""
        items = self.by_type.get(item_type, [])
        while items and not items[-1].open:
            items.pop()
        return items[-1] if items else None


ERRORS_MAX: Final = 16
"""Recorded errors of a run."""


class ResponseEnd(NamedTuple):
    """How a response ended."""

    stage: int
    status: str
    text: str
    """Text of its messages."""
    has_refusal: bool


class KeptText(NamedTuple):
    """A text of an ended response."""

    text: Cleaned[CleanText]
    is_late: bool
    """Whether it came after the end of its item; see `Item.is_late`."""


class KeepOpaque(Protocol):
    """Keeps what the provider wants back with an item (D53)."""

    def __call__(self, item_type: str, call_id: str | None, value: object, /, *, is_done: bool) -> str | None:
        """Keep the opaque value of an item, and return it as the client carries it, sealed; None if it does not.

        Args:
            item_type: type of the item.
            call_id: None unless it is a call that the client executes.
            value: None without an opaque value.
            is_done: whether the item is finished. A call may have its value already when it begins.
        """


@dataclass(slots=True, eq=False)
class RunRecord:
    """Data of the ended responses of a run for its terminal event (D12, D13)."""

    statuses: list[str] = field(default_factory=list)
    ends: dict[int, ResponseEnd] = field(default_factory=dict)
    """The last end of each branch."""
    wants_structure: bool = False
    has_unknown_items: bool = False
    """Whether there were items that nothing was emitted of."""
    usage: dict[str, int] = field(default_factory=dict)
    """Sum over the responses that ended."""
    attachments: list[Cleaned[CleanJson]] = field(default_factory=list)
    conversation_id: CleanText | None = None
    errors: list[ProviderError] = field(default_factory=list)
    """Errors that providers reported, for the operator's log."""
    keep_opaque: KeepOpaque | None = None
    _joints: dict[str, Seam] = field(default_factory=dict)
    _texts: dict[str, tuple[int, dict[int, KeptText]]] = field(default_factory=dict)
    """Name of a text -> the last stage that has it, and the text of each branch of that stage."""

    def joint(self, name: str) -> Seam:
        """Return what the texts of one kind share: clients join them, also those of several responses."""
        if name not in self._joints:
            self._joints[name] = Seam()
        return self._joints[name]

    def release(self) -> None:
        """Drop the texts that `final` has emitted, and what would be cycles of objects."""
        for joint in self._joints.values():
            joint.owner = None
        self._joints.clear()
        self._texts.clear()
        self.attachments.clear()
        self.keep_opaque = None
        self.ends.pop(0, None)

    def add_error(self, error: ProviderError) -> None:
        """Record an error that a provider reported. Further ones are not: a run may have any number of responses."""
        if len(self.errors) < ERRORS_MAX:
            self.errors.append(error)

    @property
    def is_refused(self) -> bool:
        """Whether the last stage only refused: a completed refusal, and no branch of it has text that is not blank."""
        refusals = [end.stage for end in self.ends.values() if end.has_refusal]
        if not refusals:
            return False
        last = max(end.stage for end in self.ends.values())
        ends = [end for end in self.ends.values() if end.stage == last]
        is_refusal = any(end.has_refusal and end.status == "completed" for end in ends)
        return is_refusal and not any(end.text.strip() for end in ends)

    def keep(self, name: str, stage: int, branch: int, text: KeptText) -> bool:
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
            name: compose.paragraphs(texts[branch].text for branch in sorted(texts))
            for name, (_, texts) in self._texts.items()
        }

    def late_texts(self) -> list[str]:
        """Return the names of the texts that no deltas contain, or not whole."""
        return [name for name, (_, texts) in self._texts.items() if any(text.is_late for text in texts.values())]
