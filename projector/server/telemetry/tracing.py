"""Trace context (W3C) of requests, in and out; spans if OpenTelemetry is installed and set up."""

from __future__ import annotations

import os
import re
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

from projector.server.http.problems import request_id
from projector.server.telemetry.request_facts import route_of
from projector.server.telemetry.stream_stats import StreamStats, Trace

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
    stats.route = route_of(scope)
    stats.request_id = request_id(scope)
    stats.trace = _trace(scope, stats)
    return stats


def end_stream(stats: StreamStats) -> None:
    """End the span of a stream, and measure it."""
    if HAS_SPANS:
        telemetry.end(stats)


def _trace(scope: Scope, stats: StreamStats) -> Trace:
    """Return a new trace context, a child of the caller's if it sent one."""
    headers = Headers(scope=scope)
    if HAS_SPANS and (span := telemetry.begin(headers, stats)) is not None:
        carrier = telemetry.headers(span)
        return Trace(carrier["traceparent"].split("-")[1], carrier, span)
    given = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
    if given is None:
        drawn = os.urandom(24).hex()  # 16 bytes of the trace, 8 of the span
        return Trace(drawn[:32], {"traceparent": f"00-{drawn[:32]}-{drawn[32:]}-{_NOT_SAMPLED}"})
    trace_id, flags = given.group(1, 2)
    carried = {"traceparent": f"00-{trace_id}-{os.urandom(8).hex()}-{flags}"}
    state = headers.get("tracestate", "")
    if 0 < len(state) <= _TRACESTATE_MAX_CHARS and state.isascii():
        carried["tracestate"] = state
    return Trace(trace_id, carried)
