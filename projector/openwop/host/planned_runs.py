"""Workflows of configured nodes. Their events are planned before the run starts. For conformance only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.types import Scope

from projector.core.faults import Fault
from projector.openwop.conformance.definitions import RegisteredWorkflow, definition
from projector.openwop.conformance.mock_nodes import PlannedRun, Step
from projector.openwop.event_log import present
from projector.openwop.host.bindings import Begin, RunnableWorkflow, check_configurable
from projector.openwop.host.host_errors import REJECTED, HostError
from projector.openwop.host.run_log import Interrupt
from projector.openwop.host.run_requests import RunRequest
from projector.openwop.host.runs import HostRun, RunFailedError, Work
from projector.openwop.host.settings import OpenWopSettings
from projector.redaction.redactor import Redactor


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
        allowed = self._settings.conformance_callers
        if allowed and caller not in allowed:
            raise HostError("forbidden")
        options = request.configurable
        check_configurable(options)
        threshold = options.escalation_threshold
        if threshold is None:
            threshold = self._settings.escalation_threshold

        def begin(run: HostRun) -> PlannedWork:
            redactor = self.redactor(options.reasoning_verbosity)
            plan = PlannedRun(run.run_id, redactor, threshold, redactor.policy.reasoning)
            return PlannedWork(self._registered.steps(plan), redactor)

        return begin


class PlannedWork(Work):
    """Work that writes planned steps, and waits for an answer at each suspension."""

    def __init__(self, steps: Sequence[Step], redactor: Redactor) -> None:
        self._steps = steps
        self.redactor = redactor

    async def run(self, run: HostRun) -> None:
        """Write all events; a rejected decision fails the run."""
        ids: list[str] = []
        suspended = self._steps[0]
        for step in self._steps:
            cause = None if step.cause is None else ids[step.cause]
            ids.append(run.log.emit(step.type, step.payload, node_id=step.node_id, causation_id=cause))
            if step.type == "node.suspended":
                suspended = step
            elif step.type == "interrupt.requested":
                answers = await run.answers()
                if not all(answer.is_accepted for answer in answers.values()):
                    raise RunFailedError(REJECTED)
                resumed = {name: suspended.payload[name] for name in ("nodeId", "interruptId")}
                run.log.emit("node.resumed", resumed, node_id=step.node_id, causation_id=cause)

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
