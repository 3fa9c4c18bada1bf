"""Components of the events of `public_sse_v1` (seed contract, sections 6 to 9).

JSON Schema and TypeScript are generated from these classes and their docstrings, which address readers of the stream.
There are two kinds of optional members: `Maybe` members are absent or have a value; `| None` members may also be null,
because the seed shows null there (CONTRACT D3).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

from projector.contracts import kinds

T = TypeVar("T")


class _NeverNull:
    """Marker of `T | None`: None in Python if the key is absent, never null in JSON."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        inner: CoreSchema = schema["schema"] if schema["type"] == "nullable" else schema
        return inner


Maybe: TypeAlias = Annotated[T | None, _NeverNull()]
Count: TypeAlias = Annotated[int, Field(ge=0)]
Json: TypeAlias = dict[str, object]


class Model(BaseModel):
    """Base of all parts of an event: strict, frozen, without unknown members."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True)


class WorkflowContext(Model):
    """Position of an event in a workflow run."""

    workflow_key: str | None = None
    """Name of the workflow."""
    workflow_run_id: str | None = None
    """ID of the run."""
    stage_name: str | None = None
    """Name of the stage."""
    step_name: str | None = None
    """Name of the step."""
    step_agent: str | None = None
    """Agent of the step."""
    parallel_group: str | None = None
    """Name of the group of parallel branches."""
    branch_index: Count | None = None
    """Number of the branch in its group."""


class Notice(Model):
    """A value was withheld or truncated."""

    type: kinds.NoticeType
    """What happened to the value."""
    path: str
    """Path from the event to the value: `tool.results[2].text`."""
    message: str
    """Text for people: classes and counts, never the value."""


# section 9.4: citations


class UrlCitation(Model):
    """A web page cited by a message."""

    type: Literal["url_citation"]
    """Type of the citation."""
    start_index: Maybe[Count] = None
    """First code point of the citing text in its part."""
    end_index: Maybe[Count] = None
    """Code point after the citing text."""
    title: Maybe[str] = None
    """Title of the page."""
    url: Maybe[str] = None
    """Address."""


class FileCitation(Model):
    """A file cited by a message."""

    type: Literal["file_citation"]
    """Type of the citation."""
    file_id: Maybe[str] = None
    """The provider's ID of the file."""
    filename: Maybe[str] = None
    """Name of the file."""
    index: Maybe[Count] = None
    """Code point of the part at which the file is cited."""


class ContainerFileCitation(Model):
    """A file of a code interpreter container, cited by a message."""

    type: Literal["container_file_citation"]
    """Type of the citation."""
    container_id: Maybe[str] = None
    """The provider's ID of the container."""
    file_id: Maybe[str] = None
    """The provider's ID of the file."""
    filename: Maybe[str] = None
    """Name of the file."""
    start_index: Maybe[Count] = None
    """First code point of the citing text in its part."""
    end_index: Maybe[Count] = None
    """Code point after the citing text."""


Citation: TypeAlias = Annotated[UrlCitation | FileCitation | ContainerFileCitation, Field(discriminator="type")]


# section 9.7: tools


class Tool(Model):
    """Members of every tool status."""

    tool_call_id: str
    """ID of the call, the same on each of its events and unique in the stream."""


class WebSearchTool(Tool):
    """A web search."""

    tool_type: Literal["web_search"]
    """Type of the tool."""
    status: kinds.SearchStatus
    """Status of the search."""
    query: Maybe[str] = None
    """The search query."""
    sources: Maybe[list[str]] = None
    """Addresses of the pages that were found or cited."""


class FileSearchResult(Model):
    """A passage found by a file search."""

    file_id: Maybe[str] = None
    """The provider's ID of the file."""
    filename: Maybe[str] = None
    """Name of the file."""
    score: Maybe[float] = None
    """Relevance, as the provider reports it."""
    text: Maybe[str] = None
    """The passage."""
    attributes: Maybe[Json] = None
    """Attributes that the host stored with the file."""


class FileSearchTool(Tool):
    """A file search."""

    tool_type: Literal["file_search"]
    """Type of the tool."""
    status: kinds.SearchStatus
    """Status of the search."""
    queries: Maybe[list[str]] = None
    """The search queries."""
    results: Maybe[list[FileSearchResult]] = None
    """The passages that were found."""


class CodeInterpreterTool(Tool):
    """Code run in a container."""

    tool_type: Literal["code_interpreter"]
    """Type of the tool."""
    status: kinds.InterpreterStatus
    """Status of the run."""
    container_id: Maybe[str] = None
    """The provider's ID of the container."""
    container_mode: Maybe[kinds.ContainerMode] = None
    """Who created the container: the provider, or the request."""


class ImageGenerationTool(Tool):
    """A generated image; its bytes are sent in chunks."""

    tool_type: Literal["image_generation"]
    """Type of the tool."""
    status: kinds.ImageStatus
    """Status of the image."""
    revised_prompt: Maybe[str] = None
    """The prompt as the model rewrote it."""
    format: Maybe[str] = None
    """Format of the file, such as `png`."""
    size: Maybe[str] = None
    """Width and height, such as `1024x1024`."""
    quality: Maybe[str] = None
    """Quality, such as `high`."""
    background: Maybe[str] = None
    """Background, such as `transparent`."""


class FunctionTool(Tool):
    """A function call; `in_progress` at the end of the stream means that it waits for the client."""

    tool_type: Literal["function"]
    """Type of the tool."""
    status: kinds.FunctionStatus
    """Status of the execution; `in_progress` at the end: the call is left to the client."""
    name: str
    """Name of the function."""
    arguments_text: Maybe[str] = None
    """The complete arguments."""
    arguments_json: Maybe[Json] = None
    """The parsed arguments, if they are an object."""
    output: Maybe[object] = None
    """What the function returned: any JSON value."""


class McpTool(Tool):
    """A tool of an MCP server."""

    tool_type: Literal["mcp"]
    """Type of the tool."""
    status: kinds.McpStatus
    """Status of the call; `awaiting_approval`: a person has to answer."""
    server_label: Maybe[str] = None
    """Name of the MCP server."""
    tool_name: str
    """Name of the tool."""
    arguments_text: Maybe[str] = None
    """The complete arguments."""
    arguments_json: Maybe[Json] = None
    """The parsed arguments, if they are an object."""
    output: Maybe[object] = None
    """What the tool returned: any JSON value."""


AnyTool: TypeAlias = Annotated[
    WebSearchTool | FileSearchTool | CodeInterpreterTool | ImageGenerationTool | FunctionTool | McpTool,
    Field(discriminator="tool_type"),
]


# sections 9.11 to 9.13: chunks and terminals


class ChunkTarget(Model):
    """The field that chunks belong to."""

    entity_kind: kinds.EntityKind
    """What has the field."""
    entity_id: str
    """Its ID: that of the call, or of the message."""
    field: kinds.ChunkField
    """Name of the field: a preview of an image, or the image."""
    part_index: Maybe[Count] = None
    """Number of the preview."""


class ErrorDetail(Model):
    """Error of a stream, and whether a retry may succeed."""

    code: Maybe[str] = None
    """Stable name of the failure, for programs."""
    message: str
    """Text for people."""
    source: kinds.ErrorSource
    """Who failed."""
    is_retryable: bool
    """Whether the same request may succeed later."""


class Attachment(Model):
    """A file stored by the host."""

    object_id: str
    """The host's ID of the file."""
    filename: Maybe[str] = None
    """Name of the file."""
    mime_type: Maybe[str] = None
    """Media type."""
    url: Maybe[str] = None
    """Address."""


class Usage(Model):
    """Token usage; numbers that the provider does not report are absent."""

    input_tokens: Maybe[Count] = None
    """Tokens of the requests."""
    output_tokens: Maybe[Count] = None
    """Tokens of the answers."""
    total_tokens: Maybe[Count] = None
    """Sum of both, as the provider reports it."""
    cached_input_tokens: Maybe[Count] = None
    """Input tokens read from a cache."""
    reasoning_output_tokens: Maybe[Count] = None
    """Output tokens of reasoning."""


class FinalDetail(Model):
    """The complete result."""

    status: kinds.FinalStatus
    """How the stream ended."""
    response_text: Maybe[str] = None
    """The whole text of the answer."""
    structured_output: object | None = None
    """The parsed text, if the request asked for JSON."""
    reasoning_summary_text: Maybe[str] = None
    """The whole reasoning summary."""
    refusal_text: Maybe[str] = None
    """The whole refusal."""
    attachments: Maybe[list[Attachment]] = None
    """Files that the host stored."""
    usage: Maybe[Usage] = None
    """Tokens, summed over all responses of the stream."""
