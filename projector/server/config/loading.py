"""Reading settings: defaults < one TOML file < environment variables < flags.

A variable is `PROJECTOR_` and the path of its setting in capitals, with `__` between tables
(`PROJECTOR_TIMEOUTS__IDLE_S`, `PROJECTOR_AGENTS__<NAME>__MODEL`); lists and open tables are JSON.
`OPENAI_API_KEY` and `OPENAI_BASE_URL` are read as well. In the file, the string `${NAME}` is replaced with the variable
NAME; as a part of a string it is replaced within `headers` and `query` of an upstream, and elsewhere an error, except
in texts for models. `X_file` names a file relative to the folder of the configuration. If there is a setting `X`, the
file contains it; of a list, a value in each line.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import SecretStr, ValidationError

from projector._errors import UsageError
from projector._file_problems import file_problem, parse_toml, toml_problem
from projector._validation import OURS, FieldPath, invalid_fields, path_name
from projector.contracts import codec
from projector.redaction.policy import REFERENCE, with_rules_in
from projector.server.config.setting_names import (
    PREFIX,
    SEPARATOR,
    hinted,
    is_json,
    is_setting,
    is_unknown,
    kind_of,
    members,
    nearest_path,
    variable,
)
from projector.server.config.settings import Settings
from projector.server.config.upstream_settings import is_credential

_TESTS_PREFIX: Final = "PROJECTOR_TESTS_"
FILE: Final = "_file"
"""End of the names of settings that name a file."""
_IN_VARIABLES: Final[Mapping[str, str]] = {
    "must be a list": 'must be a list in JSON, as `["a", "b"]`',
    "must be an object": 'must be an object in JSON, as `{"a": "b"}`',
}
_IN_FILES: Final[Mapping[str, str]] = {"must be an object": "must be a table"}
"""Messages about a value -> how it is written in this kind of source."""
HTTP_FIELDS: Final = frozenset({"headers", "query"})
"""Tables of an upstream with names and values that are sent to the provider."""
_FREE_TEXTS: Final = frozenset({"description", "format", "input", "instructions", "parameters", "server_description"})
"""Settings and members of tools with texts for models, which may have `${NAME}` literally."""
_WITH_DEFAULT: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*:?[-+=?][^{}]*\}")
"""What a shell would replace with a variable or a default."""
_SECRETS: Final = frozenset({"api_key", "key_password", "token_secret", "webhook_secret"})
"""Not allowed in a configuration file, because such files are committed."""
_OPENAI: Final[Mapping[str, str]] = {"OPENAI_API_KEY": "api_key", "OPENAI_BASE_URL": "base_url"}
"""Variables that every OpenAI client reads -> the shorthand settings that they set."""


class SettingsError(UsageError):
    """Settings are unknown or invalid; the message has a line for each, with its name, never its value."""


class Problems(list[str]):
    """What is wrong with a configuration, one line for each problem."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: set[FieldPath] = set()
        """Settings without a value that could be validated."""

    @contextmanager
    def collected(self, path: FieldPath | None = None, file: Path | None = None) -> Iterator[None]:
        """Collect a `SettingsError` about the setting at `path`; its lines begin with the name of the file, if any."""
        try:
            yield
        except SettingsError as error:
            lines = (line if file is None else f"{file}: {line}" for line in str(error).splitlines())
            self += (line for line in lines if line not in self)
            self.paths |= set() if path is None else {path}

    def error(self) -> SettingsError:
        """Return the problems as an error."""
        return SettingsError("\n".join(self))


class Loaded(NamedTuple):
    """Settings, and texts of the file by path: references, and those of `HTTP_FIELDS`, which may be printed as well."""

    settings: Settings
    references: Mapping[FieldPath, str]


def load(environ: Mapping[str, str], flags: Mapping[str, object] | None = None, config: Path | None = None) -> Settings:
    """Read the settings; see `read`."""
    return read(environ, flags, config).settings


def load_settings(config: Path | str | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of a configuration file and of the environment; see `read`."""
    return load(environ, config=None if config is None else Path(config))


def read(environ: Mapping[str, str], flags: Mapping[str, object] | None = None, config: Path | None = None) -> Loaded:
    """Read the settings, and remember which of them are references.

    A flag that is None and a variable that is empty count as absent. `PROJECTOR_TESTS_...` is for the tests of this
    project and is ignored.

    Raises:
        SettingsError: unknown names (with the nearest known ones), invalid values, and files or variables that are
            referred to and do not exist. Rules about several settings are checked when each of them is valid.
    """
    problems = Problems()
    references: dict[FieldPath, str] = {}
    values: dict[str, Any] = {}
    if config is not None:
        values = _parse(config)
        values.setdefault("passthrough", {})  # with a file, these routes are on only if it names them
        _resolve(values, environ, references, problems, config)
    sources = _add_variables(values, environ, problems)
    for name, value in (flags or {}).items():
        if value is not None:
            values[name], sources[name,] = value, f"--{name}"
    _read_files(values, config, sources, problems)
    kept = {path: text for path, text in references.items() if not _is_below(path, sources)}
    try:
        loaded = Loaded(Settings.model_validate(values), kept)
    except ValidationError as error:
        problems += _invalid_settings(error, values, sources, config, problems.paths)
        raise problems.error() from None
    if problems:
        raise problems.error()
    return loaded


def _is_below(path: FieldPath, others: Iterable[FieldPath]) -> bool:
    """Return whether a path is one of others, or in a table of theirs."""
    return any(path[: len(other)] == other for other in others)


# the file


def _parse(config: Path) -> dict[str, Any]:
    text = _read_text(config, str(config))
    try:
        return parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{config}: {toml_problem(error, text)}") from None


def _read_text(path: Path, name: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{name}: {file_problem(error)}") from None


def _resolve(
    node: Any,
    environ: Mapping[str, str],
    references: dict[FieldPath, str],
    problems: Problems,
    file: Path,
    path: FieldPath = (),
) -> None:
    """Replace references with the values of their variables, and record them by path."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        at = (*path, key)
        if is_unknown(at):  # it is reported as such, whatever its value
            continue
        with problems.collected(at, file):
            if isinstance(value, dict | list) and not (key in _SECRETS and is_setting(at)):
                _resolve(value, environ, references, problems, file, at)
            elif isinstance(value, str) and "\0" in value:
                raise SettingsError(f"`{path_name(at)}`: a text must not have a NUL character")
            elif isinstance(value, str) and (_is_http_field(at) or REFERENCE.fullmatch(value)):
                node[key], references[at] = _resolved(value, environ, at), value
            elif key in _SECRETS and not members(kind_of(at)):
                raise SettingsError(f"`{path_name(at)}`: expected a variable as `${{NAME}}`, or `{key}{FILE}`")
            elif isinstance(value, str) and "${" in value and _FREE_TEXTS.isdisjoint(map(str, at)):
                _check_references(value, at)
                hint = "put the rest of it in the variable"
                raise SettingsError(f"`{path_name(at)}`: a reference must be the whole value, as `${{NAME}}`: {hint}")
            elif isinstance(value, str) and _WITH_DEFAULT.fullmatch(value):  # a text for a model
                _check_references(value, at)


def _check_references(value: str, path: FieldPath) -> None:
    """Raise `SettingsError` if a value has a reference with more than a name, such as a default."""
    if "${" in REFERENCE.sub("", value):
        raise SettingsError(f"`{path_name(path)}`: expected a reference as `${{NAME}}`, without a default")


def _is_http_field(path: FieldPath) -> bool:
    match path:
        case ("upstreams", _, table, _):
            return table in HTTP_FIELDS
    return False


def _resolved(value: str, environ: Mapping[str, str], path: FieldPath) -> SecretStr | str:
    """Return a value with its references replaced; a credential among `HTTP_FIELDS` must contain one."""
    names = REFERENCE.findall(value)
    _check_references(value, path)
    if not names and is_credential(str(path[-1])):
        raise SettingsError(f"`{path_name(path)}`: expected a variable as `${{NAME}}`")
    for name in names:
        if not environ.get(name):
            raise SettingsError(f"`{path_name(path)}`: the variable {name} is not set")
    text = REFERENCE.sub(lambda match: environ[match[1]], value)
    return SecretStr(text) if names and _is_http_field(path) else text


# variables


def _add_variables(
    values: dict[str, Any], environ: Mapping[str, str], problems: Problems
) -> dict[tuple[str, ...], str]:
    """Put what variables set into the values, and return their names by path; unknown ones are problems."""
    sources: dict[tuple[str, ...], str] = {}
    for name, text in sorted(environ.items()):
        if not name.startswith(PREFIX) or name.startswith(_TESTS_PREFIX):
            continue
        path = tuple(name.removeprefix(PREFIX).lower().split(SEPARATOR))
        if not is_setting(path):
            nearest = nearest_path(path)
            hint = f"; did you mean `{variable(nearest)}`?" if is_setting(nearest) else ""
            problems.append(f"`{name}` is not a setting{hint}")
        elif text:
            sources[path] = name
            with problems.collected(path):
                _put(values, path, _parse_variable(name, path, text))
    for name, field in _OPENAI.items():
        if environ.get(name) and field not in values and "upstreams" not in values:
            values[field], sources[field,] = environ[name], name
    return sources


def _parse_variable(name: str, path: tuple[str, ...], text: str) -> object:
    """Return the value of a variable: lists and tables are JSON; other text may be a name where a list is expected."""
    if not (is_json(kind_of(path)) and text.lstrip().startswith(("[", "{"))):
        return text
    try:
        return codec.loads(text.encode())
    except codec.CodecError:
        raise SettingsError(f"`{name}`: expected JSON") from None


def _put(values: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    *tables, field = path
    for table in tables:
        values = values.setdefault(table, {})
        if not isinstance(values, dict):
            raise SettingsError(f"`{table}`: expected a table")
    values[field] = value


# both


def _read_files(
    node: Any,
    config: Path | None,
    sources: Mapping[tuple[str, ...], str],
    problems: Problems,
    path: tuple[str, ...] = (),
) -> None:
    """Read the files that `X_file` settings name into `X`; where there is no `X`, make the path absolute.

    Paths of the rule files of a policy are made absolute, too. Relative paths begin at the folder of `config`.
    """
    folder = config.parent if config is not None else Path()
    for key, value in list(node.items()):
        at = (*path, key)
        if key == "policy":
            node[key] = with_rules_in(folder, value)
        elif isinstance(value, dict):
            _read_files(value, config, sources, problems, at)
        elif key.endswith(FILE) and is_setting(at) and isinstance(value, str) and at not in problems.paths:
            field = key.removesuffix(FILE)
            if not is_setting((*path, field)):
                node[key] = str((folder / value).absolute())
                continue
            name = f"`{sources.get(at, path_name(at))}`"
            with problems.collected((*path, field), None if at in sources else config):
                if field in node:
                    raise SettingsError(f"{name}: cannot be combined with `{field}`")
                text = _read_text(folder / value, f"{name}: {folder / value}").strip()
                is_list = is_json(kind_of((*path, field)))
                if is_list and not text:  # no keys would turn encryption off
                    raise SettingsError(f"{name}: {folder / value} is empty")
                node[field] = text.split() if is_list else text


def _invalid_settings(
    error: ValidationError,
    values: Mapping[str, Any],
    sources: Mapping[tuple[str, ...], str],
    config: Path | None,
    failed: Iterable[FieldPath],
) -> Iterator[str]:
    """Yield a sentence for each invalid setting, with the name of the variable, flag or file that set it.

    Settings at the `failed` paths have been reported, and a rule about the table around one of them may follow from
    that. A setting that may have several types is reported once.
    """
    reported, incomplete = set(failed), {path[:-1] for path in failed}
    for field in (hinted(one, values) for one in invalid_fields(error, values, Settings)):
        if _is_below(field.path, reported) or (field.type == OURS and field.path in incomplete):
            continue
        reported.add(field.path)
        name = next((name for path, name in sources.items() if path == field.path[: len(path)]), None)
        if name is not None or config is None:
            written = field._replace(text=_IN_VARIABLES.get(field.text, field.text))
            yield from written.sentence(name or (variable(field.path) if field.path else "")).splitlines()
        else:
            written = field._replace(text=_IN_FILES.get(field.text, field.text))
            sentence = written.sentence(path_name(field.path, is_masked=False))
            yield from (f"{config}: {line}" for line in sentence.splitlines())
