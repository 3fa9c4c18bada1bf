"""Holds the reading of one answer to the limits of its upstream, where no client's clock does."""

from __future__ import annotations

import time
from typing import Final

import anyio

from projector.core.faults import FAULTS
from projector.server.upstream.protocol import UpstreamError
from projector.server.upstream.reader import UpstreamReader

_LOOK_S: Final = 1.0
"""A limit may begin to run while the clock sleeps; it is found out this much later at the most."""


async def read_in_time(reading: UpstreamReader) -> None:
    """Read everything, or until it is stopped.

    Raises:
        UpstreamError: the upstream failed, or took too long.
    """
    late: list[str] = []
    failure: UpstreamError | None = None
    async with anyio.create_task_group() as clock:
        clock.start_soon(_keep_time, reading, late)
        try:
            await reading.run()
        except UpstreamError as error:  # a task group would wrap it
            failure = error
        clock.cancel_scope.cancel()
    if late:
        raise UpstreamError(FAULTS[late[0]])
    if failure is not None:
        raise failure


async def _keep_time(reading: UpstreamReader, late: list[str]) -> None:
    """Stop what takes too long, and say which limit it was."""
    while True:
        at, code = reading.deadlines.next()
        now = time.monotonic()
        if now >= at:
            late.append(code)
            reading.stop()
            return
        await anyio.sleep(min(at - now, _LOOK_S))
