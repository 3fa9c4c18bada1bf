"""The answer to a request that does not stream: the last `response` object of a stream, or its error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from projector.contracts import codec
from projector.core.sse import DONE
from projector.dialects.descriptor import JsonAnswer
from projector.dialects.openresponses.response import HTTP_STATUSES

ERROR_PREFIX: Final = b'{"type":"error",'
"""Start of the data of an `error` event, as this dialect encodes it."""


class ResponseAssembly:
    """Keeps the error and the last event: that one repeats everything before it."""

    def __init__(self) -> None:
        self._error = b""
        self._last = b""

    @property
    def held_bytes(self) -> int:
        """Bytes kept for the answer so far."""
        return len(self._error) + len(self._last)

    def feed(self, event: bytes, /) -> None:
        """Add the data of an event."""
        if event.startswith(ERROR_PREFIX):
            self._error = event
        else:
            self._last = event

    def close(self) -> JsonAnswer:
        """Return status 200 and the `response` object; or the status of the error and `{"error": ...}`.

        Raises:
            ValueError: the stream did not end.
        """
        if self._error:
            payload = codec.loads(self._error)["error"]
            return JsonAnswer(HTTP_STATUSES[payload["type"]], {"error": payload})
        last = codec.loads(self._last) if self._last else {}
        if last.get("response", {}).get("status") not in {"completed", "incomplete", "failed"}:
            raise ValueError("expected a whole stream of Open Responses; its last event does not end a response")
        return JsonAnswer(200, last["response"])


def assemble(lines: Iterable[bytes]) -> JsonAnswer:
    """Return the answer of a whole stream, given as the data of its events or the lines of its NDJSON.

    Raises:
        ValueError: the stream did not end.
    """
    assembly = ResponseAssembly()
    for line in lines:
        if line.strip() not in {b"", DONE}:
            assembly.feed(line)
    return assembly.close()
