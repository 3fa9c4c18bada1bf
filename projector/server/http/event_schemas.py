"""The events of each dialect as components of an OpenAPI document, printed from the models of `contracts`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from pydantic import TypeAdapter

from projector.contracts import codec, public_sse_v1
from projector.contracts.schema_export import PlainSchema
from projector.dialects.ag_ui import events as ag_ui
from projector.dialects.openresponses import models as openresponses
from projector.openwop import contract as openwop

SCHEMAS: Final = "#/components/schemas/"

EVENTS: Final[Mapping[str, TypeAdapter[Any]]] = {
    "public_sse_v1": public_sse_v1.EVENT_ADAPTER,
    "ag_ui": ag_ui.EVENT_ADAPTER,
    "openresponses": openresponses.EVENT_ADAPTER,
    "openwop": openwop.EVENT_ADAPTER,
}
"""Dialect -> its events; every row of `projector.dialects.DIALECTS` has one here."""

END_MARKS: Final = (("openresponses", "[DONE]"),)
"""What a dialect says last that is no event."""


def components(dialects: Collection[str]) -> dict[str, Any]:
    """Give the schemas of dialects: `DIALECT` is any of its events, `DIALECT.Name` a model of it."""
    schemas: dict[str, Any] = {}
    for dialect in sorted(dialects):
        template = f"{SCHEMAS}{dialect}.{{model}}"
        written = codec.dumps(EVENTS[dialect].json_schema(schema_generator=PlainSchema, ref_template=template))
        union = codec.loads(written.replace(f"contracts__{dialect}__".encode(), b""))  # where two modules share a name
        schemas |= {f"{dialect}.{name}": schema for name, schema in union.pop("$defs").items()}
        schemas[dialect] = {"description": f"One event of the dialect `{dialect}`.", **union}
    return schemas


def message(dialects: Collection[str]) -> dict[str, Any]:
    """Give the schema of one SSE message of a stream that is in one of these dialects."""
    refs = [{"$ref": SCHEMAS + dialect} for dialect in sorted(dialects)]
    event = {"type": "string", "contentMediaType": "application/json", "contentSchema": {"oneOf": refs}}
    marks = [
        {"const": mark, "description": f"Last in `{dialect}`."} for dialect, mark in END_MARKS if dialect in dialects
    ]
    return {
        "type": "object",
        "required": ["data"],
        "properties": {
            "event": {"type": "string", "description": "The type of the event, in `openresponses`."},
            "data": {"anyOf": [event, *marks]},
        },
    }
