"""What is remembered of reasoning, calls, responses and speakers: plain records."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from projector.contracts.limits import NOTICES_MAX_ITEMS
from projector.core.canonical import Frame
from projector.dialects.workflow import BranchPosition
from projector.openwop.contract.parts import Verbosity
from projector.redaction import compose

Place: TypeAlias = BranchPosition | int
"""Where steps follow each other: a branch of the run by its number, and in the main one a place of the workflow."""


class Notices:
    """What was withheld or cut, until an event says it."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: list[object] = []

    def take(self, frame: Frame) -> list[object] | None:
        """Take the notices of a frame; give them."""
        new: list[object] | None = frame.get("notices")
        if new is not None:
            self._kept += [notice for notice in new if notice not in self._kept][: NOTICES_MAX_ITEMS - len(self._kept)]
        return new

    def give(self) -> list[object]:
        """Give all of them away."""
        given, self._kept = self._kept, []
        return given


class Thought:
    """One reasoning item: none, one or more blocks."""

    __slots__ = ("agent_id", "has_spoken")

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        self.has_spoken = False


class Block:
    """A block of reasoning that is open: what one item says of one kind in a row."""

    __slots__ = ("agent_id", "item_id", "notices", "part", "room", "sequence", "text", "verbosity")

    def __init__(self, agent_id: str, item_id: str, verbosity: Verbosity, room: int) -> None:
        self.agent_id = agent_id
        self.item_id = item_id
        self.verbosity = verbosity
        self.part: int | None = None
        """The part of the item that speaks."""
        self.text: compose.Gathered[str] = compose.Gathered()
        self.room = room
        """How many more characters it may say."""
        self.sequence = 0
        """Of the next delta."""
        self.notices = Notices()


class Call:
    """One call of a tool."""

    __slots__ = (
        "agent_id",
        "event_id",
        "id",
        "inputs",
        "is_awaiting",
        "is_cut_off",
        "is_returned",
        "item_id",
        "members",
        "name",
        "notices",
        "output",
        "server_label",
        "tool_type",
    )

    def __init__(self, item_id: str, tool_type: str, agent_id: str) -> None:
        self.item_id = item_id
        self.id = item_id
        self.tool_type = tool_type
        self.agent_id = agent_id
        self.name = tool_type
        self.server_label: str | None = None
        self.inputs: dict[str, Any] = {}
        """`inputs`, where there are any."""
        self.members: dict[str, Any] = {}
        """What the tool's statuses have told, by the names of the public contract."""
        self.event_id = ""
        """The event that said the call; empty before it was said."""
        self.output: Frame | None = None
        """An output, until it is known whether the call failed."""
        self.is_awaiting = False
        """Whether it waits for an approval."""
        self.is_cut_off = False
        self.is_returned = False
        self.notices = Notices()


class Suspension(NamedTuple):
    """An interrupt that a node waits for, and the event that said so."""

    node_id: str
    interrupt_id: str
    event_id: str


class Node(NamedTuple):
    """An open node: the name that the context gives it, and its id, which no other open node has."""

    name: str
    id: str


class Response:
    """One response of the run: one call of a model."""

    __slots__ = ("awaiting", "has_ended", "has_failed", "pending", "reason")

    def __init__(self) -> None:
        self.has_failed = False
        self.reason: str | None = None
        """Why it ended as it did."""
        self.has_ended = False
        self.pending: set[str] = set()
        """Items of functions that have no answer."""
        self.awaiting: list[Call] = []
        """Calls that wait for an approval."""


class Voice:
    """What speaks for itself beside others: a branch of the run, which has one at least."""

    __slots__ = ("model", "response", "suspended")

    def __init__(self) -> None:
        self.model: str | None = None
        self.response = Response()
        """The response that streams now, or the last."""
        self.suspended: list[Suspension] = []
        """Interrupts that it waits for, unless it goes on."""


class Speakers:
    """Which agent spoke last at each place, and whom a place that begins takes over from.

    That is whoever spoke last in the main branch or in one that is over; branches that part take over from the same
    one.
    """

    def __init__(self) -> None:
        self._at: dict[Place, str] = {}
        self._latest: str | None = None
        """Who spoke last, but for the branches that are open."""
        self._before: str | None = None
        """Who did so when the places of the main branch parted."""

    def follow(self, place: Place, agent_id: str) -> str | None:
        """Take who speaks now; give who gives way, None where nobody does."""
        if isinstance(place, int):
            before = self._at.get(place, self._latest)
        else:
            self._part(place)
            before = self._at.get(place, self._before)
            self._latest = agent_id
        self._at[place] = agent_id
        return before if before != agent_id else None

    def leave(self, place: Place) -> None:
        """Take the end of a branch."""
        self._latest = self._at.pop(place, self._latest)

    def _part(self, place: BranchPosition) -> None:
        """Forget the places of the main branch that do not stand beside this one."""
        places = [other for other in self._at if isinstance(other, BranchPosition)]
        if not any(other == place or other.is_beside(place) for other in places):
            self._before = self._latest
            for other in places:
                del self._at[other]
