"""Runs of the host: `HostRun`, one run in a task of its own, and `RunStore`, all runs of the server process.

A run continues whether or not it has readers, and its log has exactly one terminal event, at its end.
"""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import anyio

from projector.contracts import codec
from projector.core.faults import FAULTS, Fault
from projector.openwop.event_log import APPROVAL, APPROVAL_ACTIONS
from projector.openwop.requests import HostError
from projector.openwop.run_log import Interrupt, RunLog
from projector.openwop.settings import OpenWopSettings
from projector.redaction.redactor import Redactor
from projector.server.control.rate_limits import owner_of
from projector.server.http.problems import problem
from projector.server.telemetry.logs import log_crash

LOG_FULL: Final = Fault("log_full", "server", "The event log of the run exceeds its size limit.", False)
INTERRUPT_TIMEOUT: Final = Fault("interrupt_timeout", "server", "The approval request timed out.", False)
REJECTED: Final = Fault("rejected", "server", "The decision was rejected.", False)

ANONYMOUS: Final = "anonymous"
"""Name of a person without a key: the log contains no addresses."""
BY_TOKEN: Final = "token"  # noqa: S105 - the name of a person who has only the token of an interrupt

# answers

DECISIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("approve", "approved", "accept", "accepted"), "accept"),
    **dict.fromkeys(("reject", "rejected"), "reject"),
}
"""Value of `decision`, as some clients of the protocol answer -> action."""

COMMENTS: Final = ("comment", "feedback", "refineFeedback", "editedArtifactData")
"""Members of an answer to an approval that are logged with it."""

_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "refine": ("refineFeedback", "feedback"),
    "edit-accept": ("editedArtifactData",),
}
"""Action -> members of which it needs one."""

EDITED: Final = "Call the tool again with these arguments instead: "
"""What the model is told when a person edited a call: providers accept or reject a call, and cannot change it."""


class Decision(NamedTuple):
    """What a person decided."""

    is_accepted: bool
    action: str | None
    """Action of an approval; None for a free value."""
    value: object
    """The whole answer."""

    @property
    def reason(self) -> str | None:
        """Text for the model, with what a person wants instead; None if the call is accepted."""
        if self.is_accepted:
            return None
        answer = self.value if isinstance(self.value, Mapping) else {}
        if self.action == "edit-accept":
            return EDITED + codec.dumps(answer["editedArtifactData"]).decode()
        refined = answer.get("refineFeedback")
        texts = (refined.get("text") if isinstance(refined, Mapping) else None, answer.get("feedback"))
        return next((text for text in (*texts, answer.get("comment")) if isinstance(text, str) and text), None)


Answers: TypeAlias = dict[str, Decision]
"""Answers to interrupts, by the id of the tool call to approve or of the interrupt."""


def decision(kind: str, value: object) -> Decision:
    """Return the decision of an answer to an interrupt; raise `HostError` if it is none of the allowed ones.

    An approval needs an action, or a `decision` that means one. Any other interrupt is answered with any value.
    """
    answer: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    action, given = answer.get("action"), answer.get("decision")
    if action is None and isinstance(given, str):
        action = DECISIONS.get(given)
    if kind != APPROVAL:
        return Decision(action != "reject", None, value)
    if action not in APPROVAL_ACTIONS:
        raise HostError("validation_error", f"`resumeValue.action` must be one of: {', '.join(APPROVAL_ACTIONS)}.")
    needed = _REQUIRED.get(action, ())
    if needed and not any(answer.get(name) is not None for name in needed):
        raise HostError("validation_error", f"`resumeValue.{needed[0]}` is missing: `{action}` requires it.")
    return Decision(action == "accept", action, value)


# runs


@dataclass(eq=False)
class RunEndedError(Exception):
    """A run cannot continue: because of a fault, or because it was stopped."""

    fault: Fault | None = None


class Work(ABC):
    """The work of a run; `redactor` cleans what people add to its log."""

    redactor: Redactor

    @abstractmethod
    async def run(self, run: HostRun) -> None:
        """Write all events; raise `RunEndedError` if there will be no terminal event."""

    @abstractmethod
    def end(self, run: HostRun, fault: Fault | None) -> None:
        """Write the terminal event of a stopped run: failed with a fault, or cancelled if it is None."""

    def halt(self) -> None:  # noqa: B027 - work without input has nothing to stop
        """Read no more input; `run` returns soon, after writing what has been read."""

    def check_answer(self, run: HostRun, interrupt: Interrupt) -> None:  # noqa: B027 - any answer can be used
        """Prepare for the answer to an interrupt; raise `Problem` if it cannot be used."""

    async def close(self) -> None:  # noqa: B027 - work without input has no resources
        """Release resources and report the outcome."""


@dataclass(eq=False)
class HostRun:
    """One run of a caller."""

    run_id: str
    workflow_id: str
    caller: str
    log: RunLog
    approval_timeout_s: float
    groups: Sequence[str] = ()
    """Groups of the caller."""
    is_stopped: bool = False
    expiry: asyncio.TimerHandle | None = None
    token_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Is held while an answer with a token is read."""
    _answers: Answers = field(default_factory=dict)
    _fault: Fault | None = None
    _work: Work | None = None
    _task: asyncio.Task[None] | None = None

    def start(self, work: Work, on_end: Callable[[HostRun], None]) -> None:
        """Start the run in a task of its own."""
        self._work = work
        self._task = asyncio.create_task(self._drive(work, on_end), name=self.run_id)

    def stop(self, fault: Fault | None) -> None:
        """End the run: with `run.failed` for a fault, with `run.cancelled` for None. Idempotent."""
        if not self.is_stopped and not self.log.state.is_over:
            self.is_stopped = True
            self._fault = fault
            self.log.wake()
            if self._work is not None:
                self._work.halt()

    async def ended(self) -> None:
        """Wait for the end of the run."""
        if self._task is not None:
            await asyncio.wait([self._task])

    @property
    def is_suspended(self) -> bool:
        """Whether an interrupt is pending, or answered but not yet processed."""
        return bool(self.log.state.pending or self._answers)

    async def answers(self) -> Answers:
        """Wait for and return the answers to all pending interrupts; a timeout fails the run."""
        try:
            with anyio.fail_after(self.approval_timeout_s):
                while self.log.state.pending and not self.is_stopped:
                    await self.log.wait()
        except TimeoutError:
            for interrupt in self.log.state.pending:
                self._log_approval(interrupt, "timeout", {})
            raise RunEndedError(INTERRUPT_TIMEOUT) from None
        if self.is_stopped:
            raise RunEndedError
        answers, self._answers = self._answers, {}
        return answers

    def interrupt_of(self, node_id: str, interrupt_id: str | None) -> Interrupt:
        """Return the interrupt of this id, or without one the oldest of the node that is pending."""
        of_node = [one for one in self.log.state.interrupts if one.node_id == node_id]
        chosen = [one for one in of_node if interrupt_id in {None, one.interrupt_id}]
        if not chosen:
            raise HostError("interrupt_not_found")
        return next((one for one in chosen if not one.is_resolved), chosen[-1])

    def check_pending(self, interrupt: Interrupt) -> Work:
        """Return the work that waits for an answer; raise `HostError` if none does."""
        if interrupt.is_resolved or self.is_stopped or self._work is None:
            raise HostError("interrupt_already_resolved")
        return self._work

    def resolve(self, interrupt: Interrupt, value: object, by: str) -> None:
        """Record an answer of a person; raise `Problem` if it is invalid or there is no room to continue."""
        work = self.check_pending(interrupt)
        answer = decision(interrupt.kind, value)
        work.check_answer(self, interrupt)
        self._answers[interrupt.subject_id or interrupt.interrupt_id] = answer
        redactor = work.redactor
        clean = redactor.json(value, string_max_chars=redactor.policy.limits.output_string_max_chars).value
        if answer.action is not None and isinstance(clean, dict):
            members = {name: clean[name] for name in COMMENTS if name in clean}
            self._log_approval(interrupt, answer.action, {"decidedBy": by, **members})
        names = {"nodeId": interrupt.node_id, "interruptId": interrupt.interrupt_id, "kind": interrupt.kind}
        payload = names | {"resumeValue": clean, "resolvedBy": by}
        self.log.emit("interrupt.resolved", payload, node_id=interrupt.node_id)

    def _log_approval(self, interrupt: Interrupt, action: str, members: Mapping[str, Any]) -> None:
        if interrupt.kind == APPROVAL:
            payload = {"nodeId": interrupt.node_id, "action": action, "decidedAt": self.log.now(), **members}
            self.log.emit("approval.received", payload, node_id=interrupt.node_id)

    async def _drive(self, work: Work, on_end: Callable[[HostRun], None]) -> None:
        fault: Fault | None = None
        try:
            if not self.is_stopped:
                await work.run(self)
        except RunEndedError as error:
            fault = error.fault
        except Exception as error:  # noqa: BLE001 - any error must end the run with a terminal event
            log_crash("run_crashed", error, run_id=self.run_id)
            fault = FAULTS["internal_error"]
        finally:
            with anyio.CancelScope(shield=True):
                self._end(work, self._fault if self.is_stopped else fault)
                on_end(self)
                self._work = None  # the log is kept, the request is not
                await work.close()

    def _end(self, work: Work, fault: Fault | None) -> None:
        """Write the terminal event unless there is one, even if the work does not."""
        if not self.log.state.is_over:
            work.end(self, fault)
        if not self.log.state.is_over:
            fault = fault or FAULTS["internal_error"]
            self.log.emit("run.failed", {"error": {"code": fault.code, "message": fault.message}})


class RunStore:
    """Runs of this server and their logs."""

    def __init__(self, settings: OpenWopSettings) -> None:
        self._settings = settings
        self._runs: dict[str, HostRun] = {}  # in the order of their start
        self._held_bytes = 0

    def start(
        self, workflow_id: str, caller: str, begin: Callable[[HostRun], Work], streams_max: int | None = None
    ) -> HostRun:
        """Start a run; raise `Problem` if there is no room for it, or for what `begin` creates.

        `streams_max` is the number of streams that a caller may have; as many runs again may wait for approval. One
        caller's runs leave a quarter of `max_runs` to others; none starts where they leave less of `max_log_bytes`.
        """
        settings, owner = self._settings, owner_of(caller)
        most = settings.max_runs - settings.max_runs // 4
        if streams_max is not None:
            most = min(most, 2 * streams_max)
        active = [run for run in self._runs.values() if not run.log.state.is_over and owner_of(run.caller) == owner]
        has_most = sum(run.log.held_bytes for run in active) >= settings.max_log_bytes - settings.max_log_bytes // 4
        if most <= len(active) < settings.max_runs or has_most:
            raise problem("too_many_streams")
        if not self._make_room(settings.max_runs - 1, settings.max_log_bytes - 1):
            raise problem("overloaded")
        run_id = f"run_{secrets.token_hex(16)}"
        run_log = RunLog(run_id, settings.max_run_bytes, self._hold)
        run = HostRun(run_id, workflow_id, caller, run_log, settings.approval_timeout_s)
        work = begin(run)
        self._runs[run_id] = run
        run.start(work, self._on_end)
        return run

    def get(self, run_id: str, caller: str) -> HostRun:
        """Return a run; raise `HostError` if it does not exist or belongs to another caller."""
        run = self._runs.get(run_id)
        if run is None or run.caller != caller:
            raise HostError("not_found")
        return run

    def of_token(self, token: str) -> tuple[HostRun, Interrupt]:
        """Return the run and interrupt of a token; raise `HostError` if there is none."""
        run = self._runs.get(token.partition(".")[0])
        interrupts = [] if run is None else run.log.state.interrupts
        given = token.encode(errors="replace")
        found = next((one for one in interrupts if secrets.compare_digest(one.token.encode(), given)), None)
        if run is None or found is None:
            raise HostError("interrupt_not_found")
        return run, found

    def fail_suspended(self) -> None:
        """Fail the runs that wait for an answer, because the server is shutting down."""
        for run in list(self._runs.values()):
            if run.log.state.pending:
                run.stop(FAULTS["server_shutdown"])

    async def aclose(self) -> None:
        """Fail and drop all runs."""
        runs = [*self._runs.values()]
        for run in runs:
            run.stop(FAULTS["server_shutdown"])
        with anyio.CancelScope(shield=True):
            for run in runs:
                await run.ended()
        for run_id in [*self._runs]:
            self._drop(run_id)

    def _hold(self, n_bytes: int) -> bool:
        self._held_bytes += n_bytes
        return self._make_room(self._settings.max_runs, self._settings.max_log_bytes)

    def _make_room(self, max_runs: int, max_bytes: int) -> bool:
        """Drop ended runs until no more are kept than this; return whether that is so.

        The oldest one of the caller that has the most goes first: runs, or bytes if these are too many.
        """
        while (is_over_runs := len(self._runs) > max_runs) or self._held_bytes > max_bytes:
            held: Counter[str] = Counter()
            oldest: dict[str, str] = {}
            for run_id, run in self._runs.items():
                owner = owner_of(run.caller)
                held[owner] += 1 if is_over_runs else run.log.held_bytes
                if run.log.state.is_over:
                    oldest.setdefault(owner, run_id)
            if not oldest:
                return False
            self._drop(oldest[max(oldest, key=lambda owner: held[owner])])
        return True

    def _on_end(self, run: HostRun) -> None:
        if run.run_id in self._runs:
            run.expiry = asyncio.get_running_loop().call_later(self._settings.retention_s, self._drop, run.run_id)

    def _drop(self, run_id: str) -> None:
        run = self._runs.pop(run_id)
        self._held_bytes -= run.log.held_bytes
        if run.expiry is not None:
            run.expiry.cancel()
