"""Whole logs of the host: valid, read without a gap, unchanged by a replay."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from projector.openwop.client import RunReader, replayed
from projector.openwop.contract.checker import check_log
from tests.asgi.openwop_peer import OpenWopPeer
from tests.asgi.test_openwop_agents import Serve, Start, approval, completed, created, hosting, says, text, thought

FIXTURES = ("conformance-agent-reasoning", "conformance-agent-reasoning-streaming", "conformance-agent-low-confidence")


@pytest.fixture
def host(serve: Callable[..., Any]) -> OpenWopPeer:
    return OpenWopPeer(serve(openwop={"conformance": True}))


def assert_sound(log: list[dict[str, Any]], status: str) -> None:
    assert check_log([json.dumps(event) for event in log]) == []
    for told in (log, replayed(log, with_deltas=False)):
        assert check_log([json.dumps(event) for event in told]) == []
        reader = RunReader()
        for event in told:
            reader.feed(event)
        assert (reader.missing, reader.unread, reader.status) == ([], 0, status)


@pytest.mark.parametrize("workflow_id", FIXTURES)
async def test_a_conformance_run_is_valid(host: OpenWopPeer, workflow_id: str) -> None:
    run_id = await host.create(workflow_id)
    snapshot = await host.until(run_id, "completed", "waiting-approval")
    assert_sound(await host.log(run_id), snapshot["status"])


@pytest.mark.parametrize(("action", "status"), [("accept", "completed"), ("reject", "failed")])
async def test_an_answered_run_is_valid(host: OpenWopPeer, action: str, status: str) -> None:
    run_id = await host.create(FIXTURES[2])
    await host.until(run_id, "waiting-approval")
    await host.resolve(run_id, "low-conf-decider", action)
    await host.until(run_id, status)
    assert_sound(await host.log(run_id), status)


async def test_an_agent_run_with_an_approval_is_valid(serve: Serve, upstream_port: int, upstream: Start) -> None:
    asked = [created("r1"), thought("hm"), *approval("mcpr_1", 1), completed("r1")]
    await upstream(says(asked, [created("r2"), thought("so"), text("Done"), completed("r2")]))
    host = hosting(serve, upstream_port)
    run_id = await host.say("wipe the disk")
    await host.until(run_id, "waiting-approval")
    assert_sound(await host.log(run_id), "waiting-approval")
    await host.resolve(run_id, "agent", "accept")
    await host.until(run_id, "completed")
    assert_sound(await host.log(run_id), "completed")


async def test_a_cancelled_run_is_valid(host: OpenWopPeer) -> None:
    run_id = await host.create(FIXTURES[2])
    await host.until(run_id, "waiting-approval")
    await host.post(f"/v1/runs/{run_id}/cancel", {})
    await host.until(run_id, "cancelled")
    assert_sound(await host.log(run_id), "cancelled")
