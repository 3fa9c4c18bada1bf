"""Workflows of the conformance suite, over real sockets; events are validated by the schemas of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.asgi.openwop_peer import Check, OpenWopPeer, document, error, hold, schema_check, types

REASONING = "conformance-agent-reasoning"
STREAMING = "conformance-agent-reasoning-streaming"
LOW_CONFIDENCE = "conformance-agent-low-confidence"


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
