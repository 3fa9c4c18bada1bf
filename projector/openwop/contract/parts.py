"""What OpenWOP v1 documents are made of: words, bounds, and the parts that several of them share (RFC 0002 to 0024).

Narrower than the protocol on purpose: what these classes refuse, the protocol may still allow. Members are in camel
case on the wire, and no member is ever null.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from projector.contracts.parts import Json, Maybe

PROTOCOL_VERSION: Final = "1.0"
VENDOR: Final = "public-sse"

ID_MAX_CHARS: Final = 128
"""Of an event, a run and a node."""

AGENT_ID_MIN_CHARS: Final = 3
AGENT_ID_MAX_CHARS: Final = 256
KEY_MAX_CHARS: Final = 256
"""Of the key of an interrupt."""

Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=ID_MAX_CHARS)]
AgentId: TypeAlias = Annotated[str, Field(min_length=AGENT_ID_MIN_CHARS, max_length=AGENT_ID_MAX_CHARS)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Key: TypeAlias = Annotated[str, Field(min_length=1, max_length=KEY_MAX_CHARS)]
Timestamp: TypeAlias = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""A confidence, or the threshold that one is held to."""

Verbosity: TypeAlias = Literal["summary", "full", "off"]
Action: TypeAlias = Literal["accept", "reject"]
RunStatus: TypeAlias = Literal[
    "pending",
    "running",
    "paused",
    "waiting-approval",
    "waiting-input",
    "waiting-external",
    "completed",
    "failed",
    "cancelling",
    "cancelled",
]


class OpenWopModel(BaseModel):
    """What all documents share: camel case on the wire, no unknown members, no conversions, no changes."""

    model_config = ConfigDict(
        alias_generator=to_camel, strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


class ErrorObject(OpenWopModel):
    """Why a run, a node or a tool failed."""

    code: Name
    message: Name
    details: Maybe[Json] = None
    retryable: Maybe[bool] = None


class ApprovalData(OpenWopModel):
    """What a person approves: a call of a tool, before it is made."""

    artifact_id: Name
    artifact_type: Literal["public-sse.tool-call"]
    title: Name
    artifact_data: Maybe[Json] = None
    """Name of the tool, its server and its arguments, as far as they may be shown."""
    actions: Annotated[list[Action], Field(min_length=1)]


class LowConfidenceData(OpenWopModel):
    """A decision that an agent is not sure enough of."""

    agent_id: AgentId
    threshold: Share
    observed: Share
    decision: object = None
