"""Listening sockets of the server process, their addresses, and the file descriptors that connections need."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import closing
from typing import Final

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]  # mypy assumes that the module exists

from projector.server.config.loading import SettingsError
from projector.server.config.settings import Admin, Limits, Settings
from projector.server.telemetry.logs import log

BACKLOG: Final = 2048
_OTHER_FILES: Final = 256
"""File descriptors in addition to those of clients and upstreams: queued connections, logs, the event loop."""
_PARTS: Final = 3
"""Parts of file descriptors too few even for the upstreams: for clients, for their upstreams, and for all else."""


def listen(settings: Settings) -> socket.socket:
    """Return a listening socket; raise `SettingsError` if the address is not available."""
    listener = _listening(settings.host, settings.port, "--port")
    limit_stalls(listener, settings)
    return listener


def listen_admin(admin: Admin | None, worker: int = 0) -> socket.socket | None:
    """Return the socket of the admin listener, None without one; raise `SettingsError` like `listen`.

    Each of several workers has a port of its own, the configured one plus its number.
    """
    if admin is None:
        return None
    return _listening(admin.host, admin.port and admin.port + worker, "`admin.port` (PROJECTOR_ADMIN__PORT)")


def check_addresses(settings: Settings) -> None:
    """Raise `SettingsError` for an address that this system does not have; one that is in use may be free later."""
    for place in (settings, settings.admin):
        if place is not None:
            with closing(_listening(place.host, place.port, is_probe=True)):
                pass


def _listening(host: str, port: int, option: str = "", *, is_probe: bool = False) -> socket.socket:
    """Return a socket that listens, or a probe that is only bound; an error names the option that sets the port."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        if os.name == "posix":  # elsewhere it would allow to take the address of another process
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:  # a socket is of one version of IP
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        if not is_probe:
            listener.listen(BACKLOG)
    except OSError as error:
        if not (is_probe and error.errno == errno.EADDRINUSE):
            listener.close()
            hint = f"; choose another one with {option}" if error.errno == errno.EADDRINUSE else ""
            raise SettingsError(f"cannot listen on {host}, port {port}: {error.strerror}{hint}") from None
    return listener


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


def raise_file_limit(settings: Settings) -> Limits:
    """Allow a socket for each connection and each upstream; the default limit of many systems is less.

    Returns:
        The limits, with fewer connections if the system does not allow as many files: those that only connect would
        leave none for the others and their upstreams.
    """
    limits = settings.limits
    if resource is None:
        return limits
    needed = limits.connections + limits.max_streams + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        log.warning("few_open_files", allowed=hard, needed=needed)
        needed = hard
        left = max(hard - limits.max_streams - _OTHER_FILES, hard // _PARTS)
        limits = limits.model_copy(update={"max_connections": min(limits.connections, left)})
    if soft not in {resource.RLIM_INFINITY, hard} and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    return limits
