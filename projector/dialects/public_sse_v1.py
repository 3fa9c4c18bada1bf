"""The public dialect: each public frame is one wire event, bounded in bytes (seed contract; CONTRACT D27, D37)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from contracts import codec
from contracts.kinds import Kind, PrivateKind
from projector.canonical import Frame, WireEvent
from projector.fitting import fit

Writer: TypeAlias = Callable[[Frame, int], bytes]

DROPPED: Final[Mapping[str, str]] = {
    PrivateKind.RESPONSE_META: "model and creation time are not of the contract",
    PrivateKind.REASONING_DELTA: "full reasoning never enters the public stream (D29)",
    PrivateKind.REASONING_DONE: "full reasoning never enters the public stream (D29)",
    PrivateKind.REASONING_ENCRYPTED: "full reasoning never enters the public stream (D29)",
}


def write(frame: Frame, max_bytes: int) -> bytes:
    """Give the frame as JSON of at most `max_bytes`."""
    data = codec.dumps(frame)
    return data if len(data) <= max_bytes else codec.dumps(fit(frame, max_bytes))


SPOKEN: Final[Mapping[str, Writer]] = dict.fromkeys(Kind, write)


class PublicSseV1:
    """Write the frames of one stream."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Give the wire event of a public frame, nothing for a private one."""
        writer = SPOKEN.get(frame["kind"])
        return [(None, writer(frame, self._max_bytes))] if writer is not None else []

    def close(self) -> list[WireEvent]:
        """Nothing follows the terminal."""
        return []
