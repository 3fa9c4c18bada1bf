"""Tables for callers: how they prove who they are, what they may use, and how much."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias, get_args

from pydantic import Field, StringConstraints, field_validator, model_validator

from projector.providers import PROVIDERS
from projector.server.config.config_base import EXTENSIONS, NAME_OR_LIST, BaseUrl, Name, Table, matching

EVERY_CALLER: Final = "default"
"""Table of the callers without a table of their own."""
ALL: Final = "*"
"""In a list of names: everything."""

CHAT: Final = "chat"
WORKFLOWS: Final = "workflows"
AG_UI: Final = "ag_ui"
AI_SDK: Final = "ai_sdk"
"""Routes of the clients of a dialect have its name."""
PASSTHROUGH: Final = tuple(one.passthrough.setting for one in PROVIDERS.values() if one.passthrough is not None)
ROUTES: Final = (CHAT, WORKFLOWS, AG_UI, AI_SDK, *PASSTHROUGH, *EXTENSIONS)
"""Names of routes."""

_COUNT_MAX: Final = 10**12
"""More than any budget, and exact as a float."""

CallerName: TypeAlias = Annotated[
    str,
    matching(r"default|(key|token|group):.+", "`default`, `key:NAME`, `token:NAME` or `group:NAME`"),
]
Names: TypeAlias = Annotated[tuple[Annotated[str, StringConstraints(min_length=1)], ...], NAME_OR_LIST]
"""Names that `Settings` checks; a single one needs no list."""
_Count: TypeAlias = Annotated[int, Field(gt=0, le=_COUNT_MAX)]


class RateLimits(Table):
    """Limits of one caller; without a number there is no limit."""

    requests_per_minute: _Count | None = None
    """Requests per minute."""
    requests_per_day: _Count | None = None
    """Requests per day."""
    tokens_per_minute: _Count | None = None
    """Tokens per minute, input and output together."""
    tokens_per_day: _Count | None = None
    """Tokens per day."""


class CallerSettings(Table):
    """What a caller may use, and how much. What is not set is as in the table `default`."""

    agents: Names | None = None
    """Agents that the caller may use; `*` for all."""
    workflows: Names | None = None
    """Workflows that the caller may use; `*` for all."""
    models: Names | None = None
    """Models that the caller may use on the passthrough routes; `*` for all."""
    routes: Names | None = None
    """Routes that the caller may use: `chat`, `workflows`, `ag_ui`, `ai_sdk`, `responses`, `chat_completions`,
    `messages`, `openwop`; `*` for all."""
    rate_limits: RateLimits = RateLimits()

    def over(self, other: CallerSettings) -> CallerSettings:
        """Return these settings, with those of another table where nothing is set."""
        own: dict[str, Names] = {name: value for name in RIGHTS if (value := getattr(self, name)) is not None}
        limits = other.rate_limits.model_copy(update=self.rate_limits.model_dump(exclude_none=True))
        return other.model_copy(update=own | {"rate_limits": limits})


Right: TypeAlias = Literal["agents", "workflows", "models", "routes"]
RIGHTS: Final[tuple[Right, ...]] = get_args(Right)
"""Fields with what a caller may use."""


KeyHash: TypeAlias = Annotated[
    str,
    matching(
        r"sha256:[0-9a-f]{64}(\s+sha256:[0-9a-f]{64})*",
        "the hash of a key: `sha256:` and 64 hexadecimal digits; several with blanks between them",
    ),
]
Algorithm: TypeAlias = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class Jwt(Table):
    """Bearer tokens of an issuer; each must contain issuer, audience and expiry."""

    issuer: str = Field(min_length=1)
    """Required `iss` of a token."""
    audience: str = Field(min_length=1)
    """Required `aud` of a token."""
    jwks_url: BaseUrl | None = None
    """URL of the issuer's public keys, or `jwks_file`."""
    jwks: str | None = None
    """The public keys themselves."""
    jwks_file: Path | None = None
    """File with the public keys."""
    ca_file: Path | None = None
    """File of the trusted authorities, instead of those of the system."""
    algorithms: tuple[Algorithm, ...] = Field(("RS256", "ES256"), min_length=1)
    """Accepted signature algorithms, with public keys only."""
    caller_claim: str = Field(default="sub", min_length=1)
    """Claim with the name of the caller."""
    groups_claim: str | None = Field(default=None, min_length=1)
    """Claim with the groups of the caller, such as `roles`: a list, or names with spaces between them."""

    @field_validator("jwks")
    @classmethod
    def _check_key_set(cls, jwks: str | None) -> str | None:
        import jwt  # noqa: PLC0415 - only for servers with tokens

        try:
            if jwks is not None:
                jwt.PyJWKSet.from_json(jwks)
        except (ValueError, AttributeError, TypeError, jwt.PyJWTError):
            raise ValueError("expected a JSON Web Key Set with a key of a supported type") from None
        return jwks

    @model_validator(mode="after")
    def _check_keys(self) -> Jwt:
        if (self.jwks_url is None) == (self.jwks is None):
            raise ValueError("expected either `jwks_url` or `jwks_file`")
        if self.ca_file is not None and not (self.jwks_url or "").startswith("https:"):
            raise ValueError("`ca_file` has no effect, because `jwks_url` does not begin with https://")
        return self


class Auth(Table):
    """Authentication of callers. Without it everyone has access, on a loopback address only."""

    api_keys: dict[Name, KeyHash] = Field({})
    """Name of a caller -> [hash of its key](operations.md#authentication)."""
    jwt: Jwt | None = None

    @field_validator("api_keys")
    @classmethod
    def _check_keys(cls, api_keys: dict[str, str]) -> dict[str, str]:
        callers: dict[str, str] = {}
        for name, hashes in api_keys.items():
            for key in hashes.split():
                if callers.setdefault(key, name) != name:
                    raise ValueError(f"`{callers[key]}` and `{name}` have the same key: it would always be one of them")
        return api_keys

    @property
    def is_on(self) -> bool:
        """Whether requests must be authenticated."""
        return bool(self.api_keys) or self.jwt is not None

    @property
    def caller_names(self) -> list[str]:
        """Names of callers; `token:` and `group:` stand for all that begin so."""
        tokens = [] if self.jwt is None else ["token:"] if self.jwt.groups_claim is None else ["token:", "group:"]
        return [*(f"key:{name}" for name in self.api_keys), *tokens]
