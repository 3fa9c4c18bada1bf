"""An answer in one piece: a stream that is read to its end here, and sent as what it comes to (docs/decisions/0010).

Nothing is committed before that, so whatever fails on the way there is a problem document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from anyio import to_thread
from starlette.types import Send

from projector.contracts import codec
from projector.core.sse import DONE
from projector.dialects.openresponses.assembly import ERROR_PREFIX, assemble
from projector.server.streaming.memory import LARGE_EVENT_BYTES, Account
from projector.server.streaming.response_writer import ResponseWriter

ASSEMBLED: Final = "openresponses"
"""The dialect whose last event is the whole answer."""

HEADERS: Final = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
"""Of every such answer."""


class JsonResponseWriter(ResponseWriter):
    """Takes the lines of a stream and sends one JSON document, with the status that it deserves.

    The last event holds everything that was said before it, so no more than that and an error is kept.
    """

    def __init__(
        self, send: Send, headers: Sequence[tuple[bytes, bytes]], account: Account, on_gone: Callable[[], None]
    ) -> None:
        super().__init__(send, headers, account, on_gone)
        self._headers = [*HEADERS, *headers]
        self._error = b""
        self._last = b""

    async def say(self, data: bytes, *, is_last: bool = False) -> None:
        """Take whole lines; send what they come to after the last ones."""
        held_bytes = len(self._error) + len(self._last)
        for line in data.splitlines():
            if line.startswith(ERROR_PREFIX):
                self._error = line
            elif line != DONE:
                self._last = line
        self._account.hold(len(self._error) + len(self._last) - held_bytes)
        if is_last:
            body = await self._assemble()
            self._headers.append((b"content-length", b"%d" % len(body)))
            await super().say(body, is_last=True)

    async def _assemble(self) -> bytes:
        """Give the document, a large one not on the event loop."""
        is_large = len(self._last) > LARGE_EVENT_BYTES
        return await to_thread.run_sync(self._document) if is_large else self._document()

    def _document(self) -> bytes:
        self._status, body = assemble([self._error, self._last])
        return codec.dumps(body)
