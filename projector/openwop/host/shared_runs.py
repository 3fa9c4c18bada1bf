"""Runs in the store of the server: read, answered and cancelled by any server that shares it.

The server that runs a run, its producer, appends every event to a log of the store. Another server reads the log into
a copy (`RemoteRun`), which has the same readers as a run of its own. Answers and cancellations travel as values and
requests of the store. If the producer dies, the store seals the log once, and every reader computes the same end.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import anyio

from projector.contracts import codec
from projector.core.context import Timestamps
from projector.openwop.client import replayed
from projector.openwop.event_log import NODE_TERMINALS, Event
from projector.openwop.host.host_errors import HOST_LOST, HostError
from projector.openwop.host.interrupts import ANSWERS, answer_key, claim_answer, decision
from projector.openwop.host.run_log import Interrupt, RunLog
from projector.openwop.host.runs import HostRun
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


def lost_events(events: Sequence[Event], run_id: str, workflow_id: str, at: str) -> list[Event]:
    """Return the end of a log that its producer did not end: the same for every reader."""
    nodes: dict[str, None] = {}
    texts: dict[str, None] = {}
    for event in events:
        name, node_id = event["type"], event.get("nodeId", "")
        if name == "node.started":
            nodes[node_id] = None
        elif name in NODE_TERMINALS:
            nodes.pop(node_id, None)
        elif name == "output.chunk" and not event["payload"]["isLast"]:
            texts[node_id] = None
        elif name == "output.chunk":
            texts.pop(node_id, None)
    error = {"code": HOST_LOST.code, "message": HOST_LOST.message, "retryable": HOST_LOST.is_retryable}
    last = {"runId": run_id, "chunk": "", "isLast": True}
    rows: list[tuple[str, str, dict[str, Any]]] = [
        *([] if events else [("run.started", "", {"workflowId": workflow_id})]),
        *(("output.chunk", node_id, {"nodeId": node_id, **last}) for node_id in texts),
        *(("node.failed", node_id, {"nodeId": node_id, "error": error}) for node_id in nodes),
        ("run.failed", "", {"error": error}),
    ]
    end = replayed(events, with_deltas=True)[len(events) :]  # the ends of open reasoning blocks
    for number, (name, node_id, payload) in enumerate(rows):
        made: Event = {"eventId": f"{run_id}:lost:{number}", "runId": run_id}
        made |= {"nodeId": node_id} if node_id else {}
        end.append(made | {"type": name, "payload": payload, "timestamp": at})
    return end


class RemoteRun(HostRun):
    """A copy of a run of another server."""

    def __init__(self, run_id: str, workflow_id: str, caller: str, store: Store) -> None:
        super().__init__(run_id, workflow_id, caller, RunLog(run_id, 0, lambda _: True), 0)
        self._store = store
        self._caught_up = asyncio.Event()
        self._follower = asyncio.create_task(self._follow(), name=f"follow {run_id}")

    async def caught_up(self) -> None:
        """Wait until the events that the store had are copied; raise `Problem` if the store is away."""
        done, _ = await asyncio.wait(
            [self._follower, waiter := asyncio.create_task(self._caught_up.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        waiter.cancel()
        if self._follower in done and not self._caught_up.is_set():
            raise HostError("not_found")

    async def cancel(self) -> None:
        """Ask the producer to cancel the run."""
        await self._store.request_cancel(PREFIX + self.run_id)

    async def respond(self, interrupt: Interrupt, value: object, by: str) -> None:
        """Send an answer to the producer, and wait until it is in the log; raise `HostError` if there is one."""
        decision(interrupt.kind, value)
        await claim_answer(self._store, self.run_id, interrupt.interrupt_id, value, by)
        with anyio.move_on_after(ANSWER_S):
            while not interrupt.is_resolved and not self.log.state.is_over:
                await self.log.wait()

    def close(self) -> None:
        """Stop copying."""
        self._follower.cancel()

    async def _follow(self) -> None:
        stream_id, after = PREFIX + self.run_id, 0
        while True:
            try:
                page = await self._store.read(stream_id, after, READ_MAX_BYTES)
                if not page.frames and page.seal is None:
                    self._caught_up.set()
                    await self._store.wait(stream_id, after, WAIT_S)
                    continue
            except StoreUnavailableError:
                await anyio.sleep(RETRY_S)
                continue
            except StoreError:
                return  # it was dropped
            for frame in page.frames:
                self.log.restore(codec.loads(frame))
            after = page.last
            if page.seal is not None:
                self._end_lost(page.seal.at_ms)
                self._caught_up.set()
                return
            self.log.wake()

    def _end_lost(self, at_ms: int) -> None:
        """End the copy if the producer did not."""
        if not self.log.state.is_over:
            events = [codec.loads(entry.data) for entry in self.log.entries]
            for event in lost_events(events, self.run_id, self.workflow_id, Timestamps().write(at_ms / 1000)):
                self.log.restore(event)
        self.log.wake()


class SharedRuns:
    """The runs of this server in the store, and copies of those of other servers, of about `max_bytes` together."""

    def __init__(self, store: Store, producer: str, max_bytes: int) -> None:
        self.store = store
        self._max_bytes = max_bytes
        self._producer = producer
        self._runs: dict[str, HostRun] = {}
        """Runs of this server whose logs are not closed."""
        self._publishers: set[asyncio.Task[None]] = set()
        self._remote: OrderedDict[str, RemoteRun] = OrderedDict()
        self._beat: asyncio.Task[None] | None = None

    async def open(self, run: HostRun) -> None:
        """Begin the log of a run of this server, once. Without the store the run is on this server only."""
        if run.is_shared:
            return
        run.is_shared = True
        meta = codec.dumps({"workflowId": run.workflow_id})
        head = StreamHead(PREFIX + run.run_id, run.caller, self._producer, int(time.time() * 1000), meta)
        try:
            await self.store.open(head)
        except StoreUnavailableError:
            return
        self._runs[run.run_id] = run
        run.claims = self.store
        task = asyncio.create_task(self._publish(run), name=f"publish {run.run_id}")
        self._publishers.add(task)
        task.add_done_callback(self._publishers.discard)
        if self._beat is None:
            self._beat = asyncio.create_task(self._run_beat())

    async def find(self, run_id: str, caller: str | None) -> RemoteRun:
        """Return a copy of a run of another server; raise `HostError` if this caller (None: any) has no such run."""
        run = self._remote.get(run_id)
        if run is None:
            try:
                status = await self.store.find(PREFIX + run_id)
            except StoreUnavailableError:
                status = None
            if status is None:
                raise HostError("not_found")
            workflow_id = codec.loads(status.head.meta)["workflowId"]
            run = self._remote.get(run_id)  # another request may have found it meanwhile
            if run is None:
                self._make_room()
                run = self._remote[run_id] = RemoteRun(run_id, workflow_id, status.head.owner, self.store)
        self._remote.move_to_end(run_id)
        if caller is not None and run.caller != caller:
            raise HostError("not_found")
        try:
            await run.caught_up()
        except HostError:
            self._remote.pop(run_id, None)
            raise
        return run

    def _make_room(self) -> None:
        """Drop copies of ended runs, the least recently used first; raise `Problem` if all are needed."""
        while len(self._remote) >= REMOTE_MAX or self._held_bytes >= self._max_bytes:
            ended = next((run_id for run_id, run in self._remote.items() if run.log.state.is_over), None)
            if ended is None:
                raise problem("overloaded")
            self._remote.pop(ended).close()

    @property
    def _held_bytes(self) -> int:
        return sum(run.log.held_bytes for run in self._remote.values())

    async def aclose(self) -> None:
        """Write the last events, and stop."""
        if self._publishers:
            await asyncio.wait(self._publishers, timeout=CLOSE_S)
        await self.abandon()

    async def abandon(self) -> None:
        """Stop without the last events."""
        for task in [*self._publishers, *([] if self._beat is None else [self._beat])]:
            task.cancel()
        self._beat = None
        for run in self._remote.values():
            run.close()

    async def _publish(self, run: HostRun) -> None:
        """Append the events of a run, and close its log with the last ones."""
        stream_id, sent, log = PREFIX + run.run_id, 0, run.log
        try:
            while True:
                frames = [entry.data for entry in log.entries[sent : sent + BATCH_MAX]]
                if not frames:
                    await log.wait()
                    continue
                is_last = log.state.is_over and sent + len(frames) == len(log.entries)
                try:
                    if is_last:
                        await self.store.seal(stream_id, first=sent + 1, frames=frames)
                        return
                    if await self.store.append([Batch(stream_id, sent + 1, frames)]):
                        run.stop(HOST_LOST)  # the other servers have ended it
                        return
                except StoreUnavailableError:
                    await anyio.sleep(RETRY_S)
                    continue
                sent += len(frames)
        finally:
            self._runs.pop(run.run_id, None)

    async def _run_beat(self) -> None:
        """Renew the leases of all runs, and look for answers and cancellations."""
        renewed_at = 0.0
        while True:
            await anyio.sleep(BEAT_S)
            with suppress(StoreUnavailableError):
                if time.monotonic() - renewed_at >= RENEWAL_S and self._runs:
                    renewed_at = time.monotonic()
                    await self._renew(list(self._runs))
                await self._take_answers()

    async def _renew(self, run_ids: Collection[str]) -> None:
        found = await self.store.renew([PREFIX + run_id for run_id in run_ids])
        for stream_id, renewal in found.items():
            run = self._runs.get(stream_id.removeprefix(PREFIX))
            if run is not None and (renewal.lost is not None or renewal.cancel_requested):
                run.stop(None if renewal.lost is None else HOST_LOST)

    async def _take_answers(self) -> None:
        pending = {
            answer_key(run.run_id, interrupt.interrupt_id): (run, interrupt)
            for run in self._runs.values()
            for interrupt in run.log.state.pending
        }
        if not pending:
            return
        values = await self.store.get_many(ANSWERS, list(pending))
        for (run, interrupt), value in zip(pending.values(), values, strict=True):
            if value is not None and not interrupt.is_resolved and not run.is_stopped:
                answer: Mapping[str, Any] = codec.loads(value)
                try:
                    run.resolve(interrupt, answer["value"], answer["by"])
                except Problem:
                    continue  # there is no room to continue: again at the next beat
                except Exception as error:  # noqa: BLE001 - other runs go on
                    log_crash("run_crashed", error, run_id=run.run_id)
