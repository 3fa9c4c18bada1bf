"""Models of the events of the Messages API that we emit, and of the JSON answer."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from projector.contracts.parts import Count, Maybe, Model

StopReason: TypeAlias = Literal[
    "end_turn", "tool_use", "max_tokens", "refusal", "pause_turn", "model_context_window_exceeded"
]
ErrorType: TypeAlias = Literal[
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "conflict_error",
    "request_too_large",
    "rate_limit_error",
    "api_error",
    "timeout_error",
    "overloaded_error",
]


class Citation(Model):
    """A citation of a web page. What the page says, and the provider's own index of it, are not shown."""

    type: Literal["web_search_result_location"]
    url: str
    title: str | None
    cited_text: Literal[""]
    encrypted_index: Literal[""]


class TextStart(Model):
    """A text begins."""

    type: Literal["text"]
    text: Literal[""]


class ThinkingStart(Model):
    """Reasoning begins, as the policy allows it to be shown."""

    type: Literal["thinking"]
    thinking: Literal[""]
    signature: Literal[""]


class NoInput(Model):
    """The input of a call before its deltas."""


class ToolUseStart(Model):
    """A call that the client executes begins."""

    type: Literal["tool_use"]
    id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    input: NoInput
    toolset_name: Maybe[str] = None


class SearchStart(Model):
    """A search of the provider, which clients get that accept extensions."""

    type: Literal["server_tool_use"]
    id: str = Field(pattern=r"^srvtoolu_public_sse_.")
    name: Literal["web_search"]
    input: NoInput


class FoundPage(Model):
    """The address of a page. What the page says, and the provider's own form of it, are not shown."""

    type: Literal["web_search_result"]
    url: str
    title: Literal[""]
    encrypted_content: Literal[""]
    page_age: None


class SearchResult(Model):
    """What a search found; it has no deltas."""

    type: Literal["web_search_tool_result"]
    tool_use_id: str = Field(pattern=r"^srvtoolu_public_sse_.")
    content: list[FoundPage]


class TextDelta(Model):
    """A part of a text."""

    type: Literal["text_delta"]
    text: str = Field(min_length=1)


class ThinkingDelta(Model):
    """A part of reasoning."""

    type: Literal["thinking_delta"]
    thinking: str = Field(min_length=1)


class SignatureDelta(Model):
    """Encrypted reasoning, behind a prefix of ours."""

    type: Literal["signature_delta"]
    signature: str = Field(pattern=r"^public-sse\.")


class InputDelta(Model):
    """A part of the JSON of a call's input."""

    type: Literal["input_json_delta"]
    partial_json: str = Field(min_length=1)


class CitationsDelta(Model):
    """A citation of the text so far."""

    type: Literal["citations_delta"]
    citation: Citation


BlockStart: TypeAlias = Annotated[
    TextStart | ThinkingStart | ToolUseStart | SearchStart | SearchResult, Field(discriminator="type")
]
BlockDelta: TypeAlias = Annotated[
    TextDelta | ThinkingDelta | SignatureDelta | InputDelta | CitationsDelta, Field(discriminator="type")
]


class OutputTokensDetails(Model):
    """Part of the output tokens."""

    thinking_tokens: Count


class Usage(Model):
    """Tokens of all responses of the stream. A count that the provider does not report is 0."""

    input_tokens: Count
    """Without those that a cache contained; an estimate until the provider reports it."""
    cache_creation_input_tokens: Count
    cache_read_input_tokens: Count
    output_tokens: Count
    output_tokens_details: Maybe[OutputTokensDetails] = None


class StopDetails(Model):
    """Why the model refused."""

    type: Literal["refusal"]
    category: None
    explanation: str | None


class MessageHead(Model):
    """The message before its content."""

    id: str = Field(min_length=1)
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[Any] = Field(max_length=0)
    stop_reason: None
    stop_sequence: None
    usage: Usage


class MessageStart(Model):
    """First event."""

    type: Literal["message_start"]
    message: MessageHead


class ContentBlockStart(Model):
    """A block begins. Blocks are numbered from 0, and one is open at a time."""

    type: Literal["content_block_start"]
    index: Count
    content_block: BlockStart


class ContentBlockDelta(Model):
    """The open block continues."""

    type: Literal["content_block_delta"]
    index: Count
    delta: BlockDelta


class ContentBlockStop(Model):
    """The open block ends."""

    type: Literal["content_block_stop"]
    index: Count


class EndDelta(Model):
    """Why the message ends."""

    stop_reason: StopReason
    stop_sequence: None
    stop_details: Maybe[StopDetails] = None


class MessageDelta(Model):
    """Stop reason and usage, once, before the end."""

    type: Literal["message_delta"]
    delta: EndDelta
    usage: Usage


class MessageStop(Model):
    """Last event of a message that did not fail."""

    type: Literal["message_stop"]


class Ping(Model):
    """A heartbeat, which is no event of the message."""

    type: Literal["ping"]


class ErrorPayload(Model):
    """What went wrong."""

    type: ErrorType
    message: str


class ErrorEvent(Model):
    """The stream failed; last event."""

    type: Literal["error"]
    error: ErrorPayload
    request_id: Maybe[str] = None
    """ID of the request, if the client knows it."""


class Text(Model):
    """A whole text."""

    type: Literal["text"]
    text: str
    citations: Maybe[list[Citation]] = None


class Thinking(Model):
    """The whole reasoning of an item."""

    type: Literal["thinking"]
    thinking: str
    signature: str


class ToolUse(Model):
    """A whole call. Input that is no JSON object is the member `INVALID_JSON`."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]
    toolset_name: Maybe[str] = None


class Search(Model):
    """A whole search of the provider."""

    type: Literal["server_tool_use"]
    id: str
    name: Literal["web_search"]
    input: dict[str, Any]


class MessageAnswer(Model):
    """The answer to a request that does not stream."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[Annotated[Text | Thinking | ToolUse | Search | SearchResult, Field(discriminator="type")]]
    stop_reason: StopReason
    stop_sequence: None
    stop_details: Maybe[StopDetails] = None
    usage: Usage


MessagesEvent: TypeAlias = Annotated[
    MessageStart
    | ContentBlockStart
    | ContentBlockDelta
    | ContentBlockStop
    | MessageDelta
    | MessageStop
    | Ping
    | ErrorEvent,
    Field(discriminator="type"),
]

EVENT_ADAPTER: Final[TypeAdapter[MessagesEvent]] = TypeAdapter(MessagesEvent)
MESSAGE_ADAPTER: Final[TypeAdapter[MessageAnswer]] = TypeAdapter(MessageAnswer)
