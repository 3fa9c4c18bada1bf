"""One request to an upstream, read to the end of its response: attempts, deadlines, memory, fairness.

A reader is stopped only while it waits for its upstream: a chunk that was received is processed whole.
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

from projector.core.faults import FAULTS, Fault
from projector.server.config.settings import Retries, Timeouts
from projector.server.streaming.deadlines import Clock, Deadlines, Timer
from projector.server.streaming.memory import Account
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.protocol import ProviderRequest, Upstream, UpstreamError

OnOpen: TypeAlias = Callable[[], Awaitable[None]]
OnChunk: TypeAlias = Callable[[bytes], Awaitable[bool]]
"""Processes one chunk; returns whether the rest of the response is not needed."""

_TURN_S: Final = 0.001
"""Seconds of pipeline work, a few hundred events, after which other tasks may run. If both upstream and client are
fast, nothing else yields to the event loop."""

_NOT_RETRIED: Final = frozenset({"upstream_timeout_first_byte", "upstream_timeout_total"})
"""Retryable for the client, but not here: the client has waited long enough."""


class UpstreamReader:
    """Reads one response; `run` it once. The stats receive the time of the first byte and of the pipeline's work."""

    def __init__(
        self,
        upstream: Upstream,
        request: ProviderRequest,
        stats: StreamStats,
        account: Account,
        *,
        timeouts: Timeouts,
        retries: Retries,
        name: str = "",
    ) -> None:
        self.is_open = False
        """Whether a request is pending, or its response is being read."""
        self._name = name
        self._upstream = upstream
        self._request = request
        self._stats = stats
        self._account = account
        self._timeouts = timeouts
        self._retries = retries
        self._deadlines = Deadlines(timeouts, time.monotonic())
        self._scope = anyio.CancelScope()
        self._fault: Fault | None = None
        self._has_bytes = False
        self._is_stopped = False
        self._is_waiting = True

    async def run(self, clock: Clock, on_open: OnOpen, on_chunk: OnChunk) -> None:
        """Read the response to its end, or until `stop`; `on_open` is called when its headers were received.

        Raises:
            UpstreamError: the upstream failed, or exceeded a time limit.
        """
        limits = self._timeouts
        shortest_s = min(limits.first_byte_s, limits.idle_s)
        with clock.watch(Timer(lambda: self._deadlines.next()[0], self._on_timeout, shortest_s)), self._scope:
            await self._run(on_open, on_chunk)
            return
        if self._fault is not None:
            raise self._counted(UpstreamError(self._fault))

    def stop(self) -> None:
        """Stop reading."""
        self._is_stopped = True
        if self._is_waiting:
            self._scope.cancel()

    async def feed(self, feed: Callable[[bytes], bytes], chunk: bytes) -> bytes:
        """Feed a chunk to a pipeline and return the output; a large event is processed off the event loop."""
        began = time.monotonic()
        output = await to_thread.run_sync(feed, chunk) if self._account.read(chunk) else feed(chunk)
        self._stats.overhead_s += time.monotonic() - began
        return output

    def _on_timeout(self) -> None:
        if not self._is_stopped:
            self._fault = FAULTS[self._deadlines.next()[1]]
            self.stop()

    async def _run(self, on_open: OnOpen, on_chunk: OnChunk) -> None:
        """Read one response; a request that failed before the first byte of it may be sent again."""
        for attempt in itertools.count(1):
            self._deadlines.on_attempt(time.monotonic())
            self.is_open = True
            try:
                await self._read(on_open, on_chunk)
            except UpstreamError as error:
                self._counted(error)
                pause_s = backoff_s(error, attempt, self._retries, random.random())  # noqa: S311 - it spreads load
                if not may_retry(error, attempt, self._retries):
                    error.should_retry = False
                if pause_s is None or self._has_bytes or self._is_stopped:
                    raise
            else:
                return
            finally:
                self.is_open = False
            self._deadlines.pause()
            await anyio.sleep(pause_s)

    def _counted(self, error: UpstreamError) -> UpstreamError:
        self._stats.upstream_failures[self._name, error.fault.code, error.reason] += 1
        return error

    async def _read(self, on_open: OnOpen, on_chunk: OnChunk) -> None:
        async with self._upstream.open(self._request) as chunks:
            if self._is_stopped:
                await checkpoint()  # the scope is cancelled, and nothing that is sent may be interrupted
            self._is_waiting = False
            await on_open()
            await self._wait_again()
            turn_ends_s = self._stats.overhead_s + _TURN_S
            async for chunk in chunks:
                if self._scope.cancel_called or self._stats.overhead_s >= turn_ends_s:
                    turn_ends_s = self._stats.overhead_s + _TURN_S
                    await checkpoint()  # chunks that arrive without a pause leave no other moment for it
                self._is_waiting = False
                self._on_bytes()
                if await on_chunk(chunk):
                    return
                self._is_waiting = True
                if self._is_stopped or self._account.memory.is_spent:
                    await self._wait_again()
                self._deadlines.on_wait(time.monotonic())

    def _on_bytes(self) -> None:
        self._deadlines.pause()
        if not self._has_bytes:
            self._has_bytes = True
            if self._stats.first_byte_at is None:
                self._stats.first_byte_at = time.monotonic()

    async def _wait_again(self) -> None:
        """Allow the reader to be stopped again, and wait for memory."""
        self._is_waiting = True
        if self._is_stopped:
            self._scope.cancel()
            await checkpoint()
        await self._account.wait_for_turn()


def may_retry(error: UpstreamError, attempt: int, retries: Retries) -> bool:
    """Return whether another attempt may succeed and is allowed, by this server or by its client."""
    return attempt <= retries.max and error.fault.is_retryable and error.should_retry is not False


def backoff_s(error: UpstreamError, attempt: int, retries: Retries, chance: float) -> float | None:
    """Return the seconds to wait before the next attempt, None if there is none.

    The provider's `Retry-After` counts, up to `max_backoff_s`; a longer one is passed on to the client. Otherwise the
    wait doubles with each attempt (from 1), with a jitter of a quarter, so that clients do not return all at once;
    `chance` is a random number from 0 to 1.
    """
    if not may_retry(error, attempt, retries) or error.fault.code in _NOT_RETRIED:
        return None
    if error.retry_after_s is not None:
        return error.retry_after_s if error.retry_after_s <= retries.max_backoff_s else None
    return min(retries.initial_backoff_s * 2.0 ** (attempt - 1), retries.max_backoff_s) * (1 - chance / 4)
