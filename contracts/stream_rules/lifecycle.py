"""Rules of `lifecycle` and of the status that a stream ends with (CONTRACT D10 to D12).

A response is known by its id. Before the id is known, and from providers that give none, a `lifecycle` without id
belongs to the response before it, and to a new one when that has ended. Some servers give every response of a run the
same id: after its end, one that begins again is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contracts.parts import FunctionTool
from contracts.public_sse_v1 import ErrorEvent, FinalEvent, Lifecycle, PublicEvent, ToolOutput, ToolStatus
from contracts.stream_rules.table import Breach

_STAGES: Final[Mapping[str, int]] = {"queued": 0, "in_progress": 1}
_ENDED: Final = 2  # the stage of all other statuses
_WEIGHTS: Final[Mapping[str, int]] = {
    "completed": 0,
    "incomplete": 1,
    "refused": 2,
    "failed": 3,
    "cancelled": 4,
}
"""Of the statuses of a run's responses, the heaviest is the run's (D12)."""


class LifecycleWatch:
    """Follows the status of each response."""

    def __init__(self) -> None:
        self._said: dict[str | None, str] = {}
        """The last status of each response."""
        self._heaviest: str = "completed"

    def see(self, event: PublicEvent, /) -> list[Breach]:
        """Take the next event; return what it breaks."""
        match event:
            case Lifecycle():
                return self._lifecycle(event)
            case FinalEvent():
                return self._final(event.final.status)
            case ErrorEvent() | ToolOutput(tool_type="function") | ToolStatus(tool=FunctionTool()):
                return []
        if event.response_id is not None and _is_ended(self._said.get(event.response_id)):
            return [Breach("lifecycle_last", f"expected nothing more of the response, found `{event.kind}`")]
        return []

    def _lifecycle(self, event: Lifecycle) -> list[Breach]:
        last = self._last(event.response_id)
        self._said[event.response_id] = event.status
        self._heaviest = max(self._heaviest, event.status, key=_weight)
        if last == event.status:
            return [Breach("lifecycle_repeats", f"expected another status than `{last}`")]
        begins = _is_ended(last) and not _is_ended(event.status)
        if last is not None and not begins and _stage(event.status) <= _stage(last):
            return [Breach("lifecycle_order", f"expected no `{event.status}` after `{last}`")]
        return []

    def _last(self, response_id: str | None) -> str | None:
        """Give the last status of the response that an id means."""
        if response_id is not None and response_id in self._said:
            return self._said[response_id]
        unnamed = self._said.pop(None, None)
        return None if _is_ended(unnamed) else unnamed

    def _final(self, status: str) -> list[Breach]:
        if _weight(status) < _weight(self._heaviest):
            return [Breach("final_status", f"expected no `{status}` after a response that is `{self._heaviest}`")]
        return []


def _weight(status: str) -> int:
    return _WEIGHTS.get(status, 0)


def _stage(status: str) -> int:
    return _STAGES.get(status, _ENDED)


def _is_ended(status: str | None) -> bool:
    return status is not None and _stage(status) == _ENDED
