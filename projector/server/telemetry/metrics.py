"""Prometheus metrics. Label values come from fixed tables, never from IDs or provider data."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from projector.core.handlers import DROPPED, HANDLERS
from projector.server.streaming.registry import Streams
from projector.server.telemetry.labels import MALFORMED_HTTP, OTHER, code_label, status_label
from projector.server.telemetry.logs import lost_lines
from projector.server.telemetry.request_facts import RequestFacts
from projector.server.telemetry.stream_stats import StreamStats

_KNOWN: Final = frozenset({*DROPPED, *HANDLERS})
_OVERHEAD_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""A stream of a hundred events takes a millisecond; one with large images up to a second."""


class Metrics:
    """Metrics of one server."""

    def __init__(self, streams: Streams) -> None:
        self._registry = CollectorRegistry()
        for name, about, value in (
            ("projector_streams_active", "Running streams.", lambda: streams.active),
            ("projector_upstream_open", "Open requests to providers.", lambda: streams.upstream_open),
            ("projector_memory_held_bytes", "Memory held by streams.", lambda: streams.held_bytes),
        ):
            Gauge(name, about, registry=self._registry).set_function(value)
        self._requests = self._counter("projector_requests", "Responses to requests.", "route", "status")
        self._refusals = self._counter("projector_refusals", "Error responses to requests.", "route", "code")
        self._streams = self._counter("projector_streams", "Ended streams.", "outcome", "dialect")
        self._dropped = self._counter("projector_events_dropped", "Provider events that were not forwarded.", "type")
        self._notices = self._counter("projector_notices", "Notices of withheld or truncated values.", "type")
        self._heartbeats = self._counter("projector_heartbeats", "Heartbeat comments sent.")
        self._lost_lines = self._counter("projector_log_lines_lost", "Lines of the log that could not be written.")
        self._counted_lines = 0
        self._overhead = Histogram(
            "projector_overhead_seconds",
            "Processing time that the pipeline added to a stream.",
            registry=self._registry,
            buckets=_OVERHEAD_BUCKETS_S,
        )

    def count(self, stats: StreamStats) -> None:
        """Record an ended stream."""
        self._streams.labels(stats.outcome, stats.dialect).inc()
        self._heartbeats.inc(stats.heartbeats)
        self._overhead.observe(stats.overhead_s)
        for name, times in stats.dropped.items():
            self._dropped.labels(name if name in _KNOWN else OTHER).inc(times)
        for name, times in stats.notices.items():
            self._notices.labels(name).inc(times)

    def count_request(self, route: str | None, facts: RequestFacts) -> None:
        """Record a request whose response has ended."""
        self._requests.labels(route or OTHER, status_label(facts.status)).inc()
        if facts.code is not None:
            self._refusals.labels(route or OTHER, code_label(facts.code)).inc()

    def count_malformed(self) -> None:
        """Record bytes of a client that are no request."""
        self._refusals.labels(OTHER, MALFORMED_HTTP).inc()

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        lost = lost_lines()
        self._lost_lines.inc(lost - self._counted_lines)
        self._counted_lines = lost
        return generate_latest(self._registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self._registry)
