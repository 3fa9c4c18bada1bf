"""The public dialect: each public frame is one wire event, bounded in bytes (seed contract; CONTRACT D27, D37)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import Kind, PrivateKind
from projector.core.canonical import Frame, WireEvent
from projector.core.sse import encode_sse
from projector.core.truncation import fit

Writer: TypeAlias = Callable[[Frame], bytes]

DROPPED: Final[Mapping[str, str]] = {
    PrivateKind.BRANCH: "the context of each event says where it belongs",
    PrivateKind.RESPONSE_META: "model and creation time are not of the contract",
    PrivateKind.RESPONSE_USAGE: "`final` says the sum over all responses (D13)",
    PrivateKind.REASONING_DELTA: "full reasoning never enters the public stream (D29)",
    PrivateKind.REASONING_DONE: "full reasoning never enters the public stream (D29)",
    PrivateKind.REASONING_ENCRYPTED: "full reasoning never enters the public stream (D29)",
}

HANDLED: Final[Mapping[str, Writer]] = dict.fromkeys(Kind, codec.dumps)
"""Every public frame is said as it is."""


FRAMING_BYTES: Final = len(encode_sse(b""))
"""What SSE puts around a frame; it counts."""


class PublicSseV1:
    """Write the frames of one stream."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes - FRAMING_BYTES

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Give the wire event of a public frame, nothing for a private one."""
        writer = HANDLED.get(frame["kind"])
        if writer is None:
            return []
        data = writer(frame)
        return [(None, data if len(data) <= self._max_bytes else writer(fit(frame, self._max_bytes)))]
