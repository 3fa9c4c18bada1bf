"""One request to an upstream, read to the end of its response: attempts, deadlines, memory, fairness.

A reader is stopped only while it waits for its upstream: a chunk that was received is processed whole.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from math import inf
from typing import Final, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from projector.core.faults import FAULTS, Fault
from projector.server.streaming.clock import Deadlines, Timer, Watch
from projector.server.streaming.memory import Account
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.circuit import Permit, Signal
from projector.server.upstream.protocol import UpstreamError
from projector.server.upstream.targets import Attempts, Step, Target

OnOpen: TypeAlias = Callable[[], Awaitable[None]]
OnChunk: TypeAlias = Callable[[bytes], Awaitable[bool]]
"""Processes one chunk; returns whether the rest of the response is not needed."""

_TURN_S: Final = 0.001
"""Seconds of pipeline work, a few hundred events, after which other tasks may run. If both upstream and client are
fast, nothing else yields to the event loop."""


class UpstreamReader:
    """Reads one response; `read` it once. The stats receive the time of the first byte and of the pipeline's work.

    `on_target` is called before each attempt, with the upstream that a response would then be from; `on_repeat` with
    each failure after which the request is sent again.
    """

    def __init__(
        self,
        attempts: Attempts,
        stats: StreamStats,
        account: Account,
        on_target: Callable[[Target], None] = lambda _: None,
        on_repeat: Callable[[UpstreamError], object] = lambda _: None,
    ) -> None:
        self.is_upstream_open = False
        """Whether a request is pending, or its response is being read."""
        self._attempts = attempts
        self._stats = stats
        self._account = account
        self._on_target = on_target
        self._on_repeat = on_repeat
        self._deadlines = Deadlines(attempts.target.provider.timeouts, time.monotonic())
        self._attempted_at = 0.0
        self._scope: anyio.CancelScope | None = None
        self._fault: Fault | None = None
        self._has_bytes = False
        self._is_stopped = False
        self._is_interrupted = False
        """Whether it was stopped, or a deadline of this attempt has passed."""
        self._is_waiting = True

    @property
    def target(self) -> Target:
        """The target of the last attempt."""
        return self._attempts.target

    async def read(self, on_open: OnOpen, on_chunk: OnChunk) -> None:
        """Read the response to its end, or until `stop`; `on_open` is called when its headers were received.

        A request that failed before the first byte of the response may be sent again, or to another target.

        Raises:
            UpstreamError: the upstream failed, or exceeded a time limit.
        """
        shortest_s = inf
        for target in self._attempts.targets:
            timeouts = target.provider.timeouts
            shortest_s = min(shortest_s, timeouts.first_byte_s, timeouts.idle_s)
        with Watch(Timer(lambda: self._deadlines.next()[0], self._on_timeout, shortest_s)):
            target, pause_s = self._attempts.first()
            while not pause_s or await self._pause(pause_s):
                permit = self._attempts.begin(target)
                if permit is None:  # another request opened the circuit during the pause
                    target, pause_s = self._attempts.first()
                    continue
                try:
                    await self._attempt(permit, on_open, on_chunk)
                except UpstreamError as error:
                    target, pause_s = self._next(error, permit)
                else:
                    return
                finally:
                    permit.report(None)

    def stop(self) -> None:
        """Stop reading."""
        self._is_stopped = self._is_interrupted = True
        self._interrupt()

    async def feed(self, feed: Callable[[bytes], bytes], chunk: bytes) -> bytes:
        """Feed a chunk to a pipeline and return the output; a large event is processed off the event loop."""
        began, account = time.monotonic(), self._account
        output = await account.memory.process(feed, chunk) if account.read(chunk) else feed(chunk)
        if account.is_exceeded:
            raise UpstreamError(FAULTS["upstream_response_too_large"])
        self._stats.overhead_s += time.monotonic() - began
        return output

    def _use(self, target: Target) -> None:
        self._on_target(target)

    def _report(self, error: UpstreamError) -> None:
        self._on_repeat(error)

    def _on_timeout(self) -> None:
        if not self._is_interrupted:
            self._fault = FAULTS[self._deadlines.next()[1]]
            self._is_interrupted = True
            self._interrupt()

    def _interrupt(self) -> None:
        if self._is_waiting and self._scope is not None:
            self._scope.cancel()

    def _next(self, error: UpstreamError, permit: Permit) -> Step:
        """Return the attempt after a failure; raise it if none may follow."""
        self._attempts.counted(error)
        is_final = self._has_bytes or self._is_stopped
        chance = random.random()  # noqa: S311 - it spreads load
        following = None if is_final else self._attempts.after(error, permit, chance)
        if following is None:
            self._attempts.end(error)
            raise error
        self._report(error)
        return following

    async def _pause(self, seconds: float) -> bool:
        """Wait before the next attempt; return False if the reader was stopped meanwhile."""
        self._fault, self._is_interrupted = None, self._is_stopped
        self._deadlines.pause()
        with anyio.CancelScope() as self._scope:
            if not self._is_interrupted:
                await anyio.sleep(seconds)
        if self._fault is not None:
            raise self._attempts.counted(UpstreamError(self._fault))
        return not self._is_stopped

    async def _attempt(self, permit: Permit, on_open: OnOpen, on_chunk: OnChunk) -> None:
        """Read the response of one target; raise `UpstreamError` if it fails, return if the reader is stopped."""
        target = self._attempts.target
        self._fault, self._is_interrupted = None, self._is_stopped
        self._attempted_at = time.monotonic()
        self._deadlines.on_attempt(self._attempted_at, target.provider.timeouts)
        self._use(target)
        self.is_upstream_open = True
        try:
            with anyio.CancelScope() as self._scope:
                if self._is_interrupted:
                    self._scope.cancel()
                async with target.provider.upstream.open(self._attempts.request()) as chunks:
                    await self._read(chunks, permit, on_open, on_chunk)
                return
        finally:
            self.is_upstream_open = False
        if self._fault is not None:
            raise UpstreamError(self._fault)

    async def _read(self, chunks: AsyncIterator[bytes], permit: Permit, on_open: OnOpen, on_chunk: OnChunk) -> None:
        if self._is_interrupted:
            await checkpoint()  # the scope is cancelled, and nothing that is sent may be interrupted
        self._is_waiting = False
        await on_open()
        await self._wait_again()
        account, memory, turn_ends_s = self._account, self._account.memory, self._stats.overhead_s + _TURN_S
        deadlines, idle_s = self._deadlines, self.target.provider.timeouts.idle_s
        async for chunk in chunks:
            if self._stats.overhead_s >= turn_ends_s or self._is_interrupted:
                turn_ends_s = self._stats.overhead_s + _TURN_S
                await checkpoint()  # chunks that arrive without a pause leave no other moment for it
            self._is_waiting = False
            deadlines.idle_at = inf
            if not self._has_bytes:
                self._on_first_bytes(permit)
            if await on_chunk(chunk):
                return
            self._is_waiting = True
            if self._is_interrupted or memory.turn is account or memory.held_bytes >= memory.max_bytes:
                await self._wait_again()
            deadlines.idle_at = time.monotonic() + idle_s

    def _on_first_bytes(self, permit: Permit) -> None:
        self._has_bytes = True
        self._deadlines.pause()
        permit.report(Signal.SUCCESS)
        self._attempts.release()
        stats = self._stats
        if stats.first_byte_s is None:
            stats.first_byte_s = time.monotonic() - self._attempted_at
            stats.waited_s = self._attempted_at - stats.started_at

    async def _wait_again(self) -> None:
        """Allow the reader to be stopped again, and wait for memory."""
        self._is_waiting = True
        if self._is_interrupted:
            self._interrupt()
            await checkpoint()
        await self._account.wait_for_turn()
