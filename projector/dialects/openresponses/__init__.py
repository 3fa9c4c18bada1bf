"""Open Responses: the whole stream as one response object, written from clean frames only (seed 003; D36, D37).

What the protocol has no word for is said under our own name (`public-sse:...`), which its clients skip. `assemble`
gives the answer to a request that does not stream.
"""

from __future__ import annotations

from typing import Final

from projector.contracts.kinds import Kind, PrivateKind
from projector.core.canonical import Frame, WireEvent
from projector.dialects.openresponses.assembly import Answer, assemble
from projector.dialects.openresponses.fitting import EVENT_MAX_BYTES
from projector.dialects.openresponses.stream import Stream
from projector.dialects.openresponses.writers import DROPPED, HANDLED

__all__ = ["DROPPED", "EVENT_MAX_BYTES", "HANDLED", "Answer", "OpenResponses", "assemble"]

DONE: Final[WireEvent] = (None, b"[DONE]")

BEFORE_WORK: Final = frozenset({PrivateKind.RESPONSE_META, Kind.LIFECYCLE})
"""Kinds that may be said before the response is under way."""


class OpenResponses:
    """Write the frames of one stream."""

    def __init__(self, max_bytes: int = EVENT_MAX_BYTES) -> None:
        self._stream = Stream(max_bytes)

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Give the events of a frame."""
        stream, kind = self._stream, frame["kind"]
        writer = HANDLED.get(kind)
        if writer is None:
            return []
        stream.said = []
        if kind not in BEFORE_WORK:
            stream.go_on(frame)
        writer(stream, frame)
        return stream.said

    def close(self) -> list[WireEvent]:
        """Give the end mark."""
        return [DONE]
