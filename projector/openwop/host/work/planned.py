"""A run of configured nodes: steps that are known before it begins."""

from __future__ import annotations

from collections.abc import Sequence

from projector.core.faults import Fault
from projector.openwop.conformance.mock_nodes import Step
from projector.openwop.host.asked import accepts
from projector.openwop.host.faults import REJECTED
from projector.openwop.host.run import Run, RunFailedError
from projector.openwop.run_state import Interrupt


class PlannedWork:
    """Says the steps of a plan, and waits where it waits for a person."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps

    async def run(self, run: Run) -> None:
        """Say everything.

        Raises:
            RunFailedError: a person rejected a decision, or nobody answered.
            RunStoppedError: the run was stopped.
        """
        ids: list[str] = []
        for step in self._steps:
            cause = None if step.cause is None else ids[step.cause]
            ids.append(run.log.say(step.type, step.payload, node_id=step.node_id, causation_id=cause))
            if step.type == "node.suspended":
                answers = await run.answers()
                if not all(answers.values()):
                    raise RunFailedError(REJECTED)
                resumed = {name: step.payload[name] for name in ("nodeId", "interruptId")}
                run.log.say("node.resumed", resumed, node_id=step.node_id, causation_id=ids[-1])

    def halt(self) -> None:
        """Nothing is brought: it waits for persons only."""

    def end(self, run: Run, fault: Fault | None) -> None:
        """Say the end of a run that was stopped."""
        node_id = run.log.state.node_id
        if fault is None:
            if node_id is not None:
                run.log.say("node.cancelled", {"nodeId": node_id, "reason": "cancelled"}, node_id=node_id)
            run.log.say("run.cancelled", {"reason": "cancelled"})
            return
        error = {"code": fault.code, "message": fault.message, "retryable": fault.is_retryable}
        failed: dict[str, object] = {"error": error}
        if node_id is not None:
            run.log.say("node.failed", {"nodeId": node_id, "error": error}, node_id=node_id)
            failed["failedNodeId"] = node_id
        run.log.say("run.failed", failed)

    def answer(self, _run: Run, _interrupt: Interrupt, value: object) -> object:
        """Give whether a person accepts.

        Raises:
            Refusal: it is no answer.
        """
        return accepts(value)

    async def close(self) -> None:
        """Nothing is kept."""
