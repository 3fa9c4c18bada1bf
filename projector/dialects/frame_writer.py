"""What the writers of several dialects share: limits, failures, runs of deltas, IDs, positions in a workflow.

`FrameWriter` is the base of writers that encode each frame as JSON events.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Mapping
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from projector.contracts import codec
from projector.contracts.kinds import Kind
from projector.contracts.limits import NOTICES_MAX_ITEMS
from projector.core.canonical import Frame, WireEvent
from projector.core.delta_frames import TEXT_MAX_CHARS
from projector.core.faults import FAULTS
from projector.core.reported_errors import is_retryable
from projector.core.truncation import fit
from projector.dialects.descriptor import RepeatWriter

UNKNOWN: Final = "unknown"
"""Value of a required member that the provider did not send, such as the model or the name of a call."""

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

_TEXTS: Final = ("response_text", "refusal_text", "reasoning_summary_text")
"""The texts of `final`."""

_Writer = TypeVar("_Writer")


def failure(reason: str | None) -> dict[str, object]:
    """Return what the end of a response that failed says of it; `reason` is the code of the provider."""
    fault = FAULTS["provider_error"]
    may_retry = fault.is_retryable if reason is None else is_retryable(reason)
    return {"code": reason or fault.code, "source": fault.source, "is_retryable": may_retry}


class FrameWriter(ABC, Generic[_Writer]):
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

    @abstractmethod
    def _repeat(self, _frame: Frame) -> RepeatWriter:
        """Return a writer of the further deltas of a text."""

    @abstractmethod
    def _write(self, writer: _Writer, frame: Frame) -> list[dict[str, Any]]:
        """Return the events of a frame; `writer` is that of its kind."""


def within_limit(frame: Frame, sent: Container[str] = _TEXTS) -> Frame:
    """Return a `LARGE` frame within its limit. The texts of `final` that other events contain are left out."""
    if frame["kind"] == Kind.FINAL:
        final = {name: value for name, value in frame["final"].items() if name not in sent}
        frame = {**frame, "final": final}
    return frame if codec.size(frame) <= FRAME_MAX_BYTES else fit(frame, FRAME_MAX_BYTES)


def missing_texts(final: Mapping[str, str], late: Container[str], written: Container[str]) -> dict[str, str]:
    """Return the texts of `final` that no event contains, by their names (CONTRACT D13).

    Args:
        final: the end of the stream.
        late: names of the texts that came with the end of their response: `final.late_texts`.
        written: names of those of which something was written.
    """
    return {name: final[name] for name in _TEXTS if final.get(name) and (name in late or name not in written)}


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
    marks = {name: b"\0%b\0" % name.encode() for name in places if name in event}  # no JSON has a zero byte
    pattern = literal(codec.dumps({**event, **{name: codec.Fragment(mark) for name, mark in marks.items()}}))
    for name, mark in marks.items():
        pattern = pattern.replace(mark, places[name])
    return pattern


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


class PendingNotices(list[object]):
    """Notices of one message, call or reasoning, until its last event has them all."""

    def add(self, new: list[object] | None) -> list[object] | None:
        """Add the notices of a frame, up to the limit of one event and each once; return those of the frame."""
        if new is not None:
            self += [notice for notice in new if notice not in self][: NOTICES_MAX_ITEMS - len(self)]
        return new

    def release(self) -> list[object]:
        """Return all pending notices and clear them."""
        released = [*self]
        self.clear()
        return released


PARAGRAPH: Final = "\n\n"
"""Between the texts of two items, or of two parts of one."""


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


def json_text(value: object) -> str:
    """Return a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else codec.dumps(value).decode()


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
