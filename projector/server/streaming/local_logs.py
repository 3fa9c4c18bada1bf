"""Logs in the memory of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from projector.server.streaming.stream_logs import NAME_KEPT_S, NEW, OPEN, OnLoss, StreamLog, StreamLogs
from projector.store.memory import MemoryStore
from projector.store.protocol import RENEWAL_S, StoreFullError, StreamHead


class LocalLog(StreamLog):
    """The log of one stream in the memory of this process: frames are stored at once, without tasks or waiting."""

    _logs: LocalLogs

    def notify(self) -> bool:
        """Store what was added, and return False; the first call creates the log."""
        added, store, stream_id = self._added, self._logs.memory, self.head.stream_id
        if self.state is NEW:
            self._logs.create(self)
        elif not added:
            return False
        self._added = []
        for kind, key in self.names:
            store.put_now(kind, key, stream_id.encode(), NAME_KEPT_S)
        self.names.clear()
        for frames, size, is_last in added:
            if self.state is not OPEN:
                break
            first, self.first = self.first, self.first + len(frames)
            if not is_last:
                if reason := store.append_now(stream_id, first, frames, size):
                    self._logs.lose(self, reason)
            elif store.seal_now(stream_id, first, frames, ending=self.describe()):
                self._logs.on_seal(self)
            else:
                self._logs.lose(self, store.append_now(stream_id, first, ()) or "sealed")  # why it is not open
        return False


class LocalLogs(StreamLogs):
    """The logs of this process in its own memory, which is never away."""

    def __init__(self, store: MemoryStore, *, unread_s: float) -> None:
        super().__init__(store, unread_s=unread_s)
        self.memory = store
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
            is_new = self.memory.open_now(one.head)
        except StoreFullError:
            self.lose(one, "full")
            return
        if not is_new:
            self.lose(one, "sealed")
            return
        one.state = OPEN
        self._open[one.head.stream_id] = one
        loop = asyncio.get_running_loop()
        if self._renewal is None or self._loop is not loop:
            self._loop, self._renewal = loop, loop.call_later(RENEWAL_S, self._renew_all)

    async def aclose(self) -> None:
        """Release the store."""
        if self._renewal is not None:
            self._renewal.cancel()
        await self.store.aclose()

    def _renew_all(self) -> None:
        """Renew leases as long as there are logs."""
        is_over = self._loop is None or not self._open
        self._renewal = None if is_over else asyncio.get_running_loop().call_later(RENEWAL_S, self._renew_all)
        self._on_renewals(opened := self._renewable(), self.memory.renew_now(opened))
