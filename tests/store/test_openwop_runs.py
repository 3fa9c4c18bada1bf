"""Runs of OpenWOP in each store, as two servers see them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import pytest

from projector.openwop.conformance.definitions import FIXTURES, register
from projector.openwop.conformance.mock_nodes import PlannedRun
from projector.openwop.contract.checker import check_log
from projector.openwop.host.host_errors import HostError
from projector.openwop.host.interrupts import claim_answer
from projector.openwop.host.planned_runs import PlannedWork
from projector.openwop.host.run_log import RunLog
from projector.openwop.host.runs import Answer, HostRun, Work
from projector.openwop.host.shared_quotas import CallerLimits, Quotas
from projector.openwop.host.shared_runs import PREFIX, SharedRuns
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.server.http.problems import Problem
from projector.store.protocol import LEASE_S, Store
from tests.store.rigs import Rig

PATIENCE_S = 60.0
REDACTOR = Redactor(Policy(reasoning="full"))


WORKFLOW = register(FIXTURES["conformance-agent-low-confidence"], is_on=True, has_role=False)


class Host:
    """What continues runs, and counts those that it has continued."""

    def __init__(self) -> None:
        self.continued: list[str] = []

    def can_continue(self, run: HostRun) -> bool:
        return run.workflow_id == WORKFLOW.definition.id

    def work_of(self, run: HostRun, _state: Mapping[str, Any]) -> Work:
        return PlannedWork(WORKFLOW.steps(PlannedRun(run.run_id, REDACTOR)), REDACTOR, is_continued=True)

    def restart(self, run: HostRun, work: Work, answers: Iterable[Answer]) -> None:
        self.continued.append(run.run_id)
        run.start(work, lambda _: None, answers)


def sharing(store: Store, producer: str, max_bytes: int = 10**6, timeout_s: float = 10**9) -> SharedRuns:
    server = SharedRuns(store, producer, max_bytes, timeout_s, Quotas(store, CallerLimits(9, 9, 9, timeout_s)))
    server.host = Host()
    return server


@pytest.fixture
async def servers(rig: Rig) -> AsyncIterator[tuple[SharedRuns, SharedRuns]]:
    one, other = sharing(rig.one, "one"), sharing(rig.other, "other")
    yield one, other
    await one.aclose()
    await other.aclose()


async def start(server: SharedRuns, run_id: str = "run_1", work: Work | None = None) -> HostRun:
    """Start a run that waits for an answer."""
    run = HostRun(run_id, WORKFLOW.definition.id, "ann", RunLog(run_id, 10**6, lambda _: True), PATIENCE_S)
    await server.open(run)
    run.start(work or PlannedWork(WORKFLOW.steps(PlannedRun(run_id, REDACTOR)), REDACTOR), lambda _: None)
    return run


class EndlessWork(PlannedWork):
    """Work that is not done before it is stopped."""

    async def run(self, run: HostRun) -> None:
        run.log.emit("run.started", {"workflowId": run.workflow_id})
        run.log.emit("node.started", {"nodeId": "n", "typeId": "t"}, node_id="n")
        while not run.is_stopped:
            await run.log.wait()


def endless() -> Work:
    return EndlessWork([], REDACTOR)


def end_of(run: HostRun) -> list[str]:
    return [event["type"] for event in log(run)][-2:]


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


async def waiting(server: SharedRuns, run_id: str = "run_1") -> HostRun:
    """Return a copy of a run that waits."""
    copy = await server.find(run_id, "ann")
    await until(copy, "waiting-approval")
    return copy


async def test_a_waiting_run_outlives_its_server(rig: Rig, servers: tuple[SharedRuns, SharedRuns]) -> None:
    one, other = servers
    run = await start(one)
    await waiting(other)
    await parked(rig)
    await one.abandon()
    await rig.advance(LEASE_S + 1)
    copy = await waiting(other)
    await copy.respond(copy.log.state.pending[0], "yes", "key:ann")
    await until(copy, "completed")
    assert copy.is_here
    assert not run.is_here
    assert check_log([json.dumps(event) for event in log(copy)]) == []
    again = sharing(rig.one, "again")
    assert log(await again.find("run_1", "ann")) == log(copy)
    await again.aclose()


async def parked(rig: Rig, run_id: str = "run_1") -> None:
    """Wait until a run has no producer."""
    while not await is_parked(rig, run_id):  # noqa: ASYNC110 - it is a state of the store
        await asyncio.sleep(0.01)


async def is_parked(rig: Rig, run_id: str) -> bool:
    return (await rig.one.renew([PREFIX + run_id]))[PREFIX + run_id].lost == "sealed"


@pytest.mark.parametrize("is_first_alive", [True, False])
async def test_one_of_many_servers_continues(
    rig: Rig, servers: tuple[SharedRuns, SharedRuns], *, is_first_alive: bool
) -> None:
    one, other = servers
    run = await start(one)
    await parked(rig)
    if not is_first_alive:
        await one.abandon()
    others = [other, *(sharing(rig.other, f"more-{number}") for number in range(4))]
    copies = [await waiting(server) for server in others]
    runs = [run, *copies] if is_first_alive else copies
    given = await asyncio.gather(
        *(one.respond(one.log.state.pending[0], number, "a") for number, one in enumerate(runs)),
        return_exceptions=True,
    )
    assert sum(one is None for one in given) == 1
    for copy in runs:
        await until(copy, "completed")
        assert log(copy) == log(runs[0])
    resolved = [event["payload"]["resumeValue"] for event in log(runs[0]) if event["type"] == "interrupt.resolved"]
    assert resolved == [given.index(None)]
    assert sum(len(server.host.continued) for server in (one, *others) if isinstance(server.host, Host)) == 1
    for server in others[1:]:
        await server.aclose()


async def test_an_answer_whose_server_died_is_used(rig: Rig, servers: tuple[SharedRuns, SharedRuns]) -> None:
    one, other = servers
    await start(one)
    await parked(rig)
    await one.abandon()
    copy = await waiting(other)
    await claim_answer(rig.other, "run_1", copy.log.state.pending[0].interrupt_id, "yes", "a")  # and it dies
    await until(copy, "completed")


async def test_nobody_answers(rig: Rig, servers: tuple[SharedRuns, SharedRuns]) -> None:
    one, _ = servers
    run = await start(one)
    await parked(rig)
    impatient = sharing(rig.other, "impatient", timeout_s=0)
    copy = await impatient.find("run_1", "ann")
    await until(copy, "failed")
    await until(run, "failed")
    assert log(run)[-1]["payload"]["error"]["code"] == "interrupt_timeout"
    assert check_log([json.dumps(event) for event in log(run)]) == []
    await impatient.aclose()


async def test_a_parked_run_is_cancelled(rig: Rig, servers: tuple[SharedRuns, SharedRuns]) -> None:
    one, other = servers
    run = await start(one)
    await parked(rig)
    copy = await waiting(other)
    await asyncio.gather(copy.cancel(), run.cancel(), copy.cancel())
    await until(copy, "cancelled")
    await until(run, "cancelled")
    assert log(copy) == log(run)
    assert end_of(run) == ["node.cancelled", "run.cancelled"]
    assert check_log([json.dumps(event) for event in log(run)]) == []


async def test_a_server_without_the_workflow_leaves_a_run(rig: Rig, servers: tuple[SharedRuns, SharedRuns]) -> None:
    one, other = servers
    run = await start(one)
    await parked(rig)
    other.host = None
    copy = await waiting(other)
    await claim_answer(rig.other, "run_1", copy.log.state.pending[0].interrupt_id, "yes", "a")
    await until(copy, "completed")
    assert run.is_here


async def test_a_run_of_a_dead_server_fails_once(rig: Rig, servers: tuple[SharedRuns, SharedRuns]) -> None:
    one, other = servers
    run = await start(one, work=endless())
    copy = await other.find("run_1", "ann")
    await until(copy, "running")
    await one.abandon()
    await rig.advance(LEASE_S + 1)
    await until(copy, "failed")
    assert check_log([json.dumps(event) for event in log(copy)]) == []
    assert log(copy)[-1]["payload"]["error"]["code"] == "host_lost"
    again = sharing(rig.other, "other")
    assert log(await again.find("run_1", "ann")) == log(copy)
    await again.aclose()
    run.stop(None)
    await run.ended()


async def test_copies_of_ended_runs_make_room(rig: Rig, servers: tuple[SharedRuns, SharedRuns]) -> None:
    one, _ = servers
    small = sharing(rig.other, "other", 1)
    first, second = await start(one), await start(one, "run_2")
    copy = await small.find("run_1", "ann")
    await until(copy, "waiting-approval")
    with pytest.raises(Problem) as refused:
        await small.find("run_2", "ann")
    assert refused.value.code == "overloaded"
    await first.cancel()
    await until(copy, "cancelled")
    await until(await small.find("run_2", "ann"), "waiting-approval")
    assert (await rig.other.find("openwop:run_1")) is not None
    await second.cancel()
    await small.aclose()


async def test_a_server_that_was_given_up_ends_its_run(rig: Rig, servers: tuple[SharedRuns, SharedRuns]) -> None:
    one, other = servers
    run = await start(one, work=endless())
    copy = await other.find("run_1", "ann")
    await until(copy, "running")
    await rig.other.seal("openwop:run_1", reason="stream_interrupted")
    await until(copy, "failed")
    await until(run, "failed")
    assert run.log.state.error == copy.log.state.error
