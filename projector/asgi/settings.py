"""Settings of the shell: their names, defaults and bounds, and how they are read from the environment.

A setting is a field of `Settings` or of one of its sections; its variable is `PROJECTOR_` and the name in capitals,
with `__` between section and field (`PROJECTOR_TIMEOUTS__IDLE_S`). `OPENAI_API_KEY` and `OPENAI_BASE_URL` are read as
well. Every field is listed in `docs/operations.md`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from projector._errors import UsageError

PREFIX: Final = "PROJECTOR_"
_NESTED: Final = "__"
_OF_OUR_TESTS: Final = "PROJECTOR_TESTS_"

_OPENAI: Final[Mapping[str, str]] = {"OPENAI_API_KEY": "api_key", "OPENAI_BASE_URL": "base_url"}
"""The variables that every OpenAI client honours, and the settings that they set."""


class SettingsError(UsageError):
    """A setting is unknown or has a value that cannot be; the message names it and never its value."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Timeouts(_Section):
    """How long others may take, in seconds. Each limit of an upstream ends the stream with a code of its own."""

    connect_s: float = Field(5, gt=0)
    """TCP and TLS; a healthy upstream needs well under one."""
    first_byte_s: float = Field(120, gt=0)
    """From the request to the first byte of the answer; a model may think before it speaks."""
    idle_s: float = Field(120, gt=0)
    """Between two reads; reasoning models fall silent for a minute."""
    total_s: float = Field(1800, gt=0)
    """The whole answer; longer than any seen, short enough to free what hangs."""
    body_s: float = Field(30, gt=0)
    """The client: from its request's head to the end of its body."""
    client_s: float = Field(60, gt=0)
    """How long a client may take nothing of what waits for it before it counts as gone."""


class Retries(_Section):
    """When a request to the upstream is made again; only before the first byte of its answer."""

    max: int = Field(2, ge=0)
    """After the first attempt; what the OpenAI clients do."""
    first_wait_s: float = Field(0.5, gt=0)
    max_wait_s: float = Field(5, gt=0)
    """A person waits: an upstream that wants a longer pause is reported instead."""


class Limits(_Section):
    """How much requests may cost: one, those of one caller, all together."""

    max_body_bytes: int = Field(8 * 1024 * 1024, gt=0)
    """One request; a photo in base64 fits."""
    max_buffer_bytes: int = Field(256 * 1024, gt=0)
    """Output of one stream that waits for its client; above it the upstream is not read. One read may exceed it."""
    max_memory_bytes: int = Field(512 * 1024 * 1024, gt=0)
    """Bodies, unfinished events and waiting output of all streams; see `projector.asgi.memory`."""
    max_streams: int = Field(1000, gt=0)
    """At once; each needs two file descriptors and some 100 KB."""
    max_streams_per_caller: int | None = Field(None, gt=0)
    """At once from one address; None where everybody comes from one, as behind a reverse proxy."""


class Settings(_Section):
    """Everything the shell can be told; the defaults serve one OpenAI upstream on loopback."""

    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    """0 lets the system choose."""
    api_key: SecretStr | None = None
    """None for an upstream that needs none."""
    base_url: str = Field("https://api.openai.com/v1", pattern=r"^https?://")
    model: str = Field("gpt-5.4-mini", min_length=1)
    """What answers `/api/v1/chat/stream`, and requests of the drop-in routes that name no model."""
    heartbeat_s: float = Field(15, gt=0)
    """Silence before a comment is sent; nginx cuts after 60 s."""
    grace_s: float = Field(20, ge=0)
    """What running streams get after SIGTERM; with what follows it stays under the 30 s that orchestrators wait."""
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    limits: Limits = Limits()


def load(environ: Mapping[str, str], flags: Mapping[str, object] | None = None) -> Settings:
    """Give the settings: what the flags say, else the variables, else the defaults.

    A flag that is None says nothing, and so does an empty variable. `PROJECTOR_TESTS_...` belongs to this project's own
    tests and is passed over.

    Raises:
        SettingsError: a variable with our prefix that sets nothing (the nearest known name is in the message), or a
            value that its setting does not allow.
    """
    values: dict[str, object] = {field: environ[name] for name, field in _OPENAI.items() if environ.get(name)}
    known = set(variables())
    for name, value in sorted(environ.items()):
        if not name.startswith(PREFIX) or name.startswith(_OF_OUR_TESTS):
            continue
        if name not in known:
            raise SettingsError(f"{name} is not a setting{_nearest(name, known)}")
        if value:
            _put(values, name.removeprefix(PREFIX).lower().split(_NESTED), value)
    values |= {name: value for name, value in (flags or {}).items() if value is not None}
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = PREFIX + _NESTED.join(str(part) for part in first["loc"]).upper()
        raise SettingsError(f"{name}: {first['msg']}") from None


def variables() -> list[str]:
    """Give the name of every variable that sets something."""
    return list(_variables(Settings))


def _variables(section: type[BaseModel], prefix: str = PREFIX) -> Iterator[str]:
    """Give the name of each variable that sets a field of the section."""
    for field, about in section.model_fields.items():
        inner = about.annotation
        if isinstance(inner, type) and issubclass(inner, _Section):
            yield from _variables(inner, f"{prefix}{field.upper()}{_NESTED}")
        else:
            yield f"{prefix}{field.upper()}"


def _nearest(name: str, known: set[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _put(values: dict[str, object], path: list[str], value: str) -> None:
    """Set one value in nested mappings."""
    *sections, field = path
    for section in sections:
        inner = values.setdefault(section, {})
        assert isinstance(inner, dict)  # noqa: S101 - a known variable's sections are mappings that we made here
        values = inner
    values[field] = value
