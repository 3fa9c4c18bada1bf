"""Waiting for the logs of many streams with one blocked `XREAD`. In a cluster they are those of one slot.

A control stream of the process is read with them. Other processes write to it which stream is to be cancelled, and
this process writes to it when the list of streams has grown, which ends a read that blocks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from projector.store.protocol import StoreUnavailableError
from projector.store.redis_connection import BLOCK_MS
from projector.store.redis_logs import RawEntry, number_of
from projector.store.redis_servers import MovingError, Servers

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

    def _obey(self, entries: Sequence[tuple[bytes, dict[bytes, bytes]]]) -> None:
        self._cursor = entries[-1][0].decode()
        for _, fields in entries:
            if b"c" in fields:
                self._on_cancel(fields[b"c"].decode())


def control_message(control: str, name: str, value: str) -> list[tuple[Any, ...]]:
    """Return the commands that write to the control stream of a process."""
    return [("XADD", control, "MAXLEN", "~", CONTROL_MAX, "*", name, value), ("PEXPIRE", control, CONTROL_MS)]
