"""Routes that respond with a stream: authenticate, read the body, start the session. Pure ASGI.

A JSON response is the same session with another writer (docs/decisions/0010).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from starlette.datastructures import Headers, QueryParams
from starlette.types import Receive, Scope, Send

from projector import Pipeline, StreamContext
from projector.conversation.entries import Entry
from projector.conversation.opaque import NOTHING_KEPT, Carried, KeptCall, KeptCalls, OpaqueCollector, Place
from projector.core.intake import MakeStage
from projector.dialects import DIALECTS
from projector.dialects.descriptor import DEFAULT_OPTIONS, DialectOptions
from projector.providers.descriptor import PassthroughRoute
from projector.server.catalog import AgentBinding, PassthroughBinding, chosen_dialect
from projector.server.control.callers import Grant
from projector.server.control.rate_limits import Admission
from projector.server.control.token_meter import TokenMeter
from projector.server.http.named_streams import RESPONSE_STREAM, RESPONSES, StreamName
from projector.server.http.problems import problem
from projector.server.http.request_bodies import KeptState, check_models, home_targets
from projector.server.http.requests import dialect_options, read_json
from projector.server.http.site import Site
from projector.server.http.stored_references import check_references, conversation_of
from projector.server.http.stored_streams import Claim, key_of, location, log_response, run_headers
from projector.server.opaque_state import StateSealer
from projector.server.ownership import Ownership
from projector.server.streaming.log_session import Keeping, StoredStream
from projector.server.streaming.memory import Account
from projector.server.streaming.session import ProviderSource, StreamSession
from projector.server.telemetry.reports import begin_stream
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.targets import Attempts, BodyOf, Target


class Received(NamedTuple):
    """A request whose body has been read."""

    scope: Scope
    body: dict[str, Any]
    caller: str
    account: Account
    grant: Grant
    kept: KeptCalls = NOTHING_KEPT
    """What providers want back of the calls in the body, or is sealed in it."""

    @property
    def dialect(self) -> str | None:
        """The dialect that the request selects with `?dialect=`."""
        query = self.scope["query_string"]
        return QueryParams(query).get("dialect") if query else None

    def options(self, options: DialectOptions | None = None) -> DialectOptions:
        """Return options with `?extensions=` and `?level=` of the request; raise `Problem` if one is invalid."""
        given = dialect_options(self.scope) if self.scope["query_string"] else {}
        return replace(options or DEFAULT_OPTIONS, **given) if given else options or DEFAULT_OPTIONS


def with_carried_state(received: Received, carried: Iterable[Carried], sealer: StateSealer) -> Received:
    """Return a request with what its body carries sealed; raise `Problem` if that cannot be opened.

    A call of a client that carries reasoning apart has nothing before it, unless the server has kept that.
    """
    opened = sealer.opened(received.caller, carried)
    if not opened:
        return received
    kept = dict(received.kept)
    for name, call in opened.items():
        stored = kept.get(name)
        is_same = stored is not None and stored.place == call.place  # then more may have come after it was sealed
        kept[name] = _with_stored(call, stored) if stored is not None and is_same else call
    return received._replace(kept=kept)


def _with_stored(call: KeptCall, stored: KeptCall) -> KeptCall:
    """Return what a client carries of a call, and what only the server has."""
    is_object = isinstance(stored.own, dict) and isinstance(call.own, dict)
    own = {**stored.own, **call.own} if is_object else call.own
    return call._replace(before=call.before or stored.before, own=own)


def enter_passthrough(site: Site, passthrough: PassthroughBinding, received: Received) -> tuple[Received, AgentBinding]:
    """Return a request to an API of a provider with what it carries sealed, and the binding of its model.

    Raises:
        Problem: there is no such model, or the request names or refers to what the caller may not use.
    """
    body, caller = received.body, received.caller
    binding = passthrough.binding(body.get("model"))
    received = with_carried_state(received, passthrough.route.carried(body), site.sealer)
    check_models(body, binding, received.grant)
    if site.settings.auth.is_on:
        is_forwarded = any(one.provider.api == passthrough.api for one in binding.targets.targets)
        check_references(body, site.ownership, caller, is_forwarded=is_forwarded)
    return received, binding


def caller_headers(scope: Scope, route: PassthroughRoute) -> dict[str, str]:
    """Return the headers of a request that go on to a provider with the API of its route."""
    given = Headers(scope=scope)
    return {name: ", ".join(given.getlist(name)) for name in route.headers if name in given}


NameOf: TypeAlias = Callable[[StoredStream], StreamName]
"""Returns the name of a new stream."""


class SessionRoute:
    """An ASGI application that responds with a stream."""

    def __init__(
        self,
        site: Site,
        name: str,
        open_session: Callable[[Received], StreamSession],
        name_of: NameOf | None = None,
    ) -> None:
        self._site = site
        self._name = name
        self._name_of = name_of
        self._open_session = open_session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request with a stream; raise `Problem` if there is none.

        After the middleware (proxies, host, CORS) are checked: key, route, limits of streams and rate, body, in
        `open_session` members, agent or model and references; then conversation, store and idempotency key.
        """
        site = self._site
        caller, grant = await site.authenticator.grant(scope)
        grant.check_route(self._name)
        with site.streams.admitted(caller) as account:
            admission = await site.limiter.enter(scope, caller, grant.rate_limits)
            body = await read_json(scope, receive, site.settings, account)
            await site.ownership.load(body)
            kept = await site.call_keeper.load(body, caller)
            received = Received(scope, body, caller, account, grant, kept)
            session = self._open_session(received)
            session.on_end = site.write_state  # a client may go on at once, at another server
            await site.ownership.confirm(session.stats.conversation_id, caller)
            try:
                key, is_stored = key_of(scope), self._is_stored(session)
                if key is not None and is_stored:
                    await self._run_held(key, session, received, admission, receive, send)
                    return
                if is_stored:
                    self._write_log(session, received)
                await self._run(session, scope, admission, receive, send)
            finally:
                site.write_state()

    async def _run_held(
        self, key: str, session: StreamSession, received: Received, admission: Admission, receive: Receive, send: Send
    ) -> None:
        """Run a stream that a later request finds by its idempotency key."""
        site, stream_id = self._site, session.stats.stream_id
        scope, body, caller, account, *_ = received
        claim = Claim(site.logs.store, scope, caller, key, body)
        if (status := await claim.enter(stream_id)) is not None:
            await log_response(site, status, is_json=session.is_json, account=account)(scope, receive, send)
            return
        async with claim.held(stream_id, lambda: session.has_begun):
            self._write_log(session, received)
            await self._run(session, scope, admission, receive, send)

    async def _run(
        self, session: StreamSession, scope: Scope, admission: Admission, receive: Receive, send: Send
    ) -> None:
        with self._site.streams.running(session):
            stats = session.stats
            stats.meter = await admission.take_stream(stats.meter)
            try:
                begin_stream(scope, stats)  # the observer reports its end
                await self._site.observer.run(session, scope, receive, send)
            finally:
                await admission.close(stats.code)

    def _write_log(self, session: StreamSession, received: Received) -> None:
        """Have the log of a stream written, with the name of the stream if the route has names."""
        site, stream_id, stored = self._site, session.stats.stream_id, session.keeping.stored

        def key_of(name: StreamName) -> tuple[str, str]:
            return name.kind, name.key(received.caller)

        def key_of_response(response_id: str) -> tuple[str, str]:
            return key_of(StreamName(RESPONSE_STREAM, "", response_id))

        names = [] if self._name_of is None or stored is None else [key_of(self._name_of(stored))]
        by_response = key_of_response if self._name == RESPONSES else None
        session.write_log(site.logs, site.producer, location(received.scope, stream_id), names, by_response)

    def _is_stored(self, session: StreamSession) -> bool:
        """Return whether a stream gets a log; raise `Problem` if it must have one, and the store is away."""
        if session.keeping.stored is None:
            return False
        if self._site.logs.at(session.stats.stream_id).is_available:
            return True
        if self._site.settings.store.required:
            raise problem("store_unavailable")
        self._site.logs.count_lost("unavailable")
        return False


class ProviderCall(NamedTuple):
    """A request to the provider of an agent or of a passthrough route."""

    binding: AgentBinding
    body_of: BodyOf
    """Returns the body of the request to a target; raises `Problem` if the request is not supported."""
    agent: str | None = None
    """Name of the agent, if the request contains one."""
    conversation_id: str | None = None
    metadata: Mapping[str, str] = {}
    is_stream: bool | None = True
    """Whether a stream is requested; None if the request does not specify it."""
    options: DialectOptions | None = None
    entries: Callable[[], Sequence[Entry] | None] = lambda: None
    """Returns the conversation in the request; None if it cannot be read."""
    stage_of: Callable[[Target], MakeStage] | None = None
    """Returns what makes the stage that reads a response of a target; None for each target's own."""


def provider_session(site: Site, received: Received, call: ProviderCall) -> StreamSession:
    """Return the session for the response of one provider; raise `Problem` if the caller may not make the call."""
    caller, account = received.caller, received.account
    binding, ownership = call.binding, site.ownership
    dialect, is_json = _response_mode(binding, received.dialect, is_stream=call.is_stream)
    options = received.options(call.options)
    ordered = binding.targets.in_order()
    body = call.body_of(ordered[0])
    check_ownership(ownership, body, call.conversation_id, caller)
    state = KeptState(received.kept, call.entries)
    targets = state.allowed(home_targets(body, state.first(ordered), binding.targets.targets, ownership))
    stats = binding.stats(dialect, caller, body, call.conversation_id, call.metadata, site.logs.new_id())
    record_ownership(ownership, stats, body)
    context = StreamContext(stats.stream_id, call.conversation_id, call.agent)
    previous = body.get("previous_response_id")
    continued = 0 if previous is None else ownership.tokens_of(previous)
    stats.meter = TokenMeter([binding.name] if binding.name is not None else [], body, continued)
    # the caller did not send what is kept of calls, so nothing of that may pass
    seen = received.body if received.kept else body
    redactor = binding.redactor.for_request(seen, secrets.token_bytes(16), host_adds=binding.name is not None)
    is_kept = binding.settings.store == "default"
    carries = DIALECTS[dialect].carries if site.sealer.is_on else frozenset[str]()
    written = replace(options, include_usage=True) if is_json else options

    def place() -> Place:
        return Place(stats.api, stats.upstream, stats.target_model)  # the target that the response is from

    def keep(call_id: str, own: Any, before: tuple[Any, ...]) -> None:
        site.call_keeper.keep(caller, call_id, place(), own, before)

    def seal(value: Any, before: tuple[Any, ...]) -> str | None:
        return site.sealer.seal(caller, place(), value, before)

    def make_pipeline() -> Pipeline:
        pipeline = binding.pipeline(
            redactor, stats, context, options=written, output_format="ndjson" if is_json else "sse"
        )
        if is_kept or carries:
            pipeline.keep_opaque(OpaqueCollector(keep if is_kept else None, seal, carries).add)
        return pipeline

    attempts = Attempts(targets, call.body_of, stats, state.is_lost, bodies={ordered[0]: body})
    return StreamSession(
        stats,
        ProviderSource(
            make_pipeline, attempts, stats, account, redactor, first=binding.targets.targets[0], stage_of=call.stage_of
        ),
        account,
        timeouts=site.settings.timeouts,
        heartbeat_s=site.settings.heartbeat_s,
        headers=run_headers(options),
        is_json=is_json,
        keeping=Keeping.of(
            binding.settings,
            StoredStream(
                dialect=dialect,
                dialects=binding.settings.dialects,
                options=options,
                policy=binding.redactor.policy,
                agent=call.agent,
                conversation_id=call.conversation_id,
            ),
        ),
    )


_NO_JSON_HERE: Final = "Use `POST /v1/responses`, or add a dialect to `dialects` that has one, as `responses`."


@cache
def _with_json(dialects: tuple[str, ...]) -> tuple[str, ...]:
    """Return the dialects that have a JSON response."""
    return tuple(name for name in dialects if DIALECTS[name].assembler is not None)


def _response_mode(binding: AgentBinding, dialect: str | None, *, is_stream: bool | None) -> tuple[str, bool]:
    """Return the dialect of a response and whether it is JSON; if `is_stream` is None, the dialect decides."""
    with_json = _with_json(binding.settings.dialects)
    if is_stream is False and dialect is None:
        dialect = next(iter(with_json), None)
    name = chosen_dialect(dialect, binding.settings.dialects)
    if is_stream is False and name not in with_json:
        known = ", ".join(f"`{one}`" for one in with_json)
        detail = f"`stream` must not be false: the dialect `{name}` has no JSON response."
        others = f"Dialects that have one: {known}." if known else _NO_JSON_HERE
        raise problem("invalid_request", f"{detail} {others}")
    return name, name in with_json and not is_stream


def check_ownership(ownership: Ownership, body: Mapping[str, Any], conversation_id: str | None, caller: str) -> None:
    """Raise `Problem` if a request refers to a response or conversation that is not of the caller."""
    previous = body.get("previous_response_id")
    if previous is not None:
        if not isinstance(previous, str):
            raise problem("invalid_request", "`previous_response_id` must be a string.", param="previous_response_id")
        sent = body.get("input")
        last = sent[-1] if isinstance(sent, list) and sent else None
        is_approval = isinstance(last, Mapping) and last.get("type") == "mcp_approval_response"
        ownership.check_response(previous, caller, is_approval=is_approval)
    if conversation_id is not None:
        ownership.enter_conversation(conversation_id, caller)


def record_ownership(ownership: Ownership, stats: StreamStats, body: Mapping[str, Any]) -> None:
    """Record what a response creates as its caller's, with the upstream that it is from."""
    conversation_id, caller = conversation_of(body), stats.caller

    def on_response(response_id: str, upstream: str, tokens: int) -> None:
        ownership.add("response", response_id, caller, upstream, tokens)
        if isinstance(conversation_id, str):
            ownership.add("place", conversation_id, "", upstream)

    stats.on_response = on_response
    stats.on_item = lambda item_id, upstream: ownership.add("item", item_id, caller, upstream)
    stats.on_approval = ownership.add_approval
