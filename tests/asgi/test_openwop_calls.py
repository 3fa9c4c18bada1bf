"""The calls of the protocol's own client that the host supports: `openwop_client`, which blocks, in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import openwop_client as wop
import pytest

from tests.asgi.conftest import Script, ScriptedUpstream
from tests.asgi.openwop_peer import OpenWopPeer
from tests.asgi.test_openwop_agents import approval, completed, created, hosting, says, text

LOW_CONFIDENCE = "conformance-agent-low-confidence"

Start = Callable[[Script], Awaitable[ScriptedUpstream]]
Serve = Callable[..., Any]
T = TypeVar("T")


class Caller:
    """The client of one host."""

    def __init__(self, host: OpenWopPeer) -> None:
        self.client = wop.OpenwopClient(base_url=f"http://127.0.0.1:{host.site.port}", api_key="k")
        self.until = host.until

    async def call(self, function: Callable[..., T], *values: Any, **named: Any) -> T:
        return await asyncio.to_thread(lambda: function(*values, **named))

    async def create(self, workflow_id: str, **members: Any) -> str:
        request = wop.CreateRunRequest(workflowId=workflow_id, **members)
        run_id: str = (await self.call(self.client.runs_create, request)).runId
        return run_id

    async def events(self, run_id: str) -> list[Any]:
        return list((await self.call(self.client.runs_poll_events, run_id)).events)

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
    (token,) = [event.payload["token"] for event in await caller.events(run_id) if event.type == "node.suspended"]
    await caller.call(caller.client.runs_cancel, run_id)
    await caller.until(run_id, "cancelled")
    body = wop.ResolveInterruptRequest(resumeValue={"action": "accept"})
    for call, values in (
        (caller.client.interrupts_resolve_by_run, (run_id, "low-conf-decider", body)),
        (caller.client.interrupts_resolve_by_token, (token, body)),
        (caller.client.interrupts_inspect_by_token, (token,)),
    ):
        with pytest.raises(wop.WopError) as refused:
            await caller.call(call, *values)
        assert (refused.value.status, refused.value.envelope.error) == (409, "interrupt_already_resolved")
