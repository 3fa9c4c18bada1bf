"""Limits on the head of a request: its size, and the time to receive it.

uvicorn waits for a request head without a time limit and buffers any number of headers. No limit of
`projector.server.streaming.registry` applies before the head is complete, so a few thousand silent clients could use up
all file descriptors of the process.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_MAX_BYTES: Final = 65_536
"""Size of the request line and all headers; browsers and proxies allow 8 to 32 KiB."""


class _GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with both limits; `guarded` returns a subclass with its `head_s`."""

    head_s: float
    _is_in_head = True
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn's own signature
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if cycle is not None and cycle.response_complete:
            self._start_timer()  # uvicorn stops its keep-alive timer here, even for a blank line
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_MAX_BYTES and not self.transport.is_closing():
                self.send_400_response("The request head is too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._start_timer()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._head_bytes = 0
        self._stop_timer()
        super().on_headers_complete()

    def _start_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_s, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def guarded(head_s: float) -> type[HttpToolsProtocol]:
    """Return the protocol class with a time limit in seconds for a request head."""
    return type("GuardedProtocol", (_GuardedProtocol,), {"head_s": head_s})
