"""Generate JSON Schema and TypeScript from the models. `python -m projector.generate` writes the files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from projector.contracts import parts, public_sse_v1
from projector.contracts.kinds import SCHEMA
from projector.contracts.parts import Model

Schema: TypeAlias = Mapping[str, Any]

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_LINE_CHARS: Final = 120  # a longer union is written over several lines


def json_schema(dialect: str, events: TypeAdapter[Any]) -> bytes:
    """Return the JSON Schema of one event of a dialect, as a file."""
    return schema_file({"title": dialect, "description": f"One event of the dialect `{dialect}`."}, events)


def schema_file(head: Schema, models: TypeAdapter[Any]) -> bytes:
    """Return the JSON Schema of models with its first members, as a file."""
    schema = {"$schema": _DIALECT, **head, **models.json_schema(schema_generator=PlainSchema)}
    return (json.dumps(schema, indent=2, ensure_ascii=False) + "\n").encode()


def typescript() -> bytes:
    """Return the TypeScript types of the public events, as a file."""
    return "\n".join(_typescript()).encode()


class PlainSchema(GenerateJsonSchema):
    """Schema generator without titles that repeat names and without defaults, which concern Python only.

    `discriminator` is OpenAPI's keyword, which strict validators reject; the constant `kind` of a branch replaces it.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - no field has a title
        """Return False: a field has no title."""
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Omit defaults."""
        return self.generate_inner(schema["schema"])

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Omit the title of a model: it is its name."""
        model = super().model_schema(schema)
        model.pop("title", None)
        return model

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """Omit the discriminator."""
        union = super().tagged_union_schema(schema)
        union.pop("discriminator", None)
        return union


def _typescript() -> Iterator[str]:
    models = [*_models(parts), *_models(public_sse_v1)]
    _, schema = models_json_schema([(model, "validation") for model in models], schema_generator=PlainSchema)
    yield f"// Generated from the models of `{SCHEMA}`; do not edit."
    for model in models:
        yield from _interface(model, schema["$defs"])
    for members, name in _UNIONS.items():
        yield from ("", *_alias(name, members))
    yield from ("", "/** One event of the public stream. The discriminator is `kind`. */")
    yield from (*_alias("PublicSseEvent", _members(public_sse_v1.PublicEvent)), "")


def _models(module: ModuleType) -> list[type[Model]]:
    """Return the models that a module defines, in source order: parts before wholes."""
    found = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Model)]
    return [each for each in found if each is not Model and each.__module__ == module.__name__]


def _interface(model: type[Model], schemas: Mapping[str, Schema]) -> Iterator[str]:
    """Write one interface, without the members of its parent."""
    schema, parent = schemas[model.__name__], model.__mro__[1]
    inherited: Mapping[str, Schema] = {} if parent is Model else schemas[parent.__name__]["properties"]
    extends = "" if parent is Model else f" extends {parent.__name__}"
    yield from ("", f"/** {schema['description']} */", f"export interface {model.__name__}{extends} {{")
    for name, member in schema["properties"].items():
        if name not in inherited:
            if "description" in member:
                yield f"  /** {member['description']} */"
            mark = "" if name in schema.get("required", ()) else "?"
            yield f"  {name}{mark}: {_type(member)};"
    yield "}"


def _type(schema: Schema) -> str:
    """Write a type by the first keyword that decides it; without one it is `unknown`."""
    return next((write(schema[word]) for word, write in _WRITERS.items() if word in schema), "unknown")


def _union(members: list[Schema]) -> str:
    types = tuple(map(_type, members))
    return "unknown" if "unknown" in types else _UNIONS.get(types) or " | ".join(types)


def _array(item: Schema) -> str:
    written = _type(item)
    return f"({written})[]" if " " in written else f"{written}[]"


def _members(union: Any) -> tuple[str, ...]:
    """Return the names of the models of `Annotated[A | B, ...]`."""
    return tuple(model.__name__ for model in union.__origin__.__args__)


def _alias(name: str, members: tuple[str, ...]) -> list[str]:
    line = f"export type {name} = {' | '.join(members)};"
    if len(line) <= _LINE_CHARS:
        return [line]
    return [f"export type {name} =", *(f"  | {member}" for member in members[:-1]), f"  | {members[-1]};"]


_UNIONS: Final[Mapping[tuple[str, ...], str]] = {
    _members(parts.Citation): "Citation",
    _members(parts.AnyTool): "AnyTool",
}
"""Unions with a name of their own."""

_WORDS: Final[Mapping[str, str]] = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "Record<string, unknown>",
}

_WRITERS: Final[Mapping[str, Callable[[Any], str]]] = {
    "$ref": lambda ref: str(ref).rpartition("/")[2],
    "const": json.dumps,
    "enum": lambda values: " | ".join(map(json.dumps, values)),
    "oneOf": _union,
    "anyOf": _union,
    "items": _array,
    "type": _WORDS.__getitem__,
}
"""Writers by JSON Schema keyword; the order matters, because most schemas have a `type` too."""
