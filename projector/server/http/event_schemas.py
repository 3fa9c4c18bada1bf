"""The events of each dialect as components of an OpenAPI document, printed from the models of `contracts`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from projector.contracts import codec
from projector.contracts.schema_export import PlainSchema
from projector.dialects import DIALECTS

SCHEMAS: Final = "#/components/schemas/"


def components(dialects: Collection[str]) -> dict[str, Any]:
    """Give the schemas of dialects: `DIALECT` is any of its events, `DIALECT.Name` a model of it."""
    schemas: dict[str, Any] = {}
    for dialect in sorted(dialects):
        template = f"{SCHEMAS}{dialect}.{{model}}"
        events = DIALECTS[dialect].events()
        written = codec.dumps(events.json_schema(schema_generator=PlainSchema, ref_template=template))
        union = codec.loads(written.replace(f"contracts__{dialect}__".encode(), b""))  # where two modules share a name
        schemas |= {f"{dialect}.{name}": schema for name, schema in union.pop("$defs").items()}
        schemas[dialect] = {"description": f"One event of the dialect `{dialect}`.", **union}
    return schemas


def message(dialects: Collection[str]) -> dict[str, Any]:
    """Give the schema of one SSE message of a stream that is in one of these dialects."""
    refs = [{"$ref": SCHEMAS + dialect} for dialect in sorted(dialects)]
    event = {"type": "string", "contentMediaType": "application/json", "contentSchema": {"oneOf": refs}}
    marks = [
        {"const": mark.decode(), "description": f"Last in `{dialect}`."}
        for dialect in sorted(dialects)
        if (mark := DIALECTS[dialect].end_mark) is not None
    ]
    named = ", ".join(f"`{dialect}`" for dialect in DIALECTS if DIALECTS[dialect].has_event_names)
    return {
        "type": "object",
        "required": ["data"],
        "properties": {
            "event": {"type": "string", "description": f"The type of the event, in {named}."},
            "data": {"anyOf": [event, *marks]},
        },
    }
