"""The branches of a pipeline: decoder and provider stage of each upstream, and the state that its events go to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from projector._errors import UsageError, check_argument
from projector.contracts import codec
from projector.contracts.json_values import count_values, has_long_text
from projector.contracts.limits import EVENT_TEXT_MAX_BYTES, EVENT_VALUES_MAX
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.context import BranchContext, is_workflow_member
from projector.core.delta_frames import Output, extend
from projector.core.faults import FAULTS, OTHER_API, Fault, check_fault
from projector.core.input_formats import BareJsonDecoder, Decoder, MakeDecoder
from projector.core.lane import MESSAGE_MAX_BYTES, Lane, lane_of
from projector.core.projector import PublicStreamProjector
from projector.core.sse import AFTER_THE_END, DONE, SseDecoder, SseMessage, has_unread, is_comment
from projector.core.state import StreamState
from projector.core.transcript import ResponseEnd
from projector.providers.descriptor import ProviderStage

MakeStage: TypeAlias = Callable[[], ProviderStage]
OpenBranch: TypeAlias = Callable[[CanonicalEvent], "PipelineBranch"]
"""Opens the branch of a recorded line; raises `UsageError` if it is not valid."""

UNCOUNTED_MAX_BYTES: Final = EVENT_VALUES_MAX
"""An event of this size cannot have too many values, each of which takes a byte."""
HOST_PREFIX: Final = "projector."
HOST_MARK: Final = b'"projector.'


def as_bytes(data: object) -> bytes:
    """Return what a buffer contains; raise `UsageError` for anything but a buffer."""
    if not isinstance(data, bytearray | memoryview):
        raise UsageError("`data`: expected the provider's bytes")
    return bytes(data)


class _Released:
    """In place of the decoder and the stage of a branch that was released; nothing is fed to it."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()

    def feed(self, _item: object, /) -> list[Any]:
        return []

    def close(self) -> list[Any]:
        return []


_RELEASED: Final = _Released()

LANE_DECODERS: Final = (SseDecoder, BareJsonDecoder)
LANE_MIN: Final = 3
"""Deltas that continue a text before it gets a lane; making one costs as much as two of them."""
VAIN_MAX: Final = 8
"""Lanes in a row that may be too short: messages with varying members have none."""
PIECE_BYTES: Final = 2_048
"""Size of the first piece of a large read; each further one has twice its size. A lane may begin after each."""


@dataclass(eq=False)
class PipelineBranch:
    """One branch of a run, with the decoder and provider stage of its upstream; created by `Pipeline.branch`.

    The public methods return the bytes to send, as those of the pipeline do, in the order of the calls.
    """

    _state: StreamState
    _projector: PublicStreamProjector
    _make_decoder: MakeDecoder
    _make_stage: MakeStage
    _run: Callable[..., bytes]
    """Runs a step, which returns frames, and encodes them."""

    def __post_init__(self) -> None:
        self._lane: Lane | None = None
        self._vain = 0
        """Lanes in a row that were too short."""
        self._state.usage_so_far = self._usage_so_far
        self._start()

    @property
    def is_over(self) -> bool:
        """Whether the branch has been closed, failed or stopped, or the run has ended."""
        return self._projector.ended or self._state.is_over

    @property
    def end(self) -> ResponseEnd | None:
        """How its last response ended; None if none has."""
        return self._state.end

    @property
    def _has_ended(self) -> bool:
        """Whether the provider has ended the last response, not the host."""
        return (end := self.end) is not None and end is not self._end_before and end.status != "cancelled"

    @property
    def dropped(self) -> Counter[str]:
        """What the provider stage dropped since `end_stage` was called last."""
        return self._stage.dropped

    def feed(self, data: bytes) -> bytes:
        """Process bytes of its provider, cut anywhere; raise `UsageError` for anything else."""
        if not isinstance(data, bytes):
            data = as_bytes(data)
        return self._run(self.read, data)

    def close(self, fault: Fault | None = None) -> bytes:
        """End the bytes of the branch; a fault ends the run, unless the branch is optional."""
        if fault is None:
            return self._run(lambda: self.finish() + self._projector.end_branch())
        check_fault(fault)
        return self._run(lambda: self.finish(is_broken=True) + self._projector.fail(fault))

    def stop(self) -> bytes:
        """Close the open items of the branch and end it without a failure."""
        return self._run(lambda: self.enter() + self._projector.stop())

    def host(self, event: CanonicalEvent) -> bytes:
        """Process a host event for this branch; raise `UsageError` for anything but a mapping."""
        check_argument("event", "a mapping", holds=isinstance(event, Mapping))
        return self._run(lambda: self.enter() + self._projector.host(event))

    def next_response(self) -> bytes:
        """Start another upstream in this branch; decoder and provider stage start anew."""

        def step() -> list[Frame]:
            output = self.finish() + self._projector.next_response()
            self._start()
            return output

        return self._run(step)

    def use_stage(self, make_stage: MakeStage) -> None:
        """Read the next response with another stage of the same provider; no byte of it may have been fed."""
        self._make_stage = make_stage
        self._stage = make_stage()

    def enter(self) -> list[Frame]:
        """Make this the branch that the projector handles."""
        return self._projector.enter(self._state)

    def read(self, data: bytes) -> list[Output]:
        """Decode bytes and process their messages, a large read in pieces, so that a lane may begin after each."""
        projector, lane = self._projector, self._lane
        output: list[Output] = [] if projector.branch is self._state else [*self.enter()]
        if lane is not None and projector.open_text is not lane.owner:
            data = self._end_lane() + data
        elif lane is not None and len(data) <= PIECE_BYTES:
            output = lane.read(data, projector.repeat)
            if not lane.rest:  # nearly every read
                return output
            data = self._end_lane()
        at, size = 0, PIECE_BYTES
        while at < len(data):
            piece = data[at : at + size]
            at += len(piece)
            size *= 2
            if (lane := self._lane) is not None:
                extend(output, lane.read(piece, projector.repeat))
                if lane.rest:
                    rest, size = self._end_lane(), PIECE_BYTES
                    is_here = data.endswith(rest, 0, at)  # nearly always: what follows is not copied for each lane
                    data, at = (data, at - len(rest)) if is_here else (rest + data[at:], 0)
                continue
            messages = self._decoder.feed(piece)
            output += self.pass_on(messages)
            if messages and self._vain < VAIN_MAX:
                self._begin_lane(messages[-1])
        return output

    def _begin_lane(self, last: SseMessage | Fault) -> None:
        """Begin a lane, if the last message continued a text and nothing else."""
        decoder, text = self._decoder, self._projector.open_text
        if text is None or text.count < LANE_MIN or type(last) is Fault or not isinstance(decoder, LANE_DECODERS):
            return
        lane = None
        if decoder.most_bytes >= MESSAGE_MAX_BYTES:
            lane = lane_of(last, self._stage, text, text.name, decoder.line_end)
        if lane is None:
            self._vain += 1
            return
        unfinished = decoder.take_unfinished()
        if not lane.may_begin(unfinished):
            decoder.feed(unfinished)  # completes no message: it did not before
            self._vain += 1
            return
        lane.unfinished = unfinished
        self._lane = lane

    def _end_lane(self) -> bytes:
        """Return the bytes that a lane has read and not handled."""
        lane, self._lane = self._lane, None
        if lane is None:
            return b""
        unfinished = lane.end()
        self._vain = 0 if lane.count >= LANE_MIN else self._vain + 1
        return unfinished

    def pass_on(self, messages: Iterable[SseMessage | Fault]) -> list[Frame]:
        """Process messages of the provider up to the end; after a fault, what the stage holds may be one (D32).

        Messages after the end are counted, if the provider has ended its response.
        """
        output: list[Frame] = []
        stage, projector = self._stage.feed, self._projector.feed
        for message in messages:
            if self._projector.ended:
                self._count_late(message)
            elif type(message) is Fault:
                output += self.end_stage() + self._projector.fail(message)
            elif len(message[0]) > UNCOUNTED_MAX_BYTES and _is_expensive(message[0]):
                output += self.end_stage() + self._projector.fail(FAULTS["upstream_event_too_large"])
            else:
                for event in stage(message):
                    output += projector(event) if type(event) is not Fault else self._projector.fail(event)
        return output

    def finish(self, *, is_broken: bool = False) -> list[Frame]:
        """Process the rest held by decoder and stage. An incomplete end of a broken upstream is not a second fault."""
        held = self._end_decoding()
        output = self.enter()
        read = self.pass_on(item for item in held if not (is_broken and isinstance(item, Fault)))
        is_unread = self._projector.is_idle and not is_broken and has_unread(self._stage.dropped)
        read += self.end_stage()
        if not read and isinstance(self._decoder, SseDecoder) and self._decoder.is_document:
            read = self._projector.fail(FAULTS["upstream_malformed"])  # neither an answer nor an error (D48)
        elif not read and is_unread:
            read = self._projector.fail(OTHER_API)
        return output + read

    def _end_decoding(self) -> list[SseMessage | Fault]:
        unfinished = self._end_lane()
        return [*(self._decoder.feed(unfinished) if unfinished else ()), *self._decoder.close()]

    def end_stage(self) -> list[Frame]:
        """Process the rest held by the stage, and add its counts."""
        output: list[Frame] = []
        for event in self._stage.close():
            output += self._projector.fail(event) if isinstance(event, Fault) else self._projector.feed(event)
        self._count_dropped()
        self._stage.dropped.clear()
        return output

    def start_stage(self) -> None:
        """Start another response within the same bytes, unless the stream has ended."""
        if self._projector.ended:
            return
        self._end_before = self.end
        self._stage = self._make_stage()

    def _usage_so_far(self) -> Mapping[str, object]:
        """Return the usage that the stage knows of a response that is cut off; empty if its events have all usage."""
        if self._lane is not None:
            self._lane.end()  # which tells the stage what was read
        of_stage = getattr(self._stage, "usage_so_far", None)
        return {} if of_stage is None else of_stage()

    def _start(self) -> None:
        self._end_before = self.end
        self._decoder: Decoder | _Released = self._make_decoder()
        self._stage = self._make_stage()

    def release(self) -> None:
        """Drop everything read, except the counts, and the pipeline, with which the branch would be a cycle.

        If the provider has ended its response, the decoder stays: see `read_late`.
        """
        self._count_dropped()
        if not self._has_ended:
            self._decoder = _RELEASED
        self._stage, self._lane = _RELEASED, None
        self._run = lambda *_: b""

    def read_late(self, data: bytes | None) -> None:
        """Count the messages in bytes after the end of the stream; None ends them."""
        messages = self._decoder.close() if data is None else self._decoder.feed(data)
        self.pass_on(message for message in messages if not self._is_of_host(message))
        if data is None:
            self._decoder = _RELEASED  # with an unfinished message

    def _is_of_host(self, _message: SseMessage | Fault) -> bool:
        return False

    def _count_late(self, message: SseMessage | Fault) -> None:
        if (self._stage is _RELEASED or self._has_ended) and type(message) is not Fault:
            data = message[0].strip()
            if data != DONE and not is_comment(data):
                self._projector.count(AFTER_THE_END, 1)

    def _count_dropped(self) -> None:
        for name, count in self._stage.dropped.items():
            self._projector.count(name, count)


@dataclass(eq=False)
class RecordedBranches(PipelineBranch):
    """The branches of a recording, with its host events (CONTRACT D35); itself the main branch."""

    _open_branch: OpenBranch

    def __post_init__(self) -> None:
        super().__post_init__()
        self._branches: dict[str, PipelineBranch] = {}
        self._current: PipelineBranch = self

    def read(self, data: bytes) -> list[Output]:
        """Decode bytes of any branch."""
        return [*self._replay(self._decoder.feed(data))]

    def finish(self, *, is_broken: bool = False) -> list[Frame]:
        """Process the rest held by each branch."""
        held = self._decoder.close()
        output = self._replay(item for item in held if not (is_broken and isinstance(item, Fault)))
        return output + self._select(self) + self.end_stage()

    def on_cancel(self, _event: CanonicalEvent) -> list[Frame]:
        """Cancel the stream."""
        return self._select(self) + self._projector.cancel()

    def on_next_response(self, _event: CanonicalEvent) -> list[Frame]:
        """Start another response of the run, in the current branch."""
        output = self._current.end_stage() + self._projector.next_response()
        self._current.start_stage()
        return output

    def on_branch(self, event: CanonicalEvent) -> list[Frame]:
        """Continue with the named branch, opened by its first line; the main branch has no name."""
        name = event.get("branch")
        if name is None:
            return self._select(self)
        if self._projector.ended:
            return []
        try:
            if str(name) not in self._branches:
                self._branches[str(name)] = self._open_branch(event)
        except UsageError:
            self._projector.count("projector.branch", 1)
            return []
        return self._select(self._branches[str(name)])

    def on_branch_end(self, event: CanonicalEvent) -> list[Frame]:
        """End the current branch: with a fault, by the host, or because its bytes end."""
        if self._current is self:
            self._projector.count("projector.branch_end", 1)
            return []
        output = self._current.end_stage()
        fault = FAULTS.get(str(event.get("fault")))
        if fault is not None:
            return output + self._projector.fail(fault)
        return output + (self._projector.stop() if event.get("is_stopped") is True else self._projector.end_branch())

    def _is_of_host(self, message: SseMessage | Fault) -> bool:
        return not isinstance(message, Fault) and _recorded_event(message.data) is not None

    def _replay(self, messages: Iterable[SseMessage | Fault]) -> list[Frame]:
        output: list[Frame] = []
        for message in messages:
            event = None if isinstance(message, Fault) else _recorded_event(message.data)
            if event is None:
                output += self._current.pass_on([message])
            else:
                directive = STEERING.get(str(event["type"]))
                output += self._projector.host(event) if directive is None else directive(self, event)
        return output

    def _select(self, branch: PipelineBranch) -> list[Frame]:
        self._current = branch
        return branch.enter()


def _is_expensive(data: bytes) -> bool:
    return count_values(data, EVENT_VALUES_MAX) > EVENT_VALUES_MAX or has_long_text(data, EVENT_TEXT_MAX_BYTES)


STEERING: Final[Mapping[str, Callable[[RecordedBranches, CanonicalEvent], list[Frame]]]] = {
    "projector.cancel": RecordedBranches.on_cancel,
    "projector.next_response": RecordedBranches.on_next_response,
    "projector.branch": RecordedBranches.on_branch,
    "projector.branch_end": RecordedBranches.on_branch_end,
}
"""Lines of a recording that call a method of the pipeline, as the host did. Host events have handlers instead (D35)."""


def recorded_context(event: CanonicalEvent) -> BranchContext:
    """Read the context of a branch from a recorded line; missing and invalid members are left out."""
    agent, workflow, stage = event.get("agent"), event.get("workflow"), event.get("stage")
    members = workflow if isinstance(workflow, dict) else {}
    return BranchContext(
        agent=agent if isinstance(agent, str) else None,
        workflow=dict(member for member in members.items() if is_workflow_member(*member)),
        stage=stage if type(stage) is int else None,
        is_optional=event.get("is_optional") is True,
    )


def _recorded_event(data: bytes) -> CanonicalEvent | None:
    """Parse a recorded host event with exact integers (D31); return None for a line of the provider."""
    if HOST_MARK not in data:
        return None
    try:
        event = codec.loads_exact(data.decode("utf-8", "replace"))
    except codec.CodecError:
        return None
    return event if isinstance(event, dict) and str(event.get("type")).startswith(HOST_PREFIX) else None
