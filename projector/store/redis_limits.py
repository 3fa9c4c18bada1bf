"""Limits of the logs in Redis: which streams there are, what they need, and which of them are dropped.

Numbers of streams are exact but for opens at the same instant. Sizes are as producers last reported them, and compared
with their limits every few seconds by one of the processes: until then a store may be over its limit.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final

from projector.store.protocol import StoreFullError, StoreLimits
from projector.store.redis_connection import Command, accepted
from projector.store.redis_entries import tag_of
from projector.store.redis_servers import Servers
from projector.store.redis_values import ttl_ms

SWEEP_MS: Final = 5_000
_FULL_MS: Final = 3 * SWEEP_MS
_DROPS_MAX: Final = 1_000
"""Logs that are dropped for one that is opened."""
_UNRECORDED_MAX: Final = 10_000
"""Commands that wait until the servers of a cluster with this index are back."""


class Index:
    """The streams in Redis.

    Args:
        connection: to Redis.
        prefix: of keys.
        limits: what is kept.
        clock: returns seconds since 1970-01-01 UTC.
    """

    def __init__(self, connection: Servers, prefix: str, limits: StoreLimits, clock: Callable[[], float]) -> None:
        self._connection = connection
        self._prefix = prefix
        self._limits = limits
        self._clock = clock
        self._unrecorded: deque[Command] = deque(maxlen=_UNRECORDED_MAX)
        self._all, self._sealed, self._sizes = (f"{prefix}{name}" for name in ("streams", "sealed", "sizes"))

    async def make_room(self, owner: str) -> None:
        """Drop sealed logs until there is room for another one of this owner.

        Raises:
            StoreFullError: there are none left.
        """
        limits, owned = self._limits, self._owned(owner)
        for _ in range(_DROPS_MAX):
            now_ms = int(1_000 * self._clock())
            found = await self._connection.run_all(
                [
                    ("ZREMRANGEBYSCORE", owned, "-inf", now_ms),
                    ("ZCOUNT", self._all, now_ms, "+inf"),
                    ("ZCARD", owned),
                    ("EXISTS", self._full("")),
                    ("EXISTS", self._full(owner)),
                ]
            )
            _, streams, of_owner, full, owner_full = accepted(found)
            is_owner_over = owner_full or of_owner >= limits.owner_streams
            if not (is_owner_over or full or streams >= limits.total_streams):
                return
            oldest = await self._connection.run("ZRANGE", self._done(owner) if is_owner_over else self._sealed, 0, 0)
            if full or owner_full or not oldest:
                break
            await self.drop(oldest[0].decode())
        raise StoreFullError("the store is full of streams that are not over")

    def opened(self, stream_id: str, owner: str) -> list[Command]:
        """Return the commands that record a stream."""
        until_ms = int(1_000 * (self._clock() + self._limits.open_max_s))
        kept_ms = ttl_ms(self._limits.open_max_s)
        return [
            ("ZADD", self._all, until_ms, stream_id),
            ("ZADD", self._owned(owner), until_ms, stream_id),
            ("PEXPIRE", self._owned(owner), kept_ms),
            ("HSET", self._sizes, stream_id, f"0 {owner}"),
        ]

    def sealed(self, stream_id: str, owner: str) -> list[Command]:
        """Return the commands that record a seal."""
        now_ms = int(1_000 * self._clock())
        until_ms = now_ms + int(1_000 * self._limits.retention_s)
        return [
            ("ZADD", self._all, until_ms, stream_id),
            ("ZADD", self._owned(owner), until_ms, stream_id),
            ("ZADD", self._sealed, now_ms, stream_id),
            ("ZADD", self._done(owner), now_ms, stream_id),
            ("PEXPIRE", self._done(owner), ttl_ms(self._limits.retention_s)),
        ]

    async def recent(self, count: int, owner: str | None) -> list[str]:
        """Return the IDs of the streams that expire last: those that run, which expire hours later, come first."""
        key = self._all if owner is None else self._owned(owner)
        return [one.decode() for one in await self._connection.run("ZRANGE", key, 0, count - 1, "REV")]

    def sized(self, stream_id: str, owner: str, size: int) -> Command:
        """Return the command that records the size of a log."""
        return ("HSET", self._sizes, stream_id, f"{size} {owner}")

    async def record(self, commands: Sequence[Command]) -> None:
        """Send commands of this index, now or, if its servers in a cluster are away, later."""
        self._unrecorded.extend(commands)
        sent = [*self._unrecorded]
        self._unrecorded.clear()
        if sent and not await self._connection.aside(lambda: self._connection.run_all(sent)):
            self._unrecorded.extendleft(reversed(sent))

    async def drop(self, stream_id: str) -> None:
        """Remove a log."""
        size = await self._connection.run("HGET", self._sizes, stream_id)
        owner = "" if size is None else size.decode().partition(" ")[2]
        names = (f"{self._prefix}{tag_of(stream_id)}{name}:{stream_id}" for name in ("log", "head", "state", "lease"))
        await self._connection.run_all(
            [
                *(("DEL", name) for name in names),
                *self._forget([stream_id]),
                ("ZREM", self._owned(owner), stream_id),
                ("ZREM", self._done(owner), stream_id),
            ]
        )

    async def sweep(self) -> None:
        """Forget what has expired, and drop logs until sizes are within limits; every few seconds, by one process."""
        if not await self._connection.run("SET", f"{self._prefix}sweep", 1, "NX", "PX", SWEEP_MS):
            return
        (expired,) = await self._connection.run_all([("ZRANGEBYSCORE", self._all, "-inf", int(1_000 * self._clock()))])
        if expired:
            await self._connection.run_all(self._forget([one.decode() for one in expired]))
        raw, sealed = await self._connection.run_all([("HGETALL", self._sizes), ("ZRANGE", self._sealed, 0, -1)])
        sizes = {one.decode(): _size_and_owner(value) for one, value in raw.items()}
        owners = Counter[str]()
        for size, owner in sizes.values():
            owners[owner] += size
        for one in sealed:
            size, owner = sizes.get(one.decode(), (0, ""))
            if owners.total() > self._limits.total_bytes or owners[owner] > self._limits.owner_bytes:
                await self.drop(one.decode())
                owners[owner] -= size
        over = [owner for owner, size in owners.items() if size > self._limits.owner_bytes]
        if owners.total() > self._limits.total_bytes:
            over.append("")
        await self._connection.run_all([("SET", self._full(owner), 1, "PX", _FULL_MS) for owner in over])

    def _forget(self, stream_ids: Sequence[str]) -> list[Command]:
        return [
            ("ZREM", self._all, *stream_ids),
            ("ZREM", self._sealed, *stream_ids),
            ("HDEL", self._sizes, *stream_ids),
        ]

    def _owned(self, owner: str) -> str:
        return f"{self._prefix}owned:{owner}"

    def _done(self, owner: str) -> str:
        return f"{self._prefix}done:{owner}"

    def _full(self, owner: str) -> str:
        return f"{self._prefix}full:{owner}"


def _size_and_owner(value: bytes) -> tuple[int, str]:
    size, _, owner = value.decode().partition(" ")
    return int(size), owner
