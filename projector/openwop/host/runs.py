"""Runs of the host: `HostRun`, one run in a task of its own, and `RunStore`, all runs of one server process.

A run continues whether or not it has readers, and its log has exactly one terminal event, at its end.
"""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

import anyio

from projector.contracts import codec
from projector.core.faults import FAULTS, Fault
from projector.openwop.event_log import APPROVAL
from projector.openwop.host.host_errors import INTERRUPT_TIMEOUT, HostError
from projector.openwop.host.interrupts import COMMENTS, Decision, InterruptTokens, decision
from projector.openwop.host.run_log import Interrupt, RunLog
from projector.openwop.host.settings import OpenWopSettings
from projector.redaction.redactor import Redactor
from projector.server.control.rate_limits import Admission, owner_of
from projector.server.http.problems import Problem, problem
from projector.server.streaming.session import log_crash
from projector.store.protocol import StoreUnavailableError

Answer: TypeAlias = tuple[Interrupt, object, str]
"""An interrupt, the value that answers it, and who gave it."""
Answers: TypeAlias = dict[str, Decision]
"""Answers to interrupts, by the id of the tool call to approve or of the interrupt."""


class RunFailedError(Exception):
    """A run cannot continue."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.code)
        self.fault = fault


class RunStoppedError(Exception):
    """A run was stopped."""


class RunParkedError(Exception):
    """All of a run waits for answers, and any server may continue it."""


class Sharing(Protocol):
    """What shares a run with other servers."""

    async def claim(self, run: HostRun, interrupt: Interrupt, value: object, by: str) -> None:
        """Store an answer; raise `HostError` if another one was stored before."""

    def park(self, run: HostRun, state: bytes) -> None:
        """Let the server that gets an answer continue a run, and announce its questions."""

    async def answered(self, run: HostRun, interrupt: Interrupt) -> None:
        """Continue a run that is not here after an answer, or wait until another server does."""

    async def cancel(self, run: HostRun) -> None:
        """Cancel a run that is not here."""


class Work(ABC):
    """The work of a run; `redactor` cleans what people add to its log."""

    redactor: Redactor

    def record(self) -> Mapping[str, Any]:
        """Return what another process needs to continue, as JSON; called while all of the work waits for answers."""
        raise NotImplementedError

    def use(self, admission: Admission) -> None:  # noqa: B027 - work without tokens has nothing to count
        """Count the tokens of the work, and settle them when it is closed."""

    @abstractmethod
    async def run(self, run: HostRun) -> None:
        """Write all events; raise `RunFailedError` or `RunStoppedError` if there will be no terminal event."""

    @abstractmethod
    def halt(self) -> None:
        """Read no more input; `run` returns soon, after writing what has been read."""

    @abstractmethod
    def end(self, run: HostRun, fault: Fault | None) -> None:
        """Write the terminal event of a stopped run: failed with a fault, or cancelled if it is None."""

    @abstractmethod
    def check_answer(self, run: HostRun, interrupt: Interrupt) -> None:
        """Prepare for the answer to an interrupt; raise `Problem` if it cannot be used."""

    @abstractmethod
    async def close(self) -> None:
        """Release resources and report the outcome."""


class HostRun:
    """One run of a caller."""

    def __init__(self, run_id: str, workflow_id: str, caller: str, run_log: RunLog, approval_timeout_s: float) -> None:
        self.run_id = run_id
        self.workflow_id = workflow_id
        self.caller = caller
        self.log = run_log
        self._approval_timeout_s = approval_timeout_s
        self._answers: Answers = {}
        self.key: IdempotencyKey | None = None
        """Key of the request that started the run."""
        self.callback_url: str | None = None
        self.is_stopped = False
        self.is_here = True
        """Whether this server runs it: not a run of another server, and not one that is parked."""
        self.sharing: Sharing | None = None
        """None if no other server knows the run."""
        self._fault: Fault | None = None
        self._work: Work | None = None
        self._task: asyncio.Task[None] | None = None
        self._on_end: Callable[[HostRun], None] = lambda _: None

    def restore(self, state: Mapping[str, Any]) -> None:
        """Set what the run had when it was parked."""
        self.callback_url = state["callbackUrl"]
        self._answers = {name: Decision(*answer) for name, answer in state["answers"].items()}

    def start(self, work: Work, on_end: Callable[[HostRun], None], answers: Iterable[Answer] = ()) -> None:
        """Start the run in a task of its own, or continue it with answers."""
        self._work, self._on_end, self.is_here = work, on_end, True
        self.log.withholds = self.sharing is not None
        self.log.skip()
        try:
            for answer in answers:
                self.resolve(*answer)
        except Problem:  # the provider does not wait for it any more
            self.stop(INTERRUPT_TIMEOUT)
        self._task = asyncio.create_task(self._drive(work), name=self.run_id)

    def stop(self, fault: Fault | None) -> None:
        """End the run: with `run.failed` for a fault, with `run.cancelled` for None. Idempotent."""
        if self.is_here and not self.is_stopped and not self.log.state.is_over:
            self.is_stopped = True
            self._fault = fault
            self.log.wake()
            if self._work is not None:
                self._work.halt()

    async def ended(self) -> None:
        """Wait for the end of the run."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def cancel(self) -> None:
        """Cancel the run. Idempotent."""
        if self.sharing is not None and not self.is_here:
            await self.sharing.cancel(self)
        else:
            self.stop(None)

    async def respond(self, interrupt: Interrupt, value: object, by: str) -> None:
        """Record an answer of a person, once among all servers; raise `Problem` as `resolve` does."""
        if self.sharing is not None:
            decision(interrupt.kind, value)
            if self.is_here:
                self.check(interrupt, value)
            try:
                await self.sharing.claim(self, interrupt, value, by)
            except StoreUnavailableError:
                if not self.is_here:
                    raise problem("overloaded") from None
            if not self.is_here:  # it may have been parked meanwhile
                await self.sharing.answered(self, interrupt)
                return
            if interrupt.is_resolved:
                return  # the claim was seen before this task went on
            if self._work is None:
                raise HostError("interrupt_already_resolved")  # the run has ended meanwhile
        self.resolve(interrupt, value, by)

    @property
    def can_park(self) -> bool:
        """Whether the run waits, and any server may continue it."""
        return self.sharing is not None and bool(self.log.asks) and not self.is_stopped

    def park(self) -> None:
        """Stop here while the run waits, if any server may continue it: raise `RunParkedError`."""
        if self.can_park:
            raise RunParkedError

    def ended_elsewhere(self) -> None:
        """Record that another server has ended the run."""
        self._on_end(self)

    def log_timeouts(self, node_id: str | None = None) -> None:
        """Log that nobody answered in time."""
        for interrupt in self._pending_of(node_id):
            self._log_approval(interrupt, "timeout", {})

    @property
    def is_suspended(self) -> bool:
        """Whether an interrupt is pending, or answered but not yet processed."""
        return bool(self.log.asks or self._answers)

    async def answers(self, node_id: str | None = None, is_left: Callable[[], bool] = lambda: False) -> Answers:
        """Wait for and return the answers to all pending interrupts, or to those of a node; a timeout fails the run.

        Nothing is returned if the work is left to another server meanwhile.
        """
        if not is_left():
            self.log.announce()  # other work of the run goes on, or it cannot be parked
        try:
            with anyio.fail_after(self._approval_timeout_s):
                while self._pending_of(node_id) and not self.is_stopped and not is_left():
                    await self.log.wait()
        except TimeoutError:
            self.log_timeouts(node_id)
            raise RunFailedError(INTERRUPT_TIMEOUT) from None
        if self.is_stopped:
            raise RunStoppedError
        if is_left():
            return {}
        names = {one.answer_id for one in self.log.state.interrupts if node_id in {None, one.node_id}}
        return {name: self._answers.pop(name) for name in list(self._answers) if name in names}

    def _pending_of(self, node_id: str | None) -> list[Interrupt]:
        return [one for one in self.log.state.pending if node_id in {None, one.node_id}]

    @property
    def is_cancelled(self) -> bool:
        """Whether the run was cancelled, or is about to be."""
        return self.log.state.status == "cancelled" or (self.is_stopped and self._fault is None)

    def check(self, interrupt: Interrupt, value: object) -> Decision:
        """Return the decision of an answer; raise `Problem` if it is invalid or there is no room to continue."""
        assert self._work is not None  # noqa: S101 - only started runs have interrupts
        answer = decision(interrupt.kind, value)
        self._work.check_answer(self, interrupt)
        return answer

    def resolve(self, interrupt: Interrupt, value: object, by: str) -> None:
        """Record an answer of a person; raise `Problem` if it is invalid or there is no room to continue."""
        answer = self.check(interrupt, value)
        assert self._work is not None  # noqa: S101 - only started runs have interrupts
        self._answers[interrupt.answer_id] = answer
        redactor = self._work.redactor
        clean = redactor.json(value, string_max_chars=redactor.policy.limits.output_string_max_chars).value
        if answer.action is not None and isinstance(clean, dict):
            members = {name: clean[name] for name in COMMENTS if name in clean}
            self._log_approval(interrupt, answer.action, {"decidedBy": by, **members})
        named = {"nodeId": interrupt.node_id, "interruptId": interrupt.interrupt_id, "kind": interrupt.kind}
        self.log.emit(
            "interrupt.resolved", {**named, "resumeValue": clean, "resolvedBy": by}, node_id=interrupt.node_id
        )

    def _log_approval(self, interrupt: Interrupt, action: str, members: Mapping[str, Any]) -> None:
        if interrupt.kind == APPROVAL:
            payload = {"nodeId": interrupt.node_id, "action": action, "decidedAt": self.log.now(), **members}
            self.log.emit("approval.received", payload, node_id=interrupt.node_id)

    async def _drive(self, work: Work) -> None:
        fault: Fault | None = None
        state: bytes | None = None
        try:
            if not self.is_stopped:
                state = await self._work_on(work)
        except RunStoppedError:
            pass
        except RunFailedError as error:
            fault = error.fault
        except Exception as error:  # noqa: BLE001 - any error must end the run with a terminal event
            log_crash("run_crashed", error, run_id=self.run_id)
            fault = FAULTS["internal_error"]
        finally:
            with anyio.CancelScope(shield=True):
                if state is not None and self.sharing is not None:
                    self.is_here = False
                    self.sharing.park(self, state)
                else:
                    self._end(work, self._fault if self.is_stopped else fault)
                    self._on_end(self)
                self._work = None  # the log is kept, the request is not
                await work.close()

    async def _work_on(self, work: Work) -> bytes | None:
        """Do the work; if it waits and any server may continue it, return what that needs."""
        try:
            await work.run(self)
        except RunParkedError:
            if self.is_stopped:
                raise RunStoppedError from None
            answers = {name: answer[:3] for name, answer in self._answers.items()}
            return codec.dumps({"callbackUrl": self.callback_url, "answers": answers, "work": work.record()})
        return None

    def _end(self, work: Work, fault: Fault | None) -> None:
        """Write the terminal event unless there is one, even if the work does not."""
        if not self.log.state.is_over:
            work.end(self, fault)
        if not self.log.state.is_over:
            fault = fault or FAULTS["internal_error"]
            self.log.emit("run.failed", {"error": {"code": fault.code, "message": fault.message}})


class OtherRuns(Protocol):
    """Runs of other servers."""

    async def find(self, run_id: str, caller: str | None) -> HostRun:
        """Return a run; raise `HostError` if this caller (None: any) has no such run."""

    def ended(self, run: HostRun) -> None:
        """Record that a run of this server has ended."""


class IdempotencyKey(NamedTuple):
    """`Idempotency-Key` of a caller, and the digest of its request."""

    caller: str
    name: str
    digest: bytes


class RunStore:
    """Runs of this server and their logs; `shared` has those of other servers."""

    def __init__(self, settings: OpenWopSettings, shared: OtherRuns | None = None) -> None:
        self._settings = settings
        self.shared = shared
        self._runs: dict[str, HostRun] = {}  # in the order of their start
        self._by_key: dict[tuple[str, str], HostRun] = {}
        """Caller and name of a key -> run."""
        secret = settings.token_secret
        self.tokens = InterruptTokens(secrets.token_bytes() if secret is None else secret.get_secret_value().encode())
        self._held_bytes = 0
        self._expiry: dict[str, asyncio.TimerHandle] = {}

    def create(self, run_id: str, workflow_id: str, caller: str) -> HostRun:
        """Create a run without starting it; raise `Problem` if its caller has too many, or if there is no room."""
        self._check_quota(caller)
        if not self._make_room(self._is_full):
            raise problem("overloaded")
        run_log = RunLog(run_id, self._settings.max_run_bytes, self._hold, self.tokens.sign)
        run = HostRun(run_id, workflow_id, caller, run_log, self._settings.approval_timeout_s)
        self._runs[run_id] = run
        return run

    def find(self, key: IdempotencyKey) -> HostRun | None:
        """Return the run that this key has started, if any; raise `HostError` if the key belongs to another request."""
        run = self._by_key.get((key.caller, key.name))
        if run is not None and run.key != key:
            raise HostError("idempotency_key_mismatch")
        return run

    def register(self, run: HostRun, key: IdempotencyKey) -> None:
        """Record the key of the request that started a run."""
        run.key = key
        self._by_key[key.caller, key.name] = run

    def start(self, run: HostRun, work: Work, answers: Iterable[Answer] = ()) -> None:
        """Start or continue a run; its log is dropped some time after its end."""
        run.start(work, self._on_end, answers)

    def adopt(self, run: HostRun) -> None:
        """Count a run that was parked, perhaps by another server, as one of this server."""
        if run.run_id not in self._runs:
            self._runs[run.run_id] = run
            run.log.limit(self._settings.max_run_bytes, self._hold, self.tokens.sign)

    def discard(self, run: HostRun) -> None:
        """Drop a run that could not start."""
        self._drop(run.run_id)

    async def get(self, run_id: str, caller: str) -> HostRun:
        """Return a run; raise `HostError` if it does not exist or belongs to another caller."""
        run = self._runs.get(run_id)
        if run is None and self.shared is not None:
            return await self.shared.find(run_id, caller)
        if run is None or run.caller != caller:
            raise HostError("not_found")
        return run

    async def of_token(self, token: str) -> tuple[HostRun, Interrupt]:
        """Return the run and interrupt of a token; raise `HostError` if there is none."""
        run_id, interrupt_id = self.tokens.read(token)
        run = self._runs.get(run_id)
        if run is None and self.shared is not None:
            run = await self.shared.find(run_id, None)
        interrupts = [] if run is None else run.log.state.interrupts
        found = next((one for one in interrupts if one.interrupt_id == interrupt_id), None)
        if run is None or found is None:
            raise HostError("interrupt_not_found")
        return run, found

    def fail_suspended(self) -> None:
        """Fail the runs that wait for an answer, because the server is shutting down."""
        for run in list(self._runs.values()):
            if run.log.state.pending:  # those that any server may continue are not here
                run.stop(FAULTS["server_shutdown"])

    async def aclose(self) -> None:
        """Fail and drop all runs."""
        for run in list(self._runs.values()):
            run.stop(FAULTS["server_shutdown"])
        with anyio.CancelScope(shield=True):
            for run in list(self._runs.values()):
                await run.ended()
        for run_id in list(self._runs):
            self._drop(run_id)

    def _check_quota(self, caller: str) -> None:
        owner, settings = owner_of(caller), self._settings
        active = [run for run in self._runs.values() if owner_of(run.caller) == owner and not run.log.state.is_over]
        if len(active) >= settings.max_caller_runs:
            raise HostError("rate_limited", "Too many active runs of this caller.")
        if sum(1 for run in active if run.log.state.pending) >= settings.max_caller_waiting:
            raise HostError("rate_limited", "Too many runs of this caller wait for approval.")

    def _hold(self, n_bytes: int) -> bool:
        self._held_bytes += n_bytes
        return self._make_room(lambda: self._held_bytes > self._settings.max_log_bytes)

    def _is_full(self) -> bool:
        return len(self._runs) >= self._settings.max_runs or self._held_bytes >= self._settings.max_log_bytes

    def _make_room(self, is_full: Callable[[], bool]) -> bool:
        """Drop the oldest ended runs until there is room; return whether there is."""
        while is_full():
            ended = next((run_id for run_id, run in self._runs.items() if run.log.state.is_over), None)
            if ended is None:
                return False
            self._drop(ended)
        return True

    def _on_end(self, run: HostRun) -> None:
        if self.shared is not None:
            self.shared.ended(run)
        if run.run_id in self._runs:
            loop = asyncio.get_running_loop()
            self._expiry[run.run_id] = loop.call_later(self._settings.retention_s, self._drop, run.run_id)

    def _drop(self, run_id: str) -> None:
        timer = self._expiry.pop(run_id, None)
        if timer is not None:
            timer.cancel()
        run = self._runs.pop(run_id)
        if run.key is not None:
            del self._by_key[run.key.caller, run.key.name]
        self._held_bytes -= run.log.held_bytes
