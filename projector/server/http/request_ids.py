"""The id of each request: the caller's if it sent one that is safe in a header and in a log line, else a new one."""

from __future__ import annotations

import re
import uuid
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

_SAFE: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def request_id(scope: Scope) -> str:
    """Give the id of a request, the same each time; it is kept in `scope["state"]`."""
    state = scope.setdefault("state", {})
    if "request_id" not in state:
        given = Headers(scope=scope).get("x-request-id", "")
        state["request_id"] = given if _SAFE.fullmatch(given) else f"req_{uuid.uuid4().hex}"
    return str(state["request_id"])


class WithRequestId:
    """Gives each request its id before anything is done with it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] == "http":
            request_id(scope)
        await self._app(scope, receive, send)
