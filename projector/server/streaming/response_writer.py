"""Writes one response: the head, then bytes in pieces."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from anyio.lowlevel import checkpoint
from starlette.types import Message, Send

from projector.dialects.descriptor import Dialect
from projector.server.streaming.memory import Account

Write: TypeAlias = Callable[[bytes], Awaitable[None]]

HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
)
"""Of every stream."""

SEND_MAX_BYTES: Final = 65_536
"""Of one send: what uvicorn buffers before it makes us wait, so that a slow client is seen to read."""


class ResponseWriter:
    """Writes one HTTP response; concurrent writes do not mix.

    Args:
        send: the server's.
        dialect: of the stream; may have headers of its own.
        headers: of the response, besides `HEADERS`.
        account: holds output that is too large for one send.
        on_gone: is called when the server reports that the client is gone.
    """

    def __init__(
        self,
        send: Send,
        dialect: Dialect,
        headers: Sequence[tuple[bytes, bytes]],
        account: Account,
        on_gone: Callable[[], None],
    ) -> None:
        self._send = send
        self._headers = [*HEADERS, *dialect.headers, *headers]
        self._status = 200
        self._account = account
        self._on_gone = on_gone
        self._turn = asyncio.Lock()  # asyncio's own: every event acquires it, and anyio's has a checkpoint
        self.is_committed = False
        """Whether the status was sent, so that a failure must be reported in the stream."""
        self.sent_at = time.monotonic()
        self.sending_since: float | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a write is in progress."""
        return self._turn.locked()

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        """Send the head if it was not sent, then bytes, perhaps none."""
        async with self._turn:
            if not self.is_committed:
                self.is_committed = True
                await self._transmit({"type": "http.response.start", "status": self._status, "headers": self._headers})
            if len(data) > SEND_MAX_BYTES:
                await self._write_in_pieces(data)
            elif data:
                await self._transmit({"type": "http.response.body", "body": data, "more_body": True})
            if is_last:
                await self._transmit({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write_in_pieces(self, data: bytes) -> None:
        self._account.hold(len(data))
        try:
            for start in range(0, len(data), SEND_MAX_BYTES):
                piece = data[start : start + SEND_MAX_BYTES]
                await self._transmit({"type": "http.response.body", "body": piece, "more_body": True})
        finally:
            self._account.hold(-len(data))

    async def _transmit(self, message: Message) -> None:
        self.sending_since = time.monotonic()
        try:
            await self._send(message)
        except OSError:  # what ASGI servers raise when the client is gone
            self._on_gone()
            await checkpoint()
        self.sending_since = None
        self.sent_at = time.monotonic()
