"""Deadlines of a stream, and the clock that checks them: the only place where they are enforced."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

import anyio

from projector.server.config.settings import Timeouts
from projector.server.upstream.protocol import UpstreamError


@dataclass(frozen=True, slots=True, eq=False)
class Timer:
    """A deadline that moves while the stream runs."""

    due_at: Callable[[], float]
    """Returns the due time in seconds of `time.monotonic`, infinity while nothing is awaited."""
    on_due: Callable[[], object]
    """Called when it is due, and on later checks while it is still due."""
    shortest_s: float = inf
    """Shortest wait that can start while the clock sleeps."""


class Clock:
    """Calls the timers that are due; there is one for each stream."""

    def __init__(self) -> None:
        self._timers: list[Timer] = []
        self._changed = asyncio.Event()
        self._scope = anyio.CancelScope()

    @contextmanager
    def watch(self, *timers: Timer) -> Iterator[None]:
        """Check timers until the block is left."""
        self._timers += timers
        self._changed.set()
        try:
            yield
        finally:
            for timer in timers:
                self._timers.remove(timer)

    async def run(self) -> None:
        """Check the timers until `stop`; a wait that begins during its sleep cannot end before that sleep does."""
        with self._scope:
            while True:
                self._changed.clear()
                with anyio.move_on_after(self._check()):
                    await self._changed.wait()

    def stop(self) -> None:
        """End `run`. A task that ends as cancelled would leave a cycle of objects, which holds the stream."""
        self._scope.cancel()

    def _check(self) -> float:
        """Call the timers that are due; return the seconds until the next check."""
        now = time.monotonic()
        sleep_s = inf
        for timer in tuple(self._timers):
            due_at = timer.due_at()
            if now >= due_at:
                timer.on_due()
            else:
                sleep_s = min(sleep_s, due_at - now)
            sleep_s = min(sleep_s, timer.shortest_s)
        return sleep_s


async def run_timed(work: Callable[[Clock], Awaitable[None]]) -> None:
    """Run some work with a clock of its own; raise its `UpstreamError`, not in an exception group."""
    clock = Clock()
    failure: UpstreamError | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clock.run)
        try:
            await work(clock)
        except UpstreamError as error:
            failure = error
        clock.stop()
    if failure is not None:
        raise failure


class Deadlines:
    """Deadlines of one upstream in seconds: first byte, idle, total. While the client is awaited, idle does not run."""

    def __init__(self, timeouts: Timeouts, now: float) -> None:
        self._timeouts = timeouts
        self._began_at = now
        self._total_at = now + timeouts.total_s
        self._first_byte_at = inf
        self._idle_at = inf

    def on_attempt(self, now: float, timeouts: Timeouts | None = None) -> None:
        """Start to wait for the first byte; each attempt has its own wait, and may have other limits."""
        self._timeouts = timeouts or self._timeouts
        self._total_at = self._began_at + self._timeouts.total_s
        self._first_byte_at = now + self._timeouts.first_byte_s

    def pause(self) -> None:
        """Stop waiting for the upstream: bytes arrived, or the next attempt is delayed."""
        self._first_byte_at = inf
        self._idle_at = inf

    def on_wait(self, now: float) -> None:
        """Start to wait for further bytes."""
        self._idle_at = now + self._timeouts.idle_s

    def next(self) -> tuple[float, str]:
        """Return the earliest deadline: its time, and the code of its fault."""
        return min(
            (self._total_at, "upstream_timeout_total"),
            (self._first_byte_at, "upstream_timeout_first_byte"),
            (self._idle_at, "upstream_timeout_idle"),
        )
