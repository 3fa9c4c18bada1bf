"""Models of the events of the Responses API that we emit. The discriminator is `type`.

The names of our own events start with `public-sse:`. They are written only to clients that accept them.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from projector.contracts.parts import Count, Maybe
from tests.protocols.response_writer.common_models import (
    Attachments,
    ContentEvent,
    Event,
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
from tests.protocols.responses.item_models import Annotation, ContentPart, ErrorPayload, Item, Response


class ResponseEvent(ResponseProgress):
    """The response starts, makes progress or ends."""

    response: Response


class ErrorEvent(Event):
    """The stream has failed. `response.failed` follows. The nested object makes the SDKs raise an exception."""

    type: Literal["error"]
    code: str | None
    message: str
    param: str | None
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

    type: Literal["response.refusal.delta", "response.reasoning_text.delta"]
    delta: str


class ReasoningDone(ContentEvent):
    """The complete text of full reasoning, only if the policy is `full`."""

    type: Literal["response.reasoning_text.done"]
    text: str


class CallProgress(ItemEvent):
    """Status of a hosted tool or of an MCP call."""

    type: Literal[
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
        "response.file_search_call.in_progress",
        "response.file_search_call.searching",
        "response.file_search_call.completed",
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
        "response.image_generation_call.in_progress",
        "response.image_generation_call.generating",
        "response.image_generation_call.completed",
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
        "response.mcp_call.failed",
    ]


class CallDelta(ItemEvent):
    """A delta of the arguments, the input or the code of a call."""

    type: Literal[
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
        "response.mcp_call_arguments.delta",
        "response.code_interpreter_call_code.delta",
    ]
    delta: str


class ArgumentsDone(ItemEvent):
    """The complete arguments of a call."""

    type: Literal["response.function_call_arguments.done", "response.mcp_call_arguments.done"]
    arguments: str


class InputDone(ItemEvent):
    """The complete input of a custom tool call."""

    type: Literal["response.custom_tool_call_input.done"]
    input: str


class CodeDone(ItemEvent):
    """The complete code of a code interpreter call."""

    type: Literal["response.code_interpreter_call_code.done"]
    code: str


class PartialImage(ItemEvent):
    """A partial image, in base64."""

    type: Literal["response.image_generation_call.partial_image"]
    partial_image_index: Count
    partial_image_b64: str
    background: Maybe[str] = None
    output_format: Maybe[str] = None
    quality: Maybe[str] = None
    size: Maybe[str] = None


ResponsesEvent: TypeAlias = Annotated[
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
    | CallProgress
    | CallDelta
    | ArgumentsDone
    | InputDone
    | CodeDone
    | PartialImage
    | ToolStatus
    | ToolOutput
    | Notices
    | Attachments,
    Field(discriminator="type"),
]

EVENT_ADAPTER: Final[TypeAdapter[ResponsesEvent]] = TypeAdapter(ResponsesEvent)


def parse_event(value: object) -> ResponsesEvent:
    """Validate the JSON value of one event, or raise `pydantic.ValidationError`."""
    return EVENT_ADAPTER.validate_python(value)
