"""HTTP/2 of curl to deploy/nginx.conf, in front of a real server: each kind of response in each way to negotiate."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.asgi.certificates import Authority
from tests.deploy.browser import CREATED, ENDED, delta
from tests.deploy.front import TLS_LINES, Ports, running
from tests.waiting import wait_until


class Way(NamedTuple):
    """How curl asks for HTTP/2."""

    option: str
    port: str
    version: str
    """The version that is used."""


WAYS = {
    "tls": Way("--http2", "tls", "2"),
    "prior-knowledge": Way("--http2-prior-knowledge", "h2c", "2"),
    "upgrade": Way("--http2", "plain", "1.1"),  # nginx ignores the offer
}
AG_UI = {"threadId": "t", "runId": "r", "state": None, "tools": [], "context": [], "forwardedProps": None}
SETTINGS: dict[str, Any] = {"heartbeat_s": 0.2, "api_key": None, "base_url": None}


class Curl:
    """curl with one of the ways, to an nginx."""

    def __init__(self, program: str, way: Way, ports: Ports, ca_file: Path) -> None:
        self._program = program
        self._options = ("-sS", "-N", way.option, "--cacert", str(ca_file))
        self._base = f"{'https' if way.port == 'tls' else 'http'}://localhost:{getattr(ports, way.port)}"

    @contextlib.asynccontextmanager
    async def post(self, path: str, body: object, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Send a request; curl ends with the response, or is killed at the end of the block."""
        process = await asyncio.create_subprocess_exec(
            *(self._program, *self._options, *options, "-H", "content-type: application/json", "-H", "expect:"),
            *("--data-binary", "@-", self._base + path),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**24,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(body).encode())
        process.stdin.close()
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def ask(self, path: str, body: object) -> tuple[bytes, str]:
        """Return the body of a response, and its status and version."""
        async with self.post(path, body, "-w", "\n%{http_code} %{http_version}") as process:
            output, _ = await process.communicate()
        text, _, about = output.rpartition(b"\n")
        return text, about.decode()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("http2"))


@pytest.fixture
def site(serve: Any, upstream_port: int) -> Any:
    one = {"base_url": f"http://localhost:{upstream_port}/v1", "api_key": "sk-test"}
    agents = {
        "default": {"upstream": "one", "model": "m"},
        "desk": {"upstream": "one", "model": "m", "dialects": ["ag_ui"]},
    }
    return serve(**SETTINGS, upstreams={"one": one}, agents=agents, passthrough={"responses": "one"})


@pytest.fixture(params=WAYS)
async def way(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


@pytest.fixture
async def front(
    way: Way, nginx: str, curl: str, authority: Authority, site: Any, tmp_path: Path
) -> AsyncGenerator[Curl, None]:
    certificate = authority.issue("site")
    async with running(nginx, tmp_path, site.port, certificate=certificate) as ports:
        yield Curl(curl, way, ports, authority.file)


async def completes(peer: Any) -> None:
    await peer.start()
    await peer.event(CREATED)
    await peer.event(delta("a"))
    await peer.event(ENDED)
    await peer.end()


async def waits(peer: Any) -> None:
    await peer.start()
    await peer.event(CREATED)
    await peer.gone.wait()


async def read_until(stream: asyncio.StreamReader, part: bytes) -> None:
    """Read frames up to the first one with `part`: on a busy machine heartbeats come before it."""
    while part not in await stream.readuntil(b"\n\n"):
        pass


def test_the_file_has_the_lines() -> None:
    names = [line.split()[0] for line in TLS_LINES]
    assert names == ["#listen", "#ssl_certificate", "#ssl_certificate_key", "#ssl_protocols"]


@pytest.mark.parametrize(
    ("path", "body", "part"),
    [
        pytest.param("/api/v1/chat/stream", {"message": "hello"}, b'"kind":"final"', id="stream"),
        pytest.param("/v1/responses", {"model": "m", "input": "hello"}, b'"status":"completed"', id="json"),
        pytest.param(
            "/v1/responses",
            {"model": "m", "input": "hello", "stream": True},
            b"event: response.completed",
            id="stream-of-the-api",
        ),
        pytest.param(
            "/api/v1/ag-ui/desk",
            {**AG_UI, "messages": [{"id": "1", "role": "user", "content": "hello"}]},
            b'"type":"RUN_FINISHED"',
            id="ag-ui",
        ),
        pytest.param("/v1/responses", {"model": "m", "input": "x" * 4_000_000}, b'"completed"', id="large-body"),
    ],
)
async def test_a_response(way: Way, front: Curl, upstream: Any, path: str, body: object, part: bytes) -> None:
    await upstream(completes)
    text, about = await front.ask(path, body)
    assert part in text
    assert about == f"200 {way.version}"


async def test_a_refusal(way: Way, front: Curl) -> None:
    text, about = await front.ask("/api/v1/chat/stream", {"message": 1})
    assert json.loads(text)["code"] == "invalid_request"
    assert about == f"422 {way.version}"


async def test_heartbeats_and_frames_arrive_at_once(front: Curl, upstream: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event(CREATED)
        await has_heartbeat.wait()
        await peer.event(ENDED)
        await peer.end()

    has_heartbeat = asyncio.Event()
    await upstream(script)
    async with front.post("/api/v1/chat/stream", {"message": "hello"}) as process:
        assert process.stdout is not None
        await read_until(process.stdout, b'"kind":"lifecycle"')
        assert (await process.stdout.readuntil(b"\n\n")).startswith(b": heartbeat")
        has_heartbeat.set()
        assert b'"kind":"final"' in await process.stdout.read()


async def test_a_client_that_disconnects_frees_the_upstream(front: Curl, upstream: Any, site: Any) -> None:
    provider = await upstream(waits)
    async with front.post("/api/v1/chat/stream", {"message": "hello"}) as process:
        assert process.stdout is not None
        await read_until(process.stdout, b'"kind":"lifecycle"')
    peer = await provider.peers.get()
    await asyncio.wait_for(peer.gone.wait(), 60)
    assert await site.is_quiet()


async def test_a_stream_that_is_reset_frees_its_upstream_only(
    nginx: str, curl: str, authority: Authority, site: Any, upstream: Any, tmp_path: Path
) -> None:
    """Two streams on one connection; curl gives up the second one."""
    provider = await upstream(waits)
    async with running(nginx, tmp_path, site.port, certificate=authority.issue("site")) as ports:
        url = f"https://localhost:{ports.tls}/api/v1/chat/stream"
        one = ("-sS", "-N", "--http2", "--cacert", str(authority.file), "-H", "content-type: application/json")
        body = ("-d", '{"message": "hello"}', "-w", "\n%{http_version} %{num_connects}\n", url)
        command = (curl, "--parallel", *one, *body, "--next", "--max-time", "3", *one, *body)
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        assert process.stdout is not None
        try:
            first, second = await provider.peers.get(), await provider.peers.get()
            await wait_until(lambda: first.gone.is_set() or second.gone.is_set())
            assert first.gone.is_set() != second.gone.is_set()
            await wait_until(lambda: site.streams.active == 1)
            # The second stream used the connection of the first; curl holds this line until the next heartbeat.
            await process.stdout.readuntil(b"\n2 0\n")
            assert first.gone.is_set() != second.gone.is_set()
            assert process.returncode is None
        finally:
            process.kill()
            await process.communicate()
    assert await site.is_quiet()
