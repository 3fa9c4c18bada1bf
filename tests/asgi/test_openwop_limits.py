"""Limits of the OpenWOP host: sizes of logs, retention, readers, shutdown."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from projector.openwop.runs import HostRun, RunStore, Work
from projector.openwop.settings import OpenWopSettings
from projector.server.app import create_app
from projector.server.config.settings import Settings
from projector.server.http.problems import Problem
from projector.server.upstream.demo import DemoUpstream
from tests.asgi.conftest import Peer, Script, ScriptedUpstream
from tests.asgi.openwop_peer import PATIENCE_S, OpenWopPeer, document, error, messages, types
from tests.waiting import wait_until

REASONING = "conformance-agent-reasoning"
LOW_CONFIDENCE = "conformance-agent-low-confidence"

Serve = Callable[..., Any]
Start = Callable[[Script], Awaitable[ScriptedUpstream]]


async def talk(peer: Peer) -> None:
    """Send deltas until the client disconnects."""
    await peer.start()
    await peer.event({"type": "response.created", "response": {"id": "r", "status": "in_progress"}})
    while not peer.gone.is_set():
        delta = {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": "word " * 20}
        await peer.event(delta)
        await asyncio.sleep(0.001)


async def test_a_run_that_exceeds_its_log_fails(serve: Serve, upstream: Start) -> None:
    model = await upstream(talk)
    host = OpenWopPeer(serve(openwop={"max_run_bytes": 20_000}))
    run_id = await host.say("hello", "default")
    snapshot = await host.until(run_id, "failed")
    assert snapshot["error"]["code"] == "log_full"
    answer = await host.get(f"/v1/runs/{run_id}/events")
    said = await answer.rest()
    assert len(said) < 40_000
    assert types(json.loads(said)["events"])[-1] == "run.failed"
    await asyncio.wait_for((await model.peers.get()).gone.wait(), PATIENCE_S)


async def test_the_oldest_ended_runs_make_room(serve: Serve) -> None:
    host = OpenWopPeer(serve(openwop={"conformance": True, "max_runs": 2}))
    waiting = await host.create(LOW_CONFIDENCE)
    await host.until(waiting, "waiting-approval")
    first = await host.create(REASONING)
    await host.until(first, "completed")
    second = await host.create(LOW_CONFIDENCE)
    await host.until(second, "waiting-approval")
    assert (await error(await host.get(f"/v1/runs/{first}"), 404))["error"] == "not_found"
    refused = await host.post("/v1/runs", {"workflowId": REASONING})
    assert (await error(refused, 503))["details"] == {"retryAfter": int(refused.headers["retry-after"])}
    for run_id in (waiting, second):
        await document(await host.post(f"/v1/runs/{run_id}/cancel", {}))
        await host.until(run_id, "cancelled")


KEYS = {name: f"sha256:{hashlib.sha256(name.encode()).hexdigest()}" for name in ("one", "two")}


async def test_a_caller_leaves_room_for_the_readers_of_others(serve: Serve) -> None:
    limits = {"max_streams_per_caller": 1}
    site = serve(auth={"api_keys": KEYS}, limits=limits, openwop={"conformance": True})
    one, two = (OpenWopPeer(site, authorization=f"Bearer {name}") for name in KEYS)
    mine, theirs = await one.create(LOW_CONFIDENCE), await two.create(LOW_CONFIDENCE)
    reader = await one.stream(mine)
    for path in ("events", "events/poll"):
        refused = await one.get(f"/v1/runs/{mine}/{path}")
        assert (await error(refused, 429))["error"] == "rate_limited"
        assert refused.headers["retry-after"]
    await document(await two.get(f"/v1/runs/{theirs}/events"))
    for peer, run_id in ((one, mine), (two, theirs)):
        await document(await peer.post(f"/v1/runs/{run_id}/cancel", {}))
    await reader.rest()
    deadline = time.monotonic() + PATIENCE_S
    while (await one.get(f"/v1/runs/{mine}/events")).status != 200:  # the first reader has gone
        assert time.monotonic() < deadline


class Idle(Work):
    """Work that starts a run, with as many bytes, and waits until it may end it."""

    def __init__(self, n_bytes: int) -> None:
        self._n_bytes = n_bytes
        self.may_end = asyncio.Event()

    async def run(self, run: HostRun) -> None:
        run.log.emit("run.started", {"workflowId": "w" * self._n_bytes})
        await self.may_end.wait()

    def halt(self) -> None:
        self.may_end.set()

    def end(self, run: HostRun, _fault: object) -> None:
        run.log.emit("run.completed", {})


async def started(runs: RunStore, n_bytes: int) -> tuple[HostRun, Idle]:
    work = Idle(n_bytes)
    run = runs.start("w", "me", lambda _: work)
    await asyncio.sleep(0)
    return run, work


async def test_all_logs_together_have_a_limit() -> None:
    runs, ids = RunStore(OpenWopSettings(max_log_bytes=3000)), list[str]()
    for _ in range(10):
        run, work = await started(runs, 800)
        work.may_end.set()
        await run.ended()
        ids.append(run.run_id)
    kept = [at for at, run_id in enumerate(ids) if _has(runs, run_id)]
    assert kept[-1] == 9
    assert 1 <= len(kept) <= 3
    last, _ = await started(runs, 2000)
    assert not last.log.is_full
    last.log.emit("node.started", {"nodeId": "n" * 2000}, node_id="n")
    assert last.log.is_full
    with pytest.raises(Problem):
        runs.start("w", "me", lambda _: Idle(1))
    await runs.aclose()


def _has(runs: RunStore, run_id: str, caller: str = "me") -> bool:
    try:
        runs.get(run_id, caller)
    except Problem:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "max_runs", "streams_max", "callers", "allowed"),
    [
        ("as many again as may run", 1000, 5, ["me"] * 12, 10),
        ("a quarter is left to others", 8, None, ["me"] * 8, 6),
        ("whichever is less", 8, 5, ["me"] * 8, 6),
        ("one after another in a few", 2, None, ["me"] * 2, 2),
        ("addresses of one network", 8, None, [f"address:2001:db8::{n}" for n in range(8)], 6),
    ],
)
async def test_unfinished_runs_of_a_caller_have_a_limit(
    name: str, max_runs: int, streams_max: int | None, callers: list[str], allowed: int
) -> None:
    runs = RunStore(OpenWopSettings(max_runs=max_runs))
    works: list[Idle] = []
    refused: list[int] = []
    for caller in callers:
        works.append(Idle(1))
        try:
            runs.start("w", caller, lambda _: works[-1], streams_max)
        except Problem as error:
            refused.append(error.status)
        await asyncio.sleep(0)
    assert refused == [429] * (len(callers) - allowed), name
    if refused:
        runs.start("w", "another", lambda _: Idle(1), streams_max)
        works[0].may_end.set()
        await wait_until(lambda: _is_free(runs, callers[0], streams_max))
    await runs.aclose()


async def test_logs_of_unfinished_runs_leave_room_to_other_callers() -> None:
    runs = RunStore(OpenWopSettings(max_log_bytes=8000))
    for _ in range(3):
        await started(runs, 2000)
    with pytest.raises(Problem) as refused:
        await started(runs, 1)
    assert refused.value.status == 429
    runs.start("w", "another", lambda _: Idle(1))
    await runs.aclose()


def _is_free(runs: RunStore, caller: str, streams_max: int | None) -> bool:
    try:
        runs.start("w", caller, lambda _: Idle(1), streams_max)
    except Problem:
        return False
    return True


async def test_the_host_limits_the_runs_of_a_caller(serve: Serve) -> None:
    """Also with `max_streams_per_caller`, of which those that wait for a person are none."""
    settings = {"limits": {"max_streams_per_caller": 1}, "openwop": {"conformance": True, "max_runs": 50}}
    site = serve(auth={"api_keys": KEYS}, **settings)
    one, two = (OpenWopPeer(site, authorization=f"Bearer {name}") for name in KEYS)
    mine = [await one.create(LOW_CONFIDENCE) for _ in range(2)]
    refused = await one.post("/v1/runs", {"workflowId": LOW_CONFIDENCE})
    assert (await error(refused, 429))["error"] == "rate_limited"
    assert refused.headers["retry-after"]
    theirs = await two.create(LOW_CONFIDENCE)
    for peer, run_id in ((one, mine[0]), (one, mine[1]), (two, theirs)):
        await document(await peer.post(f"/v1/runs/{run_id}/cancel", {}))
        await peer.until(run_id, "cancelled")


@pytest.mark.parametrize(("limit", "n_bytes"), [({"max_runs": 6}, 1), ({"max_log_bytes": 6000}, 800)])
async def test_ended_runs_of_the_caller_with_the_most_are_dropped_first(limit: dict[str, int], n_bytes: int) -> None:
    runs = RunStore(OpenWopSettings(**limit))

    async def end(caller: str, n_bytes: int) -> str:
        work = Idle(n_bytes)
        run = runs.start("w", caller, lambda _: work)
        work.may_end.set()
        await run.ended()
        return run.run_id

    small = [await end("me", 1) for _ in range(2)]
    large = [await end("another", n_bytes) for _ in range(20)]
    assert [run_id for run_id in small if not _has(runs, run_id)] == []
    kept = [run_id for run_id in large if _has(runs, run_id, "another")]
    assert kept == large[-len(kept) :]
    await runs.aclose()


async def test_a_log_expires(serve: Serve) -> None:
    host = OpenWopPeer(serve(openwop={"conformance": True, "retention_s": 0.5}))
    run_id = await host.create(REASONING)
    waiting = await host.create(LOW_CONFIDENCE)
    deadline = time.monotonic() + PATIENCE_S
    while (await host.get(f"/v1/runs/{run_id}")).status != 404:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert (await host.snapshot(waiting))["status"] == "waiting-approval"
    await document(await host.post(f"/v1/runs/{waiting}/cancel", {}))


async def test_suspended_runs_do_not_count_as_streams(serve: Serve, upstream: Start) -> None:
    await upstream(talk)
    limits = {"max_streams_per_caller": 1}
    host = OpenWopPeer(serve(limits=limits, openwop={"conformance": True, "max_run_bytes": 10_000_000}))
    waiting = await host.create(LOW_CONFIDENCE)
    run_id = await host.say("hello", "default")
    await host.until(run_id, "running")
    second = {"workflowId": "default", "inputs": {"message": "m"}}
    assert (await error(await host.post("/v1/runs", second), 429))["error"] == "rate_limited"
    for ended in (run_id, waiting):
        await document(await host.post(f"/v1/runs/{ended}/cancel", {}))
        await host.until(ended, "cancelled")


async def test_readers_have_a_limit(serve: Serve) -> None:
    host = OpenWopPeer(serve(limits={"max_streams": 2}, openwop={"conformance": True}))
    run_id = await host.create(LOW_CONFIDENCE)
    await host.until(run_id, "waiting-approval")
    readers = [await host.stream(run_id) for _ in range(2)]
    for path in ("", "/poll"):
        answer = await host.get(f"/v1/runs/{run_id}/events{path}", accept="*/*")
        assert (await error(answer, 503))["error"] == "overloaded"
    assert (await host.snapshot(run_id))["status"] == "waiting-approval"
    readers.pop().reset()
    deadline = time.monotonic() + PATIENCE_S
    while (await host.get(f"/v1/runs/{run_id}/events/poll")).status == 503:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    await document(await host.post(f"/v1/runs/{run_id}/cancel", {}))
    assert (await messages(readers[0]))[-1].event == "run.cancelled"


async def test_a_poll_ends_with_its_client(serve: Serve) -> None:
    host = OpenWopPeer(serve(limits={"max_streams": 1}, openwop={"conformance": True}))
    run_id = await host.create(LOW_CONFIDENCE)
    await host.until(run_id, "waiting-approval")
    asked = len(host.site.answers)
    polling = asyncio.create_task(host.get(f"/v1/runs/{run_id}/events/poll?lastSequence=99&timeout=25"))
    await wait_until(lambda: len(host.site.answers) > asked)
    path = f"/v1/runs/{run_id}/events/poll"
    deadline = time.monotonic() + PATIENCE_S
    while (await host.get(path)).status != 503:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    host.site.answers[asked].reset()
    polling.cancel()
    while (await host.get(path)).status == 503:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    await document(await host.post(f"/v1/runs/{run_id}/cancel", {}))


async def test_a_shutdown_ends_runs_and_their_readers(serve: Serve, upstream: Start) -> None:
    await upstream(talk)
    host = OpenWopPeer(serve(drain_timeout_s=0.2, openwop={"conformance": True}))
    talking, waiting = await host.say("hello", "default"), await host.create(LOW_CONFIDENCE)
    await host.until(waiting, "waiting-approval")
    readers = [await host.stream(run_id) for run_id in (talking, waiting)]
    host.site.stop()
    for reader in readers:
        last = (await messages(reader))[-1]
        assert last.event == "run.failed"
        assert last.data["payload"]["error"]["code"] == "server_shutdown"


async def test_a_mounted_application_is_closed_by_aclose() -> None:
    """`app.state.aclose` ends runs and drops their logs without a lifespan."""
    app = create_app(Settings.model_validate({"openwop": {"conformance": True}}), lambda *_: DemoUpstream(pace_s=0))
    status, created = await ask(app, "POST", "/v1/runs", {"workflowId": LOW_CONFIDENCE})
    assert status == 201
    path = f"/v1/runs/{created['runId']}"
    assert (await ask(app, "GET", path))[0] == 200
    await app.state.aclose()
    assert (await ask(app, "GET", path))[0] == 404


async def ask(app: Any, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Send a request to an application without a server."""
    said: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"" if body is None else json.dumps(body).encode()}

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    await app(scope, receive, send)
    return said[0]["status"], json.loads(said[1]["body"])
