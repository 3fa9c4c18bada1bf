"""The settings in effect, as TOML for people: secrets are masked, and what was a reference is one again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from projector._validation import FieldPath
from projector.contracts import codec
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.server.config.loading import Loaded
from projector.server.config.settings import SHORTHAND, UpstreamTimeouts

_OPEN_TABLES: Final = frozenset({"tools", "parameters", "profile"})
"""They hold what a provider takes, perhaps its secrets: redacted like the arguments of a tool."""

_OF_UPSTREAMS: Final = frozenset(UpstreamTimeouts.model_fields)
_TEXT_MAX_CHARS: Final = 1_000


def shown(loaded: Loaded) -> str:
    """Give the settings as TOML."""
    settings = loaded.settings
    hidden = SHORTHAND if settings.upstreams else frozenset[str]()
    table = settings.model_dump(mode="json", exclude_none=True, exclude=set(hidden))
    for name, upstream in settings.upstreams.items():
        table["upstreams"][name]["timeouts"] = settings.timeouts_of(upstream).model_dump(include=set(_OF_UPSTREAMS))
    for path, reference in loaded.references.items():
        _put_back(table, path, reference)
    redactor = Redactor(Policy())
    for agent in table["agents"].values():
        agent["allowed_params"].sort()
    for named in [*table["upstreams"].values(), *table["agents"].values()]:
        for name in _OPEN_TABLES & named.keys():
            named[name] = redactor.json(named[name], string_max_chars=_TEXT_MAX_CHARS).value
    return "\n".join(_lines(_without_contents(table))).strip() + "\n"


def _put_back(table: Any, path: FieldPath, reference: str) -> None:
    *outer, last = path
    for key in outer:
        table = table[key]
    table[last] = reference


def _without_contents(table: dict[str, Any]) -> dict[str, Any]:
    """Leave out what was read from a file that is named beside it."""
    return {
        name: _without_contents(value) if isinstance(value, dict) else value
        for name, value in table.items()
        if f"{name}_file" not in table
    }


def _lines(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[str]:
    """Write a table: its own values first, then the tables in it."""
    inner = {name: value for name, value in table.items() if isinstance(value, dict)}
    own = [f"{_key(name)} = {_value(value)}" for name, value in table.items() if name not in inner]
    if own:
        yield from ["", f"[{'.'.join(map(_key, path))}]"] if path else []
        yield from own
    for name, value in inner.items():
        yield from _lines(value, (*path, name))


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() else _text(name)


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(name)} = {_value(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _text(value)


def _text(value: object) -> str:
    """Write a plain value: TOML's are JSON's, but for one character that only JSON takes as it is."""
    return codec.dumps(value).decode().replace("\x7f", "\\u007f")
