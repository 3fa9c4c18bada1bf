"""Request of the AI SDK's `DefaultChatTransport`: the parts of it that we read (`ai` 5, 6 and 7).

The models are an allow-list: unknown members and parts are ignored, as applications add their own. Messages of the
role `system` are rejected, because only the server writes instructions. Null means absent.

assistant-ui's data stream runtime reads the same stream as `useChat`, but sends what the AI SDK gives to a model: model
messages (`content`) instead of UI messages (`parts`). Results of tools are messages of their own, messages have no IDs,
and the chat is `threadId`. They are translated before they are validated, so any member may have any type then; what is
no such message stays as it is, and `ChatInput` rejects it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError
from pydantic.alias_generators import to_camel

from projector._validation import sentences
from projector.contracts import codec
from projector.contracts.limits import ID_MAX_CHARS, NAME_MAX_CHARS, REQUEST_ITEMS_MAX, REQUEST_TEXT_MAX_CHARS
from projector.core.client_history import InputRefusedError
from projector.dialects.descriptor import DialectOptions

TOOLS_MAX: Final = 128
"""Limit of the providers."""

Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=ID_MAX_CHARS)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=NAME_MAX_CHARS)]
Text: TypeAlias = Annotated[str, Field(max_length=REQUEST_TEXT_MAX_CHARS)]
Metadata: TypeAlias = dict[str, Any] | None

TOOL_PREFIX: Final = "tool-"
DYNAMIC_TOOL: Final = "dynamic-tool"


class InputModel(BaseModel):
    """Base of all models: camel case on the wire, exact types, unknown members ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, strict=True, extra="ignore", frozen=True, hide_input_in_errors=True
    )


class TextPart(InputModel):
    """A text."""

    type: Literal["text"]
    text: Text


class FilePart(InputModel):
    """An image or another file: an https URL or a data URL."""

    type: Literal["file"]
    media_type: Name
    url: Annotated[str, Field(pattern=r"^(https://|data:[a-z0-9.+-]+/[a-z0-9.+-]+;base64,)")]
    filename: Name | None = None


class ReasoningPart(InputModel):
    """A part of the model's reasoning, as the client received it, perhaps with encrypted reasoning."""

    type: Literal["reasoning"]
    text: Text
    provider_metadata: Metadata = None


class ApprovalAnswer(InputModel):
    """An approval of a call: a request, until it has an answer."""

    id: Id
    approved: bool | None = None
    reason: Text | None = None


class ToolPart(InputModel):
    """A call of a tool, in its last state."""

    type: Annotated[str, Field(max_length=NAME_MAX_CHARS + len(TOOL_PREFIX))]
    tool_call_id: Id
    state: Id
    tool_name: Name | None = None
    input: Any = None
    output: Any = None
    error_text: Text | None = None
    provider_executed: bool | None = None
    approval: ApprovalAnswer | None = None
    call_provider_metadata: Metadata = None

    @property
    def name(self) -> str:
        """Name of the tool."""
        return self.tool_name or "" if self.type == DYNAMIC_TOOL else self.type.removeprefix(TOOL_PREFIX)


class StepStart(InputModel):
    """The start of the parts of another response."""

    type: Literal["step-start"]


class UnreadPart(InputModel):
    """A part that is not sent to the provider: sources, data, files of the model."""

    type: Name


def _type_of(part: object) -> str:
    given = part.get("type") if isinstance(part, dict) else getattr(part, "type", None)
    return given if isinstance(given, str) else ""


def _part_tag(part: object) -> str:
    kind = _type_of(part)
    return "tool" if kind == DYNAMIC_TOOL or kind.startswith(TOOL_PREFIX) else kind if kind in _READ else "unread"


_READ: Final = frozenset({"text", "reasoning", "step-start"})
_READ_OF_USER: Final = frozenset({"text", "file"})


def _user_part_tag(part: object) -> str:
    kind = _type_of(part)
    return kind if kind in _READ_OF_USER else "unread"


UserPart: TypeAlias = Annotated[
    Annotated[TextPart, Tag("text")] | Annotated[FilePart, Tag("file")] | Annotated[UnreadPart, Tag("unread")],
    Discriminator(_user_part_tag),
]
AssistantPart: TypeAlias = Annotated[
    Annotated[TextPart, Tag("text")]
    | Annotated[ReasoningPart, Tag("reasoning")]
    | Annotated[StepStart, Tag("step-start")]
    | Annotated[ToolPart, Tag("tool")]
    | Annotated[UnreadPart, Tag("unread")],
    Discriminator(_part_tag),
]


class UserMessage(InputModel):
    """A message of the user."""

    role: Literal["user"]
    id: Id
    parts: Annotated[list[UserPart], Field(max_length=REQUEST_ITEMS_MAX, fail_fast=True)]


class AssistantMessage(InputModel):
    """A message of the model with its calls, as the client presents it."""

    role: Literal["assistant"]
    id: Id
    parts: Annotated[list[AssistantPart], Field(max_length=REQUEST_ITEMS_MAX, fail_fast=True)]


Message: TypeAlias = Annotated[UserMessage | AssistantMessage, Field(discriminator="role")]


class Tool(InputModel):
    """A tool that the client runs."""

    description: Text = ""
    parameters: dict[str, Any] | None = None


class ChatInput(InputModel):
    """A request for the next message of a chat."""

    id: Id
    messages: Annotated[list[Message], Field(min_length=1, max_length=REQUEST_ITEMS_MAX, fail_fast=True)]
    trigger: Literal["submit-message", "regenerate-message"] | None = None
    message_id: Id | None = None
    tools: Annotated[dict[Name, Tool], Field(max_length=TOOLS_MAX)] | None = None
    """Tools that the client runs, by name, as assistant-ui sends them."""


def read_chat_input(body: Mapping[str, Any]) -> ChatInput:
    """Parse the JSON object of a request, or raise a `InputRefusedError` that names the first invalid member."""
    sent = with_ui_messages(body)
    try:
        return ChatInput.model_validate(sent)
    except ValidationError as error:
        message = sentences(error, sent, ChatInput)[0]
    raise InputRefusedError(f"{message}.")


def dialect_options(chat: ChatInput) -> DialectOptions:
    """Return the options of the stream that answers a request.

    A client that sends a result or an approval continues its last message, which must keep its ID.
    """
    last = chat.messages[-1]
    answers = [message for message in chat.messages if isinstance(message, AssistantMessage)]
    calls = [part.tool_call_id for message in answers for part in message.parts if isinstance(part, ToolPart)]
    return DialectOptions(
        message_id=last.id if isinstance(last, AssistantMessage) else None, taken_ids=frozenset(calls)
    )


FAILURES: Final = frozenset({"error-json", "error-text"})
"""Types of a tool's output that mean that it failed."""


def with_ui_messages(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a request with UI messages and the ID of its chat; one that has them as it is."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not any(map(_is_model_message, messages)):
        return body
    chat = {"id": body["threadId"]} if "threadId" in body else {}
    return {**chat, **body, "messages": list(_ui_messages(messages))}


def _is_model_message(message: object) -> bool:
    return isinstance(message, dict) and "content" in message and "parts" not in message


def _ui_messages(messages: list[Any]) -> Iterator[object]:
    """Yield the messages, with the results of tools in the parts of their calls."""
    calls: dict[str, dict[str, Any]] = {}
    for at, message in enumerate(messages):
        if not _is_model_message(message):
            yield message
        elif message.get("role") == "tool":
            for result in _objects(message["content"]):
                calls.pop(str(result.get("toolCallId")), {}).update(_result(result.get("output")))
        else:
            parts = [_part(part) for part in _objects(message["content"])]
            calls |= {str(part["toolCallId"]): part for part in parts if "toolCallId" in part}
            yield {"id": f"message_{at}", "role": message.get("role"), "parts": parts}


def _objects(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") == "file":
        return {**part, "url": part.get("data")}
    if part.get("type") == "tool-call":
        return {**part, "type": "dynamic-tool", "state": "input-available"}
    return part


def _result(output: object) -> dict[str, Any]:
    """Return the members of a call with a result."""
    given = output if isinstance(output, dict) else {}
    value = given.get("value")
    if given.get("type") in FAILURES:
        return {"state": "output-error", "errorText": value if isinstance(value, str) else codec.dumps(value).decode()}
    return {"state": "output-available", "output": value}
