"""Values on their way to a store: they are written in the background, and again while the store is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from projector.store.protocol import StoreUnavailableError

_RETRY_S: Final = 1.0
_LAST_S: Final = 2.0
"""Seconds for the last values at shutdown."""

K = TypeVar("K")
V = TypeVar("V")


class BackgroundWrites(Generic[K, V]):
    """Values that wait. They may be added to `waiting` in any thread, so adding one starts nothing.

    Args:
        put: writes a batch; raises `StoreUnavailableError`.
        is_wanted: whether the value of a key is written again after the store was away.
    """

    def __init__(
        self, put: Callable[[dict[K, V]], Awaitable[object]], is_wanted: Callable[[K], bool] = lambda _key: True
    ) -> None:
        self.waiting: dict[K, V] = {}
        self._put = put
        self._is_wanted = is_wanted
        self._writing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write what waits."""
        if self.waiting and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write())

    async def aclose(self) -> None:
        """Write what waits, for a moment."""
        self.start()
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=_LAST_S)
            self._writing.cancel()

    async def _write(self) -> None:
        while self.waiting:
            batch, self.waiting = self.waiting, {}
            try:
                await self._put(batch)
            except StoreUnavailableError:
                kept = {key: value for key, value in batch.items() if self._is_wanted(key)}
                self.waiting = {**kept, **self.waiting}
                await asyncio.sleep(_RETRY_S)
