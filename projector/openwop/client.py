"""Client library: read the log of a run from any host (`RunReader`), and replay a recorded log (`replayed`, RFC 0024).

Reading accepts what the schemas require and nothing that only our host promises. Unknown members and event types are
skipped (`COMPATIBILITY.md` 2.1). Replay keeps recorded ids and times; only a collapsed log, which has fewer events, is
renumbered, always in the same way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from projector.contracts import codec
from projector.openwop.event_log import NODE_TERMINALS, RUN_TERMINALS, VENDOR, Event, present, reasoned, shortened
from projector.redaction.gathered import Gathered

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


class Payload(ReadModel):
    """Base of the payloads."""

    def apply(self, run: RunReader, envelope: Envelope, /) -> None:
        """Update the state of a run."""
        raise NotImplementedError


class ReasoningDelta(Payload):
    """Text appended to a reasoning block."""

    agent_id: str
    delta: str
    sequence: int
    verbosity: str | None = None

    def apply(self, run: RunReader, envelope: Envelope) -> None:
        """Append the text; `sequence` 0 opens a block."""
        place = (self.agent_id, envelope.node_id)
        thought = run.open.get(place)
        if thought is None or self.sequence == 0:
            thought = Thought(self.agent_id, verbosity=self.verbosity)
            run.thoughts.append(thought)
            run.open[place] = thought
        thought.has_gap |= self.sequence != thought.next_sequence
        thought.next_sequence = self.sequence + 1
        thought.gathered.add(self.delta)


class Reasoned(Payload):
    """Full text of a closed reasoning block."""

    agent_id: str
    reasoning: str
    verbosity: str | None = None

    def apply(self, run: RunReader, envelope: Envelope) -> None:
        """Close the block. The full text replaces the deltas: the host's redaction and limits apply to it."""
        thought = run.open.pop((self.agent_id, envelope.node_id), None)
        if thought is None:
            thought = Thought(self.agent_id)
            run.thoughts.append(thought)
        thought.gathered = Gathered()
        thought.gathered.add(self.reasoning)
        thought.verbosity, thought.is_closed, thought.has_gap = self.verbosity, True, False


class ToolCalled(Payload):
    """Tool call of an agent."""

    agent_id: str
    tool_name: str
    call_id: str
    inputs: Any = None

    def apply(self, run: RunReader, _envelope: Envelope) -> None:
        """Add the call."""
        run.calls[self.call_id] = ToolCall(self.call_id, self.agent_id, self.tool_name, self.inputs)


class ToolReturned(Payload):
    """Outcome or error of a tool call."""

    agent_id: str
    tool_name: str
    call_id: str
    outcome: Any = None
    error: dict[str, Any] | None = None

    def apply(self, run: RunReader, _envelope: Envelope) -> None:
        """Add the result to its call."""
        call = run.calls.setdefault(self.call_id, ToolCall(self.call_id, self.agent_id, self.tool_name))
        call.has_returned, call.outcome, call.error = True, self.outcome, self.error


class Handoff(Payload):
    """Handoff from one agent to another."""

    from_agent_id: str
    to_agent_id: str
    reason: str | None = None

    def apply(self, run: RunReader, _envelope: Envelope) -> None:
        """Set the agent."""
        run.agent_id = self.to_agent_id


class Decided(Payload):
    """Decision of an agent."""

    agent_id: str
    decision: Any
    confidence: float | None = None

    def apply(self, run: RunReader, _envelope: Envelope) -> None:
        """Add the decision."""
        run.decisions.append(self)


class Chunk(Payload):
    """Output text."""

    node_id: str
    chunk: str
    is_last: bool
    channel: str | None = None

    def apply(self, run: RunReader, _envelope: Envelope) -> None:
        """Append the text."""
        if self.chunk:
            run.gathered.setdefault(self.channel or self.node_id, Gathered()).add(self.chunk)


class Suspended(Payload):
    """Suspension of a node."""

    node_id: str
    interrupt_id: str
    kind: str | None = None

    def apply(self, run: RunReader, _envelope: Envelope) -> None:
        """Add the interrupt."""
        run.interrupts[self.interrupt_id] = self
        run.status = "waiting-approval"


class Resumed(Payload):
    """Resumption of a node."""

    node_id: str
    interrupt_id: str | None = None

    def apply(self, run: RunReader, _envelope: Envelope) -> None:
        """Remove the interrupt."""
        run.interrupts.pop(self.interrupt_id or "", None)
        run.status = "waiting-approval" if run.interrupts else "running"


class RunChange(Payload):
    """Start or end of a run."""

    outputs: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    def apply(self, run: RunReader, _envelope: Envelope) -> None:
        """Set outputs and error."""
        run.outputs, run.error = self.outputs, self.error


PAYLOADS: Final[Mapping[str, type[Payload]]] = {
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
    payload: Payload | None


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
    """Reader of one run: `feed` reads each event, the attributes hold the state of the run.

    `is_filtered` means that the host omits events (a stream mode): gaps are not counted as missing.
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
    open: dict[tuple[str, str | None], Thought] = field(default_factory=dict)
    """Agent and node -> their open reasoning block."""

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
            payload.apply(self, envelope)
        elif envelope.type in PAYLOADS:
            self.unread += 1
        return event


STATUSES: Final = {"run.started": "running"} | {name: name.removeprefix("run.") for name in RUN_TERMINALS}
"""Event type -> status of the run."""


# replay


def replayed(recorded: Sequence[Event], *, with_deltas: bool) -> list[Event]:
    """Return the events of a recorded log, with its reasoning deltas or only the closing events.

    A block that the recording left open is closed with its text, before the end of its node or of the run, or at the
    end of the log.
    """
    events: list[Event] = []
    blocks: dict[tuple[str, str | None], list[Event]] = {}
    for event in recorded:
        if event["type"] == DELTA:
            blocks.setdefault(_place(event), []).append(event)
            if not with_deltas:
                continue
        elif event["type"] == CLOSING:
            blocks.pop(_place(event), None)
        elif event["type"] in RUN_TERMINALS:
            events += _closed(blocks, list(blocks))
        elif event["type"] in NODE_TERMINALS:
            events += _closed(blocks, [place for place in blocks if place[1] == event["nodeId"]])
        events.append(event)
    events += _closed(blocks, list(blocks))
    first = recorded[0]["sequence"] if recorded else 0
    return [{**event, "sequence": sequence} for sequence, event in enumerate(events, first)]


def divergence(recorded: Sequence[Event], current: Sequence[Event]) -> dict[str, Any] | None:
    """Return the payload of `replay.diverged` for the first difference of two logs, None if there is none.

    Types and payloads are compared. Times, sequence numbers and the boundaries of deltas may differ, and so may ids if
    the same events refer to each other by them.
    """
    before_ids, after_ids = _Ids(), _Ids()
    pairs = zip_longest(replayed(recorded, with_deltas=False), replayed(current, with_deltas=False))
    for before, after in pairs:
        kind = _difference(before, after, before_ids, after_ids)
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
    return hashlib.sha256(codec.dumps([run_id, node_id, attempt, _in_order(request)])).hexdigest()


def _in_order(value: object) -> object:
    """Return a JSON value with the members of all its objects in one order."""
    if isinstance(value, Mapping):
        return {name: _in_order(value[name]) for name in sorted(value)}
    return [_in_order(item) for item in value] if isinstance(value, list | tuple) else value


class InvocationLog:
    """Recorded events of node attempts: a complete attempt is replayed without a request to its provider.

    At most `max_attempts` are kept; the oldest are dropped first.
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


def _place(event: Event) -> tuple[str, str | None]:
    """Return the agent and node of a reasoning event, which identify its block."""
    return event["payload"]["agentId"], event.get("nodeId")


def _closed(blocks: dict[tuple[str, str | None], list[Event]], places: Iterable[tuple[str, str | None]]) -> list[Event]:
    return [_closing(blocks.pop(place)) for place in places]


def _closing(deltas: list[Event]) -> Event:
    last = deltas[-1]
    text = "".join(delta["payload"]["delta"] for delta in deltas)
    payload = reasoned(last["payload"]["agentId"], text, last["payload"].get("verbosity"))
    return {**last, "eventId": shortened(f"{last['eventId']}:closed"), "type": CLOSING, "payload": payload}


ID_MEMBERS: Final = frozenset(
    {"runId", "callId", "channel", "interruptId", "key", "artifactId", "token", f"{VENDOR}.stream_id"}
)
"""Members of a payload, its `data` and its `metadata` that are ids: another run has others."""

ID_HOLDERS: Final = ("data", "metadata")


class _Ids:
    """Numbers of the ids of one log, in the order of their first use."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, object], int] = {}

    def numbered(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return a payload with numbers instead of ids."""
        known = {name: payload[name] for name in ID_HOLDERS if isinstance(payload.get(name), Mapping)}
        return {
            **payload,
            **{name: self._number(name, payload[name]) for name in payload if name in ID_MEMBERS},
            **{name: self.numbered(value) for name, value in known.items()},
        }

    def _number(self, name: str, value: object) -> int:
        return self._numbers.setdefault((name, value if isinstance(value, str) else None), len(self._numbers))


def _difference(before: Event | None, after: Event | None, before_ids: _Ids, after_ids: _Ids) -> str | None:
    if before is None or after is None:
        return "missing" if after is None else "extra"
    if before["type"] != after["type"]:
        return "type-mismatch"
    is_same = before_ids.numbered(before["payload"]) == after_ids.numbered(after["payload"])
    return None if is_same else "output"
