"""Hints at what an unknown setting was meant to be: its name here, or the table that it belongs in."""

from __future__ import annotations

import re
import typing
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from projector._validation import FieldPath, InvalidField, path_name
from projector.server.config.caller_settings import EVERY_CALLER
from projector.server.config.config_base import SHORTHAND
from projector.server.config.setting_names import (
    NAME,
    accepts,
    is_setting,
    kind_of,
    members,
    nearest_path,
    tables_with,
)

_REQUEST_FIELDS: Final = (
    "frequency_penalty", "include", "logit_bias", "logprobs", "max_completion_tokens", "max_output_tokens",
    "max_tokens", "max_tool_calls", "parallel_tool_calls", "presence_penalty", "prompt_cache_key",
    "prompt_cache_retention", "reasoning", "reasoning_effort", "response_format", "safety_identifier", "seed",
    "service_tier", "stop", "temperature", "text", "tool_choice", "top_k", "top_logprobs", "top_p", "truncation",
    "user", "verbosity",
)  # fmt: skip
"""Fields of a provider request that `parameters` of an agent may set."""

MEANT: Final[Mapping[tuple[str, ...], tuple[str, ...]]] = {
    **{("agents", NAME, field): ("agents", NAME, "parameters", field) for field in _REQUEST_FIELDS},
    ("agents", NAME, "prompt"): ("agents", NAME, "instructions"),
    ("agents", NAME, "provider"): ("agents", NAME, "upstream"),
    ("agents", NAME, "system"): ("agents", NAME, "instructions"),
    ("agents", NAME, "system_prompt"): ("agents", NAME, "instructions"),
    ("callers", "agents"): ("callers", EVERY_CALLER, "agents"),
    ("callers", "models"): ("callers", EVERY_CALLER, "models"),
    ("callers", "rate_limits"): ("callers", EVERY_CALLER, "rate_limits"),
    ("callers", "routes"): ("callers", EVERY_CALLER, "routes"),
    ("callers", "workflows"): ("callers", EVERY_CALLER, "workflows"),
    ("cors",): ("cors_origins",),
    ("logging",): ("log_level",),
    ("passthrough", "chat"): ("passthrough", "chat_completions"),
    ("policy",): ("agents", NAME, "policy"),
    ("projector",): (),
    ("provider",): ("upstreams",),
    ("providers",): ("upstreams",),
    ("server",): (),
    ("upstreams", NAME, "model"): ("agents", NAME, "model"),
    ("upstreams", NAME, "provider"): ("upstreams", NAME, "api"),
    ("upstreams", NAME, "type"): ("upstreams", NAME, "api"),
    ("upstreams", NAME, "url"): ("upstreams", NAME, "base_url"),
}
"""Path that people write -> path of the setting that is meant; () for settings without a table."""

_PLACES_MAX: Final = 3
"""With more tables that have a setting of the same name, the hint would be a list to search."""
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_UNKNOWN: Final = "extra_forbidden"
_DOTTED: Final = "dotted_name"
"""Type of the field of a table that a dot in a name began."""


def with_hints(found: Iterable[InvalidField], values: Mapping[str, Any]) -> Iterator[InvalidField]:
    """Yield invalid fields with hints at what was meant; those that a hint explains are left out."""
    explained: set[FieldPath] = set()
    incomplete: set[FieldPath] = set()
    for field in found:
        is_explained = any(field.path[: len(path)] == path for path in explained)
        if is_explained or (field.type == "missing" and field.path[:-1] in incomplete):
            continue
        hinted = _hinted(field, values)
        if hinted is not field:
            explained.add(hinted.path)
        if hinted.type == _DOTTED:
            incomplete.add(hinted.path[:-1])
        yield hinted


def _hinted(field: InvalidField, values: Mapping[str, Any]) -> InvalidField:
    """Return an invalid field with the first hint that there is, or the same one without any."""
    hinted = (hint(field, values) for hint in _HINTS)
    return next((one for one in hinted if one is not None), field)


def _of_row(field: InvalidField, values: Mapping[str, Any]) -> InvalidField | None:
    """Replace what the table of meant settings has, or what is within it."""
    for path in (field.path[:length] for length in range(1, len(field.path) + 1)):
        if (row := _row(path)) is not None:
            return InvalidField(path, _UNKNOWN, f"is unknown; {_meant(row, path, values)}")
    return None


def _of_entry(field: InvalidField, values: Mapping[str, Any]) -> InvalidField | None:
    """Move a setting of an upstream, agent, or another entry with a name, from the table around it into the entry."""
    *table, name = map(str, field.path) if field.path else ("",)
    entry = members(kind_of(tuple(table))).get(NAME)
    if name not in members(entry) or isinstance(_value(values, field.path), Mapping):
        return None
    return InvalidField(field.path, _UNKNOWN, f"is unknown; {_meant((*table, NAME, name), field.path, values)}")


def _of_dots(field: InvalidField, values: Mapping[str, Any]) -> InvalidField | None:
    """Explain a table that a dot in the name of an entry began."""
    *tables, _, inner = map(str, field.path if field.type == _UNKNOWN and len(field.path) > 1 else ("", ""))
    kind, value = kind_of(tuple(tables)), _value(values, field.path)
    if NAME not in members(kind) or not isinstance(value, Mapping) or [*tables_with(inner)]:
        return None
    similar = nearest_path(tuple(map(str, field.path)))
    if similar and (members(kind_of(similar)) or accepts(kind_of(similar), {dict})):
        return None
    steps = [*map(str, field.path[len(tables) :]), *_names_of_tables(value, members(members(kind)[NAME]))]
    return InvalidField(field.path, _DOTTED, f"is unknown; a dot divides names: {_undivided(tables, steps, kind)}")


def _undivided(tables: list[str], steps: list[str], kind: Any) -> str:
    """Return how to write a name with a dot in a table with free names."""
    name = ".".join(steps)
    try:
        TypeAdapter(typing.get_args(kind)[0]).validate_python(name)
    except ValidationError:
        return f"a name in {_header(tables)} cannot have one; use another, such as `{name.replace('.', '-')}`"
    return f"put the name in quotes, as in {_header((*tables, name))}"


def _names_of_tables(value: Mapping[str, Any], known: Container[str]) -> Iterator[str]:
    """Yield the names of tables within tables that have nothing else, until a known one."""
    while len(value) == 1 and (step := next(iter(value))) not in known and isinstance(value[step], Mapping):
        yield step
        value = value[step]


def _of_similar(field: InvalidField, _values: Mapping[str, Any]) -> InvalidField | None:
    """Name the most similar setting that this table has."""
    if field.type != _UNKNOWN or field.text.endswith("?"):
        return field if field.type == _UNKNOWN else None
    similar = nearest_path(tuple(map(str, field.path)))
    return field._replace(text=f"{field.text}; did you mean `{path_name(similar)}`?") if similar else None


def _of_tables(field: InvalidField, values: Mapping[str, Any]) -> InvalidField | None:
    """Name the tables that have a setting of this name; from those of free names only settings without a table."""
    path = field.path
    is_foreign = typing.get_origin(kind_of(path[:-1])) is dict
    if not path or not (is_foreign or field.type == _UNKNOWN):
        return None
    name = str(path[-1])
    places = [place for place in tables_with(name) if (not is_foreign if place else name not in SHORTHAND)]
    if () in places:
        hint = _meant((name,), path, values)
    elif 0 < len(places) <= _PLACES_MAX:
        hint = f"`{name}` belongs in {' or '.join(_header(_filled(place, path, values)) for place in places)}"
    else:
        return None
    return field._replace(text=f"{field.text}; {hint}")


_HINTS: Final = (_of_row, _of_entry, _of_dots, _of_similar, _of_tables)
"""Each returns the field with a hint, or None; the first hint is used."""


def _row(path: FieldPath) -> tuple[str, ...] | None:
    """Return the row of `MEANT` for a path."""
    for written, meant in MEANT.items():
        if len(written) == len(path) and all(one in {NAME, step} for one, step in zip(written, path, strict=True)):
            return meant
    return None


def _meant(meant: tuple[str, ...], path: FieldPath, values: Mapping[str, Any]) -> str:
    """Return what to write for a path."""
    filled = _filled(meant, path, values)
    if not meant:
        return "its settings belong above the first table"
    if filled[-1] != path[-1]:
        above = ", above the first table" if is_setting(filled) and len(filled) == 1 else ""
        return f"did you mean `{path_name(filled, is_masked=False)}`{above}?"
    if len(filled) > 1:
        return f"`{path[-1]}` belongs in {_header(filled[:-1])}"
    if is_setting(filled):
        return f"`{path[-1]}` is a setting without a table, and belongs above the first table"
    return f"did you mean the table {_header(filled)}?"


def _filled(meant: tuple[str, ...], path: FieldPath, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a path with the names of the file: those of `path`, of the agent's upstream, or the only ones."""
    filled: list[str] = []
    for position, step in enumerate(meant):
        if step != NAME:
            filled.append(step)
        elif position < len(path) - 1 and path[:position] == tuple(filled):
            filled.append(str(path[position]))
        else:
            filled.append(_only_name(filled[-1], path, values))
    return tuple(filled)


def _only_name(table: str, path: FieldPath, values: Mapping[str, Any]) -> str:
    """Return the only name that a table has, or the upstream of the agent at a path; `NAME` if it may be any."""
    chosen = _value(values, (*path[:-1], "upstream")) if table == "upstreams" else None
    names = (
        [chosen]
        if isinstance(chosen, str)
        else [name for name, entry in _as_table(values.get(table)).items() if isinstance(entry, Mapping)]
    )
    return names[0] if len(names) == 1 else "NAME"


def _header(path: Iterable[str]) -> str:
    """Return the line of a TOML file that begins a table: names that have other characters are in quotes."""
    name = ".".join(step if _BARE_KEY.fullmatch(step) else f'"{step}"' for step in path)
    return f"`[{name}]`"


def _value(values: object, path: FieldPath) -> object:
    """Return the value at a path, None if there is none."""
    for step in path:
        values = _as_table(values).get(str(step))
    return values


def _as_table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
