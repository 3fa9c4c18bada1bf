"""The application: its routes, and what a request passes on its way to a stream. Pure ASGI, no layer per event."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias

import anyio
from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from projector import StreamContext
from projector.asgi import problems, requests
from projector.asgi.bodies import agent_body, drop_in_body
from projector.asgi.catalog import Catalog, MakeUpstream, Offer
from projector.asgi.memory import Account
from projector.asgi.openai_upstream import OpenAIUpstream
from projector.asgi.problems import Problem, problem, problem_of_fault
from projector.asgi.relay import Relay
from projector.asgi.requests import ClientLeftError
from projector.asgi.settings import Settings
from projector.asgi.streams import Streams
from projector.asgi.upstream import ProviderRequest
from projector.faults import FAULTS

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
"""What we take over from a caller's `x-request-id`: what is safe in a header and in a log line."""


class Ask(NamedTuple):
    """What a request asks for."""

    offer: Offer
    body: Mapping[str, object]
    conversation_id: str | None = None


Reader: TypeAlias = Callable[[dict[str, Any]], Ask]


def _agent_reader(catalog: Catalog) -> Reader:
    def read(body: dict[str, Any]) -> Ask:
        asked = requests.chat(body)
        offer = catalog.agent(asked.agent)
        return Ask(offer, agent_body(asked, offer), asked.conversation_id)

    return read


def _drop_in_reader(offer: Offer, required: str) -> Reader:
    return lambda body: Ask(offer, drop_in_body(body, offer, required=required))


_DROP_INS: Final = (
    ("/v1/responses", "responses", "input"),
    ("/v1/chat/completions", "chat_completions", "messages"),
)
"""The routes that pass a caller's body on: path, name in the settings, the member that the body must have."""


class StreamRoute:
    """A route that answers with a stream, as an ASGI application."""

    def __init__(self, read: Reader, settings: Settings, streams: Streams) -> None:
        self._read = read
        self._settings = settings
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request with a stream.

        Raises:
            Problem: there is no stream for this request.
        """
        client = scope.get("client")
        with self._streams.admitted(client[0] if client else "") as account:
            try:
                with anyio.fail_after(self._settings.timeouts.body_s):
                    body = await requests.read_json(scope, receive, self._settings.limits.max_body_bytes, account)
            except TimeoutError:
                raise problem("request_timeout") from None
            except ClientLeftError:
                return
            relay = self._relay(self._read(body), QueryParams(scope["query_string"]).get("dialect"), account)
            with self._streams.running(relay):
                await relay.run(scope, receive, send)

    def _relay(self, ask: Ask, dialect: str | None, account: Account) -> Relay:
        stream_id = f"stream_{uuid.uuid4().hex}"
        context = StreamContext(stream_id=stream_id, conversation_id=ask.conversation_id)
        provider = ask.offer.provider
        pipeline = ask.offer.pipeline(ask.offer.dialect(dialect), context)
        request = ProviderRequest(provider.api, ask.body)
        settings = self._settings.model_copy(update={"timeouts": provider.timeouts})
        return Relay(stream_id, pipeline, provider.upstream, request, settings, account)


class WithRequestId:
    """Gives each request its id: the caller's if it is one, else a new one; read it from `scope["state"]`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] == "http":
            given = Headers(scope=scope).get("x-request-id", "")
            request_id = given if _REQUEST_ID.fullmatch(given) else f"req_{uuid.uuid4().hex}"
            scope.setdefault("state", {})["request_id"] = request_id
        await self._app(scope, receive, send)


def create_app(settings: Settings, make_upstream: MakeUpstream = OpenAIUpstream) -> Starlette:
    """Give the application that offers what the settings name.

    The running streams are in `app.state.streams`.
    """
    catalog = Catalog(settings, make_upstream)
    streams = Streams(settings.limits)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None, None]:
        yield
        await catalog.aclose()

    app = Starlette(
        routes=[
            Route("/api/v1/chat/stream", StreamRoute(_agent_reader(catalog), settings, streams), methods=["POST"]),
            *(
                Route(
                    path,
                    StreamRoute(_drop_in_reader(catalog.drop_in[name], required), settings, streams),
                    methods=["POST"],
                )
                for path, name, required in _DROP_INS
                if name in catalog.drop_in
            ),
            Route("/api/v1/streams/{stream_id}/cancel", _cancel, methods=["POST"]),
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
    app.add_middleware(WithRequestId)
    app.state.streams = streams
    return app


async def _alive(_request: Request) -> Response:
    """Say that the loop runs; nothing is asked of an upstream, which may cost money."""
    return PlainTextResponse("ok\n", headers={"cache-control": "no-store"})


async def _cancel(request: Request) -> Response:
    """End a stream; the client may not know yet that it has ended, so asking twice is no mistake."""
    streams: Streams = request.app.state.streams
    if not streams.cancel(request.path_params["stream_id"]):
        raise problem("unknown_stream")
    return Response(status_code=HTTPStatus.NO_CONTENT, headers={"x-request-id": request.state.request_id})


async def _ready(request: Request) -> Response:
    """Say whether new streams are welcome."""
    streams: Streams = request.app.state.streams
    if streams.is_draining:
        raise problem_of_fault(FAULTS["server_shutdown"])
    return await _alive(request)
