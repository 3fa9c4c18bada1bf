"""Models of the chunks of Chat Completions that we emit, and of the JSON answer.

All members are the API's, except `reasoning_content` and `extra_content`, which many servers and clients have, and
`public_sse`, which a client has to request.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from projector.contracts import kinds
from projector.contracts.parts import (
    AnyTool,
    Attachment,
    ChunkTarget,
    Citation,
    Count,
    Json,
    Maybe,
    Model,
    Notice,
)

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]


class Function(Model):
    """A fragment of a function call: the first one has the name and no arguments."""

    name: Maybe[str] = None
    arguments: str


class Custom(Model):
    """A fragment of a call of a custom tool: the first one has the name and no input."""

    name: Maybe[str] = None
    input: str


class GoogleExtra(Model):
    """What the server wants back, in the place of a thought signature of Google's compatible endpoint."""

    thought_signature: str


class ExtraContent(Model):
    """A member of a call that the client sends back unchanged."""

    google: GoogleExtra


class ToolCallDelta(Model):
    """A fragment of a call that the client executes. The first one has ID, type and name."""

    index: Count
    id: Maybe[str] = None
    type: Maybe[Literal["function"]] = None
    function: Function
    custom: Maybe[Custom] = None
    """Only for a custom tool: its input, which `function.arguments` repeats for clients that know functions only."""
    extra_content: Maybe[ExtraContent] = None
    """Once for a call, if the server seals what the provider wants back with it."""


class UrlCitationSource(Model):
    """A web page, and the place in `content` that cites it."""

    start_index: Count
    end_index: Count
    url: str
    title: str


class UrlAnnotation(Model):
    """A citation of a web page."""

    type: Literal["url_citation"]
    url_citation: UrlCitationSource


class Delta(Model):
    """What a chunk adds to the message."""

    role: Maybe[Literal["assistant"]] = None
    content: Maybe[str] = None
    refusal: Maybe[str] = None
    reasoning_content: Maybe[str] = None
    """Reasoning as the server's policy allows it: none, summaries, or the full text."""
    tool_calls: Maybe[list[ToolCallDelta]] = None
    annotations: Maybe[list[UrlAnnotation]] = None
    """All citations, once, before the end."""


class ChunkChoice(Model):
    """The only choice."""

    index: Literal[0]
    delta: Delta
    logprobs: None
    finish_reason: FinishReason | None


class PromptTokensDetails(Model):
    """Part of the prompt tokens."""

    cached_tokens: Count


class CompletionTokensDetails(Model):
    """Part of the completion tokens."""

    reasoning_tokens: Count


class Usage(Model):
    """Tokens of all responses of the stream. A count that the provider does not report is 0."""

    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count
    prompt_tokens_details: Maybe[PromptTokensDetails] = None
    completion_tokens_details: Maybe[CompletionTokensDetails] = None


class FinalMembers(Model):
    """Members of the public `final` that no chunk has."""

    status: kinds.FinalStatus
    structured_output: Maybe[Any] = None
    attachments: Maybe[list[Attachment]] = None


class PublicMembers(Model):
    """Members of a public event (`public_sse_v1`) that the API does not have. Paths in `notices` start at the event."""

    kind: Annotated[kinds.Kind, Field(strict=False)] | Literal["reasoning.delta"]
    output_index: Maybe[Count] = None
    item_id: Maybe[str] = None
    content_index: Maybe[Count] = None
    summary_index: Maybe[Count] = None
    tool_call_id: Maybe[str] = None
    tool_type: Maybe[kinds.ToolType] = None
    tool_name: Maybe[str] = None
    tool: Maybe[AnyTool] = None
    delta: Maybe[str] = None
    arguments_text: Maybe[str] = None
    arguments_json: Maybe[Json] = None
    code: Maybe[str] = None
    output: Any = None
    citation: Maybe[Citation] = None
    target: Maybe[ChunkTarget] = None
    encoding: Maybe[Literal["base64"]] = None
    chunk_index: Maybe[Count] = None
    data: Maybe[str] = None
    final: Maybe[FinalMembers] = None
    notices: Maybe[list[Notice]] = None


class ChatCompletionChunk(Model):
    """A delta of the completion, its finish reason, or its usage: then `choices` is empty."""

    id: str
    """The same in every chunk: the ID of the first response, or of the stream."""
    object: Literal["chat.completion.chunk"]
    created: Count
    model: str
    service_tier: Maybe[str] = None
    choices: list[ChunkChoice] = Field(max_length=1)
    public_sse: Maybe[PublicMembers] = None
    """Only if the request accepts extensions."""
    usage: Usage | None = None
    """Only if the request asks for it: null, except in the last chunk."""


class ErrorPayload(Model):
    """The failure that ended the stream."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorChunk(Model):
    """The stream failed; last event."""

    error: ErrorPayload


class FunctionCall(Model):
    """Name and arguments of a function."""

    name: str
    arguments: str


class CustomCall(Model):
    """Name and input of a custom tool."""

    name: str
    input: str


class FunctionToolCall(Model):
    """A call of a function."""

    id: str
    type: Literal["function"]
    function: FunctionCall
    extra_content: Maybe[ExtraContent] = None


class CustomToolCall(Model):
    """A call of a custom tool."""

    id: str
    type: Literal["custom"]
    custom: CustomCall
    extra_content: Maybe[ExtraContent] = None


class Message(Model):
    """The whole message."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None
    reasoning_content: Maybe[str] = None
    annotations: Maybe[list[UrlAnnotation]] = None
    tool_calls: Maybe[list[FunctionToolCall | CustomToolCall]] = None


class Choice(Model):
    """The only choice."""

    index: Literal[0]
    message: Message
    logprobs: None
    finish_reason: FinishReason


class ChatCompletion(Model):
    """The answer to a request that does not stream."""

    id: str
    object: Literal["chat.completion"]
    created: Count
    model: str
    service_tier: Maybe[str] = None
    choices: list[Choice] = Field(min_length=1, max_length=1)
    usage: Maybe[Usage] = None
    public_sse: Maybe[list[PublicMembers]] = None
    """Only if the request accepts extensions."""


ChatCompletionsEvent: TypeAlias = ChatCompletionChunk | ErrorChunk

EVENT_ADAPTER: Final[TypeAdapter[ChatCompletionsEvent]] = TypeAdapter(ChatCompletionsEvent)
COMPLETION_ADAPTER: Final[TypeAdapter[ChatCompletion]] = TypeAdapter(ChatCompletion)
