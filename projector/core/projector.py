"""`PublicStreamProjector`: canonical events in, sealed frames out. Dispatch, lifecycle and envelope; nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Final

from projector._errors import UsageError
from projector.contracts.kinds import SCHEMA, Kind
from projector.core import frames
from projector.core.branches import Branch, Branches
from projector.core.canonical import CanonicalEvent, Frame, UnreadableEvent
from projector.core.context import BranchContext, StreamContext
from projector.core.faults import FAULTS, Fault
from projector.core.handlers import HANDLERS, HOST_HANDLERS, SIGNALS, Handler, endings
from projector.core.handlers.endings import BRANCH_ENDS, TERMINALS
from projector.core.lifecycle import Phase, Signal, Verdict
from projector.core.open_items import OpenItems
from projector.redaction.redactor import Redactor

SEQUENCE_END: Final = 2**53
"""A page reads numbers as doubles; beyond this they are not exact (D5)."""

PROGRESS: Final = Signal.PROGRESS  # looked up once here, not once per token in its class
SPEAK: Final = Verdict.SPEAK
SETTLED: Final = Phase.SETTLED

NO_EVENT: Final[CanonicalEvent] = MappingProxyType({})

BEHIND_THE_END: Final = "behind the end of its response"
"""How events are counted that come too late."""

NAME_MAX_CHARS: Final = 80
"""How much of an unknown event type is kept as its name in the counts."""

SEALING: Final = frames.PRIVATE | {Kind.OUTPUT_ITEM_ADDED, Kind.OUTPUT_ITEM_DONE}
"""Kinds that need more than an envelope."""

BEGINNINGS: Final = frozenset(
    {Verdict.BEGIN, Verdict.BEGIN_AND_SETTLE, Verdict.BEGIN_AND_FAIL_BRANCH, Verdict.EMPTY_BRANCH}
)


class PublicStreamProjector:
    """Project one public stream.

    It speaks for one branch at a time, the main one unless it is told to `enter` another.

    Args:
        redactor: what the policy withholds; the only source of clean values.
        context: what the host says about the stream; `stream_id` must be given.
        is_run: whether responses may follow each other until the host closes the run (CONTRACT D12).
    """

    def __init__(self, redactor: Redactor, context: StreamContext, *, is_run: bool = False) -> None:
        self._branches = Branches(redactor, context)
        self.branch = self._branches.main
        """The branch that is spoken for."""
        self._state = self.branch.state
        self._rows = self.branch.rows
        self._stream_id = redactor.identifier(context.stream_id or "")
        self._is_run = is_run
        self._phase = Phase.IDLE
        self.ended = False
        """Whether the terminal has been said."""
        self._event_id = 0
        self._sent_id = 0
        self._open_items = OpenItems()
        self._context: Mapping[str, object] = {}
        self._envelope: Frame = {}
        self._renew_envelope()

    def tick(self, timestamp: str) -> None:
        """Take the time of what is said next; the owner reads its clock once per call (D2)."""
        self._envelope["server_timestamp"] = timestamp

    @property
    def main(self) -> Branch:
        """The branch that every stream has."""
        return self._branches.main

    @property
    def dropped(self) -> Counter[str]:
        """How often what was not said, by event type or reason (D30)."""
        return self._state.dropped

    def open_branch(self, context: BranchContext) -> Branch:
        """Give a further branch of the run.

        Raises:
            UsageError: the stream is no run, or another branch that is open stands at the same place.
        """
        if not self._is_run:
            raise UsageError("expected a run: only its responses stream side by side")
        self.branch.phase = self._phase
        return self._branches.open(context)

    def enter(self, branch: Branch) -> list[Frame]:
        """Speak for this branch from now on; give what tells dialects so."""
        if branch is self.branch or self.ended:
            return []
        self.branch.phase = self._phase
        self.branch, self._state, self._phase, self._rows = branch, branch.state, branch.phase, branch.rows
        return [] if branch.is_over else self._seal([frames.branch(branch.state.branch)])

    def feed(self, event: CanonicalEvent) -> list[Frame]:
        """Take a provider's event; give what it says."""
        name = event.get("type")
        if type(name) is not str or (handler := HANDLERS.get(name)) is None:
            return self._unsaid(name)
        return self._signal(SIGNALS.get(name, PROGRESS), handler, event)

    def host(self, event: CanonicalEvent) -> list[Frame]:
        """Take an event of the host's own door (D35)."""
        name = event.get("type")
        if type(name) is not str or (handler := HOST_HANDLERS.get(name)) is None:
            return self._unsaid(name, is_host=True)
        return self._signal(Signal.HOST, handler, event)

    def next_response(self) -> list[Frame]:
        """Take the beginning of another response of the run."""
        return self._signal(Signal.NEXT)

    def cancel(self) -> list[Frame]:
        """Take the host's cancellation; give the closers and `final` cancelled."""
        return self._signal(Signal.CANCEL)

    def stop(self) -> list[Frame]:
        """Take that the host ends this branch; give the closers."""
        return self._signal(Signal.STOP)

    def fail(self, fault: Fault) -> list[Frame]:
        """Take a fault of this branch; give the closers and what it means, `error` unless the run goes on."""
        self._state.fault = fault
        self._state.fault_message = None
        return self._signal(Signal.FAULT)

    def fail_run(self, fault: Fault) -> list[Frame]:
        """Take a fault of the whole run; give the closers and `error`."""
        return self.enter(self.main) + self.fail(fault)

    def close(self) -> list[Frame]:
        """Take the end of the provider's bytes, or of the run; give the closers and the terminal."""
        if self.ended:
            return []
        self.branch.phase = self._phase
        speaker, phase = self._branches.standing()
        said = self.enter(speaker)
        self._phase = phase
        return said + self._signal(Signal.RUN_CLOSE if self._is_run else Signal.EOF)

    def end_branch(self) -> list[Frame]:
        """Take the end of this branch's bytes; give the closers and what it means."""
        return self._signal(Signal.EOF)

    def mark(self) -> None:
        """Remember that everything given so far has been sent, for `collapse`."""
        self._sent_id = self._event_id
        if self._open_items.unsent:
            self._open_items.unsent.clear()

    def forget(self) -> None:
        """Keep nothing of what has been said: the stream has ended, and its owner may not let go of it at once."""
        self._branches.forget()

    def count(self, name: str, times: int) -> None:
        """Count something that a stage before this one did not pass on."""
        self._state.count(name, times)

    def _signal(self, signal: Signal, handler: Handler | None = None, event: CanonicalEvent = NO_EVENT) -> list[Frame]:
        """Follow the row of the table, and seal what it says.

        Whatever fails in it ends the stream closed, never open (D12).
        """
        phase, verdict = self._rows[self._phase][signal]
        try:
            if verdict is SPEAK and handler is not None:
                said = handler(self._state, event)  # the way of nearly every event
            elif verdict in TERMINALS and self._branches.are_several:
                return self._end_branches(verdict, handler, event)
            else:
                said = self._act(verdict, handler, event)
        except UnreadableEvent:
            return self._unsaid(event.get("type"), is_host=signal is Signal.HOST)
        except Exception as error:  # noqa: BLE001 - a stream never dies of data (D31); what failed decides the code
            return self.collapse(_fault_of(error.__traceback__))
        self._phase = phase
        sealed = self._seal(said, event) if said else []
        if phase is SETTLED and not self._is_run:
            return sealed + self._signal(Signal.RUN_CLOSE, event=event)
        return sealed

    def _act(self, verdict: Verdict, handler: Handler | None, event: CanonicalEvent) -> list[Frame]:
        state = self._state
        if verdict is Verdict.IGNORE:
            if handler is not None and self._phase is not Phase.ENDED:
                state.count(BEHIND_THE_END)
            return []
        if verdict in BEGINNINGS:
            state.begin_response()
        said = handler(state, event) if handler is not None else []
        if verdict in BRANCH_ENDS:
            said += BRANCH_ENDS[verdict](state)
            self.branch.phase = Phase.ENDED
        elif verdict in TERMINALS:
            said += endings.close_items(state)
            said += TERMINALS[verdict](state)
            self.ended = True
        return said

    def _end_branches(self, verdict: Verdict, handler: Handler | None, event: CanonicalEvent) -> list[Frame]:
        """Close what is open in each branch, in its own context, then say the terminal where it belongs."""
        speaker, self.branch.phase = self.branch, self._phase
        said = handler(speaker.state, event) if handler is not None else []
        closers = self._branches.closers(is_cancelled=verdict is Verdict.CANCELLED)
        last = self.main if verdict in endings.OF_THE_RUN else speaker
        terminal = TERMINALS[verdict](last.state)
        sealed = self._seal(said, event) if said else []
        for branch, closing in closers:
            if closing:
                sealed += self.enter(branch) + self._seal(closing)
        sealed += self.enter(last) + self._seal(terminal, event)
        self._branches.end()
        self._phase, self.ended = Phase.ENDED, True
        return sealed

    def collapse(self, fault: Fault, *, is_unsent: bool = False) -> list[Frame]:
        """Give the closers and the terminal in nothing but our own words: what failed must not be asked again.

        Args:
            fault: what to say.
            is_unsent: whether the frames since the last `mark` could not be sent: then they have not been said.
        """
        self._phase, self.ended = Phase.ENDED, True
        self._branches.end()
        if is_unsent:
            self._event_id = self._sent_id
            self._open_items.take_back()
        sealed = []
        for context, added in self._open_items.all():
            self._renew_envelope(context)
            sealed += self._seal([endings.abandoned(added)])
        self._renew_envelope()
        return sealed + self._seal([endings.collapsed(fault)])

    def _unsaid(self, name: object, *, is_host: bool = False) -> list[Frame]:
        """Count an event of which nothing is said."""
        if self._phase is Phase.ENDED:
            return []
        self._state.count(name[:NAME_MAX_CHARS] if type(name) is str else "(no type)")
        return [] if is_host else self._signal(Signal.DROPPED)

    def _seal(self, said: list[Frame], event: CanonicalEvent = NO_EVENT) -> list[Frame]:
        """Put the envelope around frames; only public ones take an event id (section 6, D1)."""
        if self._context is not self._state.envelope:
            self._renew_envelope()
        envelope = self._envelope
        sequence = event.get("sequence_number")
        if type(sequence) is int and 0 <= sequence < SEQUENCE_END:
            envelope["provider_sequence_number"] = sequence
        else:
            envelope.pop("provider_sequence_number", None)
        sealed = []
        for frame in said:
            if frame["kind"] in SEALING:
                self._keep_books(frame)
            else:
                self._event_id += 1
            envelope["event_id"] = self._event_id
            sealed.append(envelope | frame)
        return sealed

    def _renew_envelope(self, members: Mapping[str, object] | None = None) -> None:
        """Take over a changed context, or that of another time; nearly every frame of a stream has the same."""
        self._context = self._state.envelope
        self._envelope = {
            "schema": SCHEMA,
            "event_id": self._event_id,
            "stream_id": self._stream_id,
            "server_timestamp": self._envelope.get("server_timestamp", ""),
            **(self._context if members is None else members),
        }

    def _keep_books(self, frame: Frame) -> None:
        """Count the frame if it is public, and remember which items are open."""
        kind = frame["kind"]
        if kind in frames.PRIVATE:
            return
        self._event_id += 1
        self._open_items.follow(self._context, frame)


def _fault_of(traceback: TracebackType | None) -> Fault:
    """Say which part of ours failed: the redactor, or anything else."""
    while traceback is not None:
        if traceback.tb_frame.f_globals.get("__name__", "").startswith("projector.redaction."):
            return FAULTS["redaction_failed"]
        traceback = traceback.tb_next
    return FAULTS["internal_error"]
