"""Where in a run an event belongs: what tells responses apart that stream side by side (seed section 6.2)."""

from __future__ import annotations

from typing import NamedTuple

from projector.contracts.public_sse_v1 import PublicEvent


class Place(NamedTuple):
    """The branch of an event; all None where the stream has no workflow."""

    stage: str | None = None
    group: str | None = None
    branch: int | None = None


def place_of(event: PublicEvent) -> Place:
    """Give the branch that an event belongs to."""
    workflow = event.workflow
    return Place() if workflow is None else Place(workflow.stage_name, workflow.parallel_group, workflow.branch_index)
