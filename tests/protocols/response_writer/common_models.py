"""Models of parts and events that the protocols of this package have in common."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from projector.contracts import kinds
from projector.contracts.parts import AnyTool, Attachment, Count, Json, Maybe, Model, Notice

ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete"]
NoItems: TypeAlias = Annotated[list[Any], Field(max_length=0)]


class UrlCitation(Model):
    """A web page that a message cites."""

    type: Literal["url_citation"]
    url: str
    title: str
    start_index: Count
    end_index: Count


class Refusal(Model):
    """A refusal part of a message."""

    type: Literal["refusal"]
    refusal: str


class ReasoningText(Model):
    """A part of full reasoning, only if the policy is `full`."""

    type: Literal["reasoning_text"]
    text: str


class SummaryText(Model):
    """A part of the summary of a reasoning item."""

    type: Literal["summary_text"]
    text: str


class Reasoning(Model):
    """Reasoning of the model, as far as the policy allows it."""

    type: Literal["reasoning"]
    id: str
    status: ItemStatus
    summary: list[SummaryText]
    content: Maybe[list[ReasoningText]] = None
    encrypted_content: Maybe[str] = None


class AnyFunctionCall(Model):
    """Members of a call of a function."""

    type: Literal["function_call"]
    id: str
    status: ItemStatus
    call_id: str
    name: str
    arguments: str
    namespace: Maybe[str] = None
    caller: Maybe[Json] = None
    async_: Annotated[Maybe[bool], Field(alias="async")] = None


class TextFormat(Model):
    """Fixed value: the request is not repeated."""

    type: Literal["text"]


class TextConfig(Model):
    """Fixed value: the request is not repeated."""

    format: TextFormat


class Event(Model):
    """Members of every event."""

    sequence_number: Count


class ResponseProgress(Event):
    """Members of the events of a response."""

    type: Literal[
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.completed",
        "response.incomplete",
        "response.failed",
    ]


class ItemEvent(Event):
    """Members of every event of an item."""

    item_id: str
    output_index: Count


class ContentEvent(ItemEvent):
    """Members of every event of a part of a message or of full reasoning."""

    content_index: Count


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


class RefusalDone(ContentEvent):
    """The complete text of a refusal."""

    type: Literal["response.refusal.done"]
    refusal: str


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


# events of our own


class ExtensionEvent(ItemEvent):
    """Members of every event of our own that belongs to an item. Paths in `notices` are relative to the event."""

    notices: Maybe[list[Notice]] = None


class ToolStatus(ExtensionEvent):
    """Status of a call that the protocol does not define."""

    type: Literal["public-sse:tool.status"]
    tool: AnyTool


class ToolOutput(ExtensionEvent):
    """Output of a hosted tool or an MCP call."""

    type: Literal["public-sse:tool.output"]
    tool_call_id: str
    tool_type: kinds.ToolType
    output: Any


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
