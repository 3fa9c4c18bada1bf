"""State of one AG-UI run, and how its events are built: shared by the writers of the dialect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from projector.contracts.kinds import VENDOR
from projector.contracts.limits import NOTICES_MAX_ITEMS
from projector.core.canonical import Frame
from projector.dialects.descriptor import DialectOptions
from projector.dialects.frame_writer import BranchState, IdAllocator, has_sent

Event: TypeAlias = dict[str, Any]
"""One event of AG-UI."""

PROTOCOL_VERSION: Final = "1.0"

SAFE_INTEGER_MAX: Final = 2**53 - 1
"""Larger numbers are not exact in a browser, and the protocol rejects them."""

COMPLETED: Final = "completed"

_EMPTY: Final[tuple[object, ...]] = (None, [], "")


@dataclass(slots=True)
class Notices:
    """Notices of one message or call. Its last event repeats them: it replaces the metadata of earlier events."""

    all: list[object] = field(default_factory=list)

    def add(self, frame: Frame) -> list[object] | None:
        """Add the notices of a frame, and return them for the frame's own event."""
        new: list[object] | None = frame.get("notices")
        if new is not None:
            self.all += [notice for notice in new if notice not in self.all][: NOTICES_MAX_ITEMS - len(self.all)]
        return new


@dataclass(slots=True, eq=False)
class Message:
    """One message item: a text, a refusal, or both in turn."""

    item_id: str
    id: str = ""
    kind: str = ""
    """The open message: text or refusal; empty before the first."""
    content_index: int = 0
    citations: list[object] = field(default_factory=list)
    citations_bytes: int = 0
    notices: Notices = field(default_factory=Notices)


@dataclass(slots=True, eq=False)
class Reasoning:
    """One reasoning item: a span with one message for each part."""

    item_id: str
    part: tuple[str, int] | None = None
    """Kind and index of the open part."""
    id: str = ""
    first_id: str | None = None
    """ID of the first message: the encrypted value belongs to it."""
    notices: Notices = field(default_factory=Notices)


@dataclass(slots=True, eq=False)
class Call:
    """One call of a function or of an MCP tool."""

    item_id: str
    item_type: str
    branch: int
    response: int
    """Number of the response that made the call."""
    id: str = ""
    name: str = ""
    server_label: str | None = None
    held: list[str] = field(default_factory=list)
    """Arguments received before the name of the call."""
    has_started: bool = False
    has_arguments: bool = False
    has_ended: bool = False
    is_awaiting: bool = False
    """Whether it waits for an approval."""
    is_cut_off: bool = False
    is_answered: bool = False
    output: Frame | None = None
    """Output, kept until the status of the call is known."""
    notices: Notices = field(default_factory=Notices)


@dataclass(slots=True, eq=False)
class Activity:
    """Work of a provider tool."""

    id: str
    type: str
    content: dict[str, Any]
    """Members as last sent. For a growing list, only that it exists."""


class AgUiRun:
    """State of one run."""

    def __init__(self, options: DialectOptions) -> None:
        self.options = options
        self.message_ids = IdAllocator(options.taken_ids)
        self.call_ids = IdAllocator(options.taken_ids)
        self.at = 0
        """Time of the current frame, in milliseconds since 1970-01-01 UTC."""
        self.thread_id = ""
        self.run_id = ""
        self.branch = 0
        """Number of the current branch, 0 in a run without branches."""
        self.branch_state = BranchState()
        self.branch_states = {0: self.branch_state}
        self.reason: str | None = None
        """Reason for the end of the last response."""
        self.models: set[str] = set()
        self.parent_id: str | None = None
        """The assistant message that a call belongs to; None unless such a message is the last in the transcript."""
        self.messages: dict[str, Message] = {}
        self.silent: list[Message] = []
        """Messages that ended without a text."""
        self.reasonings: dict[str, Reasoning] = {}
        self.calls: dict[str, Call] = {}
        self.activities: dict[str, Activity] = {}

    def enter(self, branch: int) -> None:
        """Switch to another branch. Its calls do not belong to a message of the one before."""
        self.branch, self.parent_id = branch, None
        self.branch_state = self.branch_states.setdefault(branch, BranchState())

    def has_sent(self, kind: str, text: str) -> bool:
        """Return whether a text of `final` was sent: by one branch, or by the last ones together."""
        return has_sent([self.branch_states[branch] for branch in sorted(self.branch_states)], kind, text)

    def event(self, event_type: str, /, **fields: object) -> Event:
        """Return an event, without the fields that are None."""
        event: Event = {"type": event_type, "timestamp": self.at}
        event.update((name, value) for name, value in fields.items() if value is not None)
        return event


def metadata(**members: object) -> dict[str, object] | None:
    """Return metadata under the vendor prefix, without empty members; None if all are empty."""
    return {f"{VENDOR}.{name}": value for name, value in members.items() if value not in _EMPTY} or None


def unless_completed(status: str) -> str | None:
    """Return a status other than `completed`."""
    return status if status != COMPLETED else None
