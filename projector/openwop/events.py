"""Events of a run log as we emit them: one row per event type (RFC 0002 to 0024), and the models made from the rows.

Narrower than the protocol on purpose: a document that these models reject may still be valid OpenWOP. Members are in
camel case on the wire and never null.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, Union

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, create_model
from pydantic.alias_generators import to_camel

from projector.contracts.parts import ChunkTarget, Citation, Count, Json, Maybe, Notice
from projector.openwop.event_log import (
    AGENT_ID_MIN_CHARS,
    APPROVAL_ACTIONS,
    ID_MAX_CHARS,
    INTERRUPT_KEY_MAX_CHARS,
    VENDOR,
    Verbosity,
)

AGENT_ID_MAX_CHARS: Final = 256

Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=ID_MAX_CHARS)]
AgentId: TypeAlias = Annotated[str, Field(min_length=AGENT_ID_MIN_CHARS, max_length=AGENT_ID_MAX_CHARS)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Key: TypeAlias = Annotated[str, Field(min_length=1, max_length=INTERRUPT_KEY_MAX_CHARS)]
Timestamp: TypeAlias = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")]
TypeId: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-zA-Z0-9._-]*$")]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""A confidence or a confidence threshold."""


class OpenWopModel(BaseModel):
    """Base of all models here: camel case on the wire, unknown members rejected, no conversions, frozen."""

    model_config = ConfigDict(
        alias_generator=to_camel, strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


def _model(name: str, description: str, /, **members: Any) -> Any:
    """Create a model; a member is its type, or its type and its default."""
    fields: dict[str, Any] = {name: one if isinstance(one, tuple) else (one, ...) for name, one in members.items()}
    return create_model(name, __base__=OpenWopModel, __doc__=description, **fields)


def _maybe(kind: Any, description: str | None = None) -> tuple[Any, Any]:
    """Return a member that may be absent."""
    maybe: Any = Maybe
    return maybe[kind], Field(None, description=description)


_ACTION: Final[Any] = Literal.__getitem__(APPROVAL_ACTIONS)
_ANY_JSON: Final = (JsonValue, None)
"""A member with any value, null included, that may be absent."""
_TEXT: Final = _maybe(str)
_NAME: Final = _maybe(Name)
_COUNT: Final = _maybe(Count)
_TABLE: Final = _maybe(Json)
_VERBOSITY: Final = _maybe(Verbosity)
_IMAGE: Final[dict[str, Any]] = {"node_id": Id, "call_id": Name, "target": ChunkTarget}

_ERROR: Final = _model(
    "ErrorObject",
    "Error of a run, node or tool.",
    code=Name,
    message=Name,
    details=_TABLE,
    retryable=_maybe(bool),
)
_APPROVAL_DATA: Final = _model(
    "ApprovalData",
    "Tool call that waits for approval.",
    artifact_id=Name,
    artifact_type=Literal["public-sse.tool-call"],
    title=Name,
    artifact_data=_maybe(Json, "Tool name, server and arguments after redaction."),
    actions=Annotated[list[_ACTION], Field(min_length=1)],
)
_LOW_CONFIDENCE_DATA: Final = _model(
    "LowConfidenceData",
    "Decision with a confidence below the threshold.",
    agent_id=AgentId,
    threshold=Share,
    observed=Share,
    decision=(object, None),
)
_CHUNK_META: Final = _model(
    "ChunkMeta",
    "Metadata of the last chunk of a model call.",
    finish_reason=_maybe(Literal["stop", "length", "tool_calls", "content_filter"]),
    model=_NAME,
)
_SUSPENDED: Final[dict[str, Any]] = {
    "node_id": Id,
    "interrupt_id": Name,
    "key": Key,
    "agent_id": AgentId,
    "token": _maybe(
        Name, "Answers the interrupt at `/v1/interrupts/{token}` without authentication; added by the host."
    ),
}
_NODE_SUSPENDED: Final = Annotated[
    _model(
        "ApprovalSuspended",
        "Suspension of a node until a tool call is approved.",
        kind=Literal["approval"],
        reason=Literal["approval"],
        resume_schema=_TABLE,
        data=_APPROVAL_DATA,
        **_SUSPENDED,
    )
    | _model(
        "LowConfidenceSuspended",
        "Suspension of a node until a low-confidence decision is approved (members of the schema and of RFC 0023).",
        kind=Literal["low-confidence"],
        reason=Literal["low-confidence"],
        threshold=Share,
        observed=Share,
        data=_maybe(_LOW_CONFIDENCE_DATA),
        **_SUSPENDED,
    ),
    Field(discriminator="kind"),
]
_INTERRUPT_REQUESTED: Final = Annotated[
    _model(
        "ApprovalInterrupt",
        "Tool call to approve.",
        kind=Literal["approval"],
        key=Key,
        resume_schema=Json,
        data=_APPROVAL_DATA,
    )
    | _model(
        "LowConfidenceInterrupt",
        "Decision below the threshold to confirm; any value resumes it.",
        kind=Literal["low-confidence"],
        key=Key,
        data=_LOW_CONFIDENCE_DATA,
    ),
    Field(discriminator="kind"),
]


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
    """Members of the payload, or its type."""
    base: type[RunEvent] = RunEvent


_ROWS: Final = (
    _Row(
        "agent.reasoning.delta",
        "Text appended to an open reasoning block; `sequence` counts from 0 in each block (RFC 0024).",
        {"agent_id": AgentId, "delta": str, "sequence": Count, "verbosity": _VERBOSITY},
    ),
    _Row(
        "agent.reasoned",
        "Full text of a closed reasoning block; replaces its deltas (RFC 0002, RFC 0024).",
        {"agent_id": AgentId, "reasoning": str, "verbosity": _VERBOSITY, "token_count": _COUNT},
    ),
    _Row(
        "agent.toolCalled",
        "Tool call of an agent. `inputs` are the parsed arguments, or their text if they are not valid JSON.",
        {
            "agent_id": AgentId,
            "tool_name": Name,
            "call_id": Name,
            "inputs": _ANY_JSON,
            "transport": _maybe(Literal["mcp", "http", "native"]),
            "server_label": _maybe(Name, "MCP server; not part of the protocol."),
        },
    ),
    _Row(
        "agent.toolReturned",
        "Outcome or error of the tool call in `causationId`.",
        {
            "agent_id": AgentId,
            "tool_name": Name,
            "call_id": Name,
            "outcome": _ANY_JSON,
            "error": _maybe(_ERROR),
            "duration_ms": _COUNT,
        },
        ResultEvent,
    ),
    _Row(
        "agent.handoff",
        "Handoff from one agent to another.",
        {"from_agent_id": AgentId, "to_agent_id": AgentId, "reason": _TEXT},
    ),
    _Row(
        "agent.decided",
        "Decision of an agent.",
        {"agent_id": AgentId, "decision": JsonValue, "confidence": _maybe(Share)},
    ),
    _Row(
        "output.chunk",
        "Output text. Each message is a channel; a chunk with `isLast` and no channel ends a model call.",
        {
            "node_id": Id,
            "run_id": Id,
            "chunk": str,
            "is_last": bool,
            "channel": _NAME,
            "meta": _maybe(_CHUNK_META),
        },
    ),
    _Row(
        "provider.usage",
        "Token usage of one model call, as reported by the provider (RFC 0026).",
        {
            "provider": Name,
            "model": Name,
            "input_tokens": Count,
            "output_tokens": Count,
            "total_tokens": _COUNT,
            "cache_read_tokens": _COUNT,
            "node_id": _maybe(Id),
        },
    ),
    _Row(
        "node.started",
        "Start of a node; `attempt` counts from 0 and is absent for the first.",
        {"node_id": Id, "type_id": TypeId, "attempt": _COUNT},
        NodeEvent,
    ),
    _Row("node.completed", "Successful end of a node.", {"node_id": Id, "outputs": _TABLE}, NodeEvent),
    _Row("node.failed", "Failure of a node, which also fails its run.", {"node_id": Id, "error": _ERROR}, NodeEvent),
    _Row("node.cancelled", "Cancellation of a node.", {"node_id": Id, "reason": _TEXT}, NodeEvent),
    _Row("node.suspended", "Suspension of a node until an interrupt is answered.", _NODE_SUSPENDED, NodeEvent),
    _Row("node.resumed", "Resumption of a node after an interrupt.", {"node_id": Id, "interrupt_id": _NAME}, NodeEvent),
    _Row("interrupt.requested", "Question of a suspended node.", _INTERRUPT_REQUESTED, CausedNodeEvent),
    _Row(
        "approval.received",
        "Answer to an approval.",
        {
            "node_id": Id,
            "action": _ACTION | Literal["timeout"],
            "decided_by": _maybe(
                Name, "Caller, as the server log names it, or `token` or `anonymous`; absent after a timeout."
            ),
            "decided_at": Timestamp,
            "comment": _TEXT,
            "feedback": _TEXT,
            "refine_feedback": _TABLE,
            "edited_artifact_data": _ANY_JSON,
        },
        NodeEvent,
    ),
    _Row(
        "interrupt.resolved",
        "Answer to an interrupt, after redaction.",
        {
            "node_id": Id,
            "interrupt_id": Name,
            "kind": _maybe(Literal["approval", "low-confidence"]),
            "resume_value": _ANY_JSON,
            "resolved_by": _maybe(Name, "Who answered, as in `approval.received`."),
        },
        NodeEvent,
    ),
    _Row("run.started", "Start of a run; the first event of its log.", {"workflow_id": Name, "metadata": _TABLE}),
    _Row(
        "run.completed",
        "Successful end of a run; `outputs.status` is present if the result is incomplete or refused.",
        {"outputs": _TABLE},
    ),
    _Row("run.failed", "Failure of a run.", {"error": _ERROR, "failed_node_id": _maybe(Id)}),
    _Row("run.cancelled", "Cancellation of a run.", {"reason": _TEXT}),
    # our own event types; other readers skip them
    _Row(
        "public-sse.message.citation",
        "Citation in a message.",
        {"node_id": Id, "channel": Name, "content_index": Count, "citation": Citation},
    ),
    _Row(
        "public-sse.chunk.delta",
        "Chunk of an image, in base64 that can be decoded on its own.",
        {**_IMAGE, "encoding": Literal["base64"], "chunk_index": Count, "data": str},
    ),
    _Row("public-sse.chunk.done", "End of an image.", _IMAGE),
)

EVENT_TYPES: Final = tuple(row.name for row in _ROWS)


def _event_model(row: _Row) -> type[RunEvent]:
    """Create the model of an event type; that of `node.started` is `NodeStartedEvent`, of its payload `NodeStarted`."""
    parts = row.name.removeprefix(f"{VENDOR}.").split(".")
    name = "".join(part[0].upper() + part[1:] for part in parts)
    payload = _model(name, row.description, **row.payload) if isinstance(row.payload, dict) else row.payload
    literal: Any = Literal.__getitem__(row.name)
    return create_model(f"{name}Event", __base__=row.base, __doc__=row.description, type=literal, payload=payload)


_UNION: Final[Any] = Union.__getitem__(tuple(map(_event_model, _ROWS)))
EVENT_ADAPTER: Final[TypeAdapter[RunEvent]] = TypeAdapter(Annotated[_UNION, Field(discriminator="type")])
"""Every event we emit."""


def parse_event(value: object) -> RunEvent:
    """Validate one event; raise `pydantic.ValidationError` if it is not one that we emit."""
    return EVENT_ADAPTER.validate_python(value)
