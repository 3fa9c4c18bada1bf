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
    """Position of an event in a workflow run (6.2)."""

    workflow_key: str | None = None
    workflow_run_id: str | None = None
    stage_name: str | None = None
    step_name: str | None = None
    step_agent: str | None = None
    parallel_group: str | None = None
    branch_index: Count | None = None


class Notice(Model):
    """A value was withheld or truncated (8)."""

    type: kinds.NoticeType
    path: str
    """Path from the event to the value: `tool.results[2].text`."""
    message: str


# section 9.4: citations


class UrlCitation(Model):
    """A web page cited by a message."""

    type: Literal["url_citation"]
    start_index: Maybe[Count] = None
    end_index: Maybe[Count] = None
    title: Maybe[str] = None
    url: Maybe[str] = None


class FileCitation(Model):
    """A file cited by a message."""

    type: Literal["file_citation"]
    file_id: Maybe[str] = None
    filename: Maybe[str] = None
    index: Maybe[Count] = None


class ContainerFileCitation(Model):
    """A file of a code interpreter container, cited by a message."""

    type: Literal["container_file_citation"]
    container_id: Maybe[str] = None
    file_id: Maybe[str] = None
    filename: Maybe[str] = None
    start_index: Maybe[Count] = None
    end_index: Maybe[Count] = None


Citation: TypeAlias = Annotated[UrlCitation | FileCitation | ContainerFileCitation, Field(discriminator="type")]


# section 9.7: tools


class Tool(Model):
    """Members of every tool status."""

    tool_call_id: str


class WebSearchTool(Tool):
    """A web search."""

    tool_type: Literal["web_search"]
    status: kinds.SearchStatus
    query: Maybe[str] = None
    sources: Maybe[list[str]] = None


class FileSearchResult(Model):
    """A passage found by a file search."""

    file_id: Maybe[str] = None
    filename: Maybe[str] = None
    score: Maybe[float] = None
    text: Maybe[str] = None
    attributes: Maybe[Json] = None


class FileSearchTool(Tool):
    """A file search."""

    tool_type: Literal["file_search"]
    status: kinds.SearchStatus
    queries: Maybe[list[str]] = None
    results: Maybe[list[FileSearchResult]] = None


class CodeInterpreterTool(Tool):
    """Code run in a container."""

    tool_type: Literal["code_interpreter"]
    status: kinds.InterpreterStatus
    container_id: Maybe[str] = None
    container_mode: Maybe[kinds.ContainerMode] = None


class ImageGenerationTool(Tool):
    """A generated image; its bytes are sent in chunks."""

    tool_type: Literal["image_generation"]
    status: kinds.ImageStatus
    revised_prompt: Maybe[str] = None
    format: Maybe[str] = None
    size: Maybe[str] = None
    quality: Maybe[str] = None
    background: Maybe[str] = None


class FunctionTool(Tool):
    """A function call; `in_progress` at the end of the stream means that it waits for the client."""

    tool_type: Literal["function"]
    status: kinds.FunctionStatus
    name: str
    arguments_text: Maybe[str] = None
    arguments_json: Maybe[Json] = None
    output: Maybe[object] = None


class McpTool(Tool):
    """A tool of an MCP server."""

    tool_type: Literal["mcp"]
    status: kinds.McpStatus
    server_label: Maybe[str] = None
    tool_name: str
    arguments_text: Maybe[str] = None
    arguments_json: Maybe[Json] = None
    output: Maybe[object] = None


AnyTool: TypeAlias = Annotated[
    WebSearchTool | FileSearchTool | CodeInterpreterTool | ImageGenerationTool | FunctionTool | McpTool,
    Field(discriminator="tool_type"),
]


# sections 9.11 to 9.13: chunks and terminals


class ChunkTarget(Model):
    """The field that chunks belong to."""

    entity_kind: kinds.EntityKind
    entity_id: str
    field: kinds.ChunkField
    part_index: Maybe[Count] = None


class ErrorDetail(Model):
    """Error of a stream, and whether a retry may succeed."""

    code: Maybe[str] = None
    message: str
    source: kinds.ErrorSource
    is_retryable: bool


class Attachment(Model):
    """A file stored by the host."""

    object_id: str
    filename: Maybe[str] = None
    mime_type: Maybe[str] = None
    url: Maybe[str] = None


class Usage(Model):
    """Token usage; numbers that the provider does not report are absent."""

    input_tokens: Maybe[Count] = None
    output_tokens: Maybe[Count] = None
    total_tokens: Maybe[Count] = None
    cached_input_tokens: Maybe[Count] = None
    reasoning_output_tokens: Maybe[Count] = None


class FinalDetail(Model):
    """The complete result."""

    status: kinds.FinalStatus
    response_text: Maybe[str] = None
    structured_output: object | None = None
    reasoning_summary_text: Maybe[str] = None
    refusal_text: Maybe[str] = None
    attachments: Maybe[list[Attachment]] = None
    usage: Maybe[Usage] = None
