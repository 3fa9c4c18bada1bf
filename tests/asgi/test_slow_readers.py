"""Readers that do not keep up: what a server holds for them does not depend on how far they are behind.

The server is a process of its own with its log in a file, so its memory is that of its readers. Their sockets take
almost nothing, so they stall whatever the machine does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, Self

import pytest

from projector.server.streaming.log_session import PAGE_BYTES
from projector.server.streaming.stream_logs import WAITING_MAX_BYTES
from tests.asgi.conftest import request_bytes
from tests.asgi.memory_attacks import DONE, HEAD, IMAGE, MIB, event
from tests.asgi.process import Process, running, serve_with

pytestmark = pytest.mark.timeout(180)

READERS: Final = 16
IMAGES: Final = 112
IMAGE_CHARS: Final = 65_536
"""A stream has 7 MiB: more than the kernel takes for one connection (4 MiB are sent, and almost none received), and
less than may wait for a slow disk (`STREAM_WAITING_MAX_BYTES`), beyond which its log would be given up."""
HELD_BYTES: Final = 4 * PAGE_BYTES
"""What a reader may hold: a page as frames, and as the bytes of its dialect."""
PEAK_BYTES: Final = READERS * MIB + 32 * MIB
"""What the process may grow by: a seventh of the streams together, and room for the allocator."""
CONFIG: Final = """
heartbeat_s = 600
[timeouts]
client_stall_timeout_s = 600
[store]
kind = "sqlite"
max_stream_bytes = 67108864
path = "{path}"
[upstreams.main]
base_url = "http://127.0.0.1:{port}/v1"
[agents.default]
upstream = "main"
model = "m"
"""


@contextlib.asynccontextmanager
async def images() -> AsyncIterator[int]:
    """Run a provider that sends images as fast as it can; yield its port."""
    parts = [event(IMAGE | {"partial_image_index": at, "partial_image_b64": "A" * IMAGE_CHARS}) for at in range(IMAGES)]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            for part in (HEAD, *parts, DONE):
                writer.write(part)
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, limit=MIB) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[Process]:
    async with images() as port:
        file = tmp_path / "projector.toml"
        file.write_text(CONFIG.format(path=tmp_path / "store.db", port=port), encoding="utf-8")
        async with running(serve_with(file), 1, OPENAI_API_KEY="k") as process:
            yield process


class SlowReader:
    """A client that takes a few kilobytes, and the rest when it is asked for."""

    def __init__(self, process: Process, request: bytes) -> None:
        self._port = process.port
        self._request = request
        self._socket = socket.socket()

    async def __aenter__(self) -> Self:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self._socket.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self._socket, ("127.0.0.1", self._port))
        await loop.sock_sendall(self._socket, self._request)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._socket.close()

    async def rest(self) -> bytes:
        """Return the body."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)
        parts: list[bytes] = []
        while data := await asyncio.get_running_loop().sock_recv(self._socket, MIB):
            parts.append(data)
        head, _, body = b"".join(parts).partition(b"\r\n\r\n")
        assert b" 200 " in head.partition(b"\r\n")[0]
        return unchunked(body) if b"transfer-encoding: chunked" in head.lower() else body


def unchunked(data: bytes) -> bytes:
    """Return the content of a chunked body."""
    parts, at = [], 0
    while True:
        end = data.index(b"\r\n", at)
        if not (size := int(data[at:end], 16)):
            return b"".join(parts)
        parts.append(data[end + 2 : end + 2 + size])
        at = end + 2 + size + 2


def chat() -> bytes:
    return request_bytes("/api/v1/chat/stream", json.dumps({"message": "hi"}).encode(), connection="close")


def get(place: str) -> bytes:
    return f"GET {place} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".encode()


async def produced(process: Process) -> tuple[str, bytes]:
    """Return the address of a stream that is stored, and its bytes."""
    async with SlowReader(process, chat()) as reader:
        whole = await reader.rest()
    stream_id = json.loads(whole.partition(b"data: ")[2].partition(b"\n")[0])["stream_id"]
    while (await process.gauges())["projector_store_logs_open"]:  # noqa: ASYNC110 - it is in another process
        await asyncio.sleep(0.02)
    return f"/api/v1/streams/{stream_id}/events", whole


async def stalled(process: Process) -> dict[str, float]:
    """Wait until all readers have taken what they can: nothing moves between two looks."""
    before: dict[str, float] = {}
    while True:
        now = {
            name: value
            for name, value in (await process.gauges()).items()
            if name in {"projector_memory_held_bytes", "projector_stream_readers", "projector_streams_active"}
        }
        served = now["projector_stream_readers"] + now["projector_streams_active"]
        if served >= READERS and now["projector_memory_held_bytes"] and now == before:
            return now
        before = now
        await asyncio.sleep(0.5)


async def test_slow_readers_of_a_log_have_bounded_memory(process: Process) -> None:
    place, whole = await produced(process)
    assert len(whole) > IMAGES * IMAGE_CHARS
    async with SlowReader(process, get(place)) as reader:
        assert await reader.rest() == whole
    before = process.peak_bytes()
    async with contextlib.AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(SlowReader(process, get(place))) for _ in range(READERS)]
        held = await stalled(process)
        assert held["projector_stream_readers"] == READERS
        assert held["projector_memory_held_bytes"] <= READERS * HELD_BYTES
        assert process.peak_bytes() - before <= PEAK_BYTES
        for reader in readers[:2]:
            assert await reader.rest() == whole
    assert process.peak_bytes() - before <= PEAK_BYTES


async def test_slow_first_readers_have_bounded_memory(process: Process) -> None:
    _, whole = await produced(process)
    before = process.peak_bytes()
    async with contextlib.AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(SlowReader(process, chat())) for _ in range(READERS)]
        held = await stalled(process)
        assert held["projector_streams_active"] == READERS
        assert held["projector_memory_held_bytes"] <= READERS * MIB
        assert process.peak_bytes() - before <= PEAK_BYTES + WAITING_MAX_BYTES
        rests = await asyncio.gather(*(reader.rest() for reader in readers[:2]))
        assert all(len(rest) == len(whole) and b'"completed"' in rest[-4_096:] for rest in rests)
