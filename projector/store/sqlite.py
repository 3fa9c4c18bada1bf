"""The store of one process in a file, which survives a restart. Leases and readers are in memory: they do not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from projector.store import sqlite_tables as tables
from projector.store.budgets import Budgets
from projector.store.protocol import (
    INTERRUPTED,
    LEASE_S,
    Batch,
    Change,
    Page,
    Refusal,
    Renewal,
    StoreLimits,
    StoreUnavailableError,
    StreamHead,
    StreamStatus,
)
from projector.store.shared_budgets import SharedBudgets
from projector.store.sqlite_threads import Threads

_PROBE_BYTES: Final = 65_536


@dataclass(slots=True, eq=False)
class _Live:
    """A stream that this process produces."""

    leased_until_s: float
    read_s: float
    last: int = 0
    cancel_requested: bool = False
    waiting: set[asyncio.Event] = field(default_factory=set)


class SqliteStore:
    """The store in a file. See `projector.store.protocol.Store`.

    A stream that was open when the process ended has no lease: the first reader seals it.

    Args:
        path: of the file; it is created if it does not exist.
        limits: what is kept.
        clock: returns seconds since 1970-01-01 UTC; by default one that is not adjusted while the process runs.
    """

    def __init__(self, path: Path, limits: StoreLimits | None = None, clock: Callable[[], float] | None = None) -> None:
        self._limits = limits or StoreLimits()
        clock = self._clock = clock or _steady_clock()
        self._threads = Threads(path, self._limits, clock)
        self._live: dict[str, _Live] = {}
        self._budgets = SharedBudgets(self, clock)
        self._cancel: Callable[[str], None] = lambda _: None

    @property
    def budgets(self) -> Budgets:
        """See `Store`."""
        return self._budgets

    async def open(self, head: StreamHead) -> bool:
        """See `Store`."""
        is_new = await self._threads.write(lambda writing: writing.open(head))
        if is_new:
            now_s = self._clock()
            self._live[head.stream_id] = _Live(now_s + LEASE_S, now_s)
        return is_new

    async def append(self, batches: Sequence[Batch]) -> Mapping[str, Refusal]:
        """See `Store`."""
        refused = await self._threads.write(lambda writing: writing.append(batches))
        for batch in batches:
            live = self._live.get(batch.stream_id)
            if (refusal := refused.get(batch.stream_id)) is not None:
                if refusal != "gap":
                    self._end(batch.stream_id)
            elif live is not None:
                live.last = batch.first + len(batch.frames) - 1
                _wake(live)
        return refused

    async def seal(
        self,
        stream_id: str,
        *,
        first: int = 0,
        frames: Sequence[bytes] = (),
        reason: str = "",
        ending: bytes = b"",
    ) -> bool:
        """See `Store`."""
        is_first = await self._threads.write(lambda writing: writing.seal(stream_id, first, frames, reason, ending))
        self._end(stream_id)
        return is_first

    async def read(self, stream_id: str, after: int, max_bytes: int) -> Page:
        """See `Store`."""
        page = await self._page(stream_id, after, max_bytes)
        if page.seal is not None or page.frames:
            return page
        if self._threads.failure:  # what would follow may never be written
            raise StoreUnavailableError(self._threads.failure)
        if self._is_leased(stream_id):
            return page
        await self.seal(stream_id, reason=INTERRUPTED)
        return await self._page(stream_id, after, max_bytes)

    async def _page(self, stream_id: str, after: int, max_bytes: int) -> Page:
        await self.touch(stream_id)
        now_s = self._clock()
        return await self._threads.read(
            lambda connection: tables.read(connection, self._limits, stream_id, after, max_bytes, now_s)
        )

    async def wait(self, stream_id: str, after: int, timeout_s: float) -> None:
        """See `Store`."""
        live = self._live.get(stream_id)
        if live is None or live.last > after:
            return
        now_s = live.read_s = self._clock()
        event = asyncio.Event()
        live.waiting.add(event)
        try:
            async with asyncio.timeout(max(0.0, min(timeout_s, live.leased_until_s - now_s))):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            live.waiting.discard(event)
            live.read_s = self._clock()

    async def find(self, stream_id: str) -> StreamStatus | None:
        """See `Store`."""
        row = await self._row(stream_id)
        if row is None:
            self._end(stream_id)
            return None
        if row.seal is None and not self._is_leased(stream_id):
            await self.seal(stream_id, reason=INTERRUPTED)
            row = await self._row(stream_id)
            if row is None:
                return None
        live = self._live.get(stream_id)
        unread_ms = int(1000 * (self._clock() - (row.opened_s if live is None else live.read_s)))
        is_cancelled = live is not None and live.cancel_requested
        return StreamStatus(row.head, row.first, row.last, row.seal, row.seal is None, is_cancelled, unread_ms)

    async def _row(self, stream_id: str) -> tables.Row | None:
        now_s = self._clock()
        return await self._threads.read(lambda connection: tables.find(connection, self._limits, stream_id, now_s))

    async def recent(self, count: int, owner: str | None = None) -> Sequence[StreamStatus]:
        """See `Store`."""
        ids = await self._threads.read(lambda connection: tables.recent(connection, count, owner))
        return [status for one in ids if (status := await self.find(one)) is not None]

    async def delete(self, stream_id: str) -> None:
        """See `Store`."""
        await self._threads.write(lambda writing: writing.delete(stream_id))
        self._end(stream_id)

    async def renew(self, stream_ids: Collection[str]) -> Mapping[str, Renewal]:
        """See `Store`."""
        lost = await self._threads.write(lambda writing: writing.status_of(stream_ids))
        now_s = self._clock()
        renewed: dict[str, Renewal] = {}
        for stream_id, refusal in lost.items():
            live = self._live.get(stream_id)
            if refusal is not None or live is None:
                self._end(stream_id)
                renewed[stream_id] = Renewal(refusal or "unknown", False, 0)
            else:
                live.leased_until_s = now_s + LEASE_S
                renewed[stream_id] = Renewal(None, live.cancel_requested, int(1000 * (now_s - live.read_s)))
        return renewed

    async def touch(self, stream_id: str) -> None:
        """See `Store`."""
        live = self._live.get(stream_id)
        if live is not None:
            live.read_s = self._clock()

    async def request_cancel(self, stream_id: str) -> bool:
        """See `Store`."""
        row = await self._row(stream_id)
        live = self._live.get(stream_id)
        if row is None or row.seal is not None or live is None:
            return False
        if not live.cancel_requested:
            live.cancel_requested = True
            self._cancel(stream_id)
        return True

    def on_cancel(self, callback: Callable[[str], None]) -> None:
        """See `Store`."""
        self._cancel = callback

    async def claim(self, kind: str, key: str, value: bytes, ttl_s: float) -> bytes:
        """See `Store`."""
        return (await self.claim_many(kind, {key: value}, ttl_s))[key]

    async def claim_many(self, kind: str, values: Mapping[str, bytes], ttl_s: float) -> Mapping[str, bytes]:
        """See `Store`."""
        return await self._threads.write(lambda writing: writing.claim(kind, values, ttl_s))

    async def put(self, kind: str, key: str, value: bytes, ttl_s: float) -> None:
        """See `Store`."""
        await self.update(kind, [key], lambda _: [value], ttl_s)

    async def get(self, kind: str, key: str) -> bytes | None:
        """See `Store`."""
        return (await self.get_many(kind, [key]))[0]

    async def get_many(self, kind: str, keys: Sequence[str]) -> list[bytes | None]:
        """See `Store`."""
        now_s = self._clock()
        return await self._threads.read(lambda connection: [tables.get(connection, kind, key, now_s) for key in keys])

    async def drop(self, kind: str, key: str) -> None:
        """See `Store`."""
        await self.update(kind, [key], lambda _: [None], 0)

    async def update(self, kind: str, keys: Sequence[str], change: Change, ttl_s: float) -> None:
        """See `Store`."""
        await self._threads.write(lambda writing: writing.update(kind, keys, change, ttl_s))

    def places(self) -> Sequence[str]:
        """See `Store`."""
        return ()

    def place_of(self, stream_id: str) -> str:  # noqa: ARG002 - there is one
        """See `Store`."""
        return ""

    async def ping(self, place: str = "") -> None:  # noqa: ARG002 - there is one
        """See `Store`."""
        if not self._threads.failure:
            await self._threads.write(lambda writing: writing.sweep())
            return
        await self.put("probe", "probe", bytes(_PROBE_BYTES), LEASE_S)  # nothing else shows that there is room again
        await self.drop("probe", "probe")

    async def aclose(self) -> None:
        """See `Store`."""
        await self._threads.aclose()
        for stream_id in [*self._live]:
            self._end(stream_id)

    def _is_leased(self, stream_id: str) -> bool:
        live = self._live.get(stream_id)
        return live is not None and live.leased_until_s > self._clock()

    def _end(self, stream_id: str) -> None:
        live = self._live.pop(stream_id, None)
        if live is not None:
            _wake(live)


def _steady_clock() -> Callable[[], float]:
    """Return a clock that shows the time of now, and goes on like `time.monotonic`: leases must not see a jump."""
    ahead_s = time.time() - time.monotonic()
    return lambda: ahead_s + time.monotonic()


def _wake(live: _Live) -> None:
    for event in live.waiting:
        event.set()
