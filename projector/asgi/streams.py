"""The streams that run: how many, which, and how they are told to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from projector.asgi.problems import problem_of_fault
from projector.asgi.relay import Relay
from projector.faults import FAULTS

LAST_WORDS_S: Final = 5.0
"""How long clients may take to receive the terminal of a server that ends."""

_LOOK_S: Final = 0.05

_ENDED_MAX: Final = 4096
"""How many ended streams are remembered, so that to cancel one that has just ended is no mistake."""


class Streams:
    """The running streams of one process, by id."""

    def __init__(self) -> None:
        self._running: dict[str, Relay] = {}
        self._ended: dict[str, None] = {}  # ordered by their end
        self.is_draining = False

    @property
    def active(self) -> int:
        """How many streams run."""
        return len(self._running)

    @property
    def upstream_open(self) -> int:
        """How many of them have a request open at their upstream."""
        return sum(relay.is_upstream_open for relay in self._running.values())

    @contextmanager
    def running(self, relay: Relay) -> Iterator[None]:
        """Count a stream while it runs.

        Raises:
            Problem: the server ends and starts no stream.
        """
        if self.is_draining:
            raise problem_of_fault(FAULTS["server_shutdown"])
        self._running[relay.stream_id] = relay
        try:
            yield
        finally:
            del self._running[relay.stream_id]
            self._ended[relay.stream_id] = None
            if len(self._ended) > _ENDED_MAX:
                del self._ended[next(iter(self._ended))]

    def cancel(self, stream_id: str) -> bool:
        """End a stream with `final` `cancelled`; give whether there is or was one of this id."""
        relay = self._running.get(stream_id)
        if relay is not None:
            relay.cancel()
        return relay is not None or stream_id in self._ended

    async def drain(self, grace_s: float, is_urgent: Callable[[], bool]) -> None:
        """Start no more streams; give those that run some time, less when it becomes urgent, then a terminal."""
        self.is_draining = True
        await self._wait(grace_s, is_urgent)
        for relay in list(self._running.values()):
            relay.fail(FAULTS["server_shutdown"])
        await self._wait(LAST_WORDS_S, lambda: False)

    async def _wait(self, limit_s: float, is_urgent: Callable[[], bool]) -> None:
        deadline = time.monotonic() + limit_s
        while self._running and time.monotonic() < deadline and not is_urgent():  # noqa: ASYNC110 - a signal handler must not set an event
            await anyio.sleep(_LOOK_S)
