"""What one run has said so far, and how its events are said: what all writers of the dialect share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from projector.core.canonical import Frame
from projector.dialects.options import DialectOptions
from projector.openwop import Event, EventLog
from projector.openwop.contract.parts import VENDOR, Verbosity
from projector.openwop.dialect.items import Block, Call, Node, Place, Speakers, Thought, Voice

WORKFLOW_ID: Final = f"{VENDOR}.stream"
NODE_ID: Final = "model"
TYPE_ID: Final = f"vendor.{VENDOR}.model"
"""What the run, its node and its type are called where the host gives no names. `vendor.*` types may emit events of
agents (RFC 0023 section A)."""

COMPLETED: Final = "completed"


class Run:
    """The log of one run, and what must be known to write its next event."""

    def __init__(self, verbosity: Verbosity, options: DialectOptions) -> None:
        self.verbosity = verbosity
        self.options = options
        self.said: list[Event] = []
        """What the frame at hand says."""
        self.log = EventLog("")
        self.at = ""
        self.context: tuple[object, ...] = ()
        """Branch, workflow and agent of the frame before."""
        self.node_id = ""
        """The node that speaks now."""
        self.agent_id = ""
        """The agent that speaks now."""
        self.nodes: dict[Place, Node] = {}
        """Open nodes, in the order in which they began."""
        self.starts: Counter[str] = Counter()
        """How often each node has begun."""
        self.speakers = Speakers()
        self.speaking: dict[str, str | None] = {}
        """Nodes that have begun to say text and have not said that it was the last, and the model of each."""
        self.has_said_text = False
        self.branch = 0
        """Which branch speaks."""
        self.voice = Voice()
        self.voices = {0: self.voice}
        self.reasons: dict[str, str] = {}
        """Why a response last ended with a status, where it was told."""
        self.interrupts = 0
        self.thoughts: dict[str, Thought] = {}
        self.blocks: dict[str, Block] = {}
        """Open blocks of reasoning, one of an agent at most."""
        self.calls: dict[str, Call] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether an interrupt has had no answer."""
        return any(voice.suspended for voice in self.voices.values())

    def enter(self, branch: int) -> None:
        """Let another branch speak."""
        self.branch = branch
        self.voice = self.voices.setdefault(branch, Voice())

    def begin(self, frame: Frame) -> None:
        """Say that the run begins, under the ids of the options, else of the stream."""
        options = self.options
        self.log = EventLog(options.run_id or frame["stream_id"])
        workflow = frame.get("workflow", {})
        about = {f"{VENDOR}.{name}": frame[name] for name in ("stream_id", "conversation_id") if name in frame}
        workflow_id = options.workflow_id or workflow.get("workflow_key") or WORKFLOW_ID
        self.say("run.started", {"workflowId": workflow_id, "metadata": about}, node_id=None)

    def say(
        self,
        event_type: str,
        payload: Mapping[str, Any],
        *,
        node_id: str | None = "",
        causation_id: str | None = None,
        notices: object = None,
    ) -> str:
        """Say an event; give its id. `node_id` is the node that speaks now, unless another or none is named."""
        node = self.node_id if node_id == "" else node_id
        event = self.log.event(
            event_type, payload, timestamp=self.at, node_id=node, causation_id=causation_id, notices=notices
        )
        self.said.append(event)
        event_id: str = event["eventId"]
        return event_id

    def next_interrupt(self) -> int:
        """Give the number of a new interrupt."""
        self.interrupts += 1
        return self.interrupts - 1
