"""The log of one run: events as they are sent, numbered as they come, for readers that each keep their own pace.

Two write it: the host, and the dialect `openwop`, whose lines are numbered anew because the host may have said
something between them. Readers hold a position and no queue, so a slow one costs nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from projector.contracts import codec
from projector.core.context import Timestamps
from projector.openwop.event_log import Event, EventLog
from projector.openwop.run_state import RunState

OVERHEAD_BYTES: Final = 128
"""What an entry costs beside its bytes, about."""


class Entry(NamedTuple):
    """One event: its type, and the event as JSON on one line."""

    type: str
    data: bytes


class RunLog:
    """The events of one run.

    Args:
        run_id: the run.
        max_bytes: from here on it is full; what is said then is kept all the same, and it is for the run to end.
        on_bytes: is told how many bytes came into memory; gives whether there is room for more.
    """

    def __init__(self, run_id: str, max_bytes: int, on_bytes: Callable[[int], bool]) -> None:
        self.entries: list[Entry] = []
        self.state = RunState()
        self.held_bytes = 0
        self._max_bytes = max_bytes
        self._on_bytes = on_bytes
        self._has_room = True
        self._names = EventLog(f"{run_id}:host")
        self._run_id = run_id
        self._timestamps = Timestamps()
        self._changed: asyncio.Event | None = None

    @property
    def is_full(self) -> bool:
        """Whether the run has said as much as it may, or all runs together have."""
        return self.held_bytes >= self._max_bytes or not self._has_room

    def say(
        self,
        event_type: str,
        payload: Mapping[str, Any],
        *,
        node_id: str | None = None,
        causation_id: str | None = None,
    ) -> str:
        """Say an event of the host's own; give its id."""
        at = self._timestamps.write(time.time())
        event = self._names.event(event_type, payload, timestamp=at, node_id=node_id, causation_id=causation_id)
        self._keep(event | {"runId": self._run_id})
        self.wake()
        event_id: str = event["eventId"]
        return event_id

    def take(self, lines: bytes) -> None:
        """Take what a pipeline of the dialect `openwop` says: events, one a line."""
        for line in lines.splitlines():
            self._keep(codec.loads(line))
        if lines:
            self.wake()

    async def wait(self) -> None:
        """Wait until there is more than at the time of the call, or those that wait are woken."""
        if self._changed is None:
            self._changed = asyncio.Event()
        await self._changed.wait()

    def wake(self) -> None:
        """Let those that wait look again."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _keep(self, event: Event) -> None:
        event["sequence"] = len(self.entries)
        data = codec.dumps(event)
        self.entries.append(Entry(event["type"], data))
        self.state.take(event)
        cost = len(data) + OVERHEAD_BYTES
        self.held_bytes += cost
        self._has_room = self._on_bytes(cost)
