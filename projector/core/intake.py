"""What one upstream sends, read into what is said of it: decoder, provider stage, and a branch of the projector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from projector._errors import UsageError
from projector.contracts import codec
from projector.core.branches import Branch
from projector.core.canonical import CanonicalEvent, Frame
from projector.core.context import BranchContext
from projector.core.faults import FAULTS, Fault
from projector.core.input_formats import MakeDecoder
from projector.core.projector import PublicStreamProjector
from projector.core.sse import SseMessage
from projector.providers.descriptor import ProviderStage

MakeStage: TypeAlias = Callable[[], ProviderStage]
OpenBranch: TypeAlias = Callable[[CanonicalEvent], "Intake"]
"""Opens the branch that a recorded line names; raises `UsageError` where it cannot be."""

HOST_PREFIX: Final = "projector."
HOST_MARK: Final = b'"projector.'


class Intake:
    """The way of one upstream's bytes into its branch."""

    def __init__(
        self, projector: PublicStreamProjector, branch: Branch, make_decoder: MakeDecoder, make_stage: MakeStage
    ) -> None:
        self.branch = branch
        self._projector = projector
        self._make_decoder = make_decoder
        self._make_stage = make_stage
        self.begin()

    @property
    def dropped(self) -> Counter[str]:
        """How often what the stage did not pass on, since it was counted last."""
        return self._stage.dropped

    def begin(self) -> None:
        """Read a new upstream from the start."""
        self._decoder = self._make_decoder()
        self._stage = self._make_stage()

    def forget(self) -> None:
        """Keep nothing of what was read but the count of what was not passed on."""
        for name, count in self._stage.dropped.items():
            self._projector.count(name, count)
        self.begin()

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes, cut anywhere."""
        if self._projector.branch is not self.branch:
            return self._projector.enter(self.branch) + self._read(self._decoder.feed(data))
        return self._read(self._decoder.feed(data))

    def end(self, *, is_broken: bool = False) -> list[Frame]:
        """Read what decoder and stage still held; of a broken upstream, what it left half is no fault of its own."""
        held = self._decoder.close()
        said = self._projector.enter(self.branch)
        said += self._read(item for item in held if not (is_broken and isinstance(item, Fault)))
        return said + self.end_stage()

    def next_response(self) -> list[Frame]:
        """Read another upstream in the same branch."""
        said = self.end() + self._projector.next_response()
        self.begin()
        return said

    def end_stage(self) -> list[Frame]:
        """Read what the stage still held, and count what it did not pass on."""
        said: list[Frame] = []
        for event in self._stage.close():
            said += self._projector.fail(event) if isinstance(event, Fault) else self._projector.feed(event)
        for name, count in self._stage.dropped.items():
            self._projector.count(name, count)
        self._stage.dropped.clear()
        return said

    def begin_stage(self) -> None:
        """Read another response of the same bytes."""
        self._stage = self._make_stage()

    def take(self, message: SseMessage) -> list[Frame]:
        """Take one message."""
        said: list[Frame] = []
        for event in self._stage.feed(message):
            said += self._projector.fail(event) if type(event) is Fault else self._projector.feed(event)
        return said

    def fail(self, fault: Fault) -> list[Frame]:
        """Take a fault of the bytes; what the stage holds may be an end (CONTRACT D32)."""
        return self.end_stage() + self._projector.fail(fault)

    def _read(self, messages: Iterable[SseMessage | Fault]) -> list[Frame]:
        said: list[Frame] = []
        stage, projector = self._stage.feed, self._projector.feed
        for message in messages:
            if type(message) is Fault:
                said += self.fail(message)
            else:
                for event in stage(message):
                    said += projector(event) if type(event) is not Fault else self._projector.fail(event)
        return said


class RecordedIntake(Intake):
    """The same for a recording, which holds what the host did as well (CONTRACT D35), and the bytes of every branch."""

    def __init__(
        self,
        projector: PublicStreamProjector,
        branch: Branch,
        make_decoder: MakeDecoder,
        make_stage: MakeStage,
        open_branch: OpenBranch,
    ) -> None:
        super().__init__(projector, branch, make_decoder, make_stage)
        self._open_branch = open_branch
        self._branches: dict[str, Intake] = {}
        self._now: Intake = self

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes, of whichever branch they are."""
        return self._read(self._decoder.feed(data))

    def end(self, *, is_broken: bool = False) -> list[Frame]:
        """Read what was still held, of the branch that it is of."""
        held = self._decoder.close()
        said = self._read(item for item in held if not (is_broken and isinstance(item, Fault)))
        return said + self._enter(self) + self.end_stage()

    def _read(self, messages: Iterable[SseMessage | Fault]) -> list[Frame]:
        said: list[Frame] = []
        for message in messages:
            if isinstance(message, Fault):
                said += self._now.fail(message)
            elif (event := _recorded_event(message.data)) is None:
                said += self._now.take(message)
            else:
                said += self._take_host(event)
        return said

    def _take_host(self, event: CanonicalEvent) -> list[Frame]:
        """Do what the host did when the stream was recorded."""
        steer = STEERING.get(str(event["type"]))
        return self._projector.host(event) if steer is None else steer(self, event)

    def on_cancel(self, _event: CanonicalEvent) -> list[Frame]:
        """Cancel the stream."""
        return self._enter(self) + self._projector.cancel()

    def on_next_response(self, _event: CanonicalEvent) -> list[Frame]:
        """Go on with another response of the run, in the present branch."""
        said = self._now.end_stage() + self._projector.next_response()
        self._now.begin_stage()
        return said

    def on_branch(self, event: CanonicalEvent) -> list[Frame]:
        """Go on with the branch that is named, opened by the first line about it; the main one has no name."""
        name = event.get("branch")
        if name is None:
            return self._enter(self)
        if self._projector.ended:
            return []
        try:
            if str(name) not in self._branches:
                self._branches[str(name)] = self._open_branch(event)
        except UsageError:
            self._projector.count("projector.branch", 1)
            return []
        return self._enter(self._branches[str(name)])

    def on_branch_end(self, event: CanonicalEvent) -> list[Frame]:
        """End the present branch: with a fault, by the host, or because its bytes end."""
        if self._now is self:
            self._projector.count("projector.branch_end", 1)
            return []
        said = self._now.end_stage()
        fault = FAULTS.get(str(event.get("fault")))
        if fault is not None:
            return said + self._projector.fail(fault)
        return said + (self._projector.stop() if event.get("is_stopped") is True else self._projector.end_branch())

    def _enter(self, intake: Intake) -> list[Frame]:
        self._now = intake
        return self._projector.enter(intake.branch)


STEERING: Final[Mapping[str, Callable[[RecordedIntake, CanonicalEvent], list[Frame]]]] = {
    "projector.cancel": RecordedIntake.on_cancel,
    "projector.next_response": RecordedIntake.on_next_response,
    "projector.branch": RecordedIntake.on_branch,
    "projector.branch_end": RecordedIntake.on_branch_end,
}
"""What a host does with a pipeline by its methods, as lines of a recording; its events have handlers (D35)."""


def recorded_context(event: CanonicalEvent) -> BranchContext:
    """Give the context of a branch as a recorded line says it; what it does not say, or wrongly, is not there."""
    agent, workflow, stage = event.get("agent"), event.get("workflow"), event.get("stage")
    return BranchContext(
        agent=agent if isinstance(agent, str) else None,
        workflow=workflow if isinstance(workflow, dict) else {},
        stage=stage if type(stage) is int else None,
        is_optional=event.get("is_optional") is True,
    )


def _recorded_event(data: bytes) -> CanonicalEvent | None:
    """Give the event of the host that a recorded line holds, its integers exact (D31); None for a provider's."""
    if HOST_MARK not in data:
        return None
    try:
        event = codec.loads_exact(data.decode("utf-8", "replace"))
    except codec.CodecError:
        return None
    return event if isinstance(event, dict) and str(event.get("type")).startswith(HOST_PREFIX) else None
