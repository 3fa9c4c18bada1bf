"""One request to an upstream, read to the end of its answer: attempts, time limits, memory, turns.

It is stopped only while it waits for its upstream: a read that has come is taken whole first, or not at all.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint

from projector.server.config.settings import Retries, Timeouts
from projector.server.streaming.deadlines import Deadlines
from projector.server.streaming.memory import Account
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import ProviderRequest, Upstream, UpstreamError
from projector.server.upstream.retries import wait_s

OnOpen: TypeAlias = Callable[[], Awaitable[None]]
Take: TypeAlias = Callable[[bytes], Awaitable[bool]]
"""Takes one read; gives whether nothing more is wanted."""

_TURN_S: Final = 0.001
"""After so much work of the pipeline others get their turn: where both sides are faster than we are, nothing else makes
us wait. Some hundred events."""


class UpstreamReader:
    """One answer; `run` it once.

    Args:
        stats: of the stream; takes the time of the first byte and of our own work.
        upstream: is asked, perhaps several times.
        request: what it is asked.
        account: holds what is read and not whole.
        timeouts: of the upstream.
        retries: before the first byte.
        on_open: is called when the headers of the answer are there.
        take: takes each read.
    """

    def __init__(
        self,
        stats: StreamStats,
        upstream: Upstream,
        request: ProviderRequest,
        account: Account,
        *,
        timeouts: Timeouts,
        retries: Retries,
        on_open: OnOpen,
        take: Take,
    ) -> None:
        self.is_open = False
        """Whether the upstream is asked, or answers."""
        self.deadlines = Deadlines(timeouts, time.monotonic())
        self._stats = stats
        self._upstream = upstream
        self._request = request
        self._account = account
        self._retries = retries
        self._on_open = on_open
        self._take = take
        self._scope = anyio.CancelScope()
        self._has_bytes = False
        self._is_stopped = False
        self._is_waiting = True

    async def run(self) -> None:
        """Read everything, or until it is stopped.

        Raises:
            UpstreamError: the upstream failed.
        """
        with self._scope:
            await self._run()

    def stop(self) -> None:
        """Read no more."""
        self._is_stopped = True
        if self._is_waiting:
            self._scope.cancel()

    async def feed(self, feed: Callable[[bytes], bytes], chunk: bytes) -> bytes:
        """Take a read through the pipeline, a large event not on the event loop."""
        began = time.monotonic()
        if self._account.read(chunk):
            said = await to_thread.run_sync(feed, chunk)
        else:
            said = feed(chunk)
        self._stats.overhead_s += time.monotonic() - began
        return said

    async def _run(self) -> None:
        """Read one answer; a request that failed before the first byte of it may be made again."""
        for attempt in itertools.count(1):
            self.deadlines.on_attempt(time.monotonic())
            self.is_open = True
            try:
                await self._read()
            except UpstreamError as error:
                chance = random.random()  # noqa: S311 - it spreads load, it guards nothing
                pause_s = wait_s(error, attempt, self._retries, chance)
                if pause_s is None or self._has_bytes or self._is_stopped:
                    raise
            else:
                return
            finally:
                self.is_open = False
            self.deadlines.on_pause()
            await anyio.sleep(pause_s)

    async def _read(self) -> None:
        async with self._upstream.open(self._request) as chunks:
            self._is_waiting = False
            await self._on_open()
            await self._wait_again()
            turn_ends_s = self._stats.overhead_s + _TURN_S
            async for chunk in chunks:
                if self._scope.cancel_called or self._stats.overhead_s >= turn_ends_s:
                    turn_ends_s = self._stats.overhead_s + _TURN_S
                    await checkpoint()  # bytes that come without a pause leave no other moment for it
                self._is_waiting = False
                self._note_bytes()
                if await self._take(chunk):
                    return
                self._is_waiting = True
                if self._is_stopped or self._account.is_spent:
                    await self._wait_again()
                self.deadlines.on_wait(time.monotonic())

    def _note_bytes(self) -> None:
        self.deadlines.on_bytes()
        if not self._has_bytes:
            self._has_bytes = True
            if self._stats.first_byte_at is None:
                self._stats.first_byte_at = time.monotonic()

    async def _wait_again(self) -> None:
        """Let the reading be stopped again, and wait for memory."""
        self._is_waiting = True
        if self._is_stopped:
            self._scope.cancel()
            await checkpoint()
        await self._account.wait_for_turn()
