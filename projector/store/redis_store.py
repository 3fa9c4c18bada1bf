"""The store of any number of processes: Redis 7 or Valkey, one server, one with replicas, or a cluster; no Lua.

Keys of a stream, after the prefix and a hash tag: `log:ID` (see `redis_logs`), `head:ID`, `state:ID` (cancel, last
reader), `lease:ID`, the ID of the process that has it. All of them expire.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

from redis.exceptions import MovedError, ResponseError, WatchError

from projector.store.budgets import Budgets, Change, SharedBudgets
from projector.store.packing import pack, unpack
from projector.store.protocol import (
    INTERRUPTED,
    LEASE_S,
    Batch,
    Page,
    Refusal,
    Renewal,
    Seal,
    StoreLimits,
    StoreUnavailableError,
    StreamHead,
    StreamStatus,
    UnknownStreamError,
    UnreadableError,
    reading,
)
from projector.store.redis_connection import Command, accepted, refused, ttl_ms
from projector.store.redis_logs import (
    BEGIN,
    ENTRY_BYTES,
    Index,
    Readers,
    Written,
    batch_entry,
    begin_entry,
    control_message,
    ends,
    first_of,
    is_seal,
    page_of,
    seal_entry,
)
from projector.store.redis_servers import KINDS, TAGS, MovingError, Servers, key_of, tag_of

_ENTRIES_MIN: Final = 4
_ENTRIES_MAX: Final = 512
"""Entries of one read. How many fit into a page is estimated from those of the last reads."""
_TRIES: Final = 100
"""Tries to change values that others change at the same time."""
_PAUSE_S: Final = 0.01
_PROBE_S: Final = 1.0
_LEASE_MS: Final = int(1_000 * LEASE_S)
PRESENT_S: Final = 3.0
"""Seconds for which Redis must have been there before a lapsed lease counts: after an outage producers renew theirs."""


class RedisStore:
    """The store in Redis. See `projector.store.protocol.Store`.

    Args:
        url: `redis://` or, with TLS, `rediss://`; with credentials if they are needed. See `Servers`.
        process_id: unique ID of this process; `StreamHead.producer` of its streams.
        limits: what is kept; `values` is ignored.
        prefix: of all keys, without braces.
        ca_file: certificates of authorities that are trusted instead of those of the system.
        clock: returns seconds since 1970-01-01 UTC.
        steady: returns seconds of a clock that is not adjusted.
    """

    def __init__(
        self,
        url: str,
        process_id: str,
        limits: StoreLimits | None = None,
        *,
        prefix: str = "projector:",
        ca_file: str | None = None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits or StoreLimits()
        self._connection = Servers(url, ca_file)
        self._prefix = prefix
        self._log, self._head, self._state, self._lease = (partial(key_of, prefix, kind) for kind in KINDS)
        self._process_id = process_id
        self._clock = clock
        self._steady = steady
        self._written: dict[str, Written] = {}
        self._index = Index(self._connection, prefix, self._limits, clock)
        self._readers: dict[str, Readers] = {}
        self.budgets: Budgets = SharedBudgets(self.update, clock)
        self._updating: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """First name of the values of a change that this process makes or waits for -> its lock."""
        self._on_cancel: Callable[[str], None] = lambda _: None
        self._on_interrupted: Callable[[str], None] = lambda _: None
        self._entry_bytes = 2_000.0

    async def open(self, head: StreamHead) -> bool:
        """See `Store`."""
        if head.stream_id in self._written:
            return False
        await self._connection.aside(lambda: self._index.make_room(head.owner))
        stream_id, kept_ms = head.stream_id, ttl_ms(self._limits.open_max_s)
        read = b"%d" % self._now_ms()
        value = pack([head.owner.encode(), head.producer.encode(), str(head.created_ms).encode(), head.meta])
        if await self._connection.run("SET", self._head(stream_id), value, "NX", "GET", "PX", kept_ms) not in {
            None,
            value,
        }:
            return False  # the same value: this command was repeated, because its connection had broken
        commands: list[Command] = [
            begin_entry(self._log(stream_id)),
            ("PEXPIRE", self._log(stream_id), kept_ms),
            ("HSET", self._state(stream_id), "read", read),
            ("PEXPIRE", self._state(stream_id), kept_ms),
            ("SET", self._lease(stream_id), self._process_id, "PX", _LEASE_MS),
        ]
        for answer in await self._connection.run_transaction(commands):
            _refusal(answer)
        written = self._written[stream_id] = Written(head.owner, 0, self._limits)
        written.place = self._connection.state_of(self._log(stream_id))
        written.read = read, self._steady()
        await self._index.record(self._index.opened(stream_id, head.owner))
        self._reader(stream_id).start()
        return True

    async def append(self, batches: Sequence[Batch]) -> Mapping[str, Refusal]:
        """See `Store`. All batches of a call are sent together."""
        refused: dict[str, Refusal] = {}
        asked: list[tuple[Batch, Written, int]] = []
        commands: list[Command] = []
        ahead: dict[str, int] = {}
        for batch in batches:
            written = await self._known(batch.stream_id)
            if isinstance(written, str):
                refused[batch.stream_id] = written
                continue
            if batch.first != ahead.get(batch.stream_id, written.last) + 1:
                if (batch.first, batch.first + len(batch.frames) - 1) != written.last_batch:
                    refused[batch.stream_id] = "gap"
                continue
            packed = pack(batch.frames)
            ahead[batch.stream_id] = batch.first + len(batch.frames) - 1
            asked.append((batch, written, len(packed) + ENTRY_BYTES))
            commands.append(batch_entry(self._log(batch.stream_id), batch, packed))
        trims: list[Command] = []
        moved: list[Batch] = []
        answers = await self._connection.run_all(commands, follow=False)
        for (batch, written, size), answer in zip(asked, answers, strict=True):
            if isinstance(answer, MovedError):
                moved.append(batch)
            elif (refusal := _refusal(answer)) is not None:
                refused[batch.stream_id] = refusal
            elif (first := written.add(batch, size)) is not None:
                trims.append(("XTRIM", self._log(batch.stream_id), "MINID", f"{first}-0"))
        await self._connection.run_all(trims)
        for stream_id in (one for one, refusal in refused.items() if refusal != "gap"):
            self._written.pop(stream_id, None)
        return {**refused, **await self.append(moved)} if moved else refused

    async def seal(
        self, stream_id: str, *, first: int = 0, frames: Sequence[bytes] = (), reason: str = "", ending: bytes = b""
    ) -> bool:
        """See `Store`."""
        written = self._written.get(stream_id)
        if frames:
            known = await self._known(stream_id)
            if isinstance(known, str):
                self._written.pop(stream_id, None)
                return False
            if first != known.last + 1:
                frames, reason, ending = (), INTERRUPTED, b""
        seal = Seal(reason, self._now_ms(), ending)
        entry = seal_entry(self._log(stream_id), first, frames, seal)
        (answer,) = await self._connection.run_all([entry], follow=not frames)
        if isinstance(answer, MovedError) and frames:
            return await self.seal(stream_id, first=first, frames=frames, reason=reason, ending=ending)
        self._written.pop(stream_id, None)
        if _refusal(answer) is not None:
            return False
        kept_ms = ttl_ms(self._limits.retention_s)
        if written is not None:
            owner, size = written.owner, written.size + len(ending) + sum(map(len, frames))
            sized = [self._index.sized(stream_id, owner, size)]
        else:
            head = await self._connection.run("GET", self._head(stream_id))
            owner, sized = "" if head is None else _head_of(stream_id, head).owner, []
        names = (self._log(stream_id), self._head(stream_id), self._state(stream_id))
        await self._connection.run_all(
            [*(("PEXPIRE", name, kept_ms) for name in names), ("DEL", self._lease(stream_id))]
        )
        await self._index.record([*self._index.sealed(stream_id, owner), *sized])
        if reason:
            self._on_interrupted(stream_id)
        return True

    async def read(self, stream_id: str, after: int, max_bytes: int) -> Page:
        """See `Store`."""
        page, is_leased = await self._page(stream_id, after, max_bytes)
        if is_leased or self._connection.present_s(self._log(stream_id)) < PRESENT_S:
            return page
        await self.seal(stream_id, reason=INTERRUPTED)
        page, _ = await self._page(stream_id, after, max_bytes)
        return page

    async def _page(self, stream_id: str, after: int, max_bytes: int) -> tuple[Page, bool]:
        """Return a page, and false if it is empty and the producer has no lease."""
        count = int(min(max(max_bytes / self._entry_bytes, _ENTRIES_MIN), _ENTRIES_MAX))
        log = self._log(stream_id)
        await self._connection.find()
        entries = self._reader(stream_id).news(stream_id, after)
        if not entries:
            entries = await self._connection.run("XRANGE", log, f"({after}-1", "+", "COUNT", count)
            if entries:
                size = sum(len(fields.get(b"f", b"")) for _, fields in entries)
                self._entry_bytes += (size / len(entries) - self._entry_bytes) / 8
        with reading():
            page = page_of(entries, after, max_bytes)
        if page.frames or page.seal is not None:
            return page, True
        looks: list[Command] = [("EXISTS", log), ("EXISTS", self._lease(stream_id))]
        exists, leased = accepted(await self._connection.run_all(looks))
        if not exists:
            raise UnknownStreamError("there is no such stream")
        return page, bool(leased)

    async def wait(self, stream_id: str, after: int, timeout_s: float) -> None:
        """See `Store`."""
        try:
            await self._connection.find()
        except StoreUnavailableError:
            return  # the next read shows that Redis is away
        await self._reader(stream_id).wait(stream_id, after, timeout_s)

    async def find(self, stream_id: str) -> StreamStatus | None:
        """See `Store`."""
        found, is_leased = await self._find(stream_id)
        is_lapsed = found is not None and found.seal is None and not is_leased
        if is_lapsed and self._connection.present_s(self._log(stream_id)) >= PRESENT_S:
            await self.seal(stream_id, reason=INTERRUPTED)
            found, _ = await self._find(stream_id)
        return found

    async def _find(self, stream_id: str) -> tuple[StreamStatus | None, bool]:
        """Return the state of a stream, and whether its producer has a lease."""
        log = self._log(stream_id)
        leased, head, newest, oldest = accepted(
            await self._connection.run_all(
                [
                    ("EXISTS", self._lease(stream_id)),
                    ("GET", self._head(stream_id)),
                    ("XREVRANGE", log, "+", "-", "COUNT", 2),
                    ("XRANGE", log, f"({BEGIN}", "+", "COUNT", 1),
                ]
            )
        )
        if head is None or not newest:
            return None, False
        with reading():
            last, seal = ends(newest)
            has_frames = bool(oldest) and not (is_seal(oldest[0]) and oldest[0][1][b"n"] == b"0")
            first = first_of(oldest[0]) if has_frames else last + 1
        return StreamStatus(_head_of(stream_id, head), first, last, seal), bool(leased)

    async def recent(self, count: int, owner: str | None = None) -> Sequence[StreamStatus]:
        """See `Store`."""

        async def found(stream_id: str) -> StreamStatus | None:
            try:
                return await self.find(stream_id)
            except UnreadableError:
                return StreamStatus(StreamHead(stream_id, owner or "", "", self._now_ms(), b""), 1, 0, None)

        every = await asyncio.gather(*map(found, await self._index.recent(count, owner)))
        return [status for status in every if status is not None]

    async def delete(self, stream_id: str) -> None:
        """See `Store`."""
        self._written.pop(stream_id, None)
        await self._index.drop(stream_id)
        self._reader(stream_id).wake(stream_id)

    async def renew(self, stream_ids: Collection[str]) -> Mapping[str, Renewal]:
        """See `Store`."""
        ids = list(stream_ids)
        leases: list[Command] = [("SET", self._lease(one), self._process_id, "XX", "PX", _LEASE_MS) for one in ids]
        states: list[Command] = [("HMGET", self._state(one), "cancel", "read") for one in ids]
        written = {one: self._written[one] for one in ids if one in self._written}
        sizes = [self._index.sized(one, known.owner, known.size) for one, known in written.items()]
        answers = await self._connection.run_all([*leases, *states])
        renewed: dict[str, Renewal] = {}
        for stream_id, is_held, state in zip(ids, accepted(answers[: len(ids)]), answers[len(ids) :], strict=True):
            cancel, read = state if isinstance(state, list) else (None, None)  # or its key is of another type
            lost = None if is_held else await self._renew_lapsed(stream_id)
            renewed[stream_id] = Renewal(lost, cancel is not None, self._unread_ms(stream_id, read))
            if lost is not None:
                self._written.pop(stream_id, None)
        await self._index.record(sizes)
        await self._connection.aside(self._index.sweep)
        return renewed

    async def _renew_lapsed(self, stream_id: str) -> Refusal | None:
        """Renew the lapsed lease of a stream, unless it was sealed in the meantime; a later seal wins as well."""
        adopted = await self._adopt(stream_id)
        if isinstance(adopted, str):
            return adopted
        await self._connection.run("SET", self._lease(stream_id), self._process_id, "NX", "PX", _LEASE_MS)
        return None

    async def request_cancel(self, stream_id: str) -> bool:
        """See `Store`."""
        status, _ = await self._find(stream_id)
        if status is None or status.seal is not None:
            return False
        if await self._connection.run("HSETNX", self._state(stream_id), "cancel", 1):
            control = self._control(stream_id, status.head.producer)
            await self._connection.run_all(control_message(control, "c", stream_id))
        return True

    def listen(self, on_cancel: Callable[[str], None], on_interrupted: Callable[[str], None], /) -> None:
        """See `Store`."""
        self._on_cancel, self._on_interrupted = on_cancel, on_interrupted

    # values; memory is bounded by their time to live, and by `maxmemory`

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
        async with self._updating.setdefault(names[0], asyncio.Lock()):  # those of one process would only collide
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
        return f"{self._prefix}value:{kind}:" + (f"{{{group}}}{key[len(group) :]}" if mark else key)

    # the store itself

    def places(self) -> Sequence[str]:
        """See `Store`."""
        return TAGS if self._connection.is_cluster else ()

    def place_of(self, stream_id: str) -> str:
        """See `Store`."""
        return tag_of(stream_id) if self._connection.is_cluster else ""

    async def ping(self, place: str = "") -> None:
        """See `Store`. A Redis that is full, or lacks the replicas that it must have, answers but does not write."""
        await self._connection.find()
        places = [place] if place else self.places() or [""]
        probes: list[Command] = [("SET", f"{self._prefix}{one}ping", "", "PX", ttl_ms(_PROBE_S)) for one in places]
        accepted(await self._connection.run_all(probes))
        if not self._connection.is_cluster:
            self._reader("").start()  # from now on it is known whether Redis is there

    async def describe(self) -> str:
        """Return what the URL leads to: a single server, or a cluster."""
        return await self._connection.describe()

    async def check(self) -> None:
        """Raise `StoreUnavailableError` if Redis does not write, or does not keep what is written."""
        await self.ping()
        for policy in await self._connection.policies() - {"noeviction"}:
            raise StoreUnavailableError(
                f"`maxmemory-policy` is {policy}, which drops leases of running streams: expected noeviction"
            )

    async def aclose(self) -> None:
        """See `Store`."""
        await asyncio.gather(*(one.aclose() for one in self._readers.values()))
        await self._connection.aclose()

    def _reader(self, stream_id: str) -> Readers:
        """Return who waits for a stream: in a cluster, for all streams of its slot."""
        place = self.place_of(stream_id)
        if place not in self._readers:
            control = self._control(stream_id, self._process_id)
            self._readers[place] = Readers(self._connection, self._log, control, self._cancelled, self._look)
        return self._readers[place]

    def _control(self, stream_id: str, process_id: str) -> str:
        """Return the name of the stream that tells a process what is to be cancelled."""
        return f"{self._prefix}{self.place_of(stream_id)}control:{process_id}"

    def _cancelled(self, stream_id: str) -> None:
        if stream_id in self._written:
            self._on_cancel(stream_id)

    async def _look(self, stream_ids: Sequence[str]) -> Sequence[str]:
        """Record that streams are read; return those without a lease."""
        now_ms, kept_ms = self._now_ms(), ttl_ms(self._limits.open_max_s)
        commands: list[Command] = []
        for stream_id in stream_ids:
            commands.append(("HSET", self._state(stream_id), "read", now_ms))
            commands.append(("PEXPIRE", self._state(stream_id), kept_ms, "NX"))
        await self._connection.run_all(commands)
        kept = accepted(await self._connection.run_all([("EXISTS", self._lease(one)) for one in stream_ids]))
        return [one for one, is_kept in zip(stream_ids, kept, strict=True) if not is_kept]

    async def _known(self, stream_id: str) -> Written | Refusal:
        """Return the state of a log, or why nothing can be appended.

        What a failover has lost cannot be repeated: the log is sealed, instead of having a gap.
        """
        written, place = self._written.get(stream_id), self._connection.state_of(self._log(stream_id))
        if written is None or written.place != place:
            last = 0 if written is None else written.last
            adopted = await self._adopt(stream_id)
            if isinstance(adopted, str):
                return adopted
            written, found = adopted
            if found < last:
                await self.seal(stream_id, reason=INTERRUPTED)
                return "sealed"
            written.place = place
        return written

    async def _adopt(self, stream_id: str) -> tuple[Written, int] | Refusal:
        """Return the state of a log and the number of its last frame in Redis, or why nothing can be appended."""
        answers = await self._connection.run_all(
            [
                ("XREVRANGE", self._log(stream_id), "+", "-", "COUNT", 1),
                ("EXISTS", self._log(stream_id)),
                ("GET", self._head(stream_id)),
            ]
        )
        if (refusal := _refusal(answers[0])) is not None:
            return refusal
        newest, exists, head = accepted(answers)
        if not exists or head is None:
            return "unknown"
        try:
            with reading():
                last, seal = ends(newest)
            if seal is not None:
                return "sealed"
            owner = _head_of(stream_id, head).owner
        except UnreadableError:  # of this stream only: the leases of others are renewed with its own
            return "unknown"
        return self._written.setdefault(stream_id, Written(owner, last, self._limits)), last

    def _unread_ms(self, stream_id: str, read: bytes | None) -> int:
        """Return the time since a reader was seen; 0 soon after an outage, in which none could be seen.

        It counts since the value was another one: readers write it by clocks of their own, which may be wrong.
        """
        written, now_s = self._written.get(stream_id), self._steady()
        if written is None:
            return 0
        is_present = self._connection.present_s(self._log(stream_id)) >= PRESENT_S
        if written.read is None or written.read[0] != read or not is_present:
            written.read = read, now_s
        return int(1_000 * (now_s - written.read[1]))

    def _now_ms(self) -> int:
        return int(1_000 * self._clock())


def _head_of(stream_id: str, value: bytes) -> StreamHead:
    with reading():
        owner, producer, created, meta, *_ = unpack(value)
        return StreamHead(stream_id, owner.decode(), producer.decode(), int(created), meta)


def _refusal(answer: object) -> Refusal | None:
    """Return why an entry was refused.

    Raises:
        StoreUnavailableError: for another reason than the state of the log.
    """
    if answer is None:
        return "unknown"
    if not isinstance(answer, ResponseError):
        return None
    if "exhausted the last possible ID" in str(answer):
        return "sealed"
    if "equal or smaller" in str(answer):  # it was appended, and the answer lost
        return None
    failure = refused(answer)
    if isinstance(failure, UnreadableError):  # the key is of another type
        return "unknown"
    raise failure
