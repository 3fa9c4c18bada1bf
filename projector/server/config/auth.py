"""The table `[auth]`: who may come in. `projector.server.http.authenticator` asks them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from projector.server.config.config_base import BaseUrl, Name, Table, written_as

Sha256: TypeAlias = Annotated[
    str, written_as(r"sha256:[0-9a-f]{64}", "the hash of a key: `sha256:` and 64 hexadecimal digits")
]
Algorithm: TypeAlias = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class Jwt(Table):
    """Tokens that somebody else signs; each must name issuer and audience, and when it ends."""

    issuer: str = Field(min_length=1)
    audience: str = Field(min_length=1)
    jwks_url: BaseUrl | None = None
    """Where the public keys are; or `jwks_file`, a file that holds them."""
    jwks: str | None = None
    jwks_file: Path | None = None
    algorithms: tuple[Algorithm, ...] = Field(("RS256", "ES256"), min_length=1)
    """With public keys only: a shared secret would be one more to lose."""
    caller_claim: str = Field("sub", min_length=1)

    @model_validator(mode="after")
    def _has_keys(self) -> Jwt:
        if (self.jwks_url is None) == (self.jwks is None):
            raise ValueError("expected either `jwks_url` or `jwks_file`")
        return self


class Auth(Table):
    """Who may come in; nobody named means everybody, on loopback only."""

    api_keys: dict[Name, Sha256] = Field({})
    """Name of a caller, and the hash of its key."""
    jwt: Jwt | None = None

    @property
    def is_on(self) -> bool:
        """Whether a caller must show who it is."""
        return bool(self.api_keys) or self.jwt is not None
