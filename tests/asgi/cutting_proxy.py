"""A TCP proxy on loopback that breaks responses off where their requests tell it, for clients that reconnect.

A client that loses its connection may also lose what it has received and not read. So a connection is broken off when
the client has acknowledged that it read everything, with `GET /read`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

LIMIT: Final = "x-cut-after"
"""Header: bytes of each response to pass on; `first:N` cuts only requests without a `Last-Event-ID`."""
IS_ENDED: Final = "x-cut-ends"
"""Header: the response is ended early as if it were complete, instead of broken off."""
WAITS: Final = "x-cut-waits"
"""Header: the client will acknowledge that it has read what it got."""
READ: Final = "GET /read HTTP/1.1"


class Passed(NamedTuple):
    """A request that went through."""

    line: str
    headers: dict[str, str]


class CuttingProxy:
    """The proxy."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.port = 0
        self.requests: list[Passed] = []
        self._read = asyncio.Event()
        self.resumed = asyncio.Event()
        """Set when a client asks for the rest of a stream, or joins one."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[CuttingProxy]:
        """Listen until the end of the block."""
        tasks: set[asyncio.Task[None]] = set()

        def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._serve(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        listening = await asyncio.start_server(on_connection, "127.0.0.1", 0)
        self.port = listening.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            listening.close()
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve the requests of a connection until one of the responses is cut."""
        is_whole = True
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while is_whole:
                    head = await reader.readuntil(b"\r\n\r\n")
                    request = _parsed(head.decode("latin-1"))
                    body = await reader.readexactly(int(request.headers.get("content-length", 0)))
                    if request.line == READ:
                        self._read.set()
                        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                        continue
                    self.requests.append(request)
                    if "last-event-id" in request.headers or request.line.startswith("GET"):
                        self.resumed.set()
                    is_whole = await self._exchange(head + body, writer, request)
                if WAITS in request.headers:
                    await self._read.wait()
                    self._read.clear()
        finally:
            writer.close()

    async def _exchange(self, data: bytes, writer: asyncio.StreamWriter, request: Passed) -> bool:
        """Pass on a request, and its response up to its limit; return whether the response is whole."""
        reader, upstream = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            upstream.write(data)
            return await _answer(reader, writer, request)
        finally:
            upstream.close()


def _parsed(head: str) -> Passed:
    line, *fields = head.strip().split("\r\n")
    pairs = (field.partition(":") for field in fields)
    return Passed(line, {name.lower(): value.strip() for name, _, value in pairs})


async def _answer(upstream: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Passed) -> bool:
    head = await upstream.readuntil(b"\r\n\r\n")
    writer.write(head)
    response = _parsed(head.decode("latin-1"))
    if "transfer-encoding" not in response.headers:
        writer.write(await upstream.readexactly(int(response.headers.get("content-length", 0))))
        return True
    left = _limit(request)
    while data := await _chunk(upstream):
        if left is not None and len(data) >= left:
            _cut(writer, data[:left], len(data), is_ended=IS_ENDED in request.headers)
            return False
        left = None if left is None else left - len(data)
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    return True


def _cut(writer: asyncio.StreamWriter, data: bytes, size: int, *, is_ended: bool) -> None:
    """Write the beginning of a chunk of a size, or that beginning as the last chunk of a response."""
    if not is_ended:
        writer.write(b"%x\r\n%b" % (size, data))
        return
    writer.write(b"%x\r\n%b\r\n" % (len(data), data) if data else b"")
    writer.write(b"0\r\n\r\n")


def _limit(request: Passed) -> int | None:
    given = request.headers.get(LIMIT)
    if given is None:
        return None
    scope, _, number = given.rpartition(":")
    return None if scope == "first" and "last-event-id" in request.headers else int(number)


async def _chunk(upstream: asyncio.StreamReader) -> bytes:
    size = int(await upstream.readuntil(b"\r\n"), 16)
    return (await upstream.readexactly(size + 2))[:size]
