"""One request to an upstream whose answer goes into a log: retries before its first byte, time limits, large events.

The relay of `projector.asgi.relay` does the same for a client that reads along; here nobody makes the reader wait.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint

from projector import Pipeline
from projector.asgi.catalog import Provider
from projector.asgi.deadlines import Deadlines
from projector.asgi.memory import Account
from projector.asgi.record import Record
from projector.asgi.retries import wait_s
from projector.asgi.settings import Retries
from projector.asgi.upstream import ProviderRequest, UpstreamError
from projector.faults import FAULTS

_LOOK_S: Final = 1.0
"""A limit may begin to run while the clock sleeps; it is found out this much later at the most."""


@dataclass(slots=True, eq=False)
class Asking:
    """One request; `run` it once.

    Args:
        provider: who is asked.
        request: what is asked.
        pipeline: takes what comes.
        record: is told when the first byte came, and what the pipeline cost.
        account: holds unfinished events.
        retries: when the request is made again.
        say: takes what the pipeline says; what it raises ends the request.
        has_ended: tells whether the response has ended: a fault behind its end is none of the run's.
    """

    provider: Provider
    request: ProviderRequest
    pipeline: Pipeline
    record: Record
    account: Account
    retries: Retries
    say: Callable[[bytes], None]
    has_ended: Callable[[], bool]
    has_begun: bool = False
    """Whether a byte of the answer has come."""
    is_open: bool = False
    """Whether the request is with the provider now."""

    async def run(self) -> None:
        """Bring the whole answer into the pipeline.

        Raises:
            UpstreamError: the provider failed, or took too long.
        """
        deadlines = Deadlines(self.provider.timeouts, time.monotonic())
        failure: Exception | None = None
        with anyio.CancelScope() as asking:
            async with anyio.create_task_group() as clock:
                late: list[str] = []
                clock.start_soon(_keep_time, deadlines, asking, late)
                try:
                    await self._ask(deadlines)
                except Exception as error:  # noqa: BLE001 - a task group would wrap it
                    failure = error
                clock.cancel_scope.cancel()
        if late:
            raise UpstreamError(FAULTS[late[0]])
        if failure is not None:
            raise failure

    async def _ask(self, deadlines: Deadlines) -> None:
        for attempt in itertools.count(1):
            deadlines.on_attempt(time.monotonic())
            self.is_open = True
            try:
                await self._read(deadlines)
            except UpstreamError as error:
                pause_s = wait_s(error, attempt, self.retries, random.random())  # noqa: S311 - it spreads load
                if pause_s is None or self.has_begun:
                    raise
            else:
                return
            finally:
                self.is_open = False
            deadlines.on_pause()
            await anyio.sleep(pause_s)

    async def _read(self, deadlines: Deadlines) -> None:
        async with self.provider.upstream.open(self.request) as chunks:
            async for chunk in chunks:
                deadlines.on_bytes()
                with anyio.CancelScope(shield=True):  # what has come is said whole first, or not at all
                    self.say(await self._feed(chunk))
                if self.pipeline.ended or self.has_ended():
                    return
                await self.account.wait_for_turn()
                await checkpoint()  # bytes that come without a pause leave no other moment for the others
                deadlines.on_wait(time.monotonic())

    async def _feed(self, chunk: bytes) -> bytes:
        began = time.monotonic()
        self.has_begun = True
        if self.record.first_byte_at is None:
            self.record.first_byte_at = began
        if self.account.read(chunk):
            said = await to_thread.run_sync(self.pipeline.feed, chunk)
        else:
            said = self.pipeline.feed(chunk)
        self.record.overhead_s += time.monotonic() - began
        return said


async def _keep_time(deadlines: Deadlines, asking: anyio.CancelScope, late: list[str]) -> None:
    """Stop what takes too long, and say which limit it was."""
    while True:
        at, code = deadlines.next()
        now = time.monotonic()
        if now >= at:
            late.append(code)
            asking.cancel()
            return
        await anyio.sleep(min(at - now, _LOOK_S))
