"""Requests over pooled connections that carry one response at a time, and nothing else.

HTTP/1.1 does not name the request that a response belongs to. A connection on which bytes arrived after the end of a
response is therefore never used again: they would be the answer to the next request, of another caller.

aiohttp opens connections, also through proxies, and keeps them. Its `ClientSession` and its parser are not used: the
one prepares for each request what is the same for all requests to one upstream, the other takes ten calls for each
event (docs/decisions/0057). The overridden members are those of `aiohttp.connector` and `aiohttp.client_proto`, and
tests/asgi/test_upstream_connections.py fails if they are no longer called.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import select
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from ssl import SSLContext
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError, StreamWriter
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from yarl import URL

READ_MAX_BYTES: Final = 131_072
"""What is kept for a client that reads slowly, until the connection is not read any more."""

INFORMATIONAL_MAX: Final = 16
"""Informational responses (1xx) before a response. A few servers send one or two; an endless row of them would be read
without a pause."""

FRAMING_MAX_BYTES: Final = 65_536
"""Bytes that arrive without any of the body: the head, extensions of chunks, trailers. The parser accepts an endless
row of them, which would be read without a pause."""
HEADERS_MAX: Final = 128
"""Different names of headers in a response."""

_PART_BYTES: Final = 65_536
"""Bytes of a body that are sent at once; a larger one is sent in parts, because TLS must encrypt each as a whole."""
_TARGETS_MAX: Final = 256
"""Targets of requests that are remembered: those of one API are few, but some have the name of a model."""
_INFORMATIONAL: Final = range(100, 200)
_SWITCHING_PROTOCOLS: Final = 101


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
            if isinstance(handler, _Handler) and handler.is_clean():
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
            HttpProcessingError, OSError: there is no response.
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
    """One request and its response. The connection is free again once this is closed."""

    status: int
    headers: Mapping[str, str]
    """Names are in lower case; of several headers with one name, the first, except codings of the transfer."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._handler: _Handler = connection.protocol
        self._upload: asyncio.Task[None] | None = None
        self.read: Callable[[int], Awaitable[bytes]] = self._handler.body

    async def start(self, line: str, headers: Any, body: bytes | None) -> None:
        """Send the request, and receive the head of the response; see `Pool.send`."""
        handler = self._handler
        handler.expect()
        writer = StreamWriter(handler, asyncio.get_running_loop())
        if body is not None:
            headers["Content-Length"] = str(len(body))
        await writer.write_headers(line, headers)
        if body is None:
            writer.set_eof()
        elif len(body) <= _PART_BYTES:
            await writer.write_eof(body)
        else:  # the server may respond before it has read the body
            self._upload = asyncio.create_task(self._send_parts(writer, body))
        self.status, self.headers = await handler.head()

    async def _send_parts(self, writer: StreamWriter, body: bytes) -> None:
        with contextlib.suppress(OSError, aiohttp.ClientError):  # the protocol reports a connection that is lost
            for start in range(0, len(body), _PART_BYTES):
                await writer.write(body[start : start + _PART_BYTES])
                await writer.drain()
            await writer.write_eof()

    @property
    def is_received(self) -> bool:
        """Whether the whole response was received."""
        return self._handler.is_received

    def close(self) -> None:
        """Free the connection; close it if the response has not ended, or the request was not sent. Idempotent."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self.read = _nothing  # the next response on the connection is of another caller
        is_sent = self._upload is None or self._upload.done()
        if self._upload is not None:
            self._upload.cancel()
        is_over = is_sent and self._handler.is_received
        self._handler.on_free()
        if is_over:
            connection.release()
        else:
            connection.close()


async def _nothing(_max_bytes: int, /) -> bytes:
    return b""


class _Handler(ResponseHandler):
    """The protocol of a connection, which parses one response after each request.

    A proxy's answer to `CONNECT` is parsed by aiohttp: the connection gets another handler with TLS.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.is_received = False
        """Whether the whole response was received."""
        self._http: HttpResponseParser | None = None
        self._parts: deque[bytes] = deque()
        """What was not read of the body."""
        self.on_body = self._parts.append  # not a method: one read may have hundreds of chunks
        self._status = 0
        self._headers: dict[str, str] = {}
        self._failure: Exception | None = None
        self._arrived: asyncio.Future[None] | None = None
        self._is_idle = self._is_paused = False

    def expect(self) -> None:
        """Expect a response to the next request. On a new connection it may have begun: some servers are too busy."""
        if self._is_idle or self._http is None:
            self._begin()

    def _begin(self) -> HttpResponseParser:
        http = self._http
        if http is None:
            http = self._http = HttpResponseParser(self)
            http.set_dangerous_leniencies(  # those of aiohttp
                lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
            )
        self.is_received = self._is_idle = False
        self._status, self._headers = 0, {}
        self._failure = None if self.is_connected() else aiohttp.ServerDisconnectedError()
        self._informational = self._framing_bytes = self._unread_bytes = 0
        return http

    def on_free(self) -> None:
        """Expect nothing, and drop what was not read of the last response."""
        self._is_idle, self._failure = True, None
        self._parts.clear()
        if self._is_paused:
            self._resume()

    async def head(self) -> tuple[int, Mapping[str, str]]:
        """Return status and headers of the response; raise an exception of `Pool.send` if there is none."""
        while not self._status:
            await self._arrival()
        return self._status, self._headers

    async def body(self, max_bytes: int) -> bytes:
        """Return the next bytes of the body, empty at its end; raise an exception of `Pool.send` if it is cut off."""
        parts = self._parts
        while not parts:
            if self.is_received:
                return b""
            await self._arrival()
        data = parts.popleft()
        if len(data) > max_bytes:
            parts.appendleft(data[max_bytes:])
            return data[:max_bytes]
        if parts:
            joined, size = [data], len(data)
            while parts and (size := size + len(parts[0])) <= max_bytes:
                joined.append(parts.popleft())
            data = b"".join(joined)
        if not parts:
            self._unread_bytes = 0
            if self._is_paused:
                self._resume()
        return data

    def _arrival(self) -> asyncio.Future[None]:
        """Return what is done when something has arrived; raise the failure of the response."""
        if self._failure is not None:
            raise self._failure
        self._arrived = self._loop.create_future()
        return self._arrived

    def data_received(self, data: bytes) -> None:
        """Parse data; close the connection if no response is expected, or it is none."""
        if self._parser is not None:  # a proxy answers `CONNECT`
            super().data_received(data)
            return
        http = self._http
        if http is None:
            http = self._begin()
            self.force_close()  # it answers no request, so the answer to the first one may follow
        if self._is_idle or self.is_received:
            self.close()
            return
        count = len(self._parts)
        try:
            http.feed_data(data)
        except HttpParserUpgrade:
            self.force_close()
        except HttpParserError:
            if self.is_received:  # something follows it
                self.force_close()
            else:
                self._fail("not HTTP")
        if len(self._parts) > count:
            self._framing_bytes = 0
            self._unread_bytes += len(data)
            if self._unread_bytes > READ_MAX_BYTES and not self._is_paused and self.transport is not None:
                self._is_paused = True
                self.transport.pause_reading()
        else:
            self._framing_bytes += len(data)
            if self._framing_bytes > FRAMING_MAX_BYTES:
                self._fail("too many bytes without a body")
        self._wake()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End a response that the end of its connection ends; fail any other."""
        super().connection_lost(exc)
        self._http = None
        lost: Exception = aiohttp.ServerDisconnectedError()
        if self._status:
            lost = aiohttp.ClientPayloadError()
            codings = self._headers.get("transfer-encoding", "")
            is_chunked = codings.rpartition(",")[2].strip().lower() == "chunked"
            has_end = is_chunked or "content-length" in self._headers
            self.is_received = self.is_received or not (has_end or self._failure or exc)
        elif isinstance(exc, OSError):
            lost = aiohttp.ClientOSError(*exc.args)
        lost.__cause__ = exc
        self._failure = self._failure or lost
        self._wake()

    def _fail(self, reason: str) -> None:
        self.is_received, self._failure = False, HttpProcessingError(message=reason)
        self.close()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def _resume(self) -> None:
        self._is_paused = False
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def is_clean(self) -> bool:
        """Return whether nothing has arrived since the last response, not even in the socket."""
        if not self._is_idle:  # it is new
            return True
        sock = self.transport.get_extra_info("socket") if self.transport is not None else None
        poll = getattr(select, "poll", None)
        if sock is None or poll is None:
            return sock is not None
        found = poll()
        found.register(sock.fileno(), select.POLLIN)
        return not found.poll(0)

    # what the parser calls

    def on_message_begin(self) -> None:
        """Do not use the connection again if something follows the response."""
        if self.is_received:
            self.force_close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, but none of the trailers; raise an exception if there are too many."""
        if not self._status:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
            if key not in self._headers:
                if len(self._headers) >= HEADERS_MAX:
                    raise HttpProcessingError(message="too many headers")
                self._headers[key] = text
            elif key == "transfer-encoding":  # the last coding counts
                self._headers[key] += f", {text}"

    def on_headers_complete(self) -> None:
        """End a head; raise an exception if it is of another response, or of one informational response too many."""
        status = 0 if self._http is None else self._http.get_status_code()
        if self.is_received or status < _INFORMATIONAL[0]:
            raise HttpProcessingError(message="another response, or no status")
        if status not in _INFORMATIONAL or status == _SWITCHING_PROTOCOLS:
            self._status = status
            return
        self._headers = {}
        self._informational += 1
        if self._informational > INFORMATIONAL_MAX:
            raise HttpProcessingError(message="too many informational responses")

    def on_message_complete(self) -> None:
        """End the response, unless it is informational."""
        self.is_received = self._status > 0
        if self.is_received and self._http is not None and not self._http.should_keep_alive():
            self.force_close()
