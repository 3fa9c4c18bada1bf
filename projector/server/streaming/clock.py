"""Beside a stream: the ticker that checks all deadlines, and tasks that watch for a disconnect and send heartbeats."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from types import TracebackType
from typing import Final, Self, TypeVarTuple, Unpack
from weakref import WeakKeyDictionary

from starlette.types import Receive

from projector._errors import UsageError
from projector.server.config.upstream_settings import Timeouts
from projector.server.telemetry.logs import log_crash

TICK_S: Final = 0.05
"""How late a timer may be. What is due within the same tick is checked together."""
_LATEST_S: Final = 86_400.0
"""Longest time between two checks of a timer."""


@dataclass(slots=True, eq=False)
class Timer:
    """A deadline that moves while the stream runs."""

    due_at: Callable[[], float]
    """Returns the due time in seconds of `time.monotonic`, infinity while nothing is awaited."""
    on_due: Callable[[], object]
    """Called when it is due, and on later checks while it is still due."""
    shortest_s: float = inf
    """Shortest wait that can start between two checks."""
    tick: int | None = field(default=None, init=False)
    """Number of the tick that checks it next; None while it is not watched."""


class Ticker:
    """Checks the timers of all streams of an event loop, in which it has one timer itself.

    A timer is checked when it may be due. Adding and removing one takes constant time, however many there are.
    """

    def __init__(self) -> None:
        self._timers: dict[int, dict[Timer, None]] = {}
        """Number of a tick -> what it checks; empty if that was removed."""
        self._ticks: list[int] = []
        """The numbers, as a heap."""
        self._count = 0
        """Number of timers."""
        self._next: asyncio.TimerHandle | None = None
        self._next_tick = 0

    def add(self, timers: Sequence[Timer]) -> None:
        """Watch timers. They are checked in the next turn of the event loop or later."""
        now = time.monotonic()
        self._count += len(timers)
        for timer in timers:
            self._place(timer, now, min(timer.due_at(), now + timer.shortest_s))
        if self._next is None or self._next_tick > self._ticks[0]:
            self._wake(now)

    def remove(self, timers: Sequence[Timer]) -> None:
        """Do not watch timers any more."""
        self._count -= len(timers)
        for timer in timers:
            if timer.tick is not None:
                self._timers[timer.tick].pop(timer)
                timer.tick = None
        if not self._count and self._next is not None:
            self._next.cancel()
            self._next = None
            self._timers.clear()
            self._ticks.clear()

    def _place(self, timer: Timer, now: float, at: float) -> None:
        """Have a timer checked at a time, in the first tick after it."""
        tick = timer.tick = math.ceil(min(at, now + _LATEST_S) / TICK_S)
        placed = self._timers.get(tick)
        if placed is None:
            placed = self._timers[tick] = {}
            heappush(self._ticks, tick)
        placed[timer] = None

    def _wake(self, now: float) -> None:
        """Tick when the first timer may be due."""
        if self._next is not None:
            self._next.cancel()
        self._next_tick = self._ticks[0]
        sleep_s = max(self._next_tick * TICK_S - now, 0.0)
        self._next = asyncio.get_running_loop().call_later(sleep_s, self._tick)

    def _tick(self) -> None:
        """Call the timers that are due, and have all that were checked checked again."""
        self._next = None
        now = time.monotonic()
        due: list[Timer] = []
        while self._ticks and self._ticks[0] * TICK_S <= now:
            for timer in self._timers.pop(heappop(self._ticks)):
                due_at = timer.due_at()
                if due_at <= now:
                    due.append(timer)
                    due_at = inf
                self._place(timer, now, min(due_at, now + timer.shortest_s))
        if self._ticks:
            self._wake(now)
        for timer in due:
            if timer.tick is not None:  # the one before may have ended its stream
                timer.on_due()


_TICKERS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Ticker]] = WeakKeyDictionary()
"""Event loop -> its ticker. A server has one of each; a host may have several."""


def event_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop; raise `UsageError` in a task of another library."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise UsageError("expected an event loop of asyncio: streams do not run with trio") from None


def times_cancelled() -> int:
    """Return how often the running task was cancelled, as `asyncio.Task.cancelling` counts."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def is_cancelled(error: BaseException, before: int) -> bool:
    """Check whether an exception means that the running task was cancelled, and not something that the host awaited.

    `before` is what `times_cancelled` returned before the code of the host was called.
    """
    return isinstance(error, asyncio.CancelledError) and times_cancelled() > before


class Watch:
    """Has timers checked until the block is left."""

    def __init__(self, *timers: Timer) -> None:
        self._timers = timers

    def __enter__(self) -> None:
        """Begin."""
        loop = event_loop()
        ticker = _TICKERS.get(loop)
        if ticker is None:
            ticker = _TICKERS[loop] = Ticker()
        self._ticker = ticker
        ticker.add(self._timers)

    def __exit__(self, *_: object) -> None:
        """End."""
        self._ticker.remove(self._timers)


class Deadlines:
    """Deadlines of one upstream in seconds: first byte, idle, total. While the client is awaited, idle does not run."""

    def __init__(self, timeouts: Timeouts, now: float) -> None:
        self._timeouts = timeouts
        self._began_at = now
        self._total_at = now + timeouts.total_s
        self._first_byte_at = inf
        self.idle_at = inf
        """Set by the reader for each event: when it begins to wait for further bytes, and when they arrive."""

    def on_attempt(self, now: float, timeouts: Timeouts | None = None) -> None:
        """Start to wait for the first byte; each attempt has its own wait, and may have other limits."""
        self._timeouts = timeouts or self._timeouts
        self._total_at = self._began_at + self._timeouts.total_s
        self._first_byte_at = now + self._timeouts.first_byte_s

    def pause(self) -> None:
        """Stop waiting for the upstream: bytes arrived, or the next attempt is delayed."""
        self._first_byte_at = self.idle_at = inf

    def next(self) -> tuple[float, str]:
        """Return the earliest deadline: its time, and the code of its fault."""
        return min(
            (self._total_at, "upstream_timeout_total"),
            (self._first_byte_at, "upstream_timeout_first_byte"),
            (self.idle_at, "upstream_timeout_idle"),
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


async def repeat(work: Callable[[], Awaitable[object]], pause_s: float) -> None:
    """Do work again and again, after a pause; log an exception, unless the time before failed, too."""
    has_failed = False
    while True:
        await asyncio.sleep(pause_s)
        try:
            await work()
            has_failed = False
        except Exception as error:  # noqa: BLE001 - what depends on it must not end with one attempt
            if not has_failed:
                log_crash("task_crashed", error)
            has_failed = True


async def watch_client(receive: Receive, on_disconnect: Callable[[], None]) -> None:
    """Call `on_disconnect` when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    on_disconnect()
