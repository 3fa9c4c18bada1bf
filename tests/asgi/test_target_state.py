"""What outlasts a request to several targets, over sockets: stored state, circuits and budgets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from projector.server.app import create_app, rebuild
from projector.server.config.settings import Settings
from projector.server.upstream.circuit import Signal, State
from tests.asgi.conftest import SSE_HEAD, Site
from tests.asgi.openwop_peer import OpenWopPeer
from tests.asgi.target_farm import (
    MAX_RETRIES,
    RESPONSES,
    Farm,
    Provider,
    Wire,
    outcome_of,
    settings_of,
    status,
)

# state at one provider


@pytest.fixture
def stateful(serve: Any, providers: dict[str, Provider]) -> Farm:
    targets = [{"upstream": name, "model": "m"} for name in ("one", "two")]
    models = {"fast": {"targets": targets}, "other": {"targets": [{"upstream": "three", "model": "m"}]}}
    agents = {"default": {"targets": targets}, "alone": {"upstream": "three", "model": "m"}}
    return Farm(serve(**settings_of() | {"agents": agents, "models": models}), providers)


async def first_at_two(farm: Farm) -> str:
    """Get a response of the second target; return its ID."""
    farm.providers["one"].plays.append(status(500))
    frames = await (await farm.site.ask()).frames()
    assert frames[-1]["final"]["response_text"] == "two"
    response_id: str = frames[-1]["response_id"]
    return response_id


async def test_a_response_is_continued_where_it_is(stateful: Farm) -> None:
    response_id = await first_at_two(stateful)
    for one in stateful.providers.values():
        one.calls.clear()
    body = {"message": "more", "previous_response_id": response_id}
    assert await outcome_of(await stateful.site.ask(body=body)) == ("two", "")
    stateful.providers["two"].plays.extend([status(503)] * 9)
    assert await outcome_of(await stateful.site.ask(body=body)) == ("", "upstream_http_503")
    assert stateful.calls == {"two": 1 + 1 + MAX_RETRIES}
    answer = await stateful.site.ask(body={**body, "agent": "alone"})
    assert (answer.status, (await answer.problem())["code"]) == (404, "unknown_response")
    assert stateful.calls == {"two": 1 + 1 + MAX_RETRIES}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"previous_response_id": "resp_two_1"}, "two"),
        ({"input": [{"type": "item_reference", "id": "msg_two_1"}]}, "two"),
        ({"input": [{"id": "msg_two_1"}]}, "two"),
        ({"input": [{"type": "reasoning", "id": "msg_two_1", "summary": [], "encrypted_content": "x"}]}, "two"),
        # where it is not known, it is the first target
        ({"input": [{"type": "item_reference", "id": "msg_old"}]}, "one"),
        ({"conversation": "conv_1"}, "one"),
        ({"conversation": {"id": "conv_2"}}, "one"),
    ],
)
async def test_a_reference_decides_the_target(stateful: Farm, change: dict[str, Any], expected: str) -> None:
    await first_at_two(stateful)
    body = {"model": "fast", "input": "hello", "store": True, **change}
    answer = await stateful.site.ask(RESPONSES, body)
    assert json.loads(await answer.rest())["output"][0]["content"][0]["text"] == expected
    calls = stateful.calls
    other = next(name for name in ("one", "two") if name != expected)
    stateful.providers[expected].plays.extend([status(500)] * 9)
    answer = await stateful.site.ask(RESPONSES, body)
    assert answer.status == 500
    assert stateful.calls == {**calls, expected: calls[expected] + 1 + MAX_RETRIES, other: calls[other]}


async def test_references_to_several_upstreams(stateful: Farm) -> None:
    await first_at_two(stateful)
    answer = await stateful.site.ask(RESPONSES, {"model": "other", "input": "hello"})
    other = json.loads(await answer.rest())["id"]
    refers = [{"type": "item_reference", "id": "msg_two_1"}]
    answer = await stateful.site.ask(RESPONSES, {"model": "fast", "previous_response_id": other, "input": refers})
    assert (answer.status, await answer.error_code()) == (400, "invalid_request")
    answer = await stateful.site.ask(RESPONSES, {"model": "fast", "previous_response_id": other, "input": "more"})
    assert (answer.status, await answer.error_code()) == (404, "unknown_response")


async def asks_for_approval(wire: Wire) -> None:
    """Request an approval."""
    response = {"id": "resp_asks", "status": "in_progress"}
    item = {"id": "mcpr_1", "type": "mcp_approval_request", "name": "f", "server_label": "s", "arguments": "{}"}
    await wire.send(SSE_HEAD)
    await wire.events(
        {"type": "response.created", "response": response},
        *({"type": f"response.output_item.{step}", "output_index": 0, "item": item} for step in ("added", "done")),
        {"type": "response.completed", "response": {**response, "status": "completed"}},
    )
    await wire.send(b"0\r\n\r\n")


async def test_an_approval_is_sent_to_the_target_that_asked(stateful: Farm) -> None:
    stateful.providers["one"].plays.append(status(500))
    stateful.providers["two"].plays.append(asks_for_approval)
    await (await stateful.site.ask()).frames()
    approval = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    answer = await stateful.site.ask(RESPONSES, {"model": "fast", "input": [approval]})
    assert json.loads(await answer.rest())["output"][0]["content"][0]["text"] == "two"


async def test_a_run_continues_at_the_target_that_asked(serve: Any, providers: dict[str, Provider]) -> None:
    targets = [{"upstream": name, "model": f"m-{name}"} for name in ("one", "two")]
    agents = {"helper": {"targets": targets, "dialects": ["openwop"]}}
    host = OpenWopPeer(serve(**settings_of(openwop={}) | {"agents": agents}))
    providers["one"].plays.append(status(500))
    providers["two"].plays.append(asks_for_approval)
    run_id = await host.say("hello")
    await host.until(run_id, "waiting-approval")
    await host.resolve(run_id, "agent", "accept")
    await host.until(run_id, "completed")
    assert [call.body["model"] for call in providers["two"].calls] == ["m-two", "m-two"]
    assert (len(providers["one"].calls), providers["two"].calls[1].body["previous_response_id"]) == (1, "resp_asks")


# circuits and budgets


@pytest.fixture
def circuit(serve: Any, providers: dict[str, Provider]) -> Iterator[Callable[..., Farm]]:
    """Return a function that starts a server with a circuit breaker, which no other test uses."""

    def start(open_s: float, **more: Any) -> Farm:
        limits = {"failures": 2, "open_s": open_s}
        return Farm(serve(**settings_of(circuit_breaker=limits, **more)), providers)

    return start


async def metric(site: Site, sample: str) -> float | None:
    """Return a sample of the metrics, with all that has ended: a stream is counted after its last byte."""
    assert await site.is_quiet()
    lines = (await (await site.get("/metrics")).rest()).decode().splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(sample + " ")), None)


async def test_a_circuit_opens_and_closes(circuit: Callable[..., Farm], monkeypatch: pytest.MonkeyPatch) -> None:
    farm, agent = circuit(600), "two-1"
    passed_s = 0
    opened = farm.site.state.site.circuits.circuit("one", "m1")
    monkeypatch.setattr(opened, "_clock", lambda: time.monotonic() + passed_s)
    state = 'projector_upstream_circuit_state{model="m1",upstream="one"}'
    farm.providers["one"].plays.extend([status(500)] * 3)
    with capture_logs() as logs:
        for _ in range(4):
            assert await outcome_of(await farm.ask(agent)) == ("two", "")
        assert farm.calls == {"one": 2, "two": 4}
        assert await metric(farm.site, state) == 2
        passed_s += 600
        for _ in range(2):  # the probe fails
            assert await outcome_of(await farm.ask(agent)) == ("two", "")
        assert farm.calls == {"one": 3, "two": 6}
        passed_s += 600
        for _ in range(2):  # the probe succeeds
            assert await outcome_of(await farm.ask(agent)) == ("one", "")
    assert await metric(farm.site, state) == 0
    events = [(line["event"], line["upstream"]) for line in logs if line["event"].startswith("upstream_circuit")]
    assert events == [
        ("upstream_circuit_opened", "one"),
        ("upstream_circuit_opened", "one"),
        ("upstream_circuit_closed", "one"),
    ]
    failovers = 'projector_upstream_failovers_total{code="%s",upstream="one"}'
    assert await metric(farm.site, failovers % "upstream_http_500") == 3
    assert await metric(farm.site, failovers % "upstream_unavailable") == 3
    skipped = [line for line in logs if line.get("reason") == "circuit_open"]
    found = [(line["event"], line["upstream"], line["code"], line["to"]) for line in skipped]
    assert found == [("upstream_failover", "one", "upstream_unavailable", "two")] * 3


async def goes_on(wire: Wire) -> None:
    """Begin to answer, and do not end."""
    await wire.send(SSE_HEAD)
    await wire.events({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}})
    await wire.closed.wait()


async def test_failovers_are_counted_while_their_streams_run(circuit: Callable[..., Farm]) -> None:
    """Also those of a target that is not asked, because its provider wants no request for a while."""
    farm, agent = circuit(60, heartbeat_s=41), "two-9"
    farm.providers["one"].plays.append(status(429, "retry-after: 60"))
    farm.providers["two"].plays.extend([goes_on] * 3)
    with capture_logs() as logs:
        running = [await farm.ask(agent) for _ in range(3)]
        text = (await (await farm.site.get("/metrics")).rest()).decode()
    for answer in running:
        answer.leave()
    assert await farm.site.is_quiet()
    failovers = 'projector_upstream_failovers_total{code="%s",upstream="one"} %s'
    assert failovers % ("upstream_http_429", "1.0") in text
    assert failovers % ("upstream_unavailable", "2.0") in text
    assert 'projector_upstream_failures_total{code="upstream_http_429",reason="none",upstream="one"} 1.0' in text
    reasons = [line.get("reason") for line in logs if line["event"] == "upstream_failover"]
    assert reasons == [None, "retry_after", "retry_after"]


async def test_all_circuits_are_open(circuit: Callable[..., Farm]) -> None:
    farm, agent = circuit(60), "two-2"
    for one in farm.providers.values():
        one.plays.extend([status(500)] * 99)
    for _ in range(2):
        assert await outcome_of(await farm.ask(agent)) == ("", "upstream_http_500")
    assert await farm.site.is_quiet()
    calls = farm.calls
    with capture_logs() as logs:
        answer = await farm.ask(agent)
        problem = await answer.problem()
        assert await farm.site.is_quiet()
    assert (answer.status, problem["code"], problem["is_retryable"]) == (503, "upstream_unavailable", True)
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert farm.calls == calls
    [line] = [line for line in logs if line["event"] == "stream_end"]
    assert line["reason"] == "circuit_open"
    ready = await farm.site.get("/readyz")
    assert ready.status == 200


async def test_refusals_open_no_circuit(circuit: Callable[..., Farm]) -> None:
    """A caller could otherwise shut out all others with requests that the provider refuses."""
    farm, agent = circuit(61), "alone-3"
    for code in (400, 401, 403, 404, 422, 429, 501):
        farm.providers["one"].plays.extend([status(code, "retry-after: 60")] * 3)
        for _ in range(3):
            assert (await farm.ask(agent)).status != 200
    assert await outcome_of(await farm.ask(agent)) == ("one", "")


async def test_a_budget_bounds_the_retries_of_all_requests(serve: Any, providers: dict[str, Provider]) -> None:
    retries = {"max": 2, "initial_backoff_s": 0.001, "budget_share": 0}
    farm = Farm(serve(**settings_of(retries=retries)), providers)
    farm.providers["one"].plays.extend([status(500)] * 999)
    answers_ = [await farm.ask("alone-4") for _ in range(30)]
    assert {answer.status for answer in answers_} == {502}
    refused = await metric(farm.site, 'projector_upstream_retries_refused_total{upstream="one"}')
    assert refused is not None
    assert refused >= 1
    assert farm.calls["one"] < 30 * 3


def test_a_reload_keeps_circuits() -> None:
    given = {key: value for key, value in settings_of().items() if value is not None}
    app = create_app(Settings.model_validate(given | {"circuit_breaker": {"failures": 1}}))
    circuits = app.state.site.circuits
    opened = circuits.circuit("one", "m1")
    opened.permit().report(Signal.FAILURE, "upstream_reset")
    kept = {name: agent for name, agent in given["agents"].items() if name in {"two-1", "alone-2"}}
    app = rebuild(app, Settings.model_validate(given | {"agents": kept, "circuit_breaker": {"failures": 7}}))
    app.state.activate()
    assert {key for key, _ in circuits} == {("one", "m1"), ("two", "m1"), ("one", "m2")}
    assert (opened.state, opened.settings.failures) == (State.OPEN, 7)
    assert app.state.site.circuits.circuit("one", "m1") is opened
