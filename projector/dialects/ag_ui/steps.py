"""Steps of a workflow, read off the context of the frames (CONTRACT D9): no frame says that a step begins or ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from projector.dialects.ag_ui.run import Event, Run, metadata


class Lane(NamedTuple):
    """Where steps follow each other: a stage, or one of the branches that run side by side in it."""

    stage: object
    group: object
    branch: object

    def is_beside(self, other: Lane) -> bool:
        """Tell whether two lanes are branches of one parallel group."""
        return self != other and self[:2] == other[:2] and None not in {self.branch, other.branch}


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
        lane, name = _place(workflow or {})
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


def _place(workflow: Mapping[str, object]) -> tuple[Lane, str]:
    """Give the lane and the name of a step; the name is empty where the context names none."""
    stage, branch = workflow.get("stage_name"), workflow.get("branch_index")
    name = "/".join(str(part) for part in (stage, workflow.get("step_name")) if part)
    lane = Lane(stage, workflow.get("parallel_group"), branch)
    return lane, f"{name}#{branch}" if name and branch is not None else name
