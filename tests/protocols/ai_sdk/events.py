"""Models of the chunks that we emit (UI message stream, version 1). The discriminator is `type`.

They are narrower than the protocol: they reject members that the protocol would allow. Its members are camel case; our
own data has the names of `public_sse_v1`. `checker.py` has the rules over a stream.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from projector.contracts.kinds import VENDOR
from projector.contracts.parts import Json, Maybe

ProviderMetadata: TypeAlias = Annotated[
    dict[Annotated[str, Field(pattern=rf"^{VENDOR}$")], Json], Field(min_length=1, max_length=1)
]


class ChunkModel(BaseModel):
    """Base of all models: camel case on the wire, no unknown members, no conversions, immutable."""

    model_config = ConfigDict(
        alias_generator=to_camel, strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


class Start(ChunkModel):
    """The message starts. First chunk of a stream."""

    type: Literal["start"]
    message_id: str
    """ID of the stream."""
    message_metadata: Json
    """`stream_id`, and `conversation_id` if the host sets it."""


class StepChunk(ChunkModel):
    """A step starts or ends: a response of the provider, or several that overlap."""

    type: Literal["start-step", "finish-step"]


class PartStart(ChunkModel):
    """A text or reasoning part starts. The metadata of a refusal has `kind`."""

    type: Literal["text-start", "reasoning-start"]
    id: str
    provider_metadata: Maybe[ProviderMetadata] = None


class PartDelta(ChunkModel):
    """A delta of a text or reasoning part."""

    type: Literal["text-delta", "reasoning-delta"]
    id: str
    delta: Annotated[str, Field(min_length=1)]


class PartEnd(ChunkModel):
    """A text or reasoning part is complete. The metadata has a `status` if it was cut off."""

    type: Literal["text-end", "reasoning-end"]
    id: str
    provider_metadata: Maybe[ProviderMetadata] = None


class CallChunk(ChunkModel):
    """Members of every chunk of a tool call."""

    tool_call_id: str


class Executed(CallChunk):
    """Members of a call that the client must not run."""

    provider_executed: Maybe[Literal[True]] = None
    dynamic: Maybe[Literal[True]] = None


class ToolInputStart(Executed):
    """The input of a call starts."""

    type: Literal["tool-input-start"]
    tool_name: str
    provider_metadata: Maybe[ProviderMetadata] = None


class ToolInputDelta(CallChunk):
    """A delta of the input, as JSON text."""

    type: Literal["tool-input-delta"]
    input_text_delta: Annotated[str, Field(min_length=1)]


class ToolInputAvailable(Executed):
    """The input is complete."""

    type: Literal["tool-input-available"]
    tool_name: str
    input: object
    provider_metadata: Maybe[ProviderMetadata] = None
    """`encrypted_content`: what the client sends back with the call."""


class ToolInputError(Executed):
    """The input is unusable: it is not JSON, or it was cut off."""

    type: Literal["tool-input-error"]
    tool_name: str
    input: str | None
    error_text: str


class ToolApprovalRequest(CallChunk):
    """The call waits for an approval (from version 6)."""

    type: Literal["tool-approval-request"]
    approval_id: str


class ToolOutputAvailable(Executed):
    """The output of a call. A preliminary one is replaced later."""

    type: Literal["tool-output-available"]
    output: object
    preliminary: Maybe[Literal[True]] = None


class ToolOutputError(Executed):
    """The call failed."""

    type: Literal["tool-output-error"]
    error_text: str


class SourceUrl(ChunkModel):
    """A web page that the message cites, or that a search found."""

    type: Literal["source-url"]
    source_id: str
    url: str
    title: Maybe[str] = None


class SourceDocument(ChunkModel):
    """A file that the message cites."""

    type: Literal["source-document"]
    source_id: str
    media_type: str
    title: str
    filename: Maybe[str] = None


class File(ChunkModel):
    """An image as a data URL, or a file that the host has stored."""

    type: Literal["file"]
    url: str
    media_type: str
    provider_metadata: Maybe[ProviderMetadata] = None


class Data(ChunkModel):
    """Data of our own. A later chunk with the same ID replaces it."""

    type: Literal[
        "data-approval",
        "data-attachment",
        "data-citation",
        "data-image-omitted",
        "data-item",
        "data-notice",
        "data-refusal",
        "data-structured-output",
        "data-tool-status",
        "data-workflow",
    ]
    id: str
    data: Json


class TransientData(ChunkModel):
    """The status of a response, which is not kept in the message."""

    type: Literal["data-lifecycle"]
    data: Json
    transient: Literal[True]


class MessageMetadata(ChunkModel):
    """How a message ended without `finish`: its status, usage, and error code."""

    type: Literal["message-metadata"]
    message_metadata: Json


class Error(ChunkModel):
    """The stream failed. Last chunk."""

    type: Literal["error"]
    error_text: str


class Finish(ChunkModel):
    """The message is complete. Last chunk."""

    type: Literal["finish"]
    finish_reason: Literal["stop", "length", "content-filter", "tool-calls", "other", "interrupted"]
    message_metadata: Json
    """`status`, `reason`, `model`, `usage`."""


class Abort(ChunkModel):
    """The stream was cancelled. Last chunk."""

    type: Literal["abort"]
    reason: Maybe[Literal["cancelled"]] = None


UiChunk: TypeAlias = Annotated[
    Start
    | StepChunk
    | PartStart
    | PartDelta
    | PartEnd
    | ToolInputStart
    | ToolInputDelta
    | ToolInputAvailable
    | ToolInputError
    | ToolApprovalRequest
    | ToolOutputAvailable
    | ToolOutputError
    | SourceUrl
    | SourceDocument
    | File
    | Data
    | TransientData
    | MessageMetadata
    | Error
    | Finish
    | Abort,
    Field(discriminator="type"),
]

CHUNK_ADAPTER: Final[TypeAdapter[UiChunk]] = TypeAdapter(UiChunk)


def parse_chunk(value: object) -> UiChunk:
    """Validate the JSON value of one chunk, or raise `pydantic.ValidationError`."""
    return CHUNK_ADAPTER.validate_python(value)
