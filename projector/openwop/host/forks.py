"""Runs that begin with the events of another run: replays, and branches of configured nodes (`replay.md`).

Copied events keep their ids, causes and times. No provider is asked again: a replay is the recorded log, with its
deltas, and a branch continues only where the continuation is configured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from projector.contracts import codec
from projector.core.faults import Fault
from projector.openwop.event_log import Event
from projector.openwop.host.host_errors import HostError
from projector.openwop.host.run_log import Interrupt
from projector.openwop.host.runs import HostRun, Work
from projector.redaction.redactor import Redactor

ForkMode = Literal["replay", "branch"]


class Fork(NamedTuple):
    """The events of another run before the fork."""

    source_run_id: str
    events: Sequence[Event]


def fork_of(source: HostRun, from_seq: int) -> Fork:
    """Return the events before a sequence number; raise `HostError` if the run has not got so far."""
    entries = source.log.entries
    if from_seq > len(entries):
        raise HostError("validation_error", "`fromSeq` exceeds the log of the run.")
    return Fork(source.run_id, [codec.loads(entry.data) for entry in entries[:from_seq]])


def replay_of(source: HostRun, from_seq: int) -> Fork:
    """Return all events of a run that has ended; `from_seq` is checked, because all of them are recorded."""
    if not source.log.state.is_over:
        raise HostError("run_not_terminal")
    fork_of(source, from_seq)
    return fork_of(source, len(source.log.entries))


class ReplayWork(Work):
    """Work that writes the events of another run again."""

    def __init__(self, fork: Fork, redactor: Redactor) -> None:
        self._fork = fork
        self.redactor = redactor

    async def run(self, run: HostRun) -> None:
        """Write all events; the last one ends the run."""
        for event in self._fork.events:
            run.log.copy(event)
        run.log.wake()

    def halt(self) -> None:
        """Do nothing: there is no input to stop reading."""

    def end(self, run: HostRun, fault: Fault | None) -> None:
        """Do nothing: the run writes its own terminal event."""

    def check_answer(self, _run: HostRun, _interrupt: Interrupt) -> None:
        """Reject the answer: it is recorded."""
        raise HostError("interrupt_already_resolved")

    async def close(self) -> None:
        """Do nothing: there are no resources to release."""
