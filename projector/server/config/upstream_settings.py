"""Tables for upstreams: the requests to them, TLS, time-outs, retries; and their models as targets.

The value of a header or query parameter is a `SecretStr` if it was read from a variable, or if its name is that of a
credential. Such values are never printed, and are withheld from streams and recordings. Files of certificates are
named, not read into settings, because OpenSSL reads them itself: see `projector.server.tls`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, SecretStr, field_validator, model_validator

from projector.providers import DEFAULT_PROVIDER, PROVIDERS, profile_of
from projector.redaction.rules import KeyRules, Verdict, normal_form
from projector.server.config.config_base import Api, ApiUrl, Model, Name, Table, has_valid_host, matching

_DAY_S: Final = 86_400
"""Longest time-out: a larger value is a mistake, and the timers of the operating system reject it."""
_HEADER_VALUE: Final = re.compile(r"[!-~]+")
_PROXY: Final = re.compile(r"https?://[^\s/?#]+/?")

OWNED_HEADERS: Final = frozenset(
    {
        "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect",
        "host", "keep-alive", "proxy-authorization", "proxy-connection", "te", "traceparent", "tracestate", "trailer",
        "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers that this server or its HTTP client sets for each request; `proxy-authorization` belongs in `proxy`."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
"""Name of a header (RFC 9110, 5.6.2)."""
_HEADER_TEXT: Final = re.compile(r"[!-~](?:[ -~]{0,8190}[!-~])?")
_NAME: Final = re.compile(r"[!-~]{1,128}")
_ENDS_OF_CREDENTIALS: Final = ("key", "auth", "code", "sig", "signature", "jwt")
"""Ends of names as in `Ocp-Apim-Subscription-Key`, `code` (Azure Functions) and `sig`."""
_key_rules: Final = cache(KeyRules)


def is_credential(name: str) -> bool:
    """Return whether the value of a header or query parameter is a secret, by its name."""
    return _key_rules().verdict(name) is not Verdict.PLAIN or normal_form(name).endswith(_ENDS_OF_CREDENTIALS)


def _check_headers(headers: Mapping[str, SecretStr | str]) -> dict[str, SecretStr | str]:
    seen: set[str] = set()
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError("expected names of letters, digits and -")
        if name.lower() in OWNED_HEADERS:
            raise ValueError(f"`{name}` cannot be set; the server sets it")
        if name.lower() in seen:
            raise ValueError(f"`{name}` is given twice")
        seen.add(name.lower())
        if not _HEADER_TEXT.fullmatch(plain(value)):
            raise ValueError(f"`{name}`: expected printable ASCII in one line, without spaces at its ends")
    return _with_secrets(headers)


def _check_query(query: Mapping[str, SecretStr | str]) -> dict[str, SecretStr | str]:
    for name, value in query.items():
        if not _NAME.fullmatch(name):
            raise ValueError("expected names of printable ASCII without spaces")
        if not plain(value).isprintable():
            raise ValueError(f"`{name}`: expected printable text in one line")
    return _with_secrets(query)


def _with_secrets(values: Mapping[str, SecretStr | str]) -> dict[str, SecretStr | str]:
    return {
        name: SecretStr(value) if isinstance(value, str) and is_credential(name) else value
        for name, value in values.items()
    }


def plain(value: SecretStr | str) -> str:
    """Return the text of a value."""
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _by_alias(models: object) -> object:
    """Return a list of models as a table in which each is its own alias."""
    if isinstance(models, list | tuple):
        if not all(isinstance(model, str) for model in models):
            raise ValueError("expected a list of IDs, or a table of aliases and IDs")
        return {model: model for model in models}
    return models


ModelId: TypeAlias = Annotated[
    str, matching(r"[!-~]([ -~]{0,254}[!-~])?", "an ID of 1 to 256 characters of printable ASCII")
]
ModelNames: TypeAlias = Annotated[dict[ModelId, ModelId], BeforeValidator(_by_alias), Field(min_length=1)]
ExtraHeaders: TypeAlias = Annotated[dict[str, str | SecretStr], AfterValidator(_check_headers)]
ExtraQuery: TypeAlias = Annotated[dict[str, str | SecretStr], AfterValidator(_check_query)]


def _check_header_value(key: SecretStr) -> SecretStr:
    if not _HEADER_VALUE.fullmatch(key.get_secret_value()):
        raise ValueError("expected printable ASCII without spaces: the key is sent in a header")
    return key


ApiKey: TypeAlias = Annotated[SecretStr, AfterValidator(_check_header_value)]
TlsVersion: TypeAlias = Literal["1.2", "1.3"]


class Tls(Table):
    """A certificate with its key, and the accepted versions of the protocol."""

    cert_file: Path | None = None
    """File with the certificate chain in PEM format."""
    key_file: Path | None = None
    """File with the private key; by default it is in `cert_file`."""
    key_password: SecretStr | None = None
    """Password of the private key."""
    key_password_file: Path | None = None
    """File with the password."""
    min_version: TlsVersion = "1.2"
    """Lowest version of TLS: `1.2` or `1.3`."""

    @model_validator(mode="after")
    def _check_certificate(self) -> Tls:
        for name in ("key_file", "key_password"):
            if getattr(self, name) is not None and self.cert_file is None:
                raise ValueError(f"`{name}` needs `cert_file`")
        return self


class UpstreamTls(Tls):
    """TLS of requests to an upstream. The certificate identifies this server."""

    ca_file: Path | None = None
    """File of the trusted authorities, instead of those of the system."""

    @property
    def is_default(self) -> bool:
        """Whether nothing is set."""
        return self == UpstreamTls()


class ListenerTls(Tls):
    """TLS of this server. The certificate is sent to clients."""

    cert_file: Path


class UpstreamTimeouts(Table):
    """Time-outs of upstream requests in seconds; each ends the stream with a code of its own."""

    connect_s: float = Field(default=5, gt=0, le=_DAY_S)  # usually well below one
    """Seconds to connect to the provider (TCP and TLS)."""
    first_byte_s: float = Field(default=120, gt=0, le=_DAY_S)  # reasoning models think before they answer
    """Seconds from the request to the first byte of the response."""
    idle_s: float = Field(default=120, gt=0, le=_DAY_S)  # reasoning models pause for up to a minute
    """Seconds without a byte of the response."""
    total_s: float = Field(default=1800, gt=0, le=_DAY_S)  # longer than any observed; ends a request that hangs
    """Seconds for the whole response."""


class Timeouts(UpstreamTimeouts):
    """Time-outs in seconds; the `timeouts` of an upstream take precedence."""

    request_read_s: float = Field(default=30, gt=0, le=_DAY_S)
    """Seconds for a client to send the request head, and again for the body."""
    client_stall_timeout_s: float = Field(default=60, gt=0, le=_DAY_S)
    """Seconds a client may stop reading before it is disconnected."""


class Retries(Table):
    """Retries of upstream requests; only before the first byte of the response."""

    max: int = Field(default=2, ge=0)  # as the OpenAI clients
    """Attempts after the first one."""
    initial_backoff_s: float = Field(default=0.5, gt=0)
    """Seconds before the first retry; doubles with each further one."""
    max_backoff_s: float = Field(default=5, gt=0)
    """Longest pause in seconds; a longer `Retry-After` is sent to the client instead."""
    budget_share: float = Field(default=0.2, ge=0, le=10)
    """[Retries](operations.md#several-targets) of an upstream as a share of its requests."""


Balance: TypeAlias = Literal["order", "weight"]


class CircuitBreaker(Table):
    """When a target that fails gets no more requests."""

    failures: int = Field(default=5, ge=0, le=1000)
    """Failures in a row after which a [target](operations.md#several-targets) gets no requests; also if, within a
    minute, half of four times as many requests fail. 0 for no limit."""
    open_s: float = Field(default=15, gt=0, le=3600)
    """Seconds before one request tries whether the target works again."""


class TargetSettings(Table):
    """A model of an upstream."""

    upstream: Name
    """Name of the upstream."""
    model: Model
    """The upstream's name of the model."""
    weight: int | None = Field(default=None, ge=1, le=1000)
    """Share of the requests, relative to the other targets; 1 by default."""


Targets: TypeAlias = Annotated[tuple[TargetSettings, ...], Field(max_length=16)]


class ModelSettings(Table):
    """A model of the passthrough routes, with the upstreams that serve it."""

    targets: Targets = Field(min_length=1)
    """Upstreams and their names of the model. They turn on the passthrough route of their API."""
    balance: Balance = "order"
    """`order`: the first target that works; `weight`: all targets, by their weights."""

    @model_validator(mode="after")
    def _check_targets(self) -> ModelSettings:
        check_targets(self.targets, self.balance)
        return self


def check_targets(targets: Sequence[TargetSettings], balance: Balance) -> None:
    """Raise `ValueError` for a target that is listed twice, and for a weight that has no effect."""
    places = [(one.upstream, one.model) for one in targets]
    for upstream, model in places:
        if places.count((upstream, model)) > 1:
            raise ValueError(f"`targets`: the model `{model}` of `{upstream}` is listed twice")
    if balance == "order" and any(one.weight is not None for one in targets):
        raise ValueError('`weight` of a target has an effect only with `balance` = "weight"')


class UpstreamSettings(Table):
    """A provider endpoint."""

    api: Api = DEFAULT_PROVIDER
    """API of the [provider](providers.md)."""
    base_url: ApiUrl = "https://api.openai.com/v1"
    """Base URL of the API; by default that of the provider of `api`."""
    api_key: ApiKey | None = None
    """API key; it is sent as `api` expects it."""
    api_key_file: Path | None = None
    """File with the API key."""
    proxy: SecretStr | None = None
    """HTTP proxy as `http://user:password@host:port`, or `"${HTTPS_PROXY}"`: the variable alone is not read."""
    headers: ExtraHeaders = {}
    """Additional request headers, such as `api-key`; `authorization` replaces the one of `api_key`."""
    tls: UpstreamTls = UpstreamTls()
    """Own certificate authorities, client certificate, least version."""
    query: ExtraQuery = {}
    """Query parameters of every request, such as `api-version`."""
    timeouts: UpstreamTimeouts = UpstreamTimeouts()
    """Overrides the time-outs of the server."""
    models: ModelNames | None = None
    """Models that this upstream offers on the passthrough routes: a list, or a table of aliases; by default all."""
    profile: dict[str, JsonValue] = {}
    """Differences from other upstreams with the same API: [tables](providers.md#openai_chat)."""

    @model_validator(mode="before")
    @classmethod
    def _set_base_url(cls, table: object) -> object:
        """Set the base URL of the provider's own servers: a key must not be sent to those of another one."""
        api = table.get("api") if isinstance(table, dict) and "base_url" not in table else None
        own = PROVIDERS[api].base_url if isinstance(api, str) and api in PROVIDERS else None
        return {**table, "base_url": own} if isinstance(table, dict) and own is not None else table

    @field_validator("proxy")
    @classmethod
    def _check_proxy(cls, proxy: SecretStr | None) -> SecretStr | None:
        url = proxy.get_secret_value() if proxy is not None else None
        if url is not None and not (_PROXY.fullmatch(url) and has_valid_host(url)):
            raise ValueError("expected http://host:port, optionally with user:password@ before the host")
        return proxy

    @model_validator(mode="after")
    def _check_tls(self) -> UpstreamSettings:
        if not self.tls.is_default and not self.base_url.startswith("https:"):
            raise ValueError("`tls` has no effect, because `base_url` does not begin with https://")
        return self

    @model_validator(mode="after")
    def _check_profile(self) -> UpstreamSettings:
        profile_of(self.api, self.profile)
        return self
