"""Runs in a store: read, answered and cancelled by another server, and ended once if their server dies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import projector.server.app
from projector.openwop.contract.checker import check_log
from projector.openwop.host.host_errors import HOST_LOST, HostError
from projector.openwop.host.lost_runs import closing_events
from projector.openwop.host.shared_quotas import CallerLimits, Quotas
from projector.openwop.host.shared_runs import PREFIX
from projector.store.memory import MemoryStore
from projector.store.protocol import LEASE_S, StoreLimits, StoreUnavailableError
from projector.store.sqlite import SqliteStore
from tests.asgi.callers import keys
from tests.asgi.openwop_peer import OpenWopPeer, document, error, messages, types

REASONING = "conformance-agent-reasoning"
LOW_CONFIDENCE = "conformance-agent-low-confidence"
EXAMPLES = Path(__file__).parents[2] / "examples_ndjson" / "openwop"
GOLDENS = sorted(EXAMPLES.glob("*.ndjson"))


@pytest.fixture
def hosts(
    serve: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[OpenWopPeer, OpenWopPeer, SqliteStore]:
    """Return two servers with one store, and the store: a file is one process's, so both are in this one."""
    store = SqliteStore(tmp_path / "store.db", StoreLimits())
    monkeypatch.setattr(projector.server.app, "make_store", lambda *_: store)
    # servers with the same settings would be the same one
    settings = {"conformance": True, "token_secret": f"the key of both servers of {tmp_path}"}
    one, two = (OpenWopPeer(serve(openwop={**settings, "max_runs": most})) for most in (100, 101))
    return one, two, store


async def test_another_server_reads_a_run(hosts: tuple[OpenWopPeer, OpenWopPeer, SqliteStore]) -> None:
    one, two, _ = hosts
    run_id = await one.create(LOW_CONFIDENCE)
    await two.until(run_id, "waiting-approval")
    reader = await two.stream(run_id, "?streamMode=debug")
    await document(await one.resolve(run_id, "low-conf-decider", "accept"))
    said = await messages(reader)
    await two.until(run_id, "completed")
    assert [message.data for message in said] == await one.log(run_id) == await two.log(run_id)
    last = await messages(await two.stream(run_id, "?streamMode=debug", last_event_id="5"))
    assert [message.data for message in last] == (await one.log(run_id))[6:]
    assert (await one.snapshot(run_id)) == (await two.snapshot(run_id))
    assert (await error(await two.get("/v1/runs/run_x"), 404))["error"] == "not_found"


@pytest.mark.parametrize("by_token", [False, True])
async def test_another_server_answers_an_interrupt_once(
    hosts: tuple[OpenWopPeer, OpenWopPeer, SqliteStore], *, by_token: bool
) -> None:
    one, two, _ = hosts
    run_id = await one.create(LOW_CONFIDENCE)
    await two.until(run_id, "waiting-approval")
    path = f"/v1/runs/{run_id}/interrupts/low-conf-decider"
    if by_token:
        (suspended,) = [event for event in await two.log(run_id) if event["type"] == "node.suspended"]
        path = f"/v1/interrupts/{suspended['payload']['token']}"
    answers = await asyncio.gather(
        *(peer.post(path, {"resumeValue": {"from": name}}) for name, peer in (("one", one), ("two", two)))
    )
    assert sorted(answer.status for answer in answers) == [200, 409]
    await two.until(run_id, "completed")
    await one.until(run_id, "completed")
    log = await one.log(run_id)
    (resolved,) = [event["payload"] for event in log if event["type"] == "interrupt.resolved"]
    winner = "one" if answers[0].status == 200 else "two"
    assert resolved["resumeValue"] == {"from": winner}


async def test_another_server_cancels_a_run(hosts: tuple[OpenWopPeer, OpenWopPeer, SqliteStore]) -> None:
    one, two, _ = hosts
    run_id = await one.create(LOW_CONFIDENCE)
    await two.until(run_id, "waiting-approval")
    assert (await document(await two.post(f"/v1/runs/{run_id}/cancel", {})))["status"] == "cancelling"
    await one.until(run_id, "cancelled")
    await two.until(run_id, "cancelled")
    assert await one.log(run_id) == await two.log(run_id)


async def test_a_run_of_a_dead_server_has_one_end(
    hosts: tuple[OpenWopPeer, OpenWopPeer, SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, store = hosts
    run_id = await one.create(LOW_CONFIDENCE)
    await two.until(run_id, "waiting-approval")
    await store.seal(PREFIX + run_id, reason="stream_interrupted")  # as a reader does when the lease has lapsed
    snapshot = await two.until(run_id, "failed")
    assert snapshot["error"]["code"] == "host_lost"
    log = await two.log(run_id)
    assert types(log)[-2:] == ["node.failed", "run.failed"]
    assert await two.log(run_id) == log
    late = await error(await two.resolve(run_id, "low-conf-decider", "accept"), 409)
    assert late["error"] == "interrupt_already_resolved"
    monkeypatch.undo()
    cancelled = await one.post(f"/v1/runs/{run_id}/cancel", {})
    assert cancelled.status in {200, 409}  # the first server may have noticed by itself that the run is lost


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_a_log_that_stops_anywhere_gets_a_valid_end(path: Path) -> None:
    events = [json.loads(line) for line in path.read_bytes().splitlines()]
    whole = len(events) - (types(events)[-1] in {"run.completed", "run.failed", "run.cancelled"})
    for stop in range(whole + 1):
        run_id = events[0]["runId"]
        end = closing_events(events[:stop], run_id, "w", "2025-12-15T12:00:00.000Z", HOST_LOST)
        log = [{**event, "sequence": at} for at, event in enumerate([*events[:stop], *end])]
        assert check_log([json.dumps(event) for event in log]) == []
        assert log[-1]["type"] == "run.failed"


@pytest.fixture(params=["sqlite", "redis"])
def both(
    request: pytest.FixtureRequest, serve: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, tuple[OpenWopPeer, OpenWopPeer]]]:
    """Return a function that starts two servers with one store, as two callers see them."""
    if request.param == "redis":
        redis = request.getfixturevalue("redis_server")
        store: dict[str, Any] = {"kind": "redis", "url": redis.url, "prefix": f"test-{tmp_path.name}-{id(tmp_path)}:"}
    else:
        store = {}
        file = SqliteStore(tmp_path / "store.db", StoreLimits())
        monkeypatch.setattr(projector.server.app, "make_store", lambda *_: file)

    def start(**settings: Any) -> dict[str, tuple[OpenWopPeer, OpenWopPeer]]:
        sites = [
            serve(
                **({"store": store} if store else {}),
                auth={"api_keys": keys("ann", "bob")},
                openwop={"conformance": True, "max_runs": most, **settings},
            )
            for most in (100, 101)
        ]
        one, other = sites
        return {
            name: (OpenWopPeer(one, authorization=bearer), OpenWopPeer(other, authorization=bearer))
            for name, bearer in (("ann", "Bearer ann"), ("bob", "Bearer bob"))
        }

    return start


@pytest.mark.parametrize("limit", ["max_caller_runs", "max_caller_waiting"])
async def test_runs_of_a_caller_are_counted_on_all_servers(both: Any, limit: str) -> None:
    peers = both(**{limit: 2})
    one, other = peers["ann"]
    runs = [await one.create(LOW_CONFIDENCE), await other.create(LOW_CONFIDENCE)]
    for host, run_id in ((other, runs[0]), (one, runs[1])):
        await host.until(run_id, "waiting-approval")
    for host in (one, other):
        refused = await host.post("/v1/runs", {"workflowId": REASONING})
        assert (await error(refused, 429))["error"] == "rate_limited"
    for host in peers["bob"]:
        await host.until(await host.create(REASONING), "completed")
    await document(await other.resolve(runs[0], "low-conf-decider", "accept"))
    await one.until(runs[0], "completed")
    await eventually(lambda: one.post("/v1/runs", {"workflowId": REASONING}), 201)
    await document(await one.post(f"/v1/runs/{runs[1]}/cancel", {}))
    await other.until(runs[1], "cancelled")


async def test_readers_of_a_caller_are_counted_on_all_servers(both: Any) -> None:
    peers = both(max_caller_readers=1)
    one, other = peers["ann"]
    run_id = await one.create(LOW_CONFIDENCE)
    reader = await one.stream(run_id)
    for path in ("events", "events/poll"):
        refused = await other.get(f"/v1/runs/{run_id}/{path}")
        assert (await error(refused, 429))["error"] == "rate_limited"
    theirs = await peers["bob"][0].create(REASONING)
    assert (await peers["bob"][1].get(f"/v1/runs/{theirs}/events")).status == 200
    await document(await other.post(f"/v1/runs/{run_id}/cancel", {}))
    await reader.rest()
    await eventually(lambda: other.get(f"/v1/runs/{run_id}/events"), 200)


async def eventually(ask: Callable[[], Any], status: int) -> None:
    """Ask until there is room again: what has ended is counted a moment longer."""
    async with asyncio.timeout(30):
        while (answer := await ask()).status != status:
            assert answer.status == 429
            await asyncio.sleep(0.02)


class Hand:
    """A clock that is set by hand."""

    now_s = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s


async def test_what_a_dead_server_held_is_free_after_its_lease() -> None:
    store, clock = MemoryStore(), Hand()
    dead, living = (Quotas(store, CallerLimits(2, 2, 1, 3_600.0), clock) for _ in range(2))
    await dead.enter("key:ann", "run_1")
    await living.enter("key:ann", "run_2")
    async with dead.reading("key:ann"):
        for quotas in (dead, living):
            with pytest.raises(HostError):
                await quotas.enter("key:ann", "run_3")
            with pytest.raises(HostError):
                await quotas.reading("key:ann").__aenter__()
        await living.park("key:ann", "run_2")
        clock.now_s += LEASE_S / 2
        await dead.renew(())
        clock.now_s += LEASE_S / 2 + 1
        with pytest.raises(HostError):
            await living.enter("key:ann", "run_3")
        clock.now_s += LEASE_S
        await living.enter("key:ann", "run_3")  # the run that is parked still counts, and this one
        with pytest.raises(HostError):
            await living.enter("key:ann", "run_4")
        async with living.reading("key:ann"):
            pass
        clock.now_s += 3_600
        await living.enter("key:ann", "run_4")
    await dead.aclose()
    await living.aclose()


async def test_without_the_store_a_server_counts_by_itself() -> None:
    class Away(MemoryStore):
        async def update(self, *_: Any, **__: Any) -> None:
            raise StoreUnavailableError("away")

    quotas = Quotas(Away(), CallerLimits(0, 0, 0, 1.0))
    await quotas.enter("key:ann", "run_1")
    async with quotas.reading("key:ann"):
        pass
    quotas.leave("key:ann", "run_1")
    await quotas.aclose()
