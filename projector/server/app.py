"""The application: its parts, its routes and the middleware around them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from projector.openwop.host import description as openwop
from projector.openwop.host.host import Host
from projector.server.catalog import Catalog, MakeUpstream
from projector.server.config.settings import Settings
from projector.server.http import openapi, problems
from projector.server.http.authenticator import Doorkeeper
from projector.server.http.problems import Problem
from projector.server.http.request_ids import WithRequestId
from projector.server.http.routes import ag_ui, chat, passthrough, service, workflows
from projector.server.http.routes.stream_route import Site
from projector.server.ownership import Ownership
from projector.server.streaming.registry import Streams
from projector.server.telemetry.metrics import Metrics
from projector.server.telemetry.observer import Observer, OnTerminal
from projector.server.upstream.openai_upstream import OpenAIUpstream

_CORS_HEADERS: Final = (
    "authorization",
    "content-type",
    "idempotency-key",
    "last-event-id",
    "x-request-id",
    "traceparent",
    "tracestate",
)
_CORS_EXPOSED: Final = ("x-stream-id", "x-request-id", "retry-after")

_EXCEPTION_HANDLERS: Final[Mapping[Any, Any]] = {
    Problem: problems.on_problem,
    HTTPException: problems.on_http_exception,
    Exception: problems.on_crash,
}


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
        on_terminal: is told of every stream that ended; see `projector.server.telemetry.observer`.
    """
    catalog = Catalog(settings, make_upstream)
    streams = Streams(settings.limits)
    metrics = Metrics(streams)
    observer = Observer(metrics, on_terminal)
    site = Site(settings, streams, Ownership(), Doorkeeper(settings.auth), observer)
    host = Host(catalog, site)

    async def aclose() -> None:
        await host.aclose()
        await catalog.aclose()

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None, None]:
        yield
        await aclose()

    app = Starlette(
        routes=[
            *chat.routes(catalog, site),
            *workflows.routes(catalog, site),
            *ag_ui.routes(catalog, site),
            *passthrough.routes(catalog, site),
            *host.routes(),
            *service.routes(),
        ],
        exception_handlers=_EXCEPTION_HANDLERS,
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # a redirect would name whatever host the request did
    _surround(app, settings)
    app.state.streams = streams
    app.state.aclose = aclose
    app.state.site = site
    app.state.metrics = metrics
    app.state.openapi = cache(partial(_description, app))
    return app


def _surround(app: Starlette, settings: Settings) -> None:
    """Put the middleware around the routes."""
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "POST"),
            allow_headers=_CORS_HEADERS,
            expose_headers=_CORS_EXPOSED,
        )
    app.add_middleware(WithRequestId)


def _description(app: Starlette) -> bytes:
    """Describe the routes that are there."""
    routes = {
        route.path_format: getattr(route.endpoint, "dialects", ())
        for route in app.routes
        if isinstance(route, Route) and route.include_in_schema
    }
    is_host = openwop.PATHS.keys() & routes.keys()
    return openapi.document(routes, openwop.PATHS, openwop.schemas() if is_host else {})
