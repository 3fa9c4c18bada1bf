"""Events of a run log as we emit them: a model for each event type, discriminated by `type`."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple, Union

from pydantic import Field, TypeAdapter, create_model

from projector.contracts.parts import Count, Maybe, Notice
from projector.openwop.contract import payloads
from projector.openwop.contract.payloads import Id, OpenWopModel, Timestamp
from projector.openwop.event_log import VENDOR


class RunEvent(OpenWopModel):
    """One event of a run; members without a value are absent, never null."""

    event_id: Id
    run_id: Id
    node_id: Maybe[Id] = None
    type: str
    payload: Any
    timestamp: Timestamp
    sequence: Count
    """Position in the run log, from 0. A reasoning delta has another `sequence` in its payload, counted per block."""
    causation_id: Maybe[Id] = None
    """`eventId` of the event that caused this one."""
    notices: Maybe[Annotated[list[Notice], Field(min_length=1)]] = Field(None, alias=f"{VENDOR}.notices")
    """What was withheld or truncated in this event; paths are those of the public event."""


class NodeEvent(RunEvent):
    """Event of a node."""

    node_id: Id


class ResultEvent(RunEvent):
    """Event that is caused by another one."""

    causation_id: Id


class CausedNodeEvent(NodeEvent):
    """Event of a node that is caused by another one."""

    causation_id: Id


class _Row(NamedTuple):
    name: str
    description: str
    payload: Any
    """Model of the payload."""
    base: type[RunEvent] = RunEvent


_ROWS: Final = (
    _Row("agent.reasoning.delta", "Text appended to a reasoning block.", payloads.AgentReasoningDelta),
    _Row("agent.reasoned", "End of a reasoning block, with its full text.", payloads.AgentReasoned),
    _Row("agent.toolCalled", "Tool call.", payloads.AgentToolCalled),
    _Row("agent.toolReturned", "Result of the tool call in `causationId`.", payloads.AgentToolReturned, ResultEvent),
    _Row("agent.handoff", "Handoff to another agent.", payloads.AgentHandoff),
    _Row("agent.decided", "Decision of an agent.", payloads.AgentDecided),
    _Row("output.chunk", "Output text of a model.", payloads.OutputChunk),
    _Row("provider.usage", "Token usage of a model call.", payloads.ProviderUsage),
    _Row("node.started", "Start of a node.", payloads.NodeStarted, NodeEvent),
    _Row("node.completed", "Successful end of a node.", payloads.NodeCompleted, NodeEvent),
    _Row("node.failed", "Failure of a node.", payloads.NodeFailed, NodeEvent),
    _Row("node.cancelled", "Cancellation of a node.", payloads.NodeCancelled, NodeEvent),
    _Row("node.suspended", "Suspension of a node until an interrupt is answered.", payloads.NodeSuspended, NodeEvent),
    _Row("node.resumed", "Resumption of a node.", payloads.NodeResumed, NodeEvent),
    _Row("interrupt.requested", "Question of a suspended node.", payloads.InterruptRequested, CausedNodeEvent),
    _Row("approval.received", "Answer to an approval.", payloads.ApprovalReceived, NodeEvent),
    _Row("interrupt.resolved", "Answer to an interrupt.", payloads.InterruptResolved, NodeEvent),
    _Row("run.started", "Start of the run.", payloads.RunStarted),
    _Row("run.completed", "Successful end of the run.", payloads.RunCompleted),
    _Row("run.failed", "Failure of the run.", payloads.RunFailed),
    _Row("run.cancelled", "Cancellation of the run.", payloads.RunCancelled),
    _Row("replay.diverged", "Difference between a replay and its recording.", payloads.ReplayDiverged),
    # our own event types; other readers skip them
    _Row("public-sse.message.citation", "Citation in a message.", payloads.MessageCitation),
    _Row("public-sse.chunk.delta", "Chunk of an image.", payloads.ChunkDelta),
    _Row("public-sse.chunk.done", "End of an image.", payloads.ChunkDone),
)

EVENT_TYPES: Final = tuple(row.name for row in _ROWS)


def _model(row: _Row) -> type[RunEvent]:
    """Create the model of an event type; that of `node.started` is `NodeStartedEvent`."""
    parts = row.name.removeprefix(f"{VENDOR}.").split(".")
    name = "".join(part[0].upper() + part[1:] for part in parts)
    literal: Any = Literal.__getitem__(row.name)
    return create_model(f"{name}Event", __base__=row.base, __doc__=row.description, type=literal, payload=row.payload)


_UNION: Final[Any] = Union.__getitem__(tuple(map(_model, _ROWS)))
EVENT_ADAPTER: Final[TypeAdapter[RunEvent]] = TypeAdapter(Annotated[_UNION, Field(discriminator="type")])
"""Every event we emit."""


def parse_event(value: object) -> RunEvent:
    """Validate one event; raise `pydantic.ValidationError` if it is not one that we emit."""
    return EVENT_ADAPTER.validate_python(value)
