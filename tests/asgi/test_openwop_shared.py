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
from projector.openwop.host.host_errors import HOST_LOST
from projector.openwop.host.lost_runs import closing_events
from projector.openwop.host.shared_runs import PREFIX
from projector.store.protocol import StoreLimits
from projector.store.sqlite import SqliteStore
from tests.asgi.openwop_peer import OpenWopPeer, document, error, messages, types

pytestmark = pytest.mark.timeout(60)

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
