"""The application: its routes, and what a request passes on its way to a stream. Pure ASGI, no layer per event."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import anyio
from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from projector import Policy, StreamContext, build_pipeline
from projector.asgi import problems, requests
from projector.asgi.memory import Account
from projector.asgi.problems import Problem, problem, problem_of_fault
from projector.asgi.relay import Relay
from projector.asgi.requests import ClientLeftError
from projector.asgi.settings import Settings
from projector.asgi.streams import Streams
from projector.asgi.upstream import OpenAIUpstream, ProviderRequest, Upstream
from projector.dialects import DIALECTS
from projector.faults import FAULTS
from projector.providers import PROVIDERS
from redaction.mint import Redactor

DEFAULT_DIALECT: Final = "public_sse_v1"

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
"""What we take over from a caller's `x-request-id`: what is safe in a header and in a log line."""


class _Asked(NamedTuple):
    body: Mapping[str, object]
    conversation_id: str | None = None


def _asked_chat(body: dict[str, Any], settings: Settings) -> _Asked:
    asked = requests.chat(body)
    return _Asked(requests.chat_body(asked, settings), asked.conversation_id)


def _asked_drop_in(body: dict[str, Any], settings: Settings, *, required: str) -> _Asked:
    return _Asked(requests.drop_in_body(body, settings, required=required))


_STREAMS: Final[tuple[tuple[str, str, Callable[[dict[str, Any], Settings], _Asked]], ...]] = (
    ("/api/v1/chat/stream", "openai_responses", _asked_chat),
    ("/v1/responses", "openai_responses", partial(_asked_drop_in, required="input")),
    ("/v1/chat/completions", "openai_chat", partial(_asked_drop_in, required="messages")),
)
"""The routes that answer with a stream: path, provider, how its body is read."""


class StreamRoute:
    """One row of `_STREAMS` as an ASGI application."""

    def __init__(
        self,
        provider: str,
        read: Callable[[dict[str, Any], Settings], _Asked],
        settings: Settings,
        upstream: Upstream,
        streams: Streams,
    ) -> None:
        self._provider = provider
        self._read = read
        self._settings = settings
        self._upstream = upstream
        self._streams = streams
        self._redactor = Redactor(Policy())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request with a stream.

        Raises:
            Problem: there is no stream for this request.
        """
        dialect = _dialect(scope)
        client = scope.get("client")
        with self._streams.admitted(client[0] if client else "") as account:
            try:
                with anyio.fail_after(self._settings.timeouts.body_s):
                    body = await requests.read_json(scope, receive, self._settings.limits.max_body_bytes, account)
            except TimeoutError:
                raise problem("request_timeout") from None
            except ClientLeftError:
                return
            relay = self._relay(self._read(body, self._settings), dialect, account)
            with self._streams.running(relay):
                await relay.run(scope, receive, send)

    def _relay(self, asked: _Asked, dialect: str, account: Account) -> Relay:
        stream_id = f"stream_{uuid.uuid4().hex}"
        pipeline = build_pipeline(
            provider=self._provider,
            dialect=dialect,
            redactor=self._redactor,
            context=StreamContext(stream_id=stream_id, conversation_id=asked.conversation_id),
            takes_host_events=self._upstream.is_recording,
        )
        request = ProviderRequest(self._provider, asked.body)
        return Relay(stream_id, pipeline, self._upstream, request, self._settings, account)


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


def create_app(settings: Settings, upstream: Upstream | None = None) -> Starlette:
    """Give the application for an upstream; without one, for the OpenAI API that the settings name.

    The running streams are in `app.state.streams`.
    """
    if upstream is None:
        upstream = OpenAIUpstream(settings)
    streams = Streams(settings.limits)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None, None]:
        yield
        await upstream.aclose()

    app = Starlette(
        routes=[
            *(
                Route(path, StreamRoute(provider, read, settings, upstream, streams), methods=["POST"])
                for path, provider, read in _STREAMS
                if provider in upstream.providers and provider in PROVIDERS
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


def _dialect(scope: Scope) -> str:
    name = QueryParams(scope["query_string"]).get("dialect", DEFAULT_DIALECT)
    if name not in DIALECTS:
        raise problem("unknown_dialect", f"`dialect` must be one of: {', '.join(sorted(DIALECTS))}.")
    return name
