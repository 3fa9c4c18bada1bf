"""Events of a run log as we emit them, discriminated by `type`."""

from __future__ import annotations

from typing import Annotated, Final, Generic, Literal, TypeAlias, TypeVar

from pydantic import Field, TypeAdapter

from projector.contracts.parts import Count, Maybe, Notice
from projector.openwop.contract import payloads
from projector.openwop.contract.payloads import Id, OpenWopModel, Timestamp
from projector.openwop.event_log import VENDOR

TypeName = TypeVar("TypeName", bound=str)
Payload = TypeVar("Payload")


class RunEvent(OpenWopModel, Generic[TypeName, Payload]):
    """One event of a run; members without a value are absent, never null."""

    event_id: Id
    run_id: Id
    node_id: Maybe[Id] = None
    type: TypeName
    payload: Payload
    timestamp: Timestamp
    sequence: Count
    """Position in the run log, from 0. A reasoning delta has another `sequence` in its payload, counted per block."""
    causation_id: Maybe[Id] = None
    """`eventId` of the event that caused this one."""
    notices: Maybe[Annotated[list[Notice], Field(min_length=1)]] = Field(None, alias=f"{VENDOR}.notices")
    """What was withheld or truncated in this event; paths are those of the public event."""


class NodeEvent(RunEvent[TypeName, Payload], Generic[TypeName, Payload]):
    """Event of a node."""

    node_id: Id


class AgentReasoningDeltaEvent(RunEvent[Literal["agent.reasoning.delta"], payloads.AgentReasoningDelta]):
    """Text appended to a reasoning block."""


class AgentReasonedEvent(RunEvent[Literal["agent.reasoned"], payloads.AgentReasoned]):
    """End of a reasoning block, with its full text."""


class AgentToolCalledEvent(RunEvent[Literal["agent.toolCalled"], payloads.AgentToolCalled]):
    """Tool call."""


class AgentToolReturnedEvent(RunEvent[Literal["agent.toolReturned"], payloads.AgentToolReturned]):
    """Result of a tool call; `causationId` is the `eventId` of the call."""

    causation_id: Id


class AgentHandoffEvent(RunEvent[Literal["agent.handoff"], payloads.AgentHandoff]):
    """Handoff to another agent."""


class AgentDecidedEvent(RunEvent[Literal["agent.decided"], payloads.AgentDecided]):
    """Decision of an agent."""


class OutputChunkEvent(RunEvent[Literal["output.chunk"], payloads.OutputChunk]):
    """Output text of a model."""


class ProviderUsageEvent(RunEvent[Literal["provider.usage"], payloads.ProviderUsage]):
    """Token usage of a model call."""


class NodeStartedEvent(NodeEvent[Literal["node.started"], payloads.NodeStarted]):
    """Start of a node."""


class NodeCompletedEvent(NodeEvent[Literal["node.completed"], payloads.NodeCompleted]):
    """Successful end of a node."""


class NodeFailedEvent(NodeEvent[Literal["node.failed"], payloads.NodeFailed]):
    """Failure of a node."""


class NodeCancelledEvent(NodeEvent[Literal["node.cancelled"], payloads.NodeCancelled]):
    """Cancellation of a node."""


class NodeSuspendedEvent(NodeEvent[Literal["node.suspended"], payloads.NodeSuspended]):
    """Suspension of a node until an interrupt is answered."""


class NodeResumedEvent(NodeEvent[Literal["node.resumed"], payloads.NodeResumed]):
    """Resumption of a node."""


class InterruptResolvedEvent(NodeEvent[Literal["interrupt.resolved"], payloads.InterruptResolved]):
    """Answer to an interrupt."""


class RunStartedEvent(RunEvent[Literal["run.started"], payloads.RunStarted]):
    """Start of the run."""


class RunCompletedEvent(RunEvent[Literal["run.completed"], payloads.RunCompleted]):
    """Successful end of the run."""


class RunFailedEvent(RunEvent[Literal["run.failed"], payloads.RunFailed]):
    """Failure of the run."""


class RunCancelledEvent(RunEvent[Literal["run.cancelled"], payloads.RunCancelled]):
    """Cancellation of the run."""


class ReplayDivergedEvent(RunEvent[Literal["replay.diverged"], payloads.ReplayDiverged]):
    """Difference between a replay and its recording."""


class MessageCitationEvent(RunEvent[Literal["public-sse.message.citation"], payloads.MessageCitation]):
    """Citation in a message."""


class ChunkDeltaEvent(RunEvent[Literal["public-sse.chunk.delta"], payloads.ChunkDelta]):
    """Chunk of an image."""


class ChunkDoneEvent(RunEvent[Literal["public-sse.chunk.done"], payloads.ChunkDone]):
    """End of an image."""


OpenWopEvent: TypeAlias = Annotated[
    AgentReasoningDeltaEvent
    | AgentReasonedEvent
    | AgentToolCalledEvent
    | AgentToolReturnedEvent
    | AgentHandoffEvent
    | AgentDecidedEvent
    | OutputChunkEvent
    | ProviderUsageEvent
    | NodeStartedEvent
    | NodeCompletedEvent
    | NodeFailedEvent
    | NodeCancelledEvent
    | NodeSuspendedEvent
    | NodeResumedEvent
    | InterruptResolvedEvent
    | RunStartedEvent
    | RunCompletedEvent
    | RunFailedEvent
    | RunCancelledEvent
    | ReplayDivergedEvent
    | MessageCitationEvent
    | ChunkDeltaEvent
    | ChunkDoneEvent,
    Field(discriminator="type"),
]
"""Every event we emit. Types that begin with `public-sse.` are our own; other readers skip them."""

EVENT_ADAPTER: Final[TypeAdapter[OpenWopEvent]] = TypeAdapter(OpenWopEvent)


def parse_event(value: object) -> OpenWopEvent:
    """Validate one event.

    Raises:
        pydantic.ValidationError: the value is not an event that we emit.
    """
    return EVENT_ADAPTER.validate_python(value)
