"""deploy/nginx-replicas.conf, run by a real nginx in front of two server processes with one Redis."""

from __future__ import annotations

import asyncio
import os
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.asgi.conftest import Answer, Peer, frames_of
from tests.asgi.process import SERVE, Process
from tests.asgi.process import running as serving
from tests.deploy.browser import CREATED, delta
from tests.deploy.front import REPLICAS, running

BODY = '{"message":"hello"}'


class Front:
    """nginx, as a client sees it."""

    def __init__(self, process: Process, port: int) -> None:
        self._process = process
        self._port = port

    async def ask(self, method: str, path: str, body: str = "") -> Answer:
        """Send a request; return its answer after its head is read."""
        head = f"{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n"
        if body:
            head += "content-type: application/json\r\n"
        reader = await self._process.connect(f"{head}content-length: {len(body)}\r\n\r\n{body}", port=self._port)
        answer = Answer(reader, None)  # type: ignore[arg-type]  # the process closes it
        await answer.read_head()
        return answer


async def silent(peer: Peer) -> None:
    """Begin an answer, and never end it."""
    await peer.start()
    for event in (CREATED, delta("Hello")):
        await peer.event(event)
    await peer.gone.wait()


async def test_two_servers_behind_one_address(
    nginx: str, redis_server: Any, tmp_path: Path, upstream: Any, upstream_port: int
) -> None:
    provider = await upstream(silent)
    environ = {
        "OPENAI_API_KEY": "sk-test",
        "PROJECTOR_BASE_URL": f"http://localhost:{upstream_port}/v1",
        "PROJECTOR_STORE__KIND": "redis",
        "PROJECTOR_STORE__URL": redis_server.url,
        "PROJECTOR_STORE__PREFIX": f"test-{os.urandom(4).hex()}:",
    }
    async with (
        serving(SERVE, 1, **environ) as one,
        serving(SERVE, 1, **environ) as other,
        running(nginx, tmp_path, one.port, other.port, snippet=REPLICAS) as ports,
    ):
        front = Front(one, ports.plain)
        first = await front.ask("POST", "/api/v1/chat/stream", BODY)
        assert first.status == 200
        begun = b""
        while b"message.delta" not in begun:
            begun += await first.chunk()
        location = first.headers["location"]
        for process in (one, other):  # both know it
            while "200 OK" not in await process.get(location):  # noqa: ASYNC110 - in another process
                await asyncio.sleep(0.02)
        readers = [await front.ask("GET", f"{location}/events") for _ in range(4)]  # by turns: two at each server
        later = await front.ask("GET", f"{location}/events?after=1")
        assert {reader.status for reader in readers} == {200}
        cancels = [await cancelled(front, location) for _ in range(2)]
        assert [cancel.status for cancel in cancels] == [204, 204]
        whole = frames_of(begun + await first.rest())
        assert whole[-1]["final"]["status"] == "cancelled"
        for reader in readers:
            assert frames_of(await reader.rest()) == whole
        assert frames_of(await later.rest()) == whole[1:]
        assert provider.peers.qsize() == 1


async def cancelled(front: Front, location: str) -> Answer:
    """Cancel a stream; on a busy machine Redis may not answer in time, which is 503."""
    for _ in range(20):
        answer = await front.ask("POST", f"{location}/cancel")
        if answer.status != HTTPStatus.SERVICE_UNAVAILABLE:
            break
        await asyncio.sleep(0.5)
    return answer
