"""Reports of requests and of ended streams: log lines, metrics, traces, the `on_terminal` hook. None can fail a stream.

The line of a request with a stream is `stream_end`; all others, refused ones included, have `request`. The trace
context (W3C) of a request is passed on to the provider, as a span if OpenTelemetry is installed and set up.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPMethod, HTTPStatus
from typing import Final, TypeAlias

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from projector._errors import check_argument
from projector.core.handlers import HOST_HANDLERS
from projector.server.http.problems import Problem, request_id
from projector.server.streaming.clock import is_cancelled, times_cancelled
from projector.server.streaming.session import StreamSession
from projector.server.telemetry.logs import log
from projector.server.telemetry.metrics import Metrics
from projector.server.telemetry.request_facts import CALLER_MAX_CHARS, RequestFacts, facts_of, headers_of, route_of
from projector.server.telemetry.stream_stats import StreamStats, Terminal, Trace, line_of, terminal_of

try:
    from projector.server.telemetry import spans as telemetry
except ImportError:
    HAS_SPANS = False
else:
    HAS_SPANS = True
"""Whether the extra `otel` is installed."""

_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(-.*)?")
_TRACESTATE_MAX_CHARS: Final = 512
"""The length that the W3C recommendation requires to be propagated."""
_NOT_SAMPLED: Final = "00"


def begin_stream(scope: Scope, stats: StreamStats) -> StreamStats:
    """Set the request ID, the route and the trace of a stream, and return its stats."""
    headers = headers_of(scope)
    stats.route = route_of(scope)
    stats.request_id = request_id(scope, headers)
    stats.trace = _trace(scope, headers, stats)
    return stats


def end_stream(stats: StreamStats) -> None:
    """End the span of a stream, and measure it."""
    stats.duration_s = time.monotonic() - stats.started_at
    if HAS_SPANS:
        telemetry.end(stats)


def _trace(scope: Scope, headers: Mapping[bytes, bytes], stats: StreamStats) -> Trace:
    """Return a new trace context, a child of the caller's if it sent one."""
    if HAS_SPANS and (span := telemetry.begin(Headers(scope=scope), stats)) is not None:
        carrier = telemetry.headers(span)
        return Trace(carrier["traceparent"].split("-")[1], carrier, span)
    given = _TRACEPARENT.fullmatch(headers.get(b"traceparent", b"").decode("latin-1"))
    if given is None:
        drawn = os.urandom(24).hex()  # 16 bytes of the trace, 8 of the span
        return Trace(drawn[:32], {"traceparent": f"00-{drawn[:32]}-{drawn[32:]}-{_NOT_SAMPLED}"})
    trace_id, flags = given.group(1, 2)
    carried = {"traceparent": f"00-{trace_id}-{os.urandom(8).hex()}-{flags}"}
    state = headers.get(b"tracestate", b"").decode("latin-1")
    if 0 < len(state) <= _TRACESTATE_MAX_CHARS and state.isascii():
        carried["tracestate"] = state
    return Trace(trace_id, carried)


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
        facts.send_body = facts.send_body or send

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
        "address": facts.address if facts.caller is None else None,
        "method": method if method in _METHODS else OTHER_METHOD,
        "route": route,
        "status": None if facts.status is None else int(facts.status),
        "code": facts.code,
        "reason": facts.reason,
        "duration_s": round(duration_s, 3),
    }
    log.log(level, "request", **fields)


OnTerminal: TypeAlias = Callable[[Terminal], Awaitable[None] | None]
StatusOf: TypeAlias = Callable[[Problem, Scope], int]
"""Returns the status of the response to a problem."""

HOOK_S: Final = 10.0
"""Time-out of a hook. It runs after the stream, but delays the shutdown of the server."""
_THREADS_MAX: Final = 40
"""Concurrent hooks. They have threads of their own, because anyio's are used for large events, which must not wait."""
_THREADS: Final[RunVar[CapacityLimiter]] = RunVar("hook threads")


def check_hook(on_terminal: object) -> None:
    """Raise `UsageError` if a hook cannot be called."""
    check_argument("on_terminal", "a function or None", holds=on_terminal is None or callable(on_terminal))


class Observer:
    """Runs streams, and reports each one when it ends."""

    def __init__(
        self,
        metrics: Metrics | None = None,
        on_terminal: OnTerminal | None = None,
        status_of: StatusOf = lambda problem, _: problem.status.value,
    ) -> None:
        self._metrics = metrics
        self._on_terminal = on_terminal
        self._status_of = status_of

    async def run(self, session: StreamSession, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a stream to its end, and report it; raises `Problem` like `StreamSession.run`."""
        stats, facts = session.stats, facts_of(scope)
        facts.is_reported = True
        try:
            await session.run(scope, receive, send)
        except Problem as error:
            stats.is_refused, stats.code = True, error.code
            stats.status = self._status_of(error, scope)
            raise
        finally:
            stats.status = facts.status or stats.status
            await self.report(stats)

    async def report(self, stats: StreamStats) -> None:
        """Report an ended stream: log line, metrics, trace, and the hook."""
        end_stream(stats)
        outcome = stats.outcome
        if self._metrics is not None:
            self._metrics.count(stats, outcome)
        for name in HOST_HANDLERS if stats.dropped else ():  # events that named no known call, or came too late
            if times := stats.dropped.get(name):
                log.warning("host_event_dropped", stream_id=stats.stream_id, type=name, count=times)
        line = line_of(stats, outcome)
        # a failure of the server or of a provider is a warning
        level = logging.WARNING if outcome == "error" else level_of(stats.status, stats.code)
        log.log(level, "stream_end", **line)
        if self._on_terminal is not None:
            with anyio.CancelScope(shield=True):  # also if the client disconnected
                await _call(self._on_terminal, stats)
        stats.release_texts()

    def report_request(self, stats: StreamStats) -> None:
        """Report what failed at the upstreams of a request without a stream; its line is that of every request."""
        code, is_gone = stats.code, stats.is_client_gone
        if self._metrics is not None and code is not None and not is_gone and code not in stats.upstream_codes:
            self._metrics.count_failure(stats.upstream, code)


async def _call(hook: OnTerminal, stats: StreamStats) -> None:
    """Call the hook; a plain function runs in a thread, because it may block."""
    cancelled_before = times_cancelled()
    try:
        with anyio.fail_after(HOOK_S):
            if inspect.iscoroutinefunction(hook):
                await hook(terminal_of(stats))
                return
            result = await to_thread.run_sync(hook, terminal_of(stats), abandon_on_cancel=True, limiter=_threads())
            if result is not None:
                await result
    except (Exception, asyncio.CancelledError) as error:
        if is_cancelled(error, cancelled_before):
            raise
        log.error("hook_failed", stream_id=stats.stream_id, error_type=type(error).__name__)


def _threads() -> CapacityLimiter:
    try:
        return _THREADS.get()
    except LookupError:
        limiter = CapacityLimiter(_THREADS_MAX)
        _THREADS.set(limiter)
        return limiter
