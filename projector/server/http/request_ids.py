"""Request IDs: that of the caller if it is safe in a header and in a log line, otherwise a generated one."""

from __future__ import annotations

import re
import uuid
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

_SAFE: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def request_id(scope: Scope) -> str:
    """Return the ID of a request; it is stored in `scope["state"]`."""
    state = scope.setdefault("state", {})
    if "request_id" not in state:
        given = Headers(scope=scope).get("x-request-id", "")
        state["request_id"] = given if _SAFE.fullmatch(given) else f"req_{uuid.uuid4().hex}"
    return str(state["request_id"])


class RequestIdMiddleware:
    """Middleware that assigns the ID before the request is processed."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Assign the ID and forward the request."""
        if scope["type"] == "http":
            request_id(scope)
        await self._app(scope, receive, send)
