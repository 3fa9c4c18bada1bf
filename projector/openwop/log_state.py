"""State of one event log while the dialect writes it: open nodes, branches, agents, reasoning blocks and calls."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from projector.contracts.kinds import VENDOR
from projector.core.canonical import Frame
from projector.dialects.descriptor import DialectOptions
from projector.dialects.frame_writer import BranchPosition, PendingNotices
from projector.openwop.event_log import Event, EventLog, Verbosity
from projector.redaction.clean import Gathered

WORKFLOW_ID: Final = f"{VENDOR}.stream"
"""Default workflow id."""

Position: TypeAlias = BranchPosition | int
"""A sequence of steps: a branch of the run by its number, or a position of the workflow in the main branch."""


@dataclass(slots=True)
class ReasoningBlock:
    """The output of one item with one verbosity."""

    agent_id: str
    node_id: str
    verbosity: Verbosity
    room: int
    """Remaining characters."""
    part: int | None = None
    """Index of the current part of the item."""
    text: Gathered[str] = field(default_factory=Gathered)
    sequence: int = 0
    """Sequence number of the next delta."""
    is_over: bool = False
    """Whether nothing is added to it."""
    notices: PendingNotices = field(default_factory=PendingNotices)


@dataclass(slots=True)
class ReasoningItem:
    """A reasoning item of the stream, and its last block of each verbosity."""

    agent_id: str
    blocks: dict[Verbosity, ReasoningBlock] = field(default_factory=dict)


@dataclass(slots=True)
class OpenCall:
    """A tool call, from its announcement to its result."""

    item_id: str
    id: str
    tool_type: str
    name: str
    agent_id: str
    server_label: str | None = None
    inputs: dict[str, Any] = field(default_factory=dict)
    """The member `inputs` of the payload, if there are any."""
    members: dict[str, Any] = field(default_factory=dict)
    """Members of the tool statuses, by their public names."""
    event_id: str = ""
    """Id of the `agent.toolCalled` event; empty before it is emitted."""
    output: Frame | None = None
    """Output frame, until the status shows whether the call failed."""
    is_awaiting: bool = False
    """Whether it waits for approval."""
    is_cut_off: bool = False
    is_returned: bool = False
    notices: PendingNotices = field(default_factory=PendingNotices)


class OpenNode(NamedTuple):
    """An open node: its name, from the frame context if that names a step, and its id, unique among open nodes."""

    name: str
    id: str


@dataclass(slots=True)
class ResponseState:
    """One response of the provider."""

    has_failed: bool = False
    has_ended: bool = False
    reason: str | None = None
    """Reason of its final status."""
    pending: set[str] = field(default_factory=set)
    """Item ids of function calls without a result."""
    awaiting: list[OpenCall] = field(default_factory=list)
    """Calls that wait for approval."""


@dataclass(slots=True)
class BranchState:
    """One branch of the run; the main branch always exists."""

    model: str | None = None
    response: ResponseState = field(default_factory=ResponseState)
    """The current or last response."""
    suspended: list[tuple[str, str, str]] = field(default_factory=list)
    """Node, id and `node.suspended` event of each pending interrupt."""


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
            branches = [other for other in self._at if isinstance(other, BranchPosition)]
            if not any(other == position or other.is_beside(position) for other in branches):
                self._before = self._latest
                for other in branches:  # which are not parallel to this one
                    del self._at[other]
            before = self._at.get(position, self._before)
            self._latest = agent_id
        self._at[position] = agent_id
        return before if before != agent_id else None

    def leave(self, position: Position) -> None:
        """End a branch."""
        self._latest = self._at.pop(position, self._latest)


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
        self.blocks: dict[tuple[str, str], deque[ReasoningBlock]] = {}
        """Agent and node -> its open reasoning block, and those that wait for its end."""
        self.waiting_chars = 0
        """Length of all reasoning that waits."""
        self.calls: dict[str, OpenCall] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether an interrupt is pending."""
        return any(branch.suspended for branch in self.branches.values())

    def begin(self, frame: Frame) -> None:
        """Emit `run.started`, with the ids of the options or else of the stream."""
        options = self.options
        self.log = EventLog(options.run_id or frame["stream_id"])
        workflow = frame.get("workflow", {})
        metadata = {f"{VENDOR}.{name}": frame[name] for name in ("stream_id", "conversation_id") if name in frame}
        workflow_id = options.workflow_id or workflow.get("workflow_key") or WORKFLOW_ID
        self.emit("run.started", {"workflowId": workflow_id, "metadata": metadata}, node_id=None)

    def emit(self, event_type: str, payload: Mapping[str, Any], *, node_id: str | None = "", **members: Any) -> str:
        """Emit an event of the current node, or of `node_id` (None: of no node); return its id."""
        place = self.node_id if node_id == "" else node_id
        self.events.append(self.log.event(event_type, payload, timestamp=self.timestamp, node_id=place, **members))
        return str(self.events[-1]["eventId"])
