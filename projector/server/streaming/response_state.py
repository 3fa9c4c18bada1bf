"""The state of one response, shared by its session and its writer: what may still be sent, and who decides the end.

There are three ends. A failure before the status is sent refuses the request: the route sends an error response. Any
other end is the last part of the stream, or the JSON document. After a client disconnect nothing is sent. Whatever
happens at the same time, the first accepted signal decides, because a signal is checked and applied without waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class Phase(IntEnum):
    """Progress of a response."""

    PENDING = 0  # nothing was sent
    COMMITTED = 1  # the status was sent
    ENDING = 2  # the end is decided, the status was not sent
    CLOSING = 3  # the end is decided, the status was sent
    REFUSED = 4  # nothing was sent, and the route sends an error response
    ENDED = 5  # everything was sent
    GONE = 6  # the client has disconnected, or the state of its connection is unknown


class Signal(IntEnum):
    """What happens to a response."""

    SEND = 0  # output is about to be sent
    BEAT = 1  # a heartbeat is about to be sent
    FAIL = 2  # the stream failed
    STOP = 3  # the stream is over, or was cancelled
    BREAK = 4  # the end of the response could not be produced
    SENT = 5  # the last message was sent
    LEAVE = 6  # the client disconnected, or a message was not sent completely


TRANSITIONS: Final[Mapping[Phase, Mapping[Signal, Phase]]] = {
    Phase.PENDING: {
        Signal.SEND: Phase.COMMITTED,
        Signal.BEAT: Phase.COMMITTED,
        Signal.FAIL: Phase.REFUSED,
        Signal.STOP: Phase.ENDING,
        Signal.BREAK: Phase.REFUSED,
        Signal.LEAVE: Phase.GONE,
    },
    Phase.COMMITTED: {
        Signal.SEND: Phase.COMMITTED,
        Signal.BEAT: Phase.COMMITTED,
        Signal.FAIL: Phase.CLOSING,
        Signal.STOP: Phase.CLOSING,
        Signal.LEAVE: Phase.GONE,
    },
    Phase.ENDING: {
        Signal.SEND: Phase.CLOSING,
        Signal.BREAK: Phase.REFUSED,
        Signal.LEAVE: Phase.GONE,
    },
    Phase.CLOSING: {
        Signal.SEND: Phase.CLOSING,
        Signal.BREAK: Phase.GONE,
        Signal.SENT: Phase.ENDED,
        Signal.LEAVE: Phase.GONE,
    },
    Phase.REFUSED: {Signal.LEAVE: Phase.GONE},
    Phase.ENDED: {},
    Phase.GONE: {},
}
"""Phase -> accepted signal -> next phase; any other signal is ignored."""

_COMMITTED: Final = frozenset({Phase.COMMITTED, Phase.CLOSING, Phase.ENDED})


class ResponseState:
    """The phase of one response."""

    def __init__(self) -> None:
        self.phase = Phase.PENDING

    @property
    def is_committed(self) -> bool:
        """Whether the status was sent, so that a failure must be reported in the stream."""
        return self.phase in _COMMITTED

    def accepts(self, signal: Signal) -> bool:
        """Return whether a signal would be accepted."""
        return signal in TRANSITIONS[self.phase]

    def apply(self, signal: Signal) -> bool:
        """Apply a signal; return False if it is ignored."""
        phase = TRANSITIONS[self.phase].get(signal)
        if phase is None:
            return False
        self.phase = phase
        return True
