"""Reports of requests: one log line for each, and the metrics of requests and refusals.

The line of a request with a stream is `stream_end`; all others, refused ones included, have `request`.
"""

from __future__ import annotations

import logging
import time
from http import HTTPMethod, HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from projector.server.http.problems import request_id
from projector.server.telemetry.logs import log
from projector.server.telemetry.metrics import Metrics
from projector.server.telemetry.request_facts import CALLER_MAX_CHARS, RequestFacts, facts_of, route_of

PROBES: Final = frozenset({"/livez", "/healthz", "/readyz", "/metrics"})
"""Routes that monitoring polls; their lines have the level `debug`."""
OTHER_METHOD: Final = "other"

_METHODS: Final = frozenset(HTTPMethod)


class RequestLog:
    """Middleware that reports each request after its response."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, and report it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s, facts = time.monotonic(), facts_of(scope)
        facts.send_body = send

        async def send_noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                facts.status = message["status"]
                if facts.headers:
                    message = {**message, "headers": [*message.get("headers", ()), *facts.headers]}
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except Exception:
            facts.code = "internal_error"
            facts.status = facts.status or HTTPStatus.INTERNAL_SERVER_ERROR  # sent by the outer middleware
            raise
        finally:
            facts.send_body = None  # it refers to the scope, which has the facts
            self._metrics.count_request(route_of(scope), facts)
            if not facts.is_reported:
                _log(scope, facts, time.monotonic() - began_s)


def level_of(status: int | None, code: str | None = None) -> int:
    """Return the level of a line: a failure of the server or of a provider is a warning."""
    is_failure = (status or 0) >= HTTPStatus.INTERNAL_SERVER_ERROR or (code or "").startswith("upstream_")
    return logging.WARNING if is_failure else logging.INFO


def _log(scope: Scope, facts: RequestFacts, duration_s: float) -> None:
    route, method = route_of(scope), scope["method"]
    level = logging.DEBUG if route in PROBES else level_of(facts.status, facts.code)
    fields = {
        "request_id": request_id(scope),
        "caller": None if facts.caller is None else facts.caller[:CALLER_MAX_CHARS],
        "method": method if method in _METHODS else OTHER_METHOD,
        "route": route,
        "status": None if facts.status is None else int(facts.status),
        "code": facts.code,
        "duration_s": round(duration_s, 3),
    }
    log.log(level, "request", **fields)
