"""Tables of the members of events: name (`?` if optional), type, limit and meaning, from models and stream rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from projector.contracts import limits, parts, public_sse_v1
from projector.contracts.parts import Model
from projector.contracts.schema_export import PlainSchema
from projector.contracts.stream_rules.values import NULLABLE, PAYLOADS, TEXTS, URLS

ENVELOPE_MEMBERS: Final = frozenset(field.alias or name for name, field in public_sse_v1.Envelope.model_fields.items())
HEAD: Final = ("| member | type | meaning |", "|---|---|---|")
_MORE_CHARS: Final = {
    **dict.fromkeys(("tool.query", "tool.queries.*", "tool.revised_prompt"), limits.QUERY_MAX_CHARS),
    "data": limits.IMAGE_CHUNK_MAX_CHARS,
}
"""Limits in characters that no rule of values has."""
_ENTRIES: Final = {
    "notices": limits.NOTICES_MAX_ITEMS + 1,
    "tool.results": limits.FILE_SEARCH_RESULTS_MAX_ITEMS,
}
"""Maximum numbers of entries."""
_SECTIONS: Final = {
    "WorkflowContext": "#workflow-context",
    "Notice": "#notices",
    "ChunkTarget": "#target-of-chunks",
    "ErrorDetail": "#members-of-error",
    "FinalDetail": "#members-of-final",
    "FileSearchResult": "#results-of-a-file-search",
    "Attachment": "#attachments",
    "Usage": "#usage",
}
"""Model -> the section of the page that has its members."""
_UNIONS: Final = {"citation": "[citation](#citations)", "tool": "[tool](#types-of-tools)"}


def members_table(model: str, prefix: str = "") -> list[str]:
    """Return the table of a model, without the members of every event, item or call.

    Args:
        model: name of a model of `parts` or `public_sse_v1`.
        prefix: path from an event to the model, such as `tool.`.
    """
    schema = _schemas()[model]
    shared = next((name for name in _SHARED if name in _parents(model)), None)
    left_out = {"kind"} if shared is None else {"kind", *_schemas()[shared]["properties"]}
    required = set(schema.get("required", ()))
    rows = [
        _row(name, each, prefix, is_required=name in required)
        for name, each in schema["properties"].items()
        if name not in left_out
    ]
    return [*HEAD, *rows]


_SHARED: Final = ("CallEvent", "ItemEvent", "Envelope", "Tool")
"""Models whose members other tables do not repeat; the longest one first."""


def _parents(model: str) -> set[str]:
    found = getattr(public_sse_v1, model, None) or getattr(parts, model)
    return {parent.__name__ for parent in found.__mro__[1:]}


@cache
def _schemas() -> Mapping[str, Any]:
    models = [each for module in (parts, public_sse_v1) for each in vars(module).values() if _is_model(each)]
    _, schema = models_json_schema([(model, "validation") for model in models], schema_generator=PlainSchema)
    return MappingProxyType(schema["$defs"])


def _is_model(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Model) and value is not Model


def _row(name: str, schema: dict[str, Any], prefix: str, *, is_required: bool) -> str:
    path = prefix + name
    is_nullable = path in NULLABLE or (bool(prefix) and f"{prefix}*" in NULLABLE)
    schema = schema | next((each for each in schema.get("anyOf", ()) if each.get("type") != "null"), {})
    kind = ", ".join([_type(name, schema), *_limits(path, schema), *(["null"] if is_nullable else [])])
    return f"| `{name}{'' if is_required else '?'}` | {kind} | {schema.get('description', '')} |"


def _type(name: str, schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        model = schema["$ref"].rpartition("/")[2]
        return f"[object]({_SECTIONS[model]})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "oneOf" in schema:
        return _UNIONS[name]
    if schema.get("type") == "array":
        return f"array of {_type(name, schema['items'])}s".replace(")s", ")")
    return str(schema.get("type", "any JSON"))


def _limits(path: str, schema: dict[str, Any]) -> Iterator[str]:
    """Yield what limits the value at a path, except the limit of IDs and names, which the page states once."""
    if "enum" in schema or "const" in schema:
        return
    if path in _ENTRIES:
        yield f"{_ENTRIES[path]:,} entries"
    texts = (text for rule, text in TEXTS.items() if rule != "id_chars")
    chars = {pattern: max_chars for max_chars, patterns in texts for pattern in patterns} | _MORE_CHARS
    if path in chars:
        yield f"{chars[path]:,} characters"
    if f"{path}.*" in chars:
        yield f"each {chars[f'{path}.*']:,} characters"
    if path in PAYLOADS:
        strings = PAYLOADS[path]
        yield "[tree](#limits)" if strings is None else f"[tree](#limits); strings {strings[1]:,} characters"
    if path in URLS or f"{path}.*" in URLS:
        yield "`http` or `https`"
