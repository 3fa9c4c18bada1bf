"""The events: one class an event or a pair of events, told apart by `type`."""

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

# events


class Event(Model):
    """What every event has."""

    sequence_number: Count


class ResponseEvent(Event):
    """The response begins, goes on or ends."""

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
    """The stream has failed; `response.failed` follows."""

    type: Literal["error"]
    error: ErrorPayload


class OutputItemEvent(Event):
    """An item begins or ends."""

    type: Literal["response.output_item.added", "response.output_item.done"]
    output_index: Count
    item: Item


class ItemEvent(Event):
    """An event of one item."""

    item_id: str
    output_index: Count


class ContentEvent(ItemEvent):
    """An event of one part of a message or of full reasoning."""

    content_index: Count


class ContentPartEvent(ContentEvent):
    """A part begins or ends."""

    type: Literal["response.content_part.added", "response.content_part.done"]
    part: ContentPart


class TextDelta(ContentEvent):
    """More text."""

    type: Literal["response.output_text.delta"]
    delta: str
    logprobs: NoItems


class TextDone(ContentEvent):
    """Text as a whole."""

    type: Literal["response.output_text.done"]
    text: str
    logprobs: NoItems


class AnnotationAdded(ContentEvent):
    """A source of a text."""

    type: Literal["response.output_text.annotation.added"]
    annotation_index: Count
    annotation: Annotation


class RefusalDelta(ContentEvent):
    """More of a refusal."""

    type: Literal["response.refusal.delta"]
    delta: str


class RefusalDone(ContentEvent):
    """A refusal as a whole."""

    type: Literal["response.refusal.done"]
    refusal: str


class ReasoningDelta(ContentEvent):
    """More of full reasoning text, under policy `full` only."""

    type: Literal["response.reasoning.delta"]
    delta: str


class ReasoningDone(ContentEvent):
    """Full reasoning text as a whole, under policy `full` only."""

    type: Literal["response.reasoning.done"]
    text: str


class SummaryEvent(ItemEvent):
    """An event of one part of a reasoning summary."""

    summary_index: Count


class SummaryPartEvent(SummaryEvent):
    """A part of a summary begins or ends."""

    type: Literal["response.reasoning_summary_part.added", "response.reasoning_summary_part.done"]
    part: SummaryText


class SummaryDelta(SummaryEvent):
    """More of a summary."""

    type: Literal["response.reasoning_summary_text.delta"]
    delta: str


class SummaryDone(SummaryEvent):
    """A part of a summary as a whole."""

    type: Literal["response.reasoning_summary_text.done"]
    text: str


class ArgumentsDelta(ItemEvent):
    """More arguments of a function call."""

    type: Literal["response.function_call_arguments.delta"]
    delta: str


class ArgumentsDone(ItemEvent):
    """Arguments of a function call as a whole."""

    type: Literal["response.function_call_arguments.done"]
    name: str
    arguments: str


# our own


class Noted(ItemEvent):
    """An event of ours; what was withheld in it stands in `notices`, with paths that begin at the event."""

    notices: Maybe[list[Notice]] = None


class ToolStatus(Noted):
    """A call has come to a status that the protocol has no word for."""

    type: Literal["public-sse:tool.status"]
    tool: AnyTool


class ToolArguments(Noted):
    """More arguments of an MCP call or custom tool, or all of them."""

    type: Literal["public-sse:tool.arguments.delta", "public-sse:tool.arguments.done"]
    tool_call_id: str
    tool_type: kinds.CallType
    tool_name: str
    delta: Maybe[str] = None
    arguments_text: Maybe[str] = None
    arguments_json: Maybe[Json] = None


class ToolCode(Noted):
    """More code of a code interpreter, or all of it."""

    type: Literal["public-sse:tool.code.delta", "public-sse:tool.code.done"]
    tool_call_id: str
    delta: Maybe[str] = None
    code: Maybe[str] = None


class ToolOutput(Noted):
    """What a hosted tool or an MCP call gave back."""

    type: Literal["public-sse:tool.output"]
    tool_call_id: str
    tool_type: kinds.ToolType
    output: Any


class Chunk(Noted):
    """A piece of a large field, or its end."""

    type: Literal["public-sse:chunk.delta", "public-sse:chunk.done"]
    target: ChunkTarget
    encoding: Maybe[Literal["base64"]] = None
    chunk_index: Maybe[Count] = None
    data: Maybe[str] = None


class Notices(Event):
    """What was withheld or cut: in the public event of kind `about`, or in the event of that type which follows."""

    type: Literal["public-sse:notices"]
    about: str
    item_id: Maybe[str] = None
    output_index: Maybe[Count] = None
    notices: list[Notice]


class Attachments(Event):
    """Files that the host keeps."""

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
    | RefusalDelta
    | RefusalDone
    | ReasoningDelta
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
"""Every event of the dialect, told apart by `type`."""

EVENT_ADAPTER: Final[TypeAdapter[OpenResponsesEvent]] = TypeAdapter(OpenResponsesEvent)


def parse_event(value: object) -> OpenResponsesEvent:
    """Read one event from its JSON value.

    Raises:
        pydantic.ValidationError: the value is no event of the dialect; `errors()` says where.
    """
    return EVENT_ADAPTER.validate_python(value)
