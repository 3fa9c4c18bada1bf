"""What a client of AG-UI asks: the parts of a `RunAgentInput` that we read (protocol 1.0, and clients before it).

An allow-list: members that are not here are passed over, as the protocol wants it of unknown ones. Messages with
instructions (`system`, `developer`) are no part of it, because instructions are the server's to write. Null is taken as
absent: clients before 1.0 send it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag
from pydantic.alias_generators import to_camel

from projector.contracts.limits import ID_MAX_CHARS, NAME_MAX_CHARS

TEXT_MAX_CHARS: Final = 1_000_000
"""Of one text: longer than any context window; the limit of the body comes first by default."""
MESSAGES_MAX: Final = 1_000
TOOLS_MAX: Final = 128
"""What providers take."""

UNREAD: Final = {
    "state": "this server keeps no state that it shares with a page",
    "context": "what a model is told beside the conversation is the server's to write",
    "forwardedProps": "settings of a model are the agent's",
    "parentRunId": "every run here stands alone",
}
"""Members of a `RunAgentInput` that are passed over, and why."""

Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=ID_MAX_CHARS)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=NAME_MAX_CHARS)]
Text: TypeAlias = Annotated[str, Field(max_length=TEXT_MAX_CHARS)]
Metadata: TypeAlias = dict[str, Any] | None


class Asked(BaseModel):
    """What all parts share: camel case on the wire, exact types, unknown members passed over."""

    model_config = ConfigDict(
        alias_generator=to_camel, strict=True, extra="ignore", frozen=True, hide_input_in_errors=True
    )


# messages


class TextPart(Asked):
    """A text."""

    type: Literal["text"]
    text: Text


class DataSource(Asked):
    """An image in the request itself, in base64."""

    type: Literal["data"]
    value: str
    mime_type: Annotated[str, Field(pattern=r"^image/[a-z+.-]+$")]


class UrlSource(Asked):
    """An image over HTTPS."""

    type: Literal["url"]
    value: Annotated[str, Field(pattern=r"^https://")]


class ImagePart(Asked):
    """An image."""

    type: Literal["image"]
    source: Annotated[DataSource | UrlSource, Field(discriminator="type")]


def _form(content: object) -> str:
    return "parts" if isinstance(content, list) else "text"


TextParts: TypeAlias = Annotated[list[TextPart], Field(max_length=MESSAGES_MAX)]
AnyParts: TypeAlias = Annotated[
    list[Annotated[TextPart | ImagePart, Field(discriminator="type")]], Field(max_length=MESSAGES_MAX)
]
TextContent: TypeAlias = Annotated[
    Annotated[Text, Tag("text")] | Annotated[TextParts, Tag("parts")], Discriminator(_form)
]
AnyContent: TypeAlias = Annotated[
    Annotated[Text, Tag("text")] | Annotated[AnyParts, Tag("parts")], Discriminator(_form)
]


class UserMessage(Asked):
    """What the user wrote."""

    role: Literal["user"]
    id: Id
    content: AnyContent


class FunctionCall(Asked):
    """What is called, and with what."""

    name: Name
    arguments: Text


class ToolCall(Asked):
    """A call that the model made."""

    id: Id
    function: FunctionCall
    metadata: Metadata = None


class AssistantMessage(Asked):
    """What the model said, and the calls that it made."""

    role: Literal["assistant"]
    id: Id
    content: Text | None = None
    tool_calls: Annotated[list[ToolCall], Field(max_length=MESSAGES_MAX)] | None = None


class ToolMessage(Asked):
    """What a tool gave."""

    role: Literal["tool"]
    id: Id
    tool_call_id: Id
    content: TextContent
    error: Text | None = None


class ReasoningMessage(Asked):
    """A part of the model's reasoning, as it was shown, and perhaps what only the provider can read."""

    role: Literal["reasoning"]
    id: Id
    content: Text
    encrypted_value: str | None = None
    metadata: Metadata = None


class ActivityMessage(Asked):
    """What a tool of the provider did; the provider is not told again."""

    role: Literal["activity"]
    id: Id


Message: TypeAlias = Annotated[
    UserMessage | AssistantMessage | ToolMessage | ReasoningMessage | ActivityMessage, Field(discriminator="role")
]


# the request


class Tool(Asked):
    """A tool that the client runs."""

    name: Name
    description: Text = ""
    parameters: dict[str, Any] | None = None


class Approval(Asked):
    """The answer to an interrupt, as its `responseSchema` asks for it."""

    approved: bool
    reason: Text | None = None


class Resolved(Asked):
    """An interrupt was answered."""

    status: Literal["resolved"]
    interrupt_id: Id
    payload: Approval


class Abandoned(Asked):
    """An interrupt was left without an answer; that is no approval."""

    status: Literal["cancelled"]
    interrupt_id: Id


ResumeEntry: TypeAlias = Annotated[Resolved | Abandoned, Field(discriminator="status")]


class RunAgentInput(Asked):
    """A request to run an agent."""

    thread_id: Id
    run_id: Id
    protocol_version: Id | None = None
    messages: Annotated[list[Message], Field(max_length=MESSAGES_MAX)]
    tools: Annotated[list[Tool], Field(max_length=TOOLS_MAX)] | None = None
    resume: Annotated[list[ResumeEntry], Field(max_length=MESSAGES_MAX)] | None = None
