"""The application: its routes, and what a request passes on its way to a stream. Pure ASGI, no layer per event."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import anyio
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from projector import StreamContext
from projector.asgi import openapi, problems, requests, tracing
from projector.asgi.bodies import agent_body, drop_in_body
from projector.asgi.callers import Doorkeeper
from projector.asgi.catalog import Catalog, MakeUpstream, Offer
from projector.asgi.memory import Account
from projector.asgi.metrics import Metrics
from projector.asgi.observer import Observer, OnTerminal
from projector.asgi.openai_upstream import OpenAIUpstream
from projector.asgi.owners import Owners
from projector.asgi.problems import Problem, problem, problem_of_fault
from projector.asgi.record import Listener, Record
from projector.asgi.relay import Relay
from projector.asgi.request_ids import WithRequestId, request_id
from projector.asgi.requests import ClientLeftError
from projector.asgi.settings import Settings
from projector.asgi.streams import Streams
from projector.asgi.tracing import Trace
from projector.asgi.upstream import ProviderRequest
from projector.faults import FAULTS

_CORS_HEADERS: Final = ("authorization", "content-type", "x-request-id", "traceparent", "tracestate")
_CORS_EXPOSED: Final = ("x-stream-id", "x-request-id", "retry-after")


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request asks for."""

    offer: Offer
    body: Mapping[str, Any]
    agent: str | None = None
    """As the request named it."""
    conversation_id: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


Reader: TypeAlias = Callable[[dict[str, Any]], Ask]


def _agent_reader(catalog: Catalog) -> Reader:
    def read(body: dict[str, Any]) -> Ask:
        asked = requests.chat(body)
        offer = catalog.agent(asked.agent)
        return Ask(offer, agent_body(asked, offer), asked.agent, asked.conversation_id, asked.metadata or {})

    return read


def _drop_in_reader(offer: Offer, required: str) -> Reader:
    def read(body: dict[str, Any]) -> Ask:
        asked = drop_in_body(body, offer, required=required)
        return Ask(offer, asked, conversation_id=_conversation(asked.get("conversation")))

    return read


def _conversation(said: object) -> str | None:
    """Give the id of the conversation that a request of the Responses API names: itself, or in an object."""
    named = said.get("id") if isinstance(said, dict) else said
    return named if isinstance(named, str) else None


_DROP_INS: Final = (
    ("/v1/responses", "responses", "input"),
    ("/v1/chat/completions", "chat_completions", "messages"),
)
"""The routes that pass a caller's body on: path, name in the settings, the member that the body must have."""


@dataclass(frozen=True, slots=True)
class Site:
    """What all routes of one server share."""

    settings: Settings
    streams: Streams
    owners: Owners
    door: Doorkeeper
    observer: Observer


class StreamRoute:
    """A route that answers with a stream, as an ASGI application."""

    def __init__(self, read: Reader, site: Site) -> None:
        self._read = read
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request with a stream.

        Raises:
            Problem: there is no stream for this request.
        """
        site = self._site
        caller = await site.door.caller(scope)
        with site.streams.admitted(caller) as account:
            try:
                with anyio.fail_after(site.settings.timeouts.body_s):
                    body = await requests.read_json(scope, receive, site.settings.limits.max_body_bytes, account)
            except TimeoutError:
                raise problem("request_timeout") from None
            except ClientLeftError:
                return
            relay, trace = self._relay(scope, body, caller, account)
            with site.streams.running(relay):
                await site.observer.run(relay, trace, scope, receive, send)

    def _relay(self, scope: Scope, body: dict[str, Any], caller: str, account: Account) -> tuple[Relay, Trace]:
        ask = self._read(body)
        dialect = ask.offer.dialect(QueryParams(scope["query_string"]).get("dialect"))
        self._check_owner(ask, caller)
        record = _record(ask, scope, caller, dialect)
        context = StreamContext(record.stream_id, ask.conversation_id, ask.agent)
        pipeline = ask.offer.pipeline(dialect, context)
        owners = self._site.owners
        record.heard = Listener(pipeline, lambda response_id: owners.made(response_id, caller))
        trace = tracing.begin(scope, record)
        record.trace_id = trace.trace_id
        provider, settings = ask.offer.provider, self._site.settings
        relay = Relay(
            record,
            pipeline,
            provider.upstream,
            ProviderRequest(provider.api, ask.body, trace.headers),
            account,
            timeouts=provider.timeouts,
            retries=settings.retries,
            heartbeat_s=settings.heartbeat_s,
        )
        return relay, trace

    def _check_owner(self, ask: Ask, caller: str) -> None:
        previous = ask.body.get("previous_response_id")
        if isinstance(previous, str):
            self._site.owners.check_response(previous, caller)
        if ask.conversation_id is not None:
            self._site.owners.enter(ask.conversation_id, caller)


def _record(ask: Ask, scope: Scope, caller: str, dialect: str) -> Record:
    provider = ask.offer.provider
    model = ask.body.get("model")
    return Record(
        stream_id=f"stream_{uuid.uuid4().hex}",
        request_id=request_id(scope),
        dialect=dialect,
        caller=caller,
        agent=ask.offer.name,
        upstream=provider.name,
        api=provider.api,
        server_address=provider.address[0],
        server_port=provider.address[1],
        model=model if isinstance(model, str) else "",
        conversation_id=ask.conversation_id,
        metadata=ask.metadata,
    )


def create_app(
    settings: Settings,
    make_upstream: MakeUpstream = OpenAIUpstream,
    *,
    on_terminal: OnTerminal | None = None,
) -> Starlette:
    """Give the application that offers what the settings name; it can be mounted in another.

    The running streams are in `app.state.streams`. Where the host does not run its lifespan, as under `Mount`, the host
    calls `app.state.aclose()` at its end.

    Args:
        settings: who may come in, what is offered.
        make_upstream: gives the upstream for its settings.
        on_terminal: is told of every stream that ended; see `projector.asgi.observer`.
    """
    catalog = Catalog(settings, make_upstream)
    streams = Streams(settings.limits)
    metrics = Metrics(streams)
    observer = Observer(metrics, on_terminal)
    site = Site(settings, streams, Owners(), Doorkeeper(settings.auth), observer)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None, None]:
        yield
        await catalog.aclose()

    app = Starlette(
        routes=[
            *_stream_routes(catalog, site),
            Route("/api/v1/streams/{stream_id}/cancel", _cancel, methods=["POST"]),
            Route("/openapi.json", _openapi),
            Route("/metrics", _metrics),
            Route("/livez", _alive),
            Route("/healthz", _alive),
            Route("/readyz", _ready),
        ],
        exception_handlers={
            Problem: problems.on_problem,
            HTTPException: problems.on_http_exception,
            Exception: problems.on_crash,
        },
        lifespan=lifespan,
    )
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "POST"),
            allow_headers=_CORS_HEADERS,
            expose_headers=_CORS_EXPOSED,
        )
    app.add_middleware(WithRequestId)
    app.state.streams = streams
    app.state.aclose = catalog.aclose
    app.state.site = site
    app.state.metrics = metrics
    app.state.openapi = openapi.document([route.path for route in app.routes if isinstance(route, Route)])
    return app


def _stream_routes(catalog: Catalog, site: Site) -> list[Route]:
    readers = {
        path: _drop_in_reader(catalog.drop_in[name], required)
        for path, name, required in _DROP_INS
        if name in catalog.drop_in
    }
    if catalog.has_agents:
        readers["/api/v1/chat/stream"] = _agent_reader(catalog)
    return [Route(path, StreamRoute(reader, site), methods=["POST"]) for path, reader in readers.items()]


async def _alive(_request: Request) -> Response:
    """Say that the loop runs; nothing is asked of an upstream, which may cost money."""
    return PlainTextResponse("ok\n", headers={"cache-control": "no-store"})


async def _cancel(request: Request) -> Response:
    """End a stream; the client may not know yet that it has ended, so asking twice is no mistake."""
    site: Site = request.app.state.site
    caller = await site.door.caller(request.scope)
    if not site.streams.cancel(request.path_params["stream_id"], caller):
        raise problem("unknown_stream")
    return Response(status_code=HTTPStatus.NO_CONTENT, headers={"x-request-id": request.state.request_id})


async def _metrics(request: Request) -> Response:
    """Give the metrics; they hold no ids and nothing of a payload."""
    return Response(request.app.state.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})


async def _openapi(request: Request) -> Response:
    """Give the description of this server."""
    return Response(request.app.state.openapi, media_type="application/json")


async def _ready(request: Request) -> Response:
    """Say whether new streams are welcome."""
    streams: Streams = request.app.state.streams
    if streams.is_draining:
        raise problem_of_fault(FAULTS["server_shutdown"])
    return await _alive(request)
