"""How settings are read: defaults < one TOML file < environment < flags, and how they are printed.

A variable is `PROJECTOR_` and the path of its setting in capitals, with `__` between tables
(`PROJECTOR_TIMEOUTS__IDLE_S`, `PROJECTOR_AGENTS__<NAME>__MODEL`); lists and open tables are written as JSON.
`OPENAI_API_KEY` and `OPENAI_BASE_URL` are read as well. In the file, a text that is `${NAME}` is the variable NAME,
and `X_file` names a file that holds `X`, seen from the folder of the configuration.
"""

from __future__ import annotations

import difflib
import re
import tomllib
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from projector._errors import UsageError
from projector._validation import FieldPath, invalid_fields, path_name
from projector.contracts import codec
from projector.redaction.policy import Policy
from projector.server.config.config_base import Table
from projector.server.config.settings import Settings
from projector.server.extensions import EXTENSIONS

PREFIX: Final = "PROJECTOR_"
_NESTED: Final = "__"
_OF_OUR_TESTS: Final = "PROJECTOR_TESTS_"
_FILE: Final = "_file"
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_CONTAINERS: Final = frozenset({tuple, dict, frozenset})
_SECRETS: Final = frozenset({"api_key"})
"""What a configuration file must not hold itself: files are committed."""

_OPENAI: Final[Mapping[str, str]] = {"OPENAI_API_KEY": "api_key", "OPENAI_BASE_URL": "base_url"}
"""The variables that every OpenAI client honours, and the settings of the shorthand that they set."""


class SettingsError(UsageError):
    """A setting is unknown or has a value that cannot be; the message names it and never its value."""


class Loaded(NamedTuple):
    """Settings, and the references in the file that some of them came from, by path."""

    settings: Settings
    references: Mapping[FieldPath, str]


def load(environ: Mapping[str, str], flags: Mapping[str, object] | None = None, config: Path | None = None) -> Settings:
    """Give the settings: what the flags say, else the variables, else the file, else the defaults; see `read`."""
    return read(environ, flags, config).settings


def read(environ: Mapping[str, str], flags: Mapping[str, object] | None = None, config: Path | None = None) -> Loaded:
    """Give the settings, and where they are references.

    A flag that is None says nothing, and so does an empty variable. `PROJECTOR_TESTS_...` belongs to this project's own
    tests and is passed over.

    Raises:
        SettingsError: a name that sets nothing (the nearest known one is in the message), a value that its setting
            does not allow, a file or variable that is referred to and not there.
    """
    references: dict[FieldPath, str] = {}
    values = _parse(config) if config is not None else {}
    if config is not None:
        values.setdefault("passthrough", {})  # a file says which of these routes are on
        _resolve(values, environ, references)
    said_by = {path: name for name, path in _said_in(environ)}
    for path, name in said_by.items():
        _put(values, path, _value(name, path, environ[name]))
    if "upstreams" not in values:
        for name, field in _OPENAI.items():
            if environ.get(name):
                values.setdefault(field, environ[name])
    for name, value in (flags or {}).items():
        if value is not None:
            values[name] = value
            said_by[name,] = f"--{name}"
    _read_files(values, config.parent if config is not None else Path())
    kept = {place: said for place, said in references.items() if not any(place[: len(by)] == by for by in said_by)}
    try:
        return Loaded(Settings.model_validate(values), kept)
    except ValidationError as error:
        raise SettingsError(_first_error(error, values, said_by, config)) from None


def variables() -> list[str]:
    """Give the name of every variable that sets something; `<NAME>` stands for the name of an upstream or agent."""
    return [PREFIX + _NESTED.join(path).upper() for path in fields()]


def fields(kind: Any = Settings, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Give the path of every setting."""
    for name, inner in members(kind).items():
        if members(inner):
            yield from fields(inner, (*path, name))
        else:
            yield (*path, name)


class _Extension(NamedTuple):
    """The type of an extension's table, imported when its members are needed."""

    name: str


def members(kind: Any) -> dict[str, Any]:
    """Give what a table may hold; the members of a table with names of its own are under `<name>`."""
    if isinstance(kind, _Extension):
        return members(EXTENSIONS[kind.name])
    if isinstance(kind, type) and issubclass(kind, Table):
        named: dict[str, Any] = {name: field.annotation for name, field in kind.model_fields.items()}
        return named | ({name: _Extension(name) for name in EXTENSIONS} if kind is Settings else {})
    if typing.get_origin(kind) is dict and members(inner := typing.get_args(kind)[1]):
        return {"<name>": inner}
    if typing.get_origin(kind) is UnionType:  # a table, or None
        return members(typing.get_args(kind)[0])
    return {}


def _parse(config: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{config}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{config}: expected TOML in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{config}: not TOML: {_place_of(error)}") from None


def _place_of(error: tomllib.TOMLDecodeError) -> str:
    """Give where the error is; what it says may repeat a value."""
    match = re.search(r"\(at [^)]*\)$", str(error))
    return match[0].strip("()") if match else "at an unknown place"


def _resolve(node: Any, environ: Mapping[str, str], references: dict[FieldPath, str], path: FieldPath = ()) -> None:
    """Put the variables that are referred to in their places."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        place = (*path, key)
        match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
        if match:
            if not environ.get(match[1]):
                raise SettingsError(f"`{path_name(place)}`: the variable {match[1]} is not set")
            node[key] = environ[match[1]]
            references[place] = value
        elif key in _SECRETS:
            raise SettingsError(f"`{path_name(place)}`: expected `${{NAME}}` of a variable, or `{key}{_FILE}`")
        elif isinstance(value, dict | list):
            _resolve(value, environ, references, place)


def _said_in(environ: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Give each variable that says a setting, and the path of the setting."""
    for name, value in sorted(environ.items()):
        if not name.startswith(PREFIX) or name.startswith(_OF_OUR_TESTS):
            continue
        path = tuple(name.removeprefix(PREFIX).lower().split(_NESTED))
        if not _is_setting(path):
            meant = _nearest(path)
            hint = f"; did you mean `{PREFIX}{_NESTED.join(meant).upper()}`?" if _is_setting(meant) else ""
            raise SettingsError(f"`{name}` is not a setting{hint}")
        if value:
            yield name, path


def _kind(path: FieldPath) -> Any:
    """Give the type of the setting or table at a path, None where there is none."""
    kind: Any = Settings
    for name in path:
        inner = members(kind)
        kind = inner.get(str(name), inner.get("<name>"))
    return kind


def _is_setting(path: tuple[str, ...]) -> bool:
    return bool(path) and (kind := _kind(path)) is not None and not members(kind)


def _nearest(path: tuple[str, ...]) -> tuple[str, ...]:
    """Give the path that was probably meant; empty if nothing is near."""
    meant: tuple[str, ...] = ()
    for name in path:
        inner = members(_kind(meant))
        close = [name] if "<name>" in inner else difflib.get_close_matches(name, inner, n=1)
        if not close:
            return ()
        meant = (*meant, close[0])
    return meant


def _value(name: str, path: tuple[str, ...], text: str) -> object:
    if not (typing.get_origin(kind := _kind(path)) in _CONTAINERS or kind is Policy):
        return text
    try:
        return codec.loads(text.encode())
    except codec.CodecError:
        raise SettingsError(f"`{name}`: expected JSON") from None


def _put(values: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    """Set one value in nested tables."""
    *tables, field = path
    for table in tables:
        inner = values.setdefault(table, {})
        if not isinstance(inner, dict):
            raise SettingsError(f"`{table}`: expected a table")
        values = inner
    values[field] = value


def _read_files(node: Any, folder: Path, path: FieldPath = ()) -> None:
    """Put what files hold in the places of the settings that name them."""
    for key, value in list(node.items()):
        place = (*path, key)
        if isinstance(value, dict):
            _read_files(value, folder, place)
        elif key.endswith(_FILE) and _is_setting(place) and isinstance(value, str):
            field = key.removesuffix(_FILE)
            if field in node:
                raise SettingsError(f"`{path_name(place)}`: expected it or `{field}`, not both")
            try:
                node[field] = (folder / value).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise SettingsError(f"`{path_name(place)}`: cannot be read: {_reason(error)}") from None


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return str(error.strerror) if isinstance(error, OSError) else "expected UTF-8"


def _first_error(
    error: ValidationError, values: object, sources: Mapping[tuple[str, ...], str], config: Path | None
) -> str:
    """Describe the first invalid setting, by the name of the variable or flag that set it."""
    field = invalid_fields(error, values)[0]
    if field.type == "extra_forbidden" and (meant := _nearest(tuple(map(str, field.path)))):
        field = field._replace(text=f"{field.text}; did you mean `{path_name(meant)}`?")
    names = [name for path, name in sources.items() if path == field.path[: len(path)]]
    if names or config is None:
        variable = PREFIX + _NESTED.join(map(str, field.path)).upper() if field.path else ""
        return field.sentence(next(iter(names), variable))
    return f"{config}: {field.sentence(path_name(field.path, is_masked=False))}"
