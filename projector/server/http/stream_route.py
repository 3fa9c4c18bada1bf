"""Routes that respond with a stream: authenticate, read the body, start the session. Pure ASGI.

A JSON response is the same session with another writer (docs/decisions/0010).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from projector import StreamContext
from projector.dialects import DIALECTS
from projector.dialects.descriptor import DialectOptions
from projector.server.catalog import AgentBinding, chosen_dialect
from projector.server.config.settings import Settings
from projector.server.control.rate_limits import Admission, RateLimiter
from projector.server.control.rights import Grant, Rights
from projector.server.control.token_meter import TokenMeter
from projector.server.http.authenticator import Authenticator
from projector.server.http.problems import problem
from projector.server.http.requests import ClientLeftError, read_json
from projector.server.ownership import Ownership
from projector.server.streaming.memory import Account
from projector.server.streaming.registry import Streams
from projector.server.streaming.response_writer import JsonResponseWriter, ResponseWriter
from projector.server.streaming.session import ProviderSource, StreamSession
from projector.server.telemetry.observer import Observer
from projector.server.telemetry.request_facts import facts_of
from projector.server.telemetry.tracing import begin_stream

_SWITCH: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Site:
    """The components that all routes of a server share."""

    settings: Settings
    streams: Streams
    ownership: Ownership
    authenticator: Authenticator
    rights: Rights
    limiter: RateLimiter
    observer: Observer

    async def grant(self, scope: Scope) -> tuple[str, Grant]:
        """Return the caller of a request, and what it may use; raise `Problem` if it is not authenticated."""
        caller = await self.authenticator.caller(scope)
        return caller, self.rights.of(caller, facts_of(scope).groups)

    async def admission(self, scope: Scope, caller: str, grant: Grant) -> Admission:
        """Return what a request takes from the budgets of its caller; raise `Problem` if a limit is reached."""
        return await self.limiter.enter(scope, caller, grant.rate_limits)


class Received(NamedTuple):
    """A request whose body has been read."""

    scope: Scope
    body: dict[str, Any]
    caller: str
    account: Account
    grant: Grant

    @property
    def dialect(self) -> str | None:
        """The dialect that the request selects with `?dialect=`."""
        return QueryParams(self.scope["query_string"]).get("dialect")

    def options(self, options: DialectOptions | None = None) -> DialectOptions:
        """Return options with `?extensions=` of the request; raise `Problem` if it is invalid."""
        given = QueryParams(self.scope["query_string"]).get("extensions", "false")
        if given not in _SWITCH:
            raise problem("invalid_request", "`extensions` must be true or false.", param="extensions")
        return replace(options or DialectOptions(), extensions=_SWITCH[given])


class SessionRoute:
    """An ASGI application that responds with a stream; the OpenAPI document lists its dialects."""

    def __init__(
        self, site: Site, name: str, open_session: Callable[[Received], StreamSession], dialects: Collection[str]
    ) -> None:
        self._site = site
        self._name = name
        self._open_session = open_session
        self.dialects = dialects

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request with a stream; raise `Problem` if there is none."""
        site = self._site
        caller, grant = await site.grant(scope)
        grant.check_route(self._name)
        with site.streams.admitted(caller) as account:
            admission = await site.admission(scope, caller, grant)
            try:
                body = await read_json(scope, receive, site.settings, account)
            except ClientLeftError:
                return
            session = self._open_session(Received(scope, body, caller, account, grant))
            with site.streams.running(session):
                async with admission.stream(session.stats):
                    await site.observer.run(session, scope, receive, send)


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """A request to the provider of an agent or of a passthrough route."""

    binding: AgentBinding
    body: Mapping[str, Any]
    agent: str | None = None
    """Name of the agent, if the request contains one."""
    conversation_id: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    is_stream: bool | None = True
    """Whether a stream is requested; None if the request does not specify it."""
    options: DialectOptions | None = None


def provider_session(site: Site, received: Received, call: ProviderCall) -> StreamSession:
    """Return the session for the response of one provider; raise `Problem` if the caller may not make the call."""
    scope, caller, account = received.scope, received.caller, received.account
    dialect, is_json = _response_mode(call.binding, received.dialect, is_stream=call.is_stream)
    _check_ownership(site.ownership, call, caller)
    facts = call.binding.stats(dialect, caller, call.body, call.conversation_id, call.metadata)
    facts.on_response = lambda response_id: site.ownership.add_response(response_id, caller)
    facts.on_item = lambda item_id: site.ownership.add_item(item_id, caller)
    facts.on_approval = site.ownership.add_approval
    options = received.options(call.options)
    stats = begin_stream(scope, facts)
    context = StreamContext(stats.stream_id, call.conversation_id, call.agent)
    stats.meter = TokenMeter([call.binding.name] if call.binding.name is not None else [], call.body)
    provider = call.binding.provider
    pipeline = provider.pipeline(
        call.binding.redactor,
        stats,
        context,
        options=replace(options, include_usage=options.include_usage or is_json),
        output_format="ndjson" if is_json else "sse",
    )
    return StreamSession(
        stats,
        ProviderSource(pipeline, provider.reader(call.body, stats, account)),
        account,
        timeouts=provider.timeouts,
        heartbeat_s=math.inf if is_json else site.settings.heartbeat_s,
        writer_type=JsonResponseWriter if is_json else ResponseWriter,
    )


def _response_mode(binding: AgentBinding, dialect: str | None, *, is_stream: bool | None) -> tuple[str, bool]:
    """Return the dialect of a response and whether it is JSON; if `is_stream` is None, the dialect decides."""
    with_json = [name for name in binding.settings.dialects if DIALECTS[name].assembler is not None]
    if is_stream is False and dialect is None:
        dialect = next(iter(with_json), None)
    name = chosen_dialect(dialect, binding.settings.dialects)
    if is_stream is False and name not in with_json:
        known = ", ".join(f"`{one}`" for one in with_json)
        detail = f"`stream` must not be false: the dialect `{name}` has no JSON response."
        raise problem("invalid_request", f"{detail} Dialects that have one: {known}." if known else detail)
    return name, name in with_json and not is_stream


def _check_ownership(ownership: Ownership, call: ProviderCall, caller: str) -> None:
    previous = call.body.get("previous_response_id")
    if previous is not None:
        if not isinstance(previous, str):
            raise problem("invalid_request", "`previous_response_id` must be a string.")
        ownership.check_response(previous, caller)
    if call.conversation_id is not None:
        ownership.enter_conversation(call.conversation_id, caller)
