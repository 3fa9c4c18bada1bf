"""The streams that run: how many, which, and how they are told to end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import anyio

from projector.core.faults import FAULTS, Fault
from projector.server.config.settings import Limits
from projector.server.http.problems import problem, problem_of_fault
from projector.server.streaming.memory import Account, Memory
from projector.server.telemetry.stream_stats import StreamStats

LAST_WORDS_S: Final = 5.0
"""How long clients may take to receive the terminal of a server that ends."""

_LOOK_S: Final = 0.05

_ENDED_MAX: Final = 4096
"""How many ended streams are remembered, so that to cancel one that has just ended is no mistake."""


class Running(Protocol):
    """A stream that runs, whoever reads it."""

    stats: StreamStats

    @property
    def is_upstream_open(self) -> bool:
        """Whether it has a request open at its upstream."""
        ...

    def cancel(self) -> None:
        """End it with `final` `cancelled`."""
        ...

    def fail(self, fault: Fault) -> None:
        """End it with a fault."""
        ...


class Streams:
    """The running streams of one process, by id."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._memory = Memory(limits.max_memory_bytes)
        self._asked: Counter[str] = Counter()  # requests by caller, from their head to the end of their stream
        self._running: dict[str, Running] = {}
        self._ended: dict[str, str] = {}  # id and caller, ordered by their end
        self._told_of_draining: list[Callable[[], None]] = []
        self.is_draining = False

    @property
    def active(self) -> int:
        """How many streams run."""
        return len(self._running)

    @property
    def upstream_open(self) -> int:
        """How many of them have a request open at their upstream."""
        return sum(stream.is_upstream_open for stream in self._running.values())

    @property
    def held_bytes(self) -> int:
        """How much they hold in memory."""
        return self._memory.held_bytes

    @contextmanager
    def admitted(self, caller: str) -> Iterator[Account]:
        """Let a request in, with an account for what it holds in memory.

        Raises:
            Problem: the server ends, or has no room for it, or the caller has had its share.
        """
        if self.is_draining:
            raise problem_of_fault(FAULTS["server_shutdown"])
        if self._asked.total() >= self._limits.max_streams or self._memory.is_spent:
            raise problem("overloaded")
        most = self._limits.max_streams_per_caller
        if most is not None and self._asked[caller] >= most:
            raise problem("too_many_streams")
        account = Account(self._memory)
        self._asked[caller] += 1
        try:
            yield account
        finally:
            account.close()
            self._asked[caller] -= 1
            if not self._asked[caller]:
                del self._asked[caller]

    @contextmanager
    def running(self, stream: Running) -> Iterator[None]:
        """Count a stream while it runs.

        Raises:
            Problem: the server ends and starts no stream.
        """
        if self.is_draining:
            raise problem_of_fault(FAULTS["server_shutdown"])
        stream_id = stream.stats.stream_id
        self._running[stream_id] = stream
        try:
            yield
        finally:
            del self._running[stream_id]
            self._ended[stream_id] = stream.stats.caller
            if len(self._ended) > _ENDED_MAX:
                del self._ended[next(iter(self._ended))]

    def cancel(self, stream_id: str, caller: str) -> bool:
        """End a stream of a caller with `final` `cancelled`; give whether it has or had one of this id."""
        stream = self._running.get(stream_id)
        if stream is not None and stream.stats.caller == caller:
            stream.cancel()
            return True
        return self._ended.get(stream_id) == caller

    def on_drain(self, tell: Callable[[], None]) -> None:
        """Have something called when no more streams are started: what waits for a person need not be waited for."""
        self._told_of_draining.append(tell)

    async def drain(self, grace_s: float, is_urgent: Callable[[], bool]) -> None:
        """Start no more streams; give those that run some time, less when it becomes urgent, then a terminal."""
        self.is_draining = True
        for told in self._told_of_draining:
            told()
        await self._wait(grace_s, is_urgent)
        for stream in list(self._running.values()):
            stream.fail(FAULTS["server_shutdown"])
        await self._wait(LAST_WORDS_S, lambda: False)

    async def _wait(self, limit_s: float, is_urgent: Callable[[], bool]) -> None:
        deadline = time.monotonic() + limit_s
        while self._running and time.monotonic() < deadline and not is_urgent():  # noqa: ASYNC110 - a signal handler must not set an event
            await anyio.sleep(_LOOK_S)
