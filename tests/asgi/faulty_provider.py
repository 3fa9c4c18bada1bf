"""A provider at the level of sockets that plays a golden stream with one fault; `FAULTS` is the table of faults.

Each request names its plan with `plan-N` anywhere in its body, so that many of them can run at a time on connections
that are used again.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END: Final = b"0\r\n\r\n"
CANARY: Final = b"ANSWER-OF-ANOTHER-USER"
"""Text of responses that belong to no request; no client may receive it."""
OTHER: Final = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(CANARY), CANARY)

WHOLE: Final = "whole"
"""The client must get the whole answer."""
BROKEN: Final = "broken"
"""The client must not get a complete answer, if the fault is before the last event."""
ANY: Final = "any"
"""Either of them."""


class Wire:
    """A connection, from the provider's side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.is_idle = True
        """Whether the last response was complete, so that the connection may stay open."""

    async def send(self, *parts: bytes) -> None:
        """Send bytes, each part by itself."""
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def chunks(self, *parts: bytes) -> None:
        """Send each part as an HTTP chunk."""
        await self.send(*(b"%x\r\n%b\r\n" % (len(part), part) for part in parts))

    async def until_closed(self) -> None:
        """Wait until the other side closes."""
        while await self.reader.read(65_536):
            pass

    def end(self) -> None:
        """Send the end of the connection: of its TLS, where it has one."""
        if self.writer.can_write_eof():
            self.writer.write_eof()
        else:
            self.writer.close()

    def reset(self) -> None:
        """Close with a reset instead of an end."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()


Play: TypeAlias = Callable[[Wire, Sequence[bytes]], Awaitable[bool]]
"""Sends the events of the golden that are left, with the fault; returns whether the response is complete, so that the
connection stays open."""


class Fault(NamedTuple):
    """A row of the table."""

    play: Play
    outcome: str = ANY
    is_in_stream: bool = True
    """Whether the head and the events before the fault were sent; otherwise it replaces the response."""
    status: int | None = None
    """The only status that the client may get on a passthrough route."""


def raw(*parts: bytes, waits: bool = False) -> Play:
    """Return a fault that sends these bytes instead of the rest; then it closes, or waits for the other side."""

    async def play(wire: Wire, _left: Sequence[bytes]) -> bool:
        await wire.send(*parts)
        if waits:
            await wire.until_closed()
        return False

    return play


def inserted(*events: bytes) -> Play:
    """Return a fault that sends these events before the rest."""

    async def play(wire: Wire, left: Sequence[bytes]) -> bool:
        await wire.chunks(*events, *left)
        await wire.send(END)
        return True

    return play


def rest(change: Callable[[Sequence[bytes]], Sequence[bytes]], end: bytes = END, after: bytes = b"") -> Play:
    """Return a fault that changes the rest of the events, and may send bytes behind the end."""

    async def play(wire: Wire, left: Sequence[bytes]) -> bool:
        await wire.chunks(*(event for event in change(left) if event))
        await wire.send(end + after)
        return not after

    return play


def endless(part: bytes) -> Play:
    """Return a fault that repeats bytes until the other side closes."""

    async def play(wire: Wire, _left: Sequence[bytes]) -> bool:
        while not wire.writer.is_closing():
            await wire.send(part)
        return False

    return play


def head(*lines: bytes, body: bytes = b"", waits: bool = False) -> Play:
    """Return a fault that replaces the response by one with these lines in its head."""
    return raw(b"\r\n".join([*lines, b"", b""]) + body, waits=waits)


def answer(status: bytes, body: bytes, *lines: bytes) -> Play:
    """Return a fault that replaces the response by a well-formed one."""
    data = b"\r\n".join([b"HTTP/1.1 " + status, b"content-length: %d" % len(body), *lines, b"", body])

    async def play(wire: Wire, _left: Sequence[bytes]) -> bool:
        await wire.send(data)
        return True

    return play


async def resets(wire: Wire, _left: Sequence[bytes]) -> bool:
    """Close with a reset."""
    wire.reset()
    return False


async def half_a_chunk(wire: Wire, left: Sequence[bytes]) -> bool:
    """Announce a chunk and send half of it."""
    event = left[0] if left else b"data: {}\n\n"
    await wire.send(b"%x\r\n%b" % (len(event), event[: len(event) // 2]))
    return False


async def half_an_event(wire: Wire, left: Sequence[bytes]) -> bool:
    """End properly within an event."""
    event = left[0] if left else b"data: {}\n\n"
    await wire.chunks(event[: len(event) // 2])
    await wire.send(END)
    return True


async def drips(wire: Wire, left: Sequence[bytes]) -> bool:
    """Send the next event byte by byte."""
    for event in left[:1]:
        await wire.chunks(*(event[i : i + 1] for i in range(len(event))))
    await wire.chunks(*left[1:])
    await wire.send(END)
    return True


async def in_one_segment(wire: Wire, left: Sequence[bytes]) -> bool:
    """Send all events, the end and another response in one segment."""
    data = b"".join(left) or b"\n"
    await wire.send(b"%x\r\n%b\r\n%b%b" % (len(data), data, END, OTHER))
    return False


async def cut_anywhere(wire: Wire, left: Sequence[bytes]) -> bool:
    """Cut the rest into chunks of seven bytes, two of them in each segment."""
    data = b"".join(left)
    parts = [data[i : i + 7] for i in range(0, len(data), 7)]
    framed = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts] + [END]
    await wire.send(*(b"".join(framed[i : i + 2]) for i in range(0, len(framed), 2)))
    return True


async def wrong_length(wire: Wire, left: Sequence[bytes]) -> bool:
    """Announce fewer bytes than are sent."""
    data = b"".join(left)
    await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (len(data) // 2), data + CANARY)
    return False


async def larger_length(wire: Wire, left: Sequence[bytes]) -> bool:
    """Announce more bytes than are sent."""
    data = b"".join(left[: len(left) // 2])
    await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (len(data) + 9), data)
    return False


def whole(*lines: bytes, before: bytes = b"") -> Play:
    """Return the whole golden with an odd head."""

    async def play(wire: Wire, left: Sequence[bytes]) -> bool:
        await wire.send(before + b"\r\n".join([*lines, b"transfer-encoding: chunked", b"", b""]))
        await wire.chunks(*left)
        await wire.send(END)
        return True

    return play


def _status_rows() -> dict[str, Fault]:
    """Return a row for each status of an error."""
    body = b'{"error": {"message": "No.", "type": "t", "code": "c", "param": null}}'
    codes = (300, 304, 307, 400, 401, 402, 403, 404, 405, 408, 409, 410, 413, 415, 418, 422, 424, 451, 500, 501)
    return {
        f"status-{code}": Fault(answer(b"%d X" % code, b"" if code == 304 else body), BROKEN, is_in_stream=False)
        for code in (*codes, 502, 503, 504, 520, 529, 598, 600, 999)
    }


def _retry_after_rows() -> dict[str, Fault]:
    """Return a row for each odd wait of a 429, whose status must remain."""
    values = {
        "far-date": b"Fri, 31 Dec 9999 23:59:59 GMT",
        "farther-date": b"Fri, 31 Dec 99999 23:59:59 GMT",
        "past-date": b"Thu, 01 Jan 1970 00:00:00 GMT",
        "no-zone": b"Fri, 31 Dec 9999 23:59:59",
        "far-zone": b"Fri, 31 Dec 9999 23:59:59 -2359",
        "year-0": b"Mon, 01 Jan 0000 00:00:00 +2359",
        "huge": b"9" * 400,
        "negative": b"-1",
        "exponent": b"1e999",
        "nan": b"nan",
        "digits": "٣٣".encode(),
        "empty": b"",
        "comma": b"1, 2",
    }
    return {
        f"retry-after-{name}": Fault(
            answer(b"429 X", b"{}", b"retry-after: " + value), BROKEN, is_in_stream=False, status=429
        )
        for name, value in values.items()
    }


NONE: Final = Fault(inserted(), WHOLE)
_OK: Final = b"HTTP/1.1 200 OK"
FAULTS: Final[Mapping[str, Fault]] = {
    # in the stream, before the event of the index
    "close": Fault(raw(), BROKEN),
    "reset": Fault(resets, BROKEN),
    "half-a-chunk": Fault(half_a_chunk, BROKEN),
    "half-an-event": Fault(half_an_event, BROKEN),
    "end": Fault(rest(lambda _: ()), BROKEN),
    "silence": Fault(raw(waits=True), BROKEN),
    "bad-chunk-size": Fault(raw(b"zz\r\n", waits=True), BROKEN),
    "negative-chunk-size": Fault(raw(b"-5\r\n", waits=True), BROKEN),
    "huge-chunk-size": Fault(raw(b"f" * 40 + b"\r\n", waits=True), BROKEN),
    "long-chunk": Fault(raw(b"5\r\n: hello\r\n", waits=True), BROKEN),
    "a-head": Fault(raw(OTHER, waits=True), BROKEN),
    "endless-chunk-extension": Fault(endless(b"1;" + b"x" * 30_000), BROKEN),
    "endless-trailers": Fault(endless(b"0\r\nx: " + b"y" * 30_000 + b"\r\n")),
    "not-json": Fault(inserted(b'data: {"type":\n\n')),
    "not-utf-8": Fault(inserted(b"data: \xff\xfe\n\n")),
    "not-sse": Fault(inserted(b"<html><body>Bad gateway</body></html>\n\n")),
    "null": Fault(inserted(b"data: null\n\n")),
    "list": Fault(inserted(b"data: []\n\n")),
    "number": Fault(inserted(b"data: 1e999\n\n")),
    "deep": Fault(inserted(b"data: " + b"[" * 50_000 + b"]" * 50_000 + b"\n\n")),
    "large-event": Fault(inserted(b"data: " + b"x" * 300_000 + b"\n\n")),
    "odd-type": Fault(inserted(b'data: {"type": ["x"], "choices": {"a": 1}, "id": 7}\n\n')),
    "unknown-event": Fault(inserted(b'event: a.b\ndata: {"type": "a.b", "object": "x"}\n\n')),
    "error-event": Fault(inserted(b'data: {"type": "error", "error": {"message": "No.", "code": "c"}}\n\n'), BROKEN),
    "odd-error": Fault(inserted(b'data: {"type": "error", "error": [[{}]], "code": {}}\n\n'), BROKEN),
    "early-end-mark": Fault(inserted(b"data: [DONE]\n\n")),
    "comments": Fault(inserted(*[b": ping\n\n" * 50] * 20), WHOLE),
    "empty-lines": Fault(inserted(*[b"\n" * 500] * 4), WHOLE),
    "drip": Fault(drips, WHOLE),
    "cut-anywhere": Fault(cut_anywhere, WHOLE),
    "twice": Fault(rest(lambda left: [event for one in left for event in (one, one)])),
    "reversed": Fault(rest(lambda left: left[::-1])),
    "one-missing": Fault(rest(lambda left: left[1:])),
    "terminal-twice": Fault(rest(lambda left: [*left, *left[-2:]])),
    "all-again": Fault(rest(lambda left: [*left, *left])),
    "bytes-after-the-end": Fault(rest(lambda left: left, after=CANARY)),
    "response-after-the-end": Fault(rest(lambda left: left, after=OTHER)),
    "trailers": Fault(rest(lambda left: left, b"0\r\nx-a: b\r\n\r\n"), WHOLE),
    "in-one-segment": Fault(in_one_segment),
    # instead of the response
    **{
        name: row._replace(is_in_stream=False)
        for name, row in {
            "no-response": Fault(raw(), BROKEN),
            "no-response-reset": Fault(resets, BROKEN),
            "no-response-silence": Fault(raw(waits=True), BROKEN),
            "half-a-head": Fault(raw(b"HTTP/1.1 20"), BROKEN),
            "garbage": Fault(raw(bytes(range(256)) * 9, waits=True), BROKEN),
            "http-2": Fault(raw(b"\0\0\x12\4\0\0\0\0\0" + b"\0" * 18, waits=True), BROKEN),
            "http-0.9": Fault(raw(b"hello\r\n", waits=True), BROKEN),
            "tls-alert": Fault(raw(b"\x15\3\1\0\2\2\x28", waits=True), BROKEN),
            "continues-for-ever": Fault(endless(b"HTTP/1.1 100 Continue\r\n\r\n" * 200), BROKEN),
            "hints-for-ever": Fault(endless(b"HTTP/1.1 103 Early\r\nlink: </a>\r\n\r\n"), BROKEN),
            "switching": Fault(head(b"HTTP/1.1 101 Switching", b"connection: upgrade", b"upgrade: x"), BROKEN),
            "two-hints": Fault(whole(_OK, before=b"HTTP/1.1 103 Early\r\n\r\n" * 2), WHOLE),
            "huge-header": Fault(head(_OK, b"x: " + b"y" * 2**20, waits=True), BROKEN),
            "many-headers": Fault(head(_OK, *[b"x-%d: y" % i for i in range(20_000)], waits=True), BROKEN),
            "endless-header": Fault(endless(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 30_000), BROKEN),
            "header-without-colon": Fault(head(_OK, b"hello", waits=True), BROKEN),
            "nul-in-header": Fault(head(_OK, b"x: \0", waits=True), BROKEN),
            "odd-content-length": Fault(head(_OK, b"content-length: 5x", waits=True), BROKEN),
            "negative-content-length": Fault(head(_OK, b"content-length: -5", waits=True), BROKEN),
            "two-content-lengths": Fault(head(_OK, b"content-length: 3", b"content-length: 5", body=b"hello"), BROKEN),
            "both-framings": Fault(head(_OK, b"content-length: 5", b"transfer-encoding: chunked", body=END), BROKEN),
            "unknown-framing": Fault(head(_OK, b"transfer-encoding: x", body=b"hello"), BROKEN),
            "wrong-length": Fault(wrong_length),
            "larger-length": Fault(larger_length, BROKEN),
            "empty": Fault(answer(b"200 OK", b""), BROKEN),
            "empty-chunked": Fault(raw(HEAD + END), BROKEN),
            "json-instead": Fault(answer(b"200 OK", b'{"id": "r", "output": []}'), BROKEN),
            "page-instead": Fault(answer(b"200 OK", b"<html>", b"content-type: text/html"), BROKEN),
            "error-instead": Fault(answer(b"200 OK", b'{"error": {"message": "No."}}'), BROKEN),
            "gzip": Fault(whole(_OK, b"content-encoding: gzip")),
            "error-without-body": Fault(raw(b"HTTP/1.1 500 X\r\ncontent-length: 99\r\n\r\n", waits=True), BROKEN),
            "error-without-end": Fault(
                endless(b"HTTP/1.1 400 X\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 999), BROKEN
            ),
            "error-odd-body": Fault(answer(b"400 X", b'{"error": {"message": [[[1]]], "code": {}}}'), BROKEN),
            "error-deep-body": Fault(answer(b"400 X", b"[" * 60_000), BROKEN),
            "redirect-to-itself": Fault(answer(b"302 X", b"", b"location: /v1/responses"), BROKEN),
        }.items()
    },
    **_status_rows(),
    **_retry_after_rows(),
}


class Plan(NamedTuple):
    """What the provider answers to a request."""

    events: Sequence[bytes]
    fault: str | None = None
    index: int = 0


class FaultyProvider:
    """Plays plans; the connections that are open, and on which a response is incomplete, are known."""

    def __init__(self) -> None:
        self.plans: dict[str, Plan] = {}
        self.requests = 0
        self.wires: set[Wire] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> int:
        """Number of open connections whose last response was incomplete."""
        return sum(not wire.is_idle for wire in self.wires)

    def on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        task = asyncio.create_task(self._serve(Wire(reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, wire: Wire) -> None:
        self.wires.add(wire)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, OSError):
                while await self._answer(wire):
                    pass
                wire.end()
                await wire.until_closed()  # what is left open by the other side stays in `wires`
        finally:
            wire.writer.transport.abort()
            self.wires.discard(wire)

    async def _answer(self, wire: Wire) -> bool:
        """Answer a request; return whether the connection stays open for another."""
        received = await wire.reader.readuntil(b"\r\n\r\n")
        wire.is_idle = False
        length = re.search(rb"content-length: (\d+)", received.lower())
        body = await wire.reader.readexactly(int(length[1]) if length else 0)
        self.requests += 1
        found = re.search(rb"plan-\d+", body)
        plan = self.plans[found[0].decode() if found else ""]
        fault = FAULTS[plan.fault] if plan.fault else NONE
        if fault.is_in_stream:
            await wire.send(HEAD)
            await wire.chunks(*plan.events[: plan.index])
        wire.is_idle = await fault.play(wire, plan.events[plan.index :])
        return wire.is_idle

    async def stop(self) -> None:
        """Close all connections."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def providing(tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[FaultyProvider, int]]:
    """Run a provider; yield it and its port."""
    provider = FaultyProvider()
    listening = await asyncio.start_server(provider.on_connection, "127.0.0.1", 0, limit=2**24, ssl=tls)
    try:
        yield provider, listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        await provider.stop()
