"""The server process: serving the application with uvicorn on its listeners, signals, graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING, Final

import uvicorn
from prometheus_client import disable_created_metrics
from starlette.types import ASGIApp
from uvicorn.server import HANDLED_SIGNALS

from projector import __version__
from projector._errors import UsageError
from projector.dialects import DIALECTS
from projector.server.app import Generations, ReadSettings, create_app
from projector.server.catalog import provider_upstream
from projector.server.config.config_base import DEFAULT, DEFAULT_DIALECT, EXTENSIONS
from projector.server.config.loading import SettingsError
from projector.server.config.preflight import warnings
from projector.server.config.setting_names import PREFIX
from projector.server.config.settings import Limits, Settings
from projector.server.http.connection import KEEP_ALIVE_S, Connections, GuardedProtocol, Listener
from projector.server.interpreter import Collector, settle_interpreter
from projector.server.listening import limit_stalls, listen, listen_admin, raise_file_limit, url_of
from projector.server.telemetry.logs import configure_logs, log
from projector.server.telemetry.metrics import Metrics
from projector.server.upstream.demo import APIS, SCENARIOS, DemoUpstream
from projector.server.workers import IGNORED, RELOAD, WorkerPlace, announce, take_place

if TYPE_CHECKING:
    from projector.server.tls import RenewableContext

_EXAMPLE: Final = """-H 'content-type: application/json' -d '{"message": "Search the news for me"}'"""
_SECRET: Final = "harbour-master-7781"  # noqa: S105 - made up; an example repeats it in a text, and the server withholds it
_PAGE_TOOL: Final = "get_departures"
"""A function of the examples that a page may run itself (`deploy/examples`)."""
_SIGNALS_MAX: Final = 16
"""Signals that are kept until they are handled."""
CLOSE_S: Final = 2
"""Seconds for connections to close after the last stream has ended."""
_TICK_S: Final = 1.0
"""Seconds between two ticks, as often as the header `date` changes. uvicorn ticks ten times a second."""


def demo_flags(port: int | None, environ: Mapping[str, str] = os.environ) -> Mapping[str, object]:
    """Return the settings of a demo server, with an agent for each API. They take precedence over the environment."""
    off = {name for name in EXTENSIONS if not any(one.startswith(f"{PREFIX}{name.upper()}__") for one in environ)}
    agent = {
        "upstream": DEFAULT,
        "model": "demo",
        "dialects": [DEFAULT_DIALECT, *(name for name in DIALECTS if name not in {DEFAULT_DIALECT, *off})],
        "client_tools": [_PAGE_TOOL],
        "on_disconnect": "continue",
    }
    return {"port": port, "demo_page": True, "api_key": _SECRET, "agents": dict.fromkeys((DEFAULT, *APIS), agent)}


def run(settings: Settings, read: ReadSettings | None = None, *, demo: bool = False) -> int:
    """Serve until SIGTERM or SIGINT, then drain and return 0; a second signal ends the drain.

    On SIGHUP `read` returns the new settings; without it this signal drains like SIGTERM. With `demo`, responses are
    recorded examples. Raises `UsageError` if an address is not available, or a package is not installed.
    """
    place = take_place()
    signals: deque[signal.Signals] = deque(maxlen=_SIGNALS_MAX)  # a handler must not use the log or the event loop
    for number in (*IGNORED, *([RELOAD] if RELOAD is not None and read is not None else ())):
        signal.signal(number, lambda received, _frame: signals.append(signal.Signals(received)))
    writer = configure_logs(level=settings.log_level, worker=None if place is None else place.number)
    log.info("start", version=__version__, pid=os.getpid(), python=sys.version.partition(" ")[0])
    for reason in warnings(settings):
        log.warning("configuration_warning", reason=reason)
    disable_created_metrics()  # type: ignore[no-untyped-call] # a series for each other one, which nothing reads; not in the process of a host
    try:
        _serve(settings, read, signals, place, demo=demo)
    except UsageError as error:
        log.error("stop", exit_code=2, reason=str(error))
        writer.close()  # the command line prints the error next
        raise
    log.info("stop", exit_code=0)
    return 0


def _serve(
    settings: Settings,
    read: ReadSettings | None,
    signals: deque[signal.Signals],
    place: WorkerPlace | None,
    *,
    demo: bool,
) -> None:
    with contextlib.ExitStack() as stack:
        opened = listen(settings) if place is None else socket.socket(fileno=place.descriptor)
        listener = stack.enter_context(contextlib.closing(opened))
        url = url_of(listener, is_tls=settings.tls is not None)
        serving = server(settings, demo=demo)
        serving.on_signals(signals, read, listener)
        if RELOAD is not None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {RELOAD})  # the command line has blocked it
        serving.place = place
        admin = listen_admin(settings.admin, 0 if place is None else place.number)
        if admin is not None:
            serving.admin_listener = stack.enter_context(contextlib.closing(admin))
        serving.compile()  # not in a thread: until it ended, the first streams would compile on the event loop
        for number in HANDLED_SIGNALS:  # whoever reads the line below may end the server at once; also what uvicorn
            signal.signal(number, serving.handle_exit)  # restores before the connections are closed
        if place is not None:
            log.info("worker", pid=os.getpid())
        elif demo:
            words = ", ".join(row.words[0] for row in SCENARIOS[:-1])
            announce(f"Demo provider on {url} - open this address in a browser\n")
            announce(f"Try:  curl -N {url}/api/v1/chat/stream {_EXAMPLE}\n")
            announce(f"One of these words in the message plays another example: {words} (docs/cli.md)\n")
            announce(f"Base URL for OpenAI clients, with any key and model: {url}/v1\n")
        else:
            announce(f"Serving on {url}\n")
        if admin is not None:
            announce(f"Metrics and health on {url_of(admin)}\n")
        settle_interpreter()
        serving.run(sockets=[listener])
        for number in HANDLED_SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def server(settings: Settings, *, demo: bool = False) -> DrainingServer:
    """Return the server. Its `run` and `serve` expect the listening socket."""
    pace_s = settings.demo_pace_s
    app = Generations(create_app(settings, (lambda *_: DemoUpstream(pace_s)) if demo else provider_upstream))
    return DrainingServer(app, settings)


class _Listener:
    """How connections of a listener are served: application, protocol, limits."""

    def __init__(self, app: ASGIApp, settings: Settings, limits: Limits, metrics: Metrics) -> None:
        self.connections = Connections(limits, metrics.count_closed_connection)
        members = {"admission": self.connections, "on_malformed": staticmethod(metrics.count_malformed)}
        self.protocol = type("GuardedProtocol", (GuardedProtocol,), members)
        self.use(settings, limits)
        self.config = uvicorn.Config(
            app,
            interface="asgi3",
            http=self.protocol,
            ws="none",
            lifespan="on",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=CLOSE_S,
            workers=1,  # by default uvicorn reads WEB_CONCURRENCY, which hosting platforms set
        )
        self.config.load()

    def use(self, settings: Settings, limits: Limits) -> None:
        """Use other settings for new connections."""
        self.protocol.head_s = settings.timeouts.request_read_s  # type: ignore[attr-defined] # ours
        self.connections.limits = limits


class DrainingServer(uvicorn.Server):
    """A server that drains between the signal and uvicorn's shutdown, while it still listens; exits with 0."""

    def __init__(self, app: Generations, settings: Settings) -> None:
        self._app = app
        metrics: Metrics = app.state.metrics
        limits = raise_file_limit(settings)
        self._public = _Listener(app, settings, limits, metrics)
        self._admin = _Listener(app.admin, settings, limits, metrics)
        metrics.watch_connections(lambda: self._public.connections.open)
        super().__init__(self._public.config)
        self._tls = _tls(settings)
        self._handshake_s = settings.timeouts.request_read_s
        self.place: WorkerPlace | None = None
        """Place among several workers."""
        self.admin_listener: socket.socket | None = None
        """Listening socket for operators."""
        self._drain_timeout_s = settings.drain_timeout_s
        self._collector = Collector()
        self._signals = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        """The running event loop; None before and after `on_tick` is called."""
        self._woken = asyncio.Event()
        self._received: deque[signal.Signals] = deque()
        self._read: ReadSettings | None = None
        self._listener: socket.socket | None = None
        self._reloading: asyncio.Task[None] | None = None

    def compile(self) -> None:
        """Compile the rules of all policies."""
        self._app.state.compile()

    def on_signals(self, signals: deque[signal.Signals], read: ReadSettings | None, listener: socket.socket) -> None:
        """Reload with `read` on SIGHUP, and log signals that are ignored."""
        self._received, self._read, self._listener = signals, read, listener
        if read is None and RELOAD is not None:
            signal.signal(RELOAD, self.handle_exit)

    def handle_exit(self, _sig: int, _frame: FrameType | None) -> None:
        """Count a signal that ends the server."""
        self._signals += 1
        self.should_exit = True
        self.force_exit = self._signals > 2  # noqa: PLR2004 - the first starts the drain, the second ends it
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections. uvicorn would serve the same application on all sockets."""
        await self.lifespan.startup()
        self.servers = [self._accept(listener, self._public) for listener in sockets or ()]
        if self.admin_listener is not None:
            self.servers.append(self._accept(self.admin_listener, self._admin))
        self.started = True

    def _accept(self, listener: socket.socket, served: _Listener) -> asyncio.Server:
        def protocol() -> GuardedProtocol:
            made: GuardedProtocol = served.protocol(served.config, self.server_state, self.lifespan.state)
            return made

        context = self._tls.context if self._tls is not None and served is self._public else None
        return Listener(listener, protocol, context, self._handshake_s)  # type: ignore[return-value] # all that uvicorn uses

    async def on_tick(self, counter: int) -> bool:
        """Handle the other signals; return whether the server should exit."""
        for received in dict.fromkeys(self._received.popleft() for _ in range(len(self._received))):
            if received == RELOAD and self._read is not None:
                self._reloading = asyncio.create_task(self._reload(self._read, self._reloading))
            else:
                log.warning("signal_ignored", signal=received.name)
        self._collector.tick(self.server_state.total_requests, self._app.state.streams.held_bytes)
        if self.place is not None and self.place.is_orphan:
            self.should_exit = True
        return await super().on_tick(counter)

    async def main_loop(self) -> None:
        """Serve, then drain."""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        admin_port = None if self.admin_listener is None else self.admin_listener.getsockname()[1]
        log.info("ready", host=host, port=port, admin_port=admin_port)
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            self._woken.clear()
            next_tick = self._loop.call_later(_TICK_S, self._woken.set)  # a time-out would raise once a second
            await self._woken.wait()
            next_tick.cancel()
        self._loop = None
        streams = self._app.state.streams
        log.info("drain", streams=streams.active, drain_timeout_s=self._drain_timeout_s)
        await streams.drain(self._drain_timeout_s, lambda: self._signals > 1)
        for one in (self._public, self._admin):
            one.connections.flush()

    async def _reload(self, read: ReadSettings, before: asyncio.Task[None] | None) -> None:
        """Reload after the reload before: settings and certificate, or neither."""
        if before is not None:
            await asyncio.wait([before])
        try:
            use_certificate = None if self._tls is None else await asyncio.to_thread(self._tls.read)
        except SettingsError as error:
            self._app.refuse(str(error))
            return
        settings = await self._app.reload(read)
        if settings is None:
            return
        if use_certificate is not None:
            use_certificate()
        self._drain_timeout_s = settings.drain_timeout_s
        limits = raise_file_limit(settings)
        for one in (self._public, self._admin):
            one.use(settings, limits)
        if self._listener is not None:
            limit_stalls(self._listener, settings)


def _tls(settings: Settings) -> RenewableContext | None:
    if settings.tls is None:
        return None
    from projector.server.tls import RenewableContext  # noqa: PLC0415 - a start without it is faster

    return RenewableContext(settings.tls)
