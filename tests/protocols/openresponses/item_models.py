"""Models in the events of Open Responses: parts, items, the response object and the error payload."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from projector.contracts.kinds import VENDOR
from projector.contracts.parts import Count, Json, Maybe, Model
from tests.protocols.response_writer.common_models import (
    AnyFunctionCall,
    ItemStatus,
    NoItems,
    Reasoning,
    ReasoningText,
    Refusal,
    TextConfig,
    UrlCitation,
)

EXTENSION: Final = f"{VENDOR}:"
"""Prefix of our own names."""

ErrorType: TypeAlias = Literal["server_error", "invalid_request", "not_found", "model_error", "too_many_requests"]


class FileCitation(Model):
    """A file that a message cites."""

    type: Literal["public-sse:file_citation"]
    file_id: Maybe[str] = None
    filename: Maybe[str] = None
    index: Maybe[Count] = None


class ContainerFileCitation(Model):
    """A file of a code interpreter container that a message cites."""

    type: Literal["public-sse:container_file_citation"]
    container_id: Maybe[str] = None
    file_id: Maybe[str] = None
    filename: Maybe[str] = None
    start_index: Maybe[Count] = None
    end_index: Maybe[Count] = None


Annotation: TypeAlias = Annotated[UrlCitation | FileCitation | ContainerFileCitation, Field(discriminator="type")]


class OutputText(Model):
    """A text part of a message."""

    type: Literal["output_text"]
    text: str
    annotations: list[Annotation]
    logprobs: NoItems


ContentPart: TypeAlias = Annotated[OutputText | Refusal | ReasoningText, Field(discriminator="type")]


class Message(Model):
    """A message of the model."""

    type: Literal["message"]
    id: str
    status: ItemStatus
    role: Literal["user", "assistant", "system", "developer"]
    content: list[OutputText | Refusal]


class FunctionCall(AnyFunctionCall):
    """A call of a function, run by the client or by the server."""


class FunctionCallOutput(Model):
    """Output of a function. Anything but text is JSON text."""

    type: Literal["function_call_output"]
    id: str
    status: ItemStatus
    call_id: str
    output: str


class ExtensionItem(BaseModel):
    """An item that the protocol does not define. Its other members have their public names."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    type: Annotated[str, Field(pattern=r"^public-sse:[a-z_]+$")]
    id: str
    status: ItemStatus | Literal["failed"]
    tool_call_id: Maybe[str] = None


def _tag(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return EXTENSION if isinstance(kind, str) and kind.startswith(EXTENSION) else str(kind)


Item: TypeAlias = Annotated[
    Annotated[Message, Tag("message")]
    | Annotated[Reasoning, Tag("reasoning")]
    | Annotated[FunctionCall, Tag("function_call")]
    | Annotated[FunctionCallOutput, Tag("function_call_output")]
    | Annotated[ExtensionItem, Tag(EXTENSION)],
    Discriminator(_tag),
]


class CachedTokens(Model):
    """Details of the input tokens."""

    cached_tokens: Count


class ReasoningTokens(Model):
    """Details of the output tokens."""

    reasoning_tokens: Count


class Usage(Model):
    """Token usage of all responses of a run. A count that the provider does not report is 0."""

    input_tokens: Count
    output_tokens: Count
    total_tokens: Count
    input_tokens_details: CachedTokens
    output_tokens_details: ReasoningTokens


class IncompleteDetails(Model):
    """Why a response is incomplete: `max_output_tokens`, `content_filter`, `cancelled`, or a reason of the provider."""

    reason: str


class ResponseError(Model):
    """Why a response failed."""

    code: str
    message: str


class Response(Model):
    """The response object. Members that repeat the request have fixed values."""

    id: str
    object: Literal["response"]
    created_at: Count
    completed_at: Count | None
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed"]
    incomplete_details: IncompleteDetails | None
    model: str
    output: list[Item]
    error: ResponseError | None
    usage: Usage | None
    previous_response_id: None
    instructions: None
    tools: NoItems
    tool_choice: Literal["auto"]
    truncation: Literal["disabled"]
    parallel_tool_calls: Literal[True]
    text: TextConfig
    top_p: float
    presence_penalty: float
    frequency_penalty: float
    top_logprobs: Literal[0]
    temperature: float
    reasoning: None
    max_output_tokens: None
    max_tool_calls: None
    store: Literal[False]
    background: Literal[False]
    service_tier: str
    metadata: Annotated[Json, Field(max_length=0)]
    safety_identifier: None
    prompt_cache_key: None


class ErrorPayload(Model):
    """Error of a stream."""

    type: ErrorType
    code: str | None
    message: str
    param: None
