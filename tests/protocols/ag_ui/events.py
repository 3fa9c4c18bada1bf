"""Models of the AG-UI 1.0 events that we emit. The discriminator is `type`.

They are narrower than the protocol: they reject members that the protocol would allow. Wire names are camel case, no
member is ever null, and metadata keys have our vendor prefix (CONTRACT D37). `checker.py` has the rules over a run.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from projector.contracts.kinds import VENDOR
from projector.contracts.parts import Json, Maybe
from projector.dialects.ag_ui.ag_ui_run import SAFE_INTEGER_MAX

SafeInteger: TypeAlias = Annotated[int, Field(ge=0, le=SAFE_INTEGER_MAX)]
Metadata: TypeAlias = Annotated[
    dict[Annotated[str, Field(pattern=rf"^{VENDOR}\.[a-z_]+$")], object], Field(min_length=1)
]


class AgUiModel(BaseModel):
    """Base of all models: camel case on the wire, no unknown members, no conversions, immutable."""

    model_config = ConfigDict(
        alias_generator=to_camel, strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


class Event(AgUiModel):
    """Members of every event."""

    timestamp: SafeInteger
    """Milliseconds since 1970-01-01 UTC."""
    metadata: Maybe[Metadata] = None


class RunStarted(Event):
    """The run starts. First event of a stream."""

    type: Literal["RUN_STARTED"]
    thread_id: str
    run_id: str
    protocol_version: Literal["1.0"]


class Success(AgUiModel):
    """The run has ended. Lists the calls that the client has to run."""

    type: Literal["success"]
    pending_tool_call_ids: Maybe[Annotated[list[str], Field(min_length=1)]] = None


class Interrupt(AgUiModel):
    """A tool call that waits for an approval."""

    id: str
    reason: Literal["tool_call"]
    message: str
    tool_call_id: str
    response_schema: Json


class Interrupted(AgUiModel):
    """The run waits for answers, which the next request contains."""

    type: Literal["interrupt"]
    interrupts: Annotated[list[Interrupt], Field(min_length=1)]


class Cancelled(AgUiModel):
    """The run was cancelled."""

    type: Literal["cancelled"]


class TokenUsage(AgUiModel):
    """Token usage of the run. A count that the provider does not report is absent."""

    model: Maybe[str] = None
    input_tokens: Maybe[SafeInteger] = None
    output_tokens: Maybe[SafeInteger] = None
    total_tokens: Maybe[SafeInteger] = None
    reasoning_tokens: Maybe[SafeInteger] = None
    cached_input_tokens: Maybe[SafeInteger] = None


Usage: TypeAlias = Annotated[list[TokenUsage], Field(min_length=1, max_length=1)]


class RunFinished(Event):
    """The run has ended without an error. Last event of the stream."""

    type: Literal["RUN_FINISHED"]
    thread_id: str
    run_id: str
    outcome: Annotated[Success | Interrupted | Cancelled, Field(discriminator="type")]
    result: Maybe[object] = None
    """Structured output, if the request asked for one."""
    usage: Maybe[Usage] = None


class RunError(Event):
    """The run has failed. Last event of the stream."""

    type: Literal["RUN_ERROR"]
    message: str
    code: str
    usage: Maybe[Usage] = None


class StepEvent(Event):
    """A step of a workflow starts or ends: `stage/step`, with `#branch` if branches run in parallel."""

    type: Literal["STEP_STARTED", "STEP_FINISHED"]
    step_name: str


class MessageEvent(Event):
    """Members of every event of a message."""

    message_id: str


class TextMessageStart(MessageEvent):
    """A message of the model starts."""

    type: Literal["TEXT_MESSAGE_START"]
    role: Literal["assistant"]
    name: Maybe[str] = None
    """Name of the agent."""


class MessageContent(MessageEvent):
    """A delta of a message or of a reasoning message."""

    type: Literal["TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"]
    delta: Annotated[str, Field(min_length=1)]


class MessageEnd(MessageEvent):
    """A message is complete. The metadata of a text message contains its citations."""

    type: Literal["TEXT_MESSAGE_END", "REASONING_MESSAGE_END"]


class ReasoningSpan(MessageEvent):
    """A reasoning span starts or ends. It has zero or more reasoning messages."""

    type: Literal["REASONING_START", "REASONING_END"]


class ReasoningMessageStart(MessageEvent):
    """A part of a reasoning summary starts, or of full reasoning if the policy allows it."""

    type: Literal["REASONING_MESSAGE_START"]
    role: Literal["reasoning"]


class ReasoningEncryptedValue(Event):
    """Encrypted reasoning, or what belongs to a call: the client sends it back with its message or call."""

    type: Literal["REASONING_ENCRYPTED_VALUE"]
    subtype: Literal["message", "tool-call"]
    entity_id: str
    encrypted_value: str


class CallEvent(Event):
    """Members of every event of a tool call."""

    tool_call_id: str


class ToolCallStart(CallEvent):
    """A call of a function or of an MCP tool starts."""

    type: Literal["TOOL_CALL_START"]
    tool_call_name: str
    parent_message_id: str


class ToolCallArgs(CallEvent):
    """A delta of the arguments."""

    type: Literal["TOOL_CALL_ARGS"]
    delta: Annotated[str, Field(min_length=1)]


class ToolCallEnd(CallEvent):
    """The arguments are complete. If they were cut off, the metadata has a status."""

    type: Literal["TOOL_CALL_END"]


class ToolCallResult(CallEvent):
    """The output of a tool: text unchanged, anything else as JSON text."""

    type: Literal["TOOL_CALL_RESULT"]
    message_id: str
    content: str
    role: Literal["tool"]


class ActivitySnapshot(MessageEvent):
    """An activity of a provider tool starts."""

    type: Literal["ACTIVITY_SNAPSHOT"]
    activity_type: str
    content: Json


class AddOperation(AgUiModel):
    """Set a member, or append an entry to a list (RFC 6902)."""

    op: Literal["add"]
    path: Annotated[str, Field(pattern=r"^/[a-z_]+(/-)?$")]
    value: object


class ActivityDelta(MessageEvent):
    """An activity of a provider tool has changed."""

    type: Literal["ACTIVITY_DELTA"]
    activity_type: str
    patch: Annotated[list[AddOperation], Field(min_length=1)]


class Custom(Event):
    """An event that AG-UI does not define. Clients ignore names that they do not know."""

    type: Literal["CUSTOM"]
    name: Literal["public-sse.lifecycle", "public-sse.chunk.delta", "public-sse.chunk.done"]
    value: Json


AgUiEvent: TypeAlias = Annotated[
    RunStarted
    | RunFinished
    | RunError
    | StepEvent
    | TextMessageStart
    | MessageContent
    | MessageEnd
    | ReasoningSpan
    | ReasoningMessageStart
    | ReasoningEncryptedValue
    | ToolCallStart
    | ToolCallArgs
    | ToolCallEnd
    | ToolCallResult
    | ActivitySnapshot
    | ActivityDelta
    | Custom,
    Field(discriminator="type"),
]

EVENT_ADAPTER: Final[TypeAdapter[AgUiEvent]] = TypeAdapter(AgUiEvent)


def parse_event(value: object) -> AgUiEvent:
    """Validate the JSON value of one event, or raise `pydantic.ValidationError`."""
    return EVENT_ADAPTER.validate_python(value)
