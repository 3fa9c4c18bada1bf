"""The server process: listening, limits on request heads, serving the application with uvicorn, graceful shutdown.

Logs are JSON, one object per line on standard error, without payloads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import traceback
from types import FrameType
from typing import Final

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]  # mypy assumes that the module exists

from projector.server.app import create_app
from projector.server.catalog import provider_upstream
from projector.server.config.loading import SettingsError
from projector.server.config.settings import Settings
from projector.server.streaming.registry import Streams
from projector.server.upstream.demo import DemoUpstream

log: Final = structlog.get_logger()

_OTHER_FILES: Final = 256
"""File descriptors in addition to those of streams: idle and queued connections, logs, the event loop."""
_BACKLOG: Final = 2048
_EXAMPLE: Final = """-H 'content-type: application/json' -d '{"message": "Search the news for me"}'"""
HEAD_MAX_BYTES: Final = 65_536
"""Size of the request line and all headers; browsers and proxies allow 8 to 32 KiB."""
CLOSE_S: Final = 2
"""Seconds for connections to close after the last stream has ended."""


def run(settings: Settings, *, demo: bool = False) -> int:
    """Serve until SIGTERM or SIGINT, then drain and return 0; a second signal ends the drain.

    With `demo`, responses are recorded examples. Raises `SettingsError` if the address is not available.
    """
    configure_logs()
    _raise_file_limit(settings)
    listener = listen(settings)
    url = _url(listener)
    with contextlib.closing(listener):
        serving = server(settings, demo=demo)
        if demo:
            _print(f"Demo provider on {url}\nTry:  curl -N {url}/api/v1/chat/stream {_EXAMPLE}\n")
        else:
            _warn_of_missing_key(settings)
            _print(f"Serving on {url}\n")
        serving.run(sockets=[listener])
    return 0


def server(settings: Settings, *, demo: bool = False) -> uvicorn.Server:
    """Return the server. Its `run` and `serve` expect the listening socket."""
    app = create_app(settings, (lambda *_: DemoUpstream()) if demo else provider_upstream)
    config = uvicorn.Config(
        app,
        http=type("GuardedProtocol", (_GuardedProtocol,), {"head_s": settings.timeouts.request_read_s}),
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=CLOSE_S,
        workers=1,  # by default uvicorn reads WEB_CONCURRENCY, which hosting platforms set
    )
    return _DrainingServer(config, app.state.streams, settings.drain_timeout_s)


def listen(settings: Settings) -> socket.socket:
    """Return a listening socket; raise `SettingsError` if the address is not available."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise SettingsError(f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}") from None
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted sockets inherit it
        # A peer that neither reads nor closes would occupy its socket for hours after the stream was abandoned.
        timeout_ms = int(settings.timeouts.client_stall_timeout_s * 1000)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)
    return listener


class _GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on the head of a request: its size, and `head_s` seconds to receive it.

    uvicorn waits for a head without a time limit and buffers any number of headers. The limits on streams apply to
    complete heads only, so a few thousand silent clients could use up all file descriptors of the process.
    """

    head_s: float
    _is_in_head = True
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn's own signature
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if cycle is not None and cycle.response_complete:
            self._start_timer()  # uvicorn stops its keep-alive timer here, even for a blank line
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_MAX_BYTES and not self.transport.is_closing():
                self.send_400_response("The request head is too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._start_timer()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._head_bytes = 0
        self._stop_timer()
        super().on_headers_complete()

    def _start_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_s, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _DrainingServer(uvicorn.Server):
    """A server that drains between the signal and uvicorn's shutdown, while it still listens; exits with 0."""

    def __init__(self, config: uvicorn.Config, streams: Streams, drain_timeout_s: float) -> None:
        super().__init__(config)
        self._streams = streams
        self._drain_timeout_s = drain_timeout_s
        self._signals = 0

    def handle_exit(self, _sig: int, _frame: FrameType | None) -> None:
        self._signals += 1
        self.should_exit = True
        self.force_exit = self._signals > 2  # noqa: PLR2004 - the first starts the drain, the second ends it

    async def main_loop(self) -> None:
        await super().main_loop()
        await self._streams.drain(self._drain_timeout_s, lambda: self._signals > 1)


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


def configure_logs() -> None:
    """Configure JSON output for the logs of the server, and for warnings of libraries."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(sort_keys=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.getLogger().handlers = [_LibraryHandler(logging.WARNING)]


class _LibraryHandler(logging.Handler):
    """Logs the message templates of libraries, the type and position of an exception. Arguments may contain payload."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        fields = {"logger": record.name, "message": str(record.msg).partition("\n")[0]}
        if error is not None:
            place = traceback.extract_tb(error.__traceback__)[-1:]
            fields["error_type"] = type(error).__name__
            fields["place"] = "".join(f"{frame.filename}:{frame.lineno}" for frame in place)
        log.log(record.levelno, "library", **fields)
