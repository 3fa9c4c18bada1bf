"""Logs in the memory of this process: frames are stored at once, without tasks, batches or waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from projector.server.streaming.placed_logs import PlacedLogs
from projector.server.streaming.stream_logs import NAME_KEPT_S, LogState, OnLoss, StreamLog, StreamLogs
from projector.store.memory import MemoryStore
from projector.store.protocol import RENEWAL_S, Store, StoreFullError, StreamHead


def make_logs(store: Store, *, unread_s: float) -> StreamLogs:
    """Return the logs of a store."""
    if isinstance(store, MemoryStore):
        return LocalLogs(store, unread_s=unread_s)
    return PlacedLogs(store, unread_s=unread_s)


class LocalLog(StreamLog):
    """The log of one stream in the memory of this process."""

    def __init__(self, logs: LocalLogs, head: StreamHead, on_cancel: Callable[[], None], on_loss: OnLoss) -> None:
        super().__init__(logs, head, on_cancel, on_loss)
        self._local = logs

    def notify(self) -> None:
        """Store what was added; the first call creates the log."""
        added = self._added
        if self.state is not LogState.OPEN:
            if self.state is LogState.NEW:
                self._local.create(self)
        elif not added:
            return
        self._added = []
        if self.names:
            self._local.name(self)
        for frames, size, is_last in added:
            if self.state is LogState.OPEN:
                self._local.write(self, frames, size, is_last=is_last)


class LocalLogs(StreamLogs):
    """The logs of this process in its own memory, which is never away."""

    def __init__(self, store: MemoryStore, *, unread_s: float) -> None:
        super().__init__(store, unread_s=unread_s)
        self._memory = store
        self._renewal: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def check_store(self) -> None:
        """Do nothing."""

    def begin(self, head: StreamHead, on_cancel: Callable[[], None], on_loss: OnLoss) -> StreamLog:
        """Return a log for a new stream."""
        return LocalLog(self, head, on_cancel, on_loss)

    def create(self, one: LocalLog) -> None:
        """Create a log in the store."""
        try:
            is_new = self._memory.open_now(one.head)
        except StoreFullError:
            self._lose(one, "full")
            return
        if not is_new:
            self._lose(one, "sealed")
            return
        one.state = LogState.OPEN
        self._open[one.head.stream_id] = one
        loop = asyncio.get_running_loop()
        if self._renewal is None or self._loop is not loop:
            self._loop = loop
            self._renewal = loop.call_later(RENEWAL_S, self._renew_all)

    def name(self, one: LocalLog) -> None:
        """Store the names of a stream."""
        for kind, key in one.names:
            self._memory.put_now(kind, key, one.head.stream_id.encode(), NAME_KEPT_S)
        one.names.clear()

    def write(self, one: LocalLog, frames: list[bytes], size: int, *, is_last: bool) -> None:
        """Store the frames of one step, and seal the log after its terminal."""
        stream_id, first = one.head.stream_id, one.first
        one.first += len(frames)
        if not is_last:
            if reason := self._memory.append_now(stream_id, first, frames, size):
                self._lose(one, reason)
        elif self._memory.seal_now(stream_id, first, frames, ending=one.describe()):
            one.close()
            del self._open[stream_id]
        else:
            self._lose(one, "sealed")

    async def aclose(self) -> None:
        """Release the store."""
        if self._renewal is not None:
            self._renewal.cancel()
        await self.store.aclose()

    def _renew_all(self) -> None:
        """Renew leases as long as there are logs."""
        self._renewal = None
        self._on_renewals(opened := self._renewable(), self._memory.renew_now(opened))
        if self._open and self._loop is not None:
            self._renewal = self._loop.call_later(RENEWAL_S, self._renew_all)
