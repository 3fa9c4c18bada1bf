"""Writers of responses (docs/decisions/0010): an event stream in pieces or one JSON document, and what may be sent.

There are three ends of a response. A failure before the status is sent refuses the request: the route sends an error
response. Any other end is the last part of the stream, or the JSON document. After a client disconnect nothing is sent.
Whatever happens at the same time, the first accepted signal decides, because a signal is checked and applied without
waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from math import inf
from typing import Final, TypeAlias

import anyio
from anyio.lowlevel import checkpoint
from starlette.types import Message, Receive, Scope, Send

from projector.contracts import codec
from projector.core.faults import is_retryable_status
from projector.core.sse import encode_comment
from projector.dialects import DIALECTS
from projector.dialects.descriptor import Dialect
from projector.server.config.upstream_settings import Timeouts
from projector.server.http.problems import Problem
from projector.server.streaming.clock import SideTasks, Timer, Watch, watch_client
from projector.server.streaming.memory import LARGE_EVENT_BYTES, Account
from projector.server.telemetry.logs import log_crash
from projector.server.telemetry.request_facts import facts_of, headers_of
from projector.server.telemetry.stream_stats import StreamStats


class Phase(IntEnum):
    """Progress of a response."""

    PENDING = 0  # nothing was sent
    COMMITTED = 1  # the status was sent
    ENDING = 2  # the end is decided, the status was not sent
    CLOSING = 3  # the end is decided, the status was sent
    REFUSED = 4  # nothing was sent, and the route sends an error response
    ENDED = 5  # everything was sent
    GONE = 6  # the client has disconnected, or the state of its connection is unknown


class Signal(IntEnum):
    """What happens to a response."""

    SEND = 0  # output is about to be sent
    BEAT = 1  # a heartbeat is about to be sent
    FAIL = 2  # the stream failed
    STOP = 3  # the stream is over, or was cancelled
    BREAK = 4  # the end of the response could not be produced
    SENT = 5  # the last message was sent
    LEAVE = 6  # the client disconnected, or a message was not sent completely


TRANSITIONS: Final[Mapping[Phase, Mapping[Signal, Phase]]] = {
    Phase.PENDING: {
        Signal.SEND: Phase.COMMITTED,
        Signal.BEAT: Phase.COMMITTED,
        Signal.FAIL: Phase.REFUSED,
        Signal.STOP: Phase.ENDING,
        Signal.BREAK: Phase.REFUSED,
        Signal.LEAVE: Phase.GONE,
    },
    Phase.COMMITTED: {
        Signal.SEND: Phase.COMMITTED,
        Signal.BEAT: Phase.COMMITTED,
        Signal.FAIL: Phase.CLOSING,
        Signal.STOP: Phase.CLOSING,
        Signal.LEAVE: Phase.GONE,
    },
    Phase.ENDING: {Signal.SEND: Phase.CLOSING, Signal.BREAK: Phase.REFUSED, Signal.LEAVE: Phase.GONE},
    Phase.CLOSING: {
        Signal.SEND: Phase.CLOSING,
        Signal.BREAK: Phase.GONE,
        Signal.SENT: Phase.ENDED,
        Signal.LEAVE: Phase.GONE,
    },
    Phase.REFUSED: {Signal.LEAVE: Phase.GONE},
    Phase.ENDED: {},
    Phase.GONE: {},
}
"""Phase -> accepted signal -> next phase; any other signal is ignored."""

_ACTIVE: Final = Phase.COMMITTED  # looked up once here, not once per token in its class
_GONE: Final = Phase.GONE
_COMMITTED: Final = frozenset({Phase.COMMITTED, Phase.CLOSING, Phase.ENDED})


class ResponseState:
    """The phase of one response."""

    phase = Phase.PENDING

    @property
    def is_committed(self) -> bool:
        """Whether the status was sent, so that a failure must be reported in the stream."""
        return self.phase in _COMMITTED

    def accepts(self, signal: Signal) -> bool:
        """Return whether a signal would be accepted."""
        return signal in TRANSITIONS[self.phase]

    def apply(self, signal: Signal) -> bool:
        """Apply a signal; return False if it is ignored."""
        phase = TRANSITIONS[self.phase].get(signal)
        if phase is None:
            return False
        self.phase = phase
        return True


Write: TypeAlias = Callable[[bytes], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

HEADERS: Final[Headers] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"incremental", b"?1"),
    (b"x-content-type-options", b"nosniff"),
)
"""Headers of every stream."""
_JSON_HEADERS: Final[Headers] = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)

SHOULD_RETRY: Final = b"x-should-retry"
"""Header of a failed answer: whether the client should send the request again."""
_OK: Final = 200

SEND_MAX_BYTES: Final = 65_536
"""Maximum bytes of one send, as many as uvicorn buffers; with more, a slow client would seem to have stalled."""

WHOLE_MAX_BYTES: Final = 32_768
"""Size of data in one send, with the end of the response if it is the last: uvicorn takes it without waiting for the
client, and what it buffers is part of the memory of every stream. It would take more as well, and a client that does
not read it would count as one that has it."""


class AbortableSend:
    """An ASGI `send` that can be given up while a client does not read."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._scope: anyio.CancelScope | None = None

    async def __call__(self, message: Message) -> None:
        """Send a message; raise `OSError` if it was given up."""
        with anyio.CancelScope() as self._scope:
            await self._send(message)
        if self._scope.cancelled_caught:
            raise ClientStalledError
        self._scope = None

    def abort(self) -> None:
        """Abort the message that is being sent."""
        if self._scope is not None:
            self._scope.cancel()


class ClientStalledError(OSError):
    """A client does not read, and was given up."""


class ResponseWriter:
    """Writes one event stream; concurrent writes do not mix. `on_gone` is called after a disconnect.

    `send_body` sends what follows the head, if there is a shorter way for it than `send`.

    The state decides what is sent: after the end, a refusal or a disconnect, nothing is.
    """

    def __init__(
        self,
        send: Send,
        dialect: Dialect,
        headers: Headers,
        account: Account,
        state: ResponseState,
        on_gone: Callable[[], None],
        send_body: Send | None = None,
    ) -> None:
        self._send = send
        self._send_body = send_body or send
        self._headers = [*self._prepare(dialect), *headers]
        self._heartbeat = dialect.heartbeat
        self._has_begun = False
        """Whether an event was sent."""
        self._status = _OK
        self._account = account
        self._state = state
        self._on_gone = on_gone
        self._is_sending = False
        self._sent: asyncio.Event | None = None
        """Is set when a message that others wait for has been sent."""
        self.sent_at = time.monotonic()
        self.sending_since: float | None = None

    def _prepare(self, dialect: Dialect) -> Headers:
        """Return the headers of every response of this kind."""
        return (*HEADERS, *dialect.headers)

    def add_header(self, name: bytes, value: bytes) -> None:
        """Add a header of the response, if the head was not sent."""
        if not self._state.is_committed:
            self._headers.append((name, value))

    async def write(self, data: bytes) -> None:
        """Send the head if it was not sent, then the bytes, if any."""
        if self._is_sending or self._state.phase is not _ACTIVE or len(data) > WHOLE_MAX_BYTES:
            await self._write(Signal.SEND, data)
        elif data:
            self._is_sending = self._has_begun = True
            try:
                message = {"type": "http.response.body", "body": data, "more_body": True}
                await self._transmit(message, self._send_body)
            finally:
                self._is_sending = False
                if self._sent is not None:
                    self._end_turn()

    async def beat(self, comment: bytes) -> bool:
        """Send a comment, or the heartbeat of the dialect, unless other output is being sent.

        Returns:
            Whether it was sent.
        """
        beat = (self._has_begun and self._heartbeat) or comment
        return not self._is_sending and await self._write(Signal.BEAT, beat)

    async def end(self, data: bytes) -> None:
        """Send the last bytes, and end the response. Idempotent."""
        await self._write(Signal.SEND, data, is_last=True)

    async def _write(self, signal: Signal, data: bytes, *, is_last: bool = False) -> bool:
        while self._is_sending:  # a heartbeat
            if self._sent is None:
                self._sent = asyncio.Event()
            await self._sent.wait()
        self._is_sending = True
        try:
            is_head_sent = self._state.is_committed
            if not self._state.apply(signal):
                return False
            self._has_begun = self._has_begun or (signal is Signal.SEND and bool(data))
            if not is_head_sent:
                head = {"type": "http.response.start", "status": self._status, "headers": self._headers}
                await self._transmit(head, self._send)
            if len(data) > WHOLE_MAX_BYTES:
                await self._write_in_pieces(data, is_last=is_last)
            elif data or is_last:
                message = {"type": "http.response.body", "body": data, "more_body": not is_last}
                await self._transmit(message, self._send_body)
            if is_last:
                self._state.apply(Signal.SENT)
        finally:
            self._end_turn()
        return True

    def _end_turn(self) -> None:
        self._is_sending = False
        if self._sent is not None:
            self._sent.set()
            self._sent = None

    async def _write_in_pieces(self, data: bytes, *, is_last: bool) -> None:
        self._account.hold(len(data))
        try:
            for start in range(0, len(data), SEND_MAX_BYTES):
                piece = data[start : start + SEND_MAX_BYTES]
                await self._transmit({"type": "http.response.body", "body": piece, "more_body": True}, self._send_body)
            if is_last:
                await self._transmit({"type": "http.response.body", "body": b"", "more_body": False}, self._send_body)
        finally:
            self._account.hold(-len(data))

    async def _transmit(self, message: Message, send: Send) -> None:
        if self._state.phase is _GONE:
            return  # since the message before, which a task of its own may have sent
        self.sending_since = time.monotonic()
        try:
            await send(message)
        except OSError:  # ASGI servers raise it after a disconnect
            self._on_gone()
            await checkpoint()
        except BaseException:  # whether the client receives the message is unknown, so nothing may follow
            self._state.apply(Signal.LEAVE)
            raise
        self.sending_since = None
        self.sent_at = time.monotonic()


class JsonResponseWriter(ResponseWriter):
    """Writes one JSON document at the end of an NDJSON stream, with the status of the outcome.

    Nothing is committed before that, so any earlier failure is a problem document.
    """

    def _prepare(self, dialect: Dialect) -> Headers:
        if dialect.assembler is None:
            raise ValueError("expected a dialect with an assembler")
        self._end_mark = dialect.end_mark
        self._has_should_retry = dialect.assembler.has_should_retry
        self._assembly = dialect.assembler.start()
        return _JSON_HEADERS

    async def write(self, data: bytes) -> None:
        """Collect whole lines."""
        held_bytes = self._assembly.held_bytes
        for line in data.splitlines():
            if line != self._end_mark:
                self._assembly.feed(line)
        self._account.hold(self._assembly.held_bytes - held_bytes)

    async def end(self, data: bytes) -> None:
        """Collect the last lines, and send the document."""
        if not self._state.accepts(Signal.SEND):
            return
        await self.write(data)
        is_large = self._assembly.held_bytes > LARGE_EVENT_BYTES
        body = await self._account.memory.process(self._document) if is_large else self._document()
        if (
            self._has_should_retry
            and self._status != _OK
            and not any(name == SHOULD_RETRY for name, _ in self._headers)
        ):
            self.add_header(SHOULD_RETRY, b"true" if is_retryable_status(self._status) else b"false")
        self._headers.append((b"content-length", b"%d" % len(body)))
        await super().end(body)

    def _document(self) -> bytes:
        self._status, body = self._assembly.close()
        return codec.dumps(body)


class ResponseSession:
    """One response, with what happens beside it: its client disconnects or does not read, and heartbeats are due.

    A JSON document (`is_json`) has no heartbeats: one would commit its status.
    """

    def __init__(
        self,
        stats: StreamStats,
        account: Account,
        *,
        timeouts: Timeouts,
        heartbeat_s: float,
        headers: Headers,
        is_json: bool,
    ) -> None:
        self.stats = stats
        self.is_json = is_json
        self._account = account
        self._stall_s = timeouts.client_stall_timeout_s
        self._heartbeat_s = inf if is_json else heartbeat_s
        self._headers = [*headers]
        self._state = ResponseState()
        self._scope = anyio.CancelScope()
        self._problem: Problem | None = None

    async def _respond(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        produce: Callable[[ResponseWriter], Awaitable[None]],
        on_gone: Callable[[], None],
        line: AbortableSend | None = None,
    ) -> None:
        """Produce the response, until it is complete or the client has gone.

        With `line`, a message that the client does not read is given up, and not the client.
        """
        facts = facts_of(scope)
        facts.is_projected = True
        dialect = DIALECTS[self.stats.dialect]
        stream_id, request_id = self.stats.stream_id.encode(), self.stats.request_id.encode()
        self._headers += [(b"x-stream-id", stream_id), (b"x-request-id", request_id)]
        if dialect.names_requests:
            self._headers.append((b"request-id", request_id))
        if scope["http_version"] == "1.1" and b"close" not in headers_of(scope).get(b"connection", b"").lower():
            self._headers.append((b"connection", b"keep-alive"))

        def gone() -> None:
            self._note_gone("stalled" if facts.is_stalled else "closed")
            on_gone()

        def stalled() -> None:
            self._note_gone("stalled")
            (on_gone if line is None else line.abort)()

        writer = (JsonResponseWriter if self.is_json else ResponseWriter)(
            line or send,
            dialect,
            self._headers,
            self._account,
            self._state,
            gone,
            facts.send_body if line is None else None,
        )
        with (
            self._scope,
            SideTasks(self._break_off) as beside,
            Watch(
                Timer(lambda: (writer.sending_since or inf) + self._stall_s, stalled, self._stall_s),
                Timer(
                    lambda: writer.sent_at + self._heartbeat_s,
                    lambda: beside.start(self._beat, writer),  # a task, because sending may take a while
                    self._heartbeat_s,
                ),
            ),
        ):
            beside.start(watch_client, receive, gone)
            await produce(writer)

    def _note_gone(self, reason: str) -> None:
        """Note why the client does not get the whole response, unless that is known."""
        stats = self.stats
        if stats.client_gone is None and self._state.accepts(Signal.LEAVE):
            stats.client_gone, stats.client_gone_s = reason, time.monotonic() - stats.started_at

    async def _beat(self, writer: ResponseWriter) -> None:
        """Send a comment, unless other output is being sent."""
        if await writer.beat(encode_comment(f"heartbeat {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")):
            self.stats.heartbeats += 1

    def _break_off(self, error: Exception) -> None:
        """Log the failure of a task beside the stream, and give the connection up: its state is not known."""
        log_crash("stream_crashed", error, stream_id=self.stats.stream_id, request_id=self.stats.request_id)
        self._state.apply(Signal.LEAVE)
        self.stats.is_client_gone = True
        self._scope.cancel()
