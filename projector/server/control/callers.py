"""Callers: who sends a request, and which agents, workflows, models and routes it may use.

An API key or a signed token is sent as bearer, by clients of Anthropic also in `x-api-key`. What a caller may not use
does not exist for it: it is in no list, and a request for it gets the 404 of an unknown name. Only a route is refused
with 403, because routes are public.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import Scope

from projector.server.config.caller_settings import ALL, EVERY_CALLER, RIGHTS, Auth, CallerSettings, Right
from projector.server.control.rate_limits import limits_of
from projector.server.http.problems import Problem, problem
from projector.server.telemetry.request_facts import client_api, client_of, facts_of
from projector.store.budgets import Limit

if TYPE_CHECKING:
    from projector.server.http.token_verifier import TokenVerifier


@dataclass(frozen=True, slots=True)
class Grant:
    """What one caller may use, and how much."""

    names: Mapping[Right, frozenset[str]]
    """What it may use of each kind; of a kind that is missing everything."""
    rate_limits: Sequence[Limit]

    def check_route(self, name: str) -> None:
        """Raise `Problem` if the caller may not use a route."""
        if not self.allows("routes", name):
            raise problem("permission_denied")

    def allows(self, kind: Right, name: str) -> bool:
        """Return whether the caller may use an agent, a workflow, a route, or a model of a passthrough route."""
        return kind not in self.names or name in self.names[kind]


def grant_of(table: CallerSettings) -> Grant:
    """Return the rights of a table that is complete."""
    names = {kind: frozenset(chosen) for kind in RIGHTS if (chosen := getattr(table, kind)) is not None}
    return Grant({kind: chosen for kind, chosen in names.items() if ALL not in chosen}, limits_of(table.rate_limits))


class Authenticator:
    """Identifies the caller of a request, and knows its rights. If no callers are configured, everyone has access.

    Args:
        auth: how callers are known.
        tables: what they may use.
    """

    def __init__(self, auth: Auth, tables: Mapping[str, CallerSettings] | None = None) -> None:
        tables = tables or {}
        default = tables.get(EVERY_CALLER, CallerSettings())
        self._grants = {name: grant_of(table.over(default)) for name, table in tables.items()}
        self._default = grant_of(default)
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
        """Use the callers and rights of another authenticator from now on."""
        self._hashes, self._tokens = other._hashes, other._tokens
        self._grants, self._default = other._grants, other._default

    async def grant(self, scope: Scope) -> tuple[str, Grant]:
        """Return the caller of a request, and what it may use; raise `Problem` on failure."""
        caller = await self.caller(scope)
        return caller, self.grant_of(caller, facts_of(scope).groups)

    def grant_of(self, caller: str, groups: Collection[str]) -> Grant:
        """Return what a caller may use now: by its own table, else by that of its first group, else by the default."""
        if caller in self._grants or not self._grants:
            return self._grants.get(caller, self._default)
        named = {f"group:{name}" for name in groups}
        return next((grant for name, grant in self._grants.items() if name in named), self._default)

    async def caller(self, scope: Scope) -> str:
        """Return `key:NAME`, `token:NAME`, or `address:IP` if no callers are configured; raise `Problem` on failure."""
        facts = facts_of(scope)
        if not self._hashes and self._tokens is None:
            facts.caller = f"address:{client_of(scope) or ''}"
            return facts.caller
        headers = Headers(scope=scope)
        given = headers.get("authorization")
        if given is None and (api := client_api(scope)) is not None:
            given = f"bearer {headers.get(api.key_header, '')}"
        kind, _, credential = (given or "").partition(" ")
        is_bearer = kind.lower() == "bearer" and bool(credential)
        digest = hashlib.sha256(credential.encode()).digest()
        names = [name for name, known in self._hashes if hmac.compare_digest(digest, known)]  # in constant time
        if names and is_bearer:
            facts.caller = f"key:{names[0]}"
            return facts.caller
        facts.address = client_of(scope)
        if not is_bearer or self._tokens is None:
            raise _unauthenticated(scope)
        name, facts.groups = await self._tokens.caller(credential)
        facts.caller = f"token:{name}"
        return facts.caller


def _unauthenticated(scope: Scope) -> Problem:
    """Return the problem of a request without a valid key, with the headers that its client may use."""
    api = client_api(scope)
    own = None if api is None else f"A valid API key is required, sent as `{api.key_header}: KEY` or as bearer token."
    return problem("unauthenticated", own)
