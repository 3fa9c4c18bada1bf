"""Client library: read the log of a run from any host (`RunReader`), and replay a recorded log (`replayed`, RFC 0024).

Reading accepts what the schemas require and nothing that only our host promises. Unknown members and event types are
skipped (`COMPATIBILITY.md` 2.1). Replay keeps recorded ids and times; only a collapsed log, which has fewer events, is
renumbered, always in the same way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from projector.contracts import codec
from projector.openwop.agent_payloads import reasoned
from projector.openwop.event_log import NODE_TERMINALS, RUN_TERMINALS, Event, present, shortened
from projector.redaction.compose import Gathered

BEFORE_ALL: Final = -1
"""`last_sequence` before the first event of a log."""

DELTA: Final = "agent.reasoning.delta"
CLOSING: Final = "agent.reasoned"

# events as they are read


class ReadModel(BaseModel):
    """Base of the models here: camel case on the wire, unknown members skipped."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class Envelope(ReadModel):
    """Members of every event."""

    event_id: str
    run_id: str
    type: str
    sequence: int
    timestamp: str
    node_id: str | None = None
    causation_id: str | None = None


class ReasoningDelta(ReadModel):
    """Text appended to a reasoning block."""

    agent_id: str
    delta: str
    sequence: int
    verbosity: str | None = None


class Reasoned(ReadModel):
    """Full text of a closed reasoning block."""

    agent_id: str
    reasoning: str
    verbosity: str | None = None


class ToolCalled(ReadModel):
    """Tool call of an agent."""

    agent_id: str
    tool_name: str
    call_id: str
    inputs: Any = None


class ToolReturned(ReadModel):
    """Outcome or error of a tool call."""

    agent_id: str
    tool_name: str
    call_id: str
    outcome: Any = None
    error: dict[str, Any] | None = None


class Handoff(ReadModel):
    """Handoff from one agent to another."""

    from_agent_id: str
    to_agent_id: str
    reason: str | None = None


class Decided(ReadModel):
    """Decision of an agent."""

    agent_id: str
    decision: Any
    confidence: float | None = None


class Chunk(ReadModel):
    """Output text."""

    node_id: str
    chunk: str
    is_last: bool
    channel: str | None = None


class Suspended(ReadModel):
    """Suspension of a node."""

    node_id: str
    interrupt_id: str
    kind: str | None = None


class Resumed(ReadModel):
    """Resumption of a node."""

    node_id: str
    interrupt_id: str | None = None


class RunChange(ReadModel):
    """Start or end of a run."""

    outputs: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


PAYLOADS: Final[Mapping[str, type[ReadModel]]] = {
    DELTA: ReasoningDelta,
    CLOSING: Reasoned,
    "agent.toolCalled": ToolCalled,
    "agent.toolReturned": ToolReturned,
    "agent.handoff": Handoff,
    "agent.decided": Decided,
    "output.chunk": Chunk,
    "node.suspended": Suspended,
    "node.resumed": Resumed,
    "run.started": RunChange,
    **dict.fromkeys(sorted(RUN_TERMINALS), RunChange),
}
"""Event type -> payload; all other types are skipped."""


class ReadEvent(NamedTuple):
    """An event; the payload is None if its type is unknown or it is invalid."""

    envelope: Envelope
    payload: ReadModel | None


def read_event(value: object) -> ReadEvent | None:
    """Parse an event of any host; return None if the value is not an event."""
    try:
        envelope = Envelope.model_validate(value)
    except ValidationError:
        return None
    model = PAYLOADS.get(envelope.type)
    payload = value.get("payload") if isinstance(value, Mapping) else None
    try:
        return ReadEvent(envelope, None if model is None else model.model_validate(payload))
    except ValidationError:
        return ReadEvent(envelope, None)


# the reader


@dataclass(slots=True)
class Thought:
    """A reasoning block. `has_gap` marks missing deltas; the closing event clears it."""

    agent_id: str
    verbosity: str | None = None
    is_closed: bool = False
    has_gap: bool = False
    next_sequence: int = 0
    gathered: Gathered[str] = field(default_factory=Gathered, repr=False)

    @property
    def text(self) -> str:
        """Text so far; the full text once the block is closed."""
        return self.gathered.text


@dataclass(slots=True)
class ToolCall:
    """A tool call, with its result if there is one."""

    call_id: str
    agent_id: str
    name: str
    inputs: Any = None
    has_returned: bool = False
    outcome: Any = None
    error: Mapping[str, Any] | None = None


@dataclass(slots=True)
class RunReader:
    """Reader of one run: `feed` takes each event, the attributes hold the state of the run.

    Args:
        last_sequence: sequence number of the last known event, -1 for none.
        is_filtered: whether the host omits events (a stream mode), so that gaps are not counted as missing.
    """

    last_sequence: int = BEFORE_ALL
    is_filtered: bool = False
    status: str = "pending"
    agent_id: str | None = None
    """Agent after the last handoff."""
    thoughts: list[Thought] = field(default_factory=list)
    calls: dict[str, ToolCall] = field(default_factory=dict)
    gathered: dict[str, Gathered[str]] = field(default_factory=dict, repr=False)
    decisions: list[Decided] = field(default_factory=list)
    interrupts: dict[str, Suspended] = field(default_factory=dict)
    """Pending interrupts by id."""
    outputs: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    missing: list[range] = field(default_factory=list)
    """Sequence numbers of events that were not received."""
    unread: int = 0
    """Number of invalid values and of events with an invalid payload."""
    open: dict[str, Thought] = field(default_factory=dict)
    """Open reasoning block of each agent."""

    @property
    def texts(self) -> dict[str, str]:
        """Output text by channel, or by node for hosts without channels."""
        return {channel: gathered.text for channel, gathered in self.gathered.items()}

    def feed(self, value: object) -> ReadEvent | None:
        """Add an event and return it typed; return None if it is invalid or was added before."""
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
            if isinstance(payload, RunChange):
                self.status = STATUSES[envelope.type]
            HANDLERS[type(payload)](self, payload)
        elif envelope.type in PAYLOADS:
            self.unread += 1
        return event


STATUSES: Final[Mapping[str, str]] = {
    "run.started": "running",
    "run.completed": "completed",
    "run.failed": "failed",
    "run.cancelled": "cancelled",
}
"""Event type -> status of the run."""


def _on_delta(run: RunReader, payload: ReasoningDelta) -> None:
    thought = run.open.get(payload.agent_id)
    if thought is None or payload.sequence == 0:
        thought = Thought(payload.agent_id, verbosity=payload.verbosity)
        run.thoughts.append(thought)
        run.open[payload.agent_id] = thought
    thought.has_gap |= payload.sequence != thought.next_sequence
    thought.next_sequence = payload.sequence + 1
    thought.gathered.add(payload.delta)


def _on_reasoned(run: RunReader, payload: Reasoned) -> None:
    thought = run.open.pop(payload.agent_id, None)
    if thought is None:
        thought = Thought(payload.agent_id)
        run.thoughts.append(thought)
    thought.gathered = Gathered()  # replaces the deltas: the host's redaction and limits apply to the full text
    thought.gathered.add(payload.reasoning)
    thought.verbosity, thought.is_closed, thought.has_gap = payload.verbosity, True, False


def _on_called(run: RunReader, payload: ToolCalled) -> None:
    run.calls[payload.call_id] = ToolCall(payload.call_id, payload.agent_id, payload.tool_name, payload.inputs)


def _on_returned(run: RunReader, payload: ToolReturned) -> None:
    call = run.calls.setdefault(payload.call_id, ToolCall(payload.call_id, payload.agent_id, payload.tool_name))
    call.has_returned, call.outcome, call.error = True, payload.outcome, payload.error


def _on_handoff(run: RunReader, payload: Handoff) -> None:
    run.agent_id = payload.to_agent_id


def _on_decided(run: RunReader, payload: Decided) -> None:
    run.decisions.append(payload)


def _on_chunk(run: RunReader, payload: Chunk) -> None:
    if payload.chunk:
        run.gathered.setdefault(payload.channel or payload.node_id, Gathered()).add(payload.chunk)


def _on_suspended(run: RunReader, payload: Suspended) -> None:
    run.interrupts[payload.interrupt_id] = payload
    run.status = "waiting-approval"


def _on_resumed(run: RunReader, payload: Resumed) -> None:
    run.interrupts.pop(payload.interrupt_id or "", None)
    run.status = "waiting-approval" if run.interrupts else "running"


def _on_run(run: RunReader, payload: RunChange) -> None:
    run.outputs, run.error = payload.outputs, payload.error


PayloadHandler: TypeAlias = Callable[[RunReader, Any], None]

HANDLERS: Final[Mapping[type[ReadModel], PayloadHandler]] = {
    ReasoningDelta: _on_delta,
    Reasoned: _on_reasoned,
    ToolCalled: _on_called,
    ToolReturned: _on_returned,
    Handoff: _on_handoff,
    Decided: _on_decided,
    Chunk: _on_chunk,
    Suspended: _on_suspended,
    Resumed: _on_resumed,
    RunChange: _on_run,
}
"""Payload -> update of the reader."""

# replay


def replayed(recorded: Sequence[Event], *, with_deltas: bool) -> list[Event]:
    """Return a recorded log again, with its reasoning deltas or collapsed to the closing events.

    A block that the recording left open is closed with its text before the end of the run or at the end of the log.
    """
    events: list[Event] = []
    blocks: dict[str, list[Event]] = {}
    for event in recorded:
        if event["type"] == DELTA:
            blocks.setdefault(event["payload"]["agentId"], []).append(event)
            if not with_deltas:
                continue
        elif event["type"] == CLOSING:
            blocks.pop(event["payload"]["agentId"], None)
        elif event["type"] in RUN_TERMINALS:
            events += _closed(blocks)
        events.append(event)
    events += _closed(blocks)
    first = recorded[0]["sequence"] if recorded else 0
    return [{**event, "sequence": sequence} for sequence, event in enumerate(events, first)]


def divergence(recorded: Sequence[Event], current: Sequence[Event]) -> dict[str, Any] | None:
    """Return the payload of `replay.diverged` for the first difference of two logs, None if there is none.

    Types and payloads are compared. Ids, times, sequence numbers and the boundaries of deltas may differ.
    """
    pairs = zip_longest(replayed(recorded, with_deltas=False), replayed(current, with_deltas=False))
    for before, after in pairs:
        kind = _difference(before, after)
        if kind is not None:
            event = before or after
            return {
                "sourceRunId": recorded[0]["runId"] if recorded else event["runId"],
                "atSequence": event["sequence"],
                **present(originalEventId=before and before["eventId"]),
                "divergenceKind": kind,
                "divergencePoint": event["type"],
            }
    return None


def attempt_key(run_id: str, node_id: str, attempt: int, request: Mapping[str, object]) -> str:
    """Return the key of an attempt of a node in an `InvocationLog`; the same attempt has the same key."""
    return hashlib.sha256(codec.dumps([run_id, node_id, attempt, sorted(request.items())])).hexdigest()


class InvocationLog:
    """Recorded events of attempts of nodes, so that a complete attempt is replayed without asking its provider.

    Args:
        max_attempts: limit of recorded attempts; the oldest are dropped first.
    """

    def __init__(self, max_attempts: int) -> None:
        self._max_attempts = max_attempts
        self._attempts: dict[str, list[Event]] = {}

    def record(self, key: str, event: Event) -> None:
        """Append an event of an attempt."""
        self._attempts.setdefault(key, []).append(event)
        while len(self._attempts) > self._max_attempts:
            del self._attempts[next(iter(self._attempts))]

    def recorded(self, key: str, *, with_deltas: bool = True) -> list[Event] | None:
        """Return the events of an attempt; return None if it is unknown or incomplete and has to be run."""
        events = self._attempts.get(key)
        if not events or events[-1]["type"] not in RUN_TERMINALS | NODE_TERMINALS:
            return None
        return replayed(events, with_deltas=with_deltas)

    def release(self, key: str) -> None:
        """Drop an attempt; an interrupted attempt is run again from its start."""
        self._attempts.pop(key, None)


def _closed(blocks: dict[str, list[Event]]) -> list[Event]:
    """Return the closing events of the open blocks and clear them."""
    closed = [_closing(deltas) for deltas in blocks.values()]
    blocks.clear()
    return closed


def _closing(deltas: list[Event]) -> Event:
    last = deltas[-1]
    text = "".join(delta["payload"]["delta"] for delta in deltas)
    payload = reasoned(last["payload"]["agentId"], text, last["payload"].get("verbosity"))
    return {**last, "eventId": shortened(f"{last['eventId']}:closed"), "type": CLOSING, "payload": payload}


def _difference(before: Event | None, after: Event | None) -> str | None:
    if before is None or after is None:
        return "missing" if after is None else "extra"
    if before["type"] != after["type"]:
        return "type-mismatch"
    return "output" if _compared(before) != _compared(after) else None


def _compared(event: Event) -> dict[str, Any]:
    """Return the payload without the run id."""
    return {name: value for name, value in event["payload"].items() if name != "runId"}
