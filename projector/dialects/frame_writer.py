"""What the writers of several dialects share: limits, failures, runs of deltas, IDs, sent texts, steps of a workflow.

`FrameWriter` is the base of writers that encode each frame as JSON events; `ag_ui` and `ai_sdk` are such dialects.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeAlias, TypeVar
from zlib import crc32

from projector.contracts import codec
from projector.contracts.kinds import Kind
from projector.core.canonical import Frame, WireEvent
from projector.core.delta_frames import TEXT_MAX_CHARS
from projector.core.truncation import fit
from projector.dialects.descriptor import RepeatWriter
from projector.redaction.clean import notice

FRAME_MAX_BYTES: Final = 1_048_576
"""Limit of a frame that may contain JSON trees. Its event is at most a few times larger, because a result may be JSON
in JSON; clients of AG-UI give up at 10 MiB (CONTRACT D37)."""

LARGE: Final = frozenset({Kind.TOOL_STATUS, Kind.TOOL_OUTPUT, Kind.FINAL})
"""Kinds of frames that may contain JSON trees."""

ENVELOPE: Final = frozenset(
    {
        *("schema", "event_id", "stream_id", "server_timestamp", "conversation_id", "response_id", "agent", "workflow"),
        "provider_sequence_number",
    }
)
"""Members of the public envelope, without notices. Events of our own do not repeat them."""

ENCRYPTED_MAX_CHARS: Final = 4_194_304
"""Limit of encrypted reasoning. A longer value is dropped with a notice, because a part of it is useless."""

_TEXTS: Final = frozenset({"response_text", "refusal_text", "reasoning_summary_text"})
"""The texts of `final`."""

_Writer = TypeVar("_Writer")


class FrameWriter(Generic[_Writer]):
    """The writer of one stream. After a frame that cannot be written, only `error` is, which ends what is open."""

    _name_member: ClassVar[str] = ""
    """The member that names an event, if events have names."""

    def __init__(self, handled: Mapping[str, _Writer]) -> None:
        self._handled = handled
        self._has_failed = False

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Return the events of a frame."""
        writer = self._handled.get(frame["kind"])
        if writer is None or (self._has_failed and frame["kind"] != Kind.ERROR):
            return []
        try:
            return [(event.get(self._name_member), codec.dumps(event)) for event in self._write(writer, frame)]
        except Exception:
            self._has_failed = True
            raise

    def repeat(self, frame: Frame, /) -> RepeatWriter | None:
        """Return a writer of the further deltas of a text; None if each must be fed as a frame."""
        return None if self._has_failed else self._repeat(frame)

    def _repeat(self, _frame: Frame) -> RepeatWriter | None:
        """Return a writer of the further deltas of a text; None if each must be fed as a frame."""
        return None

    def _write(self, writer: _Writer, frame: Frame) -> list[dict[str, Any]]:
        """Return the events of a frame; `writer` is that of its kind."""
        raise NotImplementedError


def within_limit(frame: Frame, sent: Container[str] = _TEXTS) -> Frame:
    """Return a `LARGE` frame within its limit. The texts of `final` that other events contain are left out."""
    if frame["kind"] == Kind.FINAL:
        final = {name: value for name, value in frame["final"].items() if name not in sent}
        frame = {**frame, "final": final}
    return frame if codec.size(frame) <= FRAME_MAX_BYTES else fit(frame, FRAME_MAX_BYTES)


def left_out(path: str) -> list[dict[str, str]]:
    """Return the notices of a member that a writer leaves out because of a limit."""
    return [notice("truncated")._replace(path=path)._asdict()]


NUMBER_PLACE: Final = b"%d"
TEXT_PLACE: Final = b'"%b"'
"""The place of a text, which is given as the content of a JSON string."""
VALUES_MAX_BYTES: Final = 6 * TEXT_MAX_CHARS + 100
"""Maximum size of the values of one event: a delta, of which each character may be an escape, numbers and a time."""


def pattern_of(event: Mapping[str, object], places: Mapping[str, bytes]) -> bytes:
    """Return the JSON of an event as a format: a writer gives an event that it has built as for any frame.

    Args:
        event: its members, in order.
        places: the members that differ, with their formats; the order of the values is that of the event.
    """
    members = [
        literal(codec.dumps(name)) + b":" + (places[name] if name in places else literal(codec.dumps(value)))
        for name, value in event.items()
    ]
    return b"{%b}" % b",".join(members)


def literal(data: bytes) -> bytes:
    """Return a format of constant bytes."""
    return data.replace(b"%", b"%%")


class IdAllocator:
    """Allocator of unique IDs. Under an ID that exists, clients would append to an old message or item."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}
        """Preferred ID -> the last number that was tried: each is tried once, not once per collision."""

    def allocate(self, preferred: str, others: Container[str] = ()) -> str:
        """Return the preferred ID, with a number appended if it is taken, here or in `others`."""
        allocated, number = preferred, self._numbers.get(preferred, 1)
        while allocated in self._taken or allocated in others:
            number += 1
            allocated = f"{preferred}.{number}"
        if number > 1:
            self._numbers[preferred] = number
        self._taken.add(allocated)
        return allocated


TEXT: Final = "text"
REFUSAL: Final = "refusal"
PARAGRAPH: Final = "\n\n"

FINAL_TEXTS: Final[Mapping[str, str]] = {TEXT: "response_text", REFUSAL: "refusal_text"}
"""Kind of a text -> member of `final` with the whole text of that kind."""


@dataclass(slots=True)
class SentPart:
    """Length and checksum of a part of a message that was sent. The text is not kept."""

    chars: int = 0
    checksum: int = 0

    def add(self, delta: str) -> None:
        """Add a delta."""
        self.chars += len(delta)
        self.checksum = crc32(delta.encode("utf-8", "surrogatepass"), self.checksum)


SentText: TypeAlias = list[tuple[str, SentPart]]
"""Parts of a text in order, each with the text before it in `final` (CONTRACT D13)."""


def is_joined(sent: SentText, text: str) -> bool:
    """Return whether a text is made of the sent parts."""
    start = end = 0
    for number, (separator, part) in enumerate(sent):
        start = end + len(separator if number else "")
        end = start + part.chars
        if crc32(text[start:end].encode("utf-8", "surrogatepass")) != part.checksum:
            return False
    return end == len(text)


@dataclass(slots=True)
class BranchState:
    """State of one branch of a run. A run without branches has one."""

    response: int = 0
    """Number of responses that have ended, which is the number of the current one."""
    sent: dict[str, dict[int, dict[int, SentPart]]] = field(default_factory=lambda: {TEXT: {}, REFUSAL: {}})
    """Kind of a text -> output indexes of the messages of the current response -> the parts that were sent."""
    last_sent: dict[str, SentText] = field(default_factory=dict)
    """Kind of a text -> what was sent of it in the last response that had any."""

    def end_response(self) -> None:
        """Count the response that has ended, and keep what it sent."""
        self.response += 1
        for kind, messages in self.sent.items():
            sent = [
                (PARAGRAPH if kind == REFUSAL or number == 0 else "", part)
                for _, parts in sorted(messages.items())
                for number, (_, part) in enumerate(sorted(parts.items()))
            ]
            self.last_sent |= {kind: sent} if sent else {}
            messages.clear()

    def add_message(self, output_index: int) -> None:
        """Add a message of the current response."""
        for messages in self.sent.values():
            messages[output_index] = {}

    def add(self, kind: str, output_index: int, content_index: int, delta: str) -> None:
        """Add a delta of a message."""
        parts = self.sent[kind]
        try:
            part = parts[output_index][content_index]
        except KeyError:
            part = parts.setdefault(output_index, {})[content_index] = SentPart()
        part.add(delta)


def has_sent(states: Sequence[BranchState], kind: str, text: str) -> bool:
    """Return whether a text of `final` was sent: by one branch, or by the last ones together."""
    sent = [state.last_sent[kind] for state in states if kind in state.last_sent]
    return any(is_joined(list(chain(*sent[first:])), text) for first in range(len(sent)))


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


def left_positions(
    steps: Mapping[BranchPosition | int, Any], key: BranchPosition | int, name: str
) -> list[BranchPosition | int]:
    """Return where open steps end because a step is entered. In a run with branches that is only the same branch.

    The steps may be of any type with a `name`.
    """
    if isinstance(key, int):
        return [key] if key in steps and steps[key].name != name else []
    return [
        other
        for other, step in steps.items()
        if isinstance(other, BranchPosition)
        and not (other == key and step.name == name)
        and not (name and key.is_beside(other))
    ]


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
