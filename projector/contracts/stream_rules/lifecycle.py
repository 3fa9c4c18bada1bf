"""Rules of `lifecycle` and of the status that a stream ends with (CONTRACT D10 to D12).

Responses follow each other in each branch of a run, and a stream without a workflow has one branch; branches are told apart by
their place in the workflow. Whatever is open in a branch when a response ends there belongs to it. A response is known by
its id; before the id is known, and from providers that give none, a `lifecycle` without id belongs to the response
before it. Some servers give every response of a run the same id: what begins after an end is another response.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from projector.contracts.parts import FunctionTool
from projector.contracts.public_sse_v1 import (
    FinalEvent,
    ItemEvent,
    Lifecycle,
    OutputItemAdded,
    OutputItemDone,
    PublicEvent,
    ToolOutput,
    ToolStatus,
)
from projector.contracts.stream_rules.places import Place, place_of
from projector.contracts.stream_rules.table import Breach

_BEGINNINGS: Final = frozenset({"queued", "in_progress"})
"""The statuses of a response that has not ended."""
_WEIGHTS: Final[Mapping[str, int]] = {
    **dict.fromkeys(_BEGINNINGS, 0),
    "completed": 0,
    "incomplete": 1,
    "refused": 2,
    "failed": 3,
    "cancelled": 4,
}
"""Of the statuses of a run's responses, the heaviest is the run's (D12)."""


class _Branch:
    """What is open where responses follow each other."""

    def __init__(self) -> None:
        self.last: Lifecycle | None = None
        """What was said last of the present response."""
        self.open: set[int] = set()
        """Slots of the items that are open."""


class LifecycleWatch:
    """Follows the status of one response after the other, branch by branch."""

    def __init__(self) -> None:
        self._branches: dict[Place, _Branch] = defaultdict(_Branch)
        self._heaviest = "completed"
        self._overdue: set[int] = set()
        """Slots of the items that were open when their response ended."""

    def see(self, event: PublicEvent, /) -> list[Breach]:
        """Take the next event; return what it breaks."""
        branch = self._branches[place_of(event)]
        match event:
            case Lifecycle():
                return self._lifecycle(event, branch)
            case FinalEvent():
                return self._final(event.final.status)
            case ToolOutput(tool_type="function") | ToolStatus(tool=FunctionTool()):
                return []
            case OutputItemAdded():
                branch.open.add(event.output_index)
                if branch.last is not None and _is_end(branch.last):
                    branch.last = None
            case OutputItemDone():
                for other in self._branches.values():  # the host may have changed the context of its response
                    other.open.discard(event.output_index)
        if isinstance(event, ItemEvent) and event.output_index in self._overdue:
            return [Breach("lifecycle_last", f"expected nothing more of item {event.output_index}")]
        return []

    def _lifecycle(self, event: Lifecycle, branch: _Branch) -> list[Breach]:
        last, branch.last = branch.last, event
        self._heaviest = max(self._heaviest, _to_the_run(event), key=_WEIGHTS.__getitem__)
        if _is_end(event):
            self._overdue |= branch.open
        if last is None or last.response_id not in {None, event.response_id}:
            return []  # the first of its response
        if _is_end(last) and (last.response_id is None or not _is_end(event)):
            return []  # the first of another response
        if last.status == event.status:
            return [Breach("lifecycle_repeats", f"expected another status than `{last.status}`")]
        if _is_end(last):
            return [Breach("lifecycle_order", f"expected no `{event.status}` after `{last.status}`")]
        return []

    def _final(self, status: str) -> list[Breach]:
        if _WEIGHTS[status] < _WEIGHTS[self._heaviest]:
            return [Breach("final_status", f"expected no `{status}` after a response that is `{self._heaviest}`")]
        return []


def _to_the_run(event: Lifecycle) -> str:
    """Give what the status of a response is to its run at least; a workflow may go on without a step that failed."""
    is_step = event.workflow is not None and event.workflow.step_name is not None
    return "incomplete" if is_step and _WEIGHTS[event.status] > _WEIGHTS["incomplete"] else event.status


def _is_end(event: Lifecycle) -> bool:
    return event.status not in _BEGINNINGS
