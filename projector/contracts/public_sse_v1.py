"""The events of `public_sse_v1`, one class for each `kind` (seed contract, sections 6 and 9).

Normative. JSON Schema and TypeScript are generated from these classes and their docstrings, which address readers of
the stream. Rules over a whole stream, and the limits, are in `projector.contracts.stream_rules`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from projector.contracts import kinds
from projector.contracts.parts import (
    AnyTool,
    ChunkTarget,
    Citation,
    Count,
    ErrorDetail,
    FinalDetail,
    Json,
    Maybe,
    Model,
    Notice,
    WorkflowContext,
)


class Envelope(Model):
    """Members of every event."""

    schema_: Literal["public_sse_v1"] = Field(alias="schema")
    """Name and version of the contract."""
    event_id: Annotated[int, Field(ge=1)]
    """Counts the events of the stream from 1; the position to resume from."""
    stream_id: str
    """The same on every event of the stream."""
    server_timestamp: str
    """UTC with milliseconds and `Z`; never goes back."""
    conversation_id: str | None = None
    """The host's ID of the conversation."""
    response_id: str | None = None
    """ID of the provider's response that the event belongs to, once it is known."""
    agent: str | None = None
    """Name of the agent that produces the event."""
    workflow: WorkflowContext | None = None
    """Position in a workflow; absent in every other stream."""
    provider_sequence_number: Maybe[Count] = None
    """The provider's own number of its event; it restarts with each response."""
    notices: Maybe[list[Notice]] = None
    """Values of this event that were withheld or truncated."""


class ItemEvent(Envelope):
    """An event of one output item."""

    output_index: Count
    """Position of the item in the transcript."""
    item_id: str
    """ID of the item; one to one with `output_index`."""


class CallEvent(ItemEvent):
    """An event of one tool call."""

    tool_call_id: str
    """ID of the call, the same on each of its events and unique in the stream."""


class Lifecycle(Envelope):
    """The status of a response changed."""

    kind: Literal["lifecycle"]
    status: kinds.LifecycleStatus
    """Status of the response."""
    reason: Maybe[str] = None
    """Why the response is incomplete or failed."""


class OutputItem(ItemEvent):
    """Members of both item events."""

    item_type: str
    """The provider's item type: `message`, `reasoning`, `function_call`, ..."""
    role: Maybe[str] = None
    """Role of a message: `assistant`."""
    status: Maybe[kinds.ItemStatus] = None
    """Status of the item."""


class OutputItemAdded(OutputItem):
    """An output item starts."""

    kind: Literal["output_item.added"]


class OutputItemDone(OutputItem):
    """An output item is complete."""

    kind: Literal["output_item.done"]


class MessageDelta(ItemEvent):
    """Text to append to a message."""

    kind: Literal["message.delta"]
    content_index: Count
    """Part of the message."""
    delta: str
    """Text to append."""


class MessageCitation(ItemEvent):
    """A source cited by a part of a message."""

    kind: Literal["message.citation"]
    content_index: Count
    """Part of the message."""
    citation: Citation
    """What is cited, and where."""


class ReasoningSummaryDelta(ItemEvent):
    """Text to append to a reasoning summary."""

    kind: Literal["reasoning_summary.delta"]
    summary_index: Count
    """Part of the summary."""
    delta: str
    """Text to append."""


class RefusalDelta(ItemEvent):
    """Text to append to a refusal."""

    kind: Literal["refusal.delta"]
    content_index: Count
    """Part of the message."""
    delta: str
    """Text to append."""


class RefusalDone(ItemEvent):
    """The complete refusal."""

    kind: Literal["refusal.done"]
    content_index: Count
    """Part of the message."""
    refusal_text: str
    """The complete refusal; it replaces the deltas."""


class ToolStatus(ItemEvent):
    """The status of a tool call, or a member of it, changed."""

    kind: Literal["tool.status"]
    tool: AnyTool
    """The call; it replaces the one of the previous status."""


class ToolArgumentsDelta(CallEvent):
    """Text to append to the arguments of a call."""

    kind: Literal["tool.arguments.delta"]
    tool_type: kinds.CallType
    """Who runs the tool: the client or host, or an MCP server."""
    tool_name: str
    """Name of the tool."""
    delta: str
    """Text to append; not yet valid JSON."""


class ToolArgumentsDone(CallEvent):
    """The complete arguments of a call."""

    kind: Literal["tool.arguments.done"]
    tool_type: kinds.CallType
    """Who runs the tool: the client or host, or an MCP server."""
    tool_name: str
    """Name of the tool."""
    arguments_text: str
    """The complete arguments; equals the joined deltas."""
    arguments_json: Maybe[Json] = None
    """The parsed text, if it is an object."""


class ToolCodeDelta(CallEvent):
    """Text to append to the code of a call."""

    kind: Literal["tool.code.delta"]
    delta: str
    """Text to append."""


class ToolCodeDone(CallEvent):
    """The complete code of a call."""

    kind: Literal["tool.code.done"]
    code: str
    """The complete code; it replaces the deltas."""


class ToolOutput(CallEvent):
    """The output of a tool."""

    kind: Literal["tool.output"]
    tool_type: kinds.ToolType
    """Type of the tool."""
    output: object
    """What the tool returned: any JSON value."""


class ChunkDelta(ItemEvent):
    """One chunk of a large field; each can be decoded alone."""

    kind: Literal["chunk.delta"]
    target: ChunkTarget
    """The field that the chunk belongs to."""
    encoding: Literal["base64"]
    """Encoding of `data`."""
    chunk_index: Count
    """Counts 0, 1, 2, ... for each target."""
    data: str
    """The chunk; it can be decoded alone."""


class ChunkDone(ItemEvent):
    """A large field is complete."""

    kind: Literal["chunk.done"]
    target: ChunkTarget
    """The field that is complete."""


class ErrorEvent(Envelope):
    """The stream failed; last event."""

    kind: Literal["error"]
    error: ErrorDetail
    """What failed."""


class FinalEvent(Envelope):
    """The stream ended; last event."""

    kind: Literal["final"]
    final: FinalDetail
    """The result."""


PublicEvent: TypeAlias = Annotated[
    Lifecycle
    | OutputItemAdded
    | OutputItemDone
    | MessageDelta
    | MessageCitation
    | ReasoningSummaryDelta
    | RefusalDelta
    | RefusalDone
    | ToolStatus
    | ToolArgumentsDelta
    | ToolArgumentsDone
    | ToolCodeDelta
    | ToolCodeDone
    | ToolOutput
    | ChunkDelta
    | ChunkDone
    | ErrorEvent
    | FinalEvent,
    Field(discriminator="kind"),
]
"""Every event of the public stream, discriminated by `kind`."""

EVENT_ADAPTER: Final[TypeAdapter[PublicEvent]] = TypeAdapter(PublicEvent)


def parse_event(value: object) -> PublicEvent:
    """Parse one event from its JSON value; raise `pydantic.ValidationError` if it violates the contract."""
    return EVENT_ADAPTER.validate_python(value)
