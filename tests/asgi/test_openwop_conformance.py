"""The scenarios of the protocol's conformance suite, over real sockets; events are validated by their schemas."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.asgi.openwop_peer import Check, OpenWopPeer, document, error, hold, schema_check, types

REASONING = "conformance-agent-reasoning"
STREAMING = "conformance-agent-reasoning-streaming"
LOW_CONFIDENCE = "conformance-agent-low-confidence"
AGENT_EVENTS = {"agent.reasoned", "agent.toolCalled", "agent.toolReturned", "agent.handoff", "agent.decided"}


@pytest.fixture(params=["own", "suite"])
def host(serve: Callable[..., Any], request: pytest.FixtureRequest) -> OpenWopPeer:
    """Return a host with its own workflows, and one with those of the suite where they exist."""
    settings: dict[str, Any] = {"conformance": True}
    if request.param == "suite":
        settings["fixtures_dir"] = request.getfixturevalue("openwop") / "fixtures"
    return OpenWopPeer(serve(openwop=settings))


@pytest.fixture(scope="session")
def check(openwop: Path) -> Check:
    return schema_check(openwop)


async def discovery(host: OpenWopPeer) -> dict[str, Any]:
    answer = await host.site.get("/.well-known/openwop", accept="application/json")
    assert "max-age" in answer.headers["cache-control"]
    return await document(answer)


async def test_the_gates_of_all_scenarios_are_open(host: OpenWopPeer, check: Check) -> None:
    said = await discovery(host)
    assert said["agents"]["supported"] is True
    assert said["agents"]["reasoning"]["verbosity"] == "full"
    assert said["agents"]["reasoning"]["streaming"] is True
    assert said["conformance"]["mockAgent"] is True
    assert {REASONING, STREAMING, LOW_CONFIDENCE} <= set(said["fixtures"])
    assert {name: said[name] for name in said["capabilities"]} == said["capabilities"]
    check("capabilities.schema.json", said)


async def test_every_agent_event_names_its_agent(host: OpenWopPeer) -> None:
    run_id = await host.create(REASONING)
    await host.until(run_id, "completed")
    said = [event for event in await host.log(run_id) if event["type"] in AGENT_EVENTS]
    assert types(said) == [
        "agent.reasoned", "agent.toolCalled", "agent.toolReturned", "agent.handoff", "agent.decided",
    ]  # fmt: skip
    for event in said:
        name = "fromAgentId" if event["type"] == "agent.handoff" else "agentId"
        assert event["payload"][name] == "core.conformance.reasoning-agent"
    assert said[3]["payload"]["toAgentId"] == "core.conformance.handoff-target"


async def test_a_result_has_its_call_as_cause(host: OpenWopPeer) -> None:
    run_id = await host.create(REASONING)
    await host.until(run_id, "completed")
    log = await host.log(run_id)
    (called,) = [event for event in log if event["type"] == "agent.toolCalled"]
    (returned,) = [event for event in log if event["type"] == "agent.toolReturned"]
    assert returned["causationId"] == called["eventId"]
    assert "causationId" not in returned["payload"]
    assert returned["payload"]["callId"] == called["payload"]["callId"]


async def test_deltas_count_from_zero_and_join_to_the_closing_event(host: OpenWopPeer) -> None:
    run_id = await host.create(STREAMING)
    await host.until(run_id, "completed")
    log = await host.log(run_id)
    deltas = [event for event in log if event["type"] == "agent.reasoning.delta"]
    (closing,) = [event for event in log if event["type"] == "agent.reasoned"]
    assert len(deltas) == 3
    assert [delta["payload"]["sequence"] for delta in deltas] == [0, 1, 2]
    assert {event["payload"]["agentId"] for event in [*deltas, closing]} == {"core.conformance.streaming-reasoner"}
    assert {event["payload"]["verbosity"] for event in [*deltas, closing]} == {"full"}
    assert "".join(delta["payload"]["delta"] for delta in deltas) == closing["payload"]["reasoning"]
    assert all(delta["sequence"] < closing["sequence"] for delta in deltas)


async def test_the_texts_are_those_of_the_fixtures(serve: Callable[..., Any], openwop: Path) -> None:
    """The suite compares word for word."""
    folder = openwop / "fixtures"
    host = OpenWopPeer(serve(openwop={"conformance": True, "fixtures_dir": folder}))
    for workflow_id, pick in (
        (REASONING, lambda config: [config["mockReasoning"]["summary"]]),
        (STREAMING, lambda config: config["mockReasoning"]["streamChunks"]),
    ):
        (node,) = json.loads((folder / f"{workflow_id}.json").read_bytes())["nodes"]
        run_id = await host.create(workflow_id)
        await host.until(run_id, "completed")
        log = await host.log(run_id)
        deltas = [event["payload"]["delta"] for event in log if event["type"] == "agent.reasoning.delta"]
        (closing,) = [event["payload"] for event in log if event["type"] == "agent.reasoned"]
        expected = pick(node["config"])
        assert closing["reasoning"] == "".join(expected)
        assert deltas in ([], expected)


async def test_low_confidence_suspends_the_run(host: OpenWopPeer) -> None:
    run_id = await host.create(LOW_CONFIDENCE)
    snapshot = await host.until(run_id, "waiting-approval", "failed", "completed")
    assert snapshot["status"] == "waiting-approval"
    assert snapshot["currentNodeId"] == "low-conf-decider"
    *_, decided, suspended, _ = await host.log(run_id)
    assert decided["payload"]["confidence"] == 0.5
    payload = suspended["payload"]
    assert (suspended["type"], payload["reason"]) == ("node.suspended", "low-confidence")
    assert payload["agentId"] == "core.conformance.low-conf-decider"
    assert payload["observed"] < payload["threshold"]
    await host.post(f"/v1/runs/{run_id}/cancel", {})


@pytest.mark.parametrize(("action", "status"), [("accept", "completed"), ("reject", "failed")])
async def test_a_suspended_run_is_answered(host: OpenWopPeer, check: Check, action: str, status: str) -> None:
    run_id = await host.create(LOW_CONFIDENCE)
    await host.until(run_id, "waiting-approval")
    answered = await document(await host.resolve(run_id, "low-conf-decider", action))
    assert answered == {"runId": run_id, "nodeId": "low-conf-decider", "status": "running"}
    await host.until(run_id, status)
    log = await host.log(run_id)
    assert "interrupt.resolved" in types(log)
    assert types(log)[-1] == f"run.{status}"
    for event in log:
        hold(check, event)
    again = await error(await host.resolve(run_id, "low-conf-decider", action), 409)
    assert again["error"] == "interrupt_already_resolved"


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ({"kind": "terminate"}, "completed"),
        ({"decision": "approved"}, "completed"),
        ({"decision": "rejected"}, "failed"),
        ({"action": "reject", "comment": "no"}, "failed"),
        ("go on", "completed"),
        (None, "completed"),
        (False, "completed"),
        ([1], "completed"),
    ],
)
async def test_any_value_answers_a_decision(host: OpenWopPeer, check: Check, value: object, status: str) -> None:
    run_id = await host.create(LOW_CONFIDENCE)
    await host.until(run_id, "waiting-approval")
    await document(await host.post(f"/v1/runs/{run_id}/interrupts/low-conf-decider", {"resumeValue": value}))
    await host.until(run_id, status)
    log = await host.log(run_id)
    (resolved,) = [event["payload"] for event in log if event["type"] == "interrupt.resolved"]
    assert (resolved["resumeValue"], resolved["resolvedBy"]) == (value, "anonymous")
    for event in log:
        hold(check, event)


@pytest.mark.parametrize("workflow_id", [REASONING, STREAMING, LOW_CONFIDENCE])
async def test_every_event_is_valid_for_the_schemas(host: OpenWopPeer, check: Check, workflow_id: str) -> None:
    run_id = await host.create(workflow_id)
    snapshot = await host.until(run_id, "completed", "waiting-approval")
    log = await host.log(run_id)
    assert [event["sequence"] for event in log] == list(range(len(log)))
    assert len({event["eventId"] for event in log}) == len(log)
    for event in log:
        hold(check, event)
    check("run-snapshot.schema.json", snapshot)
    check("workflow-definition.schema.json", await document(await host.get(f"/v1/workflows/{workflow_id}")))
    await host.post(f"/v1/runs/{run_id}/cancel", {})
