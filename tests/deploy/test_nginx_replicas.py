"""deploy/nginx-replicas.conf, run by a real nginx in front of two server processes with one Redis, or a cluster.

The two servers are those of deploy/compose-replicas.yaml, deploy/kubernetes.yaml and deploy/compose-cluster.yaml, with
their own commands and configurations, and Redis has the options and the scripts of the files. Only addresses, ports and
folders differ.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import subprocess
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest
from redis.crc import key_slot

from bench.redis_cluster import RedisCluster
from bench.redis_server import RedisServer
from projector.store.redis_servers import tag_of
from tests.asgi.conftest import Answer, Peer, frames_of
from tests.asgi.process import SERVE, Process
from tests.asgi.process import running as serving
from tests.deploy import test_manifests as manifests
from tests.deploy.browser import CREATED, ENDED, delta
from tests.deploy.front import REPLICAS, put, running, take_out

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
        """Begin a stream; return its location and what came up to the first delta, in whole frames."""
        self.first = await self.ask("POST", "/api/v1/chat/stream", BODY)
        assert self.first.status == HTTPStatus.OK
        begun = b""
        while b"message.delta" not in begun or not begun.endswith(b"\n\n"):
            begun += await self.first.chunk()
        return self.first.headers["location"], begun

    def leave(self) -> None:
        """Break off the last request."""
        self._process.leave()


def of_compose(folder: Path, redis_url: str, compose: Any = manifests.REPLICAS) -> list[str]:
    """Write what a server of deploy/compose-replicas.yaml has mounted; return its command."""
    service = compose["services"]["projector-1"]
    text = compose["configs"]["projector"]["content"].replace("$$", "$")
    (url,) = re.findall(r'url = "(redis:[^"]+)"', text)
    (folder / "projector.toml").write_text(put(text, url, redis_url), encoding="utf-8")
    return list(service["command"])


def of_cluster(folder: Path, redis_url: str) -> list[str]:
    """Write what a server of deploy/compose-cluster.yaml has mounted; return its command."""
    return of_compose(folder, redis_url, manifests.CLUSTER)


def of_kubernetes(folder: Path, redis_url: str) -> list[str]:
    """Write what a pod of deploy/kubernetes.yaml has mounted; return its command."""
    mounts = {mount["name"]: mount["mountPath"] for mount in manifests.CONTAINER["volumeMounts"]}
    for name, text in manifests.KUBERNETES["ConfigMap"]["data"].items():
        moved = text.replace(mounts["secrets"], str(folder)).replace("port = 9000", "port = 0")
        (folder / name).write_text(moved, encoding="utf-8")
    (folder / "openai-api-key").write_text("sk-test", encoding="utf-8")
    (folder / "redis-url").write_text(redis_url, encoding="utf-8")
    return list(manifests.CONTAINER["args"])


def single(program: Callable[[str], str], folder: Path) -> RedisServer:
    """Return Redis as deploy/compose-replicas.yaml has it."""
    options = manifests.REPLICAS["services"]["redis"]["command"][1:]
    return RedisServer(program("redis-server"), folder, options)


class Deployed(RedisCluster):
    """The Redis Cluster of deploy/kubernetes-cluster.yaml; that of deploy/compose-cluster.yaml has the same options."""

    def join(self) -> None:
        """Run the scripts of both files: the first one creates the cluster, the second one finds it."""
        (script,) = manifests.CLUSTER["services"]["redis-create"]["command"][2:]
        for text, first in ((manifests.PODS_OF_REDIS["ConfigMap"]["data"]["create.sh"], 0), (script, 1)):
            for number, server in enumerate(self.servers, first):
                name = rf"redis-{number}(\.redis)?"
                text = re.sub(rf"-h {name} -p 6379", f"-h 127.0.0.1 -p {server.port}", text)  # noqa: PLW2901 - of a copy
                text = re.sub(rf"{name}:6379", f"127.0.0.1:{server.port}", text)  # noqa: PLW2901 - the same
            assert "redis-cli" in text
            assert "6379" not in text
            subprocess.run(["/bin/sh", "-ec", text], check=True, stdout=subprocess.DEVNULL, timeout=240)


def cluster(program: Callable[[str], str], folder: Path) -> Deployed:
    """Return the cluster."""
    programs = program("redis-server"), program("redis-cli")
    return Deployed(*programs, folder / "redis", options=manifests.redis_options())


@pytest.mark.parametrize(("mounted", "stored"), [(of_compose, single), (of_kubernetes, single), (of_cluster, cluster)])
async def test_two_servers_behind_one_address(
    nginx: str,
    program: Callable[[str], str],
    tmp_path: Path,
    upstream: Any,
    upstream_port: int,
    mounted: Callable[[Path, str], list[str]],
    stored: Callable[[Callable[[str], str], Path], RedisServer | Deployed],
) -> None:
    has_left, may_end = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        """Begin an answer, and complete the first one, once its client has left; the second one is cancelled."""
        ended = {1: has_left, 2: peer.gone}.get(provider.peers.qsize(), may_end)
        await peer.start()
        for event in (CREATED, delta("Hello")):
            await peer.event(event)
        await ended.wait()
        for event in (delta(" again"), ENDED):
            await peer.event(event)
        await peer.end()

    provider = await upstream(script)
    with stored(program, tmp_path) as redis:
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
            begun = [(await front.begin(), front.first) for _ in range(4)]
            await take_out(nginx, tmp_path, one.port)
            await leave(front, one, begun, may_end)
            if isinstance(redis, Deployed):
                await restart(redis, front, begun[0][0][0])


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


async def leave(
    front: Front, leaving: Process, begun: list[tuple[tuple[str, bytes], Answer]], may_end: asyncio.Event
) -> None:
    """End a server that has some of the streams: neither their clients nor those that come back notice."""
    leaving.stop()
    while " 503 " not in (await leaving.get("/readyz")).partition("\r\n")[0]:  # noqa: ASYNC110 - it is in another process
        await asyncio.sleep(0.02)
    readers = [await front.ask("GET", f"{location}/events?after=1") for (location, _), _ in begun for _ in range(2)]
    more = await front.begin(), front.first
    assert {reader.status for reader in readers} == {HTTPStatus.OK}
    assert leaving.process.returncode is None
    may_end.set()
    wholes = [frames_of(start + await answer.rest()) for (_, start), answer in [*begun, more]]
    for frames in wholes:
        assert [frame["event_id"] for frame in frames] == [*range(1, len(frames) + 1)]
        assert [frame["final"]["status"] for frame in frames if "final" in frame] == ["completed"]
    assert [frames_of(await reader.rest()) for reader in readers] == [wholes[at // 2][1:] for at in range(len(readers))]
    assert await asyncio.wait_for(leaving.process.wait(), 240) == 0


async def restart(servers: Deployed, front: Front, location: str) -> None:
    """Restart the Redis server that has a stream as a platform does it: the stream is still there."""
    whole = await (await front.ask("GET", f"{location}/events")).rest()
    owner = servers.owner(key_slot(tag_of(location.rpartition("/")[2]).encode()))
    await asyncio.to_thread(owner.stop)
    owner.start()
    while (again := await front.ask("GET", f"{location}/events")).status == HTTPStatus.SERVICE_UNAVAILABLE:  # noqa: ASYNC110 - it is in another process
        await asyncio.sleep(0.2)
    assert again.status == HTTPStatus.OK
    assert await again.rest() == whole


async def cancelled(front: Front, location: str) -> Answer:
    """Cancel a stream; on a busy machine Redis may not answer in time, which is 503."""
    for _ in range(20):
        answer = await front.ask("POST", f"{location}/cancel")
        if answer.status != HTTPStatus.SERVICE_UNAVAILABLE:
            break
        await asyncio.sleep(0.5)
    return answer
