"""Memory of streams: one budget in bytes for all of them, and one account for each.

It counts what a client or a provider can make large: request bodies, unfinished events, and unsent output. The result
is an estimate. A stream does not read more before its output is sent, so nothing else can grow.

While the budget is used up, no stream is started, and only one stream with an unfinished event reads at a time. So
every stream can end, and the budget is exceeded by at most one event and one chunk of each stream.
"""

from __future__ import annotations

from typing import Final

import anyio

from projector.contracts.limits import EVENT_MAX_BYTES

LARGE_EVENT_BYTES: Final = 262_144
"""A larger event takes at least a millisecond to parse, so it is parsed off the event loop."""

_ENDS: Final = (b"\n\n", b"\n\r\n", b"\r\r")
"""Ends of an event at the end of a chunk, the usual case."""


class Memory:
    """The budget of all streams."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._changed: anyio.Event | None = None
        self.held_bytes = 0
        self.turn: Account | None = None

    @property
    def is_spent(self) -> bool:
        """Whether the budget is used up."""
        return self.held_bytes >= self._max_bytes

    def set_max_bytes(self, max_bytes: int) -> None:
        """Change the budget."""
        self._max_bytes = max_bytes
        self.notify()

    def hold(self, n_bytes: int) -> None:
        """Add bytes; a negative number releases them."""
        was_spent = self.is_spent
        self.held_bytes += n_bytes
        if was_spent and not self.is_spent:
            self.notify()

    def notify(self) -> None:
        """Wake all that wait for a change."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def wait_for_change(self) -> None:
        """Wait until bytes are released, or a turn ends."""
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()


class Account:
    """Memory held by one stream; `close` releases all of it."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._held_bytes = 0
        self._event_bytes = 0

    def hold(self, n_bytes: int) -> None:
        """Add bytes; a negative number releases them."""
        self._held_bytes += n_bytes
        self.memory.hold(n_bytes)

    def close(self) -> None:
        """Release everything."""
        self.hold(-self._held_bytes)
        self._end_turn()

    def read(self, chunk: bytes) -> bool:
        """Count a chunk of an event stream; return whether it ends a large event."""
        before = self._event_bytes
        rest = 0 if chunk.endswith(_ENDS) else _bytes_after_end(chunk)
        if rest is None:
            self._event_bytes = min(before + len(chunk), EVENT_MAX_BYTES)  # more is a fault, and is not kept
        else:
            self._event_bytes = rest
            self._end_turn()
        if self._event_bytes != before:
            self.hold(self._event_bytes - before)
        return rest is not None and before + len(chunk) > LARGE_EVENT_BYTES

    async def wait_for_turn(self) -> None:
        """Wait until an unfinished event may grow."""
        while self._event_bytes and self.memory.is_spent and self.memory.turn is not self:
            if self.memory.turn is None:
                self.memory.turn = self
            else:
                await self.memory.wait_for_change()

    def _end_turn(self) -> None:
        if self.memory.turn is self:
            self.memory.turn = None
            self.memory.notify()


def _bytes_after_end(chunk: bytes) -> int | None:
    """Return the number of bytes after the last end of an event; None if no event ends in the chunk."""
    ends = [at + len(end) for end in _ENDS if (at := chunk.rfind(end)) >= 0]
    return len(chunk) - max(ends) if ends else None
