"""A thousand clients disconnect from a real server at random moments; afterwards the server holds no resources."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from pathlib import Path
from typing import Any

import pytest

from projector.server.config.settings import Settings
from projector.server.listening import raise_file_limit
from tests.asgi.conftest import abort, request_bytes
from tests.asgi.process import COUNTING, SERVE, Process, running
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="open files are counted where Linux lists them"
)

CLIENTS = 1000
AT_ONCE = 100
LEAVES_WITHIN_S = 0.3
"""Seconds, longer than most streams."""
STAYS = 0.1
CUTS = 0.1
RESETS = 0.5
"""Probabilities: read to the end, disconnect after half a request, disconnect with a reset."""
SETTLES_S = 60.0
CREATED = {"type": "response.created", "response": {"id": "r", "status": "in_progress"}}
DELTA = {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": "a" * 100}
DONE = {"type": "response.completed", "response": {"id": "r", "status": "completed"}}
GAUGES = ("projector_streams_active", "projector_upstream_open", "projector_memory_held_bytes")


def provider(chance: random.Random) -> Any:
    """Return a script that stalls before the head, the first byte, the events and the end of its response."""

    async def script(peer: Any) -> None:
        await asyncio.sleep(chance.random() / 10)
        await peer.start()
        await asyncio.sleep(chance.random() / 20)
        await peer.event(CREATED)
        for _ in range(10):
            await asyncio.sleep(chance.random() / 50)
            await peer.event(DELTA)
        await peer.event(DONE)
        await peer.end()

    return script


async def visit(port: int, chance: random.Random) -> None:
    """Send a request and disconnect at a random moment in a random way; one in ten reads to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = request_bytes("/api/v1/chat/stream", {"message": "hello"}, connection="close")
    if chance.random() < STAYS:
        writer.write(request)
        assert (await reader.read()).count(b'"kind":"final"') == 1
    else:
        writer.write(request[: chance.randrange(1, len(request))] if chance.random() < CUTS else request)
        await asyncio.sleep(chance.random() * LEAVES_WITHIN_S)
        if chance.random() < RESETS:
            abort(writer)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def settled(server: Process, files: int, tasks: int) -> tuple[dict[str, float], int, int]:
    """Return gauges, and numbers of additional open files and tasks, once they are back to normal or time is up."""
    deadline = time.monotonic() + SETTLES_S
    while True:
        gauges = {name: value for name, value in (await server.gauges()).items() if name in GAUGES}
        more_files, more_tasks = server.open_files() - files, await server.tasks() - tasks
        if time.monotonic() > deadline or not (any(gauges.values()) or more_files > 0 or more_tasks > 0):
            return gauges, more_files, more_tasks
        await asyncio.sleep(0.05)


async def test_a_thousand_disconnects_leave_nothing_behind(upstream: Any, upstream_port: int) -> None:
    chance = random.Random(1)
    raise_file_limit(Settings())
    scripted = await upstream(provider(chance))
    environ = {"OPENAI_BASE_URL": f"http://127.0.0.1:{upstream_port}/v1", "OPENAI_API_KEY": "sk-test"}
    async with running(COUNTING + SERVE, 1, **environ) as server:
        warm = await server.stream()
        assert b'"kind":"final"' in await warm.read()
        await settled(server, server.open_files(), await server.tasks())
        files, tasks = server.open_files(), await server.tasks()

        gate = asyncio.Semaphore(AT_ONCE)

        async def come() -> None:
            async with gate:
                await visit(server.port, chance)

        await asyncio.gather(*(come() for _ in range(CLIENTS)))
        gauges, more_files, more_tasks = await settled(server, files, tasks)
        assert gauges == dict.fromkeys(GAUGES, 0.0)
        assert (more_files <= 0, more_tasks <= 0) == (True, True)
        await wait_until(lambda: not scripted.serving)
        assert b'"kind":"final"' in await (await server.stream()).read()
