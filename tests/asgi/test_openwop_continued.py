"""Runs that wait are continued by any server with the same store: beside the first one, and after its death."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from redis.asyncio import Redis

from tests.asgi.conftest import Answer, Peer, Script, ScriptedUpstream, Site
from tests.asgi.openwop_peer import OpenWopPeer, document, error, messages, types
from tests.asgi.process import Process, running, serve_with
from tests.asgi.test_openwop_agents import approval, completed, created, text
from tests.asgi.test_openwop_webhooks import receiving, register
from tests.asgi.test_openwop_workflows import STAGES, ask_first, waits

Start = Callable[[Script], Awaitable[ScriptedUpstream]]

SECRET: Final = "the key of all servers, thirty-two"
AGENT: Final = {"upstream": "model", "dialects": ["openwop", "public_sse_v1"], "policy": {"text": "off"}}
NODES: Final = {"helper": ["agent"], "report": ["look/here%230", "look/there%231"]}
"""What is run -> nodes that wait, as in a path."""

CONFIG: Final = """
[store]
{store}
[upstreams.model]
base_url = "http://127.0.0.1:{port}/v1"
[agents.helper]
upstream = "model"
model = "m"
dialects = ["openwop"]
[openwop]
"""


def servers_settings(port: int, **openwop: Any) -> dict[str, Any]:
    return {
        "api_key": None,
        "base_url": None,
        "upstreams": {"model": {"base_url": f"http://localhost:{port}/v1"}},
        "agents": {name: AGENT | {"model": f"m-{name}"} for name in ("helper", "alice", "robert")},
        "workflows": {"report": {"stages": STAGES, "dialects": ["openwop"]}},
        "retries": {"max": 0},
        "openwop": {"token_secret": SECRET, **openwop},
    }


@pytest.fixture
def two(serve: Callable[..., Any], redis_server: Any, upstream_port: int) -> tuple[OpenWopPeer, OpenWopPeer]:
    """Return two servers with one Redis."""
    store = {"kind": "redis", "url": redis_server.url, "prefix": f"test-{os.urandom(4).hex()}:"}
    one, other = (
        OpenWopPeer(serve(store=store, **servers_settings(upstream_port, max_runs=most))) for most in (100, 101)
    )
    return one, other


async def model(peer: Peer) -> None:
    """Ask for an approval first, and speak after the answer."""
    if peer.body["model"] != "m-helper":
        await ask_first(peer)
        return
    await peer.start()
    again = "previous_response_id" in peer.body
    said = [text("Done"), completed("r2")] if again else [text("May I?"), *approval("q_1"), completed("r1")]
    for event in [created("r2" if again else "r1"), *said]:
        await peer.event(event)
    await peer.end()


def comparable(log: list[dict[str, Any]]) -> list[str]:
    """Return the events of a log without what differs between runs, those of parallel nodes by node."""
    run_id, shown = log[0]["runId"], []
    for event in log:
        kept = {name: value for name, value in event.items() if name not in {"timestamp", "sequence", "eventId"}}
        text_of = json.dumps(kept, sort_keys=True).replace(run_id, "RUN")
        shown.append(re.sub(r'"(key|token|decidedAt|causationId)": "[^"]*"', "", text_of))
    return sorted(shown)


async def answered(host: OpenWopPeer, run_id: str, workflow: str, action: str = "accept") -> list[dict[str, Any]]:
    """Answer all that a run asks, and return its log."""
    await waits(host, run_id, len(NODES[workflow]))
    for node in NODES[workflow]:
        await document(await host.resolve(run_id, node, action))
    await host.until(run_id, "completed")
    return await host.log(run_id)


@pytest.mark.parametrize("workflow", NODES)
@pytest.mark.parametrize("action", ["accept", "reject"])
async def test_another_server_continues_as_the_first_one_would(
    serve: Callable[..., Any],
    two: tuple[OpenWopPeer, OpenWopPeer],
    upstream: Start,
    upstream_port: int,
    workflow: str,
    action: str,
) -> None:
    provider = await upstream(model)
    alone = OpenWopPeer(serve(**servers_settings(upstream_port)))
    expected = await answered(alone, await alone.say("news", workflow), workflow, action)
    asked = [provider.peers.get_nowait().body for _ in range(provider.peers.qsize())]
    one, other = two
    run_id = await one.say("news", workflow)
    reader = await one.stream(run_id, "?streamMode=debug")
    log = await answered(other, run_id, workflow, action)
    assert comparable(log) == comparable(expected)
    assert [message.data for message in await messages(reader)] == log
    await one.until(run_id, "completed")
    assert await one.log(run_id) == log
    again = [provider.peers.get_nowait().body for _ in range(provider.peers.qsize())]
    assert sorted(map(json.dumps, again)) == sorted(map(json.dumps, asked))


async def test_each_server_answers_one_of_several_approvals(
    two: tuple[OpenWopPeer, OpenWopPeer], upstream: Start
) -> None:
    async def script(peer: Peer) -> None:
        await peer.start()
        if "previous_response_id" in peer.body:
            said = [created("r2"), text("Done"), completed("r2")]
        else:
            said = [created("r1"), *approval("q_1"), *approval("q_2", 1), completed("r1")]
        for event in said:
            await peer.event(event)
        await peer.end()

    provider = await upstream(script)
    one, other = two
    run_id = await one.say("news")
    await waits(other, run_id, 2)
    await document(await other.resolve(run_id, "agent", "accept", interruptId="int-q_2"))
    await waits(one, run_id, 2)
    await document(await one.resolve(run_id, "agent", "reject", interruptId="int-q_1"))
    for host in two:
        await host.until(run_id, "completed")
    assert await one.log(run_id) == await other.log(run_id)
    bodies = [provider.peers.get_nowait().body for _ in range(2)]
    given = {item["approval_request_id"]: item["approve"] for item in bodies[1]["input"]}
    assert given == {"q_1": False, "q_2": True}
    assert bodies[1]["previous_response_id"] == "r1"


async def test_one_of_two_answers_is_used(two: tuple[OpenWopPeer, OpenWopPeer], upstream: Start) -> None:
    provider = await upstream(model)
    one, other = two
    run_id = await one.say("news")
    for host in two:
        await waits(host, run_id, 1)
    given = await asyncio.gather(*(host.resolve(run_id, "agent", "accept") for host in (one, other, one, other)))
    assert sorted(answer.status for answer in given) == [200, 409, 409, 409]
    for host in two:
        await host.until(run_id, "completed")
    assert provider.peers.qsize() == 2
    assert await one.log(run_id) == await other.log(run_id)


async def test_a_run_that_waits_survives_a_stop_and_can_be_cancelled(
    two: tuple[OpenWopPeer, OpenWopPeer], upstream: Start
) -> None:
    await upstream(model)
    one, other = two
    run_ids = [await one.say("news", workflow) for workflow in NODES for _ in range(2)]
    for run_id in run_ids:
        await waits(other, run_id, 2 if run_id in run_ids[2:] else 1)
    one.site.stop()
    await document(await other.post(f"/v1/runs/{run_ids[0]}/cancel", {}))
    await document(await other.post(f"/v1/runs/{run_ids[2]}/cancel", {}))
    for run_id in run_ids[::2]:
        await other.until(run_id, "cancelled")
        assert types(await other.log(run_id))[-1] == "run.cancelled"
    late = await error(await other.resolve(run_ids[0], "agent", "accept"), 422)
    assert late["error"] == "interrupt_cancelled"
    await answered(other, run_ids[1], "helper")
    await answered(other, run_ids[3], "report")


async def test_a_key_is_one_run_on_all_servers(two: tuple[OpenWopPeer, OpenWopPeer], upstream: Start) -> None:
    provider = await upstream(model)
    body = {"workflowId": "helper", "inputs": {"message": "news"}}
    answers = await asyncio.gather(*(host.post("/v1/runs", body, idempotency_key="k") for host in (*two, *two)))
    assert {answer.status for answer in answers} == {201}
    (run_id,) = {json.loads(await answer.rest())["runId"] for answer in answers}
    for host in two:
        other = await host.post("/v1/runs", body | {"tags": ["t"]}, idempotency_key="k")
        assert (await error(other, 409))["error"] == "idempotency_key_mismatch"
        await waits(host, run_id, 1)
    assert provider.peers.qsize() == 1
    bad = {"workflowId": "helper", "inputs": {}}
    assert (await two[0].post("/v1/runs", bad, idempotency_key="free")).status == 400
    free = await two[1].post("/v1/runs", body, idempotency_key="free")
    assert free.status == 201
    await waits(two[1], json.loads(await free.rest())["runId"], 1)


async def test_a_webhook_is_one_of_all_servers(
    serve: Callable[..., Any], redis_server: Any, upstream: Start, upstream_port: int
) -> None:
    await upstream(model)
    async with receiving() as receiver:
        store = {"kind": "redis", "url": redis_server.url, "prefix": f"test-{os.urandom(4).hex()}:"}
        hooks = {"webhook_origins": [f"http://127.0.0.1:{receiver.port}"], "max_caller_webhooks": 1}
        one, other = (
            OpenWopPeer(serve(store=store, **servers_settings(upstream_port, max_runs=most, **hooks)))
            for most in (100, 101)
        )
        said = await register(one, receiver, "*")
        body = {"url": said["url"], "events": ["*"]}
        assert (await other.post("/v1/webhooks", body)).status == 429
        run_id = await other.say("news")
        log = await answered(one, run_id, "helper")
        got = [json.loads((await receiver.next()).body) for _ in log]  # each server sends what it wrote, in order
        assert sorted(got, key=lambda event: event["sequence"]) == log
        gone = await other.site.get(f"/v1/webhooks/{said['subscriptionId']}", method="DELETE")
        assert gone.status == 204
        again = await one.site.get(f"/v1/webhooks/{said['subscriptionId']}", method="DELETE")
        assert (await error(again, 404))["error"] == "subscription_not_found"
        assert (await one.post("/v1/webhooks", body)).status == 201


class ProcessSite(Site):
    """A server in a process, as `OpenWopPeer` sees it."""

    def __init__(self, process: Process) -> None:
        self.port, self.trusted, self.answers = process.port, None, []


@contextlib.asynccontextmanager
async def hosting(process: Process) -> AsyncIterator[OpenWopPeer]:
    """Return a client of a server in a process."""
    site = ProcessSite(process)
    yield OpenWopPeer(site)
    for answer in site.answers:
        await answer.closed()


def configured(tmp_path: Path, port: int, store: str) -> str:
    """Return the code of a server with a configuration file."""
    path = tmp_path / "projector.toml"
    path.write_text(CONFIG.format(store=store, port=port), encoding="utf-8")
    return serve_with(path)


async def helper(peer: Peer) -> None:
    """Answer as `model` does; a request for `more` is not answered to its end."""
    if peer.body["input"] == "more":
        await peer.start()
        await peer.event(created("r1"))
        await peer.gone.wait()
        return
    peer.body["model"] = "m-helper"
    await model(peer)


async def test_a_file_outlives_the_death_of_its_server(upstream: Start, upstream_port: int, tmp_path: Path) -> None:
    provider = await upstream(helper)
    code = configured(tmp_path, upstream_port, f'kind = "sqlite"\npath = "{tmp_path / "store.db"}"')
    async with running(code, 1, OPENAI_API_KEY="k") as process, hosting(process) as host:
        run_ids = [await host.say("news") for _ in range(2)]
        before = [await waits(host, run_id, 1) for run_id in run_ids]
        await stored(tmp_path / "store.db", len(run_ids))
        process.process.send_signal(signal.SIGKILL)
        await process.process.wait()
    async with running(code, 1, OPENAI_API_KEY="k") as process, hosting(process) as host:
        assert [await host.log(run_id) for run_id in run_ids] == before
        log = await answered(host, run_ids[0], "helper")
        assert log[: len(before[0])] == before[0]
        await document(await host.post(f"/v1/runs/{run_ids[1]}/cancel", {}))
        await host.until(run_ids[1], "cancelled")
        assert types(await host.log(run_ids[1]))[-2:] == ["node.cancelled", "run.cancelled"]
        assert provider.peers.qsize() == 3


async def stored(path: Path, count: int) -> None:
    """Wait until so many runs have no producer in a file."""

    def parked() -> int:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            return int(connection.execute("SELECT count(parked) FROM streams").fetchone()[0])

    while await asyncio.to_thread(parked) < count:  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.02)


async def test_a_run_outlives_the_process_that_started_it(
    upstream: Start, upstream_port: int, tmp_path: Path, redis_server: Any
) -> None:
    await upstream(helper)
    prefix = f"test-{os.urandom(4).hex()}:"
    store = f'kind = "redis"\nurl = "{redis_server.url}"\nprefix = "{prefix}"'
    code = configured(tmp_path, upstream_port, store)
    async with (
        running(code, 1, OPENAI_API_KEY="k") as first,
        running(code, 1, OPENAI_API_KEY="k") as second,
        hosting(first) as one,
        hosting(second) as other,
    ):
        waiting = await one.say("news")
        await waits(other, waiting, 1)
        active = await one.say("more")
        await other.until(active, "running")
        async with Redis.from_url(redis_server.url) as client:
            while not await client.exists(f"{prefix}parked:openwop:{waiting}"):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)
        first.process.send_signal(signal.SIGKILL)
        await first.process.wait()
        await answered(other, waiting, "helper")
        failed = await other.until(active, "failed", patience_s=60.0)
        assert failed["error"]["code"] == "host_lost"
        log = await other.log(active)
        assert types(log).count("run.failed") == 1
        assert await other.log(active) == log


DEATHS: Final = 3
"""Servers that are killed at a question."""
ASKING: Final = 4
"""Runs of each of them."""


async def asks_early(peer: Peer) -> None:
    """Ask for an approval a while before the end of the response; complete the response after the answer."""
    await peer.start()
    again = "previous_response_id" in peer.body
    said = [text("Done")] if again else [text("May I?"), *approval("q_1")]
    for event in [created("r2" if again else "r1"), *said]:
        await peer.event(event)
    await asyncio.sleep(0.2)
    await peer.event(completed("r2" if again else "r1"))
    await peer.end()


async def read_until(answer: Answer, mark: bytes) -> bytes:
    """Return what arrives of a stream until a mark, or until its server is gone."""
    data = b""
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        while mark not in data:
            data += await answer.chunk()
    return data


@pytest.mark.timeout(300)
async def test_a_question_that_was_seen_outlives_its_server(
    upstream: Start, upstream_port: int, tmp_path: Path, redis_server: Any
) -> None:
    """The server is killed as soon as one of its readers has a question."""
    await upstream(asks_early)
    store = f'kind = "redis"\nurl = "{redis_server.url}"\nprefix = "test-{os.urandom(4).hex()}:"'
    code = configured(tmp_path, upstream_port, store)
    async with running(code, 1, OPENAI_API_KEY="k") as survivor, hosting(survivor) as other:
        for _ in range(DEATHS):
            async with running(code, 1, OPENAI_API_KEY="k") as victim, hosting(victim) as one:
                run_ids = [await one.say("news") for _ in range(ASKING)]
                answers = [await one.stream(run_id) for run_id in run_ids]
                reading = [asyncio.create_task(read_until(answer, b"node.suspended")) for answer in answers]
                await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
                victim.process.send_signal(signal.SIGKILL)
                await victim.process.wait()
                seen = [b"node.suspended" in data for data in await asyncio.gather(*reading)]
            assert any(seen)
            for run_id, was_asked in zip(run_ids, seen, strict=True):
                if was_asked:
                    log = await answered(other, run_id, "helper")
                    assert types(log).count("node.suspended") == 1
