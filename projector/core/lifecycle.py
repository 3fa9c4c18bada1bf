"""The lifecycle table: when a stream may emit, and how it ends.

A stream is IDLE until the provider's first event, OPEN while a response streams, SETTLED when a response has ended and
the host's run may continue, ENDED after its terminal event. Each input is one of eleven signals. Only the row of
(phase, signal) determines the next phase and the verdict. In ENDED every signal is ignored, so a stream cannot have two
terminals (seed section 7.1, CONTRACT D11 and D12).

A stream that is not a run closes itself: its RESPONSE_END is followed at once by RUN_CLOSE.

Where responses of a run stream at the same time, each branch has a phase of its own. Its rows differ from those of a
stream in how it ends: the end of its bytes does not end the run, and a failure does so only if the branch is not
optional. For such a branch ENDED means that it emits nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, TypeAlias


class Phase(IntEnum):
    """The state of a stream or branch."""

    IDLE = 0
    OPEN = 1
    SETTLED = 2
    ENDED = 3


class Signal(IntEnum):
    """An input of the lifecycle of a stream or branch."""

    PROGRESS = 0  # a provider event within a response
    RESPONSE_END = 1  # the provider ends the response
    HOST = 2  # a host event
    NEXT = 3  # the host starts another response of the run
    RUN_CLOSE = 4  # the host closes the run
    EOF = 5  # the provider's bytes end
    FAULT = 6  # a failure, or the server drains
    CANCEL = 7  # the host cancels
    DROPPED = 8  # a provider event that is dropped
    BEGINNING = 9  # the provider reports that a response began or is under way
    STOP = 10  # the host ends one branch of a run


class Verdict(IntEnum):
    """How the projector reacts to a signal."""

    IGNORE = 0
    EMIT = 1  # emit the handler's frames
    BEGIN = 2  # start a response, then emit
    SETTLE = 3  # close the response and emit its end
    BEGIN_AND_SETTLE = 4  # the same for a response whose end is its first event
    FINISH = 5  # terminal `final` with the status of the run
    CANCELLED = 6  # close open items, terminal `final` cancelled
    FAIL = 7  # close open items, terminal `error` with the fault
    TRUNCATED = 8  # the same with `upstream_truncated`
    EMPTY = 9  # the same with `upstream_empty`
    LEAVE = 10  # close the open items of the branch and end it
    FAIL_BRANCH = 11  # the same, after `lifecycle` failed with the fault
    TRUNCATE_BRANCH = 12  # the same with `upstream_truncated`
    BEGIN_AND_FAIL_BRANCH = 13  # the same for a response whose failure is its first event
    EMPTY_BRANCH = 14  # the same with `upstream_empty`


Transitions: TypeAlias = Mapping[Phase, Mapping[Signal, tuple[Phase, Verdict]]]

TRANSITIONS: Final[Transitions] = {
    Phase.IDLE: {
        Signal.PROGRESS: (Phase.OPEN, Verdict.BEGIN),
        Signal.RESPONSE_END: (Phase.SETTLED, Verdict.BEGIN_AND_SETTLE),
        Signal.HOST: (Phase.IDLE, Verdict.EMIT),
        Signal.NEXT: (Phase.IDLE, Verdict.IGNORE),
        Signal.RUN_CLOSE: (Phase.ENDED, Verdict.EMPTY),
        Signal.EOF: (Phase.ENDED, Verdict.EMPTY),
        Signal.FAULT: (Phase.ENDED, Verdict.FAIL),
        Signal.CANCEL: (Phase.ENDED, Verdict.CANCELLED),
        Signal.DROPPED: (Phase.OPEN, Verdict.BEGIN),  # the stream is not empty any more
        Signal.BEGINNING: (Phase.OPEN, Verdict.BEGIN),
        Signal.STOP: (Phase.ENDED, Verdict.CANCELLED),
    },
    Phase.OPEN: {
        Signal.PROGRESS: (Phase.OPEN, Verdict.EMIT),
        Signal.RESPONSE_END: (Phase.SETTLED, Verdict.SETTLE),
        Signal.HOST: (Phase.OPEN, Verdict.EMIT),
        Signal.NEXT: (Phase.ENDED, Verdict.TRUNCATED),
        Signal.RUN_CLOSE: (Phase.ENDED, Verdict.TRUNCATED),
        Signal.EOF: (Phase.ENDED, Verdict.TRUNCATED),
        Signal.FAULT: (Phase.ENDED, Verdict.FAIL),
        Signal.CANCEL: (Phase.ENDED, Verdict.CANCELLED),
        Signal.DROPPED: (Phase.OPEN, Verdict.IGNORE),
        Signal.BEGINNING: (Phase.OPEN, Verdict.EMIT),
        Signal.STOP: (Phase.ENDED, Verdict.CANCELLED),
    },
    Phase.SETTLED: {
        Signal.PROGRESS: (Phase.SETTLED, Verdict.IGNORE),  # too late for the response that ended
        Signal.RESPONSE_END: (Phase.SETTLED, Verdict.IGNORE),
        Signal.HOST: (Phase.SETTLED, Verdict.EMIT),
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
BRANCH_TRANSITIONS: Final[Transitions] = {
    Phase.IDLE: {**TRANSITIONS[Phase.IDLE], Signal.STOP: _OVER},
    Phase.OPEN: {**TRANSITIONS[Phase.OPEN], Signal.STOP: _OVER},
    Phase.SETTLED: {**TRANSITIONS[Phase.SETTLED], Signal.STOP: _OVER, Signal.EOF: _OVER, Signal.FAULT: _OVER},
    Phase.ENDED: TRANSITIONS[Phase.ENDED],
}
"""Rows of a branch that is not optional. After the end of its response, a failure has no effect."""

OPTIONAL_BRANCH_TRANSITIONS: Final[Transitions] = {
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
"""Rows of an optional branch: its failure does not end the run."""

RUN_STATUS_ORDER: Final = ("cancelled", "failed", "refused", "incomplete", "completed")
"""The status of a run is the first of these that one of its responses has (D12)."""
