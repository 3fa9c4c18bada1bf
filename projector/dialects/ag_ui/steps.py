"""Steps of a workflow, as the context of the frames tells them."""

from __future__ import annotations

from collections.abc import Mapping

from projector.dialects.ag_ui.run import Event, Run, metadata
from projector.dialects.workflow import Lane, place_of


class Steps:
    """The steps that are open.

    A step ends when its lane goes on to another step, or when the workflow goes where the lane does not lead.
    """

    def __init__(self) -> None:
        self._workflow: Mapping[str, object] | None = None
        self._open: dict[Lane, str] = {}

    def follow(self, run: Run, workflow: Mapping[str, object] | None) -> list[Event]:
        """Say what a changed workflow context ends and begins."""
        if workflow is self._workflow or workflow == self._workflow:
            return []
        self._workflow = workflow
        lane, name = place_of(workflow or {})
        ended = [
            other
            for other, said in self._open.items()
            if not (other == lane and said == name) and not (name and lane.is_beside(other))
        ]
        events = [self._finish(run, other) for other in ended]
        if name and lane not in self._open:
            self._open[lane] = name
            events.append(run.event("STEP_STARTED", stepName=name, metadata=metadata(workflow=workflow)))
        return events

    def close(self, run: Run) -> list[Event]:
        """Say the end of every step."""
        return [self._finish(run, lane) for lane in list(self._open)]

    def _finish(self, run: Run, lane: Lane) -> Event:
        return run.event("STEP_FINISHED", stepName=self._open.pop(lane))
