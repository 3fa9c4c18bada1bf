"""Values with a time to live, in Redis. Memory is bounded by their time to live, and by `maxmemory`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Final

from redis.exceptions import WatchError

from projector.store.budgets import Change
from projector.store.protocol import StoreUnavailableError
from projector.store.redis_connection import accepted, ttl_ms
from projector.store.redis_servers import MovingError, Servers

_TRIES: Final = 100
"""Tries to change values that others change at the same time."""
_PAUSE_S: Final = 0.01


class RedisValues:
    """The values of a store. See `projector.store.protocol.Store`."""

    def __init__(self, connection: Servers, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix

    async def claim(self, kind: str, values: Mapping[str, bytes], ttl_s: float) -> Mapping[str, bytes]:
        """See `Store`."""
        stored = await self._set(kind, values, ttl_s, "NX", "GET")
        pairs = zip(values.items(), stored, strict=True)
        return {key: value if present is None else present for (key, value), present in pairs}

    async def put(self, kind: str, values: Mapping[str, bytes], ttl_s: float) -> None:
        """See `Store`."""
        await self._set(kind, values, ttl_s)

    async def get(self, kind: str, keys: Sequence[str]) -> list[bytes | None]:
        """See `Store`."""
        return accepted(await self._connection.run_all([("GET", self._name(kind, key)) for key in keys]))

    async def _set(self, kind: str, values: Mapping[str, bytes], ttl_s: float, *how: str) -> list[bytes | None]:
        commands = [("SET", self._name(kind, key), one, *how, "PX", ttl_ms(ttl_s)) for key, one in values.items()]
        return accepted(await self._connection.run_all(commands))

    async def update(self, kind: str, keys: Sequence[str], change: Change, ttl_s: float) -> None:
        """See `Store`. Another change in between repeats it."""
        names = [self._name(kind, key) for key in keys]
        for _ in range(_TRIES):
            try:
                if await self._update(names, change, ttl_s):
                    return
            except MovingError:
                await asyncio.sleep(_PAUSE_S)
            await asyncio.sleep(_PAUSE_S * random.random())  # noqa: S311 - so that not all try again at once
        raise StoreUnavailableError("values are changed too often")

    async def _update(self, names: Sequence[str], change: Change, ttl_s: float) -> bool:
        """Change values; return false if others have changed them in the meantime."""
        async with self._connection.transaction(names[0]) as pipeline:
            await pipeline.watch(*names)
            changed = change(await pipeline.mget(names))
            if changed is None:
                return True
            pipeline.multi()
            for name, value in zip(names, changed, strict=True):
                if value is None:
                    pipeline.execute_command("DEL", name)
                else:
                    pipeline.execute_command("SET", name, value, "PX", ttl_ms(ttl_s))
            try:
                await pipeline.execute()
            except WatchError:
                return False
            return True

    def _name(self, kind: str, key: str) -> str:
        """Return the name of a key. What is before `|` is a hash tag: a cluster has these keys in one slot."""
        group, mark, _ = key.partition("|")
        return (
            f"{self._prefix}value:{kind}:{{{group}}}{key[len(group) :]}"
            if mark
            else f"{self._prefix}value:{kind}:{key}"
        )
