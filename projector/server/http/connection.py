"""A client's connection: how long the head of a request may be, and how long it may take.

Until its head is there a request is nobody's: no caller, no limit of `projector.server.streaming.registry`. uvicorn
waits for it for
ever and keeps as many headers as come, so that a few thousand clients that say nothing would hold every file that the
process may open.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_MAX_BYTES: Final = 65_536
"""Of the request line and all headers; browsers and proxies stop at 8 to 32 KiB."""


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with both limits; `head_s` is set by who makes a class of it, see `guarded`."""

    head_s: float
    _is_in_head = True
    _head_bytes = 0
    _too_slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn's own signature
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; those of a head are counted."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if cycle is not None and cycle.response_complete:
            self._wait_for_head()  # uvicorn's own timer ends here, perhaps for a blank line
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_MAX_BYTES and not self.transport.is_closing():
                self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """Note that a head begins."""
        super().on_message_begin()
        self._is_in_head = True
        self._wait_for_head()

    def on_headers_complete(self) -> None:
        """Note that the head is there."""
        self._is_in_head = False
        self._head_bytes = 0
        self._stop_waiting()
        super().on_headers_complete()

    def _wait_for_head(self) -> None:
        if self._too_slow is None:
            self._too_slow = self.loop.call_later(self.head_s, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._too_slow is not None:
            self._too_slow.cancel()
            self._too_slow = None


def guarded(head_s: float) -> type[GuardedProtocol]:
    """Give the protocol for a server whose clients have so many seconds for a head."""
    return type("GuardedProtocol", (GuardedProtocol,), {"head_s": head_s})
