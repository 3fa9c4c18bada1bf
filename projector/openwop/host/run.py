"""One run: a task of its own, whoever reads it, with exactly one terminal event at its end."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import anyio
import structlog

from projector.core.faults import FAULTS, Fault
from projector.openwop.host.faults import INTERRUPT_TIMEOUT
from projector.openwop.host.log import RunLog
from projector.openwop.run_state import Interrupt

log: Final = structlog.get_logger()

Answers: TypeAlias = dict[str, object]
"""What a person answered, by the id of what is approved or of the interrupt."""


class RunFailedError(Exception):
    """A run cannot go on."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.code)
        self.fault = fault


class RunStoppedError(Exception):
    """A run was stopped while it waited for a person."""


class Work(Protocol):
    """What a run does."""

    async def run(self, run: Run) -> None:
        """Say everything, the end included.

        Raises:
            RunFailedError: its end is not said.
            RunStoppedError: the same, because it was stopped.
        """
        ...

    def halt(self) -> None:
        """Bring no more: `run` comes to an end soon, and what has come is said whole first."""
        ...

    def end(self, run: Run, fault: Fault | None) -> None:
        """Say the end of a run that was stopped: by a fault, or cancelled where it is None."""
        ...

    def answer(self, run: Run, interrupt: Interrupt, value: object) -> object:
        """Give an answer as the work takes it, and take up what a running run needs.

        Raises:
            Problem: it is no answer to this, or there is no room to go on.
        """
        ...

    async def close(self) -> None:
        """Give everything back, and tell of the end."""
        ...


class Run:
    """One run of a caller."""

    def __init__(self, run_id: str, workflow_id: str, caller: str, run_log: RunLog, approval_timeout_s: float) -> None:
        self.run_id = run_id
        self.workflow_id = workflow_id
        self.caller = caller
        self.log = run_log
        self._answer_s = approval_timeout_s
        self._answers: Answers = {}
        self.is_stopped = False
        self._fault: Fault | None = None
        self._work: Work | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, work: Work, on_end: Callable[[Run], None]) -> None:
        """Begin; the run goes on when who asked for it is gone."""
        self._work = work
        self._task = asyncio.create_task(self._drive(work, on_end), name=self.run_id)

    def cancel(self) -> None:
        """End it with `run.cancelled`; more than once is no more than once."""
        self._stop(None)

    def fail(self, fault: Fault) -> None:
        """End it with `run.failed`."""
        self._stop(fault)

    async def ended(self) -> None:
        """Wait for its end."""
        if self._task is not None:
            await asyncio.wait([self._task])

    @property
    def is_asking(self) -> bool:
        """Whether a person is asked, or has answered what was not taken yet."""
        return bool(self.log.state.pending or self._answers)

    async def answers(self) -> Answers:
        """Wait until everything that is pending is answered; give the answers.

        Raises:
            RunFailedError: nobody has answered in time.
            RunStoppedError: the run was stopped.
        """
        try:
            with anyio.fail_after(self._answer_s):
                while self.log.state.pending and not self.is_stopped:
                    await self.log.wait()
        except TimeoutError:
            raise RunFailedError(INTERRUPT_TIMEOUT) from None
        if self.is_stopped:
            raise RunStoppedError
        answers, self._answers = self._answers, {}
        return answers

    def resolve(self, interrupt: Interrupt, value: object) -> None:
        """Take the answer of a person.

        Raises:
            Problem: it is no answer to this.
        """
        assert self._work is not None  # noqa: S101 - what has not begun has no interrupt
        self._answers[interrupt.about or interrupt.interrupt_id] = self._work.answer(self, interrupt, value)
        self.log.say(
            "interrupt.resolved",
            {"nodeId": interrupt.node_id, "interruptId": interrupt.interrupt_id, "kind": interrupt.kind},
            node_id=interrupt.node_id,
        )

    def _stop(self, fault: Fault | None) -> None:
        if not self.is_stopped and not self.log.state.is_over:
            self.is_stopped = True
            self._fault = fault
            self.log.wake()
            if self._work is not None:
                self._work.halt()

    async def _drive(self, work: Work, on_end: Callable[[Run], None]) -> None:
        fault: Fault | None = None
        try:
            if not self.is_stopped:
                await work.run(self)
        except RunStoppedError:
            pass
        except RunFailedError as error:
            fault = error.fault
        except Exception as error:  # noqa: BLE001 - whatever it is, the run is told to have failed
            _log_crash(self, error)
            fault = FAULTS["internal_error"]
        finally:
            with anyio.CancelScope(shield=True):
                self._end(work, self._fault if self.is_stopped else fault)
                on_end(self)
                self._work = None  # the log is kept, what it was asked is not
                await work.close()

    def _end(self, work: Work, fault: Fault | None) -> None:
        """Say the end if it is not said, whatever the work makes of it."""
        if not self.log.state.is_over:
            work.end(self, fault)
        if not self.log.state.is_over:
            fault = fault or FAULTS["internal_error"]
            self.log.say("run.failed", {"error": {"code": fault.code, "message": fault.message}})


def _log_crash(run: Run, error: Exception) -> None:
    """Log a mistake of ours by its kind and place; what it says may be the payload."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    log.error(
        "run_crashed", run_id=run.run_id, error_type=type(error).__name__, place=f"{place.filename}:{place.lineno}"
    )
