"""Models of the events of Open Responses that we emit (schema of 2026-04-24). The discriminator is `type`.

Core events and items are as the protocol defines them. The names of ours start with `public-sse:`; clients ignore them.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from projector.contracts import kinds
from projector.contracts.parts import AnyTool, Attachment, ChunkTarget, Count, Json, Maybe, Model, Notice
from projector.dialects.openresponses.item_models import (
    Annotation,
    ContentPart,
    ErrorPayload,
    Item,
    NoItems,
    Response,
    SummaryText,
)


class Event(Model):
    """Members of every event."""

    sequence_number: Count


class ResponseEvent(Event):
    """The response starts, makes progress or ends."""

    type: Literal[
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.completed",
        "response.incomplete",
        "response.failed",
    ]
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


class ItemEvent(Event):
    """Members of every event of an item."""

    item_id: str
    output_index: Count


class ContentEvent(ItemEvent):
    """Members of every event of a part of a message or of full reasoning."""

    content_index: Count


class ContentPartEvent(ContentEvent):
    """A part starts or ends."""

    type: Literal["response.content_part.added", "response.content_part.done"]
    part: ContentPart


class TextDelta(ContentEvent):
    """A delta of a text."""

    type: Literal["response.output_text.delta"]
    delta: str
    logprobs: NoItems


class TextDone(ContentEvent):
    """The complete text of a part."""

    type: Literal["response.output_text.done"]
    text: str
    logprobs: NoItems


class AnnotationAdded(ContentEvent):
    """A citation of a text."""

    type: Literal["response.output_text.annotation.added"]
    annotation_index: Count
    annotation: Annotation


class RefusalDone(ContentEvent):
    """The complete text of a refusal."""

    type: Literal["response.refusal.done"]
    refusal: str


class ContentDelta(ContentEvent):
    """A delta of a refusal, or of full reasoning if the policy is `full`."""

    type: Literal["response.refusal.delta", "response.reasoning.delta"]
    delta: str


class ReasoningDone(ContentEvent):
    """The complete text of full reasoning, only if the policy is `full`."""

    type: Literal["response.reasoning.done"]
    text: str


class SummaryEvent(ItemEvent):
    """Members of every event of a part of a reasoning summary."""

    summary_index: Count


class SummaryPartEvent(SummaryEvent):
    """A part of a summary starts or ends."""

    type: Literal["response.reasoning_summary_part.added", "response.reasoning_summary_part.done"]
    part: SummaryText


class SummaryDelta(SummaryEvent):
    """A delta of a summary."""

    type: Literal["response.reasoning_summary_text.delta"]
    delta: str


class SummaryDone(SummaryEvent):
    """The complete text of a summary part."""

    type: Literal["response.reasoning_summary_text.done"]
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


class ExtensionEvent(ItemEvent):
    """Members of every event of our own that belongs to an item. Paths in `notices` are relative to the event."""

    notices: Maybe[list[Notice]] = None


class ToolStatus(ExtensionEvent):
    """Status of a call that the protocol does not define."""

    type: Literal["public-sse:tool.status"]
    tool: AnyTool


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


class ToolOutput(ExtensionEvent):
    """Output of a hosted tool or an MCP call."""

    type: Literal["public-sse:tool.output"]
    tool_call_id: str
    tool_type: kinds.ToolType
    output: Any


class Chunk(ExtensionEvent):
    """A chunk of a large field, or its end."""

    type: Literal["public-sse:chunk.delta", "public-sse:chunk.done"]
    target: ChunkTarget
    encoding: Maybe[Literal["base64"]] = None
    chunk_index: Maybe[Count] = None
    data: Maybe[str] = None


class Notices(Event):
    """Data withheld from or truncated in the public event of kind `about`, or the next event of that type."""

    type: Literal["public-sse:notices"]
    about: str
    item_id: Maybe[str] = None
    output_index: Maybe[Count] = None
    notices: list[Notice]


class Attachments(Event):
    """Files stored by the host."""

    type: Literal["public-sse:attachments"]
    attachments: list[Attachment]


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
