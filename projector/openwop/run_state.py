"""How a run stands, read off its events: its status, what it waits for, how it failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from projector.openwop.contract.payloads import RunStatus
from projector.openwop.event_log import RUN_TERMINALS, Event


@dataclass(slots=True)
class Interrupt:
    """What a node waits for."""

    interrupt_id: str
    node_id: str
    kind: str
    about: str | None
    """The id of what is to be approved, where it is an approval."""
    is_resolved: bool = False


@dataclass(slots=True)
class RunState:
    """The state of one run."""

    status: RunStatus = "pending"
    node_id: str | None = None
    """The node that began or was suspended last, while it has not ended."""
    error: Mapping[str, Any] | None = None
    started_at: str | None = None
    ended_at: str | None = None
    interrupts: list[Interrupt] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.ended_at is not None

    @property
    def pending(self) -> list[Interrupt]:
        """What the run waits for."""
        return [interrupt for interrupt in self.interrupts if not interrupt.is_resolved]

    def take(self, event: Event) -> None:
        """Take the next event of the log."""
        if (take := TAKERS.get(event["type"])) is not None:
            take(self, event)


def _on_started(state: RunState, event: Event) -> None:
    state.status = "running"
    state.started_at = event["timestamp"]


def _on_node_started(state: RunState, event: Event) -> None:
    state.node_id = event["nodeId"]


def _on_node_ended(state: RunState, event: Event) -> None:
    if state.node_id == event["nodeId"]:
        state.node_id = None


def _on_suspended(state: RunState, event: Event) -> None:
    payload = event["payload"]
    about = payload.get("data", {}).get("artifactId")
    state.interrupts.append(Interrupt(payload["interruptId"], payload["nodeId"], payload["kind"], about))
    state.node_id = payload["nodeId"]
    state.status = "waiting-approval"


def _on_resolved(state: RunState, event: Event) -> None:
    for interrupt in state.interrupts:
        if interrupt.interrupt_id == event["payload"]["interruptId"]:
            interrupt.is_resolved = True
    if not state.pending:
        state.status = "running"


def _on_end(state: RunState, event: Event) -> None:
    state.status = event["type"].removeprefix("run.")
    state.error = event["payload"].get("error")
    state.ended_at = event["timestamp"]
    state.node_id = None


TAKERS: Final[Mapping[str, Callable[[RunState, Event], None]]] = {
    "run.started": _on_started,
    "node.started": _on_node_started,
    "node.completed": _on_node_ended,
    "node.failed": _on_node_ended,
    "node.cancelled": _on_node_ended,
    "node.suspended": _on_suspended,
    "interrupt.resolved": _on_resolved,
    **dict.fromkeys(RUN_TERMINALS, _on_end),
}
"""Type of an event -> what it changes; the others change nothing."""
