"""The server process: it listens, serves the application with uvicorn, and ends well."""

from __future__ import annotations

import contextlib
import socket
import sys
from types import FrameType
from typing import Final

import structlog
import uvicorn

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]  # mypy knows the module of this system only

from projector.server.app import create_app
from projector.server.catalog import provider_upstream
from projector.server.config.loading import SettingsError
from projector.server.config.settings import Settings
from projector.server.http.connection import guarded
from projector.server.streaming.registry import Streams
from projector.server.telemetry import logs
from projector.server.upstream.demo import DemoUpstream

log: Final = structlog.get_logger()

_OTHER_FILES: Final = 256
"""Kept connections, connections that wait for their turn, logs, the event loop."""
_BACKLOG: Final = 2048
CLOSE_S: Final = 2
"""What connections get to close after the last stream ended."""


def run(settings: Settings, *, demo: bool = False) -> int:
    """Serve until SIGTERM or SIGINT, then drain and return 0; a second signal ends the grace period.

    Args:
        settings: where to listen, which upstream.
        demo: answer from recorded examples instead of an upstream; prints a line to try.

    Raises:
        SettingsError: the address cannot be listened on.
    """
    logs.configure()
    _raise_file_limit(settings)
    listener = listen(settings)
    url = _url(listener)
    with contextlib.closing(listener):
        serving = server(settings, demo=demo)
        if demo:
            _say(f"Demo provider on {url}\nTry:  {curl_line(url)}\n")
        else:
            _warn(settings)
            _say(f"Serving on {url}\n")
        serving.run(sockets=[listener])
    return 0


def server(settings: Settings, *, demo: bool = False) -> uvicorn.Server:
    """Give the server, not yet running; it is given its listening socket on `run` or `serve`."""
    app = create_app(settings, (lambda *_: DemoUpstream()) if demo else provider_upstream)
    config = uvicorn.Config(
        app,
        http=guarded(settings.timeouts.request_read_s),
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=CLOSE_S,
        workers=1,  # else uvicorn reads WEB_CONCURRENCY, which platforms set for everybody
    )
    return _DrainingServer(config, app.state.streams, settings.drain_timeout_s)


def listen(settings: Settings) -> socket.socket:
    """Give a listening socket.

    Raises:
        SettingsError: the address is taken, or not ours.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise SettingsError(f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}") from None
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted sockets inherit it
        # A peer that takes nothing and never closes would keep its socket for hours after we gave up on it.
        timeout_ms = int(settings.timeouts.client_stall_timeout_s * 1000)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)
    return listener


def curl_line(url: str) -> str:
    """Give a command that shows a stream."""
    body = """{"message": "Search the news for me"}"""
    return f"curl -N {url}/api/v1/chat/stream -H 'content-type: application/json' -d '{body}'"


class _DrainingServer(uvicorn.Server):
    """Drains between the signal and uvicorn's own shutdown, while it still listens; exits 0."""

    def __init__(self, config: uvicorn.Config, streams: Streams, grace_s: float) -> None:
        super().__init__(config)
        self._streams = streams
        self._grace_s = grace_s
        self._signals = 0

    def handle_exit(self, _sig: int, _frame: FrameType | None) -> None:
        self._signals += 1
        self.should_exit = True
        self.force_exit = self._signals > 2  # noqa: PLR2004 - the first drains, the second ends the grace period

    async def main_loop(self) -> None:
        await super().main_loop()
        await self._streams.drain(self._grace_s, lambda: self._signals > 1)


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _raise_file_limit(settings: Settings) -> None:
    """Let the process open two sockets for each stream; many systems start it with room for half as many."""
    if resource is None:
        return
    needed = 2 * settings.limits.max_streams + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        log.warning("few_open_files", allowed=hard, needed=needed)
        needed = hard
    if soft not in {resource.RLIM_INFINITY, hard} and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _warn(settings: Settings) -> None:
    """Say what is likely a mistake."""
    if not settings.upstreams and settings.api_key is None and "api.openai.com" in settings.base_url:
        log.warning("no_api_key", hint="OPENAI_API_KEY is not set: the provider will refuse every request")


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
