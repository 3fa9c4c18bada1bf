"""Authentication of callers: an API key or a signed token as bearer, of clients of Anthropic also in `x-api-key`."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import Scope

from projector.server.config.auth_settings import Auth
from projector.server.http.api_paths import client_api
from projector.server.http.problems import problem
from projector.server.telemetry.request_facts import facts_of

if TYPE_CHECKING:
    from projector.server.http.token_verifier import TokenVerifier


class Authenticator:
    """Identifies the caller of a request. If no callers are configured, everyone has access."""

    def __init__(self, auth: Auth) -> None:
        self._hashes = [
            (name, bytes.fromhex(one.removeprefix("sha256:")))
            for name, hashes in auth.api_keys.items()
            for one in hashes.split()
        ]
        self._tokens: TokenVerifier | None = None
        if auth.jwt is not None:
            from projector.server.http.token_verifier import TokenVerifier  # noqa: PLC0415 - a start without it is faster

            self._tokens = TokenVerifier(auth.jwt)

    def replace_with(self, other: Authenticator) -> None:
        """Use the callers of another authenticator from now on."""
        self._hashes, self._tokens = other._hashes, other._tokens

    async def caller(self, scope: Scope) -> str:
        """Return `key:NAME`, `token:NAME`, or `address:IP` if no callers are configured; raise `Problem` on failure."""
        name = await self._identify(scope)
        facts_of(scope).caller = name
        return name

    async def _identify(self, scope: Scope) -> str:
        if not self._hashes and self._tokens is None:
            client = scope.get("client")
            return f"address:{client[0]}" if client else "address:"
        headers = Headers(scope=scope)
        api = client_api(scope)
        own = "" if api is None else f"bearer {headers.get(api.key_header, '')}"
        kind, _, credential = headers.get("authorization", own).partition(" ")
        if kind.lower() != "bearer" or not credential:
            raise problem("unauthenticated")
        name = self._name_of_key(credential)
        if name is not None:
            return f"key:{name}"
        if self._tokens is None:
            raise problem("unauthenticated")
        name, facts_of(scope).groups = await self._tokens.caller(credential)
        return f"token:{name}"

    def _name_of_key(self, key: str) -> str | None:
        """Return the name of the caller with a key, in constant time."""
        digest = hashlib.sha256(key.encode()).digest()
        names = [name for name, known in self._hashes if hmac.compare_digest(digest, known)]
        return names[0] if names else None
