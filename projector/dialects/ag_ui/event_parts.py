"""What events of AG-UI are made of: the parts below the event itself, and the words that all of them share."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from projector.contracts.parts import Json, Maybe

PROTOCOL_VERSION: Final = "1.0"
VENDOR: Final = "public-sse"

SAFE_INTEGER_MAX: Final = 2**53 - 1
"""Numbers beyond this are not exact in a browser, and the protocol refuses them."""

Milliseconds: TypeAlias = Annotated[int, Field(ge=0, le=SAFE_INTEGER_MAX)]
Tokens: TypeAlias = Annotated[int, Field(ge=0, le=SAFE_INTEGER_MAX)]
Metadata: TypeAlias = Annotated[
    dict[Annotated[str, Field(pattern=rf"^{VENDOR}\.[a-z_]+$")], object], Field(min_length=1)
]


class AgUiModel(BaseModel):
    """What all parts of an event share: camel case on the wire, no unknown members, no conversions, no changes."""

    model_config = ConfigDict(
        alias_generator=to_camel, strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


# the end of a run


class Success(AgUiModel):
    """The run came to its end; calls that wait for the client are named."""

    type: Literal["success"]
    pending_tool_call_ids: Maybe[Annotated[list[str], Field(min_length=1)]] = None


class Interrupt(AgUiModel):
    """A tool call that waits for an approval."""

    id: str
    reason: Literal["tool_call"]
    message: str
    tool_call_id: str
    response_schema: Json


class Interrupted(AgUiModel):
    """The run waits for answers, which come with the next request."""

    type: Literal["interrupt"]
    interrupts: Annotated[list[Interrupt], Field(min_length=1)]


class Cancelled(AgUiModel):
    """The run was stopped on purpose."""

    type: Literal["cancelled"]


class TokenUsage(AgUiModel):
    """Tokens of the run; what the provider does not report is absent."""

    model: Maybe[str] = None
    input_tokens: Maybe[Tokens] = None
    output_tokens: Maybe[Tokens] = None
    total_tokens: Maybe[Tokens] = None
    reasoning_tokens: Maybe[Tokens] = None
    cached_input_tokens: Maybe[Tokens] = None


Usage: TypeAlias = Annotated[list[TokenUsage], Field(min_length=1, max_length=1)]
Outcome: TypeAlias = Annotated[Success | Interrupted | Cancelled, Field(discriminator="type")]


# activities


class AddOperation(AgUiModel):
    """A member is set, or an entry is put at the end of a list (RFC 6902)."""

    op: Literal["add"]
    path: Annotated[str, Field(pattern=r"^/[a-z_]+(/-)?$")]
    value: object
