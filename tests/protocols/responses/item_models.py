"""Models in the events of the Responses API: annotations, items, the response object and the error payload."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from projector.contracts.parts import Count, Json, Maybe, Model
from tests.protocols.response_writer.common_models import (
    AnyFunctionCall,
    ItemStatus,
    NoItems,
    Reasoning,
    ReasoningText,
    Refusal,
    TextFormat,
    UrlCitation,
)

SearchStatus: TypeAlias = Literal["in_progress", "completed", "incomplete", "failed"]
Scalar: TypeAlias = str | int | float | bool


class FileCitation(Model):
    """A file that a message cites."""

    type: Literal["file_citation"]
    file_id: str
    filename: str
    index: Count


class ContainerFileCitation(Model):
    """A file of a code interpreter container that a message cites."""

    type: Literal["container_file_citation"]
    container_id: str
    file_id: str
    filename: str
    start_index: Count
    end_index: Count


class FilePath(Model):
    """The path of a file that the model created."""

    type: Literal["file_path"]
    file_id: str
    index: Count


Annotation: TypeAlias = Annotated[
    UrlCitation | FileCitation | ContainerFileCitation | FilePath, Field(discriminator="type")
]


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
    role: Literal["assistant"]
    content: list[Annotated[OutputText | Refusal, Field(discriminator="type")]]
    phase: Maybe[Literal["commentary", "final_answer"]] = None


class FunctionCall(AnyFunctionCall):
    """A call of a function, run by the client."""


class CustomToolCall(Model):
    """A call of a custom tool, whose input is text."""

    type: Literal["custom_tool_call"]
    id: str
    status: ItemStatus
    call_id: str
    name: str
    input: str
    namespace: Maybe[str] = None
    caller: Maybe[Json] = None
    async_: Annotated[Maybe[bool], Field(alias="async")] = None


class McpProtocolError(Model):
    """The error of an MCP call."""

    type: Literal["mcp_protocol_error", "http_error"]
    code: int
    message: str


class McpExecutionError(Model):
    """The error of an MCP tool."""

    type: Literal["mcp_tool_execution_error"]
    content: object


class McpCall(Model):
    """A call of a tool of an MCP server, run by the provider."""

    type: Literal["mcp_call"]
    id: str
    status: SearchStatus
    server_label: str
    name: str
    arguments: str
    output: str | None
    error: Annotated[McpProtocolError | McpExecutionError, Field(discriminator="type")] | None
    approval_request_id: Maybe[str] = None


class McpApprovalRequest(Model):
    """A call of a tool of an MCP server that waits for the client's approval. Its ID identifies the request."""

    type: Literal["mcp_approval_request"]
    id: str
    server_label: str
    name: str
    arguments: str


class Source(Model):
    """A page that a search found."""

    type: Literal["url"]
    url: str


class Search(Model):
    """A search."""

    type: Literal["search"]
    query: Maybe[str] = None
    queries: Maybe[list[str]] = None
    sources: Maybe[list[Source]] = None


class OpenPage(Model):
    """A page was opened."""

    type: Literal["open_page"]
    url: Maybe[str] = None


class FindInPage(Model):
    """A page was searched."""

    type: Literal["find_in_page"]
    url: str
    pattern: str


class WebSearchCall(Model):
    """A call of the web search."""

    type: Literal["web_search_call"]
    id: str
    status: SearchStatus
    action: Annotated[Search | OpenPage | FindInPage, Field(discriminator="type")]


class SearchResult(Model):
    """A result of a file search."""

    attributes: dict[str, Scalar]
    file_id: str
    filename: str
    score: float
    text: str


class FileSearchCall(Model):
    """A call of the file search."""

    type: Literal["file_search_call"]
    id: str
    status: SearchStatus
    queries: list[str]
    results: list[SearchResult] | None


class Logs(Model):
    """Printed text of a program."""

    type: Literal["logs"]
    logs: str


class ImageOutput(Model):
    """An image that a program made."""

    type: Literal["image"]
    url: str


class CodeInterpreterCall(Model):
    """A call of the code interpreter."""

    type: Literal["code_interpreter_call"]
    id: str
    status: SearchStatus
    code: str
    container_id: str
    outputs: list[Annotated[Logs | ImageOutput, Field(discriminator="type")]] | None


class ImageGenerationCall(Model):
    """A call of the image generation. A finished call without an image has an empty `result`."""

    type: Literal["image_generation_call"]
    id: str
    status: Literal["in_progress", "completed", "failed"]
    result: str | None
    output_format: Maybe[Literal["png", "webp", "jpeg", "gif", "svg"]] = None
    size: Maybe[str] = None
    quality: Maybe[Literal["low", "medium", "high", "xhigh", "max", "auto"]] = None
    background: Maybe[Literal["transparent", "opaque", "auto"]] = None
    revised_prompt: Maybe[str] = None


class ShellCall(Model):
    """A call of a shell, run by the client or in a container."""

    type: Literal["shell_call"]
    id: str
    status: ItemStatus
    call_id: str
    action: Json
    environment: Json | None
    caller: Maybe[Json] = None
    created_by: Maybe[str] = None


class ShellCallOutput(Model):
    """Output of a shell in a container."""

    type: Literal["shell_call_output"]
    id: str
    status: ItemStatus
    call_id: str
    output: list[Json]
    max_output_length: int | None
    caller: Maybe[Json] = None
    created_by: Maybe[str] = None


class LocalShellCall(Model):
    """A call of the client's shell."""

    type: Literal["local_shell_call"]
    id: str
    status: ItemStatus
    call_id: str
    action: Json


class ApplyPatchCall(Model):
    """A change of a file, made by the client."""

    type: Literal["apply_patch_call"]
    id: str
    status: ItemStatus
    call_id: str
    operation: Json
    caller: Maybe[Json] = None
    created_by: Maybe[str] = None


class ComputerCall(Model):
    """Actions on a computer, run by the client."""

    type: Literal["computer_call"]
    id: str
    status: ItemStatus
    call_id: str
    pending_safety_checks: list[Json]
    action: Maybe[Json] = None
    actions: Maybe[list[Json]] = None


class ToolSearchCall(Model):
    """A search for tools."""

    type: Literal["tool_search_call"]
    id: str
    status: ItemStatus
    call_id: str | None
    arguments: object
    execution: str
    created_by: Maybe[str] = None


class ToolSearchOutput(Model):
    """Tools that a search found."""

    type: Literal["tool_search_output"]
    id: str
    status: ItemStatus
    call_id: str | None
    tools: list[Json]
    execution: str
    created_by: Maybe[str] = None


class Program(Model):
    """A program that calls tools."""

    type: Literal["program"]
    id: str
    call_id: str
    code: str
    fingerprint: str


class ProgramOutput(Model):
    """Output of a program."""

    type: Literal["program_output"]
    id: str
    status: ItemStatus
    call_id: str
    result: str


class Compaction(Model):
    """A summary of the conversation that only the provider reads."""

    type: Literal["compaction"]
    id: str
    encrypted_content: str
    created_by: Maybe[str] = None


Item: TypeAlias = Annotated[
    Message
    | Reasoning
    | FunctionCall
    | CustomToolCall
    | McpCall
    | McpApprovalRequest
    | WebSearchCall
    | FileSearchCall
    | CodeInterpreterCall
    | ImageGenerationCall
    | ShellCall
    | ShellCallOutput
    | LocalShellCall
    | ApplyPatchCall
    | ComputerCall
    | ToolSearchCall
    | ToolSearchOutput
    | Program
    | ProgramOutput
    | Compaction,
    Field(discriminator="type"),
]


class InputTokensDetails(Model):
    """Details of the input tokens."""

    cached_tokens: Count
    cache_write_tokens: Count


class OutputTokensDetails(Model):
    """Details of the output tokens."""

    reasoning_tokens: Count


class Usage(Model):
    """Token usage of all responses of a run. A count that the provider does not report is 0."""

    input_tokens: Count
    output_tokens: Count
    total_tokens: Count
    input_tokens_details: InputTokensDetails
    output_tokens_details: OutputTokensDetails


class IncompleteDetails(Model):
    """Why a response is incomplete."""

    reason: Literal["max_output_tokens", "max_messages", "content_filter", "steered"]


class ErrorPayload(Model):
    """An error, in the `error` event and in the body of a failed answer."""

    message: str
    type: str
    param: str | None
    code: str | None


class ResponseError(Model):
    """Why a response failed: one of the API's codes. The `error` event has the code of the provider."""

    code: str
    message: str
    type: str
    param: None


class JsonObjectFormat(Model):
    """The text is a JSON object."""

    type: Literal["json_object"]


class JsonSchemaFormat(Model):
    """The text follows a schema. The schema itself is not repeated."""

    type: Literal["json_schema"]
    name: str
    schema_: Annotated[Json, Field(alias="schema", max_length=0)]


class TextConfig(Model):
    """Format of the text, as the provider reports it."""

    format: Annotated[TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")]


class Response(Model):
    """The response object. Members that repeat the request have fixed values."""

    id: str
    object: Literal["response"]
    created_at: Count
    completed_at: Count | None
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    incomplete_details: IncompleteDetails | None
    model: str
    output: list[Item]
    error: ResponseError | None
    usage: Usage | None
    background: Literal[False]
    instructions: None
    max_output_tokens: None
    max_tool_calls: None
    metadata: Annotated[Json, Field(max_length=0)]
    parallel_tool_calls: Literal[True]
    previous_response_id: None
    prompt_cache_key: None
    reasoning: None
    safety_identifier: None
    service_tier: str
    temperature: float
    text: TextConfig
    tool_choice: Literal["auto"]
    tools: NoItems
    top_logprobs: Literal[0]
    top_p: float
    truncation: Literal["disabled"]
    user: None
