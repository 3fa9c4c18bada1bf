"""Verification of signed tokens (JWT) with the public keys of their issuer. Imported if `auth.jwt` is configured."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import anyio
import jwt

from projector.contracts import codec
from projector.server.config.caller_settings import Jwt
from projector.server.config.upstream_settings import UpstreamTls
from projector.server.http.problems import problem
from projector.server.telemetry.logs import log

_FETCH_S: Final = 5.0
_KEYS_MAX_BYTES: Final = 1024 * 1024
_FRESH_S: Final = 300.0
"""Lifetime of fetched keys: a revoked key is accepted for up to five minutes."""
_MIN_FETCH_INTERVAL_S: Final = 10.0
"""Tokens with an unknown key must not cause a fetch each time."""
_CLOCK_SKEW_S: Final = 30.0
_CALLER_MAX_CHARS: Final = 256
_NOT_IN_NAMES: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, and surrogates, which JSON may contain: no store and no log can keep them."""
_GROUPS_MAX: Final = 1_000
"""Large directories name some hundreds of groups in a token."""


class TokenVerifier:
    """Verifies the tokens of one issuer."""

    def __init__(self, settings: Jwt) -> None:
        self._settings = settings
        self._keys = _keys(settings.jwks) if settings.jwks is not None else {}
        self._ssl = _ssl(settings)
        self._fetched_at = -_FRESH_S
        self._fetching = anyio.Lock()

    async def caller(self, token: str) -> tuple[str, tuple[str, ...]]:
        """Return the caller that a token names, and its groups.

        Raises:
            Problem: the token is invalid, or the keys are unavailable.
        """
        settings = self._settings
        try:
            key = await self._key(jwt.get_unverified_header(token).get("kid"))
            claims = jwt.decode(
                token,
                key,
                algorithms=list(settings.algorithms),
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=_CLOCK_SKEW_S,
                options={"require": ["exp", "iss", "aud", settings.caller_claim]},
            )
        except jwt.PyJWTError:
            raise problem("unauthenticated") from None
        name = claims[settings.caller_claim]
        if not isinstance(name, str) or not 0 < len(name) <= _CALLER_MAX_CHARS or _NOT_IN_NAMES.search(name):
            raise problem("unauthenticated")
        return name, _groups(claims.get(settings.groups_claim or ""))

    async def _key(self, key_id: object) -> jwt.PyJWK:
        if self._settings.jwks_url is not None and self._needs_fetch(key_id):
            async with self._fetching:
                if self._needs_fetch(key_id):
                    await self._fetch(self._settings.jwks_url)
        if not self._keys:
            raise problem("auth_unavailable")
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        if key_id not in self._keys:
            raise problem("unauthenticated")
        return self._keys[key_id]

    def _needs_fetch(self, key_id: object) -> bool:
        age_s = time.monotonic() - self._fetched_at
        return age_s >= _FRESH_S or (age_s >= _MIN_FETCH_INTERVAL_S and key_id not in self._keys)

    async def _fetch(self, url: str) -> None:
        """Fetch the keys; if that fails, keep the old ones."""
        self._fetched_at = time.monotonic()
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_FETCH_S), trust_env=False) as session,
                session.get(url, allow_redirects=False, raise_for_status=True, ssl=self._ssl) as response,
            ):
                self._keys = _keys(await _read(response))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, jwt.PyJWTError) as error:
            log.warning("jwks_not_fetched", error_type=type(error).__name__)


def _ssl(settings: Jwt) -> ssl.SSLContext | bool:
    """Return the context of requests for keys; raise `SettingsError` if it cannot use the file of authorities."""
    if settings.ca_file is None:
        return True
    from projector.server.tls import client_context  # noqa: PLC0415 - a start without it is faster

    return client_context(UpstreamTls(ca_file=settings.ca_file), "auth.jwt")


def _groups(claim: object) -> tuple[str, ...]:
    """Return the groups of a claim: a list, or a text with spaces between them, as `scope` is."""
    names = claim.split(" ") if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return tuple(name for name in names[:_GROUPS_MAX] if isinstance(name, str) and name)


def _keys(document: str | bytes) -> Mapping[object, jwt.PyJWK]:
    """Parse a JSON Web Key Set, without keys of unknown types; raise `ValueError` or `PyJWTError` if invalid.

    It may be empty: then no token is valid. One with keys of unknown types only is invalid.
    """
    value: Any = codec.loads(document)
    keys: Any = value.get("keys") if isinstance(value, dict) else None
    return {} if keys == [] else {key.key_id: key for key in jwt.PyJWKSet(keys).keys}


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = b""
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _KEYS_MAX_BYTES:
            break
    return body
