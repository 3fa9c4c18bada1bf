"""The server process: listening, serving the application with uvicorn, graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from types import FrameType
from typing import Final

import uvicorn

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]  # mypy assumes that the module exists

from projector import __version__
from projector.server.app import create_app
from projector.server.catalog import provider_upstream
from projector.server.config.loading import SettingsError
from projector.server.config.preflight import warnings
from projector.server.config.settings import Settings
from projector.server.generations import Generations, ReadSettings
from projector.server.http.connection import GuardedProtocol
from projector.server.signals import RELOAD, ReceivedSignals
from projector.server.telemetry.logs import configure_logs, log
from projector.server.upstream.demo import SCENARIOS, DemoUpstream

_OTHER_FILES: Final = 256
"""File descriptors in addition to those of streams: idle and queued connections, logs, the event loop."""
_BACKLOG: Final = 2048
_EXAMPLE: Final = """-H 'content-type: application/json' -d '{"message": "Search the news for me"}'"""
CLOSE_S: Final = 2
"""Seconds for connections to close after the last stream has ended."""


def run(settings: Settings, read: ReadSettings | None = None, *, demo: bool = False) -> int:
    """Serve until SIGTERM or SIGINT, then drain and return 0; a second signal ends the drain.

    On SIGHUP `read` returns the new settings; without it this signal drains like SIGTERM. With `demo`, responses are
    recorded examples. Raises `SettingsError` if the address is not available.
    """
    signals = ReceivedSignals()
    signals.install(with_reload=read is not None)
    configure_logs(level=settings.log_level)
    log.info("start", version=__version__, pid=os.getpid(), python=sys.version.partition(" ")[0])
    for reason in warnings(settings):
        log.warning("configuration_warning", reason=reason)
    _raise_file_limit(settings)
    listener = listen(settings)
    url = _url(listener)
    with contextlib.closing(listener):
        serving = server(settings, demo=demo)
        serving.on_signals(signals, read, listener)
        if demo:
            _print(f"Demo provider on {url}\nTry:  curl -N {url}/api/v1/chat/stream {_EXAMPLE}\n{_demo_words()}\n")
            _print(f"Base URL for OpenAI clients, with any key and model: {url}/v1\n")
        else:
            _warn_of_missing_key(settings)
            _print(f"Serving on {url}\n")
        serving.run(sockets=[listener])
    log.info("stop", exit_code=0)
    return 0


def _demo_words() -> str:
    words = ", ".join(row.words[0] for row in SCENARIOS[:-1])
    return f"One of these words in the message plays another example: {words} (docs/cli.md)"


def server(settings: Settings, *, demo: bool = False) -> DrainingServer:
    """Return the server. Its `run` and `serve` expect the listening socket."""
    app = Generations(create_app(settings, (lambda *_: DemoUpstream()) if demo else provider_upstream))
    connection = {
        "head_s": settings.timeouts.request_read_s,
        "on_malformed": staticmethod(app.state.metrics.count_malformed),
    }
    config = uvicorn.Config(
        app,
        http=type("GuardedProtocol", (GuardedProtocol,), connection),
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=CLOSE_S,
        workers=1,  # by default uvicorn reads WEB_CONCURRENCY, which hosting platforms set
    )
    return DrainingServer(config, app, settings.drain_timeout_s)


def listen(settings: Settings) -> socket.socket:
    """Return a listening socket; raise `SettingsError` if the address is not available."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise SettingsError(f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}") from None
    _limit_stalls(listener, settings)
    return listener


def _limit_stalls(listener: socket.socket, settings: Settings) -> None:
    """Close connections whose peer neither reads nor closes: they would occupy their socket for hours."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted sockets inherit it
        timeout_ms = int(settings.timeouts.client_stall_timeout_s * 1000)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)


class DrainingServer(uvicorn.Server):
    """A server that drains between the signal and uvicorn's shutdown, while it still listens; exits with 0."""

    def __init__(self, config: uvicorn.Config, app: Generations, drain_timeout_s: float) -> None:
        super().__init__(config)
        self._app = app
        self._drain_timeout_s = drain_timeout_s
        self._signals = 0
        self._received: ReceivedSignals | None = None
        self._read: ReadSettings | None = None
        self._listener: socket.socket | None = None
        self._reloading: asyncio.Task[None] | None = None

    def on_signals(self, signals: ReceivedSignals, read: ReadSettings | None, listener: socket.socket) -> None:
        """Reload with `read` on SIGHUP, and log signals that are ignored."""
        self._received, self._read, self._listener = signals, read, listener
        if read is None and RELOAD is not None:
            signal.signal(RELOAD, self.handle_exit)

    def handle_exit(self, _sig: int, _frame: FrameType | None) -> None:
        """Count a signal that ends the server."""
        self._signals += 1
        self.should_exit = True
        self.force_exit = self._signals > 2  # noqa: PLR2004 - the first starts the drain, the second ends it

    async def on_tick(self, counter: int) -> bool:
        """Handle the other signals; return whether the server should exit."""
        for received in self._received.take() if self._received is not None else ():
            if received == RELOAD and self._read is not None:
                self._reloading = asyncio.create_task(self._reload(self._read, self._reloading))
            else:
                log.warning("signal_ignored", signal=received.name)
        return await super().on_tick(counter)

    async def main_loop(self) -> None:
        """Serve, then drain."""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        log.info("ready", host=host, port=port)
        await super().main_loop()
        streams = self._app.state.streams
        log.info("drain", streams=streams.active, drain_timeout_s=self._drain_timeout_s)
        await streams.drain(self._drain_timeout_s, lambda: self._signals > 1)

    async def _reload(self, read: ReadSettings, before: asyncio.Task[None] | None) -> None:
        """Reload after the reload before."""
        if before is not None:
            await asyncio.wait([before])
        settings = await self._app.reload(read)
        if settings is None:
            return
        self._drain_timeout_s = settings.drain_timeout_s
        self.config.http_protocol_class.head_s = settings.timeouts.request_read_s  # type: ignore[attr-defined] # ours
        _raise_file_limit(settings)
        if self._listener is not None:
            _limit_stalls(self._listener, settings)


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _raise_file_limit(settings: Settings) -> None:
    """Allow two sockets for each stream; the default limit of many systems is half of that."""
    if resource is None:
        return
    needed = 2 * settings.limits.max_streams + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        log.warning("few_open_files", allowed=hard, needed=needed)
        needed = hard
    if soft not in {resource.RLIM_INFINITY, hard} and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _warn_of_missing_key(settings: Settings) -> None:
    if not settings.upstreams and settings.api_key is None and "api.openai.com" in settings.base_url:
        log.warning("no_api_key", hint="OPENAI_API_KEY is not set: the provider will refuse every request")


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
