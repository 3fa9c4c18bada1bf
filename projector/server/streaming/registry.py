"""The running streams of a server: their number, ids, limits, and how they are cancelled and drained."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import anyio

from projector.core.faults import FAULTS, Fault
from projector.server.config.config_base import unwrapped
from projector.server.config.settings import Limits
from projector.server.control.rate_limits import owner_of
from projector.server.http.problems import problem, problem_of_fault
from projector.server.streaming.memory import STREAM_BYTES, Account, Memory
from projector.server.telemetry.stream_stats import StreamStats

LAST_WORDS_S: Final = 5.0
"""Seconds that clients get at shutdown to receive the terminal event."""

_POLL_S: Final = 0.05

_ENDED_MAX: Final = 4096
"""Number of ended streams that are remembered, so that cancelling one that has just ended succeeds."""


class Running(Protocol):
    """A running stream."""

    stats: StreamStats

    @property
    def is_upstream_open(self) -> bool:
        """Whether a request to an upstream is pending, or its response is being read."""

    def cancel(self) -> None:
        """End it with `final` `cancelled`."""

    def fail(self, fault: Fault) -> None:
        """End it with a fault."""


class Streams:
    """The running streams of one process, by id."""

    def __init__(self, limits: Limits) -> None:
        self._limits = unwrapped(limits)
        self._memory = Memory(limits.max_memory_bytes, limits.max_text_bytes)
        self._admitted: dict[str, int] = {}  # requests by caller, from their head to the end of their stream
        self._all_admitted = 0
        self._running: dict[str, Running] = {}
        self._readers: set[Running] = set()
        self._ended: dict[str, str] = {}  # id -> caller, ordered by their end
        self._on_drain: list[Callable[[], None]] = []
        self.is_draining = False

    def set_limits(self, limits: Limits) -> None:
        """Use other limits for new requests."""
        self._limits = unwrapped(limits)
        self._memory.set_limits(limits.max_memory_bytes, limits.max_text_bytes)

    @property
    def active(self) -> int:
        """The number of running streams."""
        return len(self._running)

    @property
    def max_active(self) -> int:
        """The limit of running streams."""
        return self._limits.max_streams

    @property
    def max_bytes(self) -> int:
        """The limit of what all streams hold in memory."""
        return self._memory.max_bytes

    @property
    def readers(self) -> int:
        """The number of readers of stored streams."""
        return len(self._readers)

    @property
    def upstream_open(self) -> int:
        """The number of streams with an open upstream."""
        return sum(stream.is_upstream_open for stream in self._running.values())

    @property
    def held_bytes(self) -> int:
        """Bytes that all streams hold in memory."""
        return self._memory.held_bytes

    @contextmanager
    def admitted(self, caller: str) -> Iterator[Account]:
        """Admit a request, with an account for what it holds in memory; raise `Problem` if a limit is reached."""
        if self.is_draining:
            raise problem_of_fault(FAULTS["server_shutdown"])
        if self._all_admitted >= self._limits.max_streams or self._memory.is_spent:
            raise problem("overloaded")
        most = self._limits.max_streams_per_caller
        owner = owner_of(caller)
        if most is not None and self._admitted.get(owner, 0) >= most:
            raise problem("too_many_streams")
        account = Account(self._memory)
        account.hold(STREAM_BYTES)
        self._admitted[owner] = self._admitted.get(owner, 0) + 1
        self._all_admitted += 1
        try:
            yield account
        finally:
            account.close()
            self._all_admitted -= 1
            if left := self._admitted.pop(owner) - 1:
                self._admitted[owner] = left

    @contextmanager
    def running(self, stream: Running) -> Iterator[None]:
        """Register a stream while it runs; raise `Problem` if the server is shutting down."""
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

    @contextmanager
    def reading(self, reader: Running) -> Iterator[None]:
        """Register a reader of a stored stream while it runs; raise `Problem` if the server is shutting down."""
        if self.is_draining:
            raise problem_of_fault(FAULTS["server_shutdown"])
        self._readers.add(reader)
        try:
            yield
        finally:
            self._readers.discard(reader)

    def is_running(self, stream_id: str) -> bool:
        """Return whether a stream of this process has not ended."""
        return stream_id in self._running

    def cancel(self, stream_id: str, caller: str) -> bool:
        """Cancel a stream; return whether the caller has, or had, a stream of this id."""
        stream = self._running.get(stream_id)
        if stream is not None and stream.stats.caller == caller:
            stream.cancel()
            return True
        return self._ended.get(stream_id) == caller

    def on_drain(self, callback: Callable[[], None]) -> None:
        """Add a callback for the beginning of a drain, which does not await runs that wait for a person."""
        self._on_drain.append(callback)

    async def drain(self, grace_s: float, is_urgent: Callable[[], bool]) -> None:
        """Start no more streams; end the running ones after a grace period, or once it is urgent."""
        self.is_draining = True
        for callback in self._on_drain:
            callback()
        await self._wait(grace_s, is_urgent)
        for stream in [*self._running.values(), *self._readers]:
            stream.fail(FAULTS["server_shutdown"])
        await self._wait(LAST_WORDS_S, lambda: False)

    async def _wait(self, limit_s: float, is_urgent: Callable[[], bool]) -> None:
        deadline = time.monotonic() + limit_s
        while (self._running or self._readers) and time.monotonic() < deadline and not is_urgent():  # noqa: ASYNC110 - a signal handler must not set an event
            await anyio.sleep(_POLL_S)
