"""Runs of configured workflows on the OpenWOP host: several agents, one log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from projector.server.config.settings import Settings
from tests.asgi.conftest import Peer, Script, ScriptedUpstream
from tests.asgi.openwop_peer import (
    PATIENCE_S,
    Check,
    OpenWopPeer,
    document,
    error,
    hold,
    messages,
    schema_check,
    types,
)

Start = Callable[[Script], Awaitable[ScriptedUpstream]]

STAGES = [
    {"name": "look", "steps": [{"name": "here", "agent": "alice"}, {"name": "there", "agent": "robert"}]},
    {"name": "tell", "steps": [{"name": "all", "agent": "alice", "input": "{{steps.here.text}} {{steps.there.text}}"}]},
]


@pytest.fixture(scope="session")
def check(openwop: Path) -> Check:
    return schema_check(openwop)


def settings(base_url: str, **openwop: Any) -> dict[str, Any]:
    agent = {"upstream": "model", "dialects": ["public_sse_v1"], "policy": {"reasoning": "full"}}
    return {
        "upstreams": {"model": {"base_url": base_url}},
        "agents": {"alice": agent | {"model": "m-alice"}, "robert": agent | {"model": "m-robert"}},
        "workflows": {"report": {"stages": STAGES, "dialects": ["openwop"]}, "quiet": {"stages": STAGES}},
        "retries": {"max": 0},
        "openwop": openwop,
    }


@pytest.fixture
def host(serve: Callable[..., Any], upstream_port: int) -> OpenWopPeer:
    return OpenWopPeer(serve(api_key=None, **settings(f"http://localhost:{upstream_port}/v1") | {"base_url": None}))


def answer(peer: Peer) -> list[dict[str, Any]]:
    """Return the output of a model: its name and its request."""
    name = peer.body["model"].removeprefix("m-")
    said = f"{name} on {peer.body['input']}"
    return [
        {"type": "response.created", "response": {"id": f"r_{name}", "status": "in_progress"}},
        {"type": "response.reasoning_text.delta", "item_id": "rs", "output_index": 0, "delta": "hm"},
        {"type": "response.output_text.delta", "item_id": "msg", "output_index": 1, "delta": said},
        {"type": "response.completed", "response": {"id": f"r_{name}", "status": "completed"}},
    ]


async def speak(peer: Peer) -> None:
    await peer.start()
    for event in answer(peer):
        await peer.event(event)
    await peer.end()


async def test_a_workflows_run_is_one_log(host: OpenWopPeer, upstream: Start, check: Check) -> None:
    model = await upstream(speak)
    run_id = await host.say("news", "report")
    await host.until(run_id, "completed")
    log = await host.log(run_id)
    for event in log:
        hold(check, event)
    assert [event["sequence"] for event in log] == list(range(len(log)))
    began = [event["nodeId"] for event in log if event["type"] == "node.started"]
    assert sorted(began[:2]) == ["look/here#0", "look/there#1"]
    assert began[2:] == ["tell/all"]
    definition = await document(await host.get("/v1/workflows/report"))
    assert [node["id"] for node in definition["nodes"]] == ["look/here#0", "look/there#1", "tell/all"]
    assert len(definition["edges"]) == 2
    check("workflow-definition.schema.json", definition)
    assert types(log)[-1] == "run.completed"
    assert log[-1]["payload"]["outputs"]["text"] == "alice on alice on news robert on news"
    assert types(log).count("agent.reasoned") == 3
    assert model.peers.qsize() == 3


async def test_only_workflows_with_the_dialect_can_be_run(host: OpenWopPeer) -> None:
    for name in ("quiet", "alice"):
        refused = await host.post("/v1/runs", {"workflowId": name, "inputs": {"message": "m"}})
        assert (await error(refused, 404))["error"] == "workflow_not_found"
    for inputs in ({}, {"message": "m", "agent": "alice"}, {"input": []}):
        refused = await host.post("/v1/runs", {"workflowId": "report", "inputs": inputs})
        assert (await error(refused, 400))["error"] == "validation_error"


@pytest.mark.parametrize("member", ["model", "temperature", "maxTokens"])
async def test_its_agents_keep_their_parameters(host: OpenWopPeer, member: str) -> None:
    value = "m-other" if member == "model" else 1
    body = {"workflowId": "report", "inputs": {"message": "m"}, "configurable": {member: value}}
    said = await error(await host.post("/v1/runs", body), 400)
    assert said == {"error": "validation_error", "message": f"`configurable.{member}` cannot be set."}


async def test_a_run_can_reduce_reasoning(host: OpenWopPeer, upstream: Start) -> None:
    await upstream(speak)
    run_id = await host.say("news", "report", configurable={"reasoningVerbosity": "off"})
    await host.until(run_id, "completed")
    assert not [kind for kind in types(await host.log(run_id)) if kind.startswith("agent.reason")]


async def test_a_step_that_fails_fails_the_run(host: OpenWopPeer, upstream: Start, check: Check) -> None:
    async def script(peer: Peer) -> None:
        if peer.body["model"] == "m-robert":
            await peer.send(b"HTTP/1.1 503 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        else:
            await peer.start()
            await peer.gone.wait()

    await upstream(script)
    run_id = await host.say("news", "report")
    snapshot = await host.until(run_id, "failed")
    assert snapshot["error"]["code"] == "upstream_http_503"
    log = await host.log(run_id)
    assert types(log)[0] == "run.started"
    assert types(log)[-1] == "run.failed"
    for event in log:
        hold(check, event)


async def test_a_workflows_run_is_cancelled(host: OpenWopPeer, upstream: Start) -> None:
    async def script(peer: Peer) -> None:
        await peer.start()
        for event in answer(peer)[:-1]:
            await peer.event(event)
        await peer.gone.wait()

    model = await upstream(script)
    run_id = await host.say("news", "report")
    reader = await host.stream(run_id, "?streamMode=messages")
    while b"output.chunk" not in await reader.chunk():
        pass
    await document(await host.post(f"/v1/runs/{run_id}/cancel", {}))
    assert (await messages(reader))[-1].event == "run.cancelled"
    for _ in range(2):
        await asyncio.wait_for((await model.peers.get()).gone.wait(), PATIENCE_S)


async def ask_first(peer: Peer) -> None:
    """Ask for an approval of each agent in the first stage, and speak after its answer."""
    if "previous_response_id" in peer.body or " on " in peer.body["input"]:
        await speak(peer)
        return
    await peer.start()
    begin, *_, end = answer(peer)
    name = peer.body["model"]
    item = {"id": f"q_{name}", "type": "mcp_approval_request", "name": "wipe", "server_label": "d", "arguments": "{}"}
    steps = [{"type": f"response.output_item.{step}", "output_index": 0, "item": item} for step in ("added", "done")]
    for event in [begin, *steps, end]:
        await peer.event(event)
    await peer.end()


async def waits(host: OpenWopPeer, run_id: str, count: int) -> list[dict[str, Any]]:
    """Wait for some suspensions of a run, and return the log."""
    await host.until(run_id, "waiting-approval")
    deadline = time.monotonic() + PATIENCE_S
    while types(log := await host.log(run_id)).count("interrupt.requested") < count:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    return log


async def test_steps_wait_for_their_approvals(host: OpenWopPeer, upstream: Start, check: Check) -> None:
    model = await upstream(ask_first)
    run_id = await host.say("news", "report")
    await waits(host, run_id, 2)
    assert (await document(await host.resolve(run_id, "look/here%230", "accept")))["status"] == "waiting-approval"
    assert (await document(await host.resolve(run_id, "look/there", "reject")))["status"] == "running"
    await host.until(run_id, "completed")
    bodies = [model.peers.get_nowait().body for _ in range(5)]
    given = {body["model"]: (body["previous_response_id"], body["input"]) for body in bodies[2:4]}
    for name, approve in (("alice", True), ("robert", False)):
        item = {"type": "mcp_approval_response", "approval_request_id": f"q_m-{name}", "approve": approve}
        assert given[f"m-{name}"] == (f"r_{name}", [item])
    log = await host.log(run_id)
    for event in log:
        hold(check, event)
    for node_id in ("look/here#0", "look/there#1"):
        of_node = [event["type"] for event in log if event.get("nodeId") == node_id]
        assert [name for name in of_node if name.startswith(("node", "interrupt"))] == [
            "node.started", "node.suspended", "interrupt.requested", "interrupt.resolved", "node.resumed",
            "node.completed",
        ]  # fmt: skip
    assert "alice on" in log[-1]["payload"]["outputs"]["text"]


async def test_a_step_continues_while_another_one_waits(host: OpenWopPeer, upstream: Start) -> None:
    async def script(peer: Peer) -> None:
        await (ask_first(peer) if peer.body["model"] == "m-robert" else speak(peer))

    await upstream(script)
    run_id = await host.say("news", "report")
    deadline = time.monotonic() + PATIENCE_S
    while ("node.completed", "look/here#0") not in [
        (event["type"], event.get("nodeId")) for event in await waits(host, run_id, 1)
    ]:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    await document(await host.resolve(run_id, "look/there%231", "accept"))
    await host.until(run_id, "completed")
    await host.log(run_id)


async def test_a_step_reads_the_whole_response_after_an_approval(host: OpenWopPeer, upstream: Start) -> None:
    is_read = asyncio.Event()

    async def script(peer: Peer) -> None:
        if "previous_response_id" not in peer.body:
            await (ask_first(peer) if peer.body["model"] == "m-robert" else speak(peer))
            return
        await peer.start()
        begin, _, said, end = answer(peer)
        await peer.event(begin)
        await peer.event(said | {"delta": "one "})
        await is_read.wait()
        await peer.event(said | {"delta": "two"})
        await peer.event(end)
        await peer.end()

    await upstream(script)
    run_id = await host.say("news", "report")
    await waits(host, run_id, 1)
    reader = await host.stream(run_id, "?streamMode=messages")
    await document(await host.resolve(run_id, "look/there", "accept"))
    while b"one " not in await reader.chunk():
        pass
    is_read.set()
    await host.until(run_id, "completed")
    texts = [event["payload"]["chunk"] for event in await host.log(run_id) if event["type"] == "output.chunk"]
    assert "two" in texts


@pytest.mark.parametrize("end", ["cancelled", "interrupt_timeout"])
async def test_a_step_that_waits_ends_with_its_run(
    serve: Callable[..., Any], upstream_port: int, upstream: Start, end: str
) -> None:
    await upstream(ask_first)
    limits = {"approval_timeout_s": 0.2} if end == "interrupt_timeout" else {}
    base_url = f"http://localhost:{upstream_port}/v1"
    host = OpenWopPeer(serve(api_key=None, **settings(base_url, **limits) | {"base_url": None}))
    run_id = await host.say("news", "report")
    if end == "cancelled":
        await waits(host, run_id, 2)
        await document(await host.post(f"/v1/runs/{run_id}/cancel", {}))
        await host.until(run_id, "cancelled")
    else:
        await host.until(run_id, "failed")
        assert "approval.received" in types(await host.log(run_id))
    failures = [event["payload"]["error"]["code"] for event in await host.log(run_id) if "error" in event["payload"]]
    assert set(failures) <= {end}
    assert await host.site.is_quiet()


def test_ambiguous_names_are_rejected() -> None:
    said = settings("http://localhost:1/v1")
    said["workflows"]["alice"] = said["workflows"]["report"]
    Settings.model_validate(said)
    for agent in said["agents"].values():
        agent["dialects"] = ["openwop"]
    with pytest.raises(ValueError, match="`alice`"):
        Settings.model_validate(said)
