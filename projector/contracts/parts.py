"""What events of `public_sse_v1` are made of (seed contract, sections 6 to 9): the parts below the event itself.

JSON Schema and TypeScript are made from these classes, docstrings included, so those speak to readers of the wire. Two
kinds of optional member: the `Maybe` ones are absent or have a value; those of `| None` may be null as well, because
the seed shows null there (CONTRACT D3).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

from projector.contracts import kinds

T = TypeVar("T")


class _NeverNull:
    """Reads `T | None` as: None in Python when the key is absent, and no null on the wire."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        inner: CoreSchema = schema["schema"] if schema["type"] == "nullable" else schema
        return inner


Maybe: TypeAlias = Annotated[T | None, _NeverNull()]
Count: TypeAlias = Annotated[int, Field(ge=0)]
Json: TypeAlias = dict[str, object]


class Model(BaseModel):
    """What all parts of an event share: no unknown members, no conversions, no changes."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True)


class WorkflowContext(Model):
    """Where in a workflow run an event belongs (6.2)."""

    workflow_key: str | None = None
    workflow_run_id: str | None = None
    stage_name: str | None = None
    step_name: str | None = None
    step_agent: str | None = None
    parallel_group: str | None = None
    branch_index: Count | None = None


class Notice(Model):
    """Something was withheld or cut, and where (8)."""

    type: kinds.NoticeType
    path: str
    """Dots and brackets, beginning at the event: `tool.results[2].text`."""
    message: str


# section 9.4: citations


class UrlCitation(Model):
    """A web page that a message cites."""

    type: Literal["url_citation"]
    start_index: Maybe[Count] = None
    end_index: Maybe[Count] = None
    title: Maybe[str] = None
    url: Maybe[str] = None


class FileCitation(Model):
    """A file that a message cites."""

    type: Literal["file_citation"]
    file_id: Maybe[str] = None
    filename: Maybe[str] = None
    index: Maybe[Count] = None


class ContainerFileCitation(Model):
    """A file of a code interpreter container that a message cites."""

    type: Literal["container_file_citation"]
    container_id: Maybe[str] = None
    file_id: Maybe[str] = None
    filename: Maybe[str] = None
    start_index: Maybe[Count] = None
    end_index: Maybe[Count] = None


Citation: TypeAlias = Annotated[UrlCitation | FileCitation | ContainerFileCitation, Field(discriminator="type")]


# section 9.7: tools


class Tool(Model):
    """What the payload of every tool status has."""

    tool_call_id: str


class WebSearchTool(Tool):
    """A web search."""

    tool_type: Literal["web_search"]
    status: kinds.SearchStatus
    query: Maybe[str] = None
    sources: Maybe[list[str]] = None


class FileSearchResult(Model):
    """A passage that a file search found."""

    file_id: Maybe[str] = None
    filename: Maybe[str] = None
    score: Maybe[float] = None
    text: Maybe[str] = None
    attributes: Maybe[Json] = None


class FileSearchTool(Tool):
    """A search in the host's files."""

    tool_type: Literal["file_search"]
    status: kinds.SearchStatus
    queries: Maybe[list[str]] = None
    results: Maybe[list[FileSearchResult]] = None


class CodeInterpreterTool(Tool):
    """Code that runs in a container."""

    tool_type: Literal["code_interpreter"]
    status: kinds.InterpreterStatus
    container_id: Maybe[str] = None
    container_mode: Maybe[kinds.ContainerMode] = None


class ImageGenerationTool(Tool):
    """An image that is made; its bytes travel in chunks."""

    tool_type: Literal["image_generation"]
    status: kinds.ImageStatus
    revised_prompt: Maybe[str] = None
    format: Maybe[str] = None
    size: Maybe[str] = None
    quality: Maybe[str] = None
    background: Maybe[str] = None


class FunctionTool(Tool):
    """A function of the host; `in_progress` at the end of a stream waits for the client."""

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
    """The large field that chunks belong to."""

    entity_kind: kinds.EntityKind
    entity_id: str
    field: kinds.ChunkField
    part_index: Maybe[Count] = None


class ErrorDetail(Model):
    """What went wrong, and whether a retry may help."""

    code: Maybe[str] = None
    message: str
    source: kinds.ErrorSource
    is_retryable: bool


class Attachment(Model):
    """A file that the host keeps."""

    object_id: str
    filename: Maybe[str] = None
    mime_type: Maybe[str] = None
    url: Maybe[str] = None


class Usage(Model):
    """Tokens used; what the provider does not report is absent."""

    input_tokens: Maybe[Count] = None
    output_tokens: Maybe[Count] = None
    total_tokens: Maybe[Count] = None
    cached_input_tokens: Maybe[Count] = None
    reasoning_output_tokens: Maybe[Count] = None


class FinalDetail(Model):
    """The result as a whole."""

    status: kinds.FinalStatus
    response_text: Maybe[str] = None
    structured_output: object | None = None
    reasoning_summary_text: Maybe[str] = None
    refusal_text: Maybe[str] = None
    attachments: Maybe[list[Attachment]] = None
    usage: Maybe[Usage] = None
