"""Bytes on their way to one client: bounded, and joined while the client is slow."""

from __future__ import annotations

import asyncio

from projector.asgi.memory import Account


class Outbox:
    """A queue of bytes with one taker, which gets all that is there at once.

    `add` never waits, so what was said is never lost to a cancellation; `room` is where who adds waits for the taker.
    Bytes count until the taker comes back for more, because until then they are in memory. While the budget of all
    streams is spent, any byte is too many.

    Every event of every stream passes here, so its signals are asyncio's own, which can be used more than once.
    """

    def __init__(self, max_bytes: int, account: Account) -> None:
        self._max_bytes = max_bytes
        self._account = account
        self._parts: list[bytes] = []
        self._waiting_bytes = 0
        self._taken_bytes = 0
        self._is_closed = False
        self._added = asyncio.Event()
        self._taken = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether who adds should wait for `room`."""
        return self._waiting_bytes + self._taken_bytes > (0 if self._account.is_spent else self._max_bytes)

    @property
    def is_empty(self) -> bool:
        """Whether all that was added was taken."""
        return not self._parts

    @property
    def is_closed(self) -> bool:
        """Whether nothing more can be added."""
        return self._is_closed

    @property
    def is_drained(self) -> bool:
        """Whether nothing more will come."""
        return self._is_closed and not self._parts

    def add(self, data: bytes) -> None:
        """Put bytes behind those that are there; after `close` they are dropped."""
        if data and not self._is_closed:
            self._parts.append(data)
            self._waiting_bytes += len(data)
            self._account.hold(len(data))
            self._added.set()

    def close(self) -> None:
        """Say that nothing more comes."""
        self._is_closed = True
        self._added.set()

    async def room(self) -> None:
        """Wait until it is no longer full."""
        while self.is_full:
            self._taken.clear()
            await self._taken.wait()

    async def take(self) -> bytes:
        """Give all bytes that are there; wait while there are none, give `b""` when none will come."""
        self._account.hold(-self._taken_bytes)
        self._taken_bytes = 0
        self._taken.set()
        while not self._parts and not self._is_closed:
            self._added.clear()
            await self._added.wait()
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._taken_bytes = len(data)
        self._waiting_bytes = 0
        return data
