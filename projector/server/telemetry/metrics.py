"""Prometheus metrics. Label values come from fixed tables, never from IDs or provider data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from projector import __version__
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
    status_label,
)
from projector.server.upstream.circuit import Circuits, Counts

_TOKEN_TYPES: Final = (("input_tokens", "input"), ("output_tokens", "output"))
_TOKENS_MAX: Final = 1_000_000_000
_DURATION_S: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800)
_FIRST_BYTE_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120)
_OVERHEAD_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""A stream of a hundred events takes a millisecond; one with large images up to a second."""


class Row(NamedTuple):
    """A metric; the samples of a counter have `_total` after its name."""

    kind: Callable[..., Any]
    name: str
    about: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram."""

    @property
    def exposed(self) -> str:
        """The name in `/metrics`."""
        return f"{self.name}_total" if self.kind is Counter else self.name


_OF_STREAM: Final = ("upstream", "agent", "outcome")
METRICS: Final = (
    Row(Gauge, "projector_build_info", "Version of the server.", ("version",)),
    Row(Gauge, "projector_reload_successful", "Whether the last reload was accepted: 1 or 0."),
    Row(Gauge, "projector_certificate_expiry_timestamp_seconds", "When certificates expire.", ("setting",)),
    Row(Gauge, "projector_streams_active", "Running streams."),
    Row(Gauge, "projector_streams_max", "Limit of running streams."),
    Row(Gauge, "projector_upstream_open", "Open requests to providers."),
    Row(Gauge, "projector_memory_held_bytes", "Memory held by streams."),
    Row(Gauge, "projector_memory_max_bytes", "Limit of this memory."),
    Row(Gauge, "projector_stream_readers", "Readers of stored streams."),
    Row(Gauge, "projector_store_available", "Whether the store works: 1 or 0."),
    Row(Gauge, "projector_store_logs_open", "Streams whose log is written."),
    Row(Gauge, "projector_store_waiting_bytes", "Frames that wait for the store."),
    Row(Gauge, "projector_connections_open", "Open connections of clients."),
    Row(Counter, "projector_requests", "Responses to requests.", ("route", "status")),
    Row(Counter, "projector_refusals", "Error responses to requests.", ("route", "code")),
    Row(Counter, "projector_streams", "Ended streams.", ("outcome", "dialect")),
    Row(Counter, "projector_clients_gone", "Streams that ended without their client, by why it was gone.", ("reason",)),
    Row(Counter, "projector_stream_errors", "Streams that failed.", ("upstream", "agent", "code")),
    Row(Counter, "projector_events_dropped", "Provider events that were not forwarded.", ("type",)),
    Row(Counter, "projector_notices", "Notices of withheld or truncated values.", ("type",)),
    Row(Counter, "projector_heartbeats", "Heartbeat comments sent."),
    Row(Counter, "projector_connections_closed", "Connections that the server closed.", ("reason",)),
    Row(Counter, "projector_log_lines_lost", "Lines of the log that could not be written."),
    Row(Counter, "projector_store_logs_lost", "Streams that lost their log.", ("reason",)),
    Row(Counter, "projector_upstream_failures", "Failed requests to upstreams.", ("upstream", "code", "reason")),
    Row(Counter, "projector_upstream_failovers", "Requests that were sent to another target.", ("upstream", "code")),
    Row(Counter, "projector_upstream_retries_refused", "Retries that the budget did not allow.", ("upstream",)),
    Row(
        Gauge,
        "projector_upstream_circuit_state",
        "Circuit breaker of a target: 0 closed, 1 half open, 2 open.",
        ("upstream", "model"),
    ),
    Row(Counter, "projector_tokens", "Tokens that providers reported.", ("upstream", "agent", "type")),
    Row(Histogram, "projector_store_write_seconds", "Time to write events to the store.", (), _OVERHEAD_S),
    Row(Histogram, "projector_stream_duration_seconds", "Duration of a stream.", _OF_STREAM, _DURATION_S),
    Row(
        Histogram,
        "projector_first_byte_seconds",
        "Time from the last attempt to the first byte of the upstream.",
        _OF_STREAM,
        _FIRST_BYTE_S,
    ),
    Row(
        Histogram,
        "projector_first_token_seconds",
        "Time from the request to the first part of the answer.",
        _OF_STREAM,
        _FIRST_BYTE_S,
    ),
    Row(
        Histogram,
        "projector_overhead_seconds",
        "Processing time that the pipeline added to a stream.",
        _OF_STREAM,
        _OVERHEAD_S,
    ),
)
"""All metrics, in the order of `/metrics`; those of the process follow."""


class Metrics:
    """Metrics of one server."""

    def __init__(self, streams: Streams, circuits: Circuits, logs: StreamLogs) -> None:
        self._registry = registry = CollectorRegistry()
        self._made = {row.name: _made(row, registry) for row in METRICS}
        self._labelled: dict[tuple[str, tuple[str, ...]], Any] = {}
        """As many as the metrics have rows: labels are from fixed tables and the configuration."""
        read: dict[str, Callable[[], float]] = {
            "projector_streams_active": lambda: streams.active,
            "projector_upstream_open": lambda: streams.upstream_open,
            "projector_streams_max": lambda: streams.max_active,
            "projector_memory_held_bytes": lambda: streams.held_bytes,
            "projector_memory_max_bytes": lambda: streams.max_bytes,
            "projector_stream_readers": lambda: streams.readers,
            "projector_store_available": lambda: logs.is_sound,
            "projector_store_logs_open": lambda: logs.open,
            "projector_store_waiting_bytes": lambda: logs.waiting_bytes,
        }
        for name, value in read.items():
            self._made[name].set_function(value)
        logs.on_written = self._made["projector_store_write_seconds"].observe
        self._circuits, self._logs = circuits, logs
        self._counts = circuits.counts
        """What is added to the counters when they are read: each addition takes the library four calls and a lock."""
        self._counted: Counts = {}
        """What was added."""
        self._made["projector_build_info"].labels(__version__).set(1)
        self.note_reload(is_accepted=True)
        ProcessCollector(registry=registry)

    def watch_connections(self, count: Callable[[], int]) -> None:
        """Show the number of open connections; an application does not know those of its server."""
        self._made["projector_connections_open"].set_function(count)

    def note_reload(self, *, is_accepted: bool) -> None:
        """Show whether the last reload was accepted; a start is one."""
        self._made["projector_reload_successful"].set(is_accepted)

    def show_certificates(self, ends: Iterable[tuple[str, float]]) -> None:
        """Show when the certificates in use expire: the path of each setting, and seconds since 1970."""
        shown = self._made["projector_certificate_expiry_timestamp_seconds"]
        shown.clear()
        for setting, end_s in ends:
            shown.labels(setting).set(end_s)

    def count(self, stats: StreamStats, outcome: str) -> None:
        """Record an ended stream, which has this outcome."""
        code, counts = stats.code, self._counts
        counts["projector_streams", outcome, stats.dialect] += 1
        counts["projector_heartbeats",] += stats.heartbeats
        if stats.client_gone is not None:
            counts["projector_clients_gone", stats.client_gone] += 1
        upstream, agent = stats.upstream, stats.agent or ""
        labels = upstream, agent, outcome
        self._of("projector_stream_duration_seconds", *labels).observe(stats.duration_s)
        self._of("projector_overhead_seconds", *labels).observe(stats.overhead_s)
        for name, after_s in (("first_byte", stats.first_byte_s), ("first_token", stats.first_token_s)):
            if after_s is not None:
                self._of(f"projector_{name}_seconds", *labels).observe(after_s)
        for name, kind in _TOKEN_TYPES:
            count = stats.usage.get(name, 0)
            if 0 < count <= _TOKENS_MAX:  # a provider may report anything
                counts["projector_tokens", upstream, agent, kind] += count
        if code is not None and not stats.is_client_gone:
            counts["projector_stream_errors", upstream, agent, code_label(code)] += 1
            if code not in stats.upstream_codes:  # those are counted when they happen
                self.count_failure(upstream, code)
        for name, times in stats.dropped.items():
            counts["projector_events_dropped", event_label(name)] += times
        for name, times in stats.notices.items():
            counts["projector_notices", name] += times

    def _of(self, name: str, *labels: str) -> Any:
        """Return a metric with labels, if it has any. The library checks them and takes a lock each time."""
        found = self._labelled.get((name, labels))
        if found is None:
            made = self._made[name]
            found = self._labelled[name, labels] = made.labels(*labels) if labels else made
        return found

    def count_failure(self, upstream: str, code: str) -> None:
        """Record a failure after the response of an upstream began, if its code is one of an upstream."""
        code = code_label(code)
        if code.startswith("upstream_") or code == PROVIDER_CODE:
            self._counts["projector_upstream_failures", upstream, code, IN_STREAM] += 1

    def count_request(self, route: str | None, facts: RequestFacts) -> None:
        """Record a request whose response has ended."""
        self._counts["projector_requests", route or OTHER, status_label(facts.status)] += 1
        if facts.code is not None:
            self._counts["projector_refusals", route or OTHER, code_label(facts.code)] += 1

    def count_malformed(self) -> None:
        """Record bytes of a client that are no request."""
        self._counts["projector_refusals", OTHER, MALFORMED_HTTP] += 1

    def count_closed_connection(self, reason: str) -> None:
        """Record a connection that the server closed without a request."""
        self._counts["projector_connections_closed", reason] += 1

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        states = self._made["projector_upstream_circuit_state"]
        states.clear()
        for (upstream, model), circuit in self._circuits:
            states.labels(upstream, model).set(circuit.state)
        now: Counts = {**self._counts, ("projector_log_lines_lost",): lost_lines()}
        now |= {("projector_store_logs_lost", reason): times for reason, times in self._logs.lost.items()}
        for key, times in now.items():
            self._of(*key).inc(times - self._counted.get(key, 0))
        self._counted = now
        return generate_latest(self._registry)


def _made(row: Row, registry: CollectorRegistry) -> Any:
    more = {"buckets": row.buckets} if row.buckets else {}
    return row.kind(row.name, row.about, row.labels, registry=registry, **more)
