"""Rules of `lifecycle` and of the status that a stream ends with (CONTRACT D10 to D12).

Responses follow each other in each branch of a run; a stream without a workflow has one branch. Branches are
identified by their position in the workflow. Items that are open in a branch when a response ends there belong to
that response. A response is identified by its ID; a `lifecycle` without ID belongs to the response before it (the ID
may not be known yet, and some providers send none). Some servers give every response of a run the same ID: a status
after an end status then starts another response.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from projector.contracts import public_sse_v1 as events
from projector.contracts.parts import FunctionTool
from projector.contracts.stream_rules.table import Finding


class BranchKey(NamedTuple):
    """The branch of a run that an event belongs to; all None if the stream has no workflow (seed section 6.2)."""

    stage: str | None = None
    group: str | None = None
    branch: int | None = None


def branch_key(event: events.PublicEvent) -> BranchKey:
    """Return the branch of an event."""
    if (workflow := event.workflow) is None:
        return BranchKey()
    return BranchKey(workflow.stage_name, workflow.parallel_group, workflow.branch_index)


_BEGINNINGS: Final = frozenset({"queued", "in_progress"})
"""Statuses of a response that has not ended."""
_WEIGHTS: Final[Mapping[str, int]] = {
    **dict.fromkeys(_BEGINNINGS, 0),
    "completed": 0,
    "incomplete": 1,
    "refused": 2,
    "failed": 3,
    "cancelled": 4,
}
"""The status of a run is the heaviest status of its responses (D12)."""


class _Branch:
    def __init__(self) -> None:
        self.last: events.Lifecycle | None = None
        """Last `lifecycle` of the current response."""
        self.open: set[int] = set()
        """Slots of open items."""


class LifecycleRules:
    """Rules of the status of each response, branch by branch."""

    def __init__(self) -> None:
        self._branches: dict[BranchKey, _Branch] = defaultdict(_Branch)
        self._heaviest = "completed"
        self._overdue: set[int] = set()
        """Slots of items that were open when their response ended."""

    def check(self, event: events.PublicEvent, /) -> list[Finding]:
        """Check the next event."""
        branch = self._branches[branch_key(event)]
        match event:
            case events.Lifecycle():
                return self._lifecycle(event, branch)
            case events.FinalEvent():
                return self._final(event.final.status)
            case events.ToolOutput(tool_type="function") | events.ToolStatus(tool=FunctionTool()):
                return []
            case events.OutputItemAdded():
                branch.open.add(event.output_index)
                if branch.last is not None and _is_end(branch.last):
                    branch.last = None
            case events.OutputItemDone():
                for other in self._branches.values():  # the host may have changed the context of its response
                    other.open.discard(event.output_index)
        if isinstance(event, events.ItemEvent) and event.output_index in self._overdue:
            return [Finding("lifecycle_last", f"expected no further event of item {event.output_index}")]
        return []

    def _lifecycle(self, event: events.Lifecycle, branch: _Branch) -> list[Finding]:
        last, branch.last = branch.last, event
        self._heaviest = max(self._heaviest, _run_status(event), key=_WEIGHTS.__getitem__)
        if _is_end(event):
            self._overdue |= branch.open
        if last is None or last.response_id not in {None, event.response_id}:
            return []  # the first of its response
        if _is_end(last) and (last.response_id is None or not _is_end(event)):
            return []  # the first of another response
        if last.status == event.status:
            return [Finding("lifecycle_repeats", f"expected another status than `{last.status}`")]
        if _is_end(last):
            return [Finding("lifecycle_order", f"expected no `{event.status}` after `{last.status}`")]
        return []

    def _final(self, status: str) -> list[Finding]:
        if _WEIGHTS[status] < _WEIGHTS[self._heaviest]:
            return [Finding("final_status", f"expected no `{status}` after a response that is `{self._heaviest}`")]
        return []


def _run_status(event: events.Lifecycle) -> str:
    """Return the least status of the run after this response; a workflow may continue without a failed step."""
    is_step = event.workflow is not None and event.workflow.step_name is not None
    return "incomplete" if is_step and _WEIGHTS[event.status] > _WEIGHTS["incomplete"] else event.status


def _is_end(event: events.Lifecycle) -> bool:
    return event.status not in _BEGINNINGS
