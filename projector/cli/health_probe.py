"""Whether a server lives, asked from outside: what the health check of a container runs. It starts no server."""

from __future__ import annotations

from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Final
from urllib.parse import urlsplit

from projector._errors import UsageError

_PATH: Final = "/livez"
_TIMEOUT_S: Final = 2.0
"""A loop that does not come round in this time serves no stream either."""


def why_not_alive(url: str) -> str | None:
    """Give what keeps a server from being alive, None if it is; a proxy that the environment names is not asked.

    Args:
        url: scheme, host and port of the server; a path is passed over.

    Raises:
        UsageError: not the address of a server that speaks HTTP.
    """
    host, port = _address(url)
    server = HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        server.request("GET", _PATH)
        status = server.getresponse().status
    except (OSError, HTTPException) as error:
        return f"{_PATH} of {host}, port {port}: no answer: {_reason(error)}"
    finally:
        server.close()
    return None if status == HTTPStatus.OK else f"{_PATH} of {host}, port {port}: expected 200, got {status}"


def _address(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        host, port = None, 80
    if host is None or parts.scheme != "http":
        raise UsageError("expected the URL of a server, like http://127.0.0.1:8000")
    return host, port


def _reason(error: OSError | HTTPException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
