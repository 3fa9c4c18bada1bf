"""Listening sockets of the server process, their addresses, and the file descriptors that connections need."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from typing import Final

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]  # mypy assumes that the module exists

from projector.server.config.loading import SettingsError
from projector.server.config.settings import Settings
from projector.server.telemetry.logs import log

BACKLOG: Final = 2048
_OTHER_FILES: Final = 256
"""File descriptors in addition to those of clients and upstreams: queued connections, logs, the event loop."""


def listen(settings: Settings) -> socket.socket:
    """Return a listening socket; raise `SettingsError` if the address is not available."""
    listener = _listening(settings.host, settings.port)
    limit_stalls(listener, settings)
    return listener


def listen_admin(settings: Settings, worker: int = 0) -> socket.socket | None:
    """Return the socket of the admin listener, None without one; raise `SettingsError` like `listen`.

    Each of several workers has a port of its own, the configured one plus its number.
    """
    if settings.admin is None:
        return None
    return _listening(settings.admin.host, settings.admin.port and settings.admin.port + worker)


def check_addresses(settings: Settings) -> None:
    """Raise `SettingsError` for an address that this system does not have; one that is in use may be free later."""
    for host, port in _addresses(settings):
        try:
            with _bound(host, port):
                pass
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise _unavailable(host, port, error) from None


def _addresses(settings: Settings) -> Iterator[tuple[str, int]]:
    yield settings.host, settings.port
    if settings.admin is not None:
        yield settings.admin.host, settings.admin.port


def _listening(host: str, port: int) -> socket.socket:
    try:
        listener = _bound(host, port)
        listener.listen(BACKLOG)
    except OSError as error:
        raise _unavailable(host, port, error) from None
    return listener


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket with an address, of one version of IP; raise `OSError` if it is not available."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        if os.name == "posix":  # elsewhere it would allow to take the address of another process
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def _unavailable(host: str, port: int, error: OSError) -> SettingsError:
    hint = "; choose another one with --port" if error.errno == errno.EADDRINUSE else ""
    return SettingsError(f"cannot listen on {host}, port {port}: {error.strerror}{hint}")


def limit_stalls(listener: socket.socket, settings: Settings) -> None:
    """Close connections whose peer neither reads nor closes: they would occupy their socket for hours."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted sockets inherit it
        timeout_ms = int(settings.timeouts.client_stall_timeout_s * 1000)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)


def url_of(listener: socket.socket, *, is_tls: bool = False) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    scheme = "https" if is_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def raise_file_limit(settings: Settings) -> None:
    """Allow a socket for each connection and each upstream; the default limit of many systems is less."""
    if resource is None:
        return
    needed = settings.limits.connections + settings.limits.max_streams + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        log.warning("few_open_files", allowed=hard, needed=needed)
        needed = hard
    if soft not in {resource.RLIM_INFINITY, hard} and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
