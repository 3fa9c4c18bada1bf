"""Models of the events of a run log as we emit them, made from the tables of `events.toml`.

Narrower than the protocol on purpose: a document that these models reject may still be valid OpenWOP. Members are in
camel case on the wire, and only members of the type `Any` may be null.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, Union

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, create_model
from pydantic.alias_generators import to_camel

from projector.contracts.kinds import VENDOR
from projector.contracts.parts import ChunkTarget, Citation, Count, Json, Maybe, Notice
from projector.openwop import event_log
from projector.openwop.event_log import AGENT_ID_MIN_CHARS, ID_MAX_CHARS, Verbosity

AGENT_ID_MAX_CHARS: Final = 256

Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=ID_MAX_CHARS)]
AgentId: TypeAlias = Annotated[str, Field(min_length=AGENT_ID_MIN_CHARS, max_length=AGENT_ID_MAX_CHARS)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Timestamp: TypeAlias = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")]
TypeId: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-zA-Z0-9._-]*$")]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""A confidence or a confidence threshold."""
_Action: Any = Literal.__getitem__(event_log.APPROVAL_ACTIONS)
_Actions: Any = list.__class_getitem__(_Action)

_TYPES: Final[dict[str, Any]] = {
    "str": str,
    "bool": bool,
    "Any": JsonValue,
    "Table": Json,
    "Count": Count,
    "Id": Id,
    "AgentId": AgentId,
    "Name": Name,
    "Key": Annotated[str, Field(min_length=1, max_length=event_log.INTERRUPT_KEY_MAX_CHARS)],
    "Share": Share,
    "TypeId": TypeId,
    "Timestamp": Timestamp,
    "Verbosity": Verbosity,
    "Citation": Citation,
    "ChunkTarget": ChunkTarget,
    "Actions": Annotated[_Actions, Field(min_length=1)],
    "ReceivedAction": _Action | Literal["timeout"],
    "Kind": Literal["approval", "low-confidence"],
    "Transport": Literal["mcp", "http", "native"],
    "FinishReason": Literal["stop", "length", "tool_calls", "content_filter"],
}
"""Name of a type in the tables -> type."""


class OpenWopModel(BaseModel):
    """Base of all models here: camel case on the wire, unknown members rejected, no conversions, frozen."""

    # no `use_attribute_docstrings`: pydantic would search the source of each created model, which takes seconds
    model_config = ConfigDict(alias_generator=to_camel, strict=True, extra="forbid", frozen=True)


class RunEvent(OpenWopModel):
    """One event of a run; members without a value are absent, never null."""

    event_id: Id
    run_id: Id
    node_id: Maybe[Id] = None
    type: str
    payload: Any
    timestamp: Timestamp
    sequence: Count = Field(
        description="Position in the run log, from 0. "
        "A reasoning delta has another `sequence` in its payload, counted per block."
    )
    causation_id: Maybe[Id] = Field(default=None, description="`eventId` of the event that caused this one.")
    notices: Maybe[Annotated[list[Notice], Field(min_length=1)]] = Field(
        None,
        alias=f"{VENDOR}.notices",
        description="What was withheld or truncated in this event; paths are those of the public event.",
    )


def _model(name: str, description: str, members: str) -> Any:
    """Create the model of an object."""
    fields: dict[str, Any] = {}
    maybe: Any = Maybe
    for member, kind in (one.split(": ") for one in members.split(", ")):
        found: Any = Literal.__getitem__(kind.strip("'")) if kind.startswith("'") else _TYPES[kind]
        field = re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", member.rstrip("?"))
        optional = found if found is JsonValue else maybe[found]
        fields[field] = (optional, None) if member.endswith("?") else (found, ...)
    return create_model(name, __base__=OpenWopModel, __doc__=description, **fields)


def _event_model(event_type: str, row: Mapping[str, Any]) -> type[RunEvent]:
    """Create the model of an event type; that of `node.started` is `NodeStartedEvent`, of its payload `NodeStarted`."""
    parts = event_type.removeprefix(f"{VENDOR}.").split(".")
    name = "".join(part[0].upper() + part[1:] for part in parts)
    members: dict[str, Any] = dict.fromkeys(row.get("requires", ()), (Id, ...))
    if "by_kind" in row:
        kinds = Union.__getitem__(tuple(_TYPES[kind] for kind in row["by_kind"]))
        members["payload"] = (Annotated[kinds, Field(discriminator="kind")], ...)
    else:
        members["payload"] = (_model(name, row["description"], row["payload"]), ...)
    members["type"] = (Literal.__getitem__(event_type), ...)
    return create_model(f"{name}Event", __base__=RunEvent, __doc__=row["description"], **members)


_TABLES: Final = tomllib.loads((Path(__file__).parent / "events.toml").read_text(encoding="utf-8"))
for _name, _row in _TABLES["models"].items():
    _TYPES[_name] = _model(_name, **_row)

_UNION: Final[Any] = Union.__getitem__(tuple(_event_model(*row) for row in _TABLES["events"].items()))
EVENT_ADAPTER: Final[TypeAdapter[RunEvent]] = TypeAdapter(Annotated[_UNION, Field(discriminator="type")])
"""Every event we emit."""
