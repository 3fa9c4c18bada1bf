"""Connections of clients: how they are accepted, and what a client may send that no limit on requests can count.

uvicorn waits for a head without a time limit, buffers any number of headers and trailers, and parses all requests of a
read at once. The limits on streams apply to complete heads only, so a few thousand silent clients could use up all
file descriptors of the process, and a flood of tiny requests its memory.

An offer to upgrade the connection is removed: a server may ignore it (RFC 9110, section 7.8), but the parser would
treat the body of the request as the new protocol.

A server of uvloop accepts one connection in a turn of the event loop, so that new clients would wait behind the work of
all others. And it tells its protocol of a connection with TLS after the handshake only: until then, clients that send
nothing would take a file descriptor and 100 KB each, without a limit. So connections are accepted here.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Final

from starlette.types import Message, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from projector.server.config.settings import Limits
from projector.server.http.problems import DEFAULT_RETRY_AFTER_S
from projector.server.telemetry.logs import JoinedLines
from projector.server.telemetry.request_facts import facts_of

HEAD_MAX_BYTES: Final = 65_536
"""Size of the request line and all headers; browsers and proxies allow 8 to 32 KiB."""
OVERHEAD_MAX_BYTES: Final = HEAD_MAX_BYTES
"""Bytes between two pieces of a body that are not its content: chunk sizes and extensions, trailers."""
PIPELINED_MAX: Final = 16
"""Requests of a connection that may wait for the response to an earlier one. Browsers and SDKs send none ahead."""

_REFUSAL: Final = (
    f"HTTP/1.1 503 Service Unavailable\r\nretry-after: {DEFAULT_RETRY_AFTER_S}\r\n"
    "content-length: 0\r\nconnection: close\r\n\r\n"
).encode()
"""Response to a connection too many. It has no body, because its path is not known, and with it the form of errors."""
_TLS_BUFFER_BYTES: Final = 65_536
"""Size of each buffer of TLS, as that of a plain connection. The defaults are 512 and 256 KiB, for every connection."""
_SLICE_BYTES: Final = 16_384
"""Bytes that are parsed at once. Overhead in the same slice as content is not counted."""
KEEP_ALIVE_S: Final = 75
"""How long a connection may be idle. Proxies and HTTP clients close theirs after 5 to 60 s: the server must not close
one that just gets a request, because a POST is not sent again."""
_LINGER_S: Final = 5
"""How long the rest of a request may take whose response was the last one of its connection."""
_REFUSED_S: Final = 2
_REFUSED_MAX: Final = 64
"""How long, and how many, refused connections stay open until their clients have read why: closing one with an unread
request resets it. Others are reset: a limit of connections must not be one that a flood exceeds."""
_HOST: Final = re.compile(rb"([A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?")
_ABSOLUTE: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")
"""A target with a host, as a proxy gets it."""
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_PROBE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
"""A response that changes nothing (RFC 9110, section 15.2); the client's system rejects it if the client has left."""
_PROBES_S: Final = (0.05, 0.25, 1, 5)
"""Pauses between probes: the second one fails. Some clients accept five such responses at most."""
_UPGRADE: Final = re.compile(rb"^upgrade[ \t]*:[^\n]*(?:\n[ \t][^\n]*)*\n", re.IGNORECASE | re.MULTILINE)

TOO_MANY: Final = "limit"
TOO_MANY_OF_ADDRESS: Final = "address_limit"
SLOW_HEAD: Final = "slow_head"
REASONS: Final = frozenset({TOO_MANY, TOO_MANY_OF_ADDRESS, SLOW_HEAD})
"""Why the server closes a connection without a request: a limit, or a head that did not arrive in time."""
_LEVELS: Final = {TOO_MANY: logging.WARNING, TOO_MANY_OF_ADDRESS: logging.WARNING}
"""Levels of the log lines. Browsers open connections ahead, and may not use them, so a slow head is no warning."""


class Connections:
    """The open connections of one listener. `on_closed` is called with the reason for each that the server closes."""

    def __init__(self, limits: Limits, on_closed: Callable[[str], None]) -> None:
        self.limits = limits
        """Limits of new connections."""
        self._on_closed = on_closed
        self._by_address: Counter[str] = Counter()
        self._closed = JoinedLines("connections_closed", _LEVELS)
        self.malformed = JoinedLines("malformed_http")
        """Log lines about bytes that are no request."""
        self.silent: dict[asyncio.Protocol, asyncio.Transport] = {}
        """Admitted connections without a request, also idle ones, the oldest first: they give way to new ones."""
        self.open = 0
        """Number of connections."""
        self.refused = 0
        """Number of those that are refused, and whose request is read."""

    def admit(self, address: str) -> bool:
        """Count a new connection of an address, and return True; return False if a limit is reached."""
        of_address = self.limits.max_connections_per_address
        if of_address is not None and self._by_address[address] >= of_address:
            self.report(TOO_MANY_OF_ADDRESS)
            return False
        if self.open >= self.limits.connections:
            self.report(TOO_MANY)
            oldest = next(iter(self.silent), None)
            if oldest is None:
                return False
            self.silent.pop(oldest).close()
        self.open += 1
        self._by_address[address] += 1
        return True

    def release(self, address: str) -> None:
        """Remove a connection that was admitted."""
        self.open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def report(self, reason: str) -> None:
        """Record a connection that the server closes."""
        self._on_closed(reason)
        self._closed.add(reason)

    def flush(self) -> None:
        """Write the log lines of what is counted."""
        self._closed.flush()
        self.malformed.flush()


class _PipelineError(Exception):
    """More than `PIPELINED_MAX` requests wait; or one that came with the body before it offers to upgrade.

    The offer is still there, so the parser would drop its body, or read that as other requests.
    """


class _HostError(Exception):
    """No host, several, or an invalid one: other servers on the way may have chosen another (RFC 9112, 3.2)."""


class _LastTransport:
    """The transport of a request after which the connection ends: the rest of a body is read before it closes.

    Closing a connection with unread bytes resets it: a client that sends its whole body first would not get the
    response (RFC 9112, section 9.6).
    """

    def __init__(self, protocol: GuardedProtocol, cycle: RequestResponseCycle) -> None:
        self.write = protocol.transport.write
        self.is_closing = protocol.transport.is_closing
        self._protocol = protocol
        self._cycle = cycle

    def close(self) -> None:
        """Close the connection; if the response is complete, and the body is not, after at most `_LINGER_S`."""
        transport = self._protocol.transport
        if not (self._cycle.response_complete and self._cycle.more_body) or transport.is_closing():
            transport.close()
            return
        self._protocol.is_ending = True
        self._protocol.timeout_keep_alive = _LINGER_S
        if transport.can_write_eof():
            transport.write_eof()


def _unchunked(cycle: RequestResponseCycle) -> Send:
    """Return the `send` of a request that accepts no chunks: the connection ends with the body (RFC 9112, 6.1)."""
    sends: Send = cycle.send  # type: ignore[assignment]
    has_length = True

    async def send(message: Message) -> None:
        nonlocal has_length
        if not cycle.response_started:
            has_length = any(name.lower() == b"content-length" for name, _ in message.get("headers", ()))
            if not has_length:
                cycle.chunked_encoding = False
        elif not has_length:  # otherwise uvicorn checks it
            cycle.expected_content_length = len(message.get("body", b""))
        await sends(message)

    return send


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on the connection; a head must be received within `head_s` seconds."""

    head_s: float
    admission: Connections
    on_malformed: Callable[[], None] = staticmethod(lambda: None)
    """Is called for bytes that are no request, or exceed a limit."""
    _is_in_head = True
    _overhead_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    is_ending = False
    """Whether the last response of the connection was sent, and what the client still sends is dropped."""
    is_admitted = False
    """Whether the connection is counted; before the handshake, if it has TLS."""
    _running: RequestResponseCycle | None = None
    """The request that is answered. uvicorn tells the last one that was received, and only that, of a disconnect."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn's own signature
        """Start the time limit of the first head; refuse the connection if there are too many."""
        self._head = bytearray()
        super().connection_made(transport)
        if self.scheme == "https":
            transport.set_write_buffer_limits(_TLS_BUFFER_BYTES)
            transport.set_read_buffer_limits(_TLS_BUFFER_BYTES)  # type: ignore[attr-defined] # of TLS only
        self.is_admitted = self.is_admitted or self.admission.admit(self._address)
        if self.is_admitted:
            self.admission.silent[self] = transport
            self._start_timer()
        else:
            transport.write(_REFUSAL)
            if self.admission.refused < _REFUSED_MAX:
                self.admission.refused += 1
                self.is_ending = True
                transport.write_eof()
                self._head_timer = self.loop.call_later(_REFUSED_S, transport.close)
            else:
                transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit."""
        self._stop_timer()
        if self.is_admitted:
            self.admission.silent.pop(self, None)
            self.admission.release(self._address)
        elif self.is_ending:
            self.admission.refused -= 1
        self.cycle = cycle = self._running  # type: ignore[assignment] # it may be None
        if cycle is not None and isinstance(exc, TimeoutError):  # as `limit_stalls` has the system do
            facts_of(dict(cycle.scope)).is_stalled = True  # in the state of the request
        super().connection_lost(exc)
        if cycle is not None:
            cycle.transport = self.transport  # `_LastTransport` would keep this object and the request in a cycle,
            vars(cycle).pop("send", None)  # as `_unchunked` would

    def eof_received(self) -> bool:  # type: ignore[override] # uvicorn closes every connection
        """Return whether to keep a connection that its client sends nothing more on: for a response not yet begun."""
        cycle: RequestResponseCycle | None = self.cycle
        is_waiting = cycle is not None and not (cycle.more_body or cycle.response_started or self.pipeline)
        if cycle is None or not is_waiting or self.scheme == "https":  # TLS ends both sides
            return False
        cycle.keep_alive = False
        self._probe(cycle, _PROBES_S)
        return True

    def _probe(self, cycle: RequestResponseCycle, pauses_s: tuple[float, ...]) -> None:
        """Find out whether the client has left: both look the same until something is sent."""
        if not (self.transport.is_closing() or cycle.response_started) and cycle.scope["http_version"] == "1.1":
            self.transport.write(_PROBE)
            if pauses_s:
                self.loop.call_later(pauses_s[0], self._probe, cycle, pauses_s[1:])

    def data_received(self, data: bytes) -> None:
        """Parse bytes: heads one by one, everything else as it arrives."""
        if self.is_ending:
            return
        self._start_timer()  # uvicorn stops its keep-alive timer here, even for a blank line
        start = 0
        while self._is_in_head and start < len(data) and not self.transport.is_closing():
            start = self._receive_head(data, start)
        while start < len(data) and not self.transport.is_closing():
            self._receive(data[start : start + _SLICE_BYTES])
            start += _SLICE_BYTES
            if self._overhead_bytes > OVERHEAD_MAX_BYTES and not self._is_in_head:
                self._refuse("The request body has too many bytes other than its content.")

    def on_message_begin(self) -> None:
        """Begin a head."""
        super().on_message_begin()
        self._is_in_head = True
        self._start_timer()

    def on_headers_complete(self) -> None:
        """End a head; refuse the request if others stand in its way, or if it does not have one valid host."""
        if len(self.pipeline) >= PIPELINED_MAX or self.parser.should_upgrade():
            raise _PipelineError
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            raise _HostError
        if (absolute := _ABSOLUTE.match(self.url)) is not None:  # its host counts (RFC 9112, section 3.2.2)
            hosts = [absolute[1]]
            self.headers[:] = [*(pair for pair in self.headers if pair[0] != b"host"), (b"host", absolute[1])]
        if hosts and not _HOST.fullmatch(hosts[0]):
            raise _HostError
        self._is_in_head = False
        self.admission.silent.pop(self, None)
        self._overhead_bytes = 0
        self._stop_timer()
        super().on_headers_complete()
        self.headers = []  # not those of the request: nothing reads trailers
        if not self.pipeline:
            self._running = self.cycle
        if not self.cycle.keep_alive:
            self.cycle.transport = _LastTransport(self, self.cycle)  # type: ignore[assignment] # all that it uses
        if self.scope["http_version"] == "1.0":
            self.cycle.waiting_for_100_continue = False
            self.cycle.send = _unchunked(self.cycle)  # type: ignore[assignment, method-assign]

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body."""
        self._overhead_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._overhead_bytes = 0
        self._is_in_head = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """End a response: the connection is idle, unless it has another request or awaits the rest of its last one."""
        if self.pipeline:
            self._running = self.pipeline[-1][0]
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None and not self.is_ending:
            self.admission.silent[self] = self.transport
            if self._head:
                self._start_timer()

    def send_400_response(self, msg: str) -> None:
        """Report bytes that are no request, and close the connection; `msg` is one of a few texts."""
        self.admission.malformed.add(msg)
        self.on_malformed()
        super().send_400_response(msg)

    @property
    def _address(self) -> str:
        """The address of the peer, empty if it is not known."""
        return self.client[0] if self.client else ""

    def _receive_head(self, data: bytes, start: int) -> int:
        """Collect the head of a request, and parse it when it is complete; return where its bytes end in the data."""
        head = self._head
        searched = max(0, len(head) - 2)
        kept = len(head)
        head += data[start : start + HEAD_MAX_BYTES]
        end = _HEAD_END.search(head, searched)
        if end is None:
            self._start_timer()
        if (len(head) if end is None else end.end()) > HEAD_MAX_BYTES:
            self._refuse("The request head is too large.")
            return len(data)
        if end is None:
            return start + len(head) - kept
        whole = bytes(head[: end.end()])
        head.clear()
        self._receive(_UPGRADE.sub(b"", whole) if b"pgrade" in whole.lower() else whole)
        return start + len(whole) - kept

    def _receive(self, data: bytes) -> None:
        self._overhead_bytes += len(data)
        super().data_received(data)

    def _refuse(self, message: str) -> None:
        if not self.transport.is_closing():
            self.send_400_response(message)

    def _start_timer(self) -> None:
        """Start the time limit of a head, unless it comes ahead of a response: that may take longer."""
        cycle: RequestResponseCycle | None = self.cycle
        if self._head_timer is None and (cycle is None or cycle.response_complete):
            self._head_timer = self.loop.call_later(self.head_s, self._end_head)

    def _end_head(self) -> None:
        self.admission.report(SLOW_HEAD)
        self.transport.close()

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


ACCEPTED_MAX: Final = 64
"""Connections that are accepted in one turn of the event loop; more would hold up those that are open."""
_PAUSE_S: Final = 1.0
"""Seconds without accepting after a failure, such as too many open files; those of asyncio."""


class Listener:
    """Accepts connections on a listening socket, with the part of the interface of `asyncio.Server` that is used.

    Args:
        listener: the socket; it is closed with this object.
        make_protocol: returns the protocol of a connection.
        context: of TLS; None for plain connections.
        handshake_s: seconds that the handshake of a connection may take.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], GuardedProtocol],
        context: ssl.SSLContext | None = None,
        handshake_s: float | None = None,
    ) -> None:
        listener.setblocking(False)
        self.sockets = (listener,)
        self._listener = listener
        self._make_protocol = make_protocol
        self._context = context
        self._handshake_s = None if context is None else handshake_s
        self._connecting: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Accept no more connections, and close those in a handshake."""
        for task in (self._accepting, *self._connecting):
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until `close` is complete."""
        await asyncio.wait([self._accepting, *self._connecting])

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        with closing(self._listener):
            while True:
                try:
                    self._begin(*await loop.sock_accept(self._listener))
                    for _ in range(ACCEPTED_MAX - 1):
                        self._begin(*self._listener.accept())
                except BlockingIOError:  # no other one waits
                    pass
                except OSError:
                    await asyncio.sleep(_PAUSE_S)
                await asyncio.sleep(0)

    def _begin(self, connection: socket.socket, peer: tuple[str, int]) -> None:
        connection.setblocking(False)
        protocol = self._make_protocol()
        if self._context is None or protocol.admission.admit(peer[0]):  # a plain connection gets a response
            protocol.is_admitted = self._context is not None
            task = asyncio.create_task(self._connect(connection, protocol))
            self._connecting.add(task)

            def on_end(_: object) -> None:  # also of a task that was cancelled before it began
                self._connecting.discard(task)
                if protocol.transport is None:  # otherwise the protocol is told of the end of its connection
                    if protocol.is_admitted:
                        protocol.admission.release(peer[0])
                    connection.close()

            task.add_done_callback(on_end)
        else:
            connection.close()

    async def _connect(self, connection: socket.socket, protocol: GuardedProtocol) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):  # TLS errors and the time-out are included
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=self._context, ssl_handshake_timeout=self._handshake_s
            )
