"""Forks of runs on the OpenWOP host, and the state of a run as a stream."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from projector.openwop.client import divergence
from tests.asgi.conftest import Script, ScriptedUpstream
from tests.asgi.openwop_peer import (
    Check,
    OpenWopPeer,
    document,
    error,
    hold,
    messages,
    messages_of,
    schema_check,
    types,
)
from tests.asgi.test_openwop_agents import approval, completed, created, hosting, says, text, thought

REASONING = "conformance-agent-reasoning"
LOW_CONFIDENCE = "conformance-agent-low-confidence"

Start = Callable[[Script], Awaitable[ScriptedUpstream]]
Serve = Callable[..., Any]


@pytest.fixture(scope="session")
def check(openwop: Path) -> Check:
    return schema_check(openwop)


@pytest.fixture
def host(serve: Serve) -> OpenWopPeer:
    return OpenWopPeer(serve(openwop={"conformance": True}))


async def fork(host: OpenWopPeer, run_id: str, from_seq: int, mode: str, **overlay: object) -> str:
    """Fork a run and return the id of the new one."""
    body = {"fromSeq": from_seq, "mode": mode, **({"runOptionsOverlay": overlay} if overlay else {})}
    answer = await host.post(f"/v1/runs/{run_id}:fork", body)
    assert answer.status == 201
    said = json.loads(await answer.rest())
    assert (said["sourceRunId"], said["mode"], said["fromSeq"]) == (run_id, mode, from_seq)
    return str(said["runId"])


async def test_a_replay_asks_no_provider(serve: Serve, upstream_port: int, upstream: Start, check: Check) -> None:
    host = hosting(serve, upstream_port)
    model = await upstream(
        says(
            [created("r1"), thought("hm"), *approval("mcpr_1", 1), completed("r1")],
            [created("r2"), text("Done"), completed("r2")],
        )
    )
    run_id = await host.say("wipe the disk")
    await host.until(run_id, "waiting-approval")
    refused = await host.post(f"/v1/runs/{run_id}:fork", {"fromSeq": 0, "mode": "replay"})
    assert (await error(refused, 409))["error"] == "run_not_terminal"
    await document(await host.resolve(run_id, "agent", "accept"))
    await host.until(run_id, "completed")
    asked = model.peers.qsize()
    again = await fork(host, run_id, 3, "replay")
    await host.until(again, "completed")
    source, copy = await host.log(run_id), await host.log(again)
    assert divergence(source, copy) is None
    for before, after in zip(source, copy, strict=True):
        assert [before[name] for name in ("eventId", "type", "timestamp", "sequence")] == [
            after[name] for name in ("eventId", "type", "timestamp", "sequence")
        ]
        assert after["runId"] == again
        hold(check, after)
    assert model.peers.qsize() == asked
    tokens = [event["payload"]["token"] for log in (source, copy) for event in log if event["type"] == "node.suspended"]
    assert len(set(tokens)) == 2
    refused = await host.post(f"/v1/runs/{run_id}:fork", {"fromSeq": 0, "mode": "branch"})
    assert (await error(refused, 400))["error"] == "capability_not_provided"


async def test_a_branch_continues_with_other_options(host: OpenWopPeer, check: Check) -> None:
    run_id = await host.create(REASONING)
    await host.until(run_id, "completed")
    source = await host.log(run_id)
    for from_seq in range(len(source)):
        branch = await fork(host, run_id, from_seq, "branch")
        await host.until(branch, "completed")
        log = await host.log(branch)
        assert divergence(source, log) is None
        for event in log:
            hold(check, event)
    low = await host.create(LOW_CONFIDENCE)
    await host.until(low, "waiting-approval")
    branch = await fork(host, low, 2, "branch", configurable={"escalationThreshold": 0.1})
    await host.until(branch, "completed")
    await document(await host.post(f"/v1/runs/{low}/cancel", {}))


@pytest.mark.parametrize(("answer", "status"), [("accept", "completed"), ("reject", "failed")])
async def test_a_branch_waits_where_its_source_waited(host: OpenWopPeer, answer: str, status: str) -> None:
    run_id = await host.create(LOW_CONFIDENCE)
    await host.until(run_id, "waiting-approval")
    await document(await host.resolve(run_id, "low-conf-decider", answer))
    await host.until(run_id, status)
    names = types(await host.log(run_id))
    resolved = names.index("interrupt.resolved")
    for from_seq in range(resolved + 1):
        branch = await fork(host, run_id, from_seq, "branch")
        await host.until(branch, "waiting-approval")
        await document(await host.resolve(branch, "low-conf-decider", "accept"))
        await host.until(branch, "completed")
        await host.log(branch)
    for from_seq in range(resolved + 1, len(names) - 1 - (status == "failed")):
        branch = await fork(host, run_id, from_seq, "branch")
        await host.until(branch, status)
        assert types(await host.log(branch)) == names
    refused = await host.post(f"/v1/runs/{run_id}:fork", {"fromSeq": len(names), "mode": "branch"})
    assert (await error(refused, 400))["error"] == "validation_error"


async def test_invalid_forks_are_refused(host: OpenWopPeer) -> None:
    run_id = await host.create(REASONING)
    await host.until(run_id, "completed")
    for body in ({}, {"fromSeq": 0}, {"fromSeq": -1, "mode": "replay"}, {"fromSeq": 99, "mode": "replay"}):
        refused = await host.post(f"/v1/runs/{run_id}:fork", body)
        assert (await error(refused, 400))["error"] == "validation_error"
    assert (await error(await host.post("/v1/runs/run_x:fork", {}), 404))["error"] == "not_found"
    body = {"fromSeq": 0, "mode": "replay"}
    first = await host.post(f"/v1/runs/{run_id}:fork", body, idempotency_key="of a fork")
    again = await host.post(f"/v1/runs/{run_id}:fork", body, idempotency_key="of a fork")
    assert json.loads(await first.rest())["runId"] == json.loads(await again.rest())["runId"]


async def test_the_state_of_a_run_is_a_stream(host: OpenWopPeer, check: Check) -> None:
    run_id = await host.create(LOW_CONFIDENCE)
    await host.until(run_id, "waiting-approval")
    stream = await host.stream(run_id, "?streamMode=values")
    (waiting,) = messages_of(await stream.chunk())
    assert waiting.data["payload"] == await host.snapshot(run_id)
    assert (waiting.event, waiting.data["type"]) == ("state.snapshot", "state.snapshot")
    await document(await host.resolve(run_id, "low-conf-decider", "accept"))
    *_, last = await messages(stream)
    assert last.data["payload"] == await host.snapshot(run_id)
    check("run-snapshot.schema.json", last.data["payload"])
    check("run-event.schema.json", last.data)
    assert last.id == str((await host.log(run_id))[-1]["sequence"])
    (late,) = await messages(await host.stream(run_id, "?streamMode=values"))
    assert late.data == last.data
    assert await messages(await host.stream(run_id, "?streamMode=values", last_event_id=str(last.id))) == []
    refused = await host.get(f"/v1/runs/{run_id}/events?streamMode=values,updates", accept="text/event-stream")
    said = await error(refused, 400)
    assert (said["error"], "values" in said["details"]["supported"]) == ("unsupported_stream_mode", True)
