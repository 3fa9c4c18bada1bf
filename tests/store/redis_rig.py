"""The store in Redis as two processes see it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from bench.redis_server import RedisServer
from projector.store.protocol import Store, StoreLimits
from projector.store.redis_store import RedisStore
from tests.store.rigs import Clock, Rig


@dataclass
class RedisRig:
    """The store in Redis. Time passes by shortening the time to live of all keys."""

    one: Store
    other: Store
    clock: Clock
    client: Any

    async def advance(self, seconds: float) -> None:
        self.clock.now_s += seconds
        for name in await self.client.keys("*"):
            left_ms = await self.client.pttl(name)
            if left_ms >= 0:
                await self.client.pexpire(name, max(0, left_ms - int(1_000 * seconds)))


@asynccontextmanager
async def redis(server: RedisServer, limits: StoreLimits) -> AsyncIterator[Rig]:
    """Return the store with an empty database."""
    clock, prefix = Clock(), f"test-{os.urandom(4).hex()}:"
    one, other = (RedisStore(server.url, name, limits, prefix=prefix, clock=clock) for name in ("one", "other"))
    client: Any = Redis.from_url(server.url)
    try:
        yield RedisRig(one, other, clock, client)
    finally:
        await one.aclose()
        await other.aclose()
        await client.flushdb()
        await client.aclose()
