"""The ASGI application: its components, store, routes and middleware; and how its settings are replaced as it runs.

Each reload builds a new application for new requests. Requests that are already running finish in the old one, with
its agents and upstream connections, which are closed after the last of them. Running streams, owners and metrics are
shared by all (`projector.server.http.site.Site`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.datastructures import State
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from projector._errors import UsageError, check_argument, missing_package
from projector._registry import resolve
from projector.server.catalog import Catalog, MakeUpstream, provider_upstream
from projector.server.config.loading import SettingsError
from projector.server.config.preflight import certificate_ends, warnings
from projector.server.config.settings import NEEDS_RESTART, Settings, check_access
from projector.server.config.store_settings import StoreSettings, decoded_key
from projector.server.control import rate_limits
from projector.server.control.callers import Authenticator
from projector.server.control.rate_limits import FallbackBudgets, RateLimiter
from projector.server.http.hosts import LOCAL, PROBES, Cors, HostCheck, TrustedProxies
from projector.server.http.internal_routes import HEALTH_ROUTES, INTERNAL_ROUTES, document
from projector.server.http.model_routes import NotServed
from projector.server.http.pages import RecentStreams
from projector.server.http.problems import ClientLeftError, Problem, respond, response_status
from projector.server.http.routes import routes
from projector.server.http.site import Extension, Site
from projector.server.opaque_state import CallKeeper, StateSealer
from projector.server.ownership import Ownership
from projector.server.streaming.local_logs import LocalLogs
from projector.server.streaming.registry import Streams
from projector.server.streaming.stream_logs import StreamLogs
from projector.server.telemetry.logs import log
from projector.server.telemetry.metrics import Metrics
from projector.server.telemetry.reports import Observer, OnTerminal, RequestLog, check_hook
from projector.server.telemetry.request_facts import facts_of
from projector.server.upstream.circuit import Circuits
from projector.store.budgets import Budgets
from projector.store.memory import MemoryStore
from projector.store.protocol import Store, StoreLimits, StoreUnavailableError

if TYPE_CHECKING:
    from projector.store.redis_store import RedisStore

ANSWERED: Final = (Problem, HTTPException, StoreUnavailableError, ClientLeftError, Exception)
"""Exceptions that are answered with an error response; the last one is logged, too."""
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
        on_terminal: called for every stream that ends; see `projector.server.telemetry.reports`.
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
    logs = make_logs(settings, producer)
    metrics = Metrics(streams, circuits, logs)
    outlasting = None if settings.store.kind == "memory" else logs.store
    if budgets is None:
        budgets = logs.store.budgets if outlasting is None else FallbackBudgets(outlasting.budgets, logs)
    site = Site(
        settings,
        streams,
        Ownership(outlasting),
        CallKeeper(outlasting, settings.store.calls_s),
        _sealer(settings),
        Authenticator(settings.auth, settings.callers),
        _limiter(settings, budgets),
        Observer(metrics, on_terminal, response_status),
        metrics,
        logs,
        producer,
        circuits,
        make_upstream,
    )
    return _build(site, is_first=True)


def rebuild(app: Starlette, settings: Settings) -> Starlette:
    """Return an application with other settings that shares everything that lasts with `app`.

    Limits and authentication change for both, once its `state.activate()` is called.
    """
    return _build(replace(app.state.site, settings=settings, sealer=_sealer(settings)), is_first=False)


def _build(site: Site, *, is_first: bool) -> Starlette:
    settings = site.settings
    catalog = Catalog(settings, site.make_upstream, site.circuits)
    authenticator = Authenticator(settings.auth, settings.callers)
    limiter = _limiter(settings, site.limiter.budgets)
    if is_first and settings.extensions:
        site.extensions.extend(resolve(table.extension)(table, catalog, site) for table in settings.extensions)
        site.catalogs.append(catalog)

    def activate() -> None:
        site.authenticator.replace_with(authenticator)
        site.limiter.replace_with(limiter)
        site.streams.set_limits(settings.limits)
        site.circuits.use(settings.circuit_breaker, *(one.keys for one in (catalog, *site.catalogs)))

    async def release() -> None:
        if catalog not in site.catalogs:
            await catalog.aclose()

    async def aclose() -> None:
        await site.aclose()
        await release()

    app = _starlette(catalog, site, aclose)
    if settings.allowed_hosts:
        app.add_middleware(HostCheck, allowed=settings.allowed_hosts)
    app.add_middleware(RequestLog, metrics=site.metrics)
    if settings.trusted_proxies:
        app.add_middleware(TrustedProxies, settings=settings)
    state = app.state
    state.site, state.streams, state.logs, state.metrics = site, site.streams, site.logs, site.metrics
    state.activate, state.release, state.aclose, state.compile = activate, release, aclose, catalog.compile
    state.openapi = cache(partial(_openapi, app, site.extensions))
    is_shown = settings.admin is not None and settings.admin.streams
    state.admin = _admin_app(state, RecentStreams(catalog, is_for_operators=True).routes() if is_shown else ())
    if is_shown:  # not authenticated: a page whose name resolves to this server must not read it
        exempt = PROBES | {route.path for route in INTERNAL_ROUTES}
        state.admin.add_middleware(HostCheck, allowed=(*settings.allowed_hosts, LOCAL), exempt=exempt)
    return app


def _limiter(settings: Settings, budgets: Budgets) -> RateLimiter:
    return RateLimiter(budgets, {name: agent.rate_limits for name, agent in settings.agents.items()})


def _sealer(settings: Settings) -> StateSealer:
    return StateSealer([decoded_key(key) for key in settings.state_encryption_keys])


def _starlette(catalog: Catalog, site: Site, aclose: Callable[[], Awaitable[None]]) -> Starlette:
    """Return the application with its routes and middleware."""
    settings = site.settings

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None, None]:
        site.logs.check_store()
        yield
        await aclose()

    served = [*routes(catalog, site), *(route for extension in site.extensions for route in extension.routes())]
    app = Starlette(
        routes=[*served, Route("/v1/{path:path}", NotServed(served), include_in_schema=False)],
        exception_handlers=dict.fromkeys(ANSWERED, respond),
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


def _openapi(app: Starlette, extensions: Iterable[Extension], mounted_at: str = "") -> bytes:
    routes = {
        route.path_format: getattr(route, "dialects", ())
        for route in app.routes
        if isinstance(route, Route) and route.include_in_schema
    }
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for extension in extensions:
        more_paths, more_schemas = extension.openapi()
        paths |= more_paths
        schemas |= more_schemas
    return document(routes, paths, schemas, mounted_at)


def _admin_app(state: State, more: Sequence[Route]) -> Starlette:
    """Return the application of the admin listener: metrics, document and probes of the application with this state."""
    app = Starlette(
        routes=[*HEALTH_ROUTES, *INTERNAL_ROUTES, *more], exception_handlers=dict.fromkeys(ANSWERED, respond)
    )
    app.state = state
    app.router.redirect_slashes = False
    app.add_middleware(RequestLog, metrics=state.metrics)
    return app


def make_logs(settings: Settings, process_id: str) -> StreamLogs:
    """Return the logs of the store that the settings describe, which opens connections when they are first needed.

    Args:
        settings: the settings of the server.
        process_id: ID of this process, the producer of its streams.

    Raises:
        UsageError: a package that the store needs is not installed.
    """
    table = settings.store
    limits = table.limits(settings.limits.max_memory_bytes)
    if table.kind == "memory" and not table.encryption_keys:
        return LocalLogs(MemoryStore(limits), unread_s=table.unread_s)
    store = _store(table, limits, process_id)
    if table.encryption_keys:
        from projector.store.encryption import EncryptedStore  # noqa: PLC0415 - a start without it is faster

        store = EncryptedStore(store, [decoded_key(key) for key in table.encryption_keys])
    return StreamLogs(store, unread_s=table.unread_s)


async def check_store(settings: Settings) -> AsyncGenerator[str, None]:
    """Yield what `store.url` leads to, if there is a URL; raise `StoreUnavailableError` with what is wrong there."""
    if settings.store.url is None:
        return
    store = _redis(settings.store, StoreLimits(), "check")
    try:
        yield await store.describe()
        await store.check()
    finally:
        await store.aclose()


def _store(table: StoreSettings, limits: StoreLimits, process_id: str) -> Store:
    if table.path is not None:
        from projector.store.sqlite import SqliteStore  # noqa: PLC0415 - a start without it is faster

        return SqliteStore(table.path, limits)
    if table.url is not None:
        return _redis(table, limits, process_id)
    return MemoryStore(limits)


def _redis(table: StoreSettings, limits: StoreLimits, process_id: str) -> RedisStore:
    try:
        from projector.store.redis_store import RedisStore  # noqa: PLC0415 - the `redis` extra
    except ModuleNotFoundError as error:
        raise UsageError(missing_package(error.name, "server,redis")) from None
    ca_file = None if table.ca_file is None else str(table.ca_file)
    url = "" if table.url is None else table.url.get_secret_value()
    return RedisStore(url, process_id, limits, prefix=table.prefix, ca_file=ca_file)


ReadSettings = Callable[[], Settings]


class Generations:
    """An ASGI application that forwards each request to the newest application."""

    def __init__(self, app: Starlette) -> None:
        self._app = app
        self._requests: dict[Starlette, int] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.state.metrics.show_certificates(certificate_ends(self.settings))

    @property
    def state(self) -> Any:
        """The state of the newest application."""
        return self._app.state

    @property
    def settings(self) -> Settings:
        """The settings in effect."""
        settings: Settings = self.state.site.settings
        return settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or the lifespan of the newest application at its end."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        app = self._app
        self._requests[app] = self._requests.get(app, 0) + 1
        facts_of(scope).send_body = send  # what Starlette has around the application concerns only heads
        try:
            await app(scope, receive, send)
        finally:
            self._requests[app] -= 1
            self._close_if_unused(app)

    async def admin(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request to the admin listener with the newest application."""
        await self.state.admin(scope, receive, send)

    async def reload(self, read: ReadSettings) -> Settings | None:
        """Read the settings and use them for new requests; keep the old ones if they are invalid, and return None."""
        try:
            settings, app, needs_restart, cautions = await asyncio.to_thread(self._build, read)
        except Exception as error:  # noqa: BLE001 - it is reported, and the old settings stay
            self.refuse(str(error) if isinstance(error, UsageError) else type(error).__name__)
            return None
        old, self._app = self._app, app
        app.state.activate()
        self.state.metrics.note_reload(is_accepted=True)
        log.info("reloaded", needs_restart=needs_restart)
        for caution in cautions:
            log.warning("configuration_warning", reason=caution)
        self._close_if_unused(old)
        return settings

    def refuse(self, reason: str) -> None:
        """Report that the old settings stay."""
        self.state.metrics.note_reload(is_accepted=False)
        log.error("reload_refused", reason=reason)

    def _build(self, read: ReadSettings) -> tuple[Settings, Starlette, list[str], list[str]]:
        """Return the new settings and application, the names of changed settings that need a restart, and warnings."""
        given = read()
        kept = {name: getattr(self.settings, name) for name in NEEDS_RESTART}
        changed = sorted(name for name, value in kept.items() if getattr(given, name) != value)
        settings = given.model_copy(update=kept)
        try:
            check_access(settings)
        except ValueError as error:
            raise SettingsError(str(error)) from None
        app = rebuild(self._app, settings)
        app.state.compile()
        app.state.metrics.show_certificates(certificate_ends(settings))
        return settings, app, changed, list(warnings(settings))

    def _close_if_unused(self, app: Starlette) -> None:
        if app is self._app or self._requests.get(app):
            return
        self._requests.pop(app, None)
        closing = asyncio.create_task(app.state.release())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self.state.logs.check_store()
        await send({"type": "lifespan.startup.complete"})
        try:
            await receive()
        except asyncio.CancelledError:  # a third signal ends the event loop; uvicorn would log this as an error
            return
        await asyncio.gather(*self._closing)
        await self.state.aclose()
        await send({"type": "lifespan.shutdown.complete"})
