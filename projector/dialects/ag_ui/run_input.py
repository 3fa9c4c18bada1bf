"""Request of an AG-UI client: the parts of a `RunAgentInput` that we read (protocol 1.0, and clients before it).

The models are an allow-list: other members are ignored, as the protocol demands of unknown ones. Messages with
instructions (`system`, `developer`) are rejected, because only the server writes instructions. Null means absent:
clients before 1.0 send it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError
from pydantic.alias_generators import to_camel

from projector._validation import sentences
from projector.contracts.limits import ID_MAX_CHARS, NAME_MAX_CHARS, REQUEST_ITEMS_MAX, REQUEST_TEXT_MAX_CHARS
from projector.core.client_history import InputRefusedError
from projector.dialects.descriptor import DialectOptions

TOOLS_MAX: Final = 128
"""Limit of the providers."""

UNREAD: Final = {
    "state": "the server shares no state with clients",
    "context": "only the server adds to the conversation",
    "forwardedProps": "model settings belong to the agent",
    "parentRunId": "runs are independent of each other",
}
"""Members of a `RunAgentInput` that are ignored, and why."""

Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=ID_MAX_CHARS)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=NAME_MAX_CHARS)]
Text: TypeAlias = Annotated[str, Field(max_length=REQUEST_TEXT_MAX_CHARS)]
Metadata: TypeAlias = dict[str, Any] | None


class InputModel(BaseModel):
    """Base of all models: camel case on the wire, exact types, unknown members ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, strict=True, extra="ignore", frozen=True, hide_input_in_errors=True
    )


class TextPart(InputModel):
    """A text."""

    type: Literal["text"]
    text: Text


class DataSource(InputModel):
    """An image in the request, as base64."""

    type: Literal["data"]
    value: str
    mime_type: Annotated[str, Field(pattern=r"^image/[a-z+.-]+$")]


class UrlSource(InputModel):
    """An image over HTTPS."""

    type: Literal["url"]
    value: Annotated[str, Field(pattern=r"^https://")]


class ImagePart(InputModel):
    """An image."""

    type: Literal["image"]
    source: Annotated[DataSource | UrlSource, Field(discriminator="type")]


def _content_tag(content: object) -> str:
    return "parts" if isinstance(content, list) else "text"


TextParts: TypeAlias = Annotated[list[TextPart], Field(max_length=REQUEST_ITEMS_MAX)]
AnyParts: TypeAlias = Annotated[
    list[Annotated[TextPart | ImagePart, Field(discriminator="type")]], Field(max_length=REQUEST_ITEMS_MAX)
]
TextContent: TypeAlias = Annotated[
    Annotated[Text, Tag("text")] | Annotated[TextParts, Tag("parts")], Discriminator(_content_tag)
]
AnyContent: TypeAlias = Annotated[
    Annotated[Text, Tag("text")] | Annotated[AnyParts, Tag("parts")], Discriminator(_content_tag)
]


class UserMessage(InputModel):
    """A message of the user."""

    role: Literal["user"]
    id: Id
    content: AnyContent


class FunctionCall(InputModel):
    """Function and arguments of a call."""

    name: Name
    arguments: Text


class ToolCall(InputModel):
    """A tool call of the model."""

    id: Id
    function: FunctionCall
    metadata: Metadata = None


class AssistantMessage(InputModel):
    """An assistant message with its tool calls."""

    role: Literal["assistant"]
    id: Id
    content: Text | None = None
    tool_calls: Annotated[list[ToolCall], Field(max_length=REQUEST_ITEMS_MAX)] | None = None


class ToolMessage(InputModel):
    """The result of a call."""

    role: Literal["tool"]
    id: Id
    tool_call_id: Id
    content: TextContent
    error: Text | None = None


class ReasoningMessage(InputModel):
    """A part of the model's reasoning, as the client received it, perhaps with encrypted reasoning."""

    role: Literal["reasoning"]
    id: Id
    content: Text
    encrypted_value: str | None = None
    metadata: Metadata = None


class ActivityMessage(InputModel):
    """An activity of a provider tool. It is not sent back to the provider."""

    role: Literal["activity"]
    id: Id


Message: TypeAlias = Annotated[
    UserMessage | AssistantMessage | ToolMessage | ReasoningMessage | ActivityMessage, Field(discriminator="role")
]


class Tool(InputModel):
    """A tool that the client runs."""

    name: Name
    description: Text = ""
    parameters: dict[str, Any] | None = None


class Approval(InputModel):
    """The answer to an interrupt, as its `responseSchema` defines it."""

    approved: bool
    reason: Text | None = None


class Resolved(InputModel):
    """An interrupt that was answered."""

    status: Literal["resolved"]
    interrupt_id: Id
    payload: Approval


class Abandoned(InputModel):
    """An abandoned interrupt, which counts as not approved."""

    status: Literal["cancelled"]
    interrupt_id: Id


ResumeEntry: TypeAlias = Annotated[Resolved | Abandoned, Field(discriminator="status")]


class RunAgentInput(InputModel):
    """A request to run an agent."""

    thread_id: Id
    run_id: Id
    protocol_version: Id | None = None
    messages: Annotated[list[Message], Field(max_length=REQUEST_ITEMS_MAX)]
    tools: Annotated[list[Tool], Field(max_length=TOOLS_MAX)] | None = None
    resume: Annotated[list[ResumeEntry], Field(max_length=REQUEST_ITEMS_MAX)] | None = None


_BEFORE_1_0: Final = re.compile(r"0\.\d+")
"""Versions before 1.0. Any other text counts as a newer version, as the protocol demands."""


def read_run_input(body: Mapping[str, Any]) -> RunAgentInput:
    """Parse the JSON object of a request, or raise an `InputRefusedError` that names the first invalid member."""
    try:
        return RunAgentInput.model_validate(body)
    except ValidationError as error:
        message = sentences(error, body, RunAgentInput)[0]
    raise InputRefusedError(f"{message}.")


def dialect_options(run_input: RunAgentInput) -> DialectOptions:
    """Return the options of the stream that answers a request."""
    messages = [message for message in run_input.messages if isinstance(message, AssistantMessage)]
    call_ids = [call.id for message in messages for call in message.tool_calls or ()]
    version = run_input.protocol_version
    return DialectOptions(
        thread_id=run_input.thread_id,
        run_id=run_input.run_id,
        is_before_1_0=version is None or _BEFORE_1_0.fullmatch(version) is not None,
        taken_ids=frozenset([*call_ids, *(message.id for message in run_input.messages)]),
    )
