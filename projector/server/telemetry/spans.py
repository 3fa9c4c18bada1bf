"""OpenTelemetry spans and metrics, named by the semantic conventions for generative AI. They contain no content.

Imported if the extra `otel` is installed. The host sets up the SDK; without it every call is a no-op. The server is a
client of the provider, so its span has the kind CLIENT; its parent is the current span of the host or of the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import accumulate, repeat
from operator import mul
from typing import Final

from opentelemetry import context, metrics, propagate, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from projector.providers import PROVIDERS
from projector.server.telemetry.stream_stats import CLIENT_LEFT, StreamStats, code_label

_SECONDS: Final = [0.01 * 2**n for n in range(14)]
_TOKENS: Final = list(accumulate(repeat(4, 13), mul, initial=1))
"""Bucket boundaries recommended by the conventions."""

_OPERATION: Final = "chat"
_TRACER: Final = trace.get_tracer("projector")
_METER: Final = metrics.get_meter("projector")
_histogram: Final = partial(_METER.create_histogram, unit="s", explicit_bucket_boundaries_advisory=_SECONDS)
_DURATION: Final = _histogram("gen_ai.client.operation.duration")
_FIRST_CHUNK: Final = _histogram("gen_ai.client.operation.time_to_first_chunk")
_PER_CHUNK: Final = _histogram("gen_ai.client.operation.time_per_output_chunk")
_USAGE: Final = _histogram("gen_ai.client.token.usage", unit="{token}", explicit_bucket_boundaries_advisory=_TOKENS)
_TOKEN_TYPES: Final = (("input_tokens", "input"), ("output_tokens", "output"))


def begin(headers: Mapping[str, str], stats: StreamStats) -> Span | None:
    """Start the span of a stream; return None if it is not recorded."""
    parent = (
        context.get_current() if trace.get_current_span().get_span_context().is_valid else propagate.extract(headers)
    )
    attributes = {**_attributes(stats), "gen_ai.request.stream": True}
    span = _TRACER.start_span(f"{_OPERATION} {stats.model}".strip(), parent, SpanKind.CLIENT, attributes)
    return span if span.is_recording() else None


def headers(span: Span) -> dict[str, str]:
    """Return the headers that propagate a span."""
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, trace.set_span_in_context(span))
    return carrier


def end(stats: StreamStats) -> None:
    """End the span of a stream, and record its metrics."""
    span, labels, duration_s = stats.trace.span, _attributes(stats), stats.duration_s
    if stats.code is not None or stats.is_client_gone:
        labels["error.type"] = CLIENT_LEFT if stats.code is None else code_label(stats.code)
    if isinstance(span, Span):
        span.update_name(f"{_OPERATION} {stats.model}".strip())  # the target that answered may be another one
        span.set_attributes(labels | dict(_outcome(stats)))
        if "error.type" in labels:
            span.set_status(Status(StatusCode.ERROR))
        span.end()
    _DURATION.record(duration_s, labels)
    if stats.first_byte_s is not None:
        first_s = stats.waited_s + stats.first_byte_s
        _FIRST_CHUNK.record(first_s, labels)
        if stats.frames > 1:
            _PER_CHUNK.record((duration_s - first_s) / (stats.frames - 1), labels)
    usage = stats.usage
    for name, kind in _TOKEN_TYPES:
        if name in usage:
            _USAGE.record(usage[name], labels | {"gen_ai.token.type": kind})


def _attributes(stats: StreamStats) -> dict[str, AttributeValue]:
    return {
        "gen_ai.operation.name": _OPERATION,
        **({"gen_ai.provider.name": PROVIDERS[stats.api].telemetry_name} if stats.api else {}),  # not of a workflow
        **({"gen_ai.request.model": stats.model} if stats.model else {}),
        # not of a workflow, or of the host's own source
        **({"server.address": stats.server_address, "server.port": stats.server_port} if stats.server_address else {}),
    }


def _outcome(stats: StreamStats) -> Iterator[tuple[str, AttributeValue]]:
    """Yield the attributes that are known at the end only."""
    if stats.response_model is not None:
        yield "gen_ai.response.model", stats.response_model
    if "response_id" in stats.terminal:
        yield "gen_ai.response.id", stats.terminal["response_id"]
    if "final" in stats.terminal:
        yield "gen_ai.response.finish_reasons", [stats.terminal["final"]["status"]]
    if stats.first_byte_s is not None:
        yield "gen_ai.response.time_to_first_chunk", stats.waited_s + stats.first_byte_s
    for name, _ in _TOKEN_TYPES:
        if name in stats.usage:
            yield f"gen_ai.usage.{name}", stats.usage[name]
