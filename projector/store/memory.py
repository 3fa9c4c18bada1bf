"""The store in the memory of one process: bounded, and gone with the process."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final, Self

from projector.store.budgets import Budgets, Change, MemoryBudgets
from projector.store.packing import FRAME_BYTES, FrameBlocks, size_of
from projector.store.protocol import (
    INTERRUPTED,
    LEASE_S,
    Batch,
    Page,
    Refusal,
    Renewal,
    Seal,
    Store,
    StoreFullError,
    StoreLimits,
    StreamHead,
    StreamStatus,
    TrimmedError,
    UnknownStreamError,
)

STREAM_BYTES: Final = 2_000
"""Memory of a stream without frames."""
_TRIM_PART: Final = 8
"""An eighth of the frames is removed at once, at least. Removing them one by one would take quadratic time."""


@dataclass(slots=True)
class _Taken:
    """What logs take up."""

    streams: int = 0
    size: int = 0


_NOTHING: Final = _Taken()


class Room:
    """What the logs of a store take up, together and by owner. At a limit, those that were sealed first are dropped.

    Args:
        limits: what is kept.
        log_bytes: size of a log without frames.
        drop: drops the log that was sealed first, of an owner or, for None, of all; returns whether there was one.
    """

    def __init__(self, limits: StoreLimits, log_bytes: int, drop: Callable[[str | None], bool]) -> None:
        self._limits = limits
        self._log_bytes = log_bytes
        self._drop = drop
        self.total = _Taken()
        self.owned: defaultdict[str, _Taken] = defaultdict(_Taken)

    def add(self, owner: str, streams: int, size: int) -> None:
        """Count streams and bytes of an owner; negative numbers remove them."""
        owned = self.owned[owner]
        for taken in (self.total, owned):
            taken.streams += streams
            taken.size += size
        if not owned.streams:
            del self.owned[owner]

    def make(self, owner: str) -> None:
        """Drop logs until there is room for another one of an owner; raise `StoreFullError` if there are none left."""
        limits = self._limits
        while (
            self._is_owner_full(owner)
            or self.total.streams >= limits.total_streams
            or self.total.size + self._log_bytes > limits.total_bytes
        ):
            if not self._drop_for(owner):
                raise StoreFullError("the store is full of streams that are not over")

    def shrink(self, owner: str) -> int:
        """Drop logs until the others are not too large; return by how many bytes those of this owner still are."""
        limits = self._limits
        while True:
            over = max(self.owned[owner].size - limits.owner_bytes, self.total.size - limits.total_bytes)
            if over <= 0 or not self._drop_for(owner):
                return over

    def _drop_for(self, owner: str) -> bool:
        return self._drop(owner if self._is_owner_full(owner) else None)

    def _is_owner_full(self, owner: str) -> bool:
        owned, limits = self.owned.get(owner, _NOTHING), self._limits
        return owned.streams >= limits.owner_streams or owned.size + self._log_bytes > limits.owner_bytes


@dataclass(slots=True, eq=False)
class Live:
    """What only the process of a stream knows: its lease, who waits for it, and whether it is to be cancelled."""

    read_s: float
    leased_until_s: float
    cancel_requested: bool = False
    waiting: set[asyncio.Event] = field(default_factory=set)

    @classmethod
    def begin(cls, now_s: float, **more: Any) -> Self:
        """Return a new stream with its lease."""
        return cls(now_s, now_s + LEASE_S, **more)

    def renew(self, now_s: float) -> Renewal:
        """Renew the lease."""
        self.leased_until_s = now_s + LEASE_S
        return Renewal(None, self.cancel_requested, int(1000 * (now_s - self.read_s)))

    async def wait(self, timeout_s: float, clock: Callable[[], float]) -> None:
        """Wait for news, at most until the lease lapses."""
        now_s = self.read_s = clock()
        event = asyncio.Event()
        self.waiting.add(event)
        try:
            async with asyncio.timeout(max(0.0, min(timeout_s, self.leased_until_s - now_s))):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            self.waiting.discard(event)
            self.read_s = clock()

    def wake(self) -> None:
        """Wake all who wait."""
        for event in self.waiting:
            event.set()


@dataclass(slots=True, eq=False, kw_only=True)
class _Log(Live):
    head: StreamHead
    opened_s: float
    frames: FrameBlocks = field(default_factory=FrameBlocks)
    last_first: int = 0
    """Number of the first frame of the last batch."""
    trimmed: int = 0
    size: int = STREAM_BYTES
    seal: Seal | None = None
    sealed_s: float = 0.0

    @property
    def last(self) -> int:
        return self.trimmed + self.frames.count

    def trim(self, max_bytes: int, max_frames: int) -> int:
        """Remove the first frames of a log that is over a limit; return their size."""
        count = self.frames.count
        if self.size <= max_bytes and count <= max_frames:
            return 0
        dropped, freed = self.frames.drop(max(count - max_frames, count // _TRIM_PART), self.size - max_bytes)
        self.trimmed += dropped
        self.size -= freed
        return freed


class MemoryStore(Store):
    """The store of a single process. See `projector.store.protocol.Store`.

    What ends with `_now` does not wait: an event is stored in less time than a task takes.

    Args:
        limits: what is kept.
        clock: returns seconds and should not be adjusted, like `time.monotonic`.
        wall_clock: returns seconds since 1970-01-01 UTC.
    """

    def __init__(
        self,
        limits: StoreLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._limits = limits or StoreLimits()
        self._clock = clock
        self._wall_clock = wall_clock
        self.budgets: Budgets = MemoryBudgets(clock)
        self._open: OrderedDict[str, _Log] = OrderedDict()
        """Logs that are not sealed, oldest first."""
        self._sealed: OrderedDict[str, _Log] = OrderedDict()
        """Logs that are sealed, in the order of their seals."""
        self._sealed_of: defaultdict[str, OrderedDict[str, None]] = defaultdict(OrderedDict)
        """The IDs of those of each owner, in the same order."""
        self._room = Room(self._limits, STREAM_BYTES, self._drop_sealed)
        self._values: defaultdict[str, OrderedDict[str, tuple[bytes, float]]] = defaultdict(OrderedDict)
        self._cancel: Callable[[str], None] = lambda _: None

    async def open(self, head: StreamHead) -> bool:
        """See `Store`."""
        return self.open_now(head)

    def open_now(self, head: StreamHead) -> bool:
        """Do what `open` does."""
        self._sweep()
        if head.stream_id in self._open or head.stream_id in self._sealed:
            return False
        self._room.make(head.owner)
        now_s = self._clock()
        self._open[head.stream_id] = _Log.begin(now_s, head=head, opened_s=now_s)
        self._room.add(head.owner, 1, STREAM_BYTES)
        return True

    async def append(self, batches: Sequence[Batch]) -> Mapping[str, Refusal]:
        """See `Store`."""
        self._sweep()
        refusals = ((batch.stream_id, self.append_now(*batch)) for batch in batches)
        return {stream_id: refusal for stream_id, refusal in refusals if refusal is not None}

    def append_now(
        self, stream_id: str, first: int, frames: Sequence[bytes], size: int | None = None
    ) -> Refusal | None:
        """Append a batch, as `append` does, but drop no log that has expired: the next renewal does.

        `size` is the size of the frames, if it is known.
        """
        log = self._open.get(stream_id)
        if log is None:
            return self._lost(stream_id)
        if first == log.trimmed + log.frames.count + 1:
            self._extend(log, frames, size)
            return None
        is_repeated = (first, log.last) == (log.last_first, first + len(frames) - 1)
        return None if is_repeated else "gap"

    def _lost(self, stream_id: str) -> Refusal:
        """Return why a log is not written by this process any more."""
        return "sealed" if stream_id in self._open or stream_id in self._sealed else "unknown"

    async def seal(
        self, stream_id: str, *, first: int = 0, frames: Sequence[bytes] = (), reason: str = "", ending: bytes = b""
    ) -> bool:
        """See `Store`."""
        return self.seal_now(stream_id, first, frames, reason, ending)

    def seal_now(
        self, stream_id: str, first: int = 0, frames: Sequence[bytes] = (), reason: str = "", ending: bytes = b""
    ) -> bool:
        """Do what `seal` does."""
        log = self._open.get(stream_id)
        if log is None:
            return False
        if frames and first != log.last + 1:
            frames, reason, ending = (), INTERRUPTED, b""
        if frames:
            self._extend(log, frames)
        log.size += len(ending)
        self._room.add(log.head.owner, 0, len(ending))
        self._close(log, reason, ending)
        return True

    async def read(self, stream_id: str, after: int, max_bytes: int) -> Page:
        """See `Store`."""
        log = self._get(stream_id)
        if log is None:
            raise UnknownStreamError("there is no such stream")
        if after < log.trimmed:
            raise TrimmedError("the next frames of the stream are not kept any more")
        log.read_s = self._clock()
        start = after - log.trimmed
        frames = page_of(log.frames.read(start), max_bytes)
        is_end = start + len(frames) >= log.frames.count
        if is_end:
            self._check_lease(log)
        return Page(after + 1, frames, log.seal if is_end else None)

    async def wait(self, stream_id: str, after: int, timeout_s: float) -> None:
        """See `Store`."""
        log = self._open.get(stream_id)
        if log is not None and log.last <= after:
            await log.wait(timeout_s, self._clock)

    async def find(self, stream_id: str) -> StreamStatus | None:
        """See `Store`."""
        log = self._get(stream_id)
        return None if log is None else self._status(log)

    async def recent(self, count: int, owner: str | None = None) -> Sequence[StreamStatus]:
        """See `Store`."""
        self._sweep()
        logs = chain(reversed(self._open.values()), reversed(self._sealed.values()))
        found = islice((log for log in logs if owner is None or log.head.owner == owner), count)
        return [self._status(log) for log in [*found]]

    def _status(self, log: _Log) -> StreamStatus:
        self._check_lease(log)
        return StreamStatus(log.head, log.trimmed + 1, log.last, log.seal)

    async def delete(self, stream_id: str) -> None:
        """See `Store`."""
        self._drop(stream_id)

    async def renew(self, stream_ids: Collection[str]) -> Mapping[str, Renewal]:
        """See `Store`."""
        return self.renew_now(stream_ids)

    def renew_now(self, stream_ids: Collection[str]) -> Mapping[str, Renewal]:
        """Do what `renew` does."""
        self._sweep()
        now_s = self._clock()
        renewed: dict[str, Renewal] = {}
        for stream_id in stream_ids:
            log = self._open.get(stream_id)
            renewed[stream_id] = Renewal(self._lost(stream_id), False, 0) if log is None else log.renew(now_s)
        return renewed

    async def request_cancel(self, stream_id: str) -> bool:
        """See `Store`."""
        log = self._open.get(stream_id)
        if log is None:
            return False
        if not log.cancel_requested:
            log.cancel_requested = True
            self._cancel(stream_id)
        return True

    def listen(self, on_cancel: Callable[[str], None], _on_interrupted: Callable[[str], None], /) -> None:
        """See `Store`. There are no streams of other processes, which may not end theirs."""
        self._cancel = on_cancel

    async def claim(self, kind: str, values: Mapping[str, bytes], ttl_s: float) -> Mapping[str, bytes]:
        """See `Store`."""
        stored = {key: self._find(kind, key) for key in values}
        for key, found in stored.items():
            if found is None:
                self.put_now(kind, key, values[key], ttl_s)
        return {key: values[key] if found is None else found for key, found in stored.items()}

    async def put(self, kind: str, values: Mapping[str, bytes], ttl_s: float) -> None:
        """See `Store`."""
        for key, value in values.items():
            self.put_now(kind, key, value, ttl_s)

    async def get(self, kind: str, keys: Sequence[str]) -> list[bytes | None]:
        """See `Store`."""
        return [self._find(kind, key) for key in keys]

    async def update(self, kind: str, keys: Sequence[str], change: Change, ttl_s: float) -> None:
        """See `Store`."""
        changed = change([self._find(kind, key) for key in keys])
        for key, value in zip(keys, changed or (), strict=changed is not None):
            if value is None:
                self._values[kind].pop(key, None)
            else:
                self.put_now(kind, key, value, ttl_s)

    def _find(self, kind: str, key: str) -> bytes | None:
        value, until_s = self._values[kind].get(key, (None, 0.0))
        return value if until_s > self._clock() else None

    def put_now(self, kind: str, key: str, value: bytes, ttl_s: float) -> None:
        """Do what `put` does."""
        values = self._values[kind]
        values[key] = (value, self._clock() + ttl_s)
        values.move_to_end(key)
        if len(values) > self._limits.values:
            values.popitem(last=False)

    async def ping(self, place: str = "") -> None:
        """See `Store`."""

    async def aclose(self) -> None:
        """See `Store`."""
        for stream_id in [*self._open, *self._sealed]:
            self._drop(stream_id)

    def _get(self, stream_id: str) -> _Log | None:
        self._sweep()
        return self._open.get(stream_id) or self._sealed.get(stream_id)

    def _extend(self, log: _Log, frames: Sequence[bytes], size: int | None = None) -> None:
        owner, limits, room = log.head.owner, self._limits, self._room
        total, owned = room.total, room.owned[owner]
        log.last_first = log.trimmed + log.frames.count + 1
        log.frames.extend(frames)
        size = size_of(frames) if size is None else size + FRAME_BYTES * len(frames)
        log.size += size
        total.size += size
        owned.size += size
        if log.size > limits.stream_bytes or log.frames.count > limits.stream_frames:
            room.add(owner, 0, -log.trim(limits.stream_bytes, limits.stream_frames))
        if (owned.size > limits.owner_bytes or total.size > limits.total_bytes) and (over := room.shrink(owner)) > 0:
            room.add(owner, 0, -log.trim(log.size - over, limits.stream_frames))
        if log.waiting:
            log.wake()

    def _drop_sealed(self, owner: str | None) -> bool:
        """Drop the log that was sealed first, of an owner or of all; return whether there was one."""
        found = next(iter(self._sealed if owner is None else self._sealed_of.get(owner, ())), None)
        if found is not None:
            self._drop(found)
        return found is not None

    def _close(self, log: _Log, reason: str, ending: bytes = b"") -> None:
        log.seal = Seal(reason, int(1000 * self._wall_clock()), ending)
        log.sealed_s = self._clock()
        del self._open[log.head.stream_id]
        self._sealed[log.head.stream_id] = log
        self._sealed_of[log.head.owner][log.head.stream_id] = None
        log.wake()

    def _check_lease(self, log: _Log) -> None:
        if log.seal is None and log.leased_until_s <= self._clock():
            self._close(log, INTERRUPTED)

    def _drop(self, stream_id: str) -> None:
        log = self._open.pop(stream_id, None) or self._sealed.pop(stream_id, None)
        if log is None:
            return
        owner = log.head.owner
        self._sealed_of[owner].pop(stream_id, None)
        if not self._sealed_of[owner]:
            del self._sealed_of[owner]
        self._room.add(owner, -1, -log.size)
        log.wake()

    def _sweep(self) -> None:
        """Drop what has expired. Each log is looked at once, when it is its turn."""
        now_s, limits = self._clock(), self._limits
        while self._sealed and next(iter(self._sealed.values())).sealed_s + limits.retention_s <= now_s:
            self._drop(next(iter(self._sealed)))
        while self._open and next(iter(self._open.values())).opened_s + limits.open_max_s <= now_s:
            self._drop(next(iter(self._open)))


def page_of(frames: Iterable[bytes], max_bytes: int) -> list[bytes]:
    """Return the first frames that have at most `max_bytes` together, but at least one."""
    page: list[bytes] = []
    size = 0
    for frame in frames:
        size += len(frame)
        if size > max_bytes and page:
            break
        page.append(frame)
    return page
