"""The store in Redis as two processes see it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from redis.asyncio import Redis
from redis.asyncio import RedisCluster as ClusterClient

from bench.redis_cluster import RedisCluster
from bench.redis_server import RedisServer
from projector.store import redis_logs, redis_store
from projector.store.protocol import LEASE_S, Store, StoreLimits
from projector.store.redis_connection import ttl_ms
from projector.store.redis_logs import SWEEP_MS
from projector.store.redis_store import RedisStore
from tests.store.rigs import Clock, Rig

SLOWER: Final = 1_000
"""How many seconds of the server are one of the rig's clock: a test that is late by some seconds loses no lease."""


@dataclass
class RedisRig:
    """The store in Redis. Time passes by shortening the time to live of all keys, which is `SLOWER` times as long."""

    one: Store
    other: Store
    clock: Clock
    client: Any

    async def advance(self, seconds: float) -> None:
        self.clock.now_s += seconds
        nodes = {"target_nodes": "primaries"} if isinstance(self.client, ClusterClient) else {}
        for name in await self.client.keys("*", **nodes):
            left_ms = await self.client.pttl(name)
            if left_ms >= 0:
                await self.client.pexpire(name, max(0, left_ms - int(1_000 * SLOWER * seconds)))


def redis(server: RedisServer, limits: StoreLimits) -> AbstractAsyncContextManager[Rig]:
    """Return the store with an empty database."""
    return _rig(server.url, Redis.from_url(server.url), limits)


def cluster(servers: RedisCluster, limits: StoreLimits) -> AbstractAsyncContextManager[Rig]:
    """Return the store in an empty cluster."""
    return _rig(servers.url, ClusterClient(port=servers.servers[0].port, host="127.0.0.1"), limits)


@asynccontextmanager
async def _rig(url: str, client: Any, limits: StoreLimits) -> AsyncIterator[Rig]:
    clock, prefix = Clock(), f"test-{os.urandom(4).hex()}:"
    one, other = (RedisStore(url, name, limits, prefix=prefix, clock=clock, steady=clock) for name in ("one", "other"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redis_store, "_LEASE_MS", int(1_000 * SLOWER * LEASE_S))
        patch.setattr(redis_logs, "SWEEP_MS", SLOWER * SWEEP_MS)
        patch.setattr(redis_logs, "_FULL_MS", 3 * SLOWER * SWEEP_MS)
        for module in (redis_logs, redis_store):
            patch.setattr(module, "ttl_ms", lambda seconds: ttl_ms(SLOWER * seconds))
        try:
            await client.flushdb()  # other tests leave their streams until they expire
            yield RedisRig(one, other, clock, client)
        finally:
            await one.aclose()
            await other.aclose()
            await client.aclose()
