"""Logs of the running streams: the frames that this process produces, appended to the store.

A frame is sent to the client of its stream when the store has it (docs/decisions/0038). While one batch is written, the
frames of all streams are collected for the next one. If the store is away, streams do not wait for it: their frames do,
within a limit; beyond that a stream goes on without its log, and cannot be resumed. While the store is away, new
streams have no log from the start. The store in memory needs none of this (`local_logs`).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Final, Literal, TypeAlias

from anyio.lowlevel import checkpoint

from projector.contracts import codec
from projector.contracts.kinds import Kind
from projector.core.delta_frames import DeltaFrames, Output, frames_of
from projector.server.streaming.clock import repeat
from projector.server.telemetry.logs import log, log_crash
from projector.server.telemetry.request_facts import CALLER_MAX_CHARS
from projector.store.protocol import (
    RENEWAL_S,
    Batch,
    Refusal,
    Renewal,
    Store,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    StreamHead,
    StreamStatus,
    UnreadableError,
    new_stream_id,
    reading,
)

NAME_KEPT_S: Final = 86_400.0
"""Seconds that a name is kept, if the stream has not gone before."""
WAITING_MAX_BYTES: Final = 33_554_432
"""Frames of all streams that may wait for the store."""
STREAM_WAITING_MAX_BYTES: Final = 8_388_608
"""Frames of one stream that may wait for the store."""
BEHIND_MAX_BYTES: Final = 262_144
"""Frames of a stream without a client that may wait before it waits for the store."""
_RETRY_S: Final = (0.25, 0.5)
"""Pauses between attempts to reach a store that is away; the last one is repeated."""
_LAST_FLUSH_S: Final = 2.0
"""Seconds that the last frames may take to reach the store at shutdown."""
_LEFTOVERS_MAX: Final = 10_000
"""Incomplete logs that are remembered, to be deleted when the store is back."""
_TERMINALS: Final = frozenset({Kind.FINAL, Kind.ERROR})

_DRAWS: Final = 512
"""Most IDs that are drawn for one at home: of 32 places, one in ten million streams has none then."""
_COUNT_S: Final = 86_400.0
_GOLDEN: Final = 0.618_033_988_75
"""The fractions of its multiples lie evenly, however many there are."""

Loss: TypeAlias = Refusal | Literal["overflow", "full"]
"""Why a log is not continued."""
OnLoss: TypeAlias = Callable[[Loss], None]


class LogState(Enum):
    """Progress of a log."""

    NEW = 0
    STARTED = 1  # the store is to create it
    OPEN = 2
    OVER = 3  # sealed, discarded or lost


NEW, STARTED, OPEN, OVER = LogState  # looked up once here, not once per token in its class


class StreamLog:
    """The log of one stream that this process produces."""

    def __init__(self, logs: StreamLogs, head: StreamHead, on_cancel: Callable[[], None], on_loss: OnLoss) -> None:
        self._logs = logs
        self.head = head
        self.on_cancel = on_cancel
        self.on_loss = on_loss
        self.left_at: float | None = None
        """When the first reader left, in seconds of `time.monotonic`; None while it is there."""
        self.state = NEW
        self.first = 1
        """Number of the first frame that waits."""
        self.waiting: list[bytes] = []
        self.waiting_bytes = 0
        self.is_complete = False
        """Whether the terminal is among the frames that wait."""
        self.describe: Callable[[], bytes] = bytes
        """Returns the ending of the stream, once its terminal exists."""
        self.ending = b""
        self.is_ahead = False
        """Whether the client may have frames that the store does not have, because the store is away."""
        self.names: list[tuple[str, str]] = []
        """Kinds and keys of names of the stream that wait: of one that is added, until its next frames are sent."""
        self._moved = asyncio.Event()
        self._added: list[tuple[list[bytes], int, bool]] = []
        """The frames of each step, their size, and whether the last of them is the terminal."""

    def add(self, output: Sequence[Output], sent: Sequence[bytes | None]) -> None:
        """Add the output of one step of the pipeline, with the JSON that is known. May be called in a thread."""
        written = [data for data in sent if data is not None]
        if len(written) < len(sent):
            written = [
                codec.to_keep(codec.dumps(frame)) if data is None else data
                for frame, data in zip(frames_of(output), sent, strict=True)
            ]
        if written and self.state is not OVER:
            last = output[-1]
            is_last = type(last) is not DeltaFrames and last["kind"] in _TERMINALS
            self._added.append((written, sum(map(len, written)), is_last))

    def notify(self) -> bool:
        """Have what was added written; the first call creates the log. The frames of a step are never separated.

        Return whether the store does not have all of it yet.
        """
        added, state = self._added, self.state
        if state is OPEN and not added:
            return self.is_pending
        self._added = []
        if state is OVER:
            return False
        for frames, size, is_last in added:
            self.waiting += frames
            self.waiting_bytes += size
            self._logs.whole.waiting_bytes += size
            if is_last:
                self.is_complete, self.ending, self.describe = True, self.describe(), bytes
        if state is NEW:
            self.state = STARTED
            self._logs.register(self)
        self._logs.on_change(self)
        return self.is_pending

    @property
    def is_pending(self) -> bool:
        """Whether the store does not have everything that was added."""
        if self.state is OPEN:
            return bool(self.waiting or self.names)
        return self.state is STARTED

    async def stored(self) -> None:
        """Wait until the store has everything that was added, or is away, or the log is not continued."""
        while self.is_pending and self._logs.is_available:
            await self._wait()
        self.is_ahead = self.is_pending

    async def _wait(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    def wake(self) -> None:
        """Have those look again who wait for the store."""
        self._moved.set()

    async def keep_up(self) -> None:
        """Wait while much of the stream is not in the store, unless it was lost."""
        await checkpoint()
        while self.waiting_bytes > BEHIND_MAX_BYTES and self.state is not OVER:
            await self._wait()

    def end(self) -> None:
        """Have the last frames written, if the stream has begun. It begins with the status or the first byte."""
        if self.state is NEW:
            self.close()
        else:
            self.notify()

    def close(self) -> None:
        """Stop collecting, and drop what waits."""
        self.state = OVER
        self._logs.whole.waiting_bytes -= self.waiting_bytes
        self.waiting, self.waiting_bytes, self._added = [], 0, []
        self.names.clear()
        self.describe = bytes
        self.wake()

    def sent(self, count: int, size: int) -> None:
        """Record that the first frames that waited are in the store."""
        del self.waiting[:count]
        self.first += count
        self.waiting_bytes -= size
        self._logs.whole.waiting_bytes -= size
        self.wake()


class StreamLogs:
    """The logs that this process produces, and the tasks that write them.

    Args:
        store: keeps the logs.
        unread_s: seconds that a stream without any reader goes on.
        whole: all logs, if these are those of one place of the store.
        place: of the store.
    """

    def __init__(self, store: Store, *, unread_s: float, whole: StreamLogs | None = None, place: str = "") -> None:
        self.store = store
        self.unread_s = unread_s
        self.whole = whole or self
        self._places: dict[str, StreamLogs] = {}
        self._home = ""
        """The place of new streams: otherwise each write would go to all servers of a cluster."""
        self._place = place
        self._ping = partial(store.ping, place)
        self.waiting_bytes = 0
        self.is_available = True
        """Whether the store worked when it was used last."""
        self.lost: dict[str, int] = {} if whole is None else whole.lost
        """Streams that lost their log, by reason, that had none as the store was away, and of other processes that did
        not end theirs."""
        self.on_written: Callable[[float], None] = lambda _: None
        """Is called with the seconds that the store took for what the logs that have changed wrote together."""
        self._noting: set[asyncio.Task[None]] = set()
        self._open: dict[str, StreamLog] = {}
        self._changed: dict[str, StreamLog] = {}
        self._leftovers: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        if whole is None:
            store.listen(self.cancel, self._note_interrupted)

    def check_store(self) -> None:
        """Have the store used once: if it is away, that is known before the first stream, and it is tried again."""
        self._writing = asyncio.create_task(self._check())

    @property
    def is_sound(self) -> bool:
        """Whether all of the store worked when it was used last."""
        return all(one.is_available for one in (self, *self._places.values()))

    def new_id(self) -> str:
        """Return the ID of a new stream: at home, unless the store is away there."""
        found = new_stream_id()
        home = self._places.get(self._home)
        if self._home and (home is None or home.is_available):
            for _ in range(_DRAWS):
                if self.store.place_of(found) == self._home:
                    break
                found = new_stream_id()
        return found

    def begin(self, head: StreamHead, on_cancel: Callable[[], None], on_loss: OnLoss) -> StreamLog:
        """Return a log for a new stream."""
        return StreamLog(self.at(head.stream_id), head, on_cancel, on_loss)

    def at(self, stream_id: str) -> StreamLogs:
        """Return the logs of the place of a stream: in a Redis Cluster, a server that is away holds up only its own."""
        place = self.store.place_of(stream_id)
        if place and place not in self._places:
            self._places[place] = StreamLogs(self.store, unread_s=self.unread_s, whole=self, place=place)
        return self._places[place] if place else self

    @property
    def open(self) -> int:
        """The number of logs that this process writes."""
        return len(self._open) + sum(one.open for one in self._places.values())

    def register(self, one: StreamLog) -> None:
        """Create a log in the store, with the next batch."""
        self._open[one.head.stream_id] = one
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    def on_change(self, one: StreamLog) -> None:
        """Have the frames of a log written."""
        is_over = one.waiting_bytes > STREAM_WAITING_MAX_BYTES or self.whole.waiting_bytes > WAITING_MAX_BYTES
        if is_over and not one.is_complete:  # the terminal repeats the text, and nothing follows it
            self.lose(one, "overflow")
            return
        self._changed[one.head.stream_id] = one
        if not self._wake.is_set():
            self._wake.set()

    def on_unavailable(self, error: StoreUnavailableError) -> None:
        """Report that the store failed, unless only one value is unreadable, and try it again until it is back."""
        if isinstance(error, UnreadableError):
            return
        self._away(error)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def aclose(self) -> None:
        """Write what waits, within a limit of time, and release the store."""
        await self.stop()
        await self.store.aclose()

    async def stop(self) -> None:
        """Write what waits, within a limit of time."""
        for place in self._places.values():
            await place.stop()
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])
        if self._changed and self.is_available:
            try:
                async with asyncio.timeout(_LAST_FLUSH_S):
                    await self._flush()
            except Exception as error:  # noqa: BLE001 - the store is to be closed all the same
                log.warning("store_unavailable", reason=type(error).__name__)

    # writing

    async def _check(self) -> None:
        await self._reaching(self._settle)
        await self._write()

    async def _settle(self) -> None:
        """Use the store once, and choose a home: the processes that have started last are spread evenly."""
        await self._ping()
        if places := self.store.places():
            count = secrets.randbelow(len(places))  # if the stored value is encrypted with another key

            def counted(stored: Sequence[bytes | None]) -> Sequence[bytes]:
                nonlocal count
                count = int(stored[0] or 0)
                return [b"%d" % (count + 1)]

            with contextlib.suppress(StoreUnavailableError, ValueError):
                await self.store.update("places", ["count"], counted, _COUNT_S)
            self._home = places[int(len(places) * (count * _GOLDEN % 1))]

    async def _write(self) -> None:
        """Write logs and renew leases while there are any: a mounted application is not told when it ends."""
        renew = partial(self._reaching, self._renew, is_flush=False)
        renewing = asyncio.create_task(repeat(renew, RENEWAL_S))
        try:
            await self._flush_until_done()
        finally:
            renewing.cancel()

    async def _flush_until_done(self) -> None:
        while self._open or self._changed or self._leftovers or not self.is_available:
            if not self._open and not self.is_available:
                await self._reaching(self._ping)
                continue
            await self._wake.wait()
            await asyncio.sleep(0)  # others may have frames in the same turn of the event loop
            self._wake.clear()
            await self._reaching(self._flush)

    async def _reaching(self, work: Callable[[], Awaitable[None]], *, is_flush: bool = True) -> None:
        """Do work with the store; if it is away, report that once, and try again until it is back.

        While frames wait, only a flush shows that it is back: on a full disk, leases are renewed all the same.
        """
        attempt = 0
        while True:
            try:
                await work()
                if not (is_flush or self.is_available or not self._changed):
                    return
                if not self.is_available:
                    await self._ping()  # there may have been nothing to do
            except Exception as error:
                if not (is_flush or isinstance(error, StoreUnavailableError)):
                    raise
                self._away(error)
                await asyncio.sleep(_RETRY_S[min(attempt, len(_RETRY_S) - 1)])
                attempt += 1
            else:
                if not self.is_available:
                    self.is_available = True
                    log.info("store_available")
                return

    def _away(self, error: Exception) -> None:
        if self.is_available:
            self.is_available = False
            is_known = isinstance(error, StoreError)
            log.error("store_unavailable", reason=str(error) if is_known else type(error).__name__)
            if not is_known:
                log_crash("task_crashed", error)
            for one in self._open.values():
                one.wake()

    async def _flush(self) -> None:
        """Write what waits of all logs that have changed."""
        await self._delete_leftovers()
        changed = list(self._changed.values())
        began_s = time.monotonic()
        await self._create([one for one in changed if one.state is STARTED])
        await asyncio.gather(*(self._name(one) for one in changed if one.state is OPEN and one.names))
        growing = [one for one in changed if one.state is OPEN and one.waiting and not one.is_complete]
        if growing:
            batches = [Batch(one.head.stream_id, one.first, list(one.waiting)) for one in growing]
            sizes = [one.waiting_bytes for one in growing]
            refused = await self.store.append(batches)
            for one, batch, size in zip(growing, batches, sizes, strict=True):
                if (reason := refused.get(batch.stream_id)) is not None:
                    self.lose(one, reason)
                elif one.state is OPEN:
                    one.sent(len(batch.frames), size)
        await asyncio.gather(*(self._seal(one) for one in changed if one.state is OPEN and one.is_complete))
        if changed:
            self.whole.on_written(time.monotonic() - began_s)
        for one in changed:
            if not one.is_pending:
                self._changed.pop(one.head.stream_id, None)

    async def _create(self, started: Iterable[StreamLog]) -> None:
        async def create(one: StreamLog) -> None:
            try:
                is_new = await self.store.open(one.head)
            except StoreFullError:
                self.lose(one, "full")
                return
            except UnicodeEncodeError:  # in the name of a caller that a host gave
                self.lose(one, "unknown")
                return
            if one.state is not STARTED:
                return
            if is_new or await self._is_ours(one):
                one.state = OPEN
                one.wake()
            else:
                self.lose(one, "sealed")

        await asyncio.gather(*map(create, started))

    async def _name(self, one: StreamLog) -> None:
        names = [*one.names]
        for kind, key in names:
            try:
                await self.store.put(kind, {key: one.head.stream_id.encode()}, NAME_KEPT_S)
            except StoreUnavailableError:
                if not self._place:
                    raise
                # a cluster may have it at another server, which must not hold up this one: the stream has no name
        del one.names[: len(names)]
        one.wake()

    async def _seal(self, one: StreamLog) -> None:
        stream_id = one.head.stream_id
        is_sealed = await self.store.seal(stream_id, first=one.first, frames=list(one.waiting), ending=one.ending)
        if one.state is not OPEN:
            return
        if is_sealed or await self._is_ours(one, is_sealed=True):
            self.on_seal(one)
        else:
            self.lose(one, "unknown" if await self._found(one) is None else "sealed")

    def on_seal(self, one: StreamLog) -> None:
        """Forget a log that is complete."""
        one.close()
        self._open.pop(one.head.stream_id, None)

    async def _is_ours(self, one: StreamLog, *, is_sealed: bool = False) -> bool:
        """Return whether an earlier attempt succeeded, whose answer was lost."""
        status = await self._found(one)
        if status is None or status.head != one.head:
            return False
        return status.seal is None if not is_sealed else status.seal is not None and not status.seal.reason

    async def _found(self, one: StreamLog) -> StreamStatus | None:
        try:
            return await self.store.find(one.head.stream_id)
        except UnreadableError:  # it holds up no other stream
            return None

    def lose(self, one: StreamLog, reason: Loss) -> None:
        """Go on without the log of a stream; its readers elsewhere find that it is interrupted or gone."""
        stream_id = one.head.stream_id
        one.close()
        self._open.pop(stream_id, None)
        self._changed.pop(stream_id, None)
        self.count_lost(reason)
        log.warning("stream_log_lost", stream_id=stream_id, reason=reason)
        if reason in {"overflow", "gap"} and len(self._leftovers) < _LEFTOVERS_MAX:
            self._leftovers[stream_id] = None
        self._wake.set()
        one.on_loss(reason)

    def count_lost(self, reason: Loss | Literal["unavailable", "interrupted"]) -> None:
        """Count a stream that cannot be resumed."""
        self.lost[reason] = self.lost.get(reason, 0) + 1

    def _note_interrupted(self, stream_id: str) -> None:
        self.count_lost("interrupted")
        task = asyncio.create_task(self._log_interrupted(stream_id))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def _log_interrupted(self, stream_id: str) -> None:
        """Log that the producer of a stream did not end it, with what its head has of caller and request."""
        known: dict[str, object] = {}
        with contextlib.suppress(StoreError), reading():
            if (status := await self.store.find(stream_id)) is not None:
                caller = status.head.owner[:CALLER_MAX_CHARS]
                known = {"caller": caller, **dict(codec.loads(status.head.meta)).get("request", {})}
        log.warning("stream_interrupted", stream_id=stream_id, **known)

    async def _delete_leftovers(self) -> None:
        """Delete incomplete logs, whose readers would otherwise wait for a stream that ends elsewhere."""
        while self._leftovers:
            stream_id = next(iter(self._leftovers))
            await self.store.delete(stream_id)
            self._leftovers.pop(stream_id, None)

    # leases

    async def _renew(self) -> None:
        opened = self._renewable()
        if opened:
            self._on_renewals(opened, await self.store.renew(opened))

    def _renewable(self) -> dict[str, StreamLog]:
        return {name: one for name, one in self._open.items() if one.state is OPEN}

    def _on_renewals(self, opened: Mapping[str, StreamLog], renewals: Mapping[str, Renewal]) -> None:
        now = time.monotonic()
        for stream_id, renewal in renewals.items():
            one = opened[stream_id]
            if one.state is not OPEN:
                continue
            if renewal.lost is not None:
                if not one.is_complete:  # otherwise it may have been sealed a moment ago
                    self.lose(one, renewal.lost)
                continue
            unread_s = 0.0 if one.left_at is None else min(now - one.left_at, renewal.unread_ms / 1000)
            if renewal.cancel_requested or unread_s > self.unread_s:
                one.on_cancel()

    def cancel(self, stream_id: str) -> None:
        """Cancel a stream, if its log is written here."""
        if (one := self._open.get(stream_id)) is not None:
            one.on_cancel()
        for place in self._places.values():
            place.cancel(stream_id)
