"""Workflows of configured nodes. Their events are planned before the run starts. For conformance only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.types import Scope

from projector.contracts import codec
from projector.core.faults import Fault
from projector.openwop.conformance.definitions import RegisteredWorkflow, definition
from projector.openwop.conformance.mock_nodes import PlannedRun, Step
from projector.openwop.event_log import RUN_TERMINALS, Event, Verbosity, present
from projector.openwop.host.bindings import Begin, RunnableWorkflow, check_configurable
from projector.openwop.host.forks import Fork
from projector.openwop.host.host_errors import REJECTED, HostError
from projector.openwop.host.interrupts import decision
from projector.openwop.host.run_log import Interrupt
from projector.openwop.host.run_requests import RunRequest
from projector.openwop.host.runs import HostRun, RunFailedError, Work
from projector.openwop.host.settings import OpenWopSettings
from projector.redaction.redactor import Redactor

ANSWERS: Final = frozenset({"interrupt.resolved", "node.resumed"})
"""Events that answer a suspension; all others are steps of the plan."""


ENDS: Final = RUN_TERMINALS | {"node.failed", "node.cancelled"}
"""Events after which the plan is not continued."""


class PlannedWorkflow(RunnableWorkflow):
    """A workflow of configured nodes that can be run."""

    def __init__(self, registered: RegisteredWorkflow, settings: OpenWopSettings, redactor: Redactor) -> None:
        super().__init__(redactor)
        self._registered = registered
        self._settings = settings

    def document(self) -> dict[str, Any]:
        """Return the definition."""
        members = self._registered.definition.model_dump(mode="json", by_alias=True, exclude_none=True)
        return definition(self._registered.definition.id, members.pop("nodes")) | members

    def prepare(self, request: RunRequest, caller: str, _scope: Scope) -> Begin:
        """Check the caller and the options of the run."""
        return self._begin(request, caller, ())

    def branch(self, fork: Fork, request: RunRequest, caller: str) -> Begin:
        """Check the caller and the options of a run that continues another one."""
        if any(event["type"] in ENDS for event in fork.events):
            raise HostError("validation_error", "`fromSeq` is after the end of the run or the failure of a node.")
        return self._begin(request, caller, fork.events)

    def resume(self, run: HostRun, record: Mapping[str, Any]) -> PlannedWork:
        """See `RunnableWorkflow`."""
        return self._work(run, record["threshold"], record["verbosity"], (), is_continued=True)

    def _work(
        self,
        run: HostRun,
        threshold: float,
        verbosity: Verbosity | None,
        copied: Sequence[Event],
        *,
        is_continued: bool = False,
    ) -> PlannedWork:
        redactor = self.redactor(verbosity)
        steps = self._registered.steps(PlannedRun(run.run_id, redactor, threshold, redactor.policy.reasoning))
        record = {"threshold": threshold, "verbosity": verbosity}
        return PlannedWork(steps, redactor, copied, record, is_continued=is_continued)

    def _begin(self, request: RunRequest, caller: str, copied: Sequence[Event]) -> Begin:
        allowed = self._settings.conformance_callers
        if allowed and caller not in allowed:
            raise HostError("forbidden")
        options = request.configurable
        check_configurable(options)
        threshold = options.escalation_threshold
        if threshold is None:
            threshold = self._settings.escalation_threshold

        return lambda run: self._work(run, threshold, options.reasoning_verbosity, copied)


class PlannedWork(Work):
    """Work that writes planned steps, and waits for an answer at each suspension.

    `copied` are events of another run of the same plan, which come first. Continued work begins after the events of the
    log; `record` is what it needs.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        redactor: Redactor,
        copied: Sequence[Event] = (),
        record: Mapping[str, Any] | None = None,
        *,
        is_continued: bool = False,
    ) -> None:
        self._steps = steps
        self._copied = copied
        self._record = record or {}
        self._is_continued = is_continued
        self.redactor = redactor

    def record(self) -> Mapping[str, Any]:
        """See `Work`."""
        return self._record

    async def run(self, run: HostRun) -> None:
        """Write all events; a rejected decision fails the run."""
        ids = self._logged(run) if self._is_continued else self._copy(run)
        is_resumed = bool(self._copied) and self._copied[-1]["type"] == "node.resumed"
        for at, step in enumerate(self._steps):
            cause = None if step.cause is None else ids[step.cause]
            if at == len(ids):
                ids.append(run.log.emit(step.type, step.payload, node_id=step.node_id, causation_id=cause))
            elif at + 1 < len(ids) or is_resumed:
                continue
            if step.type == "interrupt.requested" and step.cause is not None:
                await self._wait(run, ids[step.cause])

    async def _wait(self, run: HostRun, event_id: str) -> None:
        """Wait for the answer to a suspension, unless it is copied."""
        run.park()
        answers = await run.answers()
        copied = [event["payload"] for event in self._copied[-1:] if event["type"] == "interrupt.resolved"]
        given = [*answers.values(), *(decision(answer["kind"], answer["resumeValue"]) for answer in copied)]
        if not all(answer.is_accepted for answer in given):
            raise RunFailedError(REJECTED)
        last = run.log.state.interrupts[-1]
        resumed = {"nodeId": last.node_id, "interruptId": last.interrupt_id}
        run.log.emit("node.resumed", resumed, node_id=last.node_id, causation_id=event_id)

    @staticmethod
    def _logged(run: HostRun) -> list[str]:
        """Return the ids of the events that are steps of the plan."""
        return [codec.loads(entry.data)["eventId"] for entry in run.log.entries if entry.type not in ANSWERS]

    def _copy(self, run: HostRun) -> list[str]:
        """Copy the events of the other run; return the ids of those that are steps of the plan."""
        ids: list[str] = []
        for event in self._copied:
            event_id = run.log.copy(event)
            if event["type"] not in ANSWERS:
                ids.append(event_id)
        run.log.wake()
        return ids

    def halt(self) -> None:
        """Do nothing: there is no input to stop reading."""

    def end(self, run: HostRun, fault: Fault | None) -> None:
        """Write the terminal event of a stopped run, after the end of its open node."""
        node_id = run.log.state.node_id
        outcome, members = "cancelled", present(reason="cancelled")
        if fault is not None:
            error = {"code": fault.code, "message": fault.message, "retryable": fault.is_retryable}
            outcome, members = "failed", present(error=error)
        if node_id is not None:
            run.log.emit(f"node.{outcome}", {"nodeId": node_id, **members}, node_id=node_id)
        run.log.emit(f"run.{outcome}", members | present(failedNodeId=node_id if fault is not None else None))

    def check_answer(self, _run: HostRun, _interrupt: Interrupt) -> None:
        """Do nothing: every answer can be used."""

    async def close(self) -> None:
        """Do nothing: there are no resources to release."""
