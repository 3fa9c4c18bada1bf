"""Event log of one run in memory, the state of the run that follows from it, and its readers.

The host and the dialect `openwop` both write to a log, so events are renumbered when they are appended. Readers keep a
position and no queue: a slow reader needs no memory, and a late one can read from the start. An event is in the log
before any reader gets it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import anyio

from projector.contracts import codec
from projector.core.context import Timestamps
from projector.core.sse import encode_comment, encode_sse
from projector.openwop.event_log import NODE_TERMINALS, RUN_TERMINALS, SUSPENDED, Event, EventLog, interrupt_request
from projector.openwop.requests import Mode

PIECE_BYTES: Final = 65_536
"""Bytes that a reader is sent at a time, exceeded by one event at most: as many as the server buffers."""
OVERHEAD_BYTES: Final = 128
"""Approximate memory of an entry in addition to its bytes."""


@dataclass(slots=True)
class Interrupt:
    """An interrupt of a node."""

    interrupt_id: str
    node_id: str
    kind: str
    subject_id: str | None
    """Id of the tool call to approve, if it is an approval."""
    question: Event
    """What it asks: the payload of its `interrupt.requested`."""
    token: str
    """Answers it without authentication."""
    is_resolved: bool = False


@dataclass(slots=True)
class RunState:
    """State of a run, derived from its events."""

    status: str = "pending"
    node_id: str | None = None
    """Open node that started or was suspended last."""
    error: Mapping[str, Any] | None = None
    started_at: str | None = None
    ended_at: str | None = None
    interrupts: list[Interrupt] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.ended_at is not None

    @property
    def pending(self) -> list[Interrupt]:
        """Interrupts without an answer."""
        return [interrupt for interrupt in self.interrupts if not interrupt.is_resolved]

    def update(self, event: Event) -> None:
        """Apply the next event."""
        name, payload = event["type"], event["payload"]
        if name == "run.started":
            self.status = "running"
            self.started_at = event["timestamp"]
        elif name in RUN_TERMINALS:
            self.status = name.removeprefix("run.")
            self.error = payload.get("error")
            self.ended_at = event["timestamp"]
            self.node_id = None
        elif name == "node.started":
            self.node_id = event["nodeId"]
        elif name in NODE_TERMINALS and self.node_id == event["nodeId"]:
            self.node_id = None
        elif name == SUSPENDED:
            names = (payload["interruptId"], payload["nodeId"], payload["kind"])
            subject_id = payload.get("data", {}).get("artifactId")
            self.interrupts.append(Interrupt(*names, subject_id, interrupt_request(payload), payload["token"]))
            self.node_id = payload["nodeId"]
            self.status = "waiting-approval"
        elif name == "interrupt.resolved":
            for interrupt in self.interrupts:
                interrupt.is_resolved |= interrupt.interrupt_id == payload["interruptId"]
            self.status = "waiting-approval" if self.pending else "running"


class LogEntry(NamedTuple):
    """One event: its type, and its JSON on one line."""

    type: str
    data: bytes


class RunLog:
    """Events of one run; each suspension gets a token.

    Events are still appended beyond `max_bytes`; the run is expected to end itself. `on_bytes` is called with the bytes
    that each event adds and returns whether there is room for more.
    """

    def __init__(self, run_id: str, max_bytes: int, on_bytes: Callable[[int], bool]) -> None:
        self.entries: list[LogEntry] = []
        self.state = RunState()
        self.held_bytes = 0
        self._max_bytes = max_bytes
        self._on_bytes = on_bytes
        self._has_room = True
        self._own_events = EventLog(f"{run_id}:host")
        self._run_id = run_id
        self._timestamps = Timestamps()
        self._changed = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether this log or all logs together have reached their size limit."""
        return self.held_bytes >= self._max_bytes or not self._has_room

    def emit(self, event_type: str, payload: Mapping[str, Any], **members: Any) -> str:
        """Append an event of the host and return its id; `members` are those of `EventLog.event`."""
        event = self._own_events.event(event_type, payload, timestamp=self.now(), **members)
        self._append(event | {"runId": self._run_id})
        self.wake()
        return str(event["eventId"])

    def now(self) -> str:
        """Return the current time, as in the events."""
        return self._timestamps.write(time.time())

    def extend(self, lines: bytes) -> None:
        """Append the output of a pipeline of the dialect `openwop`: one event per line."""
        for line in lines.splitlines():
            self._append(codec.loads(line))
        if lines:
            self.wake()

    async def wait(self) -> None:
        """Wait until events are appended or `wake` is called."""
        await self._changed.wait()

    def wake(self) -> None:
        """Wake all waiting tasks."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _append(self, event: Event) -> None:
        event["sequence"] = len(self.entries)
        if event["type"] == SUSPENDED:
            event["payload"] = {**event["payload"], "token": f"{self._run_id}.{secrets.token_urlsafe()}"}
        data = codec.to_keep(codec.dumps(event))
        self.held_bytes += len(data) + OVERHEAD_BYTES
        self._has_room = self._on_bytes(len(data) + OVERHEAD_BYTES)
        self.entries.append(LogEntry(event["type"], data))
        self.state.update(event)


# readers: no piece is larger than the write buffer of the server plus one event, so a stalled one needs little memory

_OUTPUT: Final = {"output.chunk", "public-sse.message.citation", "public-sse.chunk.delta", "public-sse.chunk.done"}


def modes_of(event_type: str) -> set[Mode]:
    """Return the stream modes that include an event.

    The protocol assigns no mode to `agent.*`; its clients request `updates`.
    """
    if event_type in RUN_TERMINALS or event_type == SUSPENDED:
        return {"updates", "messages", "debug"}
    return {"messages", "debug"} if event_type in _OUTPUT else {"updates", "debug"}


async def document(log: RunLog, begin: int = 0, end: bytes = b"]}") -> AsyncGenerator[bytes, None]:
    """Yield a JSON document with the events from `begin` that the log has now, which ends with `end`."""
    until, separator = len(log.entries), b""
    yield b'{"events":['
    while begin < until:
        portion = _portion(log.entries, begin, until)
        begin += len(portion)
        yield separator + b",".join([entry.data for entry in portion])
        separator = b","
    yield end


async def poll(log: RunLog, last_sequence: int, wait_s: float) -> AsyncGenerator[bytes, None]:
    """Wait for events after `last_sequence`, and yield them and whether the run has ended as one JSON document."""
    with anyio.move_on_after(wait_s):
        while len(log.entries) <= last_sequence + 1 and not log.state.is_over:
            await log.wait()
    end = b'],"isComplete":true}' if log.state.is_over else b'],"isComplete":false}'
    async for piece in document(log, last_sequence + 1, end):
        yield piece


async def stream(
    log: RunLog, modes: Collection[Mode], last_sequence: int, heartbeat_s: float
) -> AsyncGenerator[bytes, None]:
    """Yield the events after `last_sequence` as server-sent events until the run ends, and a comment after a pause.

    A position beyond the log counts as its end; of an ended run, the terminal event is sent again.
    """
    position = last_sequence + 1
    if position > len(log.entries):
        position = len(log.entries) - log.state.is_over
    beats_at = time.monotonic() + heartbeat_s
    while True:
        entries = _portion(log.entries, position, len(log.entries))
        shown = [
            b"id: %d\n" % at + encode_sse(entry.data, entry.type)
            for at, entry in enumerate(entries, position)
            if not modes_of(entry.type).isdisjoint(modes)
        ]
        position += len(entries)
        if not shown and not entries:
            if log.state.is_over:
                return
            with anyio.move_on_after(beats_at - time.monotonic()):
                await log.wait()
        if shown or time.monotonic() >= beats_at:
            yield b"".join(shown) or encode_comment("keepalive")
            beats_at = time.monotonic() + heartbeat_s


def _portion(entries: Sequence[LogEntry], begin: int, until: int) -> Sequence[LogEntry]:
    """Return the next entries up to the size of one send, exceeded by the last entry at most."""
    end, n_bytes = begin, 0
    while end < until and n_bytes < PIECE_BYTES:
        n_bytes += len(entries[end].data)
        end += 1
    return entries[begin:end]
