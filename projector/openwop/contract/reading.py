"""Events as a consumer reads them, of any host: what the schemas require, and nothing that only we promise.

Unknown members and unknown types are passed over, as the protocol wants it (`COMPATIBILITY.md` 2.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel


class Read(BaseModel):
    """What everything that is read shares: camel case on the wire, unknown members passed over."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class Envelope(Read):
    """What every event has."""

    event_id: str
    run_id: str
    type: str
    sequence: int
    timestamp: str
    node_id: str | None = None
    causation_id: str | None = None


class ReasoningDelta(Read):
    """A block of reasoning grows."""

    agent_id: str
    delta: str
    sequence: int
    verbosity: str | None = None


class Reasoned(Read):
    """A block of reasoning is closed."""

    agent_id: str
    reasoning: str
    verbosity: str | None = None


class ToolCalled(Read):
    """A tool is called."""

    agent_id: str
    tool_name: str
    call_id: str
    inputs: Any = None


class ToolReturned(Read):
    """A tool has answered."""

    agent_id: str
    tool_name: str
    call_id: str
    outcome: Any = None
    error: dict[str, Any] | None = None


class Handoff(Read):
    """Another agent goes on."""

    from_agent_id: str
    to_agent_id: str
    reason: str | None = None


class Decided(Read):
    """An agent has decided."""

    agent_id: str
    decision: Any
    confidence: float | None = None


class Chunk(Read):
    """A model says text."""

    node_id: str
    chunk: str
    is_last: bool
    channel: str | None = None


class Suspended(Read):
    """A node waits."""

    node_id: str
    interrupt_id: str
    kind: str | None = None


class Resumed(Read):
    """A node goes on."""

    node_id: str
    interrupt_id: str | None = None


class RunEnd(Read):
    """A run begins or ends; of one that failed, why."""

    outputs: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


PAYLOADS: Final[Mapping[str, type[Read]]] = {
    "agent.reasoning.delta": ReasoningDelta,
    "agent.reasoned": Reasoned,
    "agent.toolCalled": ToolCalled,
    "agent.toolReturned": ToolReturned,
    "agent.handoff": Handoff,
    "agent.decided": Decided,
    "output.chunk": Chunk,
    "node.suspended": Suspended,
    "node.resumed": Resumed,
    "run.started": RunEnd,
    "run.completed": RunEnd,
    "run.failed": RunEnd,
    "run.cancelled": RunEnd,
}
"""Type -> its payload; every other type is passed over."""


class ReadEvent(NamedTuple):
    """One event; no payload where its type is not known, or is not what it should be."""

    envelope: Envelope
    payload: Read | None


def read_event(value: object) -> ReadEvent | None:
    """Read an event of any host; None where it is not even an event."""
    try:
        envelope = Envelope.model_validate(value)
    except ValidationError:
        return None
    model = PAYLOADS.get(envelope.type)
    said = value.get("payload") if isinstance(value, Mapping) else None
    try:
        return ReadEvent(envelope, None if model is None else model.model_validate(said))
    except ValidationError:
        return ReadEvent(envelope, None)
