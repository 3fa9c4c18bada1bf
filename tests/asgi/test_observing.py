"""Reports of streams: log, metrics, traces. No IDs in labels, no payload anywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest
import structlog
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.datastructures import Headers

from projector import build_pipeline
from projector.providers import PROVIDERS
from projector.server.telemetry import reports
from projector.server.telemetry import spans as telemetry
from projector.server.telemetry.reports import Observer
from projector.server.telemetry.stream_stats import StreamStats
from tests.asgi.conftest import plays
from tests.asgi.examples import example
from tests.exposed_metrics import idle_metrics
from tests.rule_samples import MIXED

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CREATED = b'data: {"type":"response.created","response":{"id":"resp_1","model":"gpt-x-1","status":"in_progress"}}\n\n'
NO_JSON = b"data: upstream timed out\n\n"
UNKNOWN = b'data: {"type":"response.invented","secret":"payload"}\n\ndata: {"type":"keepalive"}\n\n'
TEXT = b'data: {"type":"response.output_text.delta","item_id":"m","output_index":0,"delta":"payload"}\n\n'
DONE = (
    b'data: {"type":"response.completed","response":{"id":"resp_1","model":"gpt-x-1","status":"completed",'
    b'"output":[],"usage":{"input_tokens":3,"output_tokens":5,"total_tokens":8}}}\n\n'
)


def record(
    *parts: bytes, provider: str = "openai_responses", on_item: Callable[[str, str], None] | None = None
) -> StreamStats:
    one = StreamStats(
        stream_id="stream_1", request_id="req_1", dialect="public_sse_v1", model="gpt-x", api="openai_responses"
    )
    one.on_item = on_item
    pipeline = build_pipeline(provider=provider, dialect="public_sse_v1", on_frame=one.on_frame)
    for part in parts:
        pipeline.feed(part)
    pipeline.close()
    one.add_dropped(pipeline.dropped, pipeline.redactor)
    one.first_byte_s, one.first_token_s = 0.5, one.first_token_s and 0.75
    one.started_at, one.duration_s = one.started_at - 2, 2.0
    one.server_address, one.server_port = "api.example", 443
    return one


def scope(**headers: str) -> dict[str, Any]:
    return {"headers": [(name.encode(), value.encode()) for name, value in headers.items()]}


async def test_one_line_for_each_stream() -> None:
    with structlog.testing.capture_logs() as lines:
        await Observer().report(record(CREATED, TEXT, DONE))
    [line] = [line for line in lines if line["event"] == "stream_end"]
    assert line.pop("duration_s") >= 0
    assert line == {
        "event": "stream_end",
        "log_level": "info",
        "stream_id": "stream_1",
        "request_id": "req_1",
        "trace_id": "",
        "caller": "",
        "model": "gpt-x",
        "dialect": "public_sse_v1",
        "response_id": "resp_1",
        "outcome": "completed",
        "first_byte_s": 0.5,
        "first_token_s": 0.75,
        "overhead_s": 0.0,
        "events": line["events"],
        "heartbeats": 0,
        "input_tokens": 3,
        "output_tokens": 5,
        "total_tokens": 8,
    }


async def test_the_line_names_what_was_dropped() -> None:
    """A provider chooses these names: only clean ones without blanks are in the log, and only the most frequent."""
    names = (
        b"response.new",
        b"response.new",
        b"a sentence of a user",
        b"sk-proj-%b" % MIXED[:40].encode(),
        b"keepalive",
    )
    odd = [b'data: {"type":"%b"}\n\n' % name for name in names]
    many = [b'data: {"type":"odd.%d"}\n\n' % number for number in range(60)]
    with structlog.testing.capture_logs() as lines:
        await Observer().report(record(CREATED, *odd, TEXT, DONE, TEXT))
        await Observer().report(record(CREATED, *odd, *many, DONE))
    some, most = [line["dropped"] for line in lines if line["event"] == "stream_end"]
    assert some == {"response.new": 2, "other": 2, "(after the end)": 1}
    assert (len(most), most["response.new"]) == (16, 2)


@pytest.mark.parametrize(
    ("given", "reported"), [("conv-7", "conv-7"), (f"sk-{MIXED[:48]}", "redacted_1"), (None, None)]
)
async def test_a_conversation_is_reported_as_its_events_name_it(
    serve: Any, upstream: Any, given: str | None, reported: str | None
) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.chunk(CREATED + TEXT + DONE)
        await peer.end()

    await upstream(script)
    site = serve()
    with structlog.testing.capture_logs() as lines:
        await (await site.ask(body={"message": "hi"} | ({"conversation_id": given} if given else {}))).rest()
        assert await site.is_quiet()
    assert [line.get("conversation_id") for line in lines if line["event"] == "stream_end"] == [reported]


@pytest.mark.parametrize(("model", "reported"), [("gpt-5.4-mini", "gpt-5.4-mini"), ("m" * 9, None)])
async def test_a_model_is_reported_if_it_is_configured(
    serve: Any, upstream: Any, model: str, reported: str | None
) -> None:
    """Any other name is the caller's word: it is in no log line, trace or metric."""

    async def script(peer: Any) -> None:
        await peer.start()
        await peer.chunk(DONE)
        await peer.end()

    await upstream(script)
    site = serve()
    with structlog.testing.capture_logs() as lines:
        await (await site.ask("/v1/responses", {"input": "hi", "model": model})).rest()
        assert await site.is_quiet()
    assert [line.get("model") for line in lines if line["event"] == "stream_end"] == [reported]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((b'data: {"object":"chat.completion.chunk","choices":[]}\n\n',), "other_api"),
        ((), None),
        ((NO_JSON,), None),
        ((CREATED, UNKNOWN), None),
    ],
)
async def test_a_stream_of_another_api_is_reported(parts: tuple[bytes, ...], reason: str | None) -> None:
    with structlog.testing.capture_logs() as lines:
        await Observer().report(record(*parts))
    [line] = [line for line in lines if line["event"] == "stream_end"]
    assert (line["outcome"], line.get("reason")) == ("error", reason)
    assert (line.get("dropped") == {"(no JSON)": 1}) == (NO_JSON in parts)


SPOKEN = {
    "openai_responses": "chat-text-citations",
    "openai_chat": "chat-completions-text",
    "anthropic_messages": "messages-text",
    "gemini": "gemini-text",
}


@pytest.mark.parametrize("name", [b"", b"event: message\n"])
@pytest.mark.parametrize("spoken", SPOKEN)
@pytest.mark.parametrize("configured", PROVIDERS)
def test_each_api_is_told_from_each_other(configured: str, spoken: str, name: bytes) -> None:
    events = [b"%bdata: %b\n\n" % (name, data) for response in example(SPOKEN[spoken], spoken) for data in response]
    one = record(*events, provider=configured)
    assert one.reason == (None if configured == spoken else "other_api")
    if spoken != configured:
        assert (one.code, one.terminal["error"]["is_retryable"]) == ("upstream_malformed", False)
        assert one.terminal["error"]["message"] == "The provider sent no event of the configured API."


CITED: Final = {"type": "container_file_citation", "container_id": "container_1", "file_id": "f", "filename": "f"}
CODE: Final = {"type": "code_interpreter_call", "id": "ci", "code": "1", "container_id": "container_1"}
TOOLS: Final = [{"type": "code_interpreter", "container": "container_1"}]


FILE: Final = {"type": "code_execution_result", "content": [{"type": "code_execution_output", "file_id": "f"}]}
MADE: Final = [
    b'{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"code_execution"}}',
    b'{"type":"content_block_stop","index":0}',
    b'{"type":"content_block_start","index":1,"content_block":{"type":"code_execution_tool_result","tool_use_id":"s",'
    b'"content":%b}}' % json.dumps(FILE).encode(),
    b'{"type":"content_block_stop","index":1}',
    b'{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"A file."}}',
    b'{"type":"content_block_stop","index":2}',
    b'{"type":"message_delta","delta":{"stop_reason":"end_turn","container":{"id":"container_1"}}}',
    b'{"type":"message_stop"}',
]


def message(annotation: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": "a", "annotations": [annotation]}]}


def done_with(response: dict[str, Any], *items: dict[str, Any]) -> list[bytes]:
    events = [
        {"type": "response.created", "response": response},
        *({"type": "response.output_item.done", "output_index": at, "item": item} for at, item in enumerate(items)),
    ]
    return [json.dumps(event).encode() for event in events]


@pytest.mark.parametrize(
    ("provider", "events", "is_noted"),
    [
        ("anthropic_messages", MADE, True),
        ("openai_responses", done_with({}, CODE), True),
        ("openai_responses", done_with({"tools": TOOLS}, CODE, message(CITED)), False),
        ("openai_responses", done_with({"tools": TOOLS}, message(CITED), CODE), False),
        ("openai_responses", done_with({"tools": TOOLS}, message(CITED)), False),
    ],
    ids=["named-at-the-end", "of-a-call", "of-the-request", "of-the-request-later", "only-cited"],
)
def test_a_container_is_noted_for_the_caller(provider: str, events: list[bytes], *, is_noted: bool) -> None:
    noted: list[str] = []
    sent = [b"data: %b\n\n" % data for data in events]
    record(*sent, provider=provider, on_item=lambda item_id, _: noted.append(item_id))
    assert ("container_1" in noted) is is_noted


@pytest.mark.parametrize(
    ("parts", "changes", "outcome", "code"),
    [
        ((CREATED, DONE), {}, "completed", None),
        ((CREATED, UNKNOWN), {}, "error", "upstream_truncated"),
        ((CREATED,), {"is_client_gone": True}, "client_left", "upstream_truncated"),
        ((), {"is_refused": True, "code": "upstream_http_429"}, "no_stream", "upstream_http_429"),
    ],
)
def test_how_a_stream_ended(parts: Any, changes: dict[str, Any], outcome: str, code: str | None) -> None:
    one = record(*parts)
    for name, value in changes.items():
        setattr(one, name, value)
    assert (one.outcome, one.code) == (outcome, code)


def test_metrics_have_the_names_that_are_documented() -> None:
    counted = idle_metrics()
    one = record(CREATED, UNKNOWN, TEXT, DONE, TEXT)
    one.heartbeats = 2
    counted.count(one, one.outcome)
    text = counted.text().decode()
    for line in (
        "projector_streams_active 0.0",
        "projector_upstream_open 0.0",
        "projector_memory_held_bytes 0.0",
        'projector_streams_total{dialect="public_sse_v1",outcome="completed"} 1.0',
        'projector_events_dropped_total{type="other"} 1.0',
        'projector_events_dropped_total{type="keepalive"} 1.0',
        'projector_events_dropped_total{type="(after the end)"} 1.0',
        "projector_heartbeats_total 2.0",
        'projector_overhead_seconds_count{agent="",outcome="completed",upstream=""} 1.0',
        'projector_stream_duration_seconds_bucket{agent="",le="2.5",outcome="completed",upstream=""} 1.0',
        'projector_stream_duration_seconds_bucket{agent="",le="1.0",outcome="completed",upstream=""} 0.0',
        'projector_first_byte_seconds_sum{agent="",outcome="completed",upstream=""} 0.5',
        'projector_tokens_total{agent="",type="input",upstream=""} 3.0',
        'projector_tokens_total{agent="",type="output",upstream=""} 5.0',
    ):
        assert line in text.splitlines()
    assert "stream_1" not in text
    assert "invented" not in text


async def test_metrics_are_served(serve: Any, upstream: Any, text_events: Any) -> None:
    await upstream(plays([text_events[-1]]))
    site = serve(heartbeat_s=7)
    await (await site.ask()).rest()
    assert await site.is_quiet()
    answer = await site.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert b'projector_streams_total{dialect="public_sse_v1",outcome="completed"} 1.0' in await answer.rest()


@pytest.mark.parametrize(
    ("headers", "trace_id", "state"),
    [
        ({"traceparent": GIVEN}, "0af7651916cd43dd8448eb211c80319c", None),
        ({"traceparent": GIVEN, "tracestate": "a=b"}, "0af7651916cd43dd8448eb211c80319c", "a=b"),
        ({"traceparent": GIVEN, "tracestate": "a" * 600}, "0af7651916cd43dd8448eb211c80319c", None),
        ({"traceparent": "ff" + GIVEN[2:]}, None, None),
        ({"traceparent": "00-" + "0" * 32 + "-b7ad6b7169203331-01", "tracestate": "a=b"}, None, None),
        ({"traceparent": "nonsense"}, None, None),
        ({}, None, None),
    ],
)
def test_a_trace_is_continued(headers: dict[str, str], trace_id: str | None, state: str | None) -> None:
    began = reports.begin_stream(scope(**headers), record()).trace
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", began.headers["traceparent"])
    assert began.headers["traceparent"] != GIVEN
    assert (began.trace_id == trace_id) == (trace_id is not None)
    assert began.headers.get("tracestate") == state


async def test_the_trace_is_propagated_to_the_provider(serve: Any, upstream: Any, text_events: Any) -> None:
    provider = await upstream(plays([text_events[-1]]))
    await (await serve().ask(traceparent=GIVEN)).rest()
    peer = await provider.peers.get()
    sent = peer.header(b"traceparent").decode()
    assert sent.split("-")[1] == GIVEN.split("-")[1]
    assert sent.split("-")[2] != GIVEN.split("-")[2]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Set up OpenTelemetry for one test; a process cannot replace its global providers."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    meter = MeterProvider([reader]).get_meter("projector")
    monkeypatch.setattr(telemetry, "_TRACER", provider.get_tracer("projector"))
    for name, instrument in (
        ("_DURATION", "gen_ai.client.operation.duration"),
        ("_FIRST_CHUNK", "gen_ai.client.operation.time_to_first_chunk"),
        ("_PER_CHUNK", "gen_ai.client.operation.time_per_output_chunk"),
        ("_USAGE", "gen_ai.client.token.usage"),
    ):
        monkeypatch.setattr(telemetry, name, meter.create_histogram(instrument))
    return SimpleNamespace(exporter=exporter, reader=reader)


def test_a_stream_is_a_client_span(recorded: SimpleNamespace) -> None:
    one = record(CREATED, TEXT, DONE)
    began = reports.begin_stream(scope(traceparent=GIVEN), one).trace
    reports.end_stream(one)
    [span] = recorded.exporter.get_finished_spans()
    assert (span.name, span.kind) == ("chat gpt-x", trace.SpanKind.CLIENT)
    assert format(span.parent.span_id, "016x") == GIVEN.split("-")[2]
    assert began.headers["traceparent"].split("-")[2] == format(span.context.span_id, "016x")
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "gpt-x-1",
        "gen_ai.response.id": "resp_1",
        "gen_ai.response.finish_reasons": ("completed",),
        "gen_ai.response.time_to_first_chunk": 0.5,
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 5,
        "server.address": "api.example",
        "server.port": 443,
    }
    found = recorded.reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    assert {metric.name for metric in found} == {
        "gen_ai.client.operation.duration",
        "gen_ai.client.operation.time_to_first_chunk",
        "gen_ai.client.operation.time_per_output_chunk",
        "gen_ai.client.token.usage",
    }


def test_a_failed_stream_is_a_failed_span(recorded: SimpleNamespace) -> None:
    one = record(CREATED)
    reports.end_stream(reports.begin_stream(scope(), one))
    [span] = recorded.exporter.get_finished_spans()
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.attributes["error.type"] == "upstream_truncated"


def test_a_stream_of_the_hosts_own_source_names_no_server(recorded: SimpleNamespace) -> None:
    one = record(CREATED, DONE)
    one.server_address, one.server_port = "", 0
    reports.end_stream(reports.begin_stream(scope(), one))
    [span] = recorded.exporter.get_finished_spans()
    assert [name for name in span.attributes if name.startswith("server.")] == []


def test_buckets_are_those_of_the_conventions() -> None:
    assert (telemetry._SECONDS[0], telemetry._SECONDS[-1], len(telemetry._SECONDS)) == (0.01, 81.92, 14)
    assert [4**n for n in range(14)] == telemetry._TOKENS
    assert metrics.get_meter("projector") is not None
    assert telemetry.begin(Headers(), record()) is None  # OpenTelemetry is not set up


def test_reported_stats_keep_no_text() -> None:
    stats = StreamStats(stream_id="stream_1", request_id="req_1", dialect="public_sse_v1")
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    final = {"status": "incomplete", "response_text": "tide", "usage": usage}
    stats.on_frame({"kind": "final", "event_id": 7, "final": final})
    stats.release_texts()
    assert stats.terminal == {"kind": "final", "event_id": 7, "final": {"status": "incomplete", "usage": usage}}
    assert (stats.outcome, stats.usage) == ("incomplete", usage)
