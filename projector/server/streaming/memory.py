"""Memory of streams: one budget in bytes for all of them, and one account for each.

It counts what a client or a provider can make large: request bodies, unfinished events, texts and items that a stream
keeps until its end, and unsent output, besides a fixed amount for each stream. The result is an estimate.

While the budget is used up, no stream is started, and of the large bodies and the streams that have grown only one is
read at a time. So every stream can end. One stream may use a quarter of the budget. Large events are processed one by
one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple, Unpack

import anyio
from anyio import CapacityLimiter, to_thread

from projector.contracts.limits import EVENT_MAX_BYTES

LARGE_EVENT_BYTES: Final = 262_144
"""A larger event takes at least a millisecond to parse, so it is parsed off the event loop."""
STREAM_BYTES: Final = 262_144
"""Memory of a stream that has not grown: its state, and what is buffered on its connections if its client is slow."""
SMALL_BYTES: Final = 65_536
"""Streams that have grown by less may always read; most of them never grow by more."""
HEAVY_BYTES: Final = 2**20
"""Streams that have grown by more, as by a hundred items, are processed off the event loop."""
TEXT_COPIES: Final = 3
"""Copies of a text: in the state of the stream, in its dialect, and in its terminal event."""

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_SHARES: Final = 4
_ENDS: Final = (b"\n\n", b"\n\r\n", b"\r\r")
"""Ends of an event at the end of a chunk, the usual case."""


class Memory:
    """The budget of all streams, and the limit of the texts of one."""

    def __init__(self, max_bytes: int, max_text_bytes: int = sys.maxsize) -> None:
        self.max_bytes = max_bytes
        self.share_bytes = max_bytes // _SHARES
        """What one stream may use."""
        self._changed: anyio.Event | None = None
        self._thread = CapacityLimiter(1)
        self.max_text_bytes = max_text_bytes
        self.held_bytes = 0
        self.turn: Account | None = None

    @property
    def is_spent(self) -> bool:
        """Whether the budget is used up."""
        return self.held_bytes >= self.max_bytes

    def set_limits(self, max_bytes: int, max_text_bytes: int) -> None:
        """Change the limits."""
        self.max_bytes, self.max_text_bytes = max_bytes, max_text_bytes
        self.share_bytes = max_bytes // _SHARES
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

    async def process(self, work: Callable[[Unpack[_Ts]], _T], *arguments: *_Ts) -> _T:
        """Run what takes long in a thread, one after another.

        A large event takes a multiple of its size for a moment, and several threads would hold the interpreter in
        turn, while the event loop waits for all of them.
        """
        return await to_thread.run_sync(work, *arguments, limiter=self._thread)


class Account:
    """Memory held by one stream; `close` releases all of it."""

    def __init__(self, memory: Memory, stream: Account | None = None) -> None:
        self.memory = memory
        self._of_stream = stream
        self._held_bytes = 0
        self._body_bytes = 0
        self._event_bytes = 0
        self.kept_bytes = 0
        """What the stream keeps until its end, beyond `STREAM_BYTES`."""
        self.text_bytes = 0
        """The same without copies."""
        self.is_exceeded = False
        """Whether the stream had received more than one stream may when its account last changed."""

    @property
    def _stream(self) -> Account:
        return self._of_stream or self  # not as an attribute: only a garbage collection would free the cycle

    def part(self) -> Account:
        """Return an account for one of several upstreams of the stream."""
        return Account(self.memory, self._stream)

    def hold(self, n_bytes: int) -> None:
        """Add bytes; a negative number releases them."""
        memory = self.memory
        before = memory.held_bytes
        self._held_bytes += n_bytes
        memory.held_bytes += n_bytes
        if memory.held_bytes < memory.max_bytes <= before:
            memory.notify()

    def close(self) -> None:
        """Release everything."""
        self.hold(-self._held_bytes)
        self._body_bytes = self._event_bytes = self.kept_bytes = 0
        self.end_turn()

    @property
    def is_heavy(self) -> bool:
        """Whether the stream has grown so much that its last chunk, which ends all its items, takes long."""
        return self._grown_bytes > HEAVY_BYTES

    @property
    def _grown_bytes(self) -> int:
        return self._event_bytes + self._stream.kept_bytes

    def keep(self, text_bytes: int) -> bool:
        """Set the size of what the stream has received and keeps until its end; return whether it is too much."""
        self.text_bytes = text_bytes
        kept = TEXT_COPIES * text_bytes - SMALL_BYTES  # the rest is part of `STREAM_BYTES`
        if kept > 0 or self.kept_bytes:
            kept = max(0, kept)
            self.hold(kept - self.kept_bytes)
            self.kept_bytes = kept
        self.is_exceeded = kept > self.memory.share_bytes or text_bytes > self.memory.max_text_bytes
        return self.is_exceeded

    def read(self, chunk: bytes) -> bool:
        """Count a chunk of an event stream; return whether it takes long: it ends a large event, or much is kept."""
        before = self._event_bytes
        rest = 0 if chunk.endswith(_ENDS) else _bytes_after_end(chunk)
        is_large = rest is not None and before + len(chunk) > LARGE_EVENT_BYTES
        if rest or before or rest is None:
            self._event_bytes = min(before + len(chunk), EVENT_MAX_BYTES) if rest is None else rest  # more is a fault
            self.hold(self._event_bytes - before)
            memory, of_text = self.memory, (self._of_stream or self).text_bytes
            self.is_exceeded = self._grown_bytes > memory.share_bytes or of_text > memory.max_text_bytes
        return is_large or self._event_bytes + (self._of_stream or self).kept_bytes > HEAVY_BYTES

    async def receive(self, n_bytes: int) -> None:
        """Reserve memory for a request body, and wait until it may be used."""
        self._body_bytes += n_bytes
        self.hold(n_bytes)
        if self._body_bytes > SMALL_BYTES:
            await self._wait(self._body_bytes)

    async def wait_for_turn(self) -> None:
        """Wait until a stream that has grown may read. Its turn lasts until memory is released."""
        if not self.memory.is_spent or self._grown_bytes + self._body_bytes <= SMALL_BYTES:
            self.end_turn()
        await self._wait(self._grown_bytes)

    async def _wait(self, grown_bytes: int) -> None:
        while grown_bytes > SMALL_BYTES and self.memory.is_spent and self.memory.turn is not self:
            if self.memory.turn is None:
                self.memory.turn = self
            else:
                await self.memory.wait_for_change()

    def end_turn(self) -> None:
        """End the turn of this stream, so that another one may read."""
        if self.memory.turn is self:
            self.memory.turn = None
            self.memory.notify()


def _bytes_after_end(chunk: bytes) -> int | None:
    """Return the number of bytes after the last end of an event; None if no event ends in the chunk."""
    after = 0
    for end in _ENDS:
        at = chunk.rfind(end, max(0, after - 1))  # only behind those that were found: they may share one character
        after = at + len(end) if at >= 0 else after
    return len(chunk) - after if after else None
