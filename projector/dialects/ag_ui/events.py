"""The events of AG-UI 1.0 that we emit: one class a type, told apart by `type`.

Narrower than the protocol on purpose: what these classes refuse, the protocol may still allow. Members are named on the
wire in camel case, no member is ever null, and metadata keys begin with the vendor prefix (CONTRACT D37). Rules over a
whole run are the protocol's own, and its own client is the judge of them (`tests/contract/test_ag_ui_clients.py`).
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from projector.contracts.parts import Json, Maybe
from projector.dialects.ag_ui.event_parts import AddOperation, AgUiModel, Metadata, Milliseconds, Outcome, Usage


class Event(AgUiModel):
    """What every event has."""

    timestamp: Milliseconds
    """Since 1970-01-01 UTC."""
    metadata: Maybe[Metadata] = None


# the run


class RunStarted(Event):
    """The run begins; the first event of a stream."""

    type: Literal["RUN_STARTED"]
    thread_id: str
    run_id: str
    protocol_version: Literal["1.0"]


class RunFinished(Event):
    """The run has ended; the last event of a stream, or else `RUN_ERROR` is."""

    type: Literal["RUN_FINISHED"]
    thread_id: str
    run_id: str
    outcome: Outcome
    result: Maybe[object] = None
    """The structured output, where the request asked for one."""
    usage: Maybe[Usage] = None


class RunError(Event):
    """The run has failed; the last event of a stream, or else `RUN_FINISHED` is."""

    type: Literal["RUN_ERROR"]
    message: str
    code: str
    usage: Maybe[Usage] = None


class StepStarted(Event):
    """A step of a workflow begins: `stage/step`, with `#branch` where branches run side by side."""

    type: Literal["STEP_STARTED"]
    step_name: str


class StepFinished(Event):
    """A step of a workflow has ended."""

    type: Literal["STEP_FINISHED"]
    step_name: str


# messages


class MessageEvent(Event):
    """An event that belongs to one message."""

    message_id: str


class TextMessageStart(MessageEvent):
    """A message of the model begins."""

    type: Literal["TEXT_MESSAGE_START"]
    role: Literal["assistant"]
    name: Maybe[str] = None
    """The agent that speaks."""


class TextMessageContent(MessageEvent):
    """More text of a message, to append."""

    type: Literal["TEXT_MESSAGE_CONTENT"]
    delta: Annotated[str, Field(min_length=1)]


class TextMessageEnd(MessageEvent):
    """A message is complete; its metadata holds the citations."""

    type: Literal["TEXT_MESSAGE_END"]


class ReasoningStart(MessageEvent):
    """The model thinks: a span begins, of none or more reasoning messages."""

    type: Literal["REASONING_START"]


class ReasoningMessageStart(MessageEvent):
    """A part of a summary begins, or of full reasoning where policy lets it out."""

    type: Literal["REASONING_MESSAGE_START"]
    role: Literal["reasoning"]


class ReasoningMessageContent(MessageEvent):
    """More text of a reasoning message, to append."""

    type: Literal["REASONING_MESSAGE_CONTENT"]
    delta: Annotated[str, Field(min_length=1)]


class ReasoningMessageEnd(MessageEvent):
    """A reasoning message is complete."""

    type: Literal["REASONING_MESSAGE_END"]


class ReasoningEncryptedValue(Event):
    """What only the provider can read, to be sent back with the message that it belongs to."""

    type: Literal["REASONING_ENCRYPTED_VALUE"]
    subtype: Literal["message"]
    entity_id: str
    encrypted_value: str


class ReasoningEnd(MessageEvent):
    """A span of reasoning has ended."""

    type: Literal["REASONING_END"]


# tools


class CallEvent(Event):
    """An event that belongs to one tool call."""

    tool_call_id: str


class ToolCallStart(CallEvent):
    """A call of a function or of an MCP tool begins."""

    type: Literal["TOOL_CALL_START"]
    tool_call_name: str
    parent_message_id: str


class ToolCallArgs(CallEvent):
    """More of the arguments of a call, to append."""

    type: Literal["TOOL_CALL_ARGS"]
    delta: Annotated[str, Field(min_length=1)]


class ToolCallEnd(CallEvent):
    """The arguments of a call are complete, or were cut off: then its metadata has a status."""

    type: Literal["TOOL_CALL_END"]


class ToolCallResult(CallEvent):
    """What a tool gave back: text as it is, anything else as JSON text."""

    type: Literal["TOOL_CALL_RESULT"]
    message_id: str
    content: str
    role: Literal["tool"]


class ActivitySnapshot(MessageEvent):
    """A tool of the provider begins its work."""

    type: Literal["ACTIVITY_SNAPSHOT"]
    activity_type: str
    content: Json


class ActivityDelta(MessageEvent):
    """There is more to say of a tool of the provider."""

    type: Literal["ACTIVITY_DELTA"]
    activity_type: str
    patch: Annotated[list[AddOperation], Field(min_length=1)]


class Custom(Event):
    """What AG-UI has no event for; a client that does not know the name passes over it."""

    type: Literal["CUSTOM"]
    name: Literal["public-sse.lifecycle", "public-sse.chunk.delta", "public-sse.chunk.done"]
    value: Json


AgUiEvent: TypeAlias = Annotated[
    RunStarted
    | RunFinished
    | RunError
    | StepStarted
    | StepFinished
    | TextMessageStart
    | TextMessageContent
    | TextMessageEnd
    | ReasoningStart
    | ReasoningMessageStart
    | ReasoningMessageContent
    | ReasoningMessageEnd
    | ReasoningEncryptedValue
    | ReasoningEnd
    | ToolCallStart
    | ToolCallArgs
    | ToolCallEnd
    | ToolCallResult
    | ActivitySnapshot
    | ActivityDelta
    | Custom,
    Field(discriminator="type"),
]
"""Every event of an AG-UI stream of ours, told apart by `type`."""

EVENT_ADAPTER: Final[TypeAdapter[AgUiEvent]] = TypeAdapter(AgUiEvent)


def parse_event(value: object) -> AgUiEvent:
    """Read one event from its JSON value.

    Raises:
        pydantic.ValidationError: the value is no event that we emit; `errors()` says where.
    """
    return EVENT_ADAPTER.validate_python(value)
