"""What the writers of the APIs of OpenAI and Anthropic share: each writes a stream as one answer.

`ApiStream`, `failure_of` and `error_of` serve all of them. `AnswerStream` and the rest serve `chat_completions` and
`anthropic_messages`: the calls that the client executes, the order of items that are streamed side by side, the reason
of the end, and the limit of a JSON answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, TypeVar

from projector.contracts.kinds import CLIENT_CALLS, RUNNING, Kind, PrivateKind
from projector.core.canonical import Frame, WireEvent
from projector.core.context import parse_time
from projector.core.faults import FAULTS
from projector.dialects.descriptor import DialectOptions
from projector.dialects.frame_writer import UNKNOWN, failure

CUSTOM: Final = "custom_tool_call"

BEFORE_WORK: Final = frozenset(
    {
        *(PrivateKind.BRANCH, PrivateKind.RESPONSE_META, PrivateKind.RESPONSE_USAGE, PrivateKind.ITEM_DETAILS),
        *(PrivateKind.ITEM_MEMBERS, PrivateKind.RESPONSE_ERROR, PrivateKind.LATE_TEXTS),
        *(Kind.LIFECYCLE, Kind.ERROR),
    }
)
"""Kinds without a first event: ID and model may still be unknown, and an error may be the whole stream."""


def seconds(frame: Frame) -> int:
    """Return the time of a frame in whole seconds since 1970-01-01 UTC."""
    return int(parse_time(frame["server_timestamp"], "server_timestamp"))


class ApiStream(ABC):
    """One answer of an API, and what is kept of the responses that it is made of."""

    writers: ClassVar[Mapping[str, Callable[[Any, Frame], None]]]
    """Frame kind -> its writer, which adds to `events`."""
    service_tiers: ClassVar[frozenset[str] | None] = None
    """Tiers that the API has; None: any name. Other tiers of a provider are not written."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        """Events of the current frame."""
        self.model = UNKNOWN
        self.created_at = 0
        """Time of the first response, in seconds since 1970; 0 if it is unknown."""
        self.service_tier: dict[str, str] = {}
        """The member with the last service tier, if there is one."""
        self.reported: Frame = {}
        """The error that the provider reported last."""

    @abstractmethod
    def begin_work(self, frame: Frame) -> None:
        """Write what precedes the output, once; called for each frame of a kind that is not in `BEFORE_WORK`."""

    def feed(self, frame: Frame, /) -> list[WireEvent]:
        """Return the events of a frame."""
        kind = frame["kind"]
        self.events = []
        if kind not in BEFORE_WORK:
            self.begin_work(frame)
        writer = self.writers.get(kind)
        if writer is not None:
            writer(self, frame)
        return self.events

    def on_meta(self, frame: Frame) -> None:
        """Keep model and time of the first response, and the last service tier."""
        self.model = frame.get("model", UNKNOWN) if self.model == UNKNOWN else self.model
        self.created_at = self.created_at or frame.get("created_at", 0)
        tier, known = frame.get("service_tier"), self.service_tiers
        if tier and (known is None or tier in known):
            self.service_tier = {"service_tier": tier}

    def on_provider_error(self, frame: Frame) -> None:
        """Keep the error that the provider reported, for the end of the stream."""
        self.reported = frame


_Piece = TypeVar("_Piece")


class InTurn(Generic[_Piece]):
    """Pieces of items, of one item at a time.

    Those of items that are streamed beside it, as calls of Chat Completions or parallel branches, wait until it is
    done, so that sentences are never mixed.
    """

    __slots__ = ("_done", "current", "waiting")

    def __init__(self) -> None:
        self.current: str | None = None
        """The item whose turn it is."""
        self.waiting: dict[str, list[_Piece]] = {}
        """Item -> its pieces, which cannot be written yet."""
        self._done: set[str] = set()
        """Items that have ended while they waited."""

    def feed(self, item_id: str, piece: _Piece) -> list[_Piece]:
        """Add a piece of an item; return it if it can be written now."""
        if self.current in {None, item_id}:
            self.current = item_id
            return [piece]
        self.waiting.setdefault(item_id, []).append(piece)
        return []

    def close(self, item_id: str) -> list[_Piece]:
        """End an item. If it is the current one, return the pieces of those that waited, up to one that goes on."""
        if item_id != self.current:
            self._done |= {item_id} & self.waiting.keys()
            return []
        self.current = None
        pieces: list[_Piece] = []
        while self.waiting and self.current is None:
            following = next(iter(self.waiting))
            pieces += self.waiting.pop(following)
            self.current = None if following in self._done else following
        return pieces

    def all(self) -> list[str]:
        """Return the items that have not ended, in their order."""
        return [] if self.current is None else [self.current, *self.waiting]


@dataclass(slots=True, eq=False)
class ClientCall:
    """A call for the client, as read so far."""

    item_id: str
    is_custom: bool
    call_id: str = ""
    name: str = UNKNOWN
    place: Any = None
    """Where the answer has the call; None until it is written."""
    held: list[str] = field(default_factory=list)
    """Fragments of the input that cannot be written yet."""
    has_input: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    """Further members of its first entry."""


class AnswerStream(ApiStream):
    """One answer, to which the methods for frames add events.

    In a stream of one response each call is written as it arrives. In a run the host may execute a call itself, and
    clients execute every call that they receive; so the calls of a run are written at its end, without those that have
    an output, those of a response that was followed by another one, and those of a workflow, which does not wait for
    clients.
    """

    def __init__(self, options: DialectOptions) -> None:
        super().__init__()
        self.options = options
        self.is_run = options.is_run
        self.calls: dict[str, ClientCall] = {}
        """Item -> its call, without those that the host executed."""
        self.reasoning: dict[str, tuple[str, int]] = {}
        """Open reasoning item -> the kind of frame that its text is read from, and its last part."""
        self.late: list[str] = []
        """Names of the texts of `final` that came with the end of their response."""
        self.reasons: dict[str, str] = {}
        """Status of a response -> the last reason of it."""
        self._has_begun = False
        self._has_ended = False
        """Whether the last response has ended."""

    @abstractmethod
    def begin(self, frame: Frame) -> None:
        """Write the first event."""

    @abstractmethod
    def announce(self, call: ClientCall) -> None:
        """Write the start of a call, and set its place."""

    @abstractmethod
    def write_input(self, call: ClientCall, fragment: str) -> None:
        """Write a fragment of the input of a call that has a place."""

    @abstractmethod
    def fail(self, error: Mapping[str, Any]) -> None:
        """Write the error that ends the stream."""

    @abstractmethod
    def finish(self, final: Frame, reason: str) -> None:
        """Write what was held back, then the end; `final` is the member of the frame."""

    def begin_work(self, frame: Frame) -> None:
        """Write the first event, once."""
        if not self._has_begun:
            self._has_begun = True
            self.begin(frame)

    def on_lifecycle(self, frame: Frame) -> None:
        """Keep the reason of an end."""
        self._has_ended = self._has_ended or frame["status"] not in RUNNING
        if "reason" in frame:
            self.reasons[frame["status"]] = frame["reason"]

    def on_item_added(self, frame: Frame) -> None:
        """Prepare a call. Another response shows that the calls before it were executed."""
        if self._has_ended:  # parallel responses are in workflows, whose calls are not written
            self._has_ended = False
            self.calls.clear()
        if frame["item_type"] in CLIENT_CALLS and not (self.is_run and "workflow" in frame):
            self.calls[frame["item_id"]] = ClientCall(frame["item_id"], is_custom=frame["item_type"] == CUSTOM)

    def on_tool_status(self, frame: Frame) -> None:
        """Write the start of a call; its first status has its ID and name."""
        call, tool = self.calls.get(frame["item_id"]), frame["tool"]
        if call is None or call.call_id:
            return
        call.call_id, call.name = tool["tool_call_id"], tool["name"]
        if not self.is_run and call.name != UNKNOWN:
            self.release(call)

    def on_arguments_delta(self, frame: Frame) -> None:
        """Write a delta of the arguments."""
        if (call := self.calls.get(frame["item_id"])) is not None:
            self._add_input(call, frame["delta"])

    def on_arguments_done(self, frame: Frame) -> None:
        """Write arguments that came without deltas."""
        call = self.calls.get(frame["item_id"])
        if call is None:
            return
        if call.place is None:
            call.name = frame["tool_name"]
        if not call.has_input:
            self._add_input(call, frame["arguments_text"])

    def on_output(self, frame: Frame) -> None:
        """Record that a call needs no execution by the client."""
        self.calls.pop(frame["item_id"], None)

    def on_late_texts(self, frame: Frame) -> None:
        """Keep which texts of `final` no delta contains, or not whole."""
        self.late = frame["names"]

    def on_final(self, frame: Frame) -> None:
        """Write the end of the answer, or the error of a response that failed."""
        final = frame["final"]
        reason = self.reasons.get(final["status"], "")
        if final["status"] == "failed":
            self.fail(failure_of(reason, self.reported))
        else:
            self.finish(final, reason)

    def on_error(self, frame: Frame) -> None:
        """Write the error, with the members that the provider reported."""
        self.fail(error_of(frame["error"], self.reported))

    def reasoning_part(self, frame: Frame, index: str) -> int | None:
        """Return the part before a delta of reasoning, or its own at first; None if the delta is not read.

        Of each item its summary or its full text is read, whichever comes first.
        """
        part: int = frame[index]
        kind, last = self.reasoning.get(frame["item_id"], (frame["kind"], part))
        if kind != frame["kind"]:
            return None
        self.reasoning[frame["item_id"]] = (kind, part)
        return last

    def release(self, call: ClientCall) -> None:
        """Write a call that was held back, unless it is written already."""
        if call.place is None:
            self.announce(call)
            held, call.held = call.held, []
            for fragment in held:
                self.write_input(call, fragment)

    def _add_input(self, call: ClientCall, fragment: str) -> None:
        if not (call.has_input or call.is_custom):
            fragment = fragment.lstrip(" \t\r\n")  # official clients parse what has come, and refuse blanks alone
        if not fragment:
            return
        call.has_input = True
        if call.place is None:
            call.held.append(fragment)
        else:
            self.write_input(call, fragment)


COMMON: Final[Mapping[str, Callable[[AnswerStream, Frame], None]]] = {
    Kind.LIFECYCLE: AnswerStream.on_lifecycle,
    Kind.OUTPUT_ITEM_ADDED: AnswerStream.on_item_added,
    Kind.TOOL_ARGUMENTS_DELTA: AnswerStream.on_arguments_delta,
    Kind.TOOL_ARGUMENTS_DONE: AnswerStream.on_arguments_done,
    Kind.TOOL_OUTPUT: AnswerStream.on_output,
    Kind.FINAL: AnswerStream.on_final,
    Kind.ERROR: AnswerStream.on_error,
    PrivateKind.RESPONSE_META: AnswerStream.on_meta,
    PrivateKind.RESPONSE_ERROR: AnswerStream.on_provider_error,
    PrivateKind.LATE_TEXTS: AnswerStream.on_late_texts,
}
"""Frame kind -> its writer, the same in both dialects."""

DROPPED: Final[Mapping[str, str]] = {
    PrivateKind.BRANCH: "all branches are written in one answer",
    PrivateKind.RESPONSE_USAGE: "the answer has the sum over all responses",
    **dict.fromkeys((PrivateKind.REASONING_DONE, Kind.REFUSAL_DONE), "the deltas contain the whole text"),
}
"""Frame kind -> why neither dialect writes anything."""

ANSWER_MAX_BYTES: Final = 16 * 1024 * 1024
"""Limit of the content of a JSON answer (CONTRACT D37)."""


class LimitedAnswer:
    """Counts what is kept for a JSON answer. Once something exceeds the limit, nothing more is kept."""

    def __init__(self, max_bytes: int = ANSWER_MAX_BYTES) -> None:
        self.held_bytes = 0
        """Bytes kept so far."""
        self._max_bytes = max_bytes
        self._is_truncated = False

    def _fits(self, size: int, *, is_needed: bool = False) -> bool:
        """Count some bytes; return whether they are kept. What is needed is kept beyond the limit, too."""
        self._is_truncated = self._is_truncated or self.held_bytes + size > self._max_bytes
        is_kept = is_needed or not self._is_truncated
        self.held_bytes += size if is_kept else 0
        return is_kept


def failure_of(reason: str | None, reported: Frame) -> dict[str, Any]:
    """Return the error of a response that the provider ended as failed, with the members that the provider reported."""
    error = {**failure(reason), "message": FAULTS["provider_error"].message}
    return error | {name: reported[name] for name in ("code", "message", "type", "param") if name in reported}


def error_of(error: Mapping[str, Any], reported: Frame) -> dict[str, Any]:
    """Return the error of a frame, with the type and the member that the provider reported, if it is the provider's."""
    is_reported = error["source"] == "provider" and error["code"] not in FAULTS
    return {**error, **{name: reported[name] for name in ("type", "param") if is_reported and name in reported}}
