"""What `ag_ui` and `ai_sdk` share: both write a stream as one run that a page shows, with calls, texts and steps.

`PageRun` is the state of a run, `PageWriter` the order in which the frames of a stream become events.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from projector.contracts.kinds import CLIENT_CALLS, TERMINAL_KINDS, TOOL_TYPES, PrivateKind
from projector.contracts.limits import DELTA_MAX_CHARS
from projector.core.canonical import Frame
from projector.dialects.descriptor import DialectOptions
from projector.dialects.frame_writer import (
    LARGE,
    UNKNOWN,
    BranchPosition,
    FrameWriter,
    IdAllocator,
    left_positions,
    missing_texts,
    position_of,
    within_limit,
)
from projector.redaction.clean import notice

Event: TypeAlias = dict[str, Any]
"""One event of the dialect."""

COMPLETED: Final = "completed"

SUMMARY: Final = "summary"
FULL: Final = "full"
PART_INDEXES: Final[Mapping[str, str]] = {SUMMARY: "summary_index", FULL: "content_index"}
"""Kind of reasoning -> member of a frame with the index of its part."""

NAMELESS: Final = frozenset({UNKNOWN, ""})
"""Names of a call that the provider has not named (CONTRACT D7). No client could run such a call."""

CUSTOM_CALL: Final = "custom_tool_call"
CALLED: Final = frozenset({"function", "mcp"})
"""Tool types with a name and arguments; all others are the provider's own tools."""
CALL_ITEMS: Final = tuple(item_type for item_type, tool_type in TOOL_TYPES.items() if tool_type in CALLED)
"""Item types of their calls."""

ENCRYPTED_MAX_CHARS: Final = 4_194_304
"""Limit of encrypted reasoning. A longer value is dropped with a notice, because a part of it is useless."""

_EMPTY: Final[tuple[object, ...]] = (None, [], "")


def present(members: Mapping[str, object]) -> dict[str, object]:
    """Return the members that are not empty."""
    return {name: value for name, value in members.items() if value not in _EMPTY}


def unless_completed(status: str) -> str | None:
    """Return a status other than `completed`."""
    return status if status != COMPLETED else None


def left_out(path: str) -> list[object]:
    """Return the notices of a member that a writer leaves out because of a limit."""
    return [notice("truncated")._replace(path=path)._asdict()]


_MEMBER: Final = re.compile(r"(?:tool\.)?(\w+)")


def cut_members(frame: Frame) -> set[str]:
    """Return the members of a frame, or of its `tool`, of which something was cut because of a limit."""
    cut = (each["path"] for each in frame.get("notices", ()) if each["type"] == "truncated")
    return {found[1] for path in cut if (found := _MEMBER.match(path))}


def is_shortened(item_type: str, frame: Frame) -> bool:
    """Return whether a call for the client has only a part of its arguments. No client must run it."""
    is_read = item_type == CUSTOM_CALL or "arguments_json" in frame.get("tool", frame)  # else it is no JSON
    return item_type in CLIENT_CALLS and is_read and "arguments_text" in cut_members(frame)


TEXT: Final = "text"
REFUSAL: Final = "refusal"

FINAL_TEXTS: Final[Mapping[str, str]] = {TEXT: "response_text", REFUSAL: "refusal_text"}
"""Kind of a text -> member of `final` with the whole text of that kind."""


class StepChange(NamedTuple):
    """A step starts, or ends."""

    name: str
    workflow: Mapping[str, object]
    """Context at the start of the step."""
    is_start: bool


class WorkflowSteps:
    """Open steps of a workflow, derived from the context of the frames: no frame marks their start or end (D9).

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
        changes = [self._end(other) for other in left_positions(self._open, key, name)]
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

    def _end(self, key: BranchPosition | int) -> StepChange:
        return self._open.pop(key)._replace(is_start=False)


@dataclass(slots=True, eq=False)
class PageCall:
    """One call of a tool."""

    item_id: str
    item_type: str
    branch: int
    response: int
    """Number of the response that made the call."""
    id: str = ""
    name: str = ""
    server_label: str | None = None
    held: list[str] = field(default_factory=list)
    """Deltas of the input that came before the name of the call."""
    sealed: str | None = None
    """What the client carries with the call."""
    has_started: bool = False
    is_awaiting: bool = False
    """Whether the call waits for an approval."""
    is_answered: bool = False


class PageRun:
    """State of one run."""

    def __init__(self, options: DialectOptions) -> None:
        self.options = options
        self.call_ids = IdAllocator(options.taken_ids)
        self.branch = 0
        """Number of the current branch, 0 in a run without branches."""
        self.responses: Counter[int] = Counter()
        """Branch -> number of responses that have ended, which is the number of the current one."""
        self.written: set[str] = set()
        """Names of the texts of `final` of which something was written."""
        self.late: list[str] = []
        """Names of those that came with the end of their response."""
        self.reason: str | None = None
        """Reason for the end of the last response."""
        self.models: set[str] = set()

    def enter(self, branch: int) -> None:
        """Switch to another branch."""
        self.branch = branch

    def missing_texts(self, final: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the texts of `final` that no event contains, by their kind, as deltas."""
        missing = missing_texts(final, self.late, self.written)
        return {
            kind: [text[at : at + DELTA_MAX_CHARS] for at in range(0, len(text), DELTA_MAX_CHARS)]
            for kind, name in FINAL_TEXTS.items()
            if (text := missing.get(name))
        }

    def is_last(self, call: PageCall) -> bool:
        """Return whether a call is of the last response of its branch; a later one shows that it was answered."""
        return call.response == self.responses[call.branch] - 1

    def on_meta(self, frame: Frame) -> list[Event]:
        """Keep the model."""
        self.models |= {frame["model"]} if "model" in frame else set()
        return []

    def on_late_texts(self, frame: Frame) -> list[Event]:
        """Keep which texts of `final` no delta contains, or not whole."""
        self.late = frame["names"]
        return []

    def end_response(self, frame: Frame) -> None:
        """Record that a response has ended, and why."""
        self.responses[self.branch] += 1
        self.reason = frame.get("reason", self.reason)


def nothing(_run: object, _frame: Frame) -> list[Event]:
    """Write nothing."""
    return []


HANDLED: Final[Mapping[str, Callable[[PageRun, Frame], list[Event]]]] = {
    PrivateKind.BRANCH: nothing,  # its steps are written
    PrivateKind.RESPONSE_META: PageRun.on_meta,
    PrivateKind.LATE_TEXTS: PageRun.on_late_texts,
}
"""Frame kind -> its writer, the same in both dialects."""

DROPPED: Final[Mapping[str, str]] = {
    PrivateKind.RESPONSE_USAGE: "the end has the sum over all responses",
    **dict.fromkeys((PrivateKind.ITEM_DETAILS, PrivateKind.ITEM_MEMBERS), "the public members are written"),
    PrivateKind.FILE_PATH: "citations are the public ones",
    PrivateKind.RESPONSE_ERROR: "`error` or `lifecycle` reports the failure",
    PrivateKind.REASONING_DONE: "the deltas contained the text, and a part ends with the next one or with its item",
}
"""Frame kind -> why neither dialect writes anything."""

OUTPUT_ITEMS: Final = dict.fromkeys(("function_call_output", "custom_tool_call_output"), (nothing, nothing))
"""Type of an output item -> writers of its start and end: it is not written, but becomes the result of its call."""

_Run = TypeVar("_Run", bound=PageRun)


class PageWriter(FrameWriter[Callable[[_Run, Frame], list[Event]]], Generic[_Run]):
    """The writer of one stream, as one run. The projector closes every item that it announces (CONTRACT D7)."""

    def __init__(self, handled: Mapping[str, Callable[[_Run, Frame], list[Event]]], run: _Run) -> None:
        super().__init__(handled)
        self._run = run
        self._steps = WorkflowSteps()
        self._has_started = False

    def _write(self, writer: Callable[[_Run, Frame], list[Event]], frame: Frame) -> list[Event]:
        kind = frame["kind"]
        events = [] if self._has_started else self._start(frame)
        self._has_started = True
        if kind == _BRANCH:
            return events + self._enter(frame)
        if kind in TERMINAL_KINDS:
            events += self._finish(frame)
        elif frame.get("workflow") is not self._steps.workflow:  # seldom: the context of a stream is one object
            events += self._follow(frame)
        if "notices" in frame:
            events += self._notices(frame)
        return events + writer(self._run, within_limit(frame) if kind in LARGE else frame)

    @abstractmethod
    def _start(self, frame: Frame) -> list[Event]:
        """Return the first events."""

    @abstractmethod
    def _finish(self, frame: Frame) -> list[Event]:
        """Return what must come before the end: missing texts and results, the ends of steps."""

    @abstractmethod
    def _changed(self, changes: Iterable[StepChange]) -> list[Event]:
        """Return the start or end of steps of a workflow."""

    def _notices(self, _frame: Frame) -> list[Event]:
        """Return the notices of a frame, if its own event does not have them."""
        return []

    def _enter(self, frame: Frame) -> list[Event]:
        """Switch to a branch and follow it, or return the end of its step if the branch is over."""
        if frame["is_over"]:
            return self._changed(self._steps.end_branch(frame["branch"]))
        self._run.enter(frame["branch"])
        return self._follow(frame)

    def _follow(self, frame: Frame) -> list[Event]:
        return self._changed(self._steps.follow(self._run.branch, frame.get("workflow")))


_BRANCH: Final = PrivateKind.BRANCH  # looked up once here, not once per token in its class
