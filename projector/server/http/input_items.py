"""The items of a conversation in a request body of `/api/v1`: input of the user, and history that the client holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from projector.contracts.limits import ID_MAX_CHARS, NAME_MAX_CHARS, REQUEST_ITEMS_MAX, REQUEST_TEXT_MAX_CHARS
from projector.conversation import entries as conversation

Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=REQUEST_TEXT_MAX_CHARS)]
AnyText: TypeAlias = Annotated[str, Field(max_length=REQUEST_TEXT_MAX_CHARS)]
Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=ID_MAX_CHARS)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=NAME_MAX_CHARS)]

MEMBERS_MAX: Final = 64
"""Members of an object, several times those of the largest model. pydantic describes each invalid one: 200,000 of them
would block the event loop for a second."""


def check_members(value: object) -> object:
    """Return a value before its validation; raise `ValueError` for an object with too many members."""
    if isinstance(value, dict) and len(value) > MEMBERS_MAX:
        raise ValueError(f"must have at most {MEMBERS_MAX} members")
    return value


class RequestModel(BaseModel):
    """Base of the models of request bodies: exact types, unknown members are rejected.

    Lists are `fail_fast`, so that the number of errors is limited like that of the members.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _check_members(cls, value: object) -> object:
        return check_members(value)


class InputText(RequestModel):
    """Text of the user."""

    type: Literal["input_text"]
    text: Text

    def part(self) -> conversation.Part:
        """Return the neutral part."""
        return conversation.Text(self.text)


class InputImage(RequestModel):
    """An image of the user: an https URL, or a data URL."""

    type: Literal["input_image"]
    image_url: Annotated[str, Field(pattern=r"^(https://|data:image/[a-z+.-]+;base64,)")]
    detail: Literal["low", "high", "auto"] = "auto"

    def part(self) -> conversation.Part:
        """Return the neutral part."""
        return conversation.Image(self.image_url, self.detail)


_Parts: TypeAlias = Annotated[
    list[Annotated[InputText | InputImage, Field(discriminator="type")]],
    Field(min_length=1, max_length=REQUEST_ITEMS_MAX, fail_fast=True),
]


def _content_tag(content: object) -> str:
    return "parts" if isinstance(content, list) else "text"


class UserMessage(RequestModel):
    """A user message. Clients cannot send system and developer messages."""

    type: Literal["message"] = "message"
    role: Literal["user"]
    content: Annotated[
        Annotated[Text, Tag("text")] | Annotated[_Parts, Tag("parts")],
        Discriminator(_content_tag),
    ]

    def entry(self) -> conversation.Entry:
        """Return the neutral entry."""
        return conversation.Message(conversation.USER, _content(self.content))


class _OutputItem(RequestModel):
    """An item that a response had. Members that a provider would look up or reject are accepted, but not sent."""

    id: Id | None = Field(None, exclude=True)
    status: Name | None = Field(None, exclude=True)


class OutputText(RequestModel):
    """Text of the model."""

    type: Literal["output_text"]
    text: AnyText
    annotations: list[Any] | None = Field(None, exclude=True)
    logprobs: list[Any] | None = Field(None, exclude=True)

    def part(self) -> conversation.Part:
        """Return the neutral part."""
        return conversation.Text(self.text)


class Refusal(RequestModel):
    """The text with which the model refused."""

    type: Literal["refusal"]
    refusal: AnyText

    def part(self) -> conversation.Part:
        """Return the neutral part."""
        return conversation.Refusal(self.refusal)


_OutputParts: TypeAlias = Annotated[
    list[Annotated[OutputText | Refusal, Field(discriminator="type")]],
    Field(min_length=1, max_length=REQUEST_ITEMS_MAX, fail_fast=True),
]


class AssistantMessage(_OutputItem):
    """A message of the model, as the client presents it: history, and nothing more (docs/decisions/0008)."""

    type: Literal["message"] = "message"
    role: Literal["assistant"]
    content: Annotated[
        Annotated[Text, Tag("text")] | Annotated[_OutputParts, Tag("parts")], Discriminator(_content_tag)
    ]
    phase: Literal["commentary", "final_answer"] | None = None

    def entry(self) -> conversation.Entry:
        """Return the neutral entry."""
        return conversation.Message(conversation.ASSISTANT, _content(self.content), self.phase)


class FunctionCall(_OutputItem):
    """A function call of the model, as the client presents it."""

    type: Literal["function_call"]
    call_id: Id
    name: Name
    arguments: AnyText

    def entry(self) -> conversation.Entry:
        """Return the neutral entry."""
        return conversation.ToolCall(self.call_id, self.name, self.arguments)


class FunctionOutput(_OutputItem):
    """Output of a function that the client ran."""

    type: Literal["function_call_output"]
    call_id: Id
    output: AnyText

    def entry(self) -> conversation.Entry:
        """Return the neutral entry."""
        return conversation.ToolOutput(self.call_id, self.output)


class CustomToolCall(_OutputItem):
    """A custom tool call of the model, as the client presents it."""

    type: Literal["custom_tool_call"]
    call_id: Id
    name: Name
    input: AnyText

    def entry(self) -> conversation.Entry:
        """Return the neutral entry."""
        return conversation.ToolCall(self.call_id, self.name, self.input, "custom")


class CustomToolOutput(_OutputItem):
    """Output of a custom tool that the client ran."""

    type: Literal["custom_tool_call_output"]
    call_id: Id
    output: AnyText

    def entry(self) -> conversation.Entry:
        """Return the neutral entry."""
        return conversation.ToolOutput(self.call_id, self.output, "custom")


class ApprovalResponse(RequestModel):
    """The user's decision on an approval request of an MCP tool."""

    type: Literal["mcp_approval_response"]
    approval_request_id: Id
    approve: bool
    reason: AnyText | None = None

    def entry(self) -> conversation.Entry:
        """Return the neutral entry."""
        return conversation.Approval(self.approval_request_id, self.approve, self.reason)


def _item_type(item: object) -> str:
    """Return the type of an input item; without one it is a message, as in the Responses API."""
    given = item.get("type", "message") if isinstance(item, dict) else getattr(item, "type", "message")
    return str(given)


_Message: TypeAlias = Annotated[UserMessage | AssistantMessage, Field(discriminator="role")]
_Item: TypeAlias = Annotated[
    Annotated[_Message, Tag("message")]
    | Annotated[FunctionCall, Tag("function_call")]
    | Annotated[FunctionOutput, Tag("function_call_output")]
    | Annotated[CustomToolCall, Tag("custom_tool_call")]
    | Annotated[CustomToolOutput, Tag("custom_tool_call_output")]
    | Annotated[ApprovalResponse, Tag("mcp_approval_response")],
    Discriminator(_item_type),
]
Items: TypeAlias = Annotated[list[_Item], Field(min_length=1, max_length=REQUEST_ITEMS_MAX, fail_fast=True)]


def _content(content: str | Sequence[InputText | InputImage | OutputText | Refusal]) -> conversation.Content:
    return content if isinstance(content, str) else tuple(part.part() for part in content)
