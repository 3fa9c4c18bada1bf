"""When a stream may speak, and how it ends: one total table.

A stream is IDLE until its provider says something, OPEN while a response streams, SETTLED when a response has ended and
the host's run may go on, ENDED after its terminal. Whatever happens next is one of eleven signals; the row for
(phase, signal) gives the next phase and a verdict, and nothing else decides. In ENDED everything is ignored, which is
why no stream can have two terminals (seed section 7.1, CONTRACT D11 and D12).

A stream that is not a run closes itself: its RESPONSE_END is followed at once by RUN_CLOSE.

Where responses of a run stream side by side, each has a branch with a phase of its own, and rows that differ from those
of a stream in how it ends: the end of a branch's bytes is not the end of the run, and a failure is so only where the
run
cannot go on without it. For such a branch ENDED means that nothing more comes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, TypeAlias


class Phase(IntEnum):
    """Where the stream stands."""

    IDLE = 0
    OPEN = 1
    SETTLED = 2
    ENDED = 3


class Signal(IntEnum):
    """What happens to the stream."""

    PROGRESS = 0  # the provider says something within a response
    RESPONSE_END = 1  # the provider says that the response is over
    HOST = 2  # the host says something through its own door
    NEXT = 3  # the host begins another response of the run
    RUN_CLOSE = 4  # the host closes the run
    EOF = 5  # the provider's bytes end
    FAULT = 6  # anything fails, or the server drains
    CANCEL = 7  # the host cancels
    DROPPED = 8  # the provider says something of which nothing is said
    BEGINNING = 9  # the provider says that a response begins, or is under way
    STOP = 10  # the host ends one branch of a run


class Verdict(IntEnum):
    """What the projector does about it."""

    IGNORE = 0
    SPEAK = 1  # say what the handler gives
    BEGIN = 2  # begin a response, then speak
    SETTLE = 3  # close the response and say its end
    BEGIN_AND_SETTLE = 4  # the end is the first that is heard of the response
    FINISH = 5  # terminal `final` with the status of the run
    CANCELLED = 6  # close what is open, terminal `final` cancelled
    FAIL = 7  # close what is open, terminal `error` with the fault
    TRUNCATED = 8  # the same with `upstream_truncated`
    EMPTY = 9  # the same with `upstream_empty`
    LEAVE = 10  # nothing more comes of this branch; close what is open in it
    FAIL_BRANCH = 11  # the same, and say that its response failed with the fault
    TRUNCATE_BRANCH = 12  # the same with `upstream_truncated`
    BEGIN_AND_FAIL_BRANCH = 13  # the failure is the first that is heard of the response
    EMPTY_BRANCH = 14  # the same with `upstream_empty`


Rows: TypeAlias = Mapping[Phase, Mapping[Signal, tuple[Phase, Verdict]]]

TRANSITIONS: Final[Rows] = {
    Phase.IDLE: {
        Signal.PROGRESS: (Phase.OPEN, Verdict.BEGIN),
        Signal.RESPONSE_END: (Phase.SETTLED, Verdict.BEGIN_AND_SETTLE),
        Signal.HOST: (Phase.IDLE, Verdict.SPEAK),
        Signal.NEXT: (Phase.IDLE, Verdict.IGNORE),
        Signal.RUN_CLOSE: (Phase.ENDED, Verdict.EMPTY),
        Signal.EOF: (Phase.ENDED, Verdict.EMPTY),
        Signal.FAULT: (Phase.ENDED, Verdict.FAIL),
        Signal.CANCEL: (Phase.ENDED, Verdict.CANCELLED),
        Signal.DROPPED: (Phase.OPEN, Verdict.BEGIN),  # what ends now is no empty stream
        Signal.BEGINNING: (Phase.OPEN, Verdict.BEGIN),
        Signal.STOP: (Phase.ENDED, Verdict.CANCELLED),
    },
    Phase.OPEN: {
        Signal.PROGRESS: (Phase.OPEN, Verdict.SPEAK),
        Signal.RESPONSE_END: (Phase.SETTLED, Verdict.SETTLE),
        Signal.HOST: (Phase.OPEN, Verdict.SPEAK),
        Signal.NEXT: (Phase.ENDED, Verdict.TRUNCATED),
        Signal.RUN_CLOSE: (Phase.ENDED, Verdict.TRUNCATED),
        Signal.EOF: (Phase.ENDED, Verdict.TRUNCATED),
        Signal.FAULT: (Phase.ENDED, Verdict.FAIL),
        Signal.CANCEL: (Phase.ENDED, Verdict.CANCELLED),
        Signal.DROPPED: (Phase.OPEN, Verdict.IGNORE),
        Signal.BEGINNING: (Phase.OPEN, Verdict.SPEAK),
        Signal.STOP: (Phase.ENDED, Verdict.CANCELLED),
    },
    Phase.SETTLED: {
        Signal.PROGRESS: (Phase.SETTLED, Verdict.IGNORE),  # too late for the response that ended
        Signal.RESPONSE_END: (Phase.SETTLED, Verdict.IGNORE),
        Signal.HOST: (Phase.SETTLED, Verdict.SPEAK),
        Signal.NEXT: (Phase.IDLE, Verdict.IGNORE),
        Signal.RUN_CLOSE: (Phase.ENDED, Verdict.FINISH),
        Signal.EOF: (Phase.ENDED, Verdict.FINISH),
        Signal.FAULT: (Phase.ENDED, Verdict.FAIL),
        Signal.CANCEL: (Phase.ENDED, Verdict.CANCELLED),
        Signal.DROPPED: (Phase.SETTLED, Verdict.IGNORE),
        Signal.BEGINNING: (Phase.OPEN, Verdict.BEGIN),  # recordings hold the responses of a run in one stream
        Signal.STOP: (Phase.ENDED, Verdict.CANCELLED),
    },
    Phase.ENDED: dict.fromkeys(Signal, (Phase.ENDED, Verdict.IGNORE)),
}

_OVER: Final = (Phase.ENDED, Verdict.LEAVE)
BRANCH_TRANSITIONS: Final[Rows] = {
    Phase.IDLE: {**TRANSITIONS[Phase.IDLE], Signal.STOP: _OVER},
    Phase.OPEN: {**TRANSITIONS[Phase.OPEN], Signal.STOP: _OVER},
    Phase.SETTLED: {**TRANSITIONS[Phase.SETTLED], Signal.STOP: _OVER, Signal.EOF: _OVER, Signal.FAULT: _OVER},
    Phase.ENDED: TRANSITIONS[Phase.ENDED],
}
"""Of a branch that the run cannot do without; what comes after the end of its response does no harm."""

OPTIONAL_BRANCH_TRANSITIONS: Final[Rows] = {
    **BRANCH_TRANSITIONS,
    Phase.IDLE: {
        **BRANCH_TRANSITIONS[Phase.IDLE],
        Signal.EOF: (Phase.ENDED, Verdict.EMPTY_BRANCH),
        Signal.FAULT: (Phase.ENDED, Verdict.BEGIN_AND_FAIL_BRANCH),
    },
    Phase.OPEN: {
        **BRANCH_TRANSITIONS[Phase.OPEN],
        Signal.NEXT: (Phase.ENDED, Verdict.TRUNCATE_BRANCH),
        Signal.EOF: (Phase.ENDED, Verdict.TRUNCATE_BRANCH),
        Signal.FAULT: (Phase.ENDED, Verdict.FAIL_BRANCH),
    },
}
"""Of a branch without which the run goes on."""

RUN_STATUS_ORDER: Final = ("cancelled", "failed", "refused", "incomplete", "completed")
"""The first of these that a response of the run has is the status of the run (D12)."""
