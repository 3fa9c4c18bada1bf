"""Several targets of an agent or model, over sockets: order, failover, and what depends on the target."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from projector.server.telemetry import spans
from projector.server.upstream.targets import REMEDIES
from tests.asgi.certificates import Authority
from tests.asgi.conftest import SSE_HEAD
from tests.asgi.target_farm import (
    CHAT,
    HASTE_S,
    MAX_RETRIES,
    NAMES,
    ROWS,
    Farm,
    Provider,
    Wire,
    answers,
    breaks_off,
    events_of,
    fresh,
    outcome_of,
    playing,
    ports,
    resets,
    settings_of,
    silent,
    status,
)


@pytest.fixture
def farm(serve: Any, providers: dict[str, Provider]) -> Farm:
    return Farm(serve(**settings_of()), providers)


# one row for each failure


@pytest.mark.parametrize("name", ROWS)
async def test_what_follows_a_failure(serve: Any, providers: dict[str, Provider], name: str) -> None:
    row = ROWS[name]
    farm = Farm(serve(**settings_of(row.hasty("one"))), providers)
    farm.providers["one"].plays.append(row.play)
    with capture_logs() as logs:
        found = await outcome_of(await farm.ask(fresh("two")))
    failovers = [(line["upstream"], line["to"], line["code"]) for line in logs if line["event"] == "upstream_failover"]
    if "over" in row.remedy:
        assert (found, farm.calls) == (("two", ""), {"one": 1, "two": 1})
        assert failovers == [("one", "two", row.code)]
    elif row.remedy == "again":
        assert (found, farm.calls, failovers) == (("one", ""), {"one": 2}, [])
    else:
        assert (found, farm.calls, failovers) == (("", row.code), {"one": 1}, [])


@pytest.mark.parametrize("name", ROWS)
async def test_what_follows_if_every_request_fails(serve: Any, providers: dict[str, Provider], name: str) -> None:
    row = ROWS[name]
    farm = Farm(serve(**settings_of(row.hasty(*NAMES))), providers)
    for one in farm.providers.values():
        one.plays.extend([row.play] * 9)
    assert await outcome_of(await farm.ask(fresh("two"))) == ("", row.code)
    expected = {
        "again over": {"one": 2, "two": 2},  # a request to each, and as many repetitions as there may be
        "over": {"one": 1, "two": 1},
        "again": {"one": 1 + MAX_RETRIES},
        "": {"one": 1},
    }
    assert farm.calls == expected[row.remedy]


@pytest.mark.parametrize("name", ROWS)
async def test_a_single_target_keeps_its_retries(serve: Any, providers: dict[str, Provider], name: str) -> None:
    row = ROWS[name]
    farm = Farm(serve(**settings_of(row.hasty(*NAMES))), providers)
    farm.providers["one"].plays.extend([row.play] * 9)
    assert await outcome_of(await farm.ask(fresh("alone"))) == ("", row.code)
    assert farm.calls == {"one": 1 + MAX_RETRIES * ("again" in row.remedy)}


@pytest.mark.parametrize(("kind", "reason"), [("refused", "refused"), ("tls", "tls")])
async def test_a_target_that_cannot_be_connected_to(farm: Farm, kind: str, reason: str) -> None:
    with capture_logs() as logs:
        assert await outcome_of(await farm.ask(fresh(kind))) == ("two", "")
    [line] = [line for line in logs if line["event"] == "upstream_failover"]
    assert (line["code"], line["reason"]) == ("upstream_unreachable", reason)


async def test_what_a_provider_reports_is_logged_though_another_answers(farm: Farm) -> None:
    agent = fresh("three")
    farm.providers["one"].plays.append(status(401))
    farm.providers["two"].plays.append(status(429))
    with capture_logs() as logs:
        assert await outcome_of(await farm.ask(agent)) == ("three", "")
        assert await farm.site.is_quiet()
    found = [
        (one["upstream"], one["status"], one["message"], one["log_level"])
        for one in logs
        if one["event"] == "provider_error"
    ]
    assert found == [("one", 401, "No.", "warning"), ("two", 429, "No.", "warning")]


async def test_what_a_provider_reports_is_logged_at_once_with_its_id_of_the_request(farm: Farm) -> None:
    farm.providers["one"].plays.append(status(401, "x-request-id: req_at_one"))
    farm.providers["two"].plays.append(silent)
    with capture_logs() as logs:
        answer = await farm.site.post(body={"agent": fresh("two"), "message": "hello"})
        await asyncio.wait_for(farm.providers["two"].called.wait(), 60)
        assert [(one["upstream"], one["provider_request_id"]) for one in logs if one["event"] == "provider_error"] == [
            ("one", "req_at_one")
        ]
        answer.leave()
        assert await farm.site.is_quiet()
    [line] = [line for line in logs if line["event"] == "stream_end"]
    assert (line["attempts"], line.get("provider_request_id")) == (2, None)  # the ID is of the last attempt


@pytest.mark.parametrize(
    ("header", "logged"),
    [
        ("x-request-id: req_1", "req_1"),
        ("request-id: req_2", "req_2"),
        ("apim-request-id: 3f1c9a2e-7b1d-4e6a-9c1f-0123456789ab", "3f1c9a2e-7b1d-4e6a-9c1f-0123456789ab"),
        ("x-amzn-requestid: 4", "4"),
        ("x-request-id: sk-" + "a1B2" * 8, None),
        ("x-request-id: no name", None),
        ("x-request-id:\r\nrequest-id: req_5", "req_5"),
        ("x-request-id:", None),
        ("x-other: 5", None),
    ],
)
async def test_a_stream_that_breaks_off_has_the_providers_id_of_the_request(
    farm: Farm, header: str, logged: str | None
) -> None:
    async def play(wire: Wire) -> None:
        await wire.send(SSE_HEAD.removesuffix(b"\r\n") + f"{header}\r\n\r\n".encode())
        await wire.events(*events_of("one", 1, wire.call)[:1])

    farm.providers["one"].plays.append(play)
    with capture_logs() as logs:
        assert await outcome_of(await farm.ask(fresh("two"))) == ("", "upstream_reset")
        assert await farm.site.is_quiet()
    [line] = [line for line in logs if line["event"] == "stream_end"]
    assert line.get("provider_request_id") == logged


def test_every_remedy_is_tested() -> None:
    tested = {row.code for row in ROWS.values()} | {"upstream_unreachable", "upstream_timeout_connect"}
    assert {code for code in REMEDIES if not code.startswith("upstream_http_5")} <= tested


# sequences of failures


@pytest.mark.parametrize("seed", range(12))
async def test_sequences_of_failures(serve: Any, providers: dict[str, Provider], seed: int) -> None:
    """One end, no more calls than allowed, and never the bytes of two targets."""
    farm = Farm(serve(**settings_of(NAMES)), providers)
    draw = random.Random(seed)
    for one in farm.providers.values():
        names = draw.choices([*ROWS, "answers", "breaks off"], k=draw.randrange(4))
        plays = {"answers": answers, "breaks off": breaks_off} | {name: row.play for name, row in ROWS.items()}
        one.plays.extend(plays[name] for name in names)
    text, code = await outcome_of(await farm.ask(fresh("three")))
    assert (text in NAMES) != (code != "")
    assert sum(farm.calls.values()) <= MAX_RETRIES + len(NAMES)
    assert await farm.site.is_quiet()


async def test_no_failover_once_a_byte_was_used(farm: Farm) -> None:
    farm.providers["one"].plays.append(breaks_off)
    assert await outcome_of(await farm.ask(fresh("two"))) == ("", "upstream_reset")
    assert farm.calls == {"one": 1}


async def test_failover_after_a_heartbeat(serve: Any, providers: dict[str, Provider]) -> None:
    """The status was committed by a heartbeat, but no byte of a target was used."""
    farm = Farm(serve(**settings_of(["one"], heartbeat_s=0.05)), providers)
    farm.providers["one"].plays.append(silent)
    answer = await farm.ask(fresh("two"))
    data = await answer.rest()
    assert answer.status == 200
    assert data.startswith(b": heartbeat")
    assert b'"response_text":"two"' in data


async def test_the_time_of_an_earlier_attempt_is_not_that_of_the_target_that_answered(
    serve: Any, providers: dict[str, Provider]
) -> None:
    farm = Farm(serve(**settings_of(["one"], heartbeat_s=42)), providers)
    farm.providers["one"].plays.append(silent)
    with capture_logs() as logs:
        assert await outcome_of(await farm.ask(fresh("two"))) == ("two", "")
        assert await farm.site.is_quiet()
    [line] = [line for line in logs if line["event"] == "stream_end"]
    assert line["duration_s"] - line["first_byte_s"] - line["overhead_s"] > HASTE_S - 0.01  # of the first attempt


async def test_a_disconnect_during_an_attempt_ends_them(farm: Farm) -> None:
    farm.providers["one"].plays.append(silent)
    answer = await farm.site.post(body={"agent": fresh("two"), "message": "hello"})
    await asyncio.wait_for(farm.providers["one"].called.wait(), 60)
    answer.leave()
    assert await farm.site.is_quiet()
    assert farm.calls == {"one": 1}


async def test_a_target_that_asked_to_wait_is_tried_last(farm: Farm) -> None:
    agent = fresh("two")
    farm.providers["one"].plays.append(status(429, "retry-after: 60"))
    for _ in range(3):
        assert await outcome_of(await farm.ask(agent)) == ("two", "")
    assert farm.calls == {"one": 1, "two": 3}
    farm.providers["two"].plays.append(status(503))
    assert await outcome_of(await farm.ask(agent)) == ("one", "")


# what depends on the target


async def test_everything_follows_the_target(serve: Any, providers: dict[str, Provider]) -> None:
    chat = {"api": "openai_chat"}
    upstreams = {
        "one": {**chat, "headers": {"x-tenant": "a"}, "profile": {"takes_stream_options": False}},
        "two": {**chat, "headers": {"x-tenant": "b"}, "profile": {"think_mode": "off"}},
    }
    targets = [{"upstream": "one", "model": "m-one"}, {"upstream": "two", "model": "m-two"}]
    for name, one in upstreams.items():
        one["base_url"] = f"http://127.0.0.1:{ports()[name]}/v1"
    given = {
        "upstreams": upstreams,
        "agents": {"default": {"targets": targets}},
        "models": {"fast": {"targets": targets}},
    }
    site = serve(api_key=None, base_url=None, **given)
    thoughts = {"choices": [{"index": 0, "delta": {"content": "<think>a</think>b"}, "finish_reason": "stop"}]}

    async def thinks(wire: Wire) -> None:
        await wire.send(SSE_HEAD)
        await wire.events({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", **thoughts})
        await wire.send(b"0\r\n\r\n")

    async def text() -> str:
        return (await outcome_of(await site.ask()))[0]

    providers["one"].plays.extend([thinks, status(503)])
    providers["two"].plays.append(thinks)
    assert await text() == "b"
    with capture_logs() as logs:
        assert await text() == "<think>a</think>b"
        assert await site.is_quiet()
    line = [line for line in logs if line["event"] == "stream_end"][-1]
    assert (line["upstream"], line["model"]) == ("two", "m-two")
    for name, tenant, has_options in (("one", "a", False), ("two", "b", True)):
        call = providers[name].calls[-1]
        assert (call.body["model"], "stream_options" in call.body) == (f"m-{name}", has_options)
        assert f"x-tenant: {tenant}" in call.head

    # a model of a passthrough route
    providers["one"].plays.append(status(500))
    answer = await site.ask(CHAT, {"model": "fast", "messages": [{"role": "user", "content": "a"}]})
    assert json.loads(await answer.rest())["choices"][0]["message"]["content"] == "two"
    assert providers["two"].calls[-1].body["model"] == "m-two"
    answer = await site.ask(CHAT, {"model": "m-one", "messages": []})
    assert (answer.status, await answer.error_code()) == (404, "model_not_found")
    listed = json.loads(await (await site.get("/v1/models")).rest())
    assert [model["id"] for model in listed["data"]] == ["fast"]


async def test_weights(serve: Any, providers: dict[str, Provider]) -> None:
    targets = [{"upstream": "one", "model": "m", "weight": 3}, {"upstream": "two", "model": "m"}]
    agents = {"default": {"targets": targets, "balance": "weight"}}
    farm = Farm(serve(**settings_of() | {"agents": agents}), providers)
    found = [(await outcome_of(await farm.site.ask()))[0] for _ in range(8)]
    assert found == ["one", "one", "two", "one"] * 2
    farm.providers["one"].plays.append(status(500))
    assert (await outcome_of(await farm.site.ask()))[0] == "two"


async def test_steps_of_a_workflow_fail_over(serve: Any, providers: dict[str, Provider]) -> None:
    stages = [{"name": "s", "steps": [{"name": "a", "agent": "two-0"}, {"name": "b", "agent": "three-0"}]}]
    site = serve(**settings_of(workflows={"w": {"stages": stages}}))
    providers["one"].plays.extend([status(500), resets])
    answer = await site.ask("/api/v1/workflows/w/run-stream", {"message": "hello"})
    frames = await answer.frames()
    assert frames[-1]["final"]["status"] == "completed"
    assert {name: len(one.calls) for name, one in providers.items()} == {"one": 2, "two": 2, "three": 0}


async def test_a_certificate_that_is_refused(serve: Any, tmp_path: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*Authority(tmp_path).issue("provider"))
    unused = Provider("secure")
    listening = await asyncio.start_server(unused.on_connection, "127.0.0.1", 0, ssl=context)
    async with listening, playing() as providers:
        url = f"https://localhost:{listening.sockets[0].getsockname()[1]}/v1"
        settings = settings_of()
        settings["upstreams"]["tls"] = {"base_url": url}
        site = serve(**settings)
        with capture_logs() as logs:
            assert await outcome_of(await Farm(site, providers).ask("tls-0")) == ("two", "")
    [line] = [line for line in logs if line["event"] == "upstream_failover"]
    assert (line["code"], line["reason"]) == ("upstream_unreachable", "certificate")


async def test_the_span_names_the_target_that_answered(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "_TRACER", provider.get_tracer("projector"))
    agent = fresh("two")
    farm.providers["one"].plays.append(status(500))
    assert (await outcome_of(await farm.ask(agent)))[0] == "two"
    assert await farm.site.is_quiet()
    [span] = exporter.get_finished_spans()
    assert span.attributes is not None
    assert span.attributes["server.port"] == ports()["two"]
