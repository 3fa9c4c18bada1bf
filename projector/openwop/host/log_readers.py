"""Readers of a run log: the whole log, a poll, an event stream. Each has its own pace and none slows the run.

Output is produced only as fast as the client reads it: no send is larger than the server's write buffer plus one event,
so a stalled reader needs little memory even for a large log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import anyio
from starlette.types import Message, Receive, Scope, Send

from projector.contracts import codec
from projector.core.sse import encode_comment, encode_sse
from projector.openwop.event_log import NODE_TERMINALS, RUN_TERMINALS
from projector.openwop.host.run_log import LogEntry, RunLog
from projector.openwop.host.run_requests import Mode
from projector.server.http.problems import request_id
from projector.server.streaming.response_writer import HEADERS, SEND_MAX_BYTES

_UPDATES: Final[frozenset[Mode]] = frozenset({"updates"})
_MESSAGES: Final[frozenset[Mode]] = frozenset({"messages"})

URGENT: Final = RUN_TERMINALS | {"node.suspended"}
"""Events that all modes include."""
BATCH_ENDS: Final = URGENT | {"interrupt.requested"}
"""Events that end a batch at once."""

MODES_BY_TYPE: Final[dict[str, frozenset[Mode]]] = {
    **dict.fromkeys(URGENT, _UPDATES | _MESSAGES),
    **dict.fromkeys(("run.started", "provider.usage", "replay.diverged"), _UPDATES),
    **dict.fromkeys(("interrupt.requested", "approval.received", "interrupt.resolved"), _UPDATES),
    **dict.fromkeys(("node.started", "node.resumed", *NODE_TERMINALS), _UPDATES),
    **dict.fromkeys(("agent.reasoning.delta", "agent.reasoned", "agent.handoff", "agent.decided"), _UPDATES),
    **dict.fromkeys(("agent.toolCalled", "agent.toolReturned"), _UPDATES),
    **dict.fromkeys(("output.chunk", "public-sse.message.citation"), _MESSAGES),
    **dict.fromkeys(("public-sse.chunk.delta", "public-sse.chunk.done"), _MESSAGES),
}
"""Event type -> stream modes that include it; `debug` includes all. The protocol assigns no mode to `agent.*`; its
clients request `updates`."""

SNAPSHOT: Final = "state.snapshot"
"""Type of the events of the mode `values`: their payload is the state of the run."""

_BEGIN: Final = b'{"events":['


class LogDocument:
    """Events of a run after `last_sequence` (-1: all) as one JSON document; `end` is the JSON after the events."""

    def __init__(self, log: RunLog, last_sequence: int, end: bytes, *, client_stall_timeout_s: float) -> None:
        self._entries = log.entries
        self._position = last_sequence + 1
        self._until = max(len(log.entries), self._position)
        self._end = end
        self._stall_timeout_s = client_stall_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        del receive  # `send` raises when the client has disconnected
        head = {"type": "http.response.start", "status": 200, "headers": self._head(request_id(scope))}
        is_connected = await _send_within(head, send, self._stall_timeout_s)
        data, is_last = _BEGIN, False
        while is_connected and not is_last:
            portion = _portion(self._entries, self._position, self._until)
            self._position += len(portion)
            is_last = self._position >= self._until
            data += b",".join([entry.data for entry in portion]) + (self._end if is_last else b",")
            body = {"type": "http.response.body", "body": data, "more_body": not is_last}
            is_connected = await _send_within(body, send, self._stall_timeout_s)
            data = b""

    def _head(self, request: str) -> list[tuple[bytes, bytes]]:
        entries = self._entries[self._position : self._until]
        n_bytes = sum([len(entry.data) for entry in entries]) + max(len(entries) - 1, 0)  # separating commas
        return [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % (len(_BEGIN) + n_bytes + len(self._end))),
            (b"cache-control", b"no-store"),
            (b"x-request-id", request.encode()),
        ]


async def poll(
    log: RunLog, last_sequence: int, wait_s: float, client_stall_timeout_s: float, receive: Receive
) -> LogDocument:
    """Wait for new events and return the response with them; it is empty after the timeout or a disconnect."""
    async with anyio.create_task_group() as reader:
        reader.start_soon(_watch_disconnect, receive, reader.cancel_scope)
        with anyio.move_on_after(wait_s):
            while len(log.entries) <= last_sequence + 1 and not log.state.is_over:
                await log.wait()
        reader.cancel_scope.cancel()
    end = b'],"isComplete":true}' if log.state.is_over else b'],"isComplete":false}'
    return LogDocument(log, last_sequence, end, client_stall_timeout_s=client_stall_timeout_s)


class EventStream:
    """Events of a run after `last_sequence` as server-sent events, until the run ends.

    Events are collected into batches for `buffer_s` seconds; 0 disables batches.
    """

    def __init__(
        self,
        log: RunLog,
        modes: Collection[Mode],
        *,
        buffer_s: float,
        last_sequence: int,
        heartbeat_s: float,
        client_stall_timeout_s: float,
    ) -> None:
        self._log = log
        self._modes = frozenset(modes)
        self._buffer_s = buffer_s
        self._position = last_sequence + 1
        self._heartbeat_s = heartbeat_s
        self._stall_timeout_s = client_stall_timeout_s
        self._new: list[tuple[int, LogEntry]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        async with anyio.create_task_group() as reader:
            reader.start_soon(_watch_disconnect, receive, reader.cancel_scope)
            head = [*HEADERS, (b"x-request-id", request_id(scope).encode())]
            await self._send({"type": "http.response.start", "status": 200, "headers": head}, send, reader)
            while (data := await self._next()) is not None:
                await self._send({"type": "http.response.body", "body": data, "more_body": True}, send, reader)
            await self._send({"type": "http.response.body", "body": b"", "more_body": False}, send, reader)
            reader.cancel_scope.cancel()

    async def _send(self, message: Message, send: Send, reader: anyio.abc.TaskGroup) -> None:
        if not await _send_within(message, send, self._stall_timeout_s):
            reader.cancel_scope.cancel()
        await anyio.lowlevel.checkpoint()  # `send` does not suspend after a disconnect

    async def _next(self) -> bytes | None:
        """Return the next data to send, a comment after a pause, None at the end."""
        beats_at = time.monotonic() + self._heartbeat_s
        while (data := self._take()) is None:
            if self._position < len(self._log.entries):
                continue  # no mode includes what was read
            if self._log.state.is_over:
                return None
            with anyio.move_on_after(beats_at - time.monotonic()) as silence:
                await self._log.wait()
            if silence.cancelled_caught:
                return encode_comment("keepalive")
        return await self._batch() if self._buffer_s else data

    def _take(self) -> bytes | None:
        """Return the next events; with batches, begin one."""
        self._new = self._read()
        if not self._new:
            return None
        return b"" if self._buffer_s else b"".join([_event(one.type, at, one.data) for at, one in self._new])

    async def _batch(self) -> bytes:
        new = self._new
        await self._fill(new)
        data = b"[" + b",".join([entry.data for _, entry in new]) + b"]"
        return _event("batch", new[-1][0], data)

    async def _fill(self, batch: list[tuple[int, LogEntry]]) -> None:
        """Collect events until the time is over or the batch is large or urgent."""
        with anyio.move_on_after(self._buffer_s):
            while not self._log.state.is_over and not _is_due(batch):
                if self._position >= len(self._log.entries):
                    await self._log.wait()
                batch += self._read()

    def _read(self) -> list[tuple[int, LogEntry]]:
        """Return the next events of the modes, with their sequence numbers."""
        begin = self._position
        entries = _portion(self._log.entries, begin, len(self._log.entries))
        self._position += len(entries)
        return [(begin + at, entry) for at, entry in enumerate(entries) if self._includes(entry)]

    def _includes(self, entry: LogEntry) -> bool:
        return "debug" in self._modes or not self._modes.isdisjoint(MODES_BY_TYPE.get(entry.type, ()))


class SnapshotStream(EventStream):
    """State of a run as server-sent events: after each change, until the run ends (`streamMode=values`).

    A reader that is slow gets the latest state only.
    """

    def __init__(self, log: RunLog, snapshot: Callable[[], dict[str, Any]], **options: Any) -> None:
        super().__init__(log, frozenset(), **options)
        self._snapshot = snapshot
        self._last: dict[str, Any] = {}

    def _take(self) -> bytes | None:
        """Return the state if it has changed."""
        if self._position >= len(self._log.entries):
            return None
        self._position = len(self._log.entries)
        value, last = self._snapshot(), codec.loads(self._log.entries[-1].data)
        if value == self._last:
            return None
        self._last = value
        sequence = self._position - 1
        event = {name: last[name] for name in ("eventId", "runId", "timestamp", "sequence")}
        return _event(SNAPSHOT, sequence, codec.dumps({**event, "type": SNAPSHOT, "payload": value}))


def _portion(entries: Sequence[LogEntry], begin: int, until: int) -> Sequence[LogEntry]:
    """Return the next entries up to the size of one send, exceeded by the last entry at most."""
    end, n_bytes = begin, 0
    while end < until and n_bytes < SEND_MAX_BYTES:
        n_bytes += len(entries[end].data)
        end += 1
    return entries[begin:end]


async def _send_within(message: Message, send: Send, within_s: float) -> bool:
    """Send a message; return whether it was sent in time, before the client disconnected."""
    is_sent = False
    try:
        with anyio.move_on_after(within_s):
            await send(message)
            is_sent = True
    except OSError:  # raised by ASGI servers after a disconnect
        pass
    return is_sent


def _is_due(batch: list[tuple[int, LogEntry]]) -> bool:
    is_large = sum([len(entry.data) for _, entry in batch]) >= SEND_MAX_BYTES
    return is_large or any(entry.type in BATCH_ENDS for _, entry in batch)


def _event(name: str, sequence: int, data: bytes) -> bytes:
    return b"id: %d\n" % sequence + encode_sse(data, name)


async def _watch_disconnect(receive: Receive, reader: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.cancel()
