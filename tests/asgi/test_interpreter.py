"""Garbage of the server: streams leave none, and full collections do not run while there are many objects."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from projector.server.interpreter import FEW_STREAMS_BYTES, MANY_REQUESTS, SOME_REQUESTS, Collector
from tests.asgi.conftest import Peer
from tests.asgi.process import COLLECTING, SERVE, Process, running

STREAMS = 20
OPEN = ("streams_active", "upstream_open")


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """The generations that were collected."""
    found: list[int] = []

    def on_collection(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            found.append(about["generation"])

    gc.callbacks.append(on_collection)
    yield found
    gc.callbacks.remove(on_collection)


@pytest.mark.parametrize(
    ("requests", "held_bytes", "expected"),
    [
        (SOME_REQUESTS - 1, 0, 0),
        (SOME_REQUESTS, FEW_STREAMS_BYTES, 1),
        (MANY_REQUESTS - 1, FEW_STREAMS_BYTES + 1, 0),
        (MANY_REQUESTS, FEW_STREAMS_BYTES + 1, 1),
    ],
)
def test_when_all_objects_are_collected(
    requests: int, held_bytes: int, expected: int, collections: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "collect", lambda: collections.append(3))
    collector = Collector()
    for _ in range(3):
        collector.tick(requests, held_bytes)
    assert collections.count(3) == expected


async def completes(peer: Peer) -> None:
    """Answer with a short text."""
    await peer.start()
    await peer.event({"type": "response.created", "response": {"id": "r", "status": "in_progress"}})
    await peer.event({"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": "a"})
    await peer.event({"type": "response.completed", "response": {"id": "r", "status": "completed"}})
    await peer.end()


async def malformed(peer: Peer) -> None:
    """Answer with something that is no JSON."""
    await peer.start()
    await peer.chunk(b"data: {\n\n")
    await peer.end()


async def many_items(peer: Peer) -> None:
    """Answer with more items than one stream may have."""
    await peer.start()
    for at in range(3_000):
        item = {"type": "message", "id": f"m{at}"}
        await peer.event({"type": "response.output_item.added", "output_index": at, "item": item})
    await peer.end()


async def waits(peer: Peer) -> None:
    """Begin an answer."""
    await peer.start()
    await peer.event({"type": "response.created", "response": {"id": "r", "status": "in_progress"}})
    await peer.gone.wait()


async def read(server: Process) -> None:
    """Read one stream to its end."""
    await (await server.stream()).read()


async def leave(server: Process) -> None:
    """Disconnect after the first event."""
    await (await server.stream()).readuntil(b"\n\n")
    server.leave()


@pytest.mark.parametrize(
    ("script", "visit", "most"),
    [
        (completes, read, 0),
        (malformed, read, 0),
        (many_items, read, 50),  # aiohttp's exception of a connection that is closed early
        (waits, leave, 50),  # anyio's exceptions of cancelled tasks
    ],
)
async def test_streams_leave_no_garbage(upstream: Any, upstream_port: int, script: Any, visit: Any, most: int) -> None:
    """What a stream leaves in cycles is kept until a full collection, which holds the event loop."""
    await upstream(script)
    environ = {"PROJECTOR_BASE_URL": f"http://127.0.0.1:{upstream_port}/v1", "PROJECTOR_RETRIES__MAX": "0"}
    async with running(COLLECTING + SERVE, 1, **environ) as server:
        for _ in range(3):
            await visit(server)  # what is imported and compiled once
        await is_quiet(server)
        await server.garbage()
        for _ in range(STREAMS):
            await visit(server)
        await is_quiet(server)
        assert await server.garbage() <= most * STREAMS + 20  # a few of the request for metrics


async def is_quiet(server: Process) -> None:
    """Wait until no stream is open."""
    while sum([(await server.gauges())[f"projector_{name}"] for name in OPEN]):  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.01)
