"""Traces: the context of W3C in and out, and spans where OpenTelemetry is installed and set up."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Final, NamedTuple

from starlette.datastructures import Headers
from starlette.types import Scope

from projector.server.telemetry.stream_stats import Record

try:
    from projector.server.telemetry import spans as telemetry
except ImportError:
    HAS_SPANS = False
else:
    HAS_SPANS = True
"""Whether the extra `otel` is installed."""

_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(-.*)?")
_TRACESTATE_MAX_CHARS: Final = 512
"""What the recommendation asks everybody to pass on."""
_NOT_SAMPLED: Final = "00"


class Trace(NamedTuple):
    """One stream in a trace."""

    trace_id: str
    headers: Mapping[str, str]
    """For the request to the provider."""
    span: object | None = None


def begin(scope: Scope, record: Record) -> Trace:
    """Begin the part of a trace that a stream is; of the caller's trace if it sent one."""
    headers = Headers(scope=scope)
    if HAS_SPANS and (span := telemetry.begin(headers, record)) is not None:
        carrier = telemetry.headers(span)
        return Trace(carrier["traceparent"].split("-")[1], carrier, span)
    given = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
    trace_id, flags = given.group(1, 2) if given else (secrets.token_hex(16), _NOT_SAMPLED)
    said = {"traceparent": f"00-{trace_id}-{secrets.token_hex(8)}-{flags}"}
    state = headers.get("tracestate", "")
    if given and 0 < len(state) <= _TRACESTATE_MAX_CHARS and state.isascii():
        said["tracestate"] = state
    return Trace(trace_id, said)


def end(trace: Trace, record: Record) -> None:
    """End it with what the stream was."""
    if HAS_SPANS:
        telemetry.end(trace.span, record)
