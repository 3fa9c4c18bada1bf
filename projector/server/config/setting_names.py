"""Names of settings: the path of each, its type, its variable, and what an unknown name was meant to be."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Final, NamedTuple

from projector._validation import FieldPath, InvalidField, nearest, path_name
from projector.redaction.policy import Policy
from projector.server.config.config_base import EXTENSIONS, SHORTHAND, Table
from projector.server.config.settings import Settings

PREFIX: Final = "PROJECTOR_"
SEPARATOR: Final = "__"
NAME: Final = "<name>"
"""In a path: any name of an upstream, agent, model, caller or workflow."""


class _Extension(NamedTuple):
    """Type of the table of an extension, which is imported when its members are needed."""

    name: str


def variable(path: FieldPath) -> str:
    """Return the variable of a setting; `<NAME>` in it stands for the name of an upstream or agent."""
    return PREFIX + SEPARATOR.join(map(str, path)).upper()


def fields(kind: Any = Settings, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], type[Table]]]:
    """Yield the path of every setting, and the table that has it; extensions are imported."""
    for name, inner in members(kind).items():
        if members(inner):
            yield from fields(inner, (*path, name))
        else:
            yield (*path, name), _table(kind)


def members(kind: Any) -> dict[str, Any]:
    """Return the types of the members of a table by name; `<name>` where names are free, empty for other types."""
    if typing.get_origin(kind) is dict and members(inner := typing.get_args(kind)[1]):
        return {NAME: inner}
    table = _table(kind)
    if not (isinstance(table, type) and issubclass(table, Table)):
        return {}
    named: dict[str, Any] = {name: field.annotation for name, field in table.model_fields.items()}
    return named | ({name: _Extension(name) for name in EXTENSIONS} if table is Settings else {})


def _table(kind: Any) -> Any:
    """Return the model of a table that is optional or an extension; any other type unchanged."""
    if isinstance(kind, _Extension):
        return EXTENSIONS[kind.name]
    return typing.get_args(kind)[0] if typing.get_origin(kind) is UnionType else kind


def kind_of(path: FieldPath) -> Any:
    """Return the type of the setting or table at a path, None if there is none."""
    kind: Any = Settings
    for name in path:
        inner = members(kind)
        kind = inner.get(str(name), inner.get(NAME))
    return kind


def is_json(kind: Any) -> bool:
    """Return whether a variable of this type may have JSON: a list, an open table, or a policy."""
    origin = typing.get_origin(kind)
    if origin is typing.Annotated or origin in {typing.Union, UnionType}:
        return any(map(is_json, typing.get_args(kind)))
    return origin in {tuple, dict, frozenset} or kind is Policy


def is_setting(path: FieldPath) -> bool:
    """Return whether a path is that of a setting, not of a table."""
    return bool(path) and (kind := kind_of(path)) is not None and not members(kind)


def is_unknown(path: FieldPath) -> bool:
    """Return whether the last table on the way has no such member; what is in an open setting is not unknown."""
    inner = members(kind_of(path[:-1]))
    return bool(inner) and not inner.keys() & {str(path[-1]), NAME}


def nearest_path(path: FieldPath) -> tuple[str, ...]:
    """Return the most similar path that exists, empty without one."""
    found: tuple[str, ...] = ()
    for name in map(str, path):
        inner = members(kind_of(found))
        close = name if NAME in inner else nearest(name, inner)
        if close is None:
            return ()
        found = (*found, close)
    return found


# hints

_UNKNOWN: Final = "extra_forbidden"
_REQUEST_FIELDS: Final = frozenset(
    {
        "frequency_penalty", "include", "logit_bias", "logprobs", "max_completion_tokens", "max_output_tokens",
        "max_tokens", "parallel_tool_calls", "presence_penalty", "reasoning", "reasoning_effort", "response_format",
        "seed", "service_tier", "stop", "temperature", "text", "tool_choice", "top_k", "top_p", "user", "verbosity",
    }
)  # fmt: skip
"""Fields of a provider request that `parameters` of an agent may set."""
MEANT: Final[Mapping[str, str]] = {
    "agents.<name>.prompt": "agents.<name>.instructions",
    "agents.<name>.provider": "agents.<name>.upstream",
    "agents.<name>.system": "agents.<name>.instructions",
    "agents.<name>.system_prompt": "agents.<name>.instructions",
    "cors": "cors_origins",
    "logging": "log_level",
    "passthrough.chat": "passthrough.chat_completions",
    "policy": "agents.<name>.policy",
    "provider": "upstreams",
    "providers": "upstreams",
    "upstreams.<name>.model": "agents.<name>.model",
    "upstreams.<name>.provider": "upstreams.<name>.api",
    "upstreams.<name>.type": "upstreams.<name>.api",
    "upstreams.<name>.url": "upstreams.<name>.base_url",
}
"""Path that people write -> path of the setting that is meant, where no similar name leads to it."""
_PLACES_MAX: Final = 3
"""With more tables that have a setting of the same name, the hint would be a list to search."""


def hinted(field: InvalidField, values: Mapping[str, Any]) -> InvalidField:
    """Return an invalid field with a hint at what was meant, if its name or that of a table around it is unknown."""
    path = tuple(map(str, field.path))
    for length in range(1, len(path) + 1):
        if hint := _misplaced(path[:length], values):
            return InvalidField(path[:length], _UNKNOWN, f"is unknown; {hint}")
    is_above = path[-1:] and typing.get_origin(kind_of(path[:-1])) is dict and is_setting(path[-1:])
    if field.text.endswith("?") or not (is_above or field.type == _UNKNOWN):
        return field
    similar = _similar(path, values)
    return field._replace(text=f"{field.text}; {similar}") if similar else field


def _misplaced(path: tuple[str, ...], values: Mapping[str, Any]) -> str:
    """Return a hint at a frequent mistake, empty for any other path."""
    *table, name = path
    pattern = ".".join(NAME if NAME in members(kind_of(path[:at])) else one for at, one in enumerate(path))
    if pattern in MEANT:
        meant = _named(MEANT[pattern], path)
        is_same = meant[-1] == name
        return f"`{name}` belongs in `[{path_name(meant[:-1])}]`" if is_same else f"did you mean `{path_name(meant)}`?"
    if len(path) == 1 and name in {"projector", "server"}:
        return "its settings belong above the first table"
    if pattern == f"agents.{NAME}.{name}" and name in _REQUEST_FIELDS:
        return f"`{name}` belongs in `[{path_name(table)}.parameters]`"
    is_table = isinstance(_value(values, path), Mapping) and table != ["callers"]
    if not is_table and name in members(members(kind_of((*table,))).get(NAME)):  # of an entry, in the table around it
        return f"`{name}` belongs in `[{path_name(table)}.{'default' if table == ['callers'] else 'NAME'}]`"
    return ""


def _similar(path: tuple[str, ...], values: Mapping[str, Any]) -> str:
    """Return a hint at the most similar name of a table, or at the tables that have this name; empty without one."""
    *table, name = path
    if kind_of(path) is None and (similar := nearest_path(path)):
        return f"did you mean `{path_name(similar)}`?"
    places = [place for place in _tables_with(name) if place or name not in SHORTHAND]
    if () in places:
        is_plain = is_setting((name,))
        above = f"`{name}` is a setting without a table, and belongs above the first table"
        return above if is_plain else f"did you mean the table `[{name}]`?"
    if 0 < len(places) <= _PLACES_MAX:
        tables = " or ".join(f"`[{path_name(_named('.'.join(place), path))}]`" for place in places)
        return f"`{name}` belongs in {tables}"
    if isinstance(_value(values, path), Mapping) and NAME in members(kind_of((*table[:-1],))):
        return "a dot divides names: put a name with a dot in quotes"
    return ""


def _tables_with(name: str, kind: Any = Settings, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each table that has a member of a name; extensions are imported."""
    for member, inner in members(kind).items():
        if member == name:
            yield path
        yield from _tables_with(name, inner, (*path, member))


def _named(pattern: str, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return a path with the name that another one in the same table has, or `NAME`."""
    steps = pattern.split(".")
    own = next(iter(path[1:-1]), "NAME") if path[0] == steps[0] else "NAME"
    return tuple(own if step == NAME else step for step in steps)


def _value(values: object, path: FieldPath) -> object:
    """Return the value at a path, None if there is none."""
    for step in path:
        values = values.get(step) if isinstance(values, Mapping) else None
    return values
