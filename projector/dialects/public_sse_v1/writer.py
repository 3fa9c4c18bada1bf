"""Encode public frames as JSON, within the limit of one event (CONTRACT D27, D37)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count, repeat
from typing import Final

from projector.contracts import codec
from projector.contracts.kinds import Kind, PrivateKind
from projector.core.canonical import Frame, WireEvent
from projector.core.delta_frames import DeltaFrames
from projector.core.sse import encode_sse
from projector.core.truncation import fit
from projector.dialects.descriptor import RepeatWriter
from projector.dialects.frame_writer import NUMBER_PLACE, TEXT_PLACE, VALUES_MAX_BYTES, pattern_of

DROPPED: Final[Mapping[str, str]] = {
    PrivateKind.BRANCH: "the context of each event shows its branch",
    PrivateKind.RESPONSE_META: "the contract has no model or creation time",
    PrivateKind.RESPONSE_USAGE: "`final` has the sum over all responses (D13)",
    **dict.fromkeys((PrivateKind.ITEM_DETAILS, PrivateKind.ITEM_MEMBERS), "the contract has no member for it"),
    PrivateKind.FILE_PATH: "the contract has no such citation",
    PrivateKind.RESPONSE_ERROR: "`error` or `lifecycle` reports the failure",
    PrivateKind.REASONING_DELTA: "full reasoning never enters the public stream (D29)",
    PrivateKind.REASONING_DONE: "full reasoning never enters the public stream (D29)",
    PrivateKind.REASONING_ENCRYPTED: "full reasoning never enters the public stream (D29)",
    PrivateKind.CALL_SEALED: "its clients carry nothing for the provider",
    PrivateKind.LATE_TEXTS: "`final` has the texts themselves",
}

HANDLED: Final[Mapping[str, Callable[[Frame], bytes]]] = dict.fromkeys(map(str, Kind), codec.dumps)
"""Every public frame is encoded unchanged."""

FRAMING_BYTES: Final = len(encode_sse(b""))
"""Bytes that SSE adds to a frame. They count toward the limit."""

_FINAL: Final = Kind.FINAL  # looked up once here, not once per token in its class


class PublicSseV1:
    """The writer of one stream."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes - FRAMING_BYTES
        self.has_cut = False
        """Whether a frame was truncated to be an event."""

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Return the event of a public frame; nothing for a private one."""
        kind = frame["kind"]
        writer = HANDLED.get(kind)
        if writer is None:
            return []
        if kind == _FINAL and codec.is_long(frame["final"]) and codec.size(frame) > self._max_bytes:
            return [(None, writer(self._fit(frame)))]
        data = writer(frame)
        return [(None, data if len(data) <= self._max_bytes else writer(self._fit(frame)))]

    def _fit(self, frame: Frame) -> Frame:
        self.has_cut = True
        return fit(frame, self._max_bytes)

    def repeat(self, frame: Frame, /) -> RepeatWriter | None:
        """Return a writer of the further deltas of a text; None if they cannot be written so."""
        if [name for name in frame if name in _PLACES] != [*_PLACES]:
            return None
        pattern = pattern_of(frame, _PLACES)
        if len(pattern) + VALUES_MAX_BYTES > self._max_bytes:
            return None

        def write(deltas: DeltaFrames) -> list[bytes]:
            time, numbers, texts = deltas.timestamp.encode(), deltas.sequences, deltas.encoded
            if len(texts) == 1:  # as a model sends them
                return [pattern % (deltas.first_id, time, numbers[0], texts[0])]
            return [pattern % values for values in zip(count(deltas.first_id), repeat(time), numbers, texts)]

        return RepeatWriter(None, write)


_PLACES: Final[Mapping[str, bytes]] = {
    "event_id": NUMBER_PLACE,
    "server_timestamp": TEXT_PLACE,
    "provider_sequence_number": NUMBER_PLACE,
    "delta": TEXT_PLACE,
}
"""In the order in which a frame has them."""
