"""Context from the host for a stream and its branches: ids, agent, workflow step, time (seed sections 6.1 and 6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from types import NoneType
from typing import Final

from projector._errors import UsageError, check_argument, known_name

WORKFLOW_TEXTS: Final = ("workflow_key", "workflow_run_id", "stage_name", "step_name", "step_agent", "parallel_group")
WORKFLOW_NUMBERS: Final = ("branch_index",)

CONTEXT_MEMBERS: Final = ("conversation_id", "agent", "workflow")
"""Members that a `projector.context` event may change."""

_STRING: Final = ((str, NoneType), "a string or None")
_MEMBERS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "stream_id": _STRING,
    "conversation_id": _STRING,
    "agent": _STRING,
    "workflow": ((dict, Mapping), "a mapping"),  # the first is faster to check
}
"""Member of a `StreamContext` -> its types, and what is expected."""
_NUMBER: Final = ((int, NoneType), "a whole number or None")
_WORKFLOW: Final = {**dict.fromkeys(WORKFLOW_TEXTS, _STRING), **dict.fromkeys(WORKFLOW_NUMBERS, _NUMBER)}
"""Member of `workflow` -> the same."""


@dataclass(frozen=True, slots=True)
class StreamContext:
    """Context of one stream; members that are not given are absent from its events (CONTRACT D9).

    A member of another type raises `UsageError`.

    Args:
        stream_id: generated if None: `stream_` and 32 hexadecimal digits (D2).
        conversation_id: the host's own id of the conversation.
        agent: name of the agent.
        workflow: the members of section 6.2's `workflow`; unknown members and wrong types are left out.
    """

    stream_id: str | None = None
    conversation_id: str | None = None
    agent: str | None = None
    workflow: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, (types, expected) in _MEMBERS.items():
            check_argument(name, expected, holds=isinstance(getattr(self, name), types))


def unread_members(event: Mapping[str, object]) -> int:
    """Return how many members of a `projector.context` event, and of its workflow, are unknown or of another type."""
    workflow = event.get("workflow")
    steps = workflow.items() if isinstance(workflow, Mapping) else ()
    return sum(not _is_member(name, value) for name, value in event.items() if name != "type") + sum(
        not is_workflow_member(name, value) for name, value in steps
    )


def _is_member(name: str, value: object) -> bool:
    return name in CONTEXT_MEMBERS and (value is None or isinstance(value, _MEMBERS[name][0]))


def is_workflow_member(name: str, value: object) -> bool:
    """Return whether a member of `workflow` is known and has its type."""
    return name in _WORKFLOW and isinstance(value, _WORKFLOW[name][0])


@dataclass(frozen=True, slots=True)
class BranchContext:
    """Context of one branch of a run: one of the responses that may stream at the same time.

    A member of another type, or an unknown one of `workflow`, raises `UsageError`.

    Args:
        agent: name of the agent.
        workflow: as in `StreamContext`; no other open branch may have the same stage, parallel group and branch index.
        stage: position in the run; `final` has the texts of the last stage that has any, in the order of its branches.
            A stage of its own if None.
        is_optional: whether the run continues when the branch fails.
    """

    agent: str | None = None
    workflow: Mapping[str, object] = field(default_factory=dict, hash=False)
    stage: int | None = None
    is_optional: bool = False

    def __post_init__(self) -> None:
        for name in ("agent", "workflow"):
            types, expected = _MEMBERS[name]
            check_argument(name, expected, holds=isinstance(getattr(self, name), types))
        check_argument("stage", _NUMBER[1], holds=isinstance(self.stage, _NUMBER[0]))
        for name, value in self.workflow.items():
            types, expected = _WORKFLOW[known_name("member of `workflow`", name, _WORKFLOW)]
            check_argument(f"workflow.{name}", expected, holds=isinstance(value, types))


def parse_time(text: str, where: str = "") -> float:
    """Parse an ISO 8601 time into seconds since 1970-01-01 UTC; a time without an offset is UTC.

    Raises:
        UsageError: the text is not such a time; the message begins with `where` it was found.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        place = f"{where}: " if where else ""
        raise UsageError(f"{place}expected an ISO 8601 time, such as 2025-12-15T12:00:00.000Z") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


@lru_cache(maxsize=16)
def _written(second: int) -> str:
    """Format a second; all streams of a process format the same one."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


_ENDS: Final = tuple(f".{rest:03d}Z" for rest in range(1000))
"""The end of a timestamp, by its milliseconds."""


class Timestamps:
    """Formats the times of one stream as `2025-12-15T12:00:00.000Z`.

    They never go back, even if the host's clock does. The part up to the second is cached, because a time is formatted
    for every token, and the milliseconds are counted from there: small numbers take less time.
    """

    __slots__ = ("_last", "_second", "_written", "_written_second")

    def __init__(self) -> None:
        self._last = -1
        """Milliseconds of the last time after its second."""
        self._second = 0
        self._written_second = _written(0)
        self._written = ""

    def write(self, seconds: float) -> str:
        """Format a time in UTC with milliseconds."""
        milliseconds = int((seconds - self._second) * 1000 + 0.5)
        if milliseconds > self._last:
            if milliseconds >= len(_ENDS):
                second, milliseconds = divmod(int(seconds * 1000 + 0.5), len(_ENDS))
                self._second, self._written_second = second, _written(second)
            self._last = milliseconds
            self._written = self._written_second + _ENDS[milliseconds]
        return self._written
