"""The JSON answer to a request that does not stream, from the events of its stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from projector.contracts import codec
from projector.dialects.descriptor import JsonAnswer

ERROR_PREFIX: Final = b'{"type":"error",'
"""Start of the data of an `error` event, as it is encoded here."""

ENDED: Final = frozenset({"completed", "incomplete", "failed", "cancelled"})


class ResponseAssembly:
    """Builder of the JSON answer, from the error and the last event, which repeats everything before it.

    Args:
        status_of: returns the HTTP status of the `error` of an `error` event.
    """

    def __init__(self, status_of: Callable[[Mapping[str, Any]], int]) -> None:
        self._status_of = status_of
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
        """Return the `response` object or `{"error": ...}`, or raise `ValueError` if the stream did not end."""
        if self._error:
            payload = codec.loads(self._error)["error"]
            return JsonAnswer(self._status_of(payload), {"error": payload})
        last = codec.loads(self._last) if self._last else {}
        if last.get("response", {}).get("status") not in ENDED:
            raise ValueError("expected a complete stream, but the last event does not end a response")
        return JsonAnswer(200, last["response"])
