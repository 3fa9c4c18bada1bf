"""Tables for how callers prove who they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from projector.server.config.config_base import BaseUrl, Name, Table, matching

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
    """URL of the issuer's public keys; alternatively `jwks_file`."""
    jwks: str | None = None
    """The public keys themselves."""
    jwks_file: Path | None = None
    """File with the public keys."""
    ca_file: Path | None = None
    """File with the certificates of the authorities that are trusted for `jwks_url`, instead of those of the system."""
    algorithms: tuple[Algorithm, ...] = Field(("RS256", "ES256"), min_length=1)
    """Accepted signature algorithms; only those with public keys, so that the server holds no secret."""
    caller_claim: str = Field("sub", min_length=1)
    """Claim with the name of the caller."""
    groups_claim: str | None = Field(None, min_length=1)
    """Claim with the groups of the caller, such as `scope` or `roles`: a list, or names with spaces between them."""

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
    """Name of a caller -> hash of its key; while a key is replaced, those of the old and the new one."""
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
