"""A run as its consumer sees it, event by event, of any host: one that streams reasoning and one that does not.

Deltas are shown as they come; the closing event of a block wins over all of them, because the host's redaction and
bounds count for it (RFC 0024). Unknown types are passed over. What was lost on the way is known by the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from projector.openwop.contract import reading
from projector.openwop.contract.reading import ReadEvent, read_event
from projector.redaction.compose import Gathered

BEFORE_ALL: Final = -1
"""The number before the first event of a log."""

STATUSES: Final[Mapping[str, str]] = {
    "run.started": "running",
    "run.completed": "completed",
    "run.failed": "failed",
    "run.cancelled": "cancelled",
}
"""Event -> how the run stands."""


@dataclass(slots=True)
class Thought:
    """A block of reasoning. `has_gap` says that deltas of it are missing; its closing event heals that."""

    agent_id: str
    verbosity: str | None = None
    is_closed: bool = False
    has_gap: bool = False
    deltas: int = 0
    """The number that its next delta should have."""
    said: Gathered[str] = field(default_factory=Gathered, repr=False)

    @property
    def text(self) -> str:
        """What it says so far; all of it once it is closed."""
        return self.said.text


@dataclass(slots=True)
class ToolCall:
    """A call of a tool, and its end where that has come."""

    call_id: str
    agent_id: str
    name: str
    inputs: Any = None
    has_returned: bool = False
    outcome: Any = None
    error: Mapping[str, Any] | None = None


@dataclass(slots=True)
class RunReader:
    """Reads one run. `feed` takes each event as it comes; the attributes say how the run stands.

    Args:
        last_sequence: the number of the last event that is known already, -1 before the first.
        is_filtered: whether the host leaves events out (a stream mode): then missing numbers mean nothing.
    """

    last_sequence: int = BEFORE_ALL
    is_filtered: bool = False
    status: str = "pending"
    agent_id: str | None = None
    """Who speaks, after the last handoff."""
    thoughts: list[Thought] = field(default_factory=list)
    calls: dict[str, ToolCall] = field(default_factory=dict)
    said: dict[str, Gathered[str]] = field(default_factory=dict, repr=False)
    decisions: list[reading.Decided] = field(default_factory=list)
    interrupts: dict[str, reading.Suspended] = field(default_factory=dict)
    """What the run waits for, by the id of the interrupt."""
    outputs: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    missing: list[range] = field(default_factory=list)
    """Numbers of events that never came."""
    unread: int = 0
    """How many of a known type were not what the schema says, or were no events at all."""
    open: dict[str, Thought] = field(default_factory=dict)
    """Blocks that are not closed, by their agent."""

    @property
    def texts(self) -> dict[str, str]:
        """What was said, by channel; by node where the host has no channels."""
        return {channel: said.text for channel, said in self.said.items()}

    def feed(self, value: object) -> ReadEvent | None:
        """Take an event as JSON; give it typed, None where it is none or has been read before."""
        event = read_event(value)
        if event is None:
            self.unread += 1
            return None
        envelope, payload = event
        if envelope.sequence <= self.last_sequence:
            return None
        if envelope.sequence > self.last_sequence + 1 and not self.is_filtered:
            self.missing.append(range(self.last_sequence + 1, envelope.sequence))
        self.last_sequence = envelope.sequence
        if payload is not None:
            self.status = STATUSES.get(envelope.type, self.status)
            HEARD[type(payload)](self, payload)
        elif envelope.type in reading.PAYLOADS:
            self.unread += 1
        return event


def _on_delta(run: RunReader, payload: reading.ReasoningDelta) -> None:
    thought = run.open.get(payload.agent_id)
    if thought is None or payload.sequence == 0:
        thought = Thought(payload.agent_id, verbosity=payload.verbosity)
        run.thoughts.append(thought)
        run.open[payload.agent_id] = thought
    thought.has_gap |= payload.sequence != thought.deltas
    thought.deltas = payload.sequence + 1
    thought.said.add(payload.delta)


def _on_reasoned(run: RunReader, payload: reading.Reasoned) -> None:
    thought = run.open.pop(payload.agent_id, None)
    if thought is None:
        thought = Thought(payload.agent_id)
        run.thoughts.append(thought)
    thought.said = Gathered()
    thought.said.add(payload.reasoning)
    thought.verbosity, thought.is_closed, thought.has_gap = payload.verbosity, True, False


def _on_called(run: RunReader, payload: reading.ToolCalled) -> None:
    run.calls[payload.call_id] = ToolCall(payload.call_id, payload.agent_id, payload.tool_name, payload.inputs)


def _on_returned(run: RunReader, payload: reading.ToolReturned) -> None:
    call = run.calls.setdefault(payload.call_id, ToolCall(payload.call_id, payload.agent_id, payload.tool_name))
    call.has_returned, call.outcome, call.error = True, payload.outcome, payload.error


def _on_handoff(run: RunReader, payload: reading.Handoff) -> None:
    run.agent_id = payload.to_agent_id


def _on_decided(run: RunReader, payload: reading.Decided) -> None:
    run.decisions.append(payload)


def _on_chunk(run: RunReader, payload: reading.Chunk) -> None:
    if payload.chunk:
        run.said.setdefault(payload.channel or payload.node_id, Gathered()).add(payload.chunk)


def _on_suspended(run: RunReader, payload: reading.Suspended) -> None:
    run.interrupts[payload.interrupt_id] = payload
    run.status = "waiting-approval"


def _on_resumed(run: RunReader, payload: reading.Resumed) -> None:
    run.interrupts.pop(payload.interrupt_id or "", None)
    run.status = "waiting-approval" if run.interrupts else "running"


def _on_run(run: RunReader, payload: reading.RunEnd) -> None:
    run.outputs, run.error = payload.outputs, payload.error


Hearer: TypeAlias = Callable[[RunReader, Any], None]

HEARD: Final[Mapping[type[reading.Read], Hearer]] = {
    reading.ReasoningDelta: _on_delta,
    reading.Reasoned: _on_reasoned,
    reading.ToolCalled: _on_called,
    reading.ToolReturned: _on_returned,
    reading.Handoff: _on_handoff,
    reading.Decided: _on_decided,
    reading.Chunk: _on_chunk,
    reading.Suspended: _on_suspended,
    reading.Resumed: _on_resumed,
    reading.RunEnd: _on_run,
}
"""Payload -> what it changes."""
