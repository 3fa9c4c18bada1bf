"""Models of the events of Open Responses that we emit (schema of 2026-04-24). The discriminator is `type`.

Core events and items are as the protocol defines them. The names of ours start with `public-sse:`; clients ignore them.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from projector.contracts import kinds
from projector.contracts.parts import ChunkTarget, Count, Json, Maybe
from tests.protocols.openresponses.item_models import (
    Annotation,
    ContentPart,
    ErrorPayload,
    Item,
    Response,
)
from tests.protocols.response_writer.common_models import (
    Attachments,
    ContentEvent,
    Event,
    ExtensionEvent,
    ItemEvent,
    Notices,
    RefusalDone,
    ResponseProgress,
    SummaryDelta,
    SummaryDone,
    SummaryPartEvent,
    TextDelta,
    TextDone,
    ToolOutput,
    ToolStatus,
)


class ResponseEvent(ResponseProgress):
    """The response starts, makes progress or ends."""

    response: Response


class ErrorEvent(Event):
    """The stream has failed. `response.failed` follows."""

    type: Literal["error"]
    error: ErrorPayload


class OutputItemEvent(Event):
    """An item starts or ends."""

    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: Count
    item: Item


class ContentPartEvent(ContentEvent):
    """A part starts or ends."""

    type: Literal["response.content_part.added", "response.content_part.done"]
    part: ContentPart


class AnnotationAdded(ContentEvent):
    """A citation of a text."""

    type: Literal["response.output_text.annotation.added"]
    annotation_index: Count
    annotation: Annotation


class ContentDelta(ContentEvent):
    """A delta of a refusal, or of full reasoning if the policy is `full`."""

    type: Literal["response.refusal.delta", "response.reasoning.delta"]
    delta: str


class ReasoningDone(ContentEvent):
    """The complete text of full reasoning, only if the policy is `full`."""

    type: Literal["response.reasoning.done"]
    text: str


class ArgumentsDelta(ItemEvent):
    """A delta of the arguments of a function call."""

    type: Literal["response.function_call_arguments.delta"]
    delta: str


class ArgumentsDone(ItemEvent):
    """The complete arguments of a function call."""

    type: Literal["response.function_call_arguments.done"]
    name: str
    arguments: str


# events of our own


class ToolArguments(ExtensionEvent):
    """A delta of the arguments of an MCP or custom tool call, or the complete arguments."""

    type: Literal["public-sse:tool.arguments.delta", "public-sse:tool.arguments.done"]
    tool_call_id: str
    tool_type: kinds.CallType
    tool_name: str
    delta: Maybe[str] = None
    arguments_text: Maybe[str] = None
    arguments_json: Maybe[Json] = None


class ToolCode(ExtensionEvent):
    """A delta of the code of a code interpreter call, or the complete code."""

    type: Literal["public-sse:tool.code.delta", "public-sse:tool.code.done"]
    tool_call_id: str
    delta: Maybe[str] = None
    code: Maybe[str] = None


class Chunk(ExtensionEvent):
    """A chunk of a large field, or its end."""

    type: Literal["public-sse:chunk.delta", "public-sse:chunk.done"]
    target: ChunkTarget
    encoding: Maybe[Literal["base64"]] = None
    chunk_index: Maybe[Count] = None
    data: Maybe[str] = None


OpenResponsesEvent: TypeAlias = Annotated[
    ResponseEvent
    | ErrorEvent
    | OutputItemEvent
    | ContentPartEvent
    | TextDelta
    | TextDone
    | AnnotationAdded
    | ContentDelta
    | RefusalDone
    | ReasoningDone
    | SummaryPartEvent
    | SummaryDelta
    | SummaryDone
    | ArgumentsDelta
    | ArgumentsDone
    | ToolStatus
    | ToolArguments
    | ToolCode
    | ToolOutput
    | Chunk
    | Notices
    | Attachments,
    Field(discriminator="type"),
]

EVENT_ADAPTER: Final[TypeAdapter[OpenResponsesEvent]] = TypeAdapter(OpenResponsesEvent)


def parse_event(value: object) -> OpenResponsesEvent:
    """Validate the JSON value of one event, or raise `pydantic.ValidationError`."""
    return EVENT_ADAPTER.validate_python(value)
