"""Every call of the protocol's own client that the host supports: `openwop_client`, which blocks, in a thread."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import openwop_client as wop
import pytest

from projector.openwop.client import divergence
from tests.asgi.conftest import Script, ScriptedUpstream
from tests.asgi.openwop_peer import OpenWopPeer
from tests.asgi.test_openwop_agents import approval, completed, created, hosting, says, text
from tests.asgi.test_openwop_webhooks import host_for, is_signed, receiving

REASONING = "conformance-agent-reasoning"
LOW_CONFIDENCE = "conformance-agent-low-confidence"

Start = Callable[[Script], Awaitable[ScriptedUpstream]]
Serve = Callable[..., Any]
T = TypeVar("T")


class Caller:
    """The client of one host."""

    def __init__(self, host: OpenWopPeer) -> None:
        self.client = wop.OpenwopClient(base_url=f"http://127.0.0.1:{host.site.port}", api_key="k")
        self._host = host

    async def call(self, function: Callable[..., T], *values: Any, **named: Any) -> T:
        return await asyncio.to_thread(lambda: function(*values, **named))

    async def create(self, workflow_id: str, **members: Any) -> str:
        request = wop.CreateRunRequest(workflowId=workflow_id, **members)
        run_id: str = (await self.call(self.client.runs_create, request)).runId
        return run_id

    async def events(self, run_id: str) -> list[Any]:
        return list((await self.call(self.client.runs_poll_events, run_id)).events)

    async def until(self, run_id: str, status: str) -> None:
        await self._host.until(run_id, status)

    async def resolve(self, run_id: str, node_id: str, value: object) -> str:
        body = wop.ResolveInterruptRequest(resumeValue=value)
        said = await self.call(self.client.interrupts_resolve_by_run, run_id, node_id, body)
        return str(said.status)


async def test_several_approvals_of_one_node(serve: Serve, upstream_port: int, upstream: Start) -> None:
    caller = Caller(hosting(serve, upstream_port))
    approvals = [event for number in range(3) for event in approval(f"mcpr_{number}", number)]
    model = await upstream(
        says([created("r1"), *approvals, completed("r1")], [created("r2"), text("a"), completed("r2")])
    )
    run_id = await caller.create("helper", inputs={"message": "wipe the disks"})
    await caller.until(run_id, "waiting-approval")
    values = (
        {"action": "accept"},
        {"action": "refine", "refineFeedback": {"scope": "whole", "text": "Later."}},
        {"action": "edit-accept", "editedArtifactData": {"disk": "sdb"}},
    )
    statuses = [await caller.resolve(run_id, "agent", value) for value in values]
    assert statuses == ["waiting-approval", "waiting-approval", "running"]
    await caller.until(run_id, "completed")
    model.peers.get_nowait()
    given = [(one["approve"], one.get("reason")) for one in model.peers.get_nowait().body["input"]]
    assert given == [
        (True, None),
        (False, "Later."),
        (False, 'Call the tool again with these arguments instead: {"disk":"sdb"}'),
    ]
    received = [event.payload for event in await caller.events(run_id) if event.type == "approval.received"]
    assert [payload["action"] for payload in received] == ["accept", "refine", "edit-accept"]


async def test_an_interrupt_by_its_token(serve: Serve) -> None:
    caller = Caller(OpenWopPeer(serve(openwop={"conformance": True})))
    run_id = await caller.create(LOW_CONFIDENCE)
    await caller.until(run_id, "waiting-approval")
    (token,) = [event.payload["token"] for event in await caller.events(run_id) if event.type == "node.suspended"]
    question = await caller.call(caller.client.interrupts_inspect_by_token, token)
    assert (question.kind, question.data["observed"], question.resumeSchema) == ("low-confidence", 0.5, None)
    body = wop.ResolveInterruptRequest(resumeValue={"kind": "terminate"})
    assert (await caller.call(caller.client.interrupts_resolve_by_token, token, body))["runId"] == run_id
    with pytest.raises(wop.WopError) as refused:
        await caller.call(caller.client.interrupts_resolve_by_token, token, body)
    assert (refused.value.status, refused.value.envelope.error) == (409, "interrupt_already_resolved")
    await caller.until(run_id, "completed")


async def test_an_interrupt_of_a_cancelled_run(serve: Serve) -> None:
    caller = Caller(OpenWopPeer(serve(openwop={"conformance": True})))
    run_id = await caller.create(LOW_CONFIDENCE)
    await caller.until(run_id, "waiting-approval")
    await caller.call(caller.client.runs_cancel, run_id)
    await caller.until(run_id, "cancelled")
    with pytest.raises(wop.WopError) as refused:
        await caller.resolve(run_id, "low-conf-decider", {"action": "accept"})
    assert (refused.value.status, refused.value.envelope.error) == (422, "interrupt_cancelled")


async def test_a_fork(serve: Serve) -> None:
    caller = Caller(OpenWopPeer(serve(openwop={"conformance": True})))
    run_id = await caller.create(REASONING)
    await caller.until(run_id, "completed")
    for mode in ("replay", "branch"):
        body = wop.ForkRunRequest(fromSeq=3, mode=mode)
        said = await caller.call(caller.client.runs_fork, run_id, body, idempotency_key=mode)
        assert (said.sourceRunId, said.mode, said.fromSeq) == (run_id, mode, 3)
        await caller.until(said.runId, "completed")
        logs = [[event.__dict__ for event in await caller.events(one)] for one in (run_id, said.runId)]
        assert divergence(*logs) is None


async def test_the_state_of_a_run(serve: Serve) -> None:
    caller = Caller(OpenWopPeer(serve(openwop={"conformance": True})))
    run_id = await caller.create(REASONING)
    said = await caller.call(lambda: list(caller.client.runs_events(run_id, stream_mode="values")))
    assert {event.type for event in said} == {"state.snapshot"}
    assert said[-1].payload["status"] == (await caller.call(caller.client.runs_get, run_id)).status == "completed"


async def test_webhooks(serve: Serve) -> None:
    async with receiving() as receiver:
        caller = Caller(host_for(serve, receiver))
        url = f"http://127.0.0.1:{receiver.port}/hook"
        request = wop.RegisterWebhookRequest(url=url, events=["run.completed"])
        said = await caller.call(caller.client.webhooks_register, request)
        run_id = await caller.create(REASONING)
        delivery = await receiver.next()
        assert json.loads(delivery.body)["runId"] == run_id
        assert is_signed(delivery, said.secret)
        await caller.call(caller.client.webhooks_unregister, said.subscriptionId, tenant_id="t")
        with pytest.raises(wop.WopError) as refused:
            await caller.call(caller.client.webhooks_unregister, said.subscriptionId, tenant_id="t")
        assert refused.value.envelope.error == "subscription_not_found"
