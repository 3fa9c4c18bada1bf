"""What a client may ask: reading a request's body, and the allow-lists of the paths of our own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator
from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from projector._validation import sentences
from projector.contracts import codec
from projector.server.http.json_limits import VALUE_BYTES, VALUES_MAX, values_in
from projector.server.http.problems import problem
from projector.server.streaming.memory import Account

_TEXT_MAX_CHARS: Final = 1_000_000
"""Of one text: longer than any context window; the body's own limit comes first by default."""
_ITEMS_MAX: Final = 1_000
_ID_MAX_CHARS: Final = 256
_TOKENS_MAX: Final = 10_000_000
"""More than any model gives; a number that a provider can read."""
_METADATA_MAX: Final = 16
_METADATA_KEY_MAX_CHARS: Final = 64
_METADATA_VALUE_MAX_CHARS: Final = 512
"""What the Responses API takes."""

_Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=_TEXT_MAX_CHARS)]
_Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=_ID_MAX_CHARS)]
_Metadata: TypeAlias = Annotated[
    dict[
        Annotated[str, Field(min_length=1, max_length=_METADATA_KEY_MAX_CHARS)],
        Annotated[str, Field(max_length=_METADATA_VALUE_MAX_CHARS)],
    ],
    Field(max_length=_METADATA_MAX),
]


class ClientLeftError(Exception):
    """The client closed the connection before its request was whole."""


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class InputText(_Asked):
    """A text that the user wrote."""

    type: Literal["input_text"]
    text: _Text


class InputImage(_Asked):
    """An image of the user: over HTTPS, or in the request itself."""

    type: Literal["input_image"]
    image_url: Annotated[str, Field(pattern=r"^(https://|data:image/[a-z+.-]+;base64,)")]
    detail: Literal["low", "high", "auto"] = "auto"


_Parts: TypeAlias = Annotated[
    list[Annotated[InputText | InputImage, Field(discriminator="type")]], Field(min_length=1, max_length=_ITEMS_MAX)
]


class UserMessage(_Asked):
    """A message of the user; system and developer messages are the server's to write."""

    type: Literal["message"] = "message"
    role: Literal["user"]
    content: Annotated[
        Annotated[_Text, Tag("text")] | Annotated[_Parts, Tag("parts")],
        Discriminator(lambda content: "parts" if isinstance(content, list) else "text"),
    ]


class FunctionOutput(_Asked):
    """What a function that the client ran gave."""

    type: Literal["function_call_output"]
    call_id: _Id
    output: Annotated[str, Field(max_length=_TEXT_MAX_CHARS)]


class ApprovalAnswer(_Asked):
    """The user's answer to an approval request of an MCP tool."""

    type: Literal["mcp_approval_response"]
    approval_request_id: _Id
    approve: bool
    reason: Annotated[str, Field(max_length=_TEXT_MAX_CHARS)] | None = None


def _item_type(item: object) -> str:
    """Give the type that an input item names; one without is a message, as in the Responses API."""
    given = item.get("type", "message") if isinstance(item, dict) else getattr(item, "type", "message")
    return str(given)


_Item: TypeAlias = Annotated[
    Annotated[UserMessage, Tag("message")]
    | Annotated[FunctionOutput, Tag("function_call_output")]
    | Annotated[ApprovalAnswer, Tag("mcp_approval_response")],
    Discriminator(_item_type),
]
_Items: TypeAlias = Annotated[list[_Item], Field(min_length=1, max_length=_ITEMS_MAX)]


class Parameters(_Asked):
    """What a request may ask of a model, where the agent lets it."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1, le=_TOKENS_MAX)] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ChatRequest(_Asked):
    """The body of `/api/v1/chat/stream`: one message, or input items in the shape of the Responses API."""

    message: _Text | None = None
    input: _Items | None = None
    agent: _Id | None = None
    conversation_id: _Id | None = None
    previous_response_id: _Id | None = None
    metadata: _Metadata | None = None
    parameters: Parameters = Parameters()

    @model_validator(mode="after")
    def _says_one_thing(self) -> ChatRequest:
        if (self.message is None) == (self.input is None):
            raise ValueError("expected either `message` or `input`")
        return self

    def items(self) -> list[dict[str, Any]]:
        """Give the input items, none where there is a message."""
        return [item.model_dump(exclude_none=True) for item in self.input or []]

    def says(self) -> set[str]:
        """Give what it says that an agent may not let it say, by the names of `AgentSettings.allowed_params`."""
        said = set(self.parameters.model_dump(exclude_none=True))
        said |= self.model_dump(exclude_none=True, include={"previous_response_id", "metadata"}).keys()
        return said | {"images"} if any(map(_has_image, self.input or [])) else said


class WorkflowRequest(_Asked):
    """The body of `/api/v1/workflows/{workflow_key}/run-stream`: what the first steps are asked."""

    message: _Text
    conversation_id: _Id | None = None
    metadata: _Metadata | None = None
    """For the host that runs this server; no provider is told."""


_Body = TypeVar("_Body", bound=_Asked)


def _has_image(item: _Asked) -> bool:
    return isinstance(item, UserMessage) and any(isinstance(part, InputImage) for part in item.content)


async def read_json(scope: Scope, receive: Receive, max_bytes: int, account: Account) -> dict[str, Any]:
    """Give the JSON object that a request's body holds; the account holds its bytes, and what they are read into.

    Raises:
        Problem: it is of another type, larger than `max_bytes`, of too many values, no JSON, or no object.
        ClientLeftError: there is nobody to answer.
    """
    headers = Headers(scope=scope)
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise problem("unsupported_media_type")
    announced = headers.get("content-length", "0")
    if announced.isascii() and announced.isdigit() and int(announced) > max_bytes:
        raise problem("body_too_large", f"The body may hold {max_bytes} bytes.")
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
            raise problem("body_too_large", f"The body may hold {max_bytes} bytes.")
    text = bytes(body)
    values = values_in(text)
    if values > VALUES_MAX:
        raise problem("body_too_large", f"The body may hold {VALUES_MAX} values.")
    account.hold(values * VALUE_BYTES)
    try:
        value = codec.loads(text)
    except codec.CodecError:
        raise problem("malformed_json") from None
    if not isinstance(value, dict):
        raise problem("invalid_request", "The body must be a JSON object.")
    return value


def chat(body: Mapping[str, Any]) -> ChatRequest:
    """Read the body of `/api/v1/chat/stream`.

    Raises:
        Problem: it says what this path does not take; the first such place is named.
    """
    return _valid(ChatRequest, body)


def workflow(body: Mapping[str, Any]) -> WorkflowRequest:
    """Read the body of `/api/v1/workflows/{workflow_key}/run-stream`.

    Raises:
        Problem: it says what this path does not take; the first such place is named.
    """
    return _valid(WorkflowRequest, body)


def _valid(kind: type[_Body], body: Mapping[str, Any]) -> _Body:
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise problem("invalid_request", f"{sentences(error, body, kind, root='body')[0]}.") from None
