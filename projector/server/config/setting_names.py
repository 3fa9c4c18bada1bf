"""Names of settings: the path of each, its type, its variable, and the most similar one of an unknown name."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Collection, Iterator
from types import UnionType
from typing import Any, Final, NamedTuple

from pydantic.fields import FieldInfo

from projector._validation import FieldPath
from projector.redaction.policy import Policy
from projector.server.config.config_base import Table
from projector.server.config.extensions import EXTENSIONS
from projector.server.config.settings import Settings

PREFIX: Final = "PROJECTOR_"
SEPARATOR: Final = "__"
NAME: Final = "<name>"
"""In a path: any name of an upstream, agent, model, caller or workflow."""


class _Extension(NamedTuple):
    """Type of the table of an extension, which is imported when its members are needed."""

    name: str


def variables() -> list[str]:
    """Return the names of all variables; `<NAME>` is a placeholder for the name of an upstream or agent."""
    return [variable(path) for path, _ in fields()]


def variable(path: FieldPath) -> str:
    """Return the variable of a setting."""
    return PREFIX + SEPARATOR.join(map(str, path)).upper()


def fields(kind: Any = Settings, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Yield every setting with its path; extensions are imported."""
    for name, inner in members(kind).items():
        if members(inner):
            yield from fields(inner, (*path, name))
        else:
            yield (*path, name), _table(kind).model_fields[name]


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


def accepts(kind: Any, types: Collection[type]) -> bool:
    """Return whether a type is one of some containers, or has one as an alternative; a policy is a table."""
    origin = typing.get_origin(kind)
    if origin is typing.Annotated or origin in {typing.Union, UnionType}:
        return any(accepts(one, types) for one in typing.get_args(kind))
    return origin in types or kind is Policy


def is_setting(path: FieldPath) -> bool:
    """Return whether a path is that of a setting, not of a table."""
    return bool(path) and (kind := kind_of(path)) is not None and not members(kind)


def is_unknown(path: FieldPath) -> bool:
    """Return whether a table on the way has no such member; what is within an open setting is not unknown."""
    kind: Any = Settings
    for name in path:
        inner = members(kind)
        if inner and not inner.keys() & {str(name), NAME}:
            return True
        kind = inner.get(str(name), inner.get(NAME))
    return False


def tables_with(name: str, kind: Any = Settings, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each table that has a member of a name; extensions are imported."""
    for member, inner in members(kind).items():
        if member == name:
            yield path
        yield from tables_with(name, inner, (*path, member))


def nearest_path(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the most similar path that exists, empty without one."""
    found: tuple[str, ...] = ()
    for name in path:
        inner = members(kind_of(found))
        close = [name] if NAME in inner else difflib.get_close_matches(name, inner, n=1)
        if not close:
            return ()
        found = (*found, close[0])
    return found
