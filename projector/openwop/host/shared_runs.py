"""Runs in the store of the server: read, answered, continued and cancelled by any server that shares it.

The server that runs a run, its producer, appends every event to a log of the store. Other servers read the log into
copies, which have the same readers. A run that waits has no producer: its log is parked with what the next one needs,
and the server that gets the answer takes it and continues. If a producer dies, the store seals the log once, and every
reader computes the same end.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Protocol

import anyio

from projector.contracts import codec
from projector.core.context import Timestamps
from projector.core.faults import FAULTS, Fault
from projector.openwop.host.host_errors import HOST_LOST, INTERRUPT_TIMEOUT, HostError
from projector.openwop.host.interrupts import ANSWERS, answer_key, claim_answer
from projector.openwop.host.lost_runs import ClosingWork, closing_events
from projector.openwop.host.run_log import Interrupt, RunLog
from projector.openwop.host.runs import Answer, HostRun, Work
from projector.openwop.host.shared_quotas import Quotas
from projector.server.http.problems import Problem, problem
from projector.server.streaming.session import log_crash
from projector.store.protocol import RENEWAL_S, Batch, Store, StoreError, StoreUnavailableError, StreamHead

PREFIX: Final = "openwop:"
"""Of the IDs of logs of runs; those of other streams have none."""

BATCH_MAX: Final = 500
"""Events appended at a time."""
READ_MAX_BYTES: Final = 1_048_576
WAIT_S: Final = 20.0
"""Time limit of one wait for events of another server."""
BEAT_S: Final = 0.5
"""Seconds between two looks for answers and cancellations of other servers."""
RETRY_S: Final = 1.0
ANSWER_S: Final = 5.0
"""Seconds that a request with an answer waits until the producer has logged it."""
CLOSE_S: Final = 5.0
"""Seconds for the last events when the server stops."""
REMOTE_MAX: Final = 256
"""Copies of runs of other servers."""


class Continuing(Protocol):
    """What continues parked runs: the host."""

    def can_continue(self, run: HostRun) -> bool:
        """Return whether this server has the workflow of a run."""

    def work_of(self, run: HostRun, state: Mapping[str, Any]) -> Work:
        """Return work that continues a run; raise `Problem` if there is no room for it."""

    def restart(self, run: HostRun, work: Work, answers: Iterable[Answer]) -> None:
        """Make a run one of this server, and continue it."""


class Copy:
    """A run that another server produces, or that is parked; `is_own` if this server has run it before."""

    def __init__(self, run: HostRun, *, is_own: bool) -> None:
        self.run = run
        self.is_own = is_own
        self.has_caught_up = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def caught_up(self) -> None:
        """Wait until the events that the store had are copied; raise `HostError` if there is no such log."""
        assert self.task is not None  # noqa: S101 - set when it is made
        waiter = asyncio.create_task(self.has_caught_up.wait())
        await asyncio.wait([self.task, waiter], return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        if not self.has_caught_up.is_set():
            raise HostError("not_found")

    async def close(self) -> None:
        """Stop copying."""
        if self.task is not None and not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task])


class SharedRuns:
    """The runs of this server in the store, and copies of those of other servers.

    Args:
        store: of all servers.
        producer: ID of this process.
        max_bytes: size of the copies together, about.
        timeout_s: seconds that a run waits for an answer.
        quotas: of callers.
    """

    def __init__(self, store: Store, producer: str, max_bytes: int, timeout_s: float, quotas: Quotas) -> None:
        self.store = store
        self.quotas = quotas
        self.host: Continuing | None = None
        """Without it, this server continues no runs."""
        self._max_bytes = max_bytes
        self._producer = producer
        self._timeout_s = timeout_s
        self._runs: dict[str, HostRun] = {}
        """Runs of this server whose logs are not closed."""
        self._publishers: set[asyncio.Task[None]] = set()
        self._parking: dict[str, tuple[bytes, asyncio.Event]] = {}
        """Runs whose last events are about to be written: their states, and what is set when they are parked."""
        self._copies: OrderedDict[str, Copy] = OrderedDict()
        self._taking: set[str] = set()
        self._beat: asyncio.Task[None] | None = None

    async def open(self, run: HostRun) -> None:
        """Begin the log of a run of this server. Without the store the run is on this server only."""
        meta = codec.dumps({"workflowId": run.workflow_id})
        head = StreamHead(PREFIX + run.run_id, run.caller, self._producer, int(time.time() * 1000), meta)
        with suppress(StoreUnavailableError):
            await self.store.open(head)
            run.sharing = self
            self._produce(run)

    async def find(self, run_id: str, caller: str | None) -> HostRun:
        """Return a copy of a run of another server; raise `HostError` if this caller (None: any) has no such run."""
        copy = self._copies.get(run_id)
        if copy is None:
            try:
                status = await self.store.find(PREFIX + run_id)
            except StoreUnavailableError:
                status = None
            if status is None:
                raise HostError("not_found")
            copy = self._copies.get(run_id)  # another request may have found it meanwhile
            if copy is None:
                self._make_room()
                workflow_id = codec.loads(status.head.meta)["workflowId"]
                run = HostRun(
                    run_id, workflow_id, status.head.owner, RunLog(run_id, 0, lambda _: True), self._timeout_s
                )
                run.sharing, run.is_here = self, False
                copy = self._follow(run, is_own=False)
        self._copies.move_to_end(run_id)
        if caller is not None and copy.run.caller != caller:
            raise HostError("not_found")
        try:
            await copy.caught_up()
        except HostError:
            self._copies.pop(run_id, None)
            raise
        return copy.run

    async def claim(self, run: HostRun, interrupt: Interrupt, value: object, by: str) -> None:
        """See `Sharing`."""
        await claim_answer(self.store, run.run_id, interrupt.interrupt_id, value, by)

    def park(self, run: HostRun, state: bytes) -> None:
        """See `Sharing`."""
        self._parking[run.run_id] = state, asyncio.Event()
        run.log.wake()

    async def answered(self, run: HostRun, interrupt: Interrupt) -> None:
        """See `Sharing`."""
        await self._parked(run)
        await self._continue(run)
        with anyio.move_on_after(ANSWER_S):
            while not interrupt.is_resolved and not run.log.state.is_over:
                await run.log.wait()

    async def cancel(self, run: HostRun) -> None:
        """See `Sharing`. A run that is parked after the first look is seen by the second, or it sees the request."""
        await self._parked(run)
        try:
            if not await self._end(run, None):
                await self.store.request_cancel(PREFIX + run.run_id)
                await self._end(run, None)
        except StoreUnavailableError:
            raise problem("overloaded") from None

    def ended(self, run: HostRun) -> None:
        """See `OtherRuns`."""
        self.quotas.leave(run.caller, run.run_id)

    async def aclose(self) -> None:
        """Write the last events, and stop."""
        if self._publishers:
            await asyncio.wait(self._publishers, timeout=CLOSE_S)
        await self.abandon()
        await self.quotas.aclose()

    async def abandon(self) -> None:
        """Stop without the last events."""
        for task in [*self._publishers, *([] if self._beat is None else [self._beat])]:
            task.cancel()
        self._beat = None
        for copy in [*self._copies.values()]:
            await copy.close()

    def _make_room(self) -> None:
        """Drop copies of ended runs, the least recently used first; raise `Problem` if all are needed."""
        while True:
            foreign = {run_id: copy.run.log for run_id, copy in self._copies.items() if not copy.is_own}
            if len(foreign) < REMOTE_MAX and sum(log.held_bytes for log in foreign.values()) < self._max_bytes:
                return
            ended = next((run_id for run_id, log in foreign.items() if log.state.is_over), None)
            if ended is None:
                raise problem("overloaded")
            del self._copies[ended]

    # the log of a run

    def _produce(self, run: HostRun) -> None:
        self._runs[run.run_id] = run
        task = asyncio.create_task(self._publish(run, len(run.log.entries)), name=f"publish {run.run_id}")
        self._publishers.add(task)
        task.add_done_callback(self._publishers.discard)
        self._start_beat()

    async def _publish(self, run: HostRun, sent: int) -> None:
        """Append the events of a run; close its log with the last ones, or park it."""
        stream_id, log = PREFIX + run.run_id, run.log
        first = sent
        while True:
            frames = [entry.data for entry in log.entries[sent : sent + BATCH_MAX]]
            is_last = log.state.is_over and sent + len(frames) == len(log.entries)
            parking = self._parking.get(run.run_id)
            try:
                if is_last:
                    await self.store.seal(stream_id, first=sent + 1, frames=frames)
                    break
                if frames:
                    if await self.store.append([Batch(stream_id, sent + 1, frames)]):
                        run.stop(HOST_LOST)  # the other servers have ended it
                        break
                elif parking is not None:
                    await self.quotas.park(run.caller, run.run_id)
                    asked = [entry.data for _, entry in log.withheld]
                    if not await self.store.park(stream_id, parking[0], first=sent + 1, frames=asked):
                        log.withheld = []  # it is in the store already, or the other servers have ended the run
                    log.announce()
                    break
                else:
                    await log.wait()
            except StoreUnavailableError:
                log.announce()  # a person need not wait for the store
                await anyio.sleep(RETRY_S)
                continue
            sent += len(frames)
        self._runs.pop(run.run_id, None)
        if not run.is_here and not run.log.state.is_over:
            copy = self._follow(run, is_own=True)
            _, is_parked = self._parking.pop(run.run_id)
            is_parked.set()
            if sent > first:  # otherwise it was only given back
                await self._look_first(copy)

    async def _look_first(self, copy: Copy) -> None:
        """Look for answers and cancellations that came while a run was not parked yet."""
        with suppress(StoreUnavailableError):
            status = await self.store.find(PREFIX + copy.run.run_id)
            if status is not None and status.cancel_requested:
                await self._end(copy.run, None)
            elif not copy.run.log.state.pending:
                await self._continue(copy.run)  # it was answered before it was parked
            await self._look([copy])

    async def _parked(self, run: HostRun) -> None:
        """Wait until a run is parked that is about to be."""
        if run.run_id in self._parking:
            await self._parking[run.run_id][1].wait()

    def _follow(self, run: HostRun, *, is_own: bool) -> Copy:
        copy = self._copies[run.run_id] = Copy(run, is_own=is_own)
        copy.task = asyncio.create_task(self._read_on(copy), name=f"follow {run.run_id}")
        self._start_beat()
        return copy

    async def _read_on(self, copy: Copy) -> None:
        run, stream_id = copy.run, PREFIX + copy.run.run_id
        while True:
            try:
                if not await self._read_page(run):
                    copy.has_caught_up.set()
                    await self.store.wait(stream_id, len(run.log.entries), WAIT_S)
            except StoreUnavailableError:
                await anyio.sleep(RETRY_S)
            except StoreError:  # it was dropped
                if copy.has_caught_up.is_set():
                    _end_lost(run, int(time.time() * 1000))
            if run.log.state.is_over:
                copy.has_caught_up.set()
                run.ended_elsewhere()
                if copy.is_own:
                    self._copies.pop(run.run_id, None)
                return

    async def _read_page(self, run: HostRun) -> bool:
        """Copy the next events; return whether there were any, or the end."""
        page = await self.store.read(PREFIX + run.run_id, len(run.log.entries), READ_MAX_BYTES)
        for frame in page.frames:
            run.log.restore(codec.loads(frame))
        if page.seal is not None:
            _end_lost(run, page.seal.at_ms)
        run.log.wake()
        return bool(page.frames) or page.seal is not None

    # parked runs

    async def _take(self, run: HostRun) -> bytes | None:
        """Become the producer of a parked run, and copy the rest of its events; return its state, None if it is not."""
        copy = self._copies.get(run.run_id)
        if copy is None or run.run_id in self._taking:
            return None
        self._taking.add(run.run_id)
        try:
            state = await self.store.take(PREFIX + run.run_id)
            if state is None:
                return None
            self._runs[run.run_id] = run  # the lease is renewed from now on
            await copy.close()
            while await self._read_page(run):
                pass
        except StoreError:
            self._runs.pop(run.run_id, None)
            await copy.close()
            self._follow(run, is_own=copy.is_own)
            return None
        else:
            self._copies.pop(run.run_id, None)
            return state
        finally:
            self._taking.discard(run.run_id)

    async def _continue(self, run: HostRun) -> None:
        """Continue a parked run with the answers of the store, unless another server does."""
        if self.host is None or not self.host.can_continue(run) or (state := await self._take(run)) is None:
            return
        try:
            answers = (await self._answers([run])).get(run.run_id, [])
            work = self.host.work_of(run, codec.loads(state)["work"]) if answers or not run.log.state.pending else None
        except (Problem, StoreUnavailableError):
            work = None  # there is no room to continue: again at a later beat
        except Exception as error:  # noqa: BLE001 - the run must end
            log_crash("run_crashed", error, run_id=run.run_id)
            work = ClosingWork(FAULTS["internal_error"])
        if work is None:
            self.park(run, state)
            self._produce(run)
        else:
            self._restart(run, state, work, answers)

    async def _end(self, run: HostRun, fault: Fault | None) -> bool:
        """End a parked run, failed with a fault or else cancelled; return whether it was parked."""
        if self.host is None or (state := await self._take(run)) is None:
            return False
        self._restart(run, state, ClosingWork(fault or HOST_LOST), ())
        if fault is None:
            run.stop(None)
        return True

    def _restart(self, run: HostRun, state: bytes, work: Work, answers: Sequence[Answer]) -> None:
        assert self.host is not None  # noqa: S101 - checked by the callers
        run.restore(codec.loads(state))
        self.quotas.adopt(run.caller, run.run_id)
        self._produce(run)
        self.host.restart(run, work, answers)

    # answers and leases

    def _start_beat(self) -> None:
        if self._beat is None:
            self._beat = asyncio.create_task(self._run_beat())

    async def _run_beat(self) -> None:
        """Renew the leases of all runs, and look for answers and cancellations."""
        renewed_at = 0.0
        while True:
            await anyio.sleep(BEAT_S)
            with suppress(StoreUnavailableError):
                if time.monotonic() - renewed_at >= RENEWAL_S:
                    renewed_at = time.monotonic()
                    await self._renew(list(self._runs))
                    await self.quotas.renew([name for name, run in self._runs.items() if run.log.state.pending])
                    await self._look([*self._copies.values()])
                await self._take_answers()

    async def _renew(self, run_ids: Collection[str]) -> None:
        found = await self.store.renew([PREFIX + run_id for run_id in run_ids]) if run_ids else {}
        for stream_id, renewal in found.items():
            run = self._runs.get(stream_id.removeprefix(PREFIX))
            if run is not None and (renewal.lost is not None or renewal.cancel_requested):
                run.stop(None if renewal.lost is None else HOST_LOST)

    async def _take_answers(self) -> None:
        runs = [run for run in self._runs.values() if run.is_here and not run.is_stopped]
        for run_id, answers in (await self._answers(runs)).items():
            for interrupt, value, by in answers:
                try:
                    if not interrupt.is_resolved:
                        self._runs[run_id].resolve(interrupt, value, by)
                except Problem:
                    continue  # there is no room to continue: again at the next beat
                except Exception as error:  # noqa: BLE001 - other runs go on
                    log_crash("run_crashed", error, run_id=run_id)

    async def _look(self, copies: Sequence[Copy]) -> None:
        """Continue those parked runs that were answered, and end those that were cancelled or not answered in time."""
        waiting = [copy.run for copy in copies if copy.run.log.state.pending and not copy.run.log.state.is_over]
        answers = await self._answers(waiting)
        for run in waiting:
            if run.run_id in answers:
                await self._continue(run)
            elif time.time() - _waits_since(run) > self._timeout_s:
                await self._end(run, INTERRUPT_TIMEOUT)

    async def _answers(self, runs: Iterable[HostRun]) -> dict[str, list[Answer]]:
        """Return the answers of the store that are not in the logs, by run."""
        pending = {
            answer_key(run.run_id, interrupt.interrupt_id): (run.run_id, interrupt)
            for run in runs
            for interrupt in run.log.state.pending
        }
        values = await self.store.get_many(ANSWERS, list(pending)) if pending else []
        found: dict[str, list[Answer]] = {}
        for (run_id, interrupt), value in zip(pending.values(), values, strict=True):
            if value is not None:
                answer = codec.loads(value)
                found.setdefault(run_id, []).append((interrupt, answer["value"], answer["by"]))
        return found


def _end_lost(run: HostRun, at_ms: int) -> None:
    """End the copy of a run if its producer did not."""
    if not run.log.state.is_over:
        events = [codec.loads(entry.data) for entry in run.log.entries]
        at = Timestamps().write(at_ms / 1000)
        for event in closing_events(events, run.run_id, run.workflow_id, at, HOST_LOST):
            run.log.restore(event)
    run.log.wake()


def _waits_since(run: HostRun) -> float:
    """Return the time of the oldest pending interrupt, in seconds since 1970-01-01 UTC."""
    suspended = run.log.entries[run.log.state.pending[0].sequence]
    return datetime.fromisoformat(codec.loads(suspended.data)["timestamp"]).timestamp()
