"""Steps of a workflow, read from the context of frames (CONTRACT D9): no frame marks the start or end of a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class BranchPosition(NamedTuple):
    """A place where steps follow each other: a stage, or one of the parallel branches of a stage."""

    stage: object
    group: object
    branch_index: object

    def is_beside(self, other: BranchPosition) -> bool:
        """Return whether two positions are branches of one parallel group."""
        return self != other and self[:2] == other[:2] and None not in {self.branch_index, other.branch_index}


def position_of(workflow: Mapping[str, object]) -> tuple[BranchPosition, str]:
    """Return the position and name of a step: `stage/step` or `stage/step#index`, empty without a named step."""
    stage, index = workflow.get("stage_name"), workflow.get("branch_index")
    name = "/".join(str(part) for part in (stage, workflow.get("step_name")) if part)
    position = BranchPosition(stage, workflow.get("parallel_group"), index)
    return position, f"{name}#{index}" if name and index is not None else name


class StepChange(NamedTuple):
    """A step starts, or ends."""

    name: str
    workflow: Mapping[str, object]
    """Context at the start of the step."""
    is_start: bool


class WorkflowSteps:
    """Open steps of a workflow, derived from the context of the frames.

    A step ends when its branch enters another step, or when the workflow moves to a position that is not parallel to
    it. In a run with branches it also ends with its branch.
    """

    def __init__(self) -> None:
        self.workflow: Mapping[str, object] | None = None
        """The context that was followed last."""
        self._open: dict[BranchPosition | int, StepChange] = {}
        """Position -> start of the step there; in a run with branches, the branch -> start of its step."""

    def follow(self, branch: int, workflow: Mapping[str, object] | None) -> list[StepChange]:
        """Return the steps that a changed workflow context ends and starts; `branch` is 0 in a run without branches."""
        if workflow is self.workflow or workflow == self.workflow:
            return []
        self.workflow = workflow
        position, name = position_of(workflow or {})
        key = branch or position
        changes = [self._end(other) for other in self._left(key, name)]
        if name and key not in self._open:
            self._open[key] = StepChange(name, workflow or {}, is_start=True)
            changes.append(self._open[key])
        return changes

    def end_branch(self, branch: int) -> list[StepChange]:
        """Return the end of the step of a branch that is over."""
        return [self._end(branch)] if branch in self._open else []

    def close(self) -> list[StepChange]:
        """Return the end of every step."""
        return [self._end(key) for key in list(self._open)]

    def _left(self, key: BranchPosition | int, name: str) -> list[BranchPosition | int]:
        """Return the steps that entering a step ends. In a run with branches they are those of the same branch."""
        if isinstance(key, int):
            return [key] if key in self._open and self._open[key].name != name else []
        return [
            other
            for other, step in self._open.items()
            if isinstance(other, BranchPosition)
            and not (other == key and step.name == name)
            and not (name and key.is_beside(other))
        ]

    def _end(self, key: BranchPosition | int) -> StepChange:
        return self._open.pop(key)._replace(is_start=False)
