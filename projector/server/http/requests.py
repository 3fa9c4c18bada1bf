"""Request bodies: reading JSON within limits, and the models of `/api/v1`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import anyio
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator
from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from projector._validation import sentences
from projector.contracts import codec
from projector.contracts.limits import ID_MAX_CHARS
from projector.server.config.settings import Settings
from projector.server.http.problems import problem
from projector.server.streaming.memory import Account

_TEXT_MAX_CHARS: Final = 1_000_000
"""Longer than any context window; by default the limit of the whole body is reached first."""
_ITEMS_MAX: Final = 1_000
_TOKENS_MAX: Final = 10_000_000
"""More than any model generates, and a number that every provider can parse."""
VALUES_MAX: Final = 200_000
"""JSON values in a request: a conversation of thousands of messages has tens of thousands."""
_VALUE_BYTES: Final = 100
"""Approximate memory of a value: an empty object takes 64 bytes, a short string 60, its slot in a list 8."""
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A JSON string, or an unterminated one up to the end, so that each byte is scanned once."""

_Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=_TEXT_MAX_CHARS)]
_Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=ID_MAX_CHARS)]
_Metadata: TypeAlias = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
]
"""The limits are those of the Responses API."""


class ClientLeftError(Exception):
    """The client disconnected before its request was complete."""


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class InputText(_Request):
    """Text of the user."""

    type: Literal["input_text"]
    text: _Text


class InputImage(_Request):
    """An image of the user: an https URL, or a data URL."""

    type: Literal["input_image"]
    image_url: Annotated[str, Field(pattern=r"^(https://|data:image/[a-z+.-]+;base64,)")]
    detail: Literal["low", "high", "auto"] = "auto"


_Parts: TypeAlias = Annotated[
    list[Annotated[InputText | InputImage, Field(discriminator="type")]], Field(min_length=1, max_length=_ITEMS_MAX)
]


class UserMessage(_Request):
    """A user message. Clients cannot send system and developer messages."""

    type: Literal["message"] = "message"
    role: Literal["user"]
    content: Annotated[
        Annotated[_Text, Tag("text")] | Annotated[_Parts, Tag("parts")],
        Discriminator(lambda content: "parts" if isinstance(content, list) else "text"),
    ]


class FunctionOutput(_Request):
    """Output of a function that the client ran."""

    type: Literal["function_call_output"]
    call_id: _Id
    output: Annotated[str, Field(max_length=_TEXT_MAX_CHARS)]


class ApprovalResponse(_Request):
    """The user's decision on an approval request of an MCP tool."""

    type: Literal["mcp_approval_response"]
    approval_request_id: _Id
    approve: bool
    reason: Annotated[str, Field(max_length=_TEXT_MAX_CHARS)] | None = None


def _item_type(item: object) -> str:
    """Return the type of an input item; without one it is a message, as in the Responses API."""
    given = item.get("type", "message") if isinstance(item, dict) else getattr(item, "type", "message")
    return str(given)


_Item: TypeAlias = Annotated[
    Annotated[UserMessage, Tag("message")]
    | Annotated[FunctionOutput, Tag("function_call_output")]
    | Annotated[ApprovalResponse, Tag("mcp_approval_response")],
    Discriminator(_item_type),
]
_Items: TypeAlias = Annotated[list[_Item], Field(min_length=1, max_length=_ITEMS_MAX)]


class Parameters(_Request):
    """Model parameters that a request may set if the agent allows it."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1, le=_TOKENS_MAX)] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ChatRequest(_Request):
    """The body of `/api/v1/chat/stream`: one message, or input items in the shape of the Responses API."""

    message: _Text | None = None
    input: _Items | None = None
    agent: _Id | None = None
    conversation_id: _Id | None = None
    previous_response_id: _Id | None = None
    metadata: _Metadata | None = None
    parameters: Parameters = Parameters()

    @model_validator(mode="after")
    def _check_input(self) -> ChatRequest:
        if (self.message is None) == (self.input is None):
            raise ValueError("expected either `message` or `input`")
        return self

    def items(self) -> list[dict[str, Any]]:
        """Return the input items; empty if there is a message."""
        return [item.model_dump(exclude_none=True) for item in self.input or []]

    def params(self) -> set[str]:
        """Return which of `AgentSettings.allowed_params` the request uses."""
        used = set(self.parameters.model_dump(exclude_none=True))
        used |= self.model_dump(exclude_none=True, include={"previous_response_id", "metadata"}).keys()
        return used | {"images"} if any(map(_has_image, self.input or [])) else used


class WorkflowRequest(_Request):
    """The body of `/api/v1/workflows/{workflow_key}/run-stream`."""

    message: _Text
    conversation_id: _Id | None = None
    metadata: _Metadata | None = None
    """For the `on_terminal` hook of the server; not sent to providers."""


_Body = TypeVar("_Body", bound=_Request)


def _has_image(item: _Request) -> bool:
    return isinstance(item, UserMessage) and any(isinstance(part, InputImage) for part in item.content)


async def read_json(scope: Scope, receive: Receive, settings: Settings, account: Account) -> dict[str, Any]:
    """Read the JSON object of a request body, and count its memory in the account.

    Raises:
        Problem: another content type, a limit or the time-out is exceeded, or not a JSON object.
        ClientLeftError: the client disconnected.
    """
    try:
        with anyio.fail_after(settings.timeouts.request_read_s):
            text = await _read(scope, receive, settings.limits.max_body_bytes, account)
    except TimeoutError:
        raise problem("request_timeout") from None
    values = values_in(text)
    if values > VALUES_MAX:
        raise problem("body_too_large", f"The request body must have at most {VALUES_MAX} JSON values.")
    account.hold(values * _VALUE_BYTES)
    try:
        value = codec.loads(text)
    except codec.CodecError:
        raise problem("malformed_json") from None
    if not isinstance(value, dict):
        raise problem("invalid_request", "The request body must be a JSON object.")
    return value


async def _read(scope: Scope, receive: Receive, max_bytes: int, account: Account) -> bytes:
    headers = Headers(scope=scope)
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise problem("unsupported_media_type")
    announced = headers.get("content-length", "0")
    if announced.isascii() and announced.isdigit() and int(announced) > max_bytes:
        raise problem("body_too_large", f"The request body must have at most {max_bytes} bytes.")
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeftError
        part = message.get("body", b"")
        body += part
        account.hold(len(part))
        more = message.get("more_body", False)
        if len(body) > max_bytes:
            raise problem("body_too_large", f"The request body must have at most {max_bytes} bytes.")
    return bytes(body)


def values_in(text: bytes) -> int:
    """Return an upper bound of the number of values in a JSON text, without parsing it.

    A parsed value takes up to a hundred times its bytes: eight megabytes of `{}` become two hundred in memory, and
    block the event loop for a second. The content of strings is skipped only if the limit would be exceeded otherwise.
    """
    most = _separators(text)
    return most if most <= VALUES_MAX else _separators(_STRING.sub(b"", text))


def _separators(text: bytes) -> int:
    return 1 + sum(text.count(mark) for mark in (b",", b"{", b"["))


def parse(model: type[_Body], body: Mapping[str, Any]) -> _Body:
    """Parse a request body; raise `Problem` if it is invalid."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise problem("invalid_request", f"{sentences(error, body, model, root='body')[0]}.") from None
