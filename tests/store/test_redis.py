"""The store in Redis when the server is killed, full, or refuses; and that a process needs few connections."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from redis.asyncio import Redis
from redis.exceptions import DataError, ResponseError

from bench.redis_server import RedisServer, free_port
from projector.store import redis_connection, redis_store
from projector.store.packing import pack
from projector.store.protocol import (
    INTERRUPTED,
    LEASE_S,
    Store,
    StoreFullError,
    StoreLimits,
    StoreUnavailableError,
    UnknownStreamError,
    UnreadableError,
)
from projector.store.redis_connection import BLOCK_MS, Connection
from projector.store.redis_logs import SWEEP_MS
from projector.store.redis_store import RedisStore
from tests.asgi.certificates import Authority
from tests.store.redis_rig import RedisRig, redis
from tests.store.rigs import SMALL, Clock, batch, frames, head, ignored, read_all
from tests.waiting import wait_until


@pytest.fixture
async def durable(program: Callable[[str], str], tmp_path: Path) -> AsyncIterator[RedisServer]:
    """A server that keeps what it has answered to."""
    with RedisServer(program("redis-server"), tmp_path, ["--appendonly", "yes", "--appendfsync", "always"]) as server:
        yield server


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("NOREPLICAS Not enough good replicas to write.", "NOREPLICAS"),
        ("Command # 1 (XADD k A B) of pipeline caused error: NOREPLICAS Not enough", "NOREPLICAS"),
        ("Command # 1 (SET k...) of pipeline caused error: ('NOREPLICAS Not enough good replicas.',)", "NOREPLICAS"),
        ("ERR unknown command 'XADD', with args beginning with: 'my caused error: HUNTER2 x'", "ERR"),
        ("HUNTER2 x", "ResponseError"),
    ],
)
def test_a_refusal_names_its_code_and_nothing_of_the_command(message: str, reason: str) -> None:
    error = redis_connection.refused(ResponseError(message))
    assert str(error) == f"Redis refused a command: {reason}"


async def eventually(call: Callable[[], Awaitable[Any]]) -> Any:
    """Return the result of a call that fails for a while."""
    while True:
        try:
            return await call()
        except StoreUnavailableError:
            await asyncio.sleep(0.05)


async def test_a_server_that_is_killed_and_started_again(durable: RedisServer) -> None:
    async with redis(durable, SMALL) as rig:
        assert isinstance(rig, RedisRig)
        assert await rig.one.open(head())
        await rig.one.append([batch(1, 5)])
        waiting = asyncio.ensure_future(rig.other.wait("s", 5, 600))
        while (await rig.client.info("clients"))["blocked_clients"] < 2:  # noqa: ASYNC110 - it is in another process
            await asyncio.sleep(0.01)
        durable.kill()
        for call in (lambda: rig.one.append([batch(6, 7)]), lambda: rig.other.read("s", 0, 99), rig.one.ping):
            with pytest.raises(StoreUnavailableError):
                await call()
        await asyncio.wait_for(waiting, 60)
        durable.start()
        assert await eventually(lambda: rig.one.append([batch(6, 7)])) == {}
        assert await rig.one.append([batch(6, 7)]) == {}
        reader = asyncio.ensure_future(rig.other.wait("s", 7, 600))
        assert await rig.one.seal("s", first=8, frames=frames(8, 9))
        await asyncio.wait_for(reader, 60)
        assert await eventually(lambda: read_all(rig.other)) == frames(1, 9), "it may not have tried again yet"


async def test_a_server_that_forgets(program: Callable[[str], str], tmp_path: Path) -> None:
    with RedisServer(program("redis-server"), tmp_path) as server:
        async with redis(server, SMALL) as rig:
            assert await rig.one.open(head())
            await rig.one.append([batch(1, 5)])
            server.kill()
            server.start()
            assert await eventually(lambda: rig.one.append([batch(6, 7)])) == {"s": "unknown"}
            assert (await rig.one.renew(["s"]))["s"].lost == "unknown"
            assert await rig.other.find("s") is None
            assert await rig.one.open(head("t"))


async def test_after_a_failure_calls_fail_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection is tried during the back-off, and one after it."""
    tried = 0

    def count(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tried
        tried += 1
        writer.close()

    async def fail(store: RedisStore) -> None:
        with pytest.raises(StoreUnavailableError) as error:
            await store.ping()
        assert "secret" not in str(error.value)

    monkeypatch.setattr(redis_connection, "_BACKOFF_S", 600.0)
    monkeypatch.setattr(redis_connection, "_BACKOFF_MAX_S", 0.0)
    server = await asyncio.start_server(count, "127.0.0.1", 0)
    store = RedisStore(f"redis://user:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}", "one")
    await fail(store)
    before = tried
    for _ in range(200):
        await fail(store)
    assert before == tried >= 1
    now_s = time.monotonic()
    monkeypatch.setattr(redis_connection, "time", SimpleNamespace(monotonic=lambda: now_s + 600))
    await fail(store)
    assert tried > before
    await store.aclose()
    server.close()


def _without(field: str) -> Callable[[Any, str], Awaitable[Any]]:
    """Return what writes the last entry of a log again without a field."""

    async def change(client: Any, key: str) -> None:
        [(entry, fields)] = await client.xrevrange(key, count=1)
        await client.delete(key)
        await client.xadd(key, {name: value for name, value in fields.items() if name != field.encode()}, entry)

    return change


@pytest.mark.parametrize("kind", ["log", "state", "lease", "head"])
async def test_a_key_of_another_type_holds_up_its_own_stream_only(redis_server: RedisServer, kind: str) -> None:
    async with redis(redis_server, SMALL) as rig:
        assert isinstance(rig, RedisRig)
        for name in ("s", "t"):
            assert await rig.one.open(head(name))
        (key,) = await rig.client.keys(f"*{kind}:s")
        await rig.client.delete(key)
        await rig.client.sadd(key, "other")
        assert "t" not in await rig.one.append([batch(1, 2, "s"), batch(1, 2, "t")])
        assert (await rig.one.renew(["s", "t"]))["t"].lost is None
        assert await rig.one.seal("t", first=3, frames=frames(3, 3))
        await rig.one.seal("s", first=3, frames=frames(3, 3))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("head", lambda client, key: client.set(key, b"garbage")),
        ("head", lambda client, key: client.set(key, b"")),
        ("head", lambda client, key: client.set(key, pack([b"ann", b"one", b"soon", b"{}"]))),
        ("head", lambda client, key: client.set(key, pack([b"\xff", b"one", b"1", b"{}"]))),
        ("head", lambda client, key: client.pipeline().delete(key).lpush(key, "x").execute()),
        ("log", _without("r")),
        ("log", _without("n")),
    ],
)
async def test_a_stream_that_cannot_be_read_hides_no_other_one(
    redis_server: RedisServer, kind: str, change: Any
) -> None:
    """Another version may have written it."""
    async with redis(redis_server, SMALL) as rig:
        assert isinstance(rig, RedisRig)
        for name in ("s", "t"):
            assert await rig.one.open(head(name))
            assert await rig.one.seal(name, first=1, frames=frames(1, 2))
        (key,) = await rig.client.keys(f"*{kind}:s")
        await change(rig.client, key.decode())
        with pytest.raises(UnreadableError):
            await rig.other.find("s")
        assert {one.head.stream_id: one.head.meta for one in await rig.other.recent(9)} == {"s": b"", "t": head().meta}
        await rig.other.delete("s")
        assert [one.head.stream_id for one in await rig.other.recent(9)] == ["t"]


async def test_a_running_stream_that_cannot_be_read_ends_no_other_one(redis_server: RedisServer) -> None:
    async with redis(redis_server, SMALL) as rig:
        assert isinstance(rig, RedisRig)
        for name in ("s", "t"):
            assert await rig.one.open(head(name))
        await rig.client.set(*await rig.client.keys("*head:s"), b"garbage")
        await rig.client.delete(*await rig.client.keys("*lease:s"))
        renewed = await rig.one.renew(["s", "t"])
        assert {name: one.lost for name, one in renewed.items()} == {"s": "unknown", "t": None}


async def test_an_index_of_another_version_ends_no_lease(redis_server: RedisServer) -> None:
    async with redis(redis_server, SMALL) as rig:
        assert isinstance(rig, RedisRig)
        assert await rig.one.open(head())
        (sizes,) = await rig.client.keys("*sizes")
        await rig.client.hset(sizes, mapping={"t": b"\xff", b"\xff": b"many ann"})
        for name in ("streams", "sealed"):
            await rig.client.zadd(sizes.replace(b"sizes", name.encode()), {b"\xff": 1})
        await rig.client.delete(sizes.replace(b"sizes", b"sweep"))
        assert (await rig.one.renew(["s"]))["s"].lost is None
        assert [one.head.stream_id for one in await rig.one.recent(9)] == ["s"]
        assert await rig.client.zscore(sizes.replace(b"sizes", b"streams"), b"\xff") is None, "it has expired"


async def test_a_full_server(redis_server: RedisServer) -> None:
    client: Any = Redis.from_url(redis_server.url)
    async with redis(redis_server, SMALL) as rig:
        assert await rig.one.open(head())
        await rig.one.append([batch(1, 3)])
        await client.config_set("maxmemory", "1")
        try:
            with pytest.raises(StoreUnavailableError, match="maxmemory"):
                await rig.one.append([batch(4, 5)])
            with pytest.raises(StoreUnavailableError, match="maxmemory"):
                await rig.one.open(head("t"))
            with pytest.raises(StoreUnavailableError, match="maxmemory"):
                await rig.one.put("k", {"a": b"1"}, 60)
            with pytest.raises(StoreUnavailableError, match="maxmemory"):
                await rig.one.ping()
            assert await read_all(rig.other) == frames(1, 3)
        finally:
            await client.config_set("maxmemory", "0")
            await client.aclose()
        assert await rig.one.append([batch(4, 5)]) == {}


@pytest.fixture
async def lapsed(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RedisRig]:
    """Two stores with a stream whose lease has lapsed, on a server that has answered for longer than a lease."""
    clock = Clock()
    monkeypatch.setattr(redis_connection, "time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(redis_store, "PRESENT_S", 3.0)
    async with redis(redis_server, SMALL) as rig:
        assert isinstance(rig, RedisRig)
        assert await rig.one.open(head())
        for _ in range(3):
            clock.now_s += 2
            await rig.other.ping()
        await rig.advance(LEASE_S + 0.1)
        yield rig


@pytest.mark.parametrize(
    ("refuse", "accept"),
    [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
        ("ACL SETUSER default -@write", "ACL SETUSER default +@all"),
    ],
)
async def test_a_lease_that_could_not_be_renewed_ends_no_stream(lapsed: RedisRig, refuse: str, accept: str) -> None:
    await lapsed.client.execute_command(*refuse.split())
    try:
        with pytest.raises(StoreUnavailableError):
            await lapsed.other.read("s", 0, 99)
    finally:
        await lapsed.client.execute_command(*accept.split())
    assert (await lapsed.other.read("s", 0, 99)).seal is None
    assert (await lapsed.one.renew(["s"]))["s"].lost is None


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda store: store.put("kind", {"key": b"value"}, 60), id="put"),
        pytest.param(lambda store: store.update("kind", ["key"], lambda _: [b"value"], 60), id="update"),
    ],
)
async def test_a_refused_write_of_values_shows_that_leases_are_not_renewed(
    lapsed: RedisRig, write: Callable[[Store], Awaitable[None]]
) -> None:
    """Also one in a transaction."""
    await lapsed.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(StoreUnavailableError):
            await write(lapsed.other)
    finally:
        await lapsed.client.config_set("maxmemory", 0)
    status = await lapsed.other.find("s")
    assert status is not None
    assert status.seal is None


async def test_a_server_that_becomes_a_replica(redis_server: RedisServer) -> None:
    """After a failover the address may lead to another server: connections to this one are closed."""
    client: Any = Redis.from_url(redis_server.url)
    async with redis(redis_server, SMALL) as rig:
        assert await rig.one.open(head())
        before = int((await client.info("stats"))["total_connections_received"])
        await client.execute_command("REPLICAOF", "127.0.0.1", "1")
        try:
            with pytest.raises(StoreUnavailableError):
                await rig.one.append([batch(1, 2)])
        finally:
            await client.execute_command("REPLICAOF", "NO", "ONE")
        assert await eventually(lambda: rig.one.append([batch(1, 2)])) == {}
        assert int((await client.info("stats"))["total_connections_received"]) > before
    await client.aclose()


async def test_tls(program: Callable[[str], str], tmp_path: Path) -> None:
    ours, foreign = Authority(tmp_path), Authority(tmp_path, "foreign")
    cert_file, key_file = ours.issue("redis")
    tls_port = free_port()
    options = ["--tls-port", str(tls_port), "--tls-auth-clients", "no", "--tls-ca-cert-file", str(ours.file)]
    options += ["--tls-cert-file", str(cert_file), "--tls-key-file", str(key_file)]
    with RedisServer(program("redis-server"), tmp_path, options):
        url = f"rediss://localhost:{tls_port}/0"
        trusting, other = (RedisStore(url, "one", ca_file=str(one.file)) for one in (ours, foreign))
        assert await trusting.open(head())
        waiting = asyncio.ensure_future(trusting.wait("s", 0, 60))
        await trusting.append([batch(1, 2)])
        await asyncio.wait_for(waiting, 60)
        with pytest.raises(StoreUnavailableError, match="does not answer: SSLCertVerificationError"):
            await other.ping()
        await trusting.aclose()
        await other.aclose()


async def test_a_password_that_is_wrong(redis_server: RedisServer) -> None:
    store = RedisStore(redis_server.url.replace("//", "//user:wrong-password@"), "one")
    with pytest.raises(StoreUnavailableError) as error:
        await store.ping()
    assert "wrong-password" not in str(error.value)
    await store.aclose()


async def test_everything_expires(redis_server: RedisServer) -> None:
    """No key is left for ever, but the index, which is swept."""
    async with redis(redis_server, SMALL) as rig:
        assert isinstance(rig, RedisRig)
        cancelled = asyncio.Event()
        rig.one.listen(lambda _: cancelled.set(), ignored)
        for number in range(3):
            assert await rig.one.open(head(f"s{number}"))
            await rig.one.append([batch(1, 2, f"s{number}")])
        await rig.one.seal("s0")
        await rig.other.wait("s1", 2, 0.01)
        await rig.other.request_cancel("s1")
        await asyncio.wait_for(cancelled.wait(), 60)
        await rig.one.claim("k", {"a": b"1"}, 60)
        names = {
            name.decode().partition(":")[2] for name in await rig.client.keys("*") if await rig.client.ttl(name) < 0
        }
        assert names == {"streams", "sealed", "sizes"}
        await rig.advance(SMALL.open_max_s + 1)
        await rig.one.renew([])
        assert [name for name in await rig.client.keys("*") if not name.endswith(b":sweep")] == []


async def test_sizes_are_limited_by_a_sweep(redis_server: RedisServer) -> None:
    async with redis(redis_server, SMALL) as rig:
        for number in range(3):
            assert await rig.one.open(head(f"s{number}"))
            await rig.one.append([batch(1, 4, f"s{number}", size=4_500)])
        await rig.one.renew(["s0", "s1", "s2"])
        with pytest.raises(StoreFullError):
            await rig.one.open(head("more"))
        assert await rig.one.open(head("bob's", owner="bob")), "54,000 bytes of ann are over her limit only"
        await rig.one.seal("s1")
        await rig.advance(SWEEP_MS / 1_000 + 0.1)
        await rig.one.renew(["s0", "s2"])
        assert await rig.one.find("s1") is None
        await rig.advance(3 * SWEEP_MS / 1_000)
        assert await rig.one.open(head("more"))


async def test_many_readers_need_few_connections(redis_server: RedisServer) -> None:
    client: Any = Redis.from_url(redis_server.url)
    limits = StoreLimits()
    async with redis(redis_server, limits) as rig:
        for number in range(300):
            assert await rig.one.open(head(f"s{number}"))
        readers = [
            asyncio.ensure_future(rig.other.wait(f"s{number}", 0, 60)) for number in range(300) for _ in range(2)
        ]
        await asyncio.sleep(0.2)
        assert int((await client.info("clients"))["connected_clients"]) < 40
        assert await rig.one.append([batch(1, 1, f"s{number}") for number in range(300)]) == {}
        await asyncio.wait_for(asyncio.gather(*readers), 60)
    await client.aclose()


class AnswersAtOnce(Connection):
    """Connections whose answers arrive in one turn of the event loop."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.arrive = asyncio.Event()
        self.answered = 0

    async def _execute(self, commands: Sequence[Any], *, is_transaction: bool = False) -> list[Any]:
        answers = await super()._execute(commands, is_transaction=is_transaction)
        self.answered += 1
        await self.arrive.wait()
        return answers


async def test_a_command_asked_for_while_all_senders_end_is_sent(redis_server: RedisServer) -> None:
    connection = AnswersAtOnce(redis_server.url)

    async def ask(times: int) -> None:
        for _ in range(times):
            assert await connection.run("PING")

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for senders, times in enumerate((2, 1), 1):
            tasks.create_task(ask(times))
            await wait_until(lambda senders=senders: connection.answered == senders)  # each has one, which waits
        connection.arrive.set()
    await connection.aclose()


def test_a_process_that_was_stopped_asks_again(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop of the server looks at time-outs before it reads the answers, which have arrived."""

    async def stop() -> None:
        connection = Connection(redis_server.url)
        read = ("XREAD", "BLOCK", 1, "STREAMS", "nothing", "0")
        await asyncio.gather(connection.block(*read), connection.run("PING"))  # both clients are connected
        redis_server.pause()
        try:
            asked = asyncio.gather(connection.block(*read), *(connection.run("PING") for _ in range(2)))
            for _ in range(9):
                await asyncio.sleep(0)  # all of them are sent
        finally:
            redis_server.resume()
        time.sleep(BLOCK_MS / 1_000 + 5.5)  # noqa: ASYNC251 - as SIGSTOP does
        assert await asked == [[], True, True]
        assert connection.failures == 0
        await connection.aclose()

    monkeypatch.setattr(redis_connection, "COMMAND_S", 4.0)
    uvloop.run(stop())


async def test_closing_ends_what_waits(redis_server: RedisServer) -> None:
    connection = Connection(redis_server.url)
    asked = [asyncio.create_task(connection.run("PING")) for _ in range(5_000)]
    await asyncio.sleep(0)
    await connection.aclose()
    async with asyncio.timeout(60):
        await asyncio.gather(*asked, return_exceptions=True)


async def test_a_reader_learns_that_a_lease_has_lapsed(redis_server: RedisServer) -> None:
    async with redis(redis_server, SMALL) as rig:
        assert isinstance(rig, RedisRig)
        assert await rig.one.open(head())
        await rig.one.append([batch(1, 2)])
        waiting = asyncio.ensure_future(rig.other.wait("s", 2, 600))
        await asyncio.sleep(0.05)
        await rig.advance(9)
        await asyncio.wait_for(waiting, 60)
        page = await rig.other.read("s", 2, 99)
        assert page.seal is not None
        assert page.seal.reason == INTERRUPTED


@pytest.mark.parametrize("ahead_s", [-3_600, 3_600])
async def test_a_reader_is_seen_whatever_its_clock_shows(redis_server: RedisServer, ahead_s: int) -> None:
    """Otherwise a stream that is read at a server whose clock is wrong ends as one that nobody reads."""
    async with redis(redis_server, SMALL) as rig:
        assert isinstance(rig, RedisRig)
        assert isinstance(rig.other, RedisStore)
        assert await rig.one.open(head())
        rig.other._clock = lambda: rig.clock() + ahead_s
        await rig.advance(5)
        await rig.other._look(["s"])
        assert (await rig.one.renew(["s"]))["s"].unread_ms == 0
        await rig.advance(2)
        assert (await rig.one.renew(["s"]))["s"].unread_ms == 2_000


async def test_a_stream_of_which_no_reader_is_known_is_not_unread(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time begins when the producer first looks, not with its clock."""
    monkeypatch.setattr(redis_store, "PRESENT_S", 0.0)
    async with redis(redis_server, SMALL) as rig:
        assert isinstance(rig, RedisRig)
        assert isinstance(rig.one, RedisStore)
        assert await rig.one.open(head())
        rig.one._written.clear()
        await rig.client.delete(rig.one._state("s"))
        assert await rig.one.append([batch(1, 1)]) == {}
        assert (await rig.one.renew(["s"]))["s"].unread_ms == 0


PRODUCER = """
import asyncio, random, sys
from projector.store.redis_store import RedisStore
from tests.store.rigs import batch, frames, head

async def main(url, name, prefix):
    store = RedisStore(url, name, prefix=prefix)
    last = {f"{name}-{number}": 0 for number in range(25)}
    for stream_id in last:
        await store.open(head(stream_id, producer=name))
    for turn in range(10**9):
        batches = [batch(number + 1, number + random.randint(1, 5), one) for one, number in last.items()]
        assert await store.append(batches) == {}
        last |= {one.stream_id: one.first + len(one.frames) - 1 for one in batches}
        if turn % 7 == 0 and len(last) > 20:
            stream_id, number = last.popitem()
            assert await store.seal(stream_id, first=number + 1, frames=frames(number + 1, number + 2))
        await store.renew(last)
        print(turn, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_hundred_streams_of_killed_processes_have_one_end_each(redis_server: RedisServer) -> None:
    prefix = f"{os.urandom(4).hex()}:"
    readers = [RedisStore(redis_server.url, f"reader {number}", prefix=prefix) for number in range(2)]
    ids = [f"p{process}-{number}" for process in range(4) for number in range(25)]

    async def produce(name: str, turns: int) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PRODUCER, redis_server.url, name, prefix, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        for _ in range(turns):
            await process.stdout.readline()
        if process.returncode is None:
            process.kill()
        await process.wait()

    async def follow(store: RedisStore, stream_id: str) -> tuple[list[bytes], str]:
        found: list[bytes] = []
        while True:
            try:
                page = await store.read(stream_id, len(found), 2_000)
            except UnknownStreamError:
                assert not found
                await asyncio.sleep(0.05)
                continue
            found += page.frames
            if page.seal is not None:
                return found, page.seal.reason
            if not page.frames:
                await store.wait(stream_id, len(found), 30)

    draws = Random(1)
    producing = asyncio.gather(*(produce(f"p{number}", draws.randint(20, 90)) for number in range(4)))
    results = await asyncio.gather(*(follow(store, stream_id) for store in readers for stream_id in ids))
    await producing
    late = [await follow(readers[0], stream_id) for stream_id in ids]
    assert results[: len(ids)] == results[len(ids) :] == late
    assert all(found == frames(1, len(found)) for found, _ in late)
    reasons = [reason for _, reason in late]
    assert 0 < reasons.count("") < reasons.count(INTERRUPTED)
    assert len(reasons) == 100
    for store in readers:
        await store.aclose()


async def test_a_prefix_separates_stores(redis_server: RedisServer) -> None:
    names = [f"{os.urandom(4).hex()}:" for _ in range(2)]
    one, other = (RedisStore(redis_server.url, "one", prefix=name) for name in names)
    assert await one.open(head())
    assert await other.find("s") is None
    assert await other.open(head())
    await one.aclose()
    await other.aclose()


def test_a_free_port_is_given_to_no_other_program() -> None:
    port = free_port()
    with socket.socket() as connecting, pytest.raises(OSError, match="in use"):
        connecting.bind(("127.0.0.1", port))
    for _ in range(2):
        with socket.create_server(("127.0.0.1", port)):
            pass


class FailsOnce(Connection):
    """A connection with a mistake that is noticed when commands are sent."""

    has_failed = False

    async def _execute(self, commands: Sequence[Any], *, is_transaction: bool = False) -> list[Any]:
        if not self.has_failed:
            self.has_failed = True
            raise KeyError(b"secret")
        return await super()._execute(commands, is_transaction=is_transaction)


async def test_an_unexpected_failure_of_a_round_trip_is_an_error_of_its_commands(redis_server: RedisServer) -> None:
    """They end as after an outage, and are not cancelled; the next ones are sent."""
    connection = FailsOnce(redis_server.url)
    for error in await asyncio.gather(*(connection.run("PING") for _ in range(3)), return_exceptions=True):
        assert isinstance(error, StoreUnavailableError)
        assert str(error) == "commands could not be sent: KeyError"
    assert await connection.run("PING")
    assert connection.failures == 0
    await connection.aclose()


@pytest.mark.parametrize(("value", "error"), [("\udfff", UnicodeEncodeError), (None, DataError), (True, DataError)])
async def test_a_command_that_cannot_be_encoded_is_not_sent(
    redis_server: RedisServer, value: object, error: type[Exception]
) -> None:
    connection = Connection(redis_server.url)
    asked = [connection.run("ECHO", "1"), connection.run("ECHO", value), connection.run("ECHO", 2)]
    first, refused, last = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(refused, error)
    assert (first, last) == (b"1", b"2")
    with pytest.raises(error):
        await connection.run_transaction([("ECHO", "1"), ("ECHO", value)])
    assert await connection.run_transaction([("ECHO", "1")]) == [b"1"]
    assert connection.failures == 0
    await connection.aclose()
