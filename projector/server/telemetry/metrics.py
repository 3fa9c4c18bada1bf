"""Prometheus metrics. Label values come from fixed tables, never from IDs or provider data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from projector.server.streaming.registry import Streams
from projector.server.streaming.stream_logs import StreamLogs
from projector.server.telemetry.logs import lost_lines
from projector.server.telemetry.request_facts import RequestFacts
from projector.server.telemetry.stream_stats import (
    IN_STREAM,
    MALFORMED_HTTP,
    OTHER,
    PROVIDER_CODE,
    StreamStats,
    code_label,
    event_label,
    reason_label,
    status_label,
)
from projector.server.upstream.circuit import Circuits

_TOKEN_TYPES: Final = (("input_tokens", "input"), ("output_tokens", "output"))
_TOKENS_MAX: Final = 1_000_000_000
_DURATION_S: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800)
_FIRST_BYTE_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120)
_OVERHEAD_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""A stream of a hundred events takes a millisecond; one with large images up to a second."""

_Metric = TypeVar("_Metric", Counter, Histogram)


class Metrics:
    """Metrics of one server."""

    def __init__(self, streams: Streams, circuits: Circuits, logs: StreamLogs) -> None:
        self._registry = CollectorRegistry()
        self._labelled: dict[tuple[object, tuple[str, ...]], Any] = {}
        """As many as the metrics have rows: labels are from fixed tables and the configuration."""
        for name, about, value in (
            ("projector_streams_active", "Running streams.", lambda: streams.active),
            ("projector_upstream_open", "Open requests to providers.", lambda: streams.upstream_open),
            ("projector_memory_held_bytes", "Memory held by streams.", lambda: streams.held_bytes),
            ("projector_stream_readers", "Readers of stored streams.", lambda: streams.readers),
            ("projector_store_available", "Whether the store works: 1 or 0.", lambda: logs.is_sound),
            ("projector_store_logs_open", "Streams whose log is written.", lambda: logs.open),
            ("projector_store_waiting_bytes", "Frames that wait for the store.", lambda: logs.waiting_bytes),
        ):
            Gauge(name, about, registry=self._registry).set_function(value)
        self._connections = Gauge("projector_connections_open", "Open connections of clients.", registry=self._registry)
        self._requests = self._counter("projector_requests", "Responses to requests.", "route", "status")
        self._refusals = self._counter("projector_refusals", "Error responses to requests.", "route", "code")
        self._streams = self._counter("projector_streams", "Ended streams.", "outcome", "dialect")
        self._errors = self._counter("projector_stream_errors", "Streams that failed.", "upstream", "agent", "code")
        self._dropped = self._counter("projector_events_dropped", "Provider events that were not forwarded.", "type")
        self._notices = self._counter("projector_notices", "Notices of withheld or truncated values.", "type")
        self._heartbeats = self._counter("projector_heartbeats", "Heartbeat comments sent.")
        self._closed = self._counter("projector_connections_closed", "Connections that the server closed.", "reason")
        self._lost_lines = self._counter("projector_log_lines_lost", "Lines of the log that could not be written.")
        self._counted_lines = 0
        self._logs = logs
        self._lost_logs = self._counter("projector_store_logs_lost", "Streams that lost their log.", "reason")
        self._counted_logs: dict[str, int] = {}
        self._failures = self._counter(
            "projector_upstream_failures", "Failed requests to upstreams.", "upstream", "code", "reason"
        )
        self._failovers = self._counter(
            "projector_upstream_failovers", "Requests that were sent to another target.", "upstream", "code"
        )
        self._refused_retries = self._counter(
            "projector_upstream_retries_refused", "Retries that the budget did not allow.", "upstream"
        )
        self._circuits = circuits
        self._circuit_states = Gauge(
            "projector_upstream_circuit_state",
            "Circuit breaker of a target: 0 closed, 1 half open, 2 open.",
            ("upstream", "model"),
            registry=self._registry,
        )
        self._tokens = self._counter("projector_tokens", "Tokens that providers reported.", "upstream", "agent", "type")
        self._duration = self._histogram("projector_stream_duration_seconds", "Duration of a stream.", _DURATION_S)
        self._first_byte = self._histogram(
            "projector_first_byte_seconds", "Time to the first byte of the upstream.", _FIRST_BYTE_S
        )
        self._overhead = self._histogram(
            "projector_overhead_seconds", "Processing time that the pipeline added to a stream.", _OVERHEAD_S
        )
        ProcessCollector(registry=self._registry)

    def watch_connections(self, count: Callable[[], int]) -> None:
        """Show the number of open connections; an application does not know those of its server."""
        self._connections.set_function(count)

    def count(self, stats: StreamStats) -> None:
        """Record an ended stream."""
        outcome, code = stats.outcome, stats.code
        self._of(self._streams, outcome, stats.dialect).inc()
        if stats.heartbeats:
            self._heartbeats.inc(stats.heartbeats)
        labels = stats.upstream, stats.agent or "", outcome
        self._of(self._duration, *labels).observe(stats.duration_s)
        self._of(self._overhead, *labels).observe(stats.overhead_s)
        if stats.first_byte_s is not None:
            self._of(self._first_byte, *labels).observe(stats.first_byte_s)
        for name, kind in _TOKEN_TYPES:
            count = stats.usage.get(name, 0)
            if 0 < count <= _TOKENS_MAX:  # a provider may report anything
                self._of(self._tokens, stats.upstream, stats.agent or "", kind).inc(count)
        if code is not None and not stats.is_client_gone:
            self._errors.labels(stats.upstream, stats.agent or "", code_label(code)).inc()
        self.count_failures(stats)
        for name, times in stats.dropped.items():
            self._of(self._dropped, event_label(name)).inc(times)
        for name, times in stats.notices.items():
            self._notices.labels(name).inc(times)

    def _of(self, metric: _Metric, *labels: str) -> _Metric:
        """Return a metric with labels. The library checks them and takes a lock each time."""
        found: _Metric | None = self._labelled.get((metric, labels))
        if found is None:
            found = self._labelled[metric, labels] = metric.labels(*labels)
        return found

    def count_failures(self, stats: StreamStats) -> None:
        """Record what failed at upstreams."""
        for (upstream, code), times in stats.failovers.items():
            self._failovers.labels(upstream, code_label(code)).inc(times)
        for upstream, times in stats.refused_retries.items():
            self._refused_retries.labels(upstream).inc(times)
        for (upstream, code, reason), times in stats.upstream_failures.items():
            self._failures.labels(upstream, code_label(code), reason_label(code, reason)).inc(times)
        own = stats.code
        if own is None or stats.is_client_gone or own in {one for _, one, _ in stats.upstream_failures}:
            return
        code = code_label(own)
        if code.startswith("upstream_") or code == PROVIDER_CODE:
            self._failures.labels(stats.upstream, code, IN_STREAM).inc()

    def count_request(self, route: str | None, facts: RequestFacts) -> None:
        """Record a request whose response has ended."""
        self._of(self._requests, route or OTHER, status_label(facts.status)).inc()
        if facts.code is not None:
            self._refusals.labels(route or OTHER, code_label(facts.code)).inc()

    def count_malformed(self) -> None:
        """Record bytes of a client that are no request."""
        self._refusals.labels(OTHER, MALFORMED_HTTP).inc()

    def count_closed_connection(self, reason: str) -> None:
        """Record a connection that the server closed without a request."""
        self._closed.labels(reason).inc()

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        self._circuit_states.clear()
        for (upstream, model), circuit in self._circuits:
            self._circuit_states.labels(upstream, model).set(circuit.state)
        lost = lost_lines()
        self._lost_lines.inc(lost - self._counted_lines)
        self._counted_lines = lost
        for reason, times in self._logs.lost.items():
            self._lost_logs.labels(reason).inc(times - self._counted_logs.get(reason, 0))
            self._counted_logs[reason] = times
        return generate_latest(self._registry)

    def _histogram(self, name: str, about: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(name, about, ("upstream", "agent", "outcome"), registry=self._registry, buckets=buckets)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self._registry)
