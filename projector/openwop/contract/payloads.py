"""The payloads of the events that we emit, one class a type; those of agents, then those of runs and nodes."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, JsonValue

from projector.contracts.parts import ChunkTarget, Citation, Count, Json, Maybe
from projector.openwop.contract.parts import (
    AgentId,
    ApprovalData,
    ErrorObject,
    Id,
    Key,
    LowConfidenceData,
    Name,
    OpenWopModel,
    Share,
    Verbosity,
)

# agents


class AgentReasoningDelta(OpenWopModel):
    """More of a block of reasoning that is still open; `sequence` counts from 0 in each block (RFC 0024)."""

    agent_id: AgentId
    delta: str
    sequence: Count
    verbosity: Maybe[Verbosity] = None


class AgentReasoned(OpenWopModel):
    """A block of reasoning is closed; this is all of it, whatever the deltas said (RFC 0002, RFC 0024)."""

    agent_id: AgentId
    reasoning: str
    verbosity: Maybe[Verbosity] = None
    token_count: Maybe[Count] = None


class AgentToolCalled(OpenWopModel):
    """An agent calls a tool."""

    agent_id: AgentId
    tool_name: Name
    call_id: Name
    inputs: JsonValue = None
    """The arguments parsed, or their text where they do not parse; absent where there are none yet."""
    transport: Maybe[Literal["mcp", "http", "native"]] = None
    server_label: Maybe[Name] = None
    """The MCP server; a member of ours."""


class AgentToolReturned(OpenWopModel):
    """A call has ended, with an outcome or with an error; `causationId` of its event names the call's."""

    agent_id: AgentId
    tool_name: Name
    call_id: Name
    outcome: JsonValue = None
    error: Maybe[ErrorObject] = None
    duration_ms: Maybe[Count] = None


class AgentHandoff(OpenWopModel):
    """Another agent goes on."""

    from_agent_id: AgentId
    to_agent_id: AgentId
    reason: Maybe[str] = None


class AgentDecided(OpenWopModel):
    """An agent has decided what comes next."""

    agent_id: AgentId
    decision: JsonValue
    confidence: Maybe[Share] = None


# what a model says and costs


class ChunkMeta(OpenWopModel):
    """What ends the text of one model call."""

    finish_reason: Maybe[Literal["stop", "length", "tool_calls", "content_filter"]] = None
    model: Maybe[Name] = None


class OutputChunk(OpenWopModel):
    """More text. A message is a channel of its own; `isLast`, without a channel, ends those of one model call."""

    node_id: Id
    run_id: Id
    chunk: str
    is_last: bool
    channel: Maybe[Name] = None
    meta: Maybe[ChunkMeta] = None


class ProviderUsage(OpenWopModel):
    """What one model call cost, as the provider reported it (RFC 0026)."""

    provider: Name
    model: Name
    input_tokens: Count
    output_tokens: Count
    total_tokens: Maybe[Count] = None
    cache_read_tokens: Maybe[Count] = None
    node_id: Maybe[Id] = None


# nodes


class NodeStarted(OpenWopModel):
    """A node begins; `attempt` counts from 0, and is absent in the first one."""

    node_id: Id
    type_id: Annotated[str, Field(pattern=r"^[a-z][a-zA-Z0-9._-]*$")]
    attempt: Maybe[Count] = None


class NodeCompleted(OpenWopModel):
    """A node has done its work."""

    node_id: Id
    outputs: Maybe[Json] = None
    duration_ms: Maybe[Count] = None


class NodeFailed(OpenWopModel):
    """A node has failed, and its run with it."""

    node_id: Id
    error: ErrorObject
    attempts: Maybe[Annotated[int, Field(ge=1)]] = None


class NodeCancelled(OpenWopModel):
    """A node was stopped on purpose."""

    node_id: Id
    reason: Maybe[str] = None


class ApprovalSuspended(OpenWopModel):
    """A node waits for an approval: the interrupt, and where to answer it."""

    node_id: Id
    interrupt_id: Name
    kind: Literal["approval"]
    key: Key
    reason: Literal["approval"]
    agent_id: AgentId
    resume_schema: Maybe[Json] = None
    data: ApprovalData


class LowConfidenceSuspended(OpenWopModel):
    """A node waits because its agent is not sure: what the schema and what RFC 0023's scenarios ask for."""

    node_id: Id
    interrupt_id: Name
    kind: Literal["low-confidence"]
    key: Key
    reason: Literal["low-confidence"]
    agent_id: AgentId
    threshold: Share
    observed: Share
    resume_schema: Maybe[Json] = None
    data: Maybe[LowConfidenceData] = None


NodeSuspended: TypeAlias = Annotated[ApprovalSuspended | LowConfidenceSuspended, Field(discriminator="kind")]


class NodeResumed(OpenWopModel):
    """A node goes on after an interrupt."""

    node_id: Id
    interrupt_id: Maybe[Name] = None
    resume_value: JsonValue = None


class InterruptResolved(OpenWopModel):
    """An interrupt has had its answer."""

    node_id: Id
    interrupt_id: Name
    kind: Maybe[Literal["approval", "low-confidence"]] = None
    resume_value: JsonValue = None


# runs


class RunStarted(OpenWopModel):
    """A run begins; the first event of its log."""

    workflow_id: Name
    inputs: Maybe[Json] = None
    transport: Maybe[Literal["rest"]] = None
    engine_version: Maybe[str] = None
    tags: Maybe[list[str]] = None
    metadata: Maybe[Json] = None


class RunCompleted(OpenWopModel):
    """A run came to its end. `outputs.status` is there where that is less than complete."""

    outputs: Maybe[Json] = None
    duration_ms: Maybe[Count] = None


class RunFailed(OpenWopModel):
    """A run has failed."""

    error: ErrorObject
    failed_node_id: Maybe[Id] = None
    duration_ms: Maybe[Count] = None


class RunCancelled(OpenWopModel):
    """A run was stopped on purpose."""

    reason: Maybe[str] = None
    cancelled_by: Maybe[str] = None
    duration_ms: Maybe[Count] = None


class ReplayDiverged(OpenWopModel):
    """A replay differs from what was recorded; it goes on all the same."""

    source_run_id: Id
    at_sequence: Count
    original_event_id: Maybe[Id] = None
    divergence_kind: Literal["output", "missing", "extra", "type-mismatch"]
    divergence_point: Maybe[Name] = None
    """The type of the event."""


# what OpenWOP has no event for


class MessageCitation(OpenWopModel):
    """A message cites a source."""

    node_id: Id
    channel: Name
    content_index: Count
    citation: Citation


class ChunkDelta(OpenWopModel):
    """A piece of an image, in base64 that decodes alone."""

    node_id: Id
    call_id: Name
    target: ChunkTarget
    encoding: Literal["base64"]
    chunk_index: Count
    data: str


class ChunkDone(OpenWopModel):
    """An image is complete."""

    node_id: Id
    call_id: Name
    target: ChunkTarget
