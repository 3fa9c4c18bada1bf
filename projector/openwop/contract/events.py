"""The events of a run's log that we emit: one class a type, told apart by `type`."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from projector.contracts.parts import Count, Maybe, Notice
from projector.openwop.contract import payloads
from projector.openwop.contract.parts import VENDOR, Id, OpenWopModel, Timestamp


class RunEvent(OpenWopModel):
    """What every event has; what has no value is absent, never null."""

    event_id: Id
    run_id: Id
    node_id: Maybe[Id] = None
    timestamp: Timestamp
    sequence: Count
    """Of the run: from 0, by 1. A delta of reasoning has another one in its payload, of its block."""
    causation_id: Maybe[Id] = None
    """The event that this one answers."""
    notices: Maybe[Annotated[list[Notice], Field(min_length=1)]] = Field(None, alias=f"{VENDOR}.notices")
    """What was withheld or cut in it; paths are those of the public event."""


# agents


class AgentReasoningDeltaEvent(RunEvent):
    """A block of reasoning grows."""

    type: Literal["agent.reasoning.delta"]
    payload: payloads.AgentReasoningDelta


class AgentReasonedEvent(RunEvent):
    """A block of reasoning is closed."""

    type: Literal["agent.reasoned"]
    payload: payloads.AgentReasoned


class AgentToolCalledEvent(RunEvent):
    """A tool is called."""

    type: Literal["agent.toolCalled"]
    payload: payloads.AgentToolCalled


class AgentToolReturnedEvent(RunEvent):
    """A tool has answered; `causationId` is the event that called it."""

    type: Literal["agent.toolReturned"]
    payload: payloads.AgentToolReturned
    causation_id: Id


class AgentHandoffEvent(RunEvent):
    """One agent gives way to another."""

    type: Literal["agent.handoff"]
    payload: payloads.AgentHandoff


class AgentDecidedEvent(RunEvent):
    """An agent has decided."""

    type: Literal["agent.decided"]
    payload: payloads.AgentDecided


class OutputChunkEvent(RunEvent):
    """A model says text."""

    type: Literal["output.chunk"]
    payload: payloads.OutputChunk


class ProviderUsageEvent(RunEvent):
    """A model call has cost tokens."""

    type: Literal["provider.usage"]
    payload: payloads.ProviderUsage


# nodes


class NodeStartedEvent(RunEvent):
    """A node begins."""

    type: Literal["node.started"]
    payload: payloads.NodeStarted
    node_id: Id


class NodeCompletedEvent(RunEvent):
    """A node is complete."""

    type: Literal["node.completed"]
    payload: payloads.NodeCompleted
    node_id: Id


class NodeFailedEvent(RunEvent):
    """A node has failed."""

    type: Literal["node.failed"]
    payload: payloads.NodeFailed
    node_id: Id


class NodeCancelledEvent(RunEvent):
    """A node was stopped."""

    type: Literal["node.cancelled"]
    payload: payloads.NodeCancelled
    node_id: Id


class NodeSuspendedEvent(RunEvent):
    """A node waits for a person."""

    type: Literal["node.suspended"]
    payload: payloads.NodeSuspended
    node_id: Id


class NodeResumedEvent(RunEvent):
    """A node goes on."""

    type: Literal["node.resumed"]
    payload: payloads.NodeResumed
    node_id: Id


class InterruptResolvedEvent(RunEvent):
    """A person has answered."""

    type: Literal["interrupt.resolved"]
    payload: payloads.InterruptResolved
    node_id: Id


# runs


class RunStartedEvent(RunEvent):
    """The run begins."""

    type: Literal["run.started"]
    payload: payloads.RunStarted


class RunCompletedEvent(RunEvent):
    """The run is complete."""

    type: Literal["run.completed"]
    payload: payloads.RunCompleted


class RunFailedEvent(RunEvent):
    """The run has failed."""

    type: Literal["run.failed"]
    payload: payloads.RunFailed


class RunCancelledEvent(RunEvent):
    """The run was stopped."""

    type: Literal["run.cancelled"]
    payload: payloads.RunCancelled


class ReplayDivergedEvent(RunEvent):
    """A replay is not what was recorded."""

    type: Literal["replay.diverged"]
    payload: payloads.ReplayDiverged


# what OpenWOP has no event for: types of ours, which its readers pass over


class MessageCitationEvent(RunEvent):
    """A message cites a source."""

    type: Literal["public-sse.message.citation"]
    payload: payloads.MessageCitation


class ChunkDeltaEvent(RunEvent):
    """A piece of an image."""

    type: Literal["public-sse.chunk.delta"]
    payload: payloads.ChunkDelta


class ChunkDoneEvent(RunEvent):
    """An image is complete."""

    type: Literal["public-sse.chunk.done"]
    payload: payloads.ChunkDone


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
"""Every event of ours, told apart by `type`."""

EVENT_ADAPTER: Final[TypeAdapter[OpenWopEvent]] = TypeAdapter(OpenWopEvent)

RUN_TERMINALS: Final = frozenset({"run.completed", "run.failed", "run.cancelled"})


def parse_event(value: object) -> OpenWopEvent:
    """Read one event from its JSON value.

    Raises:
        pydantic.ValidationError: the value is no event that we emit; `errors()` says where.
    """
    return EVENT_ADAPTER.validate_python(value)
