"""What `/metrics` exposes when everything that is counted has happened once."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from projector.server.config.settings import Limits
from projector.server.streaming.registry import Streams
from projector.server.streaming.stream_logs import StreamLogs
from projector.server.telemetry.metrics import Metrics
from projector.server.telemetry.request_facts import RequestFacts
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.circuit import Circuits
from projector.store.memory import MemoryStore


def idle_metrics() -> Metrics:
    """Return metrics of a server that has done nothing."""
    return Metrics(Streams(Limits()), Circuits(), StreamLogs(MemoryStore(), unread_s=300))


def busy_metrics() -> Metrics:
    """Return metrics in which every counter and histogram has a value."""
    circuits = Circuits()
    circuits.circuit("openai", "gpt-5.4-mini")
    logs = StreamLogs(MemoryStore(), unread_s=300)
    logs.lost["gap"] = 1
    metrics = Metrics(Streams(Limits()), circuits, logs)
    logs.on_written(0.002)
    stats = StreamStats(dialect="public_sse_v1", upstream="openai", agent="helper", heartbeats=1)
    usage = {"input_tokens": 3, "output_tokens": 5}
    stats.on_frame({"kind": "final", "event_id": 1, "final": {"status": "completed", "usage": usage}})
    stats.first_byte_s, stats.first_token_s, stats.duration_s = 0.5, 1.0, 2.0
    stats.dropped, stats.client_gone = {"keepalive": 1}, "stalled"
    stats.notices["truncated"] += 1
    circuits.counts["projector_upstream_failures", "openai", "upstream_unreachable", "refused"] += 1
    circuits.counts["projector_upstream_failovers", "openai", "upstream_unreachable"] += 1
    circuits.counts["projector_upstream_retries_refused", "openai"] += 1
    metrics.count(stats, stats.outcome)
    stats.is_refused, stats.code = True, "upstream_unreachable"
    metrics.count(stats, stats.outcome)
    metrics.count_request("/readyz", RequestFacts(status=503, code="server_shutdown"))
    metrics.count_closed_connection("limit")
    metrics.show_certificates([("tls.cert_file", 1.8e9)])
    return metrics


def exposed_labels() -> dict[str, set[str]]:
    """Return the names of all samples, each with the names of its labels."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(busy_metrics().text().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found
