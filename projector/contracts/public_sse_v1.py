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
    """Members of every event (6)."""

    schema_: Literal["public_sse_v1"] = Field(alias="schema")
    event_id: Annotated[int, Field(ge=1)]
    """Increases by one with every event of the stream."""
    stream_id: str
    server_timestamp: str
    """UTC with milliseconds and `Z`."""
    conversation_id: str | None = None
    response_id: str | None = None
    agent: str | None = None
    workflow: WorkflowContext | None = None
    provider_sequence_number: Maybe[Count] = None
    notices: Maybe[list[Notice]] = None


class ItemEvent(Envelope):
    """An event of one output item (6.3)."""

    output_index: Count
    """Position of the item in the transcript."""
    item_id: str


class CallEvent(ItemEvent):
    """An event of one tool call."""

    tool_call_id: str


class Lifecycle(Envelope):
    """The status of a response changed (9.1)."""

    kind: Literal["lifecycle"]
    status: kinds.LifecycleStatus
    reason: Maybe[str] = None


class OutputItem(ItemEvent):
    """Members of both item events."""

    item_type: str
    """The provider's item type: `message`, `reasoning`, `function_call`, ..."""
    role: Maybe[str] = None
    status: Maybe[str] = None


class OutputItemAdded(OutputItem):
    """An output item starts (9.2)."""

    kind: Literal["output_item.added"]


class OutputItemDone(OutputItem):
    """An output item is complete (9.2)."""

    kind: Literal["output_item.done"]


class MessageDelta(ItemEvent):
    """Text to append to a message (9.3)."""

    kind: Literal["message.delta"]
    content_index: Count
    delta: str


class MessageCitation(ItemEvent):
    """A source cited by a part of a message (9.4)."""

    kind: Literal["message.citation"]
    content_index: Count
    citation: Citation


class ReasoningSummaryDelta(ItemEvent):
    """Text to append to a reasoning summary (9.5)."""

    kind: Literal["reasoning_summary.delta"]
    summary_index: Count
    delta: str


class RefusalDelta(ItemEvent):
    """Text to append to a refusal (9.6)."""

    kind: Literal["refusal.delta"]
    content_index: Count
    delta: str


class RefusalDone(ItemEvent):
    """The complete refusal (9.6)."""

    kind: Literal["refusal.done"]
    content_index: Count
    refusal_text: str


class ToolStatus(ItemEvent):
    """The status of a tool call, or a member of it, changed (9.7)."""

    kind: Literal["tool.status"]
    tool: AnyTool


class ToolArgumentsDelta(CallEvent):
    """Text to append to the arguments of a call (9.8)."""

    kind: Literal["tool.arguments.delta"]
    tool_type: kinds.CallType
    tool_name: str
    delta: str


class ToolArgumentsDone(CallEvent):
    """The complete arguments of a call (9.8)."""

    kind: Literal["tool.arguments.done"]
    tool_type: kinds.CallType
    tool_name: str
    arguments_text: str
    arguments_json: Maybe[Json] = None
    """The parsed text, if it is an object."""


class ToolCodeDelta(CallEvent):
    """Text to append to the code of a call (9.9)."""

    kind: Literal["tool.code.delta"]
    delta: str


class ToolCodeDone(CallEvent):
    """The complete code of a call (9.9)."""

    kind: Literal["tool.code.done"]
    code: str


class ToolOutput(CallEvent):
    """The output of a tool (9.10)."""

    kind: Literal["tool.output"]
    tool_type: kinds.ToolType
    output: object


class ChunkDelta(ItemEvent):
    """One chunk of a large field; each can be decoded alone (9.11)."""

    kind: Literal["chunk.delta"]
    target: ChunkTarget
    encoding: Literal["base64"]
    chunk_index: Count
    data: str


class ChunkDone(ItemEvent):
    """A large field is complete (9.11)."""

    kind: Literal["chunk.done"]
    target: ChunkTarget


class ErrorEvent(Envelope):
    """The stream failed; last event (9.12)."""

    kind: Literal["error"]
    error: ErrorDetail


class FinalEvent(Envelope):
    """The stream ended; last event (9.13)."""

    kind: Literal["final"]
    final: FinalDetail


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
