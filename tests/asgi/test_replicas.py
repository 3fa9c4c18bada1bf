"""Servers that share a store: what one has produced, another one reads, cancels and continues; and servers that die."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import structlog
from redis.asyncio import Redis

from bench.redis_server import RedisServer
from projector.contracts import codec
from projector.dialects import DIALECTS
from projector.server.streaming import stream_logs
from projector.server.upstream import protocol
from tests.asgi.callers import keys
from tests.asgi.conftest import Answer, Peer, Script, frames_of
from tests.asgi.process import SERVE, Process, running
from tests.asgi.test_ag_ui_resume import body, messages_of, provider_of
from tests.asgi.test_ag_ui_route import path
from tests.asgi.test_resume import AGENT, CHAT, Provider, agents, until
from tests.waiting import PATIENCE_S, wait_until

DEATHS: Final = 100
"""Streams whose server is killed."""
PER_SERVER: Final = 4
AT_ONCE: Final = 5
"""Servers that run, and are killed, at the same time."""
DELTA: Final = "response.output_text.delta"
SLOW_S: Final = 10.0
"""Seconds that a busy machine may add."""
INTERRUPTED_S: Final = 10.0
"""Seconds after a death in which every reader must have its terminal."""


@pytest.fixture
def stores(redis_server: Any, tmp_path: Path) -> dict[str, dict[str, Any]]:
    prefix = f"test-{os.urandom(4).hex()}:"
    return {
        "sqlite": {"kind": "sqlite", "path": str(tmp_path / "store.db")},
        "redis": {"kind": "redis", "url": redis_server.url, "prefix": prefix},
        "encrypted": {
            "kind": "redis",
            "url": redis_server.url,
            "prefix": prefix,
            "encryption_keys": ("a2V5LW9mLXRoaXJ0eS10d28tYnl0ZXMtZm9yLXRlc3Q=",),
        },
    }


@pytest.fixture
async def replicas(serve: Any, stores: dict[str, Any], upstream_port: int) -> AsyncIterator[Any]:
    """Return a function that returns two servers with the same store; one with a file, which has one user."""

    def servers(store: str = "redis", **settings: Any) -> list[Any]:
        numbers = (14,) if store == "sqlite" else (14, 13)
        return [
            serve(**{**agents(upstream_port), **settings}, store=stores[store], heartbeat_s=number)
            for number in numbers
        ]

    return servers


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("store", ["sqlite", "redis", "encrypted"])
async def test_a_reader_gets_the_same_bytes_after_each_event(
    replicas: Any, upstream: Any, text_events: Any, dialect: str, store: str
) -> None:
    await upstream(Provider(text_events, len(text_events)))
    one, *others = replicas(store)
    site = others[0] if others else one
    answer = await one.ask(f"{CHAT}?dialect={dialect}")
    messages = [message + b"\n\n" for message in (await answer.rest()).split(b"\n\n") if message]
    await settled(one)
    has_mark = DIALECTS[dialect].end_mark is not None
    for after in range(len(messages) - has_mark):
        later = await site.get(f"{answer.headers['location']}/events?after={after}")
        assert (later.status, await later.rest()) == (200, b"".join(messages[after:]))


async def settled(site: Any) -> None:
    """Wait until the logs of a server are in its store."""
    await wait_until(lambda: not site.state.logs.open)


async def test_a_running_stream_is_read_and_cancelled_elsewhere(replicas: Any, upstream: Any, text_events: Any) -> None:
    provider = Provider(text_events, 6)
    await upstream(provider)
    one, other = replicas()
    answer = await one.ask()
    begin = await until(answer, b"message.delta")
    reader = await found(other, f"{answer.headers['location']}/events")
    assert (await other.ask(f"{answer.headers['location']}/cancel", b"")).status == 204
    frames, read = frames_of(begin + await answer.rest()), await reader.frames()
    assert frames == read
    assert read[-1]["final"]["status"] == "cancelled"
    assert (await other.ask(f"{answer.headers['location']}/cancel", b"")).status == 204


async def found(site: Any, path: str, **headers: str) -> Answer:
    """Ask until a stream of another server is known here, which takes milliseconds."""
    while (answer := await site.get(path, **headers)).status == 404:  # noqa: ASYNC110 - it is in another thread
        await asyncio.sleep(0.02)
    return answer


async def test_state_of_callers_is_shared(replicas: Any, upstream: Any, text_events: Any) -> None:
    provider = Provider(text_events, len(text_events))
    await upstream(provider)
    one, other = replicas(
        auth={"api_keys": keys("ann", "bob")}, callers={"key:bob": {"rate_limits": {"requests_per_day": 2}}}
    )
    ann, bob = {"authorization": "Bearer ann"}, {"authorization": "Bearer bob"}
    answer = await one.ask(body={"message": "hi", "conversation_id": "conv-1"}, **ann)
    response_id = (await answer.frames())[-1]["response_id"]
    more = {"message": "go on", "previous_response_id": response_id}
    assert (await other.ask(body=more, **bob)).status == 404
    await (await continued(other, response_id, **ann)).rest()
    refused = await other.ask(body={"message": "hi", "conversation_id": "conv-1"}, **bob)
    assert (refused.status, (await refused.problem())["code"]) == (404, "unknown_conversation")
    assert (await one.get(answer.headers["location"], **bob)).status == 404
    assert (await other.ask(body={"message": "hi"}, **bob)).status == 429  # both requests above counted
    same = [await site.ask(body={"message": "once"}, idempotency_key="k", **ann) for site in (one, other)]
    assert same[0].headers["x-stream-id"] == same[1].headers["x-stream-id"]
    assert await same[0].rest() == await same[1].rest()
    assert len(provider.peers) == 3


async def test_runs_know_what_another_server_has_given(replicas: Any, upstream: Any, text_events: Any) -> None:
    """A run enters a conversation and continues a response only if it is its caller's."""
    await upstream(Provider(text_events, len(text_events)))
    agent = {**AGENT, "allowed_params": ["previous_response_id"]}
    one, other = replicas(auth={"api_keys": keys("ann", "bob")}, agents={"default": agent})
    ann, bob = {"authorization": "Bearer ann"}, {"authorization": "Bearer bob"}
    answer = await one.ask(body={"message": "hi", "conversation_id": "conv-1"}, **ann)
    response_id = (await answer.frames())[-1]["response_id"]

    async def run(inputs: dict[str, str], **caller: str) -> int:
        body = {"workflowId": "default", "inputs": {"message": "hi", **inputs}}
        return (await other.ask("/v1/runs", body, **caller)).status

    assert await run({"conversation_id": "conv-1"}, **bob) == 404
    assert (await other.ask(body={"message": "hi", "conversation_id": "conv-1"}, **ann)).status == 200
    assert await run({"previous_response_id": response_id}, **bob) == 404
    assert await run({"previous_response_id": response_id, "conversation_id": "conv-1"}, **ann) == 201


async def continued(site: Any, response_id: str, **headers: str) -> Answer:
    """Continue a response of another server, which is known here milliseconds after its end."""
    more = {"message": "go on", "previous_response_id": response_id}
    while (answer := await site.ask(body=more, **headers)).status == 404:  # noqa: ASYNC110 - it is in another thread
        await asyncio.sleep(0.02)
    return answer


async def test_a_response_is_continued_elsewhere_before_its_provider_has_closed(
    replicas: Any, upstream: Any, text_events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "CLOSE_S", 600.0)
    may_close = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.start()
        for event in text_events:
            await peer.event(event)
        await may_close.wait()
        await peer.end()

    await upstream(script)
    one, other = replicas()
    response_id = (await (await one.ask()).frames())[-1]["response_id"]
    async with asyncio.timeout(PATIENCE_S):
        assert (await continued(other, response_id)).status == 200
    assert one.streams.active == 1
    may_close.set()


async def test_a_restart_keeps_what_is_in_a_file(
    stores: Any, upstream: Any, upstream_port: int, text_events: Any
) -> None:
    provider = Provider(text_events, len(text_events))
    await upstream(provider)
    environ = environment(upstream_port, stores["sqlite"])
    async with running(SERVE, 1, **environ) as process:
        head, whole = await asked(process)
        process.stop()
        assert await process.exit_code() == 0
    async with running(SERVE, 1, **environ) as process:
        assert await read(process, head["location"]) == whole


async def test_streams_go_on_while_redis_is_away(
    serve: Any, upstream: Any, upstream_port: int, text_events: Any, program: Any, tmp_path: Path
) -> None:
    provider = Provider(text_events, 6)
    await upstream(provider)
    with RedisServer(program("redis-server"), tmp_path) as redis:
        store = {"kind": "redis", "url": redis.url}
        one = serve(**agents(upstream_port), store=store)
        strict = serve(**agents(upstream_port), store=store | {"required": True})
        answer, other = await one.ask(), await strict.ask()
        begin = await until(answer, b"message.delta")
        await until(other, b"message.delta")
        redis.kill()
        provider.gate.set()
        frames = frames_of(begin + await answer.rest())
        assert frames[-1]["final"]["status"] == "completed"
        await other.rest()
        await wait_until(lambda: not any(site.state.logs.is_available for site in (one, strict)))
        ready = await one.get("/readyz")
        assert (ready.status, await ready.rest()) == (200, b"ok\nstore: unavailable, new streams cannot be resumed\n")
        unready = await strict.get("/readyz")
        assert (unready.status, (await unready.problem())["code"]) == (503, "store_unavailable")
        assert (await strict.get("/livez")).status == 200
        again = await one.ask()
        assert "location" not in again.headers
        assert (await again.frames())[-1]["kind"] == "final"
        refused = await strict.ask()
        assert (refused.status, (await refused.problem())["code"]) == (503, "store_unavailable")
        assert (await one.get(f"{answer.headers['location']}/events")).status == 503
        redis.start()
        await wait_until(lambda: all(site.state.logs.is_available for site in (one, strict)))
        back = await one.ask()
        whole = await back.rest()
        reader = await found(strict, f"{back.headers['location']}/events")
        assert await reader.rest() == whole
        for site in (one, strict):
            assert await (await site.get("/readyz")).rest() == b"ok\n"


async def test_a_store_that_is_away_is_known_before_the_first_stream(
    serve: Any, upstream_port: int, program: Any, tmp_path: Path
) -> None:
    with RedisServer(program("redis-server"), tmp_path) as redis:
        redis.kill()
        site = serve(**agents(upstream_port), store={"kind": "redis", "url": redis.url})
        await wait_until(lambda: not site.state.logs.is_available)
        ready = await site.get("/readyz")
        assert await ready.rest() == b"ok\nstore: unavailable, new streams cannot be resumed\n"
        redis.start()
        await wait_until(lambda: site.state.logs.is_available)
        assert await (await site.get("/readyz")).rest() == b"ok\n"


@pytest.mark.parametrize("has_limits", [True, False])
@pytest.mark.parametrize(("name", "reason"), [("maxmemory", "maxmemory"), ("min-replicas-to-write", "NOREPLICAS")])
async def test_a_redis_that_refuses_to_write_is_unavailable(
    serve: Any,
    upstream: Any,
    upstream_port: int,
    text_events: Any,
    program: Any,
    tmp_path: Path,
    name: str,
    reason: str,
    *,
    has_limits: bool,
) -> None:
    """It answers reads and pings: only a write shows that it works again."""
    provider = Provider(text_events, 6)
    provider.gate.set()
    await upstream(provider)
    with RedisServer(program("redis-server"), tmp_path) as redis, structlog.testing.capture_logs() as lines:
        client: Any = Redis.from_url(redis.url)
        store = {"kind": "redis", "url": redis.url}
        limits = {"default": {"rate_limits": {"requests_per_day": 9}}} if has_limits else {}
        one, strict = (
            serve(**agents(upstream_port), store=store | {"required": required}, callers=limits)
            for required in (False, True)
        )
        for site in (one, strict):
            assert "location" in (await site.ask()).headers
        await client.config_set(name, 1)
        for site in (one, strict):
            await (await site.ask()).rest()
        for _ in range(3):
            assert "location" not in (await one.ask()).headers
            assert (await strict.ask()).status == 503
            assert (await strict.get("/readyz")).status == 503
            assert b"projector_store_available 0.0" in await (await one.get("/metrics")).rest()
            await asyncio.sleep(stream_logs._RETRY_S[-1])
        assert one.state.logs.lost["unavailable"] >= 3
        reasons = [line["reason"] for line in lines if line["event"] == "store_unavailable"]
        assert (len(reasons), all(reason in one for one in reasons)) == (2, True), reasons
        await client.config_set(name, 0)
        await wait_until(lambda: all(site.state.logs.is_available for site in (one, strict)))
        assert "location" in (await one.ask()).headers
        await client.aclose()


@pytest.mark.parametrize("store", ["memory", "sqlite", "redis", "elsewhere"])
async def test_a_stream_that_is_deleted_while_it_runs_has_not_lost_its_log(
    replicas: Any, stores: Any, upstream: Any, text_events: Any, store: str
) -> None:
    stores["memory"] = {"kind": "memory"}
    provider = Provider(text_events, 6)
    await upstream(provider)
    one, *others = replicas("redis" if store == "elsewhere" else store)
    other = others[0] if store == "elsewhere" else one
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            answer = await one.ask()
            begin = await until(answer, b"message.delta")
            place = answer.headers["location"]
            await (await found(other, place)).rest()
            assert (await other.get(place, method="DELETE")).status == 204
            assert frames_of(begin + await answer.rest())[-1]["final"]["status"] == "cancelled"
            await settled(one)
            assert (await other.get(place)).status == 404
    assert [line for line in lines if line["event"] == "stream_log_lost"] == []
    assert one.state.logs.lost == {}


@pytest.mark.parametrize("is_there_first", [True, False])
async def test_limits_count_in_the_server_while_redis_is_away(
    serve: Any,
    upstream: Any,
    upstream_port: int,
    program: Any,
    tmp_path: Path,
    text_events: Any,
    *,
    is_there_first: bool,
) -> None:
    provider = Provider(text_events, 6)
    provider.gate.set()
    await upstream(provider)
    with RedisServer(program("redis-server"), tmp_path) as redis, structlog.testing.capture_logs() as lines:
        callers = {"default": {"rate_limits": {"requests_per_day": 3, "tokens_per_day": 90_000}}}
        site = serve(**agents(upstream_port), store={"kind": "redis", "url": redis.url}, callers=callers)
        if is_there_first:
            assert (await (await site.ask()).frames())[-1]["kind"] == "final"
        redis.kill()
        for _ in range(3):
            assert (await (await site.ask()).frames())[-1]["kind"] == "final"
        refused = await site.ask()
        assert (refused.status, (await refused.problem())["code"]) == (429, "request_limit_exceeded")
        ready = await site.get("/readyz")
        assert await ready.rest() == b"ok\nstore: unavailable, new streams cannot be resumed\n"
        assert [line["event"] for line in lines if "store" in line["event"]] == ["store_unavailable"]
        redis.start()
        await wait_until(lambda: site.state.logs.is_available)
        again = await site.ask()
        assert again.headers["x-ratelimit-remaining-requests"] == "2"
        await again.rest()


async def test_the_folder_of_a_file_is_created(
    serve: Any, upstream: Any, upstream_port: int, tmp_path: Path, text_events: Any
) -> None:
    provider = Provider(text_events, 6)
    provider.gate.set()
    await upstream(provider)
    path = tmp_path / "new" / "folder" / "streams.db"
    site = serve(**agents(upstream_port), store={"kind": "sqlite", "path": str(path)})
    whole = await (answer := await site.ask()).rest()
    assert await (await found(site, f"{answer.headers['location']}/events")).rest() == whole
    assert path.exists()


# processes


def environment(upstream_port: int, store: dict[str, Any]) -> dict[str, str]:
    named = {f"PROJECTOR_STORE__{name.upper()}": str(value) for name, value in store.items()}
    return {"OPENAI_API_KEY": "sk-test", "PROJECTOR_BASE_URL": f"http://localhost:{upstream_port}/v1", **named}


async def asked(process: Process) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of a stream."""
    answer = Answer(await process.stream(), None)  # type: ignore[arg-type]  # it is not closed
    await answer.read_head()
    return answer.headers, await answer.rest()


async def read(process: Process, location: str, after: int = 0) -> bytes:
    """Return the events of a stored stream."""
    reader = await process.connect(f"GET {location}/events?after={after} HTTP/1.1\r\nhost: a\r\n\r\n")
    answer = Answer(reader, None)  # type: ignore[arg-type]
    await answer.read_head()
    assert answer.status == 200, answer.status
    return await answer.rest()


async def test_workers_share_their_streams(
    stores: Any, upstream: Any, upstream_port: int, text_events: Any, tmp_path: Path
) -> None:
    await upstream(Provider(text_events, len(text_events)))
    code = SERVE.replace("'--port', '0'", "'--port', '0', '--workers', '3'")
    log = tmp_path / "log"
    async with running(code, 1, log=log, **environment(upstream_port, stores["redis"])) as process:
        assert "3 workers" in process.lines[0]
        streams = [await asked(process) for _ in range(20)]
        for head, whole in streams:
            for _ in range(3):
                assert await read(process, head["location"]) == whole
        assert len({head["x-stream-id"] for head, _ in streams}) == 20
        for number in (signal.SIGUSR1, signal.SIGQUIT):
            process.process.send_signal(number)
        await wait_until(lambda: log.read_bytes().count(b'"signal_ignored"') == 2)
        process.stop()
        assert await asyncio.wait_for(process.process.wait(), 60) == 0
    lines = [codec.loads(line) for line in log.read_bytes().splitlines()]
    assert {line["event"] for line in lines} >= {"start", "ready", "stream_end", "stop"}
    assert {line.get("worker") for line in lines if line["event"] != "signal_ignored"} == {0, 1, 2}


@pytest.mark.timeout(600)
async def test_every_reader_of_a_killed_server_gets_one_terminal(
    stores: Any, upstream: Any, upstream_port: int, text_events: Any
) -> None:
    """Servers are killed at random moments of their streams; readers are at the other one, and come back there."""
    chosen = random.Random(7)
    await upstream(paced(text_events, 60_000, 0.01))  # longer than its server lives
    environ = environment(upstream_port, stores["redis"])
    async with running(SERVE, 1, **environ) as survivor:

        async def kill_one() -> int:
            async with running(SERVE, 1, **environ) as victim:
                streams = [Answer(await victim.stream(), None) for _ in range(PER_SERVER)]  # type: ignore[arg-type]
                for one in streams:
                    await one.read_head()
                firsts = [asyncio.create_task(until_the_cut(one)) for one in streams]
                places = [one.headers["location"] for one in streams]
                await asyncio.gather(*(known(survivor, place) for place in places))
                await asyncio.sleep(chosen.uniform(0.0, 0.5))
                readers = [asyncio.create_task(read(survivor, place)) for place in places]
                await asyncio.sleep(chosen.uniform(0.0, 0.5))
                victim.process.send_signal(signal.SIGKILL)
                async with asyncio.timeout(INTERRUPTED_S + SLOW_S):
                    seen = await asyncio.gather(*readers)
                begins = await asyncio.gather(*firsts)
            for place, begin, data in zip(places, begins, seen, strict=True):
                await check(survivor, place, begin, data)
            return len(places)

        ended = 0
        for _ in range(DEATHS // PER_SERVER // AT_ONCE):
            ended += sum(await asyncio.gather(*(kill_one() for _ in range(AT_ONCE))))
        assert ended == DEATHS


async def known(process: Process, place: str) -> None:
    """Wait until a stream of another server is known here."""
    while " 200 " not in (await process.get(place)).partition("\r\n")[0]:  # noqa: ASYNC110 - it is in another process
        await asyncio.sleep(0.02)


async def check(survivor: Process, place: str, begin: list[dict[str, Any]], data: bytes) -> None:
    """Check what the reader of a killed stream got, given what the first client got."""
    frames = frames_of(data)
    assert [frame["event_id"] for frame in frames] == list(range(1, len(frames) + 1))
    assert [frame["kind"] for frame in frames].count("error") == 1
    assert frames[-1]["error"]["code"] == "stream_interrupted"
    assert frames[-1]["error"]["is_retryable"]
    assert begin == frames[: len(begin)]
    assert frames_of(await read(survivor, place, len(begin))) == frames[len(begin) :]


async def until_the_cut(answer: Answer, data: bytes = b"") -> list[dict[str, Any]]:
    """Return the whole events that arrived before a connection broke off, after some that are there already."""
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        while part := await answer.chunk():
            data += part
    return frames_of(data[: data.rfind(b"\n\n") + 2])


def paced(events: list[dict[str, Any]], count: int, pause_s: float, held: Counter[str] | None = None) -> Script:
    """Return a script that repeats the first text delta of a stream, slowly.

    While `held` has the key of its server, a stream counts itself there and does not end.
    """
    at = next(number for number, event in enumerate(events) if event["type"] == DELTA)

    async def script(peer: Peer) -> None:
        await peer.start()
        for event in events[:at]:
            await peer.event(event)
        for _ in range(count):
            await peer.event(events[at])
            await asyncio.sleep(pause_s)
        if held is not None and (key := (peer.header(b"authorization") or b"").decode()) in held:
            held[key] += 1
            while key in held:  # noqa: ASYNC110 - the test removes it
                await asyncio.sleep(pause_s)
        for event in events[at:]:
            if event["type"] != DELTA:
                await peer.event(event)
        await peer.end()

    return script


class Balancer:
    """Servers that are asked one after the other: for streams, and for the rest of one."""

    def __init__(self, servers: list[Process]) -> None:
        self.servers = servers
        self.is_over = False
        self.failures: list[str] = []
        """Responses that no reader should see."""
        self._numbers: Counter[bool] = Counter()
        self._asked: Counter[int] = Counter()

    async def leave(self, server: Process) -> None:
        """Ask a server no more, and wait for the heads of its responses."""
        self.servers.remove(server)
        await wait_until(lambda: not self._asked[server.port])

    async def ask(self, location: str = "", after: int = 0) -> Answer | None:
        """Return a response of the next server, None if it breaks off: a new stream, or the rest of one."""
        self._numbers[is_new := not location] += 1
        server = self.servers[self._numbers[is_new] % len(self.servers)]
        self._asked[server.port] += 1
        try:
            request = f"GET {location}/events?after={after} HTTP/1.1\r\nhost: a\r\n\r\n"
            answer = Answer(await (server.connect(request) if location else server.stream()), None)  # type: ignore[arg-type]
            await answer.read_head()
        except (asyncio.IncompleteReadError, OSError) as error:  # it has just ended
            self.failures.append(type(error).__name__)
            return None
        finally:
            self._asked[server.port] -= 1
        if answer.status != 200:
            self.failures.append(f"{answer.status} {(await answer.rest())!r}")
            return None
        return answer

    async def client(self) -> list[list[dict[str, Any]]]:
        """Return the frames of streams, each as a reader got them from all servers."""
        seen = []
        while not self.is_over:
            first = await self.ask()
            if first is None:
                continue
            begun = b""
            with contextlib.suppress(asyncio.IncompleteReadError, OSError):
                begun = await first.chunk()  # the store has it
            reading = asyncio.create_task(until_the_cut(first, begun))
            frames: list[dict[str, Any]] = []
            while not frames or frames[-1]["kind"] not in {"final", "error"}:
                again = await self.ask(first.headers["location"], len(frames))
                frames += await until_the_cut(again) if again is not None else []
            begin = await reading
            assert frames[: len(begin)] == begin
            seen.append(frames)
        return seen


async def test_no_event_is_lost_in_a_rolling_restart(
    stores: Any, upstream: Any, upstream_port: int, text_events: Any
) -> None:
    """Clients come back to any server when their connection breaks off."""
    await upstream(paced(text_events, 100, 0.02))
    environ = environment(upstream_port, stores["redis"]) | {"PROJECTOR_DRAIN_TIMEOUT_S": "1"}
    async with contextlib.AsyncExitStack() as stack:
        balancer = Balancer([await stack.enter_async_context(running(SERVE, 1, **environ)) for _ in range(2)])
        clients = [asyncio.create_task(balancer.client()) for _ in range(6)]
        for number in (0, 1, 0):
            await asyncio.sleep(1)
            old, balancer.servers[number] = (
                balancer.servers[number],
                await stack.enter_async_context(running(SERVE, 1, **environ)),
            )
            old.stop()
        await asyncio.sleep(1)
        balancer.is_over = True
        streams = [frames for seen in await asyncio.gather(*clients) for frames in seen]
    ends = ends_of(streams)
    assert ends <= {"final", "server_shutdown"}
    assert "final" in ends


async def test_servers_leave_under_load_without_a_reader_noticing(
    redis_cluster: Any, upstream: Any, upstream_port: int, text_events: Any
) -> None:
    """The order of a platform: no new requests, a moment, SIGTERM, and time for the streams that run."""
    held = Counter[str]()
    await upstream(paced(text_events, 40, 0.02, held))
    store = {"kind": "redis", "url": redis_cluster.url, "prefix": f"test-{os.urandom(4).hex()}:"}
    environ = environment(upstream_port, store) | {"PROJECTOR_DRAIN_TIMEOUT_S": "240"}
    async with contextlib.AsyncExitStack() as stack:
        keys = [f"sk-{number}" for number in range(3)]
        starting = [stack.enter_async_context(running(SERVE, 1, **environ | {"OPENAI_API_KEY": key})) for key in keys]
        balancer = Balancer(await asyncio.gather(*starting))
        clients = [asyncio.create_task(balancer.client()) for _ in range(9)]
        for leaving, key in zip(balancer.servers[:2], (f"Bearer {key}" for key in keys), strict=False):
            held[key] = 0
            await wait_until(lambda key=key: held[key] >= 2)  # they end when the server drains
            await balancer.leave(leaving)
            leaving.stop()
            while "503" not in await leaving.get("/readyz"):  # noqa: ASYNC110 - it is in another process
                await asyncio.sleep(0.02)
            assert (await leaving.gauges())["projector_streams_active"] >= 2
            del held[key]
            assert await asyncio.wait_for(leaving.process.wait(), 240) == 0
        balancer.is_over = True
        streams = [frames for seen in await asyncio.gather(*clients) for frames in seen]
    assert balancer.failures == []
    assert len(streams) >= 9
    assert ends_of(streams) == {"final"}


def ends_of(streams: list[list[dict[str, Any]]]) -> set[str]:
    """Return how streams ended; each has every event once, and one terminal."""
    for frames in streams:
        assert [frame["event_id"] for frame in frames] == list(range(1, len(frames) + 1))
        assert sum(frame["kind"] in {"final", "error"} for frame in frames) == 1
    return {frames[-1].get("error", {}).get("code", frames[-1]["kind"]) for frames in streams}


async def test_a_run_of_ag_ui_goes_on_at_another_server(replicas: Any, upstream: Any) -> None:
    """The same request with `Last-Event-ID`, and the GET that joins, after each event."""
    provider = provider_of("chat-text-citations")
    await upstream(provider)
    one, other = replicas()
    answer = await one.ask(path("default"), body())
    messages = messages_of(await answer.rest())
    await settled(one)
    for after in range(len(messages)):
        position = {"last_event_id": str(after)}
        asked = await other.ask(path("default"), body(), **position)
        joined = await other.get(f"{path('default')}?offset=-1&runId=run-1", **position)
        for later in (asked, joined):
            assert (later.status, await later.rest()) == (200, b"".join(messages[after:]))
            assert {later.headers[name] for name in ("x-run-id", "x-stream-id", "location")} == {
                *("run-1", answer.headers["x-stream-id"], answer.headers["location"])
            }
    again = await other.ask(path("default"), body(), last_event_id=str(len(messages)))
    assert again.status == 204
    assert len(provider.peers) == 1, "the provider is asked once"


async def test_a_running_run_of_ag_ui_is_joined_at_another_server(replicas: Any, upstream: Any) -> None:
    provider = provider_of("chat-text-citations", 6)
    await upstream(provider)
    one, other = replicas()
    answer = await one.ask(path("default"), body("run-2"))
    begin = await until(answer, b"TEXT_MESSAGE_CONTENT")
    has = len(messages_of(begin))
    await (await found(other, f"{answer.headers['location']}")).rest()
    asked = await other.ask(path("default"), body("run-2"), last_event_id=str(has))
    joined = await other.get(f"{path('default')}?runId=run-2")
    provider.gate.set()
    whole = begin + await answer.rest()
    assert (asked.status, await asked.rest()) == (200, b"".join(messages_of(whole)[has:]))
    assert (joined.status, await joined.rest()) == (200, whole)
    assert len(provider.peers) == 1
