"""Beside a stream: the clock that checks its deadlines, and tasks that watch for a disconnect and send heartbeats."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from types import TracebackType
from typing import Self, TypeVarTuple, Unpack

from starlette.types import Receive

from projector.server.config.settings import Timeouts


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
    """Calls the timers that are due; there is one for each stream. It is a timer of the event loop, without a task."""

    def __init__(self) -> None:
        self._timers: list[Timer] = []
        self._next: asyncio.TimerHandle | None = None
        self._next_at = inf

    @contextmanager
    def watch(self, *timers: Timer) -> Iterator[None]:
        """Check timers until the block is left, for the first time in the next turn of the event loop or later."""
        self._timers += timers
        now = time.monotonic()
        sleep_s = inf
        for timer in timers:
            sleep_s = min(sleep_s, timer.due_at() - now, timer.shortest_s)
        self._wake_in(sleep_s)
        try:
            yield
        finally:
            for timer in timers:
                self._timers.remove(timer)
            if not self._timers:
                self._stop()

    def _stop(self) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next, self._next_at = None, inf

    def _wake_in(self, sleep_s: float) -> None:
        """Check after some seconds, unless an earlier check is due. A wait that begins meanwhile ends later."""
        at = time.monotonic() + sleep_s
        if at < self._next_at:
            self._stop()
            self._next = asyncio.get_running_loop().call_later(max(sleep_s, 0), self._check)
            self._next_at = at

    def _check(self) -> None:
        """Call the timers that are due, and sleep until the next one may be."""
        self._next, self._next_at = None, inf
        now = time.monotonic()
        sleep_s = inf
        for timer in tuple(self._timers):
            due_at = timer.due_at()
            if now >= due_at:
                timer.on_due()
            else:
                sleep_s = min(sleep_s, due_at - now)
            sleep_s = min(sleep_s, timer.shortest_s)
        self._wake_in(sleep_s)


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


_Ts = TypeVarTuple("_Ts")


class SideTasks:
    """Tasks that are cancelled when the block is left; `on_failure` is called with an exception that one raises."""

    def __init__(self, on_failure: Callable[[Exception], None]) -> None:
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        """Return the tasks."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Cancel all tasks."""
        for task in self._tasks:
            task.cancel()

    def watch(self, receive: Receive, on_disconnect: Callable[[], None]) -> None:
        """Call `on_disconnect` when the client disconnects."""
        self.start(_watch, receive, on_disconnect)

    def start(self, work: Callable[[Unpack[_Ts]], Awaitable[object]], *arguments: *_Ts) -> None:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(self._run(work, *arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, work: Callable[[Unpack[_Ts]], Awaitable[object]], *arguments: *_Ts) -> None:
        try:
            await work(*arguments)
        except asyncio.CancelledError:
            pass  # a task that ends as cancelled would leave a cycle of objects, which holds the stream
        except Exception as error:  # noqa: BLE001 - the owner decides
            self._on_failure(error)


async def _watch(receive: Receive, on_disconnect: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    on_disconnect()
