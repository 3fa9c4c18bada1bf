"""Requests over pooled connections that carry one response at a time, and nothing else.

HTTP/1.1 does not name the request that a response belongs to. A connection on which bytes arrived after the end of a
response is therefore never used again: they would be the answer to the next request, of another caller.

aiohttp has no hooks for this; the overridden members are those of `aiohttp.connector` and `aiohttp.client_proto`, and
tests/asgi/test_upstream_connections.py fails if they are no longer called. Its `ClientSession` is not used: for each
request it would prepare redirects, cookies, and what is the same for all requests to one upstream, which took three
times as long as to send the request.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import select
from collections.abc import Mapping
from functools import lru_cache
from ssl import SSLContext
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError, RawResponseMessage, StreamWriter
from yarl import URL

READ_MAX_BYTES: Final = 65_536
"""Half of what is buffered for a client that reads slowly."""

INFORMATIONAL_MAX: Final = 16
"""Informational responses (1xx) before a response. A few servers send one or two; an endless row of them would be read
without a pause."""

FRAMING_MAX_BYTES: Final = 2**20
"""Bytes that arrive without any of the body: extensions of chunks, trailers. The parser accepts an endless row of them,
which would be read without a pause."""

_PART_BYTES: Final = 65_536
"""Bytes of a body that are sent at once; a larger one is sent in parts, because TLS must encrypt each as a whole."""
_TARGETS_MAX: Final = 256
"""Targets of requests that are remembered: those of one API are few, but some have the name of a model."""
_INFORMATIONAL: Final = range(100, 200)
_SWITCHING_PROTOCOLS: Final = 101
_PROBE: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_PROBE_HEADERS: Final = ((b"Content-Length", b"0"),)


class Pool(aiohttp.TCPConnector):
    """The connections to one server, in the event loop that creates it. Those on which anything arrived are discarded.

    Args:
        base_url: address of the server, or of anything on it.
        headers: headers of every request.
        tls: context of the connections; None for the one that all others share.
        proxy: address of a proxy.
        connect_s: time limit for a new connection in seconds.
    """

    def __init__(
        self, base_url: str, headers: Mapping[str, str], tls: SSLContext | None, proxy: str | None, connect_s: float
    ) -> None:
        super().__init__(limit=0, ssl=True if tls is None else tls)
        loop, by_way_of = asyncio.get_running_loop(), None if proxy is None else URL(proxy)
        self._factory: Any = functools.partial(_Handler, loop=loop)
        self._connect_timeout = aiohttp.ClientTimeout(total=None, connect=connect_s)
        self._any = aiohttp.ClientRequest("GET", URL(base_url), headers=headers, loop=loop, proxy=by_way_of)
        if by_way_of is not None:  # headers of `CONNECT`: nothing else of the request is for the proxy
            self._any.proxy_headers = {name: self._any.headers[name] for name in ("Host", "User-Agent")}  # type: ignore[assignment]

    async def connect(self, *args: Any, **kwargs: Any) -> Any:
        """Return a clean connection from the pool, or a new one."""
        while True:
            connection = await super().connect(*args, **kwargs)
            handler = connection.protocol
            if isinstance(handler, _Handler) and handler.take():
                connection.add_callback(handler.on_release)
                return connection
            connection.close()

    async def send(
        self,
        method: str,
        url: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        is_again: bool = False,
    ) -> Exchange:
        """Send a request, and return its response once its head was received.

        Raises:
            aiohttp.ClientError: there is no connection, or no response.
            aiohttp.EofStream, HttpProcessingError, OSError: there is no response.
        """
        try:
            connection = await self.connect(self._any, traces=[], timeout=self._connect_timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError from error
        is_url = self._any.proxy is not None and not self._any.is_ssl()
        whole = self._any.headers.copy()  # with what the connector has added for a proxy
        whole.update(headers)
        exchange = Exchange(connection)
        try:
            await exchange.start(f"{method} {_target(url, tuple(query.items()), is_url)} HTTP/1.1", whole, body)
        except BaseException as error:
            exchange.close()
            is_closed = isinstance(error, aiohttp.ClientOSError | aiohttp.ServerDisconnectedError)
            if is_again or not is_closed or method != "GET":
                raise
            return await self.send(method, url, query, headers, body, is_again=True)  # an idle one may just be closed
        return exchange


@lru_cache(_TARGETS_MAX)
def _target(url: str, query: tuple[tuple[str, str], ...], is_url: bool, /) -> str:  # noqa: FBT001 - of a cached function
    """Return the target of a request: the path and query of its URL, or the whole URL, for a proxy."""
    whole = URL(url).extend_query(query)
    return str(whole.with_fragment(None)) if is_url else whole.raw_path_qs


class Exchange:
    """One request and its response. The connection is released when the response ends."""

    status: int
    headers: Mapping[str, str]
    content: aiohttp.StreamReader

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._upload: asyncio.Task[None] | None = None

    async def start(self, line: str, headers: Any, body: bytes | None) -> None:
        """Send the request, and receive the head of the response; see `Pool.send`."""
        protocol = self._connection.protocol
        protocol.set_response_params(read_until_eof=True, auto_decompress=False, read_bufsize=READ_MAX_BYTES)
        writer = StreamWriter(protocol, asyncio.get_running_loop())
        if body is not None:
            headers["Content-Length"] = str(len(body))
        await writer.write_headers(line, headers)
        if body is None:
            writer.set_eof()
        elif len(body) <= _PART_BYTES:
            await writer.write_eof(body)
        else:  # the server may respond before it has read the body
            self._upload = asyncio.create_task(self._send_parts(writer, body))
        status = _INFORMATIONAL[0]
        while status in _INFORMATIONAL and status != _SWITCHING_PROTOCOLS:
            message, self.content = await protocol.read()
            status = message.code
        self.status, self.headers = status, message.headers
        self.content.on_eof(self._on_end)

    async def _send_parts(self, writer: StreamWriter, body: bytes) -> None:
        with contextlib.suppress(OSError, aiohttp.ClientError):  # the protocol reports a connection that is lost
            for start in range(0, len(body), _PART_BYTES):
                await writer.write(body[start : start + _PART_BYTES])
                await writer.drain()
            await writer.write_eof()

    def _on_end(self) -> None:
        if self._connection is not None and (self._upload is None or self._upload.done()):
            self._connection.release()
            self._connection = None
        self.close()

    def close(self) -> None:
        """Close the connection, unless the response has ended. Idempotent."""
        if self._upload is not None:
            self._upload.cancel()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Handler(ResponseHandler):
    """The protocol of a connection; it knows whether a response is expected."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._is_idle = False
        self._has_head = False
        self._informational = 0
        self._framing_bytes = 0

    def take(self) -> bool:
        """Expect a response; return False if anything arrived since the last one."""
        was_idle, self._is_idle = self._is_idle, False
        self._has_head, self._informational, self._framing_bytes = False, 0, 0
        return not was_idle or not (self.should_close or self._has_unread_bytes())

    def on_release(self) -> None:
        """Expect no response."""
        self._is_idle = True

    def resume_reading(self, *args: Any, **kwargs: Any) -> None:
        """Go on reading, if it was paused; aiohttp resumes its parser and the transport after each read."""
        if self._reading_paused:
            super().resume_reading(*args, **kwargs)  # without arguments up to 3.13

    def data_received(self, data: bytes) -> None:
        """Parse data; close the connection if no response is expected, or if data is left behind its end."""
        if self._is_idle:
            if data:  # aiohttp passes nothing to resume its parser
                self.close()
            return
        payload = self._payload
        body_bytes = 0 if payload is None else payload.total_bytes
        super().data_received(data)
        payload = self._payload
        if body_bytes != (0 if payload is None else payload.total_bytes):
            self._framing_bytes = 0
        else:
            self._framing_bytes += len(data)
            if self._framing_bytes > FRAMING_MAX_BYTES:
                self.set_exception(HttpProcessingError(message="too many bytes without a body"))
                self.close()
                return
        is_ended = self._has_head and payload is not None and payload.is_eof()
        if is_ended and not self._is_at_boundary():
            self.force_close()
            if self._is_idle:
                self.close()

    def feed_data(self, data: tuple[RawResponseMessage, Any], size: int = 0) -> None:
        """Queue the head of a response; fail if there are too many informational ones."""
        if self._exception is not None:
            return
        if data[0].code in _INFORMATIONAL and data[0].code != _SWITCHING_PROTOCOLS:
            self._informational += 1
            if self._informational > INFORMATIONAL_MAX:
                self.set_exception(HttpProcessingError(message="too many informational responses"))
                return
        else:
            self._has_head = True
        super().feed_data(data, size)

    def set_exception(self, exc: BaseException, *args: BaseException) -> None:
        """Fail the request, and the body that is being read: aiohttp leaves that waiting after a framing error."""
        super().set_exception(exc, *args)
        payload = self._payload
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(exc, *args)

    def _has_unread_bytes(self) -> bool:
        """Return whether the socket has bytes, or an end, that the event loop has not read yet."""
        sock = self.transport.get_extra_info("socket") if self.transport is not None else None
        poll = getattr(select, "poll", None)
        if sock is None or poll is None:
            return sock is None
        found = poll()
        found.register(sock.fileno(), select.POLLIN)
        return bool(found.poll(0))

    def _is_at_boundary(self) -> bool:
        """Return whether nothing followed the end of the response: the parser then reads the probe as another one."""
        if self._parser is None:
            return True
        try:
            messages, is_upgraded, _ = self._parser.feed_data(_PROBE)
        except Exception:  # noqa: BLE001 - each error of the parser means the same
            return False
        return not is_upgraded and [message.raw_headers for message, _ in messages] == [_PROBE_HEADERS]
