"""Who comes in: an API key or a signed token in `Authorization: Bearer`, or everybody where nobody is named."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import anyio
import jwt
import structlog
from starlette.datastructures import Headers
from starlette.types import Scope

from projector.contracts import codec
from projector.server.config.settings import Auth, Jwt
from projector.server.http.problems import problem

log: Final = structlog.get_logger()

_FETCH_S: Final = 5.0
_KEYS_MAX_BYTES: Final = 1024 * 1024
_FRESH_S: Final = 300.0
"""How long fetched keys are used: who withdraws a key waits five minutes."""
_AGAIN_S: Final = 10.0
"""Between two fetches, whatever tokens come: one of an unknown key must not make us ask each time."""
_CLOCKS_DIFFER_S: Final = 30.0
_CALLER_MAX_CHARS: Final = 256


class Authenticator:
    """Tells who a request is from."""

    def __init__(self, auth: Auth) -> None:
        self._hashes = {name: bytes.fromhex(text.removeprefix("sha256:")) for name, text in auth.api_keys.items()}
        self._tokens = Tokens(auth.jwt) if auth.jwt is not None else None

    async def caller(self, scope: Scope) -> str:
        """Give the name of the caller, the same for each of its requests and for nobody else's.

        Raises:
            Problem: nobody that is known here, or the keys to check it with could not be had.
        """
        if not self._hashes and self._tokens is None:
            client = scope.get("client")
            return f"address:{client[0]}" if client else "address:"
        kind, _, credential = Headers(scope=scope).get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not credential:
            raise problem("unauthenticated")
        name = self._named_by(credential)
        if name is not None:
            return f"key:{name}"
        if self._tokens is None:
            raise problem("unauthenticated")
        return f"token:{await self._tokens.caller(credential)}"

    def _named_by(self, key: str) -> str | None:
        """Give whose key it is; as long as it takes for one it takes for all."""
        shown = hashlib.sha256(key.encode()).digest()
        names = [name for name, known in self._hashes.items() if hmac.compare_digest(shown, known)]
        return names[0] if names else None


class Tokens:
    """Checks tokens with the keys of their issuer."""

    def __init__(self, settings: Jwt) -> None:
        self._settings = settings
        self._keys = _keys(settings.jwks) if settings.jwks is not None else {}
        self._fetched_at = -_FRESH_S
        self._fetching = anyio.Lock()

    async def caller(self, token: str) -> str:
        """Give whom a token names.

        Raises:
            Problem: the token is none of our issuer's for us, or has ended; or there are no keys to check it with.
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
                leeway=_CLOCKS_DIFFER_S,
                options={"require": ["exp", "iss", "aud", settings.caller_claim]},
            )
        except jwt.PyJWTError:
            raise problem("unauthenticated") from None
        named = claims[settings.caller_claim]
        if not isinstance(named, str) or not 0 < len(named) <= _CALLER_MAX_CHARS:
            raise problem("unauthenticated")
        return named

    async def _key(self, key_id: object) -> jwt.PyJWK:
        if self._settings.jwks_url is not None and self._is_worth_a_look(key_id):
            async with self._fetching:
                if self._is_worth_a_look(key_id):
                    await self._fetch(self._settings.jwks_url)
        if not self._keys:
            raise problem("auth_unavailable")
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        if key_id not in self._keys:
            raise problem("unauthenticated")
        return self._keys[key_id]

    def _is_worth_a_look(self, key_id: object) -> bool:
        age_s = time.monotonic() - self._fetched_at
        return age_s >= _FRESH_S or (age_s >= _AGAIN_S and key_id not in self._keys)

    async def _fetch(self, url: str) -> None:
        """Renew the keys; where that fails the old ones go on."""
        self._fetched_at = time.monotonic()
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_FETCH_S), trust_env=False) as session,
                session.get(url, allow_redirects=False, raise_for_status=True) as response,
            ):
                self._keys = _keys(await _read(response)) or self._keys
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, jwt.PyJWTError) as error:
            log.warning("jwks_not_fetched", error_type=type(error).__name__)


def _keys(document: str | bytes) -> Mapping[object, jwt.PyJWK]:
    """Read a JSON Web Key Set; keys of kinds that are not known are left out.

    Raises:
        ValueError, PyJWTError: it is none.
    """
    value: Any = codec.loads(document)
    keys = value.get("keys", []) if isinstance(value, dict) else []
    return {key.key_id: key for key in jwt.PyJWKSet(keys).keys}


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Read a body that is not larger than keys are; of another one, its beginning."""
    body = b""
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _KEYS_MAX_BYTES:
            break
    return body
