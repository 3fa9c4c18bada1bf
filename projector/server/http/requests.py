"""Request bodies: reading JSON within limits, and the models of `/api/v1`, with the items of a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope

from projector._validation import sentences
from projector.contracts import codec
from projector.contracts.json_values import count_values, has_long_text
from projector.contracts.limits import (
    EVENT_TEXT_MAX_BYTES,
    ID_MAX_CHARS,
    NAME_MAX_CHARS,
    REQUEST_ITEMS_MAX,
    REQUEST_TEXT_MAX_CHARS,
)
from projector.conversation.client_history import is_history
from projector.conversation.entries import Approval, Entry, File, Image, Part, parts_of
from projector.conversation.request_members import Given
from projector.dialects.descriptor import AI_SDK_LEVELS
from projector.providers.openai_responses.request import read_item
from projector.server.config.settings import Settings
from projector.server.http.problems import ClientLeftError, problem
from projector.server.streaming.clock import event_loop
from projector.server.streaming.memory import LARGE_EVENT_BYTES, Account
from projector.server.telemetry.request_facts import headers_of

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
    _check_members = model_validator(mode="before")(check_members)


class InputText(RequestModel):
    """Text of the user."""

    type: Literal["input_text"]
    text: Text


class InputImage(RequestModel):
    """An image of the user: an https URL, or a data URL."""

    type: Literal["input_image"]
    image_url: Annotated[str, Field(pattern=r"^(https://|data:image/[a-z+.-]+;base64,)")]
    detail: Literal["low", "high", "auto"] = "auto"


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
    content: Annotated[Annotated[Text, Tag("text")] | Annotated[_Parts, Tag("parts")], Discriminator(_content_tag)]


class _OutputItem(RequestModel):
    """An item that a response had. Members that a provider would look up or reject are accepted, but not sent."""

    id: Id | None = Field(default=None, exclude=True)
    status: Name | None = Field(default=None, exclude=True)


class OutputText(RequestModel):
    """Text of the model."""

    type: Literal["output_text"]
    text: AnyText
    annotations: list[Any] | None = Field(default=None, exclude=True)
    logprobs: list[Any] | None = Field(default=None, exclude=True)


class Refusal(RequestModel):
    """The text with which the model refused."""

    type: Literal["refusal"]
    refusal: AnyText


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


class FunctionCall(_OutputItem):
    """A function call of the model, as the client presents it."""

    type: Literal["function_call"]
    call_id: Id
    name: Name
    arguments: AnyText


class FunctionOutput(_OutputItem):
    """Output of a function that the client ran."""

    type: Literal["function_call_output"]
    call_id: Id
    output: AnyText


class CustomToolCall(_OutputItem):
    """A custom tool call of the model, as the client presents it."""

    type: Literal["custom_tool_call"]
    call_id: Id
    name: Name
    input: AnyText


class CustomToolOutput(_OutputItem):
    """Output of a custom tool that the client ran."""

    type: Literal["custom_tool_call_output"]
    call_id: Id
    output: AnyText


class ApprovalResponse(RequestModel):
    """The user's decision on an approval request of an MCP tool."""

    type: Literal["mcp_approval_response"]
    approval_request_id: Id
    approve: bool
    reason: AnyText | None = None


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


def _entry(item: RequestModel) -> Entry:
    """Return a valid item as an entry. What would not be sent is left out."""
    if isinstance(item, ApprovalResponse):  # only a server that has asked for it knows what it answers
        return Approval(item.approval_request_id, item.approve, item.reason)
    return read_item(Given(item.model_dump(exclude_none=True)))


_TOKENS_MAX: Final = 10_000_000
"""More than any model generates, and a number that every provider can parse."""
VALUES_MAX: Final = 100_000
"""JSON values in a request: a conversation of thousands of messages has tens of thousands."""
LEVELS_MAX: Final = 200
"""Levels of a request body: JSON of more than 254 cannot be written again, and a request of a provider adds some."""
_VALUE_BYTES: Final = 100
"""Approximate memory of a value: an empty object takes 64 bytes, a short string 60, its slot in a list 8."""
_COPIES: Final = 2
"""Copies of a body besides its values: it is joined when it is complete, and encoded again for the provider."""
_PLAIN: Final = b"identity"
"""Encoding of a body that is not compressed."""
_WIDE_BYTES: Final = 4
"""Bytes of a character in memory, if any character of its text is not in Latin-1."""

_Metadata: TypeAlias = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
    BeforeValidator(check_members),
]
"""The limits are those of the Responses API."""

_OPTIONS: Final[Mapping[str, Mapping[str, int]]] = {
    "extensions": {"true": True, "false": False},
    "level": {str(level): level for level in AI_SDK_LEVELS},
}
"""Query parameter -> its values, for the member of `DialectOptions` of that name."""


PART_PARAMS: Final[Mapping[type[Part], str]] = {Image: "images", File: "files"}
"""Part of a message -> which of `AgentSettings.allowed_params` it needs."""


def part_params(entries: Iterable[Entry]) -> set[str]:
    """Return which of `AgentSettings.allowed_params` the parts of messages need."""
    return {PART_PARAMS[type(part)] for part in parts_of(entries) if type(part) in PART_PARAMS}


class Parameters(RequestModel):
    """Model parameters that a request may set if the agent allows it."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1, le=_TOKENS_MAX)] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Parameters:
        """Return the same object, as nothing changes it: pydantic copies the default for each request."""
        return self

    def given(self) -> dict[str, Any]:
        """Return the parameters that the request sets, in the order of the members."""
        if not (names := self.model_fields_set):
            return {}
        return {name: value for name, value in self if name in names and value is not None}


class ChatRequest(RequestModel):
    """The body of `/api/v1/chat/stream`: one message, or input items in the shape of the Responses API."""

    message: Text | None = None
    input: Items | None = None
    agent: Id | None = None
    conversation_id: Id | None = None
    previous_response_id: Id | None = None
    metadata: _Metadata | None = None
    parameters: Parameters = Parameters()

    @model_validator(mode="after")
    def _check_input(self) -> ChatRequest:
        if (self.message is None) == (self.input is None):
            raise ValueError("expected either `message` or `input`")
        return self

    def entries(self) -> list[Entry]:
        """Return the conversation; empty if there is a message."""
        return [_entry(item) for item in self.input] if self.input else []

    def params(self, entries: Sequence[Entry]) -> set[str]:
        """Return which of `AgentSettings.allowed_params` the request uses, besides its parameters."""
        used = part_params(entries) if entries else set()
        if self.previous_response_id is not None:
            used.add("previous_response_id")
        if self.metadata is not None:
            used.add("metadata")
        return used | {"history"} if any(map(is_history, entries)) else used


class WorkflowRequest(RequestModel):
    """The body of `/api/v1/workflows/{workflow_key}/run-stream`."""

    message: Text
    conversation_id: Id | None = None
    metadata: _Metadata | None = None
    """For the `on_terminal` hook of the server; not sent to providers."""


_Body = TypeVar("_Body", bound=BaseModel)


async def read_json(scope: Scope, receive: Receive, settings: Settings, account: Account) -> dict[str, Any]:
    """Read the JSON object of a request body, and count its memory in the account.

    Raises:
        Problem: another content type, a limit or the time-out is exceeded, or not a JSON object.
        ClientLeftError: the client disconnected.
        UsageError: there is no event loop of asyncio.
    """
    try:
        async with asyncio.timeout(settings.timeouts.request_read_s):
            text = await _read(scope, receive, settings.limits.max_body_bytes, account)
            if len(text) <= LARGE_EVENT_BYTES:
                await account.receive(_parsed_bytes(text))
                value = _parsed(text)
            else:  # off the event loop
                await account.receive(await account.memory.process(_parsed_bytes, text))
                value = await account.memory.process(_parsed, text)
    except RuntimeError:
        event_loop()  # raises if there is none
        raise
    except TimeoutError:
        raise problem("overloaded" if account.memory.is_spent else "request_timeout") from None
    if not isinstance(value, dict):
        raise problem("invalid_request", "The request body must be a JSON object.")
    return value


async def _read(scope: Scope, receive: Receive, max_bytes: int, account: Account) -> bytes:
    headers = headers_of(scope)
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media_type != b"application/json":
        raise problem("unsupported_media_type")
    if headers.get(b"content-encoding", _PLAIN).strip().lower() != _PLAIN:
        raise problem("unsupported_media_type", "The request body must not be compressed (`Content-Encoding`).")
    announced = headers.get(b"content-length", b"0")
    if announced.isdigit() and int(announced) > max_bytes:
        raise problem("body_too_large", f"The request body must have at most {max_bytes} bytes.")
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeftError
        part = message.get("body", b"")
        body += part
        await account.receive(_COPIES * len(part))
        more = message.get("more_body", False)
        if len(body) > max_bytes:
            raise problem("body_too_large", f"The request body must have at most {max_bytes} bytes.")
    return bytes(body)


def _parsed_bytes(text: bytes) -> int:
    """Return the memory of a parsed body, without parsing it; raise `Problem` if it has too many values."""
    values = count_values(text, VALUES_MAX)
    if values > VALUES_MAX:
        raise problem("body_too_large", f"The request body must have at most {VALUES_MAX} JSON values.")
    is_ascii = text.isascii()
    if not is_ascii and has_long_text(text, EVENT_TEXT_MAX_BYTES):
        raise problem("body_too_large", f"A text that is not ASCII must have at most {EVENT_TEXT_MAX_BYTES} bytes.")
    is_wide = b"\\u" in text or not is_ascii
    return values * _VALUE_BYTES + len(text) * (_WIDE_BYTES if is_wide else 1)


def _parsed(text: bytes) -> Any:
    try:
        value = codec.loads(text, is_strict=True)
    except codec.CodecError as error:
        place = "" if error.place is None else ": line {}, column {}".format(*error.place)
        raise problem("malformed_json", f"The request body is not valid JSON{place}.") from None
    if text.count(b"[") + text.count(b"{") > LEVELS_MAX and not has_levels(value, LEVELS_MAX):
        raise problem("malformed_json", f"The request body must have at most {LEVELS_MAX} levels.")
    return value


def has_levels(value: object, most: int) -> bool:
    """Return whether the lists and objects of a tree are nested at most so deeply."""
    level = [value]
    for _ in range(most):
        level = [
            child
            for one in level
            for child in (one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
            if isinstance(child, dict | list)
        ]
        if not level:
            return True
    return False


def parse(model: type[_Body], body: Mapping[str, Any]) -> _Body:
    """Parse a request body; raise `Problem` if it is invalid."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        sentence = sentences(error, body, model, root="body")[0]
        raise problem("invalid_request", sentence if sentence.endswith("?") else f"{sentence}.") from None


def dialect_options(scope: Scope) -> dict[str, Any]:
    """Return the members of `DialectOptions` that a query sets; raise `Problem` if one is invalid."""
    query = QueryParams(scope["query_string"])
    given = {name: query[name] for name in _OPTIONS if name in query}
    for name, value in given.items():
        if value not in _OPTIONS[name]:
            raise problem("invalid_request", f"`{name}` must be {' or '.join(_OPTIONS[name])}.", param=name)
    return {name: _OPTIONS[name][value] for name, value in given.items()}
