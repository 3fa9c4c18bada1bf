"""The logs of streams in Redis: each is a Redis stream, an index has which there are, and readers wait for news.

- The first entry, `0-1`, marks the beginning and has no frames.
- An entry with frames has the number of its last frame as its ID, and the fields `n`, their number, and `f`.
- The seal has the highest ID that exists: Redis then refuses every further entry of any caller. It has the fields `a`,
  the number of its first frame, `n`, `f`, `r`, the reason, `t`, the time in milliseconds, and `e`, the ending.

Numbers of streams are exact but for opens at the same instant. Sizes are as producers last reported them, and compared
with their limits every few seconds by one of the processes: until then a store may be over its limit.

One blocked `XREAD` waits for the logs of many streams; in a cluster they are those of one slot. A control stream of the
process is read with them. Other processes write to it which stream is to be cancelled, and this process writes to it
when the list of streams has grown, which ends a read that blocks.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from projector.store.packing import frames_after, pack
from projector.store.protocol import Batch, Page, Seal, StoreFullError, StoreLimits, StoreUnavailableError
from projector.store.redis_connection import BLOCK_MS, Command, accepted, ttl_ms
from projector.store.redis_servers import KINDS, MovingError, Servers, key_of

END: Final = "18446744073709551615-18446744073709551615"
BEGIN: Final = "0-1"
_END_NUMBER: Final = 2**64 - 1

ENTRY_BYTES: Final = 64
"""Memory of an entry besides its content."""
_PARTS: Final = 32
"""Parts of a log that are removed as a whole; so a trim needs no list of all its entries."""

RawEntry: TypeAlias = tuple[bytes, dict[bytes, bytes]]


def begin_entry(key: str) -> Command:
    """Return the command that creates a log."""
    return ("XADD", key, BEGIN, "o", 1)


def batch_entry(key: str, batch: Batch, packed: bytes) -> Command:
    """Return the command that appends a batch. It answers with None if there is no such log."""
    last = batch.first + len(batch.frames) - 1
    return ("XADD", key, "NOMKSTREAM", f"{last}-0", "n", len(batch.frames), "f", packed)


def seal_entry(key: str, first: int, frames: Sequence[bytes], seal: Seal) -> Command:
    """Return the command that closes a log."""
    fields = ("a", first, "n", len(frames), "f", pack(frames), "r", seal.reason, "t", seal.at_ms, "e", seal.ending)
    return ("XADD", key, "NOMKSTREAM", END, *fields)


def number_of(entry: RawEntry) -> int:
    """Return the number of the last frame of an entry that is no seal; 0 for the first entry."""
    return int(entry[0].partition(b"-")[0])


def is_seal(entry: RawEntry) -> bool:
    """Return whether an entry is the seal."""
    return number_of(entry) == _END_NUMBER


def seal_of(entry: RawEntry) -> Seal:
    """Return the seal of its entry."""
    fields = entry[1]
    return Seal(fields[b"r"].decode(), int(fields[b"t"]), fields.get(b"e", b""))


def ends(newest: Sequence[RawEntry]) -> tuple[int, Seal | None]:
    """Return the number of the last frame and the seal, from the last two entries, the last one first."""
    if not newest:
        return 0, None
    if not is_seal(newest[0]):
        return number_of(newest[0]), None
    fields = newest[0][1]
    if count := int(fields[b"n"]):
        return int(fields[b"a"]) + count - 1, seal_of(newest[0])
    return number_of(newest[1]) if len(newest) > 1 else 0, seal_of(newest[0])


def first_of(entry: RawEntry) -> int:
    """Return the number of the first frame of an entry."""
    return int(entry[1][b"a"]) if is_seal(entry) else number_of(entry) - int(entry[1][b"n"]) + 1


def page_of(entries: Sequence[RawEntry], after: int, max_bytes: int) -> Page:
    """Return the frames after a number; see `Store.read`."""
    parts = ((first_of(entry), packed) for entry in entries if (packed := entry[1].get(b"f")))
    frames, is_whole = frames_after(parts, after, max_bytes)
    is_end = is_whole and bool(entries) and is_seal(entries[-1])
    return Page(after + 1, frames, seal_of(entries[-1]) if is_end else None)


class Written:
    """What this process has appended to a log.

    Args:
        owner: of the stream.
        last: number of the last frame.
        limits: of the log.
    """

    def __init__(self, owner: str, last: int, limits: StoreLimits) -> None:
        self.owner = owner
        self.last = last
        self.last_batch: tuple[int, int] = (0, 0)
        """First and last number of the last batch."""
        self.size = 0
        self.place: tuple[str, int] = "", -1
        """See `Servers.state_of`; the log had all frames up to the last one then."""
        self.read: tuple[bytes | None, float] | None = None
        """What readers have left last, and since when it has been there; None if that is not known yet."""
        self._limits = limits
        self._parts: deque[tuple[int, int]] = deque()
        """Last number and size of each part that is complete."""
        self._part_first, self._part_size = last + 1, 0
        self._first = last + 1

    def add(self, batch: Batch, size: int) -> int | None:
        """Record a batch that was appended; return the number of the first frame to keep if the log must be trimmed."""
        limits = self._limits
        is_full = self._part_size + size > limits.stream_bytes // _PARTS
        if self._part_size and (is_full or self.last - self._part_first >= limits.stream_frames // _PARTS):
            self._parts.append((self.last, self._part_size))
            self._part_first, self._part_size = self.last + 1, 0
        self.last = batch.first + len(batch.frames) - 1
        self.last_batch = (batch.first, self.last)
        self._part_size += size
        self.size += size
        before = self._first
        while self._parts and (self.size > limits.stream_bytes or self.last - self._first >= limits.stream_frames):
            last, freed = self._parts.popleft()
            self._first = last + 1
            self.size -= freed
        return self._first if self._first > before else None


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
        return [_text(one) for one in await self._connection.run("ZRANGE", key, 0, count - 1, "REV")]

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
        owner = "" if size is None else _size_and_owner(size)[1]
        await self._connection.run_all(
            [
                *(("DEL", key_of(self._prefix, kind, stream_id)) for kind in KINDS),
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
            await self._connection.run_all(self._forget(expired))
        raw, sealed = await self._connection.run_all([("HGETALL", self._sizes), ("ZRANGE", self._sealed, 0, -1)])
        sizes = {one: _size_and_owner(value) for one, value in raw.items()}
        owners = Counter[str]()
        for size, owner in sizes.values():
            owners[owner] += size
        for one in sealed:
            size, owner = sizes.get(one, (0, ""))
            if owners.total() > self._limits.total_bytes or owners[owner] > self._limits.owner_bytes:
                await self.drop(_text(one))
                owners[owner] -= size
        over = [owner for owner, size in owners.items() if size > self._limits.owner_bytes]
        if owners.total() > self._limits.total_bytes:
            over.append("")
        await self._connection.run_all([("SET", self._full(owner), 1, "PX", _FULL_MS) for owner in over])

    def _forget(self, stream_ids: Sequence[str | bytes]) -> list[Command]:
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
    """Return what `Index.sized` wrote; 0 for a size that it did not write: one value must not end all leases."""
    size, _, owner = _text(value).partition(" ")
    return int(size) if size.isdecimal() else 0, owner


def _text(value: bytes) -> str:
    """Return the text of a member of the index; what is no text is the name of no stream."""
    return value.decode(errors="replace")


CONTROL_MS: Final = 60_000
"""Time that a control stream is kept after the last message."""
CONTROL_MAX: Final = 1_000
_CHECK_S: Final = 1.0
"""Seconds between checks of leases."""
_PAUSE_S: Final = 0.005
"""Pause after news, so that readers wait again before the next read: it saves a third of the cost of an event."""
_RETRY_S: Final = 0.5
_MOVING_S: Final = 0.1
"""Pause while keys move to another server of a cluster: none waits for some that have moved and some that have not."""
_CANCEL_S: Final = 0.1


class _Waiting:
    """Those who wait for one stream."""

    def __init__(self) -> None:
        self.events: dict[asyncio.Event, int] = {}
        """What is set, and the number after which news are waited for."""

    @property
    def after(self) -> int | None:
        """The least number of those who were not woken yet."""
        return min((number for event, number in self.events.items() if not event.is_set()), default=None)

    def wake(self, last: int | None = None) -> None:
        """Wake those who wait for a frame up to `last`; all if it is None."""
        for event, after in self.events.items():
            if last is None or last > after:
                event.set()


class Readers:
    """Those who wait in this process.

    Args:
        connection: to Redis.
        log: returns the key of the log of a stream.
        control: key of the control stream.
        on_cancel: called with the ID of a stream that is to be cancelled.
        check: called about every second with the IDs of streams that are waited for; returns those to look at again.
    """

    def __init__(
        self,
        connection: Servers,
        log: Callable[[str], str],
        control: str,
        on_cancel: Callable[[str], None],
        check: Callable[[Sequence[str]], Awaitable[Sequence[str]]],
    ) -> None:
        self._connection = connection
        self._log = log
        self._control = control
        self._on_cancel = on_cancel
        self._check = check
        self._waiting: dict[str, _Waiting] = {}
        self._cursor = "0-0"
        self._news: dict[str, tuple[int, Sequence[RawEntry]]] = {}
        """What the last read found: the number after which a log was read, and its next entries."""
        self._blocked: set[str] | None = None
        """The streams of the read that blocks; None if there is none, or it will end."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read, if it has not begun."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def wait(self, stream_id: str, after: int, timeout_s: float) -> None:
        """Wait for an entry after a number."""
        self._log(stream_id)  # raises for an ID that is not valid Unicode, as the read for all who wait would
        event = asyncio.Event()
        waiting = self._waiting.setdefault(stream_id, _Waiting())
        waiting.events[event] = after
        try:
            async with asyncio.timeout(timeout_s):
                self.start()
                if self._blocked is not None and stream_id not in self._blocked:
                    self._blocked = None
                    await self._connection.run_all(control_message(self._control, "w", ""))
                await event.wait()
        except TimeoutError:
            pass
        finally:
            del waiting.events[event]
            if not waiting.events and self._waiting.get(stream_id) is waiting:
                del self._waiting[stream_id]

    def news(self, stream_id: str, after: int) -> Sequence[RawEntry]:
        """Return entries after a number that the last read has found, so that they are not fetched twice."""
        since, entries = self._news.get(stream_id, (0, ()))
        if since > after:
            return ()
        return [entry for entry in entries if number_of(entry) > after]

    def wake(self, stream_id: str) -> None:
        """Wake those who wait for a stream."""
        if stream_id in self._waiting:
            self._waiting[stream_id].wake()

    async def aclose(self) -> None:
        """Stop reading, and wake all."""
        while self._task is not None and not self._task.done():
            self._task.cancel()  # once is not enough: redis-py loses one that comes between two of its own steps
            await asyncio.wait([self._task], timeout=_CANCEL_S)
        for waiting in self._waiting.values():
            waiting.wake()

    async def _run(self) -> None:
        checked_s = time.monotonic()
        while True:
            try:
                if await self._read():
                    await asyncio.sleep(_PAUSE_S)
                if self._waiting and time.monotonic() - checked_s >= _CHECK_S:
                    checked_s = time.monotonic()
                    for stream_id in await self._check([*self._waiting]):
                        self.wake(stream_id)
            except MovingError:
                for waiting in self._waiting.values():
                    waiting.wake()  # they read each log at its place
                await asyncio.sleep(_MOVING_S)
            except StoreUnavailableError:
                self._blocked = None
                for waiting in self._waiting.values():
                    waiting.wake()  # their next read shows that the store is away
                await asyncio.sleep(_RETRY_S)

    async def _read(self) -> bool:
        """Wait for news; return whether there were any."""
        self._news = {}
        wanted = {one: waiting.after for one, waiting in self._waiting.items()}
        after = {one: number for one, number in wanted.items() if number is not None}
        self._blocked = {*after}
        ids = {self._log(stream_id): stream_id for stream_id in after}
        names = [self._control, *ids]
        cursors = [self._cursor, *(f"{number}-1" for number in after.values())]
        try:
            asked = ("XREAD", "COUNT", 4, "BLOCK", BLOCK_MS, "STREAMS", *names, *cursors)
            found = await self._connection.block(self._control, *asked)
        finally:
            self._blocked = None
        for name, entries in found or ():
            if name.decode() == self._control:
                self._obey(entries)
                continue
            stream_id = ids[name.decode()]
            if (waiting := self._waiting.get(stream_id)) is not None:
                self._news[stream_id] = after[stream_id], entries
                waiting.wake(number_of(entries[-1]))
        return bool(found)

    def _obey(self, entries: Sequence[RawEntry]) -> None:
        self._cursor = entries[-1][0].decode()
        for _, fields in entries:
            if b"c" in fields:
                self._on_cancel(fields[b"c"].decode())


def control_message(control: str, name: str, value: str) -> list[Command]:
    """Return the commands that write to the control stream of a process."""
    return [("XADD", control, "MAXLEN", "~", CONTROL_MAX, "*", name, value), ("PEXPIRE", control, CONTROL_MS)]
