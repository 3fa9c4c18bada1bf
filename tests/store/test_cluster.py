"""The store in a Redis Cluster when a failover loses something, a slot moves, and servers are away."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.crc import key_slot
from redis.exceptions import ConnectionError as NoConnectionError

from bench.redis_cluster import RedisCluster
from bench.redis_server import RedisServer, free_port
from projector.cli import main
from projector.server.streaming.stream_logs import StreamLogs
from projector.store.budgets import Limit
from projector.store.encryption import EncryptedStore
from projector.store.protocol import INTERRUPTED, StoreUnavailableError
from projector.store.redis_servers import tag_of
from projector.store.redis_store import RedisStore
from tests.asgi.certificates import Authority
from tests.store.redis_rig import cluster
from tests.store.rigs import SMALL, Rig, batch, frames, head, read_all
from tests.store.test_redis import eventually

SLOT = key_slot(tag_of("s").encode())
TWIN = next(name for name in map(str, range(999)) if tag_of(name) == tag_of("s"))
"""Another stream in the slot of `s`."""


async def append(rig: Rig) -> bool:
    refused = await rig.one.append([batch(10, 12)])
    return refused == {}


async def seal(rig: Rig) -> bool:
    return await rig.one.seal("s", first=10, frames=frames(10, 12))


@pytest.mark.parametrize("go_on", [append, seal])
async def test_what_a_failover_loses_ends_the_stream(redis_cluster: RedisCluster, go_on: Any) -> None:
    async with cluster(redis_cluster, SMALL) as rig:
        assert await rig.one.open(head())
        assert await rig.one.append([batch(1, 5)]) == {}
        primary = redis_cluster.owner(SLOT)
        replica = redis_cluster.replica_of(primary)
        with Redis(port=primary.port) as client:
            client.set(f"{tag_of('s')}mark", 1)
            assert client.wait(1, 0) == 1
            replica.pause()
            client.execute_command("CLIENT", "KILL", "TYPE", "replica")
        assert await rig.one.append([batch(6, 9)]) == {}
        assert await read_all(rig.other, after=5) == frames(6, 9)
        primary.kill()
        replica.resume()
        assert not await eventually(lambda: go_on(rig))
        ahead = await eventually(lambda: rig.other.read("s", 9, 999))
        behind = await rig.other.read("s", 0, 9_999)
        assert (ahead.first, ahead.frames) == (10, [])
        assert behind.frames == frames(1, 5)
        assert ahead.seal == behind.seal
        assert behind.seal is not None
        assert behind.seal.reason == INTERRUPTED
    primary.start()
    await asyncio.to_thread(redis_cluster.settle)


async def test_a_slot_on_its_way(redis_cluster: RedisCluster) -> None:
    """Some of its keys are at one server, some at another one."""
    to = next(one for one in redis_cluster.primaries() if one is not redis_cluster.owner(SLOT))
    async with cluster(redis_cluster, SMALL) as rig:
        assert await rig.one.open(head())
        assert await rig.one.append([batch(1, 2)]) == {}
        reader = asyncio.create_task(rig.other.wait("s", 2, 60))
        last = 2
        with redis_cluster.moving(SLOT, to) as move_keys:
            while move_keys():
                assert await rig.one.append([batch(last + 1, last + 2)]) == {}
                last += 2
                assert (await rig.one.renew(["s"]))["s"].lost is None
            await asyncio.wait_for(reader, 60)
            assert await rig.one.open(head(TWIN))
            assert await rig.one.append([batch(1, 2, TWIN), batch(last + 1, last + 2)]) == {}
            assert await rig.one.seal(TWIN, first=3, frames=frames(3, 4))
            assert await read_all(rig.other, TWIN) == frames(1, 4)
        assert redis_cluster.owner(SLOT) is to
        assert await rig.one.seal("s", first=last + 3, frames=frames(last + 3, last + 4))
        assert await read_all(rig.other) == frames(1, last + 4)


async def test_budgets_whose_slot_moves(redis_cluster: RedisCluster) -> None:
    async with cluster(redis_cluster, SMALL) as rig:
        limits = [(Limit("requests", 60.0, 100), 1.0), (Limit("tokens", 60.0, 100), 1.0)]
        await rig.one.budgets.take("ann", limits)
        (name,) = {key_slot(one) for one in await rig.client.keys("*budget*", target_nodes="primaries")}  # type: ignore[attr-defined]
        to = next(one for one in redis_cluster.primaries() if one is not redis_cluster.owner(name))
        takes = (partial(store.budgets.take, "ann", limits) for store in [rig.one, rig.other] * 10)
        taking = asyncio.gather(*map(eventually, takes))  # changes are refused while a slow move goes on
        await asyncio.to_thread(redis_cluster.move, name, to)
        assert {bool(receipts) for _, receipts in await taking} == {True}
        levels, _ = await rig.other.budgets.take("ann", limits)
        assert {level.remaining for level in levels} == {78}


async def test_seeds_and_users(redis_cluster: RedisCluster) -> None:
    for server in redis_cluster.servers:
        with Redis(port=server.port) as client:
            client.execute_command("ACL", "SETUSER", "app", "on", ">secret-word", "~*", "&*", "+@all", "-@dangerous")
    primary = redis_cluster.primaries()[0].port
    replica = redis_cluster.replica_of(redis_cluster.primaries()[0]).port
    for hosts in (f"127.0.0.1:{free_port()},127.0.0.1:{primary}", f"127.0.0.1:{replica}"):
        store = RedisStore(f"redis://app:secret-word@{hosts}", "one")
        assert await store.describe() == "a cluster of 3 primaries"
        assert await store.open(head())
        await store.delete("s")
        await store.aclose()
        store = RedisStore(f"redis://app:wrong-word@{hosts}", "one")
        with pytest.raises(StoreUnavailableError) as error:
            await store.ping()
        assert "word" not in str(error.value)
        await store.aclose()


async def test_tls(program: Callable[[str], str], tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert_file, key_file = authority.issue("redis", address="127.0.0.1")
    options = ["--tls-auth-clients", "no", "--tls-ca-cert-file", str(authority.file)]
    options += ["--tls-cert-file", str(cert_file), "--tls-key-file", str(key_file)]
    with RedisCluster(program("redis-server"), program("redis-cli"), tmp_path, options) as servers:
        store = RedisStore(f"rediss://127.0.0.1:{servers.tls_ports[0]}", "one", ca_file=str(authority.file))
        for number in range(20):  # at all primaries
            assert await store.open(head(f"s{number}"))
            assert await store.append([batch(1, 2, f"s{number}")]) == {}
        await store.aclose()


def test_config_check_says_what_there_is(
    redis_cluster: RedisCluster,
    redis_server: RedisServer,
    program: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config, port = tmp_path / "sentinel.conf", free_port()
    config.write_text(f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\n")
    sentinel = subprocess.Popen([program("redis-server"), config, "--sentinel"], stdout=subprocess.DEVNULL)
    try:
        with Redis(port=port) as client:
            while not _answers(client):
                time.sleep(0.02)
        rows = {
            redis_cluster.url: "`store.url` leads to a cluster of 3 primaries.",
            redis_server.url: "`store.url` leads to a single server, with 0 replicas.",
            f"redis://127.0.0.1:{port}": "warning: `store.url`: this is a Sentinel: expected the address of the "
            "primary",
            f"redis://127.0.0.1:{free_port()}": "warning: `store.url`: Redis does not answer: ConnectionRefusedError",
        }
        for url, said in rows.items():
            (tmp_path / "projector.toml").write_text(f'[store]\nkind = "redis"\nurl = "{url}"\n')
            assert main(["config", "check", str(tmp_path / "projector.toml")]) == 0
            printed = capsys.readouterr()
            assert said in (printed.out + printed.err).splitlines()
    finally:
        sentinel.kill()
        sentinel.wait()


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        (
            "maxmemory-policy",
            "volatile-lru",
            "`maxmemory-policy` is volatile-lru, which drops leases of running streams",
        ),
        ("maxmemory", "1", "Redis has reached its `maxmemory`"),
    ],
)
def test_config_check_warns_of_what_redis_has_set(
    redis_cluster: RedisCluster,
    redis_server: RedisServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    setting: str,
    value: str,
    said: str,
) -> None:
    file = tmp_path / "projector.toml"
    for url, port in ((redis_server.url, redis_server.port), (redis_cluster.url, redis_cluster.servers[0].port)):
        file.write_text(f'[store]\nkind = "redis"\nurl = "{url}"\n')
        with Redis(port=port) as client:
            before = client.config_get(setting)[setting]
            client.config_set(setting, value)
            try:
                assert main(["config", "check", str(file)]) == 0
            finally:
                client.config_set(setting, before)
        warned = capsys.readouterr().err.splitlines()[1:]  # the first: no API key
        assert [one.removesuffix(": expected noeviction") for one in warned] == [f"warning: `store.url`: {said}"]


def _answers(client: Any) -> bool:
    try:
        return bool(client.ping())
    except NoConnectionError:
        return False


async def test_new_streams_of_a_process_are_at_one_place_of_its_own(redis_cluster: RedisCluster) -> None:
    """Else each write would go to all servers, and cost as much in each as if it were the only one."""
    homes = []
    for name in ("one", "two", "three"):
        store = RedisStore(redis_cluster.url, name, SMALL, prefix="homes:")
        logs = StreamLogs(store, unread_s=60)
        before = {store.place_of(logs.new_id()) for _ in range(50)}
        assert before == {""}, "nothing is known of the cluster yet"
        logs.check_store()
        await eventually(lambda logs=logs: has_home(logs))
        (home,) = {store.place_of(logs.new_id()) for _ in range(50)}
        homes.append(home)
        logs.at(logs.new_id()).is_available = False
        assert len({store.place_of(logs.new_id()) for _ in range(50)}) > 1, "new streams do not wait for what is away"
        await logs.aclose()
    assert len(set(homes)) == 3


async def test_a_home_is_found_whatever_the_key_of_the_store(redis_cluster: RedisCluster) -> None:
    for keys in ([b"a" * 32], [b"b" * 32], []):
        inner = RedisStore(redis_cluster.url, "one", SMALL, prefix="keys:")
        logs = StreamLogs(EncryptedStore(inner, keys) if keys else inner, unread_s=60)
        logs.check_store()
        await eventually(lambda logs=logs: has_home(logs))
        assert logs.is_sound
        await logs.aclose()


async def has_home(logs: Any) -> None:
    if len({logs.store.place_of(logs.new_id()) for _ in range(20)}) > 1 or not logs.store.places():
        raise StoreUnavailableError("no home yet")
