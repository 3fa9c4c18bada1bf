"""Metrics of streams: classes of upstream failures, histograms, tokens, the process. Their labels are bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from projector.server.telemetry import spans
from projector.server.telemetry.stream_stats import IN_STREAM, REASONS, StreamStats, reason_label
from projector.server.upstream import http_upstream
from projector.server.upstream.targets import CIRCUIT_OPEN
from tests.exposed_metrics import exposed_labels, idle_metrics
from tests.waiting import wait_until

CREATED = b'data: {"type":"response.created","response":{"id":"r","model":"sight-word","status":"in_progress"}}\n\n'
DONE = b'data: {"type":"response.completed","response":{"id":"r","model":"sight-word","status":"completed"}}\n\n'
ERROR = b'data: {"type":"error","code":"sight-word","message":"sight-word"}\n\n'
FAILED = b"HTTP/1.1 500 Sad\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
SETTINGS = {"retries": {"initial_backoff_s": 0.01, "max": 2}}
TOKENS = "projector_tokens_total"


def script_of(*responses: tuple[bytes, ...]) -> Any:
    """Return the script of an upstream: one item for each request, either bytes or the chunks of a stream."""
    left = list(responses)

    async def script(peer: Any) -> None:
        head, *chunks = left.pop(0)
        if not chunks:
            await peer.send(head)
            return
        await peer.start()
        for chunk in chunks:
            await peer.chunk(chunk)
        await peer.end()

    return script


async def failures(site: Any) -> dict[str, float]:
    """Return the samples of failed upstream requests, by their labels."""
    assert await site.is_quiet()
    text = (await (await site.get("/metrics")).rest()).decode()
    name = "projector_upstream_failures_total"
    found = [line.removeprefix(name).rpartition(" ") for line in text.splitlines() if line.startswith(name)]
    return {labels: float(value) for labels, _, value in found}


@pytest.mark.parametrize(
    ("heartbeat_s", "responses", "expected"),
    [
        (31, [(b"", CREATED, DONE)], {}),
        (32, [(FAILED,), (FAILED,), (b"", CREATED, DONE)], {("upstream_http_500", "none"): 2}),
        (33, [(FAILED,), (FAILED,), (FAILED,)], {("upstream_http_500", "none"): 3}),
        (34, [(b"", CREATED)], {("upstream_truncated", "in_stream"): 1}),
        (35, [(b"", CREATED, ERROR)], {("provider_error", "in_stream"): 1}),
        (36, [(b"nonsense\r\n\r\n",)], {("upstream_malformed", "not_http"): 1}),
        (37, None, {("upstream_unreachable", "refused"): 3}),
    ],
)
async def test_each_failed_request_is_counted(
    serve: Any, upstream: Any, heartbeat_s: int, responses: Any, expected: dict[tuple[str, str], float]
) -> None:
    if responses is not None:
        await upstream(script_of(*responses))
    site = serve(heartbeat_s=heartbeat_s, **SETTINGS)
    await (await site.ask()).rest()
    found = await failures(site)
    assert found == {
        f'{{code="{code}",reason="{reason}",upstream="default"}}': times for (code, reason), times in expected.items()
    }


async def test_writes_of_the_store_are_timed(serve: Any, upstream: Any, tmp_path: Path) -> None:
    """Those of a store in memory take no time."""
    await upstream(script_of((b"", CREATED, DONE)))
    site = serve(store={"kind": "sqlite", "path": str(tmp_path / "store.db")})
    await (await site.ask()).rest()
    await wait_until(lambda: not site.state.logs.open)
    text = (await (await site.get("/metrics")).rest()).decode()
    (count,) = [line for line in text.splitlines() if line.startswith("projector_store_write_seconds_count")]
    assert float(count.rpartition(" ")[2]) >= 1


async def test_the_words_of_a_provider_are_in_no_label(serve: Any, upstream: Any) -> None:
    await upstream(script_of((b"", CREATED, ERROR), (b"", CREATED, DONE)))
    site = serve(heartbeat_s=38)
    for _ in range(2):
        await (await site.ask()).rest()
    assert await site.is_quiet()
    assert b"sight-word" not in await (await site.get("/metrics")).rest()


def test_reasons_come_from_a_table() -> None:
    assert {reason for _, _, reason in http_upstream._PROBLEMS} | {"refused", IN_STREAM, CIRCUIT_OPEN} == REASONS
    assert reason_label("upstream_unreachable", "invented") == "other"
    assert reason_label("upstream_timeout_idle", None) == "timeout"


@pytest.mark.parametrize("count", [-1, 0, 10**400])
def test_tokens_that_cannot_be_are_not_counted(count: int) -> None:
    stats = StreamStats(dialect="public_sse_v1")
    stats.on_frame({"kind": "final", "event_id": 1, "final": {"status": "completed", "usage": {"input_tokens": count}}})
    metrics = idle_metrics()
    metrics.count(stats, stats.outcome)
    assert f"\n{TOKENS}{{" not in metrics.text().decode()


def test_the_labels_of_metrics() -> None:
    found = exposed_labels()
    by_stream = {"upstream", "agent", "outcome"}
    for name in ("stream_duration", "first_byte", "first_token", "overhead"):
        assert found[f"projector_{name}_seconds_bucket"] == by_stream | {"le"}
    assert found[TOKENS] == {"upstream", "agent", "type"}
    assert found["process_resident_memory_bytes"] == set()


def test_the_words_of_a_provider_are_in_no_opentelemetry_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader]).get_meter("projector")
    monkeypatch.setattr(spans, "_DURATION", meter.create_histogram("gen_ai.client.operation.duration"))
    stats = StreamStats(dialect="public_sse_v1", api="openai_chat", response_model="sight-word")
    stats.on_frame({"kind": "error", "event_id": 1, "error": {"code": "sight-word", "is_retryable": False}})
    spans.end(stats)
    [point] = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
    assert dict(point.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "error.type": "provider_error",
    }
