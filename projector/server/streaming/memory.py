"""What streams hold in memory: one budget of bytes for all of them, one account for each.

Counted is what a client or a provider can make large: the request's body, an event that is not whole yet, output of a
large event that waits for its client. It is an estimate of what they cost, not a measure. A stream reads no more before
its client took what one read said, so nothing else can grow.

While the budget is spent no stream is started, and of those that run with an unfinished event only one reads on, the
one whose turn it is. So every stream comes to its end, and the budget is exceeded by one event, and one read of each,
at most.
"""

from __future__ import annotations

from typing import Final

import anyio

from projector.contracts.limits import EVENT_MAX_BYTES

LARGE_EVENT_BYTES: Final = 262_144
"""From here on reading an event takes a millisecond and more, and is not done on the event loop."""

_ENDS: Final = (b"\n\n", b"\n\r\n", b"\r\r")
"""What an event ends with, where it ends with a read, as most do."""


class Memory:
    """The budget."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._changed: anyio.Event | None = None
        self.held_bytes = 0
        self.turn: Account | None = None

    @property
    def is_spent(self) -> bool:
        """Whether streams hold as much as they may."""
        return self.held_bytes >= self._max_bytes

    def hold(self, n_bytes: int) -> None:
        """Note bytes that came into memory, or with a minus that left it."""
        was_spent = self.is_spent
        self.held_bytes += n_bytes
        if was_spent and not self.is_spent:
            self.change()

    def change(self) -> None:
        """Let those that wait look again."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def wait_for_change(self) -> None:
        """Wait until bytes are free or the turn is."""
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()


class Account:
    """What one stream holds; `close` gives all of it back."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._held_bytes = 0
        self._event_bytes = 0

    def beside(self) -> Account:
        """Give an account of the same budget, for another upstream of the same stream."""
        return Account(self._memory)

    @property
    def is_spent(self) -> bool:
        """Whether the budget is."""
        return self._memory.is_spent

    def hold(self, n_bytes: int) -> None:
        """Note bytes that came into memory, or with a minus that left it."""
        self._held_bytes += n_bytes
        self._memory.hold(n_bytes)

    def close(self) -> None:
        """Give back what is still held."""
        self.hold(-self._held_bytes)
        self._end_turn()

    def read(self, chunk: bytes) -> bool:
        """Note bytes of an event stream; give whether they end a large event."""
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
        while self._event_bytes and self.is_spent and self._memory.turn is not self:
            if self._memory.turn is None:
                self._memory.turn = self
            else:
                await self._memory.wait_for_change()

    def _end_turn(self) -> None:
        if self._memory.turn is self:
            self._memory.turn = None
            self._memory.change()


def _bytes_after_end(chunk: bytes) -> int | None:
    """Give how many bytes follow the last end of an event, None where no event ends."""
    ends = [at + len(end) for end in _ENDS if (at := chunk.rfind(end)) >= 0]
    return len(chunk) - max(ends) if ends else None
