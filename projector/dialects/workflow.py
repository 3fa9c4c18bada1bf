"""Where in a workflow a frame belongs, read off its context (CONTRACT D9): no frame says that a step begins or ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Lane(NamedTuple):
    """Where steps follow each other: a stage, or one of the branches that run side by side in it."""

    stage: object
    group: object
    branch: object

    def is_beside(self, other: Lane) -> bool:
        """Tell whether two lanes are branches of one parallel group."""
        return self != other and self[:2] == other[:2] and None not in {self.branch, other.branch}


def place_of(workflow: Mapping[str, object]) -> tuple[Lane, str]:
    """Give the lane and the name of a step, `stage/step` or `stage/step#branch`; empty where the context names none."""
    stage, branch = workflow.get("stage_name"), workflow.get("branch_index")
    name = "/".join(str(part) for part in (stage, workflow.get("step_name")) if part)
    lane = Lane(stage, workflow.get("parallel_group"), branch)
    return lane, f"{name}#{branch}" if name and branch is not None else name
