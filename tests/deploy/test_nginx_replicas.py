"""deploy/nginx-replicas.conf, run by a real nginx in front of two server processes with one Redis.

The two servers are once those of deploy/compose-replicas.yaml, and once those of deploy/kubernetes.yaml, with their own
commands and configurations, and the options that Redis has in the former. Only addresses, ports and
folders differ.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest

from bench.redis_server import RedisServer
from tests.asgi.conftest import Answer, Peer, frames_of
from tests.asgi.process import SERVE, Process
from tests.asgi.process import running as serving
from tests.deploy import test_manifests as manifests
from tests.deploy.browser import CREATED, ENDED, delta
from tests.deploy.front import REPLICAS, put, running

KEY: Final = "sk-projector-frontend"
BODY = '{"message":"hello"}'


class Front:
    """nginx, as a client sees it."""

    def __init__(self, process: Process, port: int) -> None:
        self._process = process
        self._port = port

    async def ask(self, method: str, path: str, body: str = "") -> Answer:
        """Send a request; return its answer after its head is read."""
        head = f"{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer {KEY}\r\n"
        if body:
            head += "content-type: application/json\r\n"
        reader = await self._process.connect(f"{head}content-length: {len(body)}\r\n\r\n{body}", port=self._port)
        answer = Answer(reader, None)  # type: ignore[arg-type]  # the process closes it
        await answer.read_head()
        return answer

    async def begin(self) -> tuple[str, bytes]:
        """Begin a stream; return its location and what came up to the first delta."""
        self.first = await self.ask("POST", "/api/v1/chat/stream", BODY)
        assert self.first.status == HTTPStatus.OK
        begun = b""
        while b"message.delta" not in begun:
            begun += await self.first.chunk()
        return self.first.headers["location"], begun

    def leave(self) -> None:
        """Break off the last request."""
        self._process.leave()


def of_compose(folder: Path, redis_url: str) -> list[str]:
    """Write what a server of deploy/compose-replicas.yaml has mounted; return its command."""
    service = manifests.REPLICAS["services"]["projector-1"]
    text = manifests.REPLICAS["configs"]["projector"]["content"].replace("$$", "$")
    (folder / "projector.toml").write_text(put(text, "redis://redis:6379/0", redis_url), encoding="utf-8")
    return list(service["command"])


def of_kubernetes(folder: Path, redis_url: str) -> list[str]:
    """Write what a pod of deploy/kubernetes.yaml has mounted; return its command."""
    mounts = {mount["name"]: mount["mountPath"] for mount in manifests.CONTAINER["volumeMounts"]}
    for name, text in manifests.KUBERNETES["ConfigMap"]["data"].items():
        moved = text.replace(mounts["secrets"], str(folder)).replace("port = 9000", "port = 0")
        (folder / name).write_text(moved, encoding="utf-8")
    (folder / "openai-api-key").write_text("sk-test", encoding="utf-8")
    (folder / "redis-url").write_text(redis_url, encoding="utf-8")
    return list(manifests.CONTAINER["args"])


@pytest.mark.parametrize("mounted", [of_compose, of_kubernetes])
async def test_two_servers_behind_one_address(
    nginx: str,
    program: Callable[[str], str],
    tmp_path: Path,
    upstream: Any,
    upstream_port: int,
    mounted: Callable[[Path, str], list[str]],
) -> None:
    has_left = asyncio.Event()

    async def script(peer: Peer) -> None:
        """Begin an answer, and complete the first one, once its client has left."""
        is_first = not provider.peers.empty() and provider.peers.qsize() == 1
        await peer.start()
        for event in (CREATED, delta("Hello")):
            await peer.event(event)
        await (has_left if is_first else peer.gone).wait()
        for event in (delta(" again"), ENDED):
            await peer.event(event)
        await peer.end()

    provider = await upstream(script)
    options = manifests.REPLICAS["services"]["redis"]["command"][1:]
    with RedisServer(program("redis-server"), tmp_path, options) as redis:
        command = [word.replace("/etc/projector", str(tmp_path)) for word in mounted(tmp_path, redis.url)]
        code = SERVE.replace("['serve', '--port', '0']", repr([*command[1:-1], "--port=0"]))
        environ = {
            "OPENAI_API_KEY": "sk-test",
            "FRONTEND_KEY_SHA256": f"sha256:{hashlib.sha256(KEY.encode()).hexdigest()}",
            "PROJECTOR_UPSTREAMS__OPENAI__BASE_URL": f"http://localhost:{upstream_port}/v1",
        }
        async with (
            serving(code, 1, **environ) as one,
            serving(code, 1, **environ) as other,
            running(nginx, tmp_path, one.port, other.port, snippet=REPLICAS) as ports,
        ):
            front = Front(one, ports.plain)
            await come_back(front, has_left)
            await read_and_cancel(front)
            assert provider.peers.qsize() == 2


async def come_back(front: Front, has_left: asyncio.Event) -> None:
    """Break off a stream, and read the rest of it at both servers."""
    location, begun = await front.begin()
    front.leave()
    has_left.set()
    seen = frames_of(begun)
    for _ in range(4):  # by turns: two at each server
        later = await front.ask("GET", f"{location}/events?after={len(seen)}")
        frames = [*seen, *frames_of(await later.rest())]
        assert [frame["event_id"] for frame in frames] == [*range(1, len(frames) + 1)]
        assert "".join(frame.get("delta", "") for frame in frames) == "Hello again"
        assert [frame["final"]["status"] for frame in frames if "final" in frame] == ["completed"]


async def read_and_cancel(front: Front) -> None:
    """Read a stream at both servers while it is written, and cancel it at both."""
    location, begun = await front.begin()
    readers = [await front.ask("GET", f"{location}/events") for _ in range(4)]
    later = await front.ask("GET", f"{location}/events?after=1")
    assert {reader.status for reader in readers} == {HTTPStatus.OK}
    assert [(await cancelled(front, location)).status for _ in range(2)] == [HTTPStatus.NO_CONTENT] * 2
    whole = frames_of(await readers[0].rest())
    assert whole[-1]["final"]["status"] == "cancelled"
    assert frames_of(begun + await front.first.rest()) == whole
    for reader in readers[1:]:
        assert frames_of(await reader.rest()) == whole
    assert frames_of(await later.rest()) == whole[1:]


async def cancelled(front: Front, location: str) -> Answer:
    """Cancel a stream; on a busy machine Redis may not answer in time, which is 503."""
    for _ in range(20):
        answer = await front.ask("POST", f"{location}/cancel")
        if answer.status != HTTPStatus.SERVICE_UNAVAILABLE:
            break
        await asyncio.sleep(0.5)
    return answer
