"""Position of a frame in a workflow, read from its context (CONTRACT D9): no frame marks the start or end of a step."""

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
