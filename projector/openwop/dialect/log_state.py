"""State of one event log while the dialect writes it: open nodes, branches, agents, reasoning blocks and calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from projector.contracts.limits import NOTICES_MAX_ITEMS
from projector.core.canonical import Frame
from projector.dialects.options import DialectOptions
from projector.dialects.workflow import BranchPosition
from projector.openwop.event_log import VENDOR, Event, EventLog, Verbosity
from projector.redaction import compose

WORKFLOW_ID: Final = f"{VENDOR}.stream"
NODE_ID: Final = "model"
TYPE_ID: Final = f"vendor.{VENDOR}.model"
"""Default workflow id, node id and node type. `vendor.*` types may emit agent events (RFC 0023 section A)."""

COMPLETED: Final = "completed"

Position: TypeAlias = BranchPosition | int
"""A sequence of steps: a branch of the run by its number, or a position of the workflow in the main branch."""


class PendingNotices:
    """Notices of frames, until an event carries them."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: list[object] = []

    def add(self, new: list[object] | None) -> None:
        """Add the notices of a frame, up to the limit of one event; duplicates are skipped."""
        if new:
            room = NOTICES_MAX_ITEMS - len(self._pending)
            self._pending += [notice for notice in new if notice not in self._pending][:room]

    def release(self) -> list[object]:
        """Return all pending notices and clear them."""
        released, self._pending = self._pending, []
        return released


class ReasoningItem:
    """A reasoning item of the stream."""

    __slots__ = ("agent_id", "has_blocks")

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        self.has_blocks = False


class ReasoningBlock:
    """An open reasoning block: consecutive output of one item with one verbosity."""

    __slots__ = ("agent_id", "item_id", "notices", "part", "room", "sequence", "text", "verbosity")

    def __init__(self, agent_id: str, item_id: str, verbosity: Verbosity, room: int) -> None:
        self.agent_id = agent_id
        self.item_id = item_id
        self.verbosity = verbosity
        self.part: int | None = None
        """Index of the current part of the item."""
        self.text: compose.Gathered[str] = compose.Gathered()
        self.room = room
        """Remaining characters."""
        self.sequence = 0
        """Sequence number of the next delta."""
        self.notices = PendingNotices()


class OpenCall:
    """A tool call, from its announcement to its result."""

    def __init__(self, item_id: str, tool_type: str, agent_id: str) -> None:
        self.item_id = item_id
        self.id = item_id
        self.tool_type = tool_type
        self.agent_id = agent_id
        self.name = tool_type
        self.server_label: str | None = None
        self.inputs: dict[str, Any] = {}
        """The member `inputs` of the payload, if there are any."""
        self.members: dict[str, Any] = {}
        """Members of the tool statuses, by their public names."""
        self.event_id = ""
        """Id of the `agent.toolCalled` event; empty before it is emitted."""
        self.output: Frame | None = None
        """Output frame, until the status shows whether the call failed."""
        self.is_awaiting = False
        """Whether it waits for approval."""
        self.is_cut_off = False
        self.is_returned = False
        self.notices = PendingNotices()


class Suspension(NamedTuple):
    """A pending interrupt and the id of its `node.suspended` event."""

    node_id: str
    interrupt_id: str
    event_id: str


class OpenNode(NamedTuple):
    """An open node: its name from the frame context, and its id, unique among open nodes."""

    name: str
    id: str


class ResponseState:
    """One response of the provider."""

    def __init__(self) -> None:
        self.has_failed = False
        self.reason: str | None = None
        """Reason of its final status."""
        self.has_ended = False
        self.pending: set[str] = set()
        """Item ids of function calls without a result."""
        self.awaiting: list[OpenCall] = []
        """Calls that wait for approval."""


class BranchState:
    """One branch of the run; the main branch always exists."""

    def __init__(self) -> None:
        self.model: str | None = None
        self.response = ResponseState()
        """The current or last response."""
        self.suspended: list[Suspension] = []


class AgentTracker:
    """Current agent of each position, and which agent a new position takes over from.

    That is the last agent of the main branch or of a branch that has ended; parallel branches take over from the same
    agent.
    """

    def __init__(self) -> None:
        self._at: dict[Position, str] = {}
        self._latest: str | None = None
        """Last agent, ignoring open branches."""
        self._before: str | None = None
        """Last agent before the positions of the main branch split."""

    def follow(self, position: Position, agent_id: str) -> str | None:
        """Set the agent of a position; return the agent it takes over from, None if there is no change."""
        if isinstance(position, int):
            before = self._at.get(position, self._latest)
        else:
            self._split(position)
            before = self._at.get(position, self._before)
            self._latest = agent_id
        self._at[position] = agent_id
        return before if before != agent_id else None

    def leave(self, position: Position) -> None:
        """End a branch."""
        self._latest = self._at.pop(position, self._latest)

    def _split(self, position: BranchPosition) -> None:
        """Release the positions of the main branch that are not parallel to this one."""
        positions = [other for other in self._at if isinstance(other, BranchPosition)]
        if not any(other == position or other.is_beside(position) for other in positions):
            self._before = self._latest
            for other in positions:
                del self._at[other]


class LogState:
    """State of the log of one run."""

    def __init__(self, verbosity: Verbosity, options: DialectOptions) -> None:
        self.verbosity = verbosity
        self.options = options
        self.events: list[Event] = []
        """Events of the current frame."""
        self.log = EventLog("")
        self.timestamp = ""
        self.context: tuple[object, ...] = ()
        """Branch, workflow and agent of the previous frame."""
        self.node_id = ""
        self.agent_id = ""
        self.nodes: dict[Position, OpenNode] = {}
        """Open nodes, in the order of their start."""
        self.starts: Counter[str] = Counter()
        """Number of starts by node id."""
        self.agents = AgentTracker()
        self.open_texts: dict[str, str | None] = {}
        """Nodes with output text whose last chunk is not emitted yet -> model of the text."""
        self.has_text = False
        self.branch_number = 0
        self.branch = BranchState()
        self.branches = {0: self.branch}
        self.reasons: dict[str, str] = {}
        """Status of a response -> its last reason."""
        self.interrupts = 0
        self.reasoning: dict[str, ReasoningItem] = {}
        self.blocks: dict[str, ReasoningBlock] = {}
        """Open reasoning block of each agent."""
        self.calls: dict[str, OpenCall] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether an interrupt is pending."""
        return any(branch.suspended for branch in self.branches.values())

    def enter(self, number: int) -> None:
        """Switch to another branch."""
        self.branch_number = number
        self.branch = self.branches.setdefault(number, BranchState())

    def begin(self, frame: Frame) -> None:
        """Emit `run.started`, with the ids of the options or else of the stream."""
        options = self.options
        self.log = EventLog(options.run_id or frame["stream_id"])
        workflow = frame.get("workflow", {})
        metadata = {f"{VENDOR}.{name}": frame[name] for name in ("stream_id", "conversation_id") if name in frame}
        workflow_id = options.workflow_id or workflow.get("workflow_key") or WORKFLOW_ID
        self.emit("run.started", {"workflowId": workflow_id, "metadata": metadata}, node_id=None)

    def emit(
        self,
        event_type: str,
        payload: Mapping[str, Any],
        *,
        node_id: str | None = "",
        causation_id: str | None = None,
        notices: object = None,
    ) -> str:
        """Emit an event of the current node, or of `node_id` (None: of no node); return its id."""
        event = self.log.event(
            event_type,
            payload,
            timestamp=self.timestamp,
            node_id=self.node_id if node_id == "" else node_id,
            causation_id=causation_id,
            notices=notices,
        )
        self.events.append(event)
        event_id: str = event["eventId"]
        return event_id

    def next_interrupt(self) -> int:
        """Return the number of a new interrupt."""
        self.interrupts += 1
        return self.interrupts - 1
