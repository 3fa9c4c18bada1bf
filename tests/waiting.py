"""Waiting for what sets no event: the state of another thread, of another process, or of a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 60.0
"""Limit for a busy machine."""
_PAUSE_S: Final = 0.002


async def wait_until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds.

    Raises:
        TimeoutError: it does not hold within `PATIENCE_S`.
    """
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(_PAUSE_S)
