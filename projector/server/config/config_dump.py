"""Writing the effective settings as TOML: secrets are masked, references are written as references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from projector.contracts import codec
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.server.config.config_base import SHORTHAND
from projector.server.config.loading import HTTP_FIELDS, Loaded
from projector.server.config.upstream_settings import UpstreamTimeouts

_OPEN_TABLES: Final = frozenset({"tools", "parameters", "profile"})
"""Tables in the format of a provider. They may contain secrets, and are redacted like tool arguments."""

_TEXT_MAX_CHARS: Final = 1_000
_MASK: Final = "**********"
"""What pydantic prints for a secret; also for headers and query parameters that are not from a file."""


def to_toml(loaded: Loaded) -> str:
    """Return the settings as TOML."""
    settings = loaded.settings
    hidden = set(SHORTHAND) if settings.upstreams else set[str]()
    if settings.passthrough is not None and not settings.passthrough.model_fields_set:
        hidden.add("passthrough")  # its defaults alone are no valid table
    table = settings.model_dump(mode="json", exclude_none=True, exclude=hidden)
    for name, upstream in settings.upstreams.items():
        timeouts = settings.timeouts_of(upstream).model_dump(include=set(UpstreamTimeouts.model_fields))
        table["upstreams"][name]["timeouts"] = timeouts
        for fields in HTTP_FIELDS:
            table["upstreams"][name][fields] = dict.fromkeys(getattr(upstream, fields), _MASK)
    for path, reference in loaded.references.items():
        inner: Any = table
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = reference
    redactor = Redactor(Policy())
    for agent in table["agents"].values():
        agent["allowed_params"].sort()
    for named in [*table["upstreams"].values(), *table["agents"].values()]:
        for name in _OPEN_TABLES & named.keys():
            named[name] = redactor.json(named[name], string_max_chars=_TEXT_MAX_CHARS).value
    return "\n".join(_lines(_without_contents(table))).strip() + "\n"


def _without_contents(table: dict[str, Any]) -> dict[str, Any]:
    """Remove values that were read from a file named in the same table."""
    return {
        name: _without_contents(value) if isinstance(value, dict) else value
        for name, value in table.items()
        if f"{name}_file" not in table
    }


def _lines(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the lines of a table: its own values first, then the tables in it."""
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
    """Return a scalar as TOML. It is the same as JSON, except for DEL, which TOML does not allow unescaped."""
    return codec.dumps(value).decode().replace("\x7f", "\\u007f")
