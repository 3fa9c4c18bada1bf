"""`PublicStreamProjector`: canonical events in, frames with their envelope out. Dispatch, lifecycle, branches."""

from __future__ import annotations

from collections import Counter
from typing import Final

from projector._errors import UsageError
from projector.contracts import codec
from projector.contracts.limits import DELTA_MAX_CHARS
from projector.core import frames
from projector.core.canonical import CanonicalEvent, Frame, UnreadableEvent, type_name
from projector.core.context import BranchContext, StreamContext
from projector.core.delta_frames import DeltaFrames
from projector.core.envelope import NO_EVENT, EnvelopeWriter
from projector.core.faults import FAULTS, Fault, LimitError
from projector.core.handlers import HANDLERS, HOST_HANDLERS, OPENERS, SIGNALS, Handler, endings
from projector.core.handlers.endings import BRANCH_ENDS, TERMINALS
from projector.core.handlers.responses import CANCELLED, is_cancelled
from projector.core.handlers.text_channels import OpenText
from projector.core.lifecycle import BRANCH_TRANSITIONS, OPTIONAL_BRANCH_TRANSITIONS, Phase, Signal, Verdict
from projector.core.reported_errors import ProviderError
from projector.core.sse import AFTER_THE_END
from projector.core.state import StreamState
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanText
from projector.redaction.ledger import BlockedError
from projector.redaction.redactor import Redactor

PROGRESS: Final = Signal.PROGRESS  # looked up once here, not once per token in its class
BEGINNING: Final = Signal.BEGINNING
DROPPED: Final = Signal.DROPPED
EMIT: Final = Verdict.EMIT
IGNORE: Final = Verdict.IGNORE
SETTLED: Final = Phase.SETTLED

BEGINNINGS: Final = frozenset(
    {Verdict.BEGIN, Verdict.BEGIN_AND_SETTLE, Verdict.BEGIN_AND_FAIL_BRANCH, Verdict.EMPTY_BRANCH}
)


class PublicStreamProjector:
    """Projects one public stream.

    It handles one branch at a time, the main one until `enter` selects another. A run has a branch for each of its
    responses that may stream at the same time.

    Args:
        redactor: the compiled policy; the only source of clean values.
        context: context from the host; `stream_id` must be set.
        is_run: whether responses may follow each other until the host closes the run (CONTRACT D12).
    """

    def __init__(self, redactor: Redactor, context: StreamContext, *, is_run: bool = False) -> None:
        self._redactor = redactor = redactor.for_stream()
        self.main: Final = StreamState(redactor, context)
        """State of the main branch."""
        self.count = self.main.count
        """Counts input that an earlier stage dropped."""
        self._branches = [self.main]
        self.branch = self.main
        """State of the current branch."""
        self._transitions = self.branch.transitions
        self._phase = Phase.IDLE
        """Phase of the current branch; saved to `branch.phase` when another one is entered."""
        self._is_run = is_run
        self.open_text: OpenText | None = None
        """The text that the last event continued; every other input clears it."""
        self._replaced = redactor.replaced
        self.ended = False
        """Whether the terminal event has been emitted."""
        self.failure: Exception | None = None
        """The exception that ended the stream with `internal_error` or `redaction_failed`."""
        self._envelopes = EnvelopeWriter(redactor.stream_identifier(context.stream_id or ""), redactor.replaced)
        self.tick = self._envelopes.tick
        """Begins a step, with the timestamp of its frames; the clock is read once per call of the pipeline (D2). All
        frames so far were sent, for `fail_closed`."""

    @property
    def dropped(self) -> Counter[str]:
        """Counts of input that was not emitted, by event type or reason (D30)."""
        return self.branch.dropped

    @property
    def provider_errors(self) -> list[ProviderError]:
        """Errors that providers reported, for the operator's log."""
        return self.main.run.errors

    @property
    def is_idle(self) -> bool:
        """Whether no response of the current branch has begun since the last one."""
        return self._phase is Phase.IDLE

    def open_branch(self, context: BranchContext) -> StreamState:
        """Open a branch of the run.

        Raises:
            UsageError: the stream is not a run, or another open branch has the same position in the workflow.
        """
        if not self._is_run:
            raise UsageError("expected a run: only a run has branches")
        self.branch.phase = self._phase
        branch = StreamState(
            self._redactor,
            StreamContext(agent=context.agent, workflow=context.workflow),
            main=self.main,
            transitions=OPTIONAL_BRANCH_TRANSITIONS if context.is_optional else BRANCH_TRANSITIONS,
            stage=context.stage,
            is_optional=context.is_optional,
        )
        running = [other for other in self._branches[1:] if not other.is_over]
        if self.main.phase is Phase.OPEN:
            running.append(self.main)
        if any(other.position == branch.position for other in running):
            raise UsageError("expected a `workflow` with a stage, parallel group or branch index not in use")
        self._branches.append(branch)
        return branch

    def enter(self, branch: StreamState) -> list[Frame]:
        """Handle this branch from now on; return the private frame that names it to dialects."""
        if branch is self.branch or self.ended:
            return []
        self.open_text = None
        self.branch.phase = self._phase
        self.branch, self._phase, self._transitions = branch, branch.phase, branch.transitions
        return [] if branch.is_over else self._wrap([frames.branch(branch.branch)])

    def feed(self, event: CanonicalEvent) -> list[Frame]:
        """Handle a provider event with the handler of its type, if the lifecycle allows it."""
        name = event.get("type")
        text = self.open_text
        if text is not None and name == text.name and (said := self._continue(text, event)) is not None:
            return said  # nearly every event
        self.open_text = None
        if type(name) is not str or (handler := HANDLERS.get(name)) is None:
            return self.feed({**event, "type": CANCELLED}) if is_cancelled(event) else self._drop(name)
        signal = SIGNALS.get(handler, PROGRESS)
        output = self._signal(signal, handler, event)
        if signal is BEGINNING and is_cancelled(event):
            return output + self.feed({**event, "type": CANCELLED})
        if output and (opened := OPENERS.get(name)) is not None:
            self.open_text = opened(self.branch, event, output)
        return output

    def _continue(self, text: OpenText, event: CanonicalEvent) -> list[Frame] | None:
        """Handle a delta of the text that the event before it continued; return None if it is another text's.

        Only such deltas were handled since the tables decided about the first one, so their decision still holds.
        """
        delta = event.get("delta")
        if (
            event.get("output_index") is not text.output_index
            or event.get("content_index") is not text.content_index
            or type(delta) is not str
        ):
            return None
        return self._next_delta(text, delta, event.get("sequence_number"))

    def _next_delta(self, text: OpenText, delta: str, sequence: object) -> list[Frame]:
        text.count += 1
        try:
            cleaned = text.part.feed(delta)
        except Exception as error:  # noqa: BLE001 - as in `_signal`
            return self._fail_of(error)
        return self._said(text, cleaned, sequence)

    def _said(self, text: OpenText, cleaned: Cleaned[CleanText], sequence: object) -> list[Frame]:
        """Return the frames of what a delta of a text shows."""
        shown, notices = cleaned.value, cleaned.notices
        if 0 < len(shown) <= DELTA_MAX_CHARS and not notices:
            frame = self._envelopes.again(text.frame, shown, sequence)
            if frame is not None:
                return [frame]
        output = text.emit(cleaned)
        return self._wrap(output, {"sequence_number": sequence}) if output else output

    def repeat(self, deltas: list[str], encoded: list[bytes], numbers: list[int]) -> list[Frame | DeltaFrames]:
        """Handle deltas of the text that the last event continued.

        Args:
            deltas: valid texts, none of them empty or longer than `TEXT_MAX_CHARS`.
            encoded: each delta as the content of a JSON string.
            numbers: their sequence numbers.
        """
        output: list[Frame | DeltaFrames] = []
        text, at = self.open_text, 0
        while text is not None and text is self.open_text:
            try:
                shown, last = ([], None) if self._replaced else text.part.feed_run(deltas, at)
            except Exception as error:  # noqa: BLE001 - as in `_signal`
                return output + self._fail_of(error)
            if shown == deltas:  # nearly always
                return [self._envelopes.run(text.frame, shown, encoded, numbers)]
            if shown:
                output += self._run(text.frame, shown, numbers[at : at + len(shown)])
                at += len(shown)
            if last is not None:
                output += self._said(text, last, numbers[at])
                at += 1
            elif not shown:
                output += self._next_delta(text, deltas[at], numbers[at])
                at += 1
            if at == len(deltas):
                break
        return output

    def _run(self, frame: Frame, shown: list[CleanText], numbers: list[int]) -> list[DeltaFrames]:
        """Return the frames of what deltas show; those that show nothing have none."""
        if compose.EMPTY in shown:
            numbers = [number for text, number in zip(shown, numbers, strict=True) if text]
            shown = [text for text in shown if text]
        return [self._envelopes.run(frame, shown, codec.contents(shown), numbers)] if shown else []

    def host(self, event: CanonicalEvent) -> list[Frame]:
        """Handle a host event (D35)."""
        name = event.get("type")
        if type(name) is not str or (handler := HOST_HANDLERS.get(name)) is None:
            return self._drop(name, is_host=True)
        return self._signal(Signal.HOST, handler, event)

    def next_response(self) -> list[Frame]:
        """Start another response of the run."""
        return self._signal(Signal.NEXT)

    def cancel(self) -> list[Frame]:
        """Cancel the stream: close open items and emit `final` cancelled."""
        return self._signal(Signal.CANCEL)

    def stop(self) -> list[Frame]:
        """End this branch on behalf of the host and close its open items."""
        return self._signal(Signal.STOP)

    def fail(self, fault: Fault) -> list[Frame]:
        """End this branch with a fault: close open items and emit `error`, unless the branch is optional."""
        self.branch.fault = fault
        self.branch.fault_message, self.branch.fault_notices = None, ()
        return self._signal(Signal.FAULT)

    def fail_run(self, fault: Fault) -> list[Frame]:
        """End the run with a fault: close open items and emit `error`."""
        return self.enter(self.main) + self.fail(fault)

    def close(self) -> list[Frame]:
        """End the stream or run: close open items and emit the terminal event.

        The run ends in a branch with an open response, if there is one; otherwise the main branch ends for all.
        """
        if self.ended:
            return []
        self.branch.phase = self._phase
        phases = [branch.phase for branch in self._branches]
        if Phase.OPEN in phases:
            output = self.enter(self._branches[phases.index(Phase.OPEN)])
        else:
            output = self.enter(self.main)
            self._phase = SETTLED if {SETTLED, Phase.ENDED} & {*phases} else Phase.IDLE
        return output + self._signal(Signal.RUN_CLOSE if self._is_run else Signal.EOF)

    def end_branch(self) -> list[Frame]:
        """End the bytes of this branch."""
        return self._signal(Signal.EOF)

    def release(self) -> None:
        """Release the content of an ended stream, because the caller may keep the object."""
        self.open_text = None
        for branch in self._branches:
            branch.release()

    def fail_closed(self, fault: Fault, *, is_unsent: bool = False) -> list[Frame]:
        """End the stream after an internal error, with constant texts only: the failed code is not called again.

        Args:
            fault: the fault of the terminal event.
            is_unsent: whether the frames since the last `tick` could not be sent; they are undone.
        """
        self._end()
        if is_unsent:
            self._envelopes.roll_back()
        return self._envelopes.close(fault, self.branch.envelope)

    def _fail_of(self, error: Exception) -> list[Frame]:
        fault = _fault_of(error)
        if fault.source == "server" and fault.code != "content_blocked":
            self.failure = error
        return self.fail_closed(fault)

    def _signal(self, signal: Signal, handler: Handler | None = None, event: CanonicalEvent = NO_EVENT) -> list[Frame]:
        """Apply the row of the lifecycle table and return its frames.

        Any exception ends the stream with its open items closed (D12).
        """
        self.open_text = None
        phase, verdict = self._transitions[self._phase][signal]
        try:
            if verdict is EMIT and handler is not None:
                output = handler(self.branch, event)  # nearly every event
            elif verdict in TERMINALS and len(self._branches) > 1:
                return self._end_branches(verdict, handler, event)
            else:
                output = self._act(verdict, handler, event)
        except UnreadableEvent:
            return self._drop(event.get("type"), is_host=signal is Signal.HOST)
        except Exception as error:  # noqa: BLE001 - a stream never dies of data (D31); what failed decides the code
            return self._fail_of(error)
        self._phase = phase
        if output:
            output = self._envelopes.wrap(output, self.branch.envelope, event)
        if phase is SETTLED and not self._is_run:
            return output + self._signal(Signal.RUN_CLOSE, event=event)
        return output

    def _act(self, verdict: Verdict, handler: Handler | None, event: CanonicalEvent) -> list[Frame]:
        state = self.branch
        if verdict is Verdict.IGNORE:
            if handler is not None and self._phase is not Phase.ENDED:
                state.count(AFTER_THE_END)
            return []
        if verdict in BEGINNINGS:
            state.begin_response()
        output = handler(state, event) if handler is not None else []
        if verdict in BRANCH_ENDS:
            output += BRANCH_ENDS[verdict](state)
            state.phase = Phase.ENDED
        elif verdict in TERMINALS:
            output += endings.close_response(state)
            output += TERMINALS[verdict](state)
            self.ended = True
        return output

    def _end_branches(self, verdict: Verdict, handler: Handler | None, event: CanonicalEvent) -> list[Frame]:
        """Close the open items of each branch in its own context, then emit the terminal event."""
        branch, self.branch.phase = self.branch, self._phase
        output = handler(branch, event) if handler is not None else []
        closers = [(one, endings.close_response(one)) for one in self._branches]
        for other in self._branches[1:] if verdict is Verdict.CANCELLED else ():
            if other.phase is Phase.OPEN:
                endings.settle(other, "cancelled")  # its text so far belongs to `final`
        last = self.main if verdict in endings.OF_THE_RUN else branch
        terminal = TERMINALS[verdict](last)
        wrapped = self._wrap(output, event) if output else []
        for closed, closing in closers:
            if closing:
                wrapped += self.enter(closed) + self._wrap(closing)
        wrapped += self.enter(last) + self._wrap(terminal, event)
        self._end()
        return wrapped

    def _end(self) -> None:
        self.open_text = None
        self._phase, self.ended = Phase.ENDED, True
        for branch in self._branches:
            branch.phase = Phase.ENDED

    def _drop(self, name: object, *, is_host: bool = False) -> list[Frame]:
        """Count an event that is not emitted."""
        if self._phase is Phase.ENDED:
            return []
        self.branch.count(type_name(name))
        if is_host or self._transitions[self._phase][DROPPED] == (self._phase, IGNORE):
            return []
        return self._signal(DROPPED)

    def _wrap(self, output: list[Frame], event: CanonicalEvent = NO_EVENT) -> list[Frame]:
        return self._envelopes.wrap(output, self.branch.envelope, event)


def _fault_of(error: Exception) -> Fault:
    """Return the fault of an exception: its own, or `redaction_failed` if it passed through the redactor."""
    if isinstance(error, LimitError):
        return error.fault
    if isinstance(error, BlockedError):
        return FAULTS["content_blocked"]
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_globals.get("__name__", "").startswith("projector.redaction."):
            return FAULTS["redaction_failed"]
        traceback = traceback.tb_next
    return FAULTS["internal_error"]
