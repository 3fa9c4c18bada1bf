"""The end of a run that the work of the run does not write: its server died, or it ends while it waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from projector.contracts import codec
from projector.core.faults import Fault
from projector.openwop.client import replayed
from projector.openwop.event_log import NODE_TERMINALS, Event
from projector.openwop.host.host_errors import HostError
from projector.openwop.host.run_log import Interrupt
from projector.openwop.host.runs import HostRun, RunFailedError, Work

CANCELLED: Final[Mapping[str, str]] = {"reason": "cancelled"}


def closing_events(events: Sequence[Event], run_id: str, workflow_id: str, at: str, fault: Fault | None) -> list[Event]:
    """Return the end of a log, failed with a fault or else cancelled: the same for every reader."""
    nodes: dict[str, None] = {}
    texts: dict[str, None] = {}
    for event in events:
        name, node_id = event["type"], event.get("nodeId", "")
        if name == "node.started":
            nodes[node_id] = None
        elif name in NODE_TERMINALS:
            nodes.pop(node_id, None)
        elif name == "output.chunk" and not event["payload"]["isLast"]:
            texts[node_id] = None
        elif name == "output.chunk":
            texts.pop(node_id, None)
    outcome, members = "cancelled", dict[str, Any](CANCELLED)
    if fault is not None:
        error = {"code": fault.code, "message": fault.message, "retryable": fault.is_retryable}
        outcome, members = "failed", {"error": error}
    last = {"runId": run_id, "chunk": "", "isLast": True}
    rows: list[tuple[str, str, dict[str, Any]]] = [
        *([] if events else [("run.started", "", {"workflowId": workflow_id})]),
        *(("output.chunk", node_id, {"nodeId": node_id, **last}) for node_id in texts),
        *((f"node.{outcome}", node_id, {"nodeId": node_id, **members}) for node_id in nodes),
        (f"run.{outcome}", "", members),
    ]
    end = replayed(events, with_deltas=True)[len(events) :]  # the ends of open reasoning blocks
    for number, (name, node_id, payload) in enumerate(rows):
        made: Event = {"eventId": f"{run_id}:lost:{number}", "runId": run_id}
        made |= {"nodeId": node_id} if node_id else {}
        end.append(made | {"type": name, "payload": payload, "timestamp": at})
    return end


class ClosingWork(Work):
    """Work that ends a parked run: after a time-out with a fault, otherwise as the run is stopped."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    async def run(self, run: HostRun) -> None:
        """Log that nobody answered, and fail."""
        run.log_timeouts()
        raise RunFailedError(self._fault)

    def halt(self) -> None:
        """Do nothing: there is no input to stop reading."""

    def end(self, run: HostRun, fault: Fault | None) -> None:
        """Write the end of the run."""
        events = [codec.loads(entry.data) for entry in run.log.entries]
        run.log.close(closing_events(events, run.run_id, run.workflow_id, run.log.now(), fault))

    def check_answer(self, _run: HostRun, _interrupt: Interrupt) -> None:
        """Reject the answer: the run is about to end."""
        raise HostError("interrupt_already_resolved")

    async def close(self) -> None:
        """Do nothing: there are no resources to release."""
