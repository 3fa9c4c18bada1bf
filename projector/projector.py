"""`PublicStreamProjector`: canonical events in, sealed frames out. Dispatch, lifecycle and envelope; nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType, TracebackType
from typing import Final

from contracts.kinds import SCHEMA, Kind
from projector import frames
from projector.canonical import CanonicalEvent, Frame
from projector.context import StreamContext
from projector.faults import FAULTS, Fault
from projector.handlers import HANDLERS, HOST_HANDLERS, SIGNALS, Handler, endings
from projector.lifecycle import TRANSITIONS, Phase, Signal, Verdict
from projector.readers import Unreadable
from projector.state import StreamState
from redaction.mint import Redactor

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

BEGINNINGS: Final = frozenset({Verdict.BEGIN, Verdict.BEGIN_AND_SETTLE})

TERMINALS: Final[Mapping[Verdict, Callable[[StreamState], list[Frame]]]] = {
    Verdict.FINISH: endings.final,
    Verdict.CANCELLED: endings.cancelled,
    Verdict.FAIL: endings.error,
    Verdict.TRUNCATED: endings.truncated,
    Verdict.EMPTY: endings.empty,
}
"""Verdicts that end the stream -> what is said last."""


class PublicStreamProjector:
    """Project one public stream.

    Args:
        redactor: what the policy withholds; the only source of clean values.
        context: what the host says about the stream; `stream_id` must be given.
        is_run: whether responses may follow each other until the host closes the run (CONTRACT D12).
    """

    def __init__(self, redactor: Redactor, context: StreamContext, *, is_run: bool = False) -> None:
        self._state = StreamState(redactor, context)
        self._stream_id = redactor.identifier(context.stream_id or "")
        self._is_run = is_run
        self._phase = Phase.IDLE
        self._event_id = 0
        self._open_items: dict[object, Frame] = {}
        """Announced items as they were said: what must be closed even if nothing else can be trusted."""
        self._sent_id = 0
        self._unsent: list[tuple[object, Frame | None]] = []
        """How each change of these since the last `mark` is undone."""
        self._context: Mapping[str, object] = {}
        self._envelope: Frame = {}
        self._renew_envelope()

    def tick(self, timestamp: str) -> None:
        """Take the time of what is said next; the owner reads its clock once per call (D2)."""
        self._envelope["server_timestamp"] = timestamp

    @property
    def ended(self) -> bool:
        """Whether the terminal has been said."""
        return self._phase is Phase.ENDED

    @property
    def dropped(self) -> Counter[str]:
        """How often what was not said, by event type or reason (D30)."""
        return self._state.dropped

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

    def fail(self, fault: Fault) -> list[Frame]:
        """Take a fault; give the closers and `error`."""
        self._state.fault = fault
        self._state.fault_message = None
        return self._signal(Signal.FAULT)

    def close(self) -> list[Frame]:
        """Take the end of the provider's bytes, or of the run; give the closers and the terminal."""
        return self._signal(Signal.RUN_CLOSE if self._is_run else Signal.EOF)

    def mark(self) -> None:
        """Remember that everything given so far has been sent, for `collapse`."""
        self._sent_id = self._event_id
        if self._unsent:
            self._unsent.clear()

    def count(self, name: str, times: int) -> None:
        """Count something that a stage before this one did not pass on."""
        self._state.count(name, times)

    def _signal(self, signal: Signal, handler: Handler | None = None, event: CanonicalEvent = NO_EVENT) -> list[Frame]:
        """Follow the row of the table, and seal what it says.

        Whatever fails in it ends the stream closed, never open (D12).
        """
        phase, verdict = TRANSITIONS[self._phase][signal]
        try:
            if verdict is SPEAK and handler is not None:
                said = handler(self._state, event)  # the way of nearly every event
            else:
                said = self._act(verdict, handler, event)
        except Unreadable:
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
        if verdict in TERMINALS:
            said += endings.close_items(state)
            said += TERMINALS[verdict](state)
        return said

    def collapse(self, fault: Fault, *, is_unsent: bool = False) -> list[Frame]:
        """Give the closers and the terminal in nothing but our own words: what failed must not be asked again.

        Args:
            fault: what to say.
            is_unsent: whether the frames since the last `mark` could not be sent: then they have not been said.
        """
        self._phase = Phase.ENDED
        if is_unsent:
            self._event_id = self._sent_id
            for item_id, before in reversed(self._unsent):
                self._book(item_id, before)
        return self._seal(endings.abandon(self._open_items.values(), fault))

    def _unsaid(self, name: object, *, is_host: bool = False) -> list[Frame]:
        """Count an event of which nothing is said."""
        if self._phase is Phase.ENDED:
            return []
        self._state.count(name[:NAME_MAX_CHARS] if type(name) is str else "(no type)")
        return [] if is_host else self._signal(Signal.UNSAID)

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

    def _renew_envelope(self) -> None:
        """Take over a changed context; nearly every frame of a stream has the same."""
        self._context = self._state.envelope
        self._envelope = {
            "schema": SCHEMA,
            "event_id": self._event_id,
            "stream_id": self._stream_id,
            "server_timestamp": self._envelope.get("server_timestamp", ""),
            **self._context,
        }

    def _keep_books(self, frame: Frame) -> None:
        """Count the frame if it is public, and remember which items are open."""
        kind = frame["kind"]
        if kind in frames.PRIVATE:
            return
        self._event_id += 1
        item_id = frame["item_id"]
        self._unsent.append((item_id, self._open_items.get(item_id)))
        self._book(item_id, frame if kind == Kind.OUTPUT_ITEM_ADDED else None)

    def _book(self, item_id: object, added: Frame | None) -> None:
        """Note an item as open, by the frame that announced it, or as closed."""
        if added is None:
            self._open_items.pop(item_id, None)
        else:
            self._open_items[item_id] = added


def _fault_of(traceback: TracebackType | None) -> Fault:
    """Say which part of ours failed: the redactor, or anything else."""
    while traceback is not None:
        if traceback.tb_frame.f_globals.get("__name__", "").startswith("redaction."):
            return FAULTS["redaction_failed"]
        traceback = traceback.tb_next
    return FAULTS["internal_error"]
