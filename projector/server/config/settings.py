"""Settings of the server: names, defaults and bounds. `projector.server.config.loading` reads them.

A setting is a field of `Settings` or of one of its tables. docs/operations.md lists every field. A field `X_file` names
a file that contains `X`, if there is an `X`.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias
from urllib.parse import quote, quote_plus, unquote, urlsplit

from pydantic import AfterValidator, Field, SecretStr, SerializeAsAny, ValidationInfo, field_validator, model_validator

from projector._errors import UsageError, known_name
from projector.dialects import DIALECTS
from projector.redaction.registered import SECRET_MIN_CHARS
from projector.server.config.agent_settings import (
    PASSTHROUGH_APIS,
    AgentSettings,
    Passthrough,
    WorkflowSettings,
    can_serve,
)
from projector.server.config.caller_settings import ALL, EVERY_CALLER, ROUTES, Auth, CallerName, CallerSettings
from projector.server.config.config_base import (
    DEFAULT,
    DEFAULT_DIALECT,
    EXTENSIONS,
    SHORTHAND,
    ApiUrl,
    ExtensionSettings,
    Model,
    Name,
    Table,
    matching,
    parts_of,
    raised,
)
from projector.server.config.store_settings import EncryptionKeys, StoreSettings
from projector.server.config.upstream_settings import (
    ApiKey,
    CircuitBreaker,
    ListenerTls,
    ModelId,
    ModelSettings,
    Retries,
    TargetSettings,
    Timeouts,
    UpstreamSettings,
    is_credential,
)

NEEDS_RESTART: Final = ("admin", "host", "log_level", "port", "store", "tls", *sorted(EXTENSIONS))
"""Settings that a reload keeps. Certificate and key of `tls` are read again from the same files."""

_HOST_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_-]{1,63})*")


def _check_host(host: str) -> str:
    is_name = _HOST_NAME.fullmatch(host) is not None and not host.rpartition(".")[2].isdigit()
    try:
        return host if is_name else str(ipaddress.ip_address(host))
    except ValueError:
        raise ValueError("expected an IP address or a host name, without a port") from None


def _check_network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        raise ValueError("expected an IP address or a network such as 10.0.0.0/8") from None


NetworkText: TypeAlias = Annotated[str, AfterValidator(_check_network)]
AllowedHost: TypeAlias = Annotated[
    str, matching(r"(\*\.)?[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]", "a host name or address without a port")
]
Host: TypeAlias = Annotated[str, AfterValidator(_check_host)]
Origin: TypeAlias = Annotated[
    str, matching(r"https?://[^/@\s?#*]+", "an origin such as https://app.example: scheme, host, optionally a port")
]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


_OTHER_CONNECTIONS: Final = 100
"""Connections that a server with few streams needs as well: probes, long polls, requests that are refused."""


class Limits(Table):
    """Limits on resources: of one request, of one caller, and of the server."""

    max_body_bytes: int = Field(default=8 * 1024 * 1024, ge=100)  # enough for a photo in base64
    """Size of a request body."""
    max_memory_bytes: int = Field(default=512 * 1024 * 1024, gt=0)
    """Memory of all streams: 256 KiB for each, bodies, incomplete events, texts and items, unsent output. When it is
    used up, new streams get 503, and large ones read one at a time. The process takes at most twice as much and
    150 MB."""
    max_text_bytes: int = Field(default=64 * 1024 * 1024, gt=0)
    """Size of what one response keeps until its end: texts, arguments, citations, items."""
    max_streams: int = Field(default=1000, gt=0)
    """Concurrent streams; each needs two file descriptors and about 100 KB, 400 KB if its client reads slowly."""
    max_streams_per_caller: int | None = Field(default=None, gt=0)
    """Concurrent streams of one caller in each process; one number for all callers."""
    max_connections: int | None = Field(default=None, gt=0)
    """Open connections of clients; by default twice `max_streams`, plus 100. At the limit, the oldest one without a
    request is closed; if each has one, the new connection gets 503, or with TLS is closed. Idle ones are closed after
    75 s."""
    max_connections_per_address: int | None = Field(default=None, gt=0)
    """Open connections from one address, such as a reverse proxy."""

    @property
    def connections(self) -> int:
        """The limit of open connections. By default there is room for idle ones, probes and refused requests."""
        return self.max_connections or 2 * self.max_streams + _OTHER_CONNECTIONS


class Admin(Table):
    """A listener for operators. Its routes are not authenticated: it must not be reachable from outside."""

    host: Host = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(ge=0, le=65535)
    """Port to listen on; 0 for any free port."""
    streams: bool = False
    """Serve `/streams`, the recent streams of all callers with their contents."""


class Settings(Table):
    """All settings of the server. The defaults serve one OpenAI upstream on a loopback address."""

    host: Host = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=8000, ge=0, le=65535)
    """Port to listen on; 0 for any free port."""
    tls: ListenerTls | None = None
    """Without this table the server speaks plain HTTP."""
    admin: Admin | None = None
    """Without this table `/metrics` and `/openapi.json` are served at `port`."""
    api_key: ApiKey | None = None
    """API key of the provider. With `base_url` and `model` a shorthand for one upstream and one agent."""
    api_key_file: Path | None = None
    """File with the API key."""
    base_url: ApiUrl = "https://api.openai.com/v1"
    """Base URL of the provider."""
    model: Model = "gpt-5.4-mini"
    """Model of the shorthand agent, and of passthrough requests without one."""
    heartbeat_s: float = Field(default=15, gt=0, le=3_600)  # nginx disconnects after 60
    """Seconds without output before a comment is sent."""
    drain_timeout_s: float = Field(default=20, ge=0, le=7200)  # with the shutdown below the 30 of common orchestrators
    """Seconds that running streams get after SIGTERM."""
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()
    circuit_breaker: CircuitBreaker = CircuitBreaker()
    auth: Auth = Auth()
    demo_page: bool = False
    """Serve the demo page at `/`; `projector demo` always does."""
    demo_pace_s: float = Field(default=0.15, ge=0, le=60)  # slow enough to watch an answer and stop it
    """Seconds between two events of `projector demo`."""
    log_level: LogLevel = "info"
    """Lowest level of log lines: `debug`, `info`, `warning` or `error`."""
    cors_origins: tuple[Origin, ...] = ()
    """Other origins whose pages may call the server."""
    allowed_hosts: tuple[AllowedHost, ...] = ()
    """Hosts that requests may name in `Host`, without ports; `*.example.com` for all below, `local` for addresses and
    names that are not public. By default any; without authentication and `trusted_proxies`, the command line's server
    has `local`. Health routes accept every host."""
    trusted_proxies: tuple[NetworkText, ...] = ()
    """Addresses or networks of reverse proxies."""
    forwarded_header: Literal["x-forwarded-for", "forwarded"] = "x-forwarded-for"
    """Header in which trusted proxies send the address of the client, or `forwarded`; the other one is ignored."""
    state_encryption_keys: EncryptionKeys = ()
    """Keys that seal [what providers want back](providers.md#what-providers-want-back) (AES-256-GCM), the same for all
    servers. The first one seals, all open."""
    state_encryption_keys_file: Path | None = None
    """File with the keys, each in a line."""
    limits: Limits = Limits()
    store: StoreSettings = StoreSettings()
    callers: dict[CallerName, CallerSettings] = {}
    """Caller -> what it may use, and how much: `default`, `key:NAME`, `token:NAME` or `group:NAME`."""
    upstreams: dict[Name, UpstreamSettings] = {}
    agents: dict[Name, AgentSettings] = {}
    models: dict[ModelId, ModelSettings] = {}
    """Models of the passthrough routes that have several targets, by the name that requests use. A model turns on the
    route of its API."""
    passthrough: Passthrough | None = None
    """By default these routes use the shorthand upstream on a loopback address, otherwise they are off. The same holds
    for a table that names no upstream."""
    workflows: dict[Name, WorkflowSettings] = {}
    openwop: SerializeAsAny[ExtensionSettings] | None = None
    """Without this table the server is not an OpenWOP host."""

    @property
    def all_upstreams(self) -> Mapping[str, UpstreamSettings]:
        """The upstreams; without their tables the one that the shorthand settings describe."""
        return self.upstreams or {DEFAULT: UpstreamSettings(base_url=self.base_url, api_key=self.api_key)}

    @property
    def all_agents(self) -> Mapping[str, AgentSettings]:
        """The agents; without any table of agents and upstreams the one that the shorthand settings describe."""
        if self.agents or self.upstreams:
            return self.agents
        return {DEFAULT: AgentSettings(upstream=DEFAULT, model=self.model, dialects=self.all_dialects)}

    @property
    def all_dialects(self) -> tuple[str, ...]:
        """All dialects, the default one first, without those of extensions that are off."""
        names = (name for name in DIALECTS if name not in EXTENSIONS or getattr(self, name) is not None)
        return (DEFAULT_DIALECT, *(name for name in names if name != DEFAULT_DIALECT))

    def passthrough_upstreams(self, route: str) -> tuple[str, ...]:
        """Return the upstreams of a passthrough route, by a name of `PASSTHROUGH_APIS`; the first is the default."""
        table = self.passthrough or Passthrough()
        if any(map(table.upstream_names, PASSTHROUGH_APIS)):
            return table.upstream_names(route)
        is_default = self.passthrough is None or bool(table.model_fields_set)
        if not is_default or not self.is_loopback or self.upstreams:
            return ()
        return (DEFAULT,) if can_serve(self.all_upstreams[DEFAULT].api, PASSTHROUGH_APIS[route]) else ()

    def timeouts_of(self, upstream: UpstreamSettings) -> Timeouts:
        """Return the time-outs of an upstream."""
        return self.timeouts.model_copy(update=upstream.timeouts.model_dump(exclude_unset=True))

    @property
    def extensions(self) -> list[ExtensionSettings]:
        """Tables of the configured extensions."""
        return [table for name in EXTENSIONS if (table := getattr(self, name)) is not None]

    @property
    def is_loopback(self) -> bool:
        """Whether the server can be reached from this machine only."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @field_validator(*EXTENSIONS, mode="before")
    @classmethod
    def _parse_extension(cls, table: object, info: ValidationInfo) -> ExtensionSettings | None:
        return None if table is None else EXTENSIONS[info.field_name or ""].model_validate(table)

    @model_validator(mode="after")
    def _check_relations(self) -> Settings:
        if problems := [*_mistakes(self)]:
            raise ValueError("\n".join(problems))
        return self


# rules about several settings, checked once each of them is valid by itself


def check_access(settings: Settings) -> None:
    """Raise `ValueError` if everyone could use the server from another machine."""
    if not settings.is_loopback and not settings.auth.is_on:
        raise ValueError("`host` must be a loopback address unless callers are configured in `auth`")


def _mistakes(settings: Settings) -> Iterator[str]:
    """Yield what is wrong with settings that do not fit together, a line for each."""
    agents = settings.all_agents
    yield from raised(check_access, settings)
    if settings.admin is not None and settings.admin.port == settings.port != 0:
        yield "`admin.port` must not be the same as `port`"
    yield from _shorthand_mistakes(settings)
    for name, agent in settings.agents.items():
        yield from raised(_api_of, settings, f"agent `{name}`", agent.all_targets)
    for name, model in settings.models.items():
        yield from raised(_check_model, settings, name, model.targets)
    for name, workflow in settings.workflows.items():
        yield from raised(workflow.check, name, agents)
    for extension in settings.extensions:
        yield from raised(extension.check, agents)
    yield from _dialect_mistakes(settings)
    for route, api in PASSTHROUGH_APIS.items():
        yield from raised(_check_route, settings, route, api)
    is_on = bool(settings.models) or any(map(settings.passthrough_upstreams, PASSTHROUGH_APIS))
    if settings.passthrough is not None and settings.passthrough.model_fields_set and not is_on:
        yield f"`passthrough`: expected an upstream: `{'` or `'.join(PASSTHROUGH_APIS)}`"
    yield from _caller_mistakes(settings, agents)


def _shorthand_mistakes(settings: Settings) -> Iterator[str]:
    """Yield each setting of the shorthand beside `upstreams`; the text of a file is reported as the file."""
    for name in sorted(SHORTHAND.keys() & settings.model_fields_set if settings.upstreams else ()):
        if f"{name}_file" not in settings.model_fields_set:
            tables = [*getattr(settings, SHORTHAND[name])]
            place = f"[{SHORTHAND[name]}.{tables[0] if len(tables) == 1 else 'NAME'}]"
            yield f"`{name}` cannot be combined with `upstreams`: it belongs in `{place}`"


def _dialect_mistakes(settings: Settings) -> Iterator[str]:
    """Yield each use of the dialect of an extension that is off: a host announces what it supports."""
    dialects = {f"agent `{name}`": agent.dialects for name, agent in settings.agents.items()}
    dialects |= {f"workflow `{name}`": workflow.dialects for name, workflow in settings.workflows.items()}
    for name in EXTENSIONS:
        if getattr(settings, name) is None:
            yield from (
                f"{what}: the dialect `{name}` requires the table `{name}`"
                for what, used in dialects.items()
                if name in used
            )


def _upstream_of(settings: Settings, name: str, upstream: str) -> UpstreamSettings:
    """Return an upstream that a setting names; raise `UsageError` if it is unknown."""
    upstreams = settings.all_upstreams
    if upstream not in upstreams and not settings.upstreams:
        place = f"`[upstreams.{upstream}]`"
        raise UsageError(f"unknown upstream of {name}: `{upstream}`; no upstreams are configured: add {place}")
    return upstreams[known_name(f"upstream of {name}:", upstream, upstreams)]


def _api_of(settings: Settings, name: str, targets: Iterable[TargetSettings]) -> str:
    """Return the API of the upstreams of targets.

    Raises:
        UsageError: an upstream is unknown, or they have different APIs.
    """
    apis: dict[str, str] = {}
    for target in targets:
        apis.setdefault(_upstream_of(settings, name, target.upstream).api, target.upstream)
    if len(apis) > 1:
        (first, one), (second, other), *_ = apis.items()
        raise UsageError(f"{name}: expected targets with the same api: `{one}` has `{first}`, `{other}` has `{second}`")
    return next(iter(apis))


def _check_model(settings: Settings, name: str, targets: Iterable[TargetSettings]) -> None:
    api = _api_of(settings, f"model `{name}`", targets)
    if api not in PASSTHROUGH_APIS.values():
        raise ValueError(f"model `{name}`: there is no passthrough route for the api `{api}`")


def _check_route(settings: Settings, route: str, api: str) -> None:
    """Check the upstreams of a passthrough route: each has its API, and all but the last a list of models."""
    for_any_model: str | None = None
    for name in settings.passthrough_upstreams(route):
        upstream = _upstream_of(settings, f"`passthrough.{route}`", name)
        if not can_serve(upstream.api, api):
            raise ValueError(f"`passthrough.{route}`: expected an upstream with api `{api}`, not `{name}`")
        if upstream.models is not None:
            continue
        if for_any_model is not None:
            raise ValueError(
                f"`passthrough.{route}`: `{name}` would never be used, because `{for_any_model}` accepts every"
                " model; set `models` of an upstream"
            )
        for_any_model = name


def _caller_mistakes(settings: Settings, agents: Mapping[str, object]) -> Iterator[str]:
    """Yield each name in the tables of callers that is not configured, and each workflow without its agents."""
    upstreams, callers = settings.all_upstreams, settings.callers
    served = {name for route in PASSTHROUGH_APIS for name in settings.passthrough_upstreams(route)}
    offered = [None if (one := upstreams.get(name)) is None else one.models for name in sorted(served)]
    models = None if None in offered else sorted({*settings.models, *(name for one in offered for name in one or ())})
    known = {"agents": [*agents], "workflows": settings.workflows, "routes": ROUTES, "models": models}
    default, names = callers.get(EVERY_CALLER, CallerSettings()), settings.auth.caller_names
    for caller, table in callers.items():
        if caller != EVERY_CALLER and f"{caller.partition(':')[0]}:" not in names:
            yield from raised(known_name, "caller", caller, [EVERY_CALLER, *names])
        for field, choices in known.items():
            for name in sorted({*(getattr(table, field) or ())} - {ALL}) if choices is not None else ():
                yield from raised(known_name, f"name in `{field}` of caller `{caller}`:", name, choices)
        allowed = table.over(default).agents
        for workflow in sorted(settings.workflows.keys() & {*(table.workflows or ())}):
            used = settings.workflows[workflow].definition.agents
            missing = sorted({*used} - {*allowed} if allowed is not None and ALL not in allowed else ())
            if missing:
                listed = "`, `".join(missing)
                yield f"caller `{caller}`: workflow `{workflow}` uses agents that are not in `agents`: `{listed}`"


# secrets, which are withheld from every stream (CONTRACT D41) and from recordings; hashes of callers' keys are none

_SCHEME_PARTS: Final = 2  # a scheme and a token, as in `Bearer <token>`


def secret_values(settings: Settings, min_chars: int = SECRET_MIN_CHARS) -> tuple[str, ...]:
    """Return the secrets of a configuration that have at least `min_chars` characters, each once."""
    found = (value for _, value in _named(settings, min_chars))
    return tuple(dict.fromkeys(value for value in found if len(value.strip()) >= min_chars))


def secret_warnings(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each setting with a secret that is too short to be withheld from streams."""
    found = _named(settings, min_chars=1)
    for path in dict.fromkeys(path for path, value in found if 0 < len(value.strip()) < SECRET_MIN_CHARS):
        yield f"`{path}`: streams do not withhold this secret: it has fewer than {SECRET_MIN_CHARS} characters"


def _named(settings: Settings, min_chars: int) -> Iterator[tuple[str, str]]:
    """Yield each secret after the path of its setting, in each form that may be echoed."""
    forms: Iterable[str]
    for path, secret in parts_of(settings, SecretStr):
        text = secret.get_secret_value()
        match path.split(".", 3):
            case ("upstreams", _, "headers", name):
                forms = _of_header(name, text, min_chars)
            case ("upstreams", _, "query", _):
                forms = (text, quote(text, safe=""), quote_plus(text))
            case (*_, "proxy" | "url"):
                forms = _of_url(text)
            case _:
                forms = (text,)
        yield from ((path, form) for form in forms)


def _of_header(name: str, value: str, min_chars: int) -> Iterator[str]:
    """Yield the token of `Bearer <token>`, and the password of `Basic <token>`; any other value as a whole.

    The scheme is not part of the secret: a text that ends with the word `Bearer` is shown.
    """
    parts = value.split(" ")
    is_token = len(parts) == _SCHEME_PARTS and is_credential(name) and len(parts[-1]) >= min_chars
    yield parts[-1] if is_token else value
    if is_token and parts[0].lower() == "basic":
        try:
            _, _, password = base64.b64decode(parts[-1], validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return
        yield password


def _of_url(text: str) -> Iterator[str]:
    """Yield the password in the URL of a proxy or store, and the token that is sent for it."""
    url = urlsplit(text)
    if url.password:
        user, password = unquote(url.username or ""), unquote(url.password)
        yield from (url.password, password, base64.b64encode(f"{user}:{password}".encode()).decode())
