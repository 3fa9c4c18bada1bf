"""Event log of one run, as it is sent to readers, and the state of the run that follows from it.

The host and the dialect `openwop` both write to a log, so events are renumbered when they are appended. Readers keep a
position and no queue: a slow reader needs no memory, and a late one can read from the start.

A run that any server may continue announces a question only when it is parked: a server that is killed before would
take a run with it whose question a person has seen. Until then the question and what follows are withheld.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from projector.contracts import codec
from projector.core.context import Timestamps
from projector.openwop.contract.payloads import RunStatus
from projector.openwop.event_log import NODE_TERMINALS, RUN_TERMINALS, SUSPENDED, Event, EventLog, interrupt_request

OVERHEAD_BYTES: Final = 128
"""Approximate memory of an entry in addition to its bytes."""
WITHHELD_MAX: Final = 500
"""Events that are withheld at most: they are stored in one step."""
GOES_ON: Final = RUN_TERMINALS | {"interrupt.resolved"}
"""Events that are not withheld, nor what comes before them: the run does not wait."""


@dataclass(slots=True)
class Interrupt:
    """An interrupt of a node."""

    interrupt_id: str
    node_id: str
    kind: str
    subject_id: str | None
    """Id of the tool call to approve, if it is an approval."""
    sequence: int
    """Position of its `node.suspended` event."""
    is_resolved: bool = False

    @property
    def answer_id(self) -> str:
        """Id that its answer is kept by: that of the call, else its own."""
        return self.subject_id or self.interrupt_id


@dataclass(slots=True)
class RunState:
    """State of a run, derived from its events."""

    status: RunStatus = "pending"
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
            subject_id = payload.get("data", {}).get("artifactId")
            self.interrupts.append(
                Interrupt(payload["interruptId"], payload["nodeId"], payload["kind"], subject_id, event["sequence"])
            )
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
    """Events of one run.

    `max_bytes` is a soft limit: events are still appended beyond it, and the run is expected to end itself. `on_bytes`
    is called with the bytes that each event adds and returns whether there is room for more. `sign` returns the token
    of an interrupt of the run; without it, interrupts have none.
    """

    def __init__(
        self,
        run_id: str,
        max_bytes: int,
        on_bytes: Callable[[int], bool],
        sign: Callable[[str, str], str] | None = None,
    ) -> None:
        self.entries: list[LogEntry] = []
        self.state = RunState()
        self.held_bytes = 0
        self._max_bytes = max_bytes
        self._on_bytes = on_bytes
        self._sign = sign
        self.on_entry: Callable[[str, LogEntry], None] | None = None
        """Is called with the id and the entry of each new event; copies are not new."""
        self._has_room = True
        self._own_events = EventLog(f"{run_id}:host")
        self._run_id = run_id
        self._timestamps = Timestamps()
        self._changed: asyncio.Event | None = None
        self.withholds = False
        """Whether questions are withheld until `announce`."""
        self.withheld: list[tuple[Event, LogEntry]] = []

    @property
    def asks(self) -> set[str]:
        """The nodes with a question that is not answered, or not yet announced."""
        withheld = {event["payload"]["nodeId"] for event, _ in self.withheld if event["type"] == SUSPENDED}
        return withheld | {interrupt.node_id for interrupt in self.state.pending}

    @property
    def is_full(self) -> bool:
        """Whether this log or all logs together have reached their size limit."""
        return self.held_bytes >= self._max_bytes or not self._has_room

    def emit(
        self,
        event_type: str,
        payload: Mapping[str, Any],
        *,
        node_id: str | None = None,
        causation_id: str | None = None,
    ) -> str:
        """Append an event of the host and return its id."""
        event = self._own_events.event(
            event_type, payload, timestamp=self.now(), node_id=node_id, causation_id=causation_id
        )
        self._append(event | {"runId": self._run_id})
        self.wake()
        event_id: str = event["eventId"]
        return event_id

    def now(self) -> str:
        """Return the current time, as in the events."""
        return self._timestamps.write(time.time())

    def copy(self, event: Event) -> str:
        """Append an event of another run, and return its id."""
        payload = event["payload"]
        own = {"runId": self._run_id} if isinstance(payload, dict) and "runId" in payload else {}
        self._append({**event, "runId": self._run_id, "payload": {**payload, **own}}, is_copy=True)
        event_id: str = event["eventId"]
        return event_id

    def extend(self, lines: bytes) -> None:
        """Append the output of a pipeline of the dialect `openwop`: one event per line."""
        for line in lines.splitlines():
            self._append(codec.loads(line))
        if lines:
            self.wake()

    async def wait(self) -> None:
        """Wait until events are appended or `wake` is called."""
        if self._changed is None:
            self._changed = asyncio.Event()
        await self._changed.wait()

    def restore(self, event: Event) -> None:
        """Append an event of the same run that another server has logged, as it is."""
        self._append(event, is_copy=True, is_signed=True)

    def close(self, events: Iterable[Event]) -> None:
        """Append the end of a log."""
        for event in events:
            self._append(event)
        self.wake()

    def announce(self) -> None:
        """Append what was withheld."""
        withheld, self.withheld = self.withheld, []
        for event, entry in withheld:
            self._add(event, entry)
        if withheld:
            self.wake()

    def limit(self, max_bytes: int, on_bytes: Callable[[int], bool], sign: Callable[[str, str], str]) -> None:
        """Set the arguments of the log of a run that this server did not run before; its events are counted now."""
        self._max_bytes, self._on_bytes, self._sign = max_bytes, on_bytes, sign
        self._has_room = on_bytes(self.held_bytes)

    def skip(self) -> None:
        """Use no ID again that another server may have used for an event of the host."""
        self._own_events.sequence = len(self.entries)

    def question(self, interrupt: Interrupt) -> dict[str, Any]:
        """Return what an interrupt asks: the payload of its `interrupt.requested`."""
        return interrupt_request(codec.loads(self.entries[interrupt.sequence].data)["payload"])

    def wake(self) -> None:
        """Wake all waiting tasks."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _append(self, event: Event, *, is_copy: bool = False, is_signed: bool = False) -> None:
        event["sequence"] = len(self.entries) + len(self.withheld)
        if event["type"] == SUSPENDED and self._sign is not None and not is_signed:
            event["payload"] = {**event["payload"], "token": self._sign(self._run_id, event["payload"]["interruptId"])}
        data = codec.dumps_to_keep(event)
        entry = LogEntry(event["type"], data)
        cost = len(data) + OVERHEAD_BYTES
        self.held_bytes += cost
        self._has_room = self._on_bytes(cost)
        if self.withheld or (self.withholds and entry.type == SUSPENDED and not is_copy):
            self.withheld.append((event, entry))
            if entry.type in GOES_ON or len(self.withheld) >= WITHHELD_MAX:
                self.announce()
        else:
            self._add(event, entry, is_copy=is_copy)

    def _add(self, event: Event, entry: LogEntry, *, is_copy: bool = False) -> None:
        self.entries.append(entry)
        self.state.update(event)
        if self.on_entry is not None and not is_copy:
            self.on_entry(event["eventId"], entry)
