"""Ways to read a run: the whole log, a poll, a stream. Each reader has its own pace, and none slows the run.

What a reader does not take is not made for it: no send is larger than what the server holds before it makes us wait, by
one event at most, so readers that take nothing cost little however much there is to read.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Final

import anyio
from starlette.types import Message, Receive, Scope, Send

from projector.core.sse import encode_comment, encode_sse
from projector.openwop.event_log import RUN_TERMINALS
from projector.openwop.host.asked import Mode
from projector.openwop.host.log import Entry, RunLog
from projector.server.http.request_ids import request_id
from projector.server.streaming.response_writer import HEADERS, SEND_MAX_BYTES

_UPDATES: Final[frozenset[Mode]] = frozenset({"updates"})
_MESSAGES: Final[frozenset[Mode]] = frozenset({"messages"})

SHOWN: Final[dict[str, frozenset[Mode]]] = {
    "run.started": _UPDATES,
    "run.completed": _UPDATES | _MESSAGES,
    "run.failed": _UPDATES | _MESSAGES,
    "run.cancelled": _UPDATES | _MESSAGES,
    "node.started": _UPDATES,
    "node.completed": _UPDATES,
    "node.failed": _UPDATES,
    "node.cancelled": _UPDATES,
    "node.suspended": _UPDATES | _MESSAGES,
    "node.resumed": _UPDATES,
    "interrupt.resolved": _UPDATES,
    "agent.reasoning.delta": _UPDATES,
    "agent.reasoned": _UPDATES,
    "agent.toolCalled": _UPDATES,
    "agent.toolReturned": _UPDATES,
    "agent.handoff": _UPDATES,
    "agent.decided": _UPDATES,
    "provider.usage": _UPDATES,
    "replay.diverged": _UPDATES,
    "output.chunk": _MESSAGES,
    "public-sse.message.citation": _MESSAGES,
    "public-sse.chunk.delta": _MESSAGES,
    "public-sse.chunk.done": _MESSAGES,
}
"""Type of an event -> the modes that show it, beside `debug`, which shows everything. The protocol's pages name no mode
for `agent.*`; its clients ask for `updates`."""

URGENT: Final = RUN_TERMINALS | {"node.suspended"}
"""What is not held for a batch."""

_BEGIN: Final = b'{"events":['


class Document:
    """Events of a run as one JSON document, from a position to what is the end of the log now.

    Args:
        log: of the run.
        last_sequence: the last event that the reader has; -1 gives the whole log.
        end: what stands behind the events.
        client_stall_timeout_s: how long the reader may take nothing before it counts as gone.
    """

    def __init__(self, log: RunLog, last_sequence: int, end: bytes, *, client_stall_timeout_s: float) -> None:
        self._entries = log.entries
        self._position = last_sequence + 1
        self._until = max(len(log.entries), self._position)
        self._end = end
        self._client_s = client_stall_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        del receive  # the server's own `send` says when nobody is there any more
        head = {"type": "http.response.start", "status": 200, "headers": self._head(request_id(scope))}
        is_wanted = await _is_taken(head, send, self._client_s)
        said, is_last = _BEGIN, False
        while is_wanted and not is_last:
            portion = _portion(self._entries, self._position, self._until)
            self._position += len(portion)
            is_last = self._position >= self._until
            said += b",".join([entry.data for entry in portion]) + (self._end if is_last else b",")
            body = {"type": "http.response.body", "body": said, "more_body": not is_last}
            is_wanted = await _is_taken(body, send, self._client_s)
            said = b""

    def _head(self, request: str) -> list[tuple[bytes, bytes]]:
        entries = self._entries[self._position : self._until]
        n_bytes = sum([len(entry.data) for entry in entries]) + max(len(entries) - 1, 0)  # and the commas between them
        return [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % (len(_BEGIN) + n_bytes + len(self._end))),
            (b"cache-control", b"no-store"),
            (b"x-request-id", request.encode()),
        ]


def document(log: RunLog, client_stall_timeout_s: float) -> Document:
    """Give the whole log, whatever modes there are."""
    return Document(log, -1, b"]}", client_stall_timeout_s=client_stall_timeout_s)


async def poll(
    log: RunLog, last_sequence: int, wait_s: float, client_stall_timeout_s: float, receive: Receive
) -> Document:
    """Give what is new, and whether the run has ended; nothing new when the time is over, or nobody waits any more."""
    async with anyio.create_task_group() as reader:
        reader.start_soon(_until_gone, receive, reader.cancel_scope)
        with anyio.move_on_after(wait_s):
            while len(log.entries) <= last_sequence + 1 and not log.state.is_over:
                await log.wait()
        reader.cancel_scope.cancel()
    end = b'],"isComplete":true}' if log.state.is_over else b'],"isComplete":false}'
    return Document(log, last_sequence, end, client_stall_timeout_s=client_stall_timeout_s)


class EventStream:
    """A run as server-sent events, from a position to its end.

    Args:
        log: of the run.
        modes: which events are shown.
        buffer_s: how long events are held for a batch; 0 sends each one alone.
        last_sequence: the last event that the reader has.
        heartbeat_s: silence before a comment is sent.
        client_stall_timeout_s: how long the reader may take nothing before it counts as gone.
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
        self._client_s = client_stall_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        async with anyio.create_task_group() as reader:
            reader.start_soon(_until_gone, receive, reader.cancel_scope)
            head = [*HEADERS, (b"x-request-id", request_id(scope).encode())]
            await self._send({"type": "http.response.start", "status": 200, "headers": head}, send, reader)
            while (said := await self._next()) is not None:
                await self._send({"type": "http.response.body", "body": said, "more_body": True}, send, reader)
            await self._send({"type": "http.response.body", "body": b"", "more_body": False}, send, reader)
            reader.cancel_scope.cancel()

    async def _send(self, message: Message, send: Send, reader: anyio.abc.TaskGroup) -> None:
        if not await _is_taken(message, send, self._client_s):
            reader.cancel_scope.cancel()
        await anyio.lowlevel.checkpoint()  # a server whose client is gone does not wait any more, nor would this loop

    async def _next(self) -> bytes | None:
        """Give what is to be sent next, a comment where nothing is for a while; None at the end."""
        beats_at = time.monotonic() + self._heartbeat_s
        while not (new := self._take()):
            if self._position < len(self._log.entries):
                continue  # what was taken is not shown
            if self._log.state.is_over:
                return None
            with anyio.move_on_after(beats_at - time.monotonic()) as silence:
                await self._log.wait()
            if silence.cancelled_caught:
                return encode_comment("keepalive")
        if not self._buffer_s:
            return b"".join([_event(entry.type, sequence, entry.data) for sequence, entry in new])
        await self._fill(new)
        data = b"[" + b",".join([entry.data for _, entry in new]) + b"]"
        return _event("batch", new[-1][0], data)

    async def _fill(self, batch: list[tuple[int, Entry]]) -> None:
        """Hold a batch for its time, unless it has become urgent or large."""
        with anyio.move_on_after(self._buffer_s):
            while not self._log.state.is_over and not _is_large(batch) and not _is_urgent(batch):
                if self._position >= len(self._log.entries):
                    await self._log.wait()
                batch += self._take()

    def _take(self) -> list[tuple[int, Entry]]:
        """Give the next events that are shown, with their numbers."""
        begin = self._position
        entries = _portion(self._log.entries, begin, len(self._log.entries))
        self._position += len(entries)
        return [(begin + place, entry) for place, entry in enumerate(entries) if self._shows(entry)]

    def _shows(self, entry: Entry) -> bool:
        return "debug" in self._modes or not self._modes.isdisjoint(SHOWN.get(entry.type, ()))


def _portion(entries: Sequence[Entry], begin: int, until: int) -> Sequence[Entry]:
    """Give as many of the next entries as one send takes, the one that fills it among them."""
    end, n_bytes = begin, 0
    while end < until and n_bytes < SEND_MAX_BYTES:
        n_bytes += len(entries[end].data)
        end += 1
    return entries[begin:end]


async def _is_taken(message: Message, send: Send, within_s: float) -> bool:
    """Send, and tell whether the client took it."""
    is_taken = False
    try:
        with anyio.move_on_after(within_s):
            await send(message)
            is_taken = True
    except OSError:  # what ASGI servers raise when the client is gone
        pass
    return is_taken


def _is_large(batch: list[tuple[int, Entry]]) -> bool:
    return sum([len(entry.data) for _, entry in batch]) >= SEND_MAX_BYTES


def _is_urgent(batch: list[tuple[int, Entry]]) -> bool:
    return any(entry.type in URGENT for _, entry in batch)


def _event(name: str, sequence: int, data: bytes) -> bytes:
    return b"id: %d\n" % sequence + encode_sse(data, name)


async def _until_gone(receive: Receive, reader: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.cancel()
