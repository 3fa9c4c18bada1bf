"""Runs of OpenWOP in each store, as two servers see them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from projector.openwop.conformance.definitions import FIXTURES, register
from projector.openwop.conformance.mock_nodes import PlannedRun
from projector.openwop.contract.checker import check_log
from projector.openwop.host.host_errors import HostError
from projector.openwop.host.planned_runs import PlannedWork
from projector.openwop.host.run_log import RunLog
from projector.openwop.host.runs import HostRun
from projector.openwop.host.shared_runs import SharedRuns
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.server.http.problems import Problem
from projector.store.protocol import LEASE_S
from tests.store.rigs import Rig

pytestmark = pytest.mark.timeout(60)

PATIENCE_S = 20.0
REDACTOR = Redactor(Policy(reasoning="full"))


@pytest.fixture
async def servers(rig: Rig) -> AsyncIterator[tuple[SharedRuns, SharedRuns]]:
    one, other = SharedRuns(rig.one, "one", 10**6), SharedRuns(rig.other, "other", 10**6)
    yield one, other
    await one.aclose()
    await other.aclose()


async def start(server: SharedRuns, run_id: str = "run_1") -> HostRun:
    """Start a run that waits for an answer."""
    workflow = register(FIXTURES["conformance-agent-low-confidence"], is_on=True, has_role=False)
    run = HostRun(run_id, workflow.definition.id, "ann", RunLog(run_id, 10**6, lambda _: True), PATIENCE_S)
    run.start(PlannedWork(workflow.steps(PlannedRun(run_id, REDACTOR)), REDACTOR), lambda _: None)
    await server.open(run)
    return run


def log(run: HostRun) -> list[dict[str, Any]]:
    return [json.loads(entry.data) for entry in run.log.entries]


async def until(run: HostRun, status: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while run.log.state.status != status:
        assert time.monotonic() < deadline, run.log.state.status
        await asyncio.sleep(0.01)


async def test_another_server_answers_a_run(servers: tuple[SharedRuns, SharedRuns]) -> None:
    one, other = servers
    run = await start(one)
    copy = await other.find("run_1", "ann")
    await until(copy, "waiting-approval")
    (interrupt,) = copy.log.state.pending
    await copy.respond(interrupt, {"kind": "terminate"}, "key:ann")
    await until(run, "completed")
    await until(copy, "completed")
    assert log(run) == log(copy)
    (resolved,) = [event["payload"] for event in log(copy) if event["type"] == "interrupt.resolved"]
    assert (resolved["resumeValue"], resolved["resolvedBy"]) == ({"kind": "terminate"}, "key:ann")
    for caller, run_id in (("bob", "run_1"), ("ann", "run_2")):
        with pytest.raises(HostError) as refused:
            await other.find(run_id, caller)
        assert refused.value.code == "not_found"


async def test_one_of_two_answers_counts(servers: tuple[SharedRuns, SharedRuns]) -> None:
    one, other = servers
    run = await start(one)
    copy = await other.find("run_1", "ann")
    await until(copy, "waiting-approval")
    given = await asyncio.gather(
        run.respond(run.log.state.pending[0], {"from": "one"}, "a"),
        copy.respond(copy.log.state.pending[0], {"from": "other"}, "b"),
        return_exceptions=True,
    )
    (refused,) = [one for one in given if one is not None]
    assert isinstance(refused, HostError)
    assert refused.code == "interrupt_already_resolved"
    await until(run, "completed")
    (resolved,) = [event["payload"] for event in log(run) if event["type"] == "interrupt.resolved"]
    assert resolved["resumeValue"] == {"from": "one" if given[0] is None else "other"}


async def test_another_server_cancels_a_run(servers: tuple[SharedRuns, SharedRuns]) -> None:
    one, other = servers
    run = await start(one)
    await (await other.find("run_1", "ann")).cancel()
    await until(run, "cancelled")
    await until(await other.find("run_1", "ann"), "cancelled")


async def test_a_run_of_a_dead_server_fails_once(rig: Rig, servers: tuple[SharedRuns, SharedRuns]) -> None:
    one, other = servers
    run = await start(one)
    copy = await other.find("run_1", "ann")
    await until(copy, "waiting-approval")
    await one.abandon()
    await rig.advance(LEASE_S + 1)
    await until(copy, "failed")
    assert check_log([json.dumps(event) for event in log(copy)]) == []
    assert log(copy)[-1]["payload"]["error"]["code"] == "host_lost"
    again = SharedRuns(rig.other, "other", 10**6)
    assert log(await again.find("run_1", "ann")) == log(copy)
    await again.aclose()
    run.stop(None)
    await run.ended()


async def test_copies_of_ended_runs_make_room(rig: Rig, servers: tuple[SharedRuns, SharedRuns]) -> None:
    one, _ = servers
    small = SharedRuns(rig.other, "other", 1)
    first, second = await start(one), await start(one, "run_2")
    copy = await small.find("run_1", "ann")
    await until(copy, "waiting-approval")
    with pytest.raises(Problem) as refused:
        await small.find("run_2", "ann")
    assert refused.value.code == "overloaded"
    first.stop(None)
    await until(copy, "cancelled")
    await until(await small.find("run_2", "ann"), "waiting-approval")
    assert (await rig.other.find("openwop:run_1")) is not None
    second.stop(None)
    await small.aclose()


async def test_a_server_that_was_given_up_ends_its_run(rig: Rig, servers: tuple[SharedRuns, SharedRuns]) -> None:
    one, other = servers
    run = await start(one)
    copy = await other.find("run_1", "ann")
    await until(copy, "waiting-approval")
    await rig.other.seal("openwop:run_1", reason="stream_interrupted")
    await until(copy, "failed")
    await until(run, "failed")
    assert run.log.state.error == copy.log.state.error
