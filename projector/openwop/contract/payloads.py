"""Payloads of the events we emit, one class per event type, and the parts they share (RFC 0002 to 0024).

Narrower than the protocol on purpose: a document that these classes reject may still be valid OpenWOP. Members are in
camel case on the wire and never null.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from projector.contracts.parts import ChunkTarget, Citation, Count, Json, Maybe
from projector.openwop.event_log import AGENT_ID_MIN_CHARS, ID_MAX_CHARS, INTERRUPT_KEY_MAX_CHARS, Verbosity

AGENT_ID_MAX_CHARS: Final = 256

Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=ID_MAX_CHARS)]
AgentId: TypeAlias = Annotated[str, Field(min_length=AGENT_ID_MIN_CHARS, max_length=AGENT_ID_MAX_CHARS)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Key: TypeAlias = Annotated[str, Field(min_length=1, max_length=INTERRUPT_KEY_MAX_CHARS)]
Timestamp: TypeAlias = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""A confidence or a confidence threshold."""

Action: TypeAlias = Literal["accept", "reject", "refine", "edit-accept"]
RunStatus: TypeAlias = Literal[
    "pending",
    "running",
    "paused",
    "waiting-approval",
    "waiting-input",
    "waiting-external",
    "completed",
    "failed",
    "cancelling",
    "cancelled",
]


class OpenWopModel(BaseModel):
    """Base of all models here: camel case on the wire, unknown members rejected, no conversions, frozen."""

    model_config = ConfigDict(
        alias_generator=to_camel, strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


class ErrorObject(OpenWopModel):
    """Error of a run, node or tool."""

    code: Name
    message: Name
    details: Maybe[Json] = None
    retryable: Maybe[bool] = None


class ApprovalData(OpenWopModel):
    """Tool call that waits for approval."""

    artifact_id: Name
    artifact_type: Literal["public-sse.tool-call"]
    title: Name
    artifact_data: Maybe[Json] = None
    """Tool name, server and arguments after redaction."""
    actions: Annotated[list[Action], Field(min_length=1)]


class LowConfidenceData(OpenWopModel):
    """Decision with a confidence below the threshold."""

    agent_id: AgentId
    threshold: Share
    observed: Share
    decision: object = None


class AgentReasoningDelta(OpenWopModel):
    """Text appended to an open reasoning block; `sequence` counts from 0 in each block (RFC 0024)."""

    agent_id: AgentId
    delta: str
    sequence: Count
    verbosity: Maybe[Verbosity] = None


class AgentReasoned(OpenWopModel):
    """Full text of a closed reasoning block; replaces its deltas (RFC 0002, RFC 0024)."""

    agent_id: AgentId
    reasoning: str
    verbosity: Maybe[Verbosity] = None
    token_count: Maybe[Count] = None


class AgentToolCalled(OpenWopModel):
    """Tool call of an agent."""

    agent_id: AgentId
    tool_name: Name
    call_id: Name
    inputs: JsonValue = None
    """Parsed arguments, or their text if they are not valid JSON; absent if there are none."""
    transport: Maybe[Literal["mcp", "http", "native"]] = None
    server_label: Maybe[Name] = None
    """MCP server; not part of the protocol."""


class AgentToolReturned(OpenWopModel):
    """Outcome or error of a tool call; `causationId` of the event is the `eventId` of the call."""

    agent_id: AgentId
    tool_name: Name
    call_id: Name
    outcome: JsonValue = None
    error: Maybe[ErrorObject] = None
    duration_ms: Maybe[Count] = None


class AgentHandoff(OpenWopModel):
    """Handoff from one agent to another."""

    from_agent_id: AgentId
    to_agent_id: AgentId
    reason: Maybe[str] = None


class AgentDecided(OpenWopModel):
    """Decision of an agent."""

    agent_id: AgentId
    decision: JsonValue
    confidence: Maybe[Share] = None


class ChunkMeta(OpenWopModel):
    """Metadata of the last chunk of a model call."""

    finish_reason: Maybe[Literal["stop", "length", "tool_calls", "content_filter"]] = None
    model: Maybe[Name] = None


class OutputChunk(OpenWopModel):
    """Output text. Each message is a channel; a chunk with `isLast` and no channel ends a model call."""

    node_id: Id
    run_id: Id
    chunk: str
    is_last: bool
    channel: Maybe[Name] = None
    meta: Maybe[ChunkMeta] = None


class ProviderUsage(OpenWopModel):
    """Token usage of one model call, as reported by the provider (RFC 0026)."""

    provider: Name
    model: Name
    input_tokens: Count
    output_tokens: Count
    total_tokens: Maybe[Count] = None
    cache_read_tokens: Maybe[Count] = None
    node_id: Maybe[Id] = None


class NodeStarted(OpenWopModel):
    """Start of a node; `attempt` counts from 0 and is absent for the first."""

    node_id: Id
    type_id: Annotated[str, Field(pattern=r"^[a-z][a-zA-Z0-9._-]*$")]
    attempt: Maybe[Count] = None


class NodeCompleted(OpenWopModel):
    """Successful end of a node."""

    node_id: Id
    outputs: Maybe[Json] = None
    duration_ms: Maybe[Count] = None


class NodeFailed(OpenWopModel):
    """Failure of a node, which also fails its run."""

    node_id: Id
    error: ErrorObject
    attempts: Maybe[Annotated[int, Field(ge=1)]] = None


class NodeCancelled(OpenWopModel):
    """Cancellation of a node."""

    node_id: Id
    reason: Maybe[str] = None


class ApprovalSuspended(OpenWopModel):
    """Suspension of a node until a tool call is approved."""

    node_id: Id
    interrupt_id: Name
    kind: Literal["approval"]
    key: Key
    reason: Literal["approval"]
    agent_id: AgentId
    resume_schema: Maybe[Json] = None
    data: ApprovalData
    token: Maybe[Name] = None
    """Answers the interrupt at `/v1/interrupts/{token}` without authentication; added by the host."""


class LowConfidenceSuspended(OpenWopModel):
    """Suspension of a node until a low-confidence decision is approved (members of the schema and of RFC 0023)."""

    node_id: Id
    interrupt_id: Name
    kind: Literal["low-confidence"]
    key: Key
    reason: Literal["low-confidence"]
    agent_id: AgentId
    threshold: Share
    observed: Share
    data: Maybe[LowConfidenceData] = None
    token: Maybe[Name] = None
    """Answers the interrupt at `/v1/interrupts/{token}` without authentication; added by the host."""


NodeSuspended: TypeAlias = Annotated[ApprovalSuspended | LowConfidenceSuspended, Field(discriminator="kind")]


class ApprovalInterrupt(OpenWopModel):
    """Tool call to approve."""

    kind: Literal["approval"]
    key: Key
    resume_schema: Json
    data: ApprovalData


class LowConfidenceInterrupt(OpenWopModel):
    """Decision below the threshold to confirm; any value resumes it."""

    kind: Literal["low-confidence"]
    key: Key
    data: LowConfidenceData


InterruptRequested: TypeAlias = Annotated[ApprovalInterrupt | LowConfidenceInterrupt, Field(discriminator="kind")]


class ApprovalReceived(OpenWopModel):
    """Answer to an approval."""

    node_id: Id
    action: Literal["accept", "reject", "refine", "edit-accept", "timeout"]
    decided_by: Maybe[Name] = None
    """Caller, as the server log names it, or `token` or `anonymous`; absent after a timeout."""
    decided_at: Timestamp
    comment: Maybe[str] = None
    feedback: Maybe[str] = None
    refine_feedback: Maybe[Json] = None
    edited_artifact_data: JsonValue = None


class NodeResumed(OpenWopModel):
    """Resumption of a node after an interrupt."""

    node_id: Id
    interrupt_id: Maybe[Name] = None
    resume_value: JsonValue = None


class InterruptResolved(OpenWopModel):
    """Answer to an interrupt."""

    node_id: Id
    interrupt_id: Name
    kind: Maybe[Literal["approval", "low-confidence"]] = None
    resume_value: JsonValue = None
    """The answer, after redaction."""
    resolved_by: Maybe[Name] = None
    """Who answered, as in `approval.received`."""


class RunStarted(OpenWopModel):
    """Start of a run; the first event of its log."""

    workflow_id: Name
    inputs: Maybe[Json] = None
    transport: Maybe[Literal["rest"]] = None
    engine_version: Maybe[str] = None
    tags: Maybe[list[str]] = None
    metadata: Maybe[Json] = None


class RunCompleted(OpenWopModel):
    """Successful end of a run; `outputs.status` is present if the result is incomplete or refused."""

    outputs: Maybe[Json] = None
    duration_ms: Maybe[Count] = None


class RunFailed(OpenWopModel):
    """Failure of a run."""

    error: ErrorObject
    failed_node_id: Maybe[Id] = None
    duration_ms: Maybe[Count] = None


class RunCancelled(OpenWopModel):
    """Cancellation of a run."""

    reason: Maybe[str] = None
    cancelled_by: Maybe[str] = None
    duration_ms: Maybe[Count] = None


class ReplayDiverged(OpenWopModel):
    """Difference between a replay and its recording; the replay continues."""

    source_run_id: Id
    at_sequence: Count
    original_event_id: Maybe[Id] = None
    divergence_kind: Literal["output", "missing", "extra", "type-mismatch"]
    divergence_point: Maybe[Name] = None
    """Type of the differing event."""


class MessageCitation(OpenWopModel):
    """Citation in a message."""

    node_id: Id
    channel: Name
    content_index: Count
    citation: Citation


class ChunkDelta(OpenWopModel):
    """Chunk of an image, in base64 that can be decoded on its own."""

    node_id: Id
    call_id: Name
    target: ChunkTarget
    encoding: Literal["base64"]
    chunk_index: Count
    data: str


class ChunkDone(OpenWopModel):
    """End of an image."""

    node_id: Id
    call_id: Name
    target: ChunkTarget
