"""One branch of a pipeline, as its host feeds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from projector.core.canonical import CanonicalEvent
from projector.core.faults import Fault
from projector.core.intake import Intake
from projector.core.projector import PublicStreamProjector
from projector.core.transcript import End

Say: TypeAlias = Callable[..., bytes]
"""Does work in the branch, and gives the bytes of what it says."""


class PipelineBranch:
    """One response of a run among others that stream at the same time. Made by `Pipeline.branch`.

    Its methods return bytes to send, as the pipeline's do; the order of the calls is that of the stream.
    """

    def __init__(self, intake: Intake, projector: PublicStreamProjector, say: Say) -> None:
        self._intake = intake
        self._projector = projector
        self._say = say

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it: it is closed, failed or stopped, or the run has ended."""
        return self._projector.ended or self._intake.branch.is_over

    @property
    def end(self) -> End | None:
        """How its last response ended, None where none has."""
        return self._intake.branch.end

    def feed(self, data: bytes) -> bytes:
        """Take bytes of its provider, cut anywhere."""
        return self._say(self._intake.feed, data)

    def close(self, fault: Fault | None = None) -> bytes:
        """Take the end of its bytes, or a fault: that ends the run, unless the branch is optional."""
        if fault is None:
            return self._say(lambda: self._intake.end() + self._projector.end_branch())
        return self._say(lambda: self._intake.end(is_broken=True) + self._projector.fail(fault))

    def stop(self) -> bytes:
        """Close what is open in it and say nothing more of it; the run goes on, or is about to be closed."""
        return self._say(self._projector.stop)

    def host(self, event: CanonicalEvent) -> bytes:
        """Take an event of the host that is about this branch."""
        return self._say(self._projector.host, event)

    def next_response(self) -> bytes:
        """Begin another upstream in this branch: its bytes are read from the start."""
        return self._say(self._intake.next_response)
