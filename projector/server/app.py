"""The ASGI application: its components, routes and middleware."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final, Protocol

from starlette.applications import Starlette
from starlette.datastructures import State
from starlette.exceptions import HTTPException
from starlette.routing import Route

from projector._errors import check_argument
from projector._registry import resolve
from projector.server.catalog import Catalog, MakeUpstream, provider_upstream
from projector.server.config.settings import Settings
from projector.server.config.store_settings import decoded_key
from projector.server.control import rate_limits
from projector.server.control.rate_limits import FallbackBudgets, RateLimiter
from projector.server.control.rights import Rights
from projector.server.http import openapi
from projector.server.http.authenticator import Authenticator
from projector.server.http.cors import Cors
from projector.server.http.error_responses import respond, response_status
from projector.server.http.hosts import HostCheck, TrustedProxies
from projector.server.http.internal_routes import HEALTH_ROUTES, INTERNAL_ROUTES
from projector.server.http.model_routes import NotServed
from projector.server.http.problems import Problem
from projector.server.http.recent_streams import RecentStreams
from projector.server.http.routes import routes
from projector.server.http.site import Site
from projector.server.kept_calls import CallKeeper
from projector.server.ownership import Ownership
from projector.server.sealed_state import StateSealer
from projector.server.stored import make_store
from projector.server.streaming.local_logs import make_logs
from projector.server.streaming.registry import Streams
from projector.server.streaming.stream_logs import StreamLogs
from projector.server.telemetry.metrics import Metrics
from projector.server.telemetry.observer import Observer, OnTerminal, check_hook
from projector.server.telemetry.request_log import RequestLog
from projector.server.upstream.circuit import Circuits
from projector.store.budgets import Budgets

_CORS_HEADERS: Final = (
    "authorization", "content-type", "idempotency-key", "last-event-id", "x-request-id", "x-run-id", "traceparent",
    "tracestate",
)  # fmt: skip
_CORS_EXPOSED: Final = (
    "location",
    "x-stream-id",
    "x-run-id",
    "x-request-id",
    "retry-after",
    "x-should-retry",
    *rate_limits.HEADERS,
)


def create_app(
    settings: Settings,
    make_upstream: MakeUpstream = provider_upstream,
    *,
    on_terminal: OnTerminal | None = None,
    budgets: Budgets | None = None,
) -> Starlette:
    """Return the application for these settings. It can be mounted in another application.

    The running streams are in `app.state.streams`. With the table `admin` in the settings, the application for that
    listener is `app.state.admin`. An application that is mounted does not receive lifespan events: the
    outer application must await `app.state.aclose()` on shutdown.

    Args:
        settings: as `load_settings` returns them.
        make_upstream: creates an upstream from its settings, instead of the class that the provider names.
        on_terminal: called for every stream that ends; see `projector.server.telemetry.observer`.
        budgets: where the use of rate limits is counted; in the store by default.

    Raises:
        UsageError: settings or a hook of another type.
    """
    expected = "`Settings`; `load_settings` and `Settings.model_validate` make one"
    check_argument("settings", expected, holds=isinstance(settings, Settings))
    check_hook(on_terminal)
    streams = Streams(settings.limits)
    circuits = Circuits(settings.circuit_breaker)
    producer = f"process_{uuid.uuid4().hex}"
    store = make_store(settings, producer)
    logs = make_logs(store, unread_s=settings.store.unread_s)
    metrics = Metrics(streams, circuits, logs)
    observer = Observer(metrics, on_terminal, response_status)
    if budgets is None:
        budgets = store.budgets if settings.store.kind == "memory" else FallbackBudgets(store.budgets, logs)
    outlasting = None if settings.store.kind == "memory" else store
    shared = Shared(
        streams,
        Ownership(outlasting),
        CallKeeper(outlasting, settings.store.calls_s),
        Authenticator(settings.auth),
        Rights(settings.callers),
        _limiter(settings, budgets),
        budgets,
        observer,
        metrics,
        make_upstream,
        circuits,
        logs,
        producer,
    )
    return _build(settings, shared, is_first=True)


def rebuild(app: Starlette, settings: Settings) -> Starlette:
    """Return an application with other settings that shares everything that lasts with `app`.

    Limits and authentication change for both, once its `state.activate()` is called.
    """
    shared: Shared = app.state.shared
    return _build(settings, shared, is_first=False)


class Extension(Protocol):
    """A running extension (`projector.server.config.extensions`), created with its table, the catalog and the site."""

    def routes(self) -> list[Route]:
        """Return the routes that the extension adds."""

    def openapi(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the OpenAPI path items of the routes, and the schemas that these refer to."""

    async def aclose(self) -> None:
        """Cancel what is running and release all resources."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What outlasts a change of the settings."""

    streams: Streams
    ownership: Ownership
    call_keeper: CallKeeper
    authenticator: Authenticator
    rights: Rights
    limiter: RateLimiter
    budgets: Budgets
    observer: Observer
    metrics: Metrics
    make_upstream: MakeUpstream
    circuits: Circuits
    logs: StreamLogs
    producer: str
    """ID of this process in the store."""
    extensions: list[Extension] = field(default_factory=list)
    """Running extensions. They keep the agents and upstreams of the first settings."""
    catalogs: list[Catalog] = field(default_factory=list)
    """Catalogs that the extensions use."""

    async def aclose(self) -> None:
        """Close the extensions and what they use."""
        for extension in self.extensions:
            await extension.aclose()
        for catalog in self.catalogs:
            await catalog.aclose()
        await self.ownership.aclose()
        await self.call_keeper.aclose()
        await self.logs.aclose()


def _build(settings: Settings, shared: Shared, *, is_first: bool) -> Starlette:
    catalog = Catalog(settings, shared.make_upstream, shared.circuits)
    authenticator = Authenticator(settings.auth)
    rights, limiter = Rights(settings.callers), _limiter(settings, shared.budgets)
    site = Site(
        settings,
        shared.streams,
        shared.ownership,
        shared.call_keeper,
        StateSealer([decoded_key(key) for key in settings.state_encryption_keys]),
        shared.authenticator,
        shared.rights,
        shared.limiter,
        shared.observer,
        shared.logs,
        shared.producer,
    )
    if is_first and settings.extensions:
        shared.extensions.extend(resolve(table.extension)(table, catalog, site) for table in settings.extensions)
        shared.catalogs.append(catalog)

    def activate() -> None:
        shared.authenticator.replace_with(authenticator)
        shared.rights.replace_with(rights)
        shared.limiter.replace_with(limiter)
        shared.streams.set_limits(settings.limits)
        shared.circuits.use(settings.circuit_breaker, *(one.keys for one in (catalog, *shared.catalogs)))

    async def release() -> None:
        if catalog not in shared.catalogs:
            await catalog.aclose()

    async def aclose() -> None:
        await shared.aclose()
        await release()

    app = _starlette(settings, catalog, site, shared.extensions, aclose)
    if settings.allowed_hosts:
        app.add_middleware(HostCheck, allowed=settings.allowed_hosts)
    app.add_middleware(RequestLog, metrics=shared.metrics)
    if settings.trusted_proxies:
        app.add_middleware(TrustedProxies, settings=settings)
    app.state.streams = shared.streams
    app.state.shared = shared
    app.state.activate = activate
    app.state.release = release
    app.state.compile = catalog.compile
    app.state.aclose = aclose
    app.state.site = site
    app.state.logs = shared.logs
    app.state.metrics = shared.metrics
    app.state.openapi = cache(partial(_openapi, app, shared.extensions))
    is_shown = settings.admin is not None and settings.admin.streams
    recent = RecentStreams(catalog, is_for_operators=True)
    app.state.admin = _admin_app(app.state, recent.routes() if is_shown else ())
    return app


def _limiter(settings: Settings, budgets: Budgets) -> RateLimiter:
    return RateLimiter(budgets, {name: agent.rate_limits for name, agent in settings.agents.items()})


def _starlette(
    settings: Settings,
    catalog: Catalog,
    site: Site,
    extensions: Sequence[Extension],
    aclose: Callable[[], Awaitable[None]],
) -> Starlette:
    """Return the application with its routes and middleware."""
    logs = site.logs

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None, None]:
        logs.check_store()
        yield
        await aclose()

    served = [*routes(catalog, site), *(route for extension in extensions for route in extension.routes())]
    app = Starlette(
        routes=[*served, Route("/v1/{path:path}", NotServed(served), include_in_schema=False)],
        exception_handlers=dict.fromkeys((Problem, HTTPException, Exception), respond),
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # the redirect would contain the host name of the request, which is untrusted
    if settings.cors_origins:
        app.add_middleware(
            Cors,
            allow_origins=settings.cors_origins,
            allow_methods=("DELETE", "GET", "POST"),
            allow_headers=_CORS_HEADERS,
            expose_headers=_CORS_EXPOSED,
        )
    return app


def _openapi(app: Starlette, extensions: Iterable[Extension]) -> bytes:
    routes = {
        route.path_format: getattr(route.endpoint, "dialects", ())
        for route in app.routes
        if isinstance(route, Route) and route.include_in_schema
    }
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for extension in extensions:
        more_paths, more_schemas = extension.openapi()
        paths |= more_paths
        schemas |= more_schemas
    return openapi.document(routes, paths, schemas)


def _admin_app(state: State, more: Sequence[Route]) -> Starlette:
    """Return the application of the admin listener: metrics, document and probes of the application with this state."""
    app = Starlette(
        routes=[*HEALTH_ROUTES, *INTERNAL_ROUTES, *more],
        exception_handlers=dict.fromkeys((Problem, HTTPException, Exception), respond),
    )
    app.state = state
    app.router.redirect_slashes = False
    app.add_middleware(RequestLog, metrics=state.metrics)
    return app
