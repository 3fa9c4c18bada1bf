"""A real uvicorn in a thread, a scripted upstream on a real socket, and a client that reads raw bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
import structlog

from bench.redis_server import free_port
from projector.core.sse import encode_sse
from projector.server.config.settings import Settings
from projector.server.listening import listen, listen_admin
from projector.server.process import DrainingServer, server
from projector.server.streaming.registry import Streams
from projector.server.telemetry.logs import log

EXAMPLES = Path(__file__).parents[2] / "examples_ndjson" / "openai_responses"
SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
)

QUIET_S = 60.0
PATIENT: Final = {"circuit_breaker": {"failures": 0}, "retries": {"budget_share": 10}}
"""Settings of servers that many tests share, most of which make requests fail."""
KEPT, KEPT_AT_MOST = 4, 12
"""Servers that stay for the tests after, and the number beyond which others are stopped: each one takes time from what
runs beside it, and to stop some together takes as long as one, a fifth of a second."""


def abort(writer: asyncio.StreamWriter) -> None:
    """Close with a reset instead of an end."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


class Peer:
    """One request at the scripted upstream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.head = b""
        self.body: dict[str, Any] = {}
        self.gone = asyncio.Event()  # the other side closed
        self.may_reset = asyncio.Event()  # for scripts that wait for the test

    async def read_request(self) -> bool:
        try:
            self.head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return False
        length = int(self.header(b"content-length") or 0)
        self.body = json.loads(await self._reader.readexactly(length)) if length else {}
        return True

    def header(self, name: bytes) -> bytes | None:
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.lower() == name:
                return value.strip()
        return None

    async def watch(self) -> None:
        with contextlib.suppress(OSError):
            await self._reader.read()
        self.gone.set()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def start(self) -> None:
        await self.send(SSE_HEAD)

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(self, event: dict[str, Any]) -> None:
        await self.chunk(encode_sse(json.dumps(event).encode()))

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    def reset(self) -> None:
        abort(self.writer)


Script = Callable[[Peer], Awaitable[None]]


def plays(events: Iterable[dict[str, Any]], *, ends: bool = True) -> Script:
    """Return a script that sends some events; a response without an end stays open until the other side closes it."""

    async def script(peer: Peer) -> None:
        await peer.start()
        for event in events:
            await peer.event(event)
        await (peer.end() if ends else peer.gone.wait())

    return script


class ScriptedUpstream:
    """Answers each request by a script; remembers the requests."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.peers: asyncio.Queue[Peer] = asyncio.Queue()
        self.serving: set[asyncio.Task[None]] = set()

    def on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._serve(reader, writer))
        self.serving.add(serving)
        serving.add_done_callback(self.serving.discard)
        serving.add_done_callback(lambda _: writer.transport.abort())  # also if it is cancelled before it begins

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        watching = None
        try:
            if await peer.read_request():
                watching = asyncio.create_task(peer.watch())
                self.peers.put_nowait(peer)
                await self._script(peer)
        except OSError:
            peer.gone.set()
        except asyncio.CancelledError:
            writer.transport.abort()  # do not wait for unsent data
            raise
        finally:
            if watching is not None:
                watching.cancel()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


class Answer:
    """One response, read from the socket as it comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}

    async def read_head(self) -> None:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    async def chunk(self) -> bytes:
        """Return one HTTP chunk; empty at the end."""
        length = int(await self._reader.readuntil(b"\r\n"), 16)
        return (await self._reader.readexactly(length + 2))[:-2]

    async def rest(self) -> bytes:
        if "content-length" in self.headers:
            return await self._reader.readexactly(int(self.headers["content-length"]))
        parts = []
        while part := await self.chunk():
            parts.append(part)
        return b"".join(parts)

    async def problem(self) -> dict[str, Any]:
        assert self.headers["content-type"] == "application/problem+json"
        return json.loads(await self.rest())

    async def openai_error(self) -> dict[str, Any]:
        assert self.headers["content-type"] == "application/json"
        document = json.loads(await self.rest())
        assert document.keys() == {"error"}
        assert document["error"].keys() == {"message", "type", "param", "code"}
        return document["error"]

    async def error_code(self) -> str:
        """Return the code of an error, in either form."""
        is_problem = self.headers["content-type"] == "application/problem+json"
        return (await (self.problem() if is_problem else self.openai_error()))["code"]

    async def frames(self) -> list[dict[str, Any]]:
        return frames_of(await self.rest())

    def leave(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        abort(self._writer)

    def stop_reading(self) -> None:
        self._writer.transport.pause_reading()

    async def closed(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


T = TypeVar("T")


async def in_time(ask: Callable[[], Awaitable[T]]) -> T:
    """Repeat a request that a server with a short time limit has cut off, because this process was late itself."""
    for _ in range(9):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            return await ask()
    return await ask()


def frames_of(data: bytes) -> list[dict[str, Any]]:
    messages = [message for message in data.split(b"\n\n") if message and not message.startswith(b":")]
    return [json.loads(message.partition(b"data: ")[2]) for message in messages]


def request_bytes(path: str, body: object, *, version: str = "1.1", **headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"host": "test", "content-type": "application/json", "content-length": str(len(data))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"POST {path} HTTP/{version}", *(f"{name}: {value}" for name, value in fields.items() if value)]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


class Site:
    """A running server."""

    def __init__(self, settings: Settings, *, demo: bool) -> None:
        listener = listen(settings)
        self.port: int = listener.getsockname()[1]
        self._server: DrainingServer = server(settings, demo=demo)
        self._server.admin_listener = admin = listen_admin(settings.admin)
        self.admin_port: int | None = None if admin is None else admin.getsockname()[1]
        self.trusted: ssl.SSLContext | None = None
        """Context of clients, for a server with TLS."""
        self.state: Any = self._server.config.app.state
        """State of the application at the start."""
        self.streams: Streams = self.state.streams
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, daemon=True)
        self._thread.start()
        self.answers: list[Answer] = []

    @property
    def connections(self) -> set[Any]:
        """The protocols of the open connections."""
        return set(self._server.server_state.connections)

    def leave(self) -> None:
        """Tell the server to stop. Idempotent: a second signal would end the drain."""
        if not self._server.should_exit:
            self._server.handle_exit(signal.SIGTERM, None)

    def stop(self) -> None:
        self.leave()
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()

    async def connect(self, port: int | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host = "127.0.0.1" if self.trusted is None else "localhost"
        return await asyncio.open_connection(host, port or self.port, limit=2**24, ssl=self.trusted)

    async def post(self, path: str = "/api/v1/chat/stream", body: object = None, **headers: str) -> Answer:
        """Send a request; return its answer before its head is read."""
        reader, writer = await self.connect()
        writer.write(request_bytes(path, {"message": "hello"} if body is None else body, **headers))
        self.answers.append(Answer(reader, writer))
        return self.answers[-1]

    async def ask(self, path: str = "/api/v1/chat/stream", body: object = None, **headers: str) -> Answer:
        """Send a request; return its answer after its head is read."""
        answer = await self.post(path, body, **headers)
        await answer.read_head()
        return answer

    async def get(self, path: str, *, port: int | None = None, method: str = "GET", **headers: str) -> Answer:
        reader, writer = await self.connect(port)
        lines = [
            f"{method} {path} HTTP/1.1",
            "host: test",
            *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items()),
        ]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        answer = Answer(reader, writer)
        self.answers.append(answer)
        await answer.read_head()
        return answer

    async def is_quiet(self) -> bool:
        """Wait until no stream is active, no upstream open, all memory released, and every request logged.

        A server does the last two after the last byte of a response. The limit allows for a busy machine.
        """
        deadline = time.monotonic() + QUIET_S
        streams = self.streams
        while streams.active or streams.upstream_open or streams.held_bytes or self._server.server_state.tasks:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.01)
        return True


@pytest.fixture(autouse=True)
def _quiet() -> None:
    """Omit the log of servers in threads from the test report; `capture_logs` still receives it.

    Commands that a test before ran configured levels and output, which the logger keeps.
    """
    structlog.reset_defaults()
    structlog.configure(processors=[], logger_factory=structlog.ReturnLoggerFactory())
    log._logger = structlog.get_logger()


@pytest.fixture(scope="session")
def upstream_port() -> int:
    """A free port. Servers are configured with it once; the upstream of each test listens on it."""
    return free_port()


class Sites:
    """The running servers by their settings, the one used last at the end."""

    def __init__(self, upstream_port: int) -> None:
        self._base_url = f"http://localhost:{upstream_port}/v1"
        self._running: dict[str, Site] = {}

    def find(self, *, demo: bool, **settings: Any) -> Site:
        """Return the server with these settings; start it where there is none."""
        key = repr((demo, sorted(settings.items())))
        self._running[key] = site = self._running.pop(key, None) or self._start(demo=demo, **settings)
        return site

    def _start(self, *, demo: bool, **settings: Any) -> Site:
        base = {"port": 0, "api_key": "sk-test", "base_url": self._base_url, "demo_pace_s": 0.03}
        given = {name: value for name, value in (base | PATIENT | settings).items() if value is not None}
        given["retries"] = {**PATIENT["retries"], **settings.get("retries", {})}
        return Site(Settings.model_validate(given), demo=demo)

    def stop_old(self) -> None:
        """Stop all but the servers used last, if there are many."""
        if len(self._running) > KEPT_AT_MOST:
            self.stop(len(self._running) - KEPT)

    def stop(self, count: int) -> None:
        """Stop the servers that were used first; what they log is over then."""
        old = [self._running.pop(key) for key in list(self._running)[:count]]
        for site in old:
            site.leave()
        for site in old:
            site.stop()

    def stop_all(self) -> None:
        self.stop(len(self._running))


@pytest.fixture(scope="session")
def _sites(upstream_port: int) -> Iterator[Sites]:
    sites = Sites(upstream_port)
    yield sites
    sites.stop_all()


@pytest.fixture
async def serve(_sites: Sites) -> AsyncIterator[Callable[..., Site]]:
    """Return a function that creates a server from settings; check afterwards that it left nothing open."""
    used: list[Site] = []

    def site(*, demo: bool = False, **settings: object) -> Site:
        used.append(_sites.find(demo=demo, **settings))
        return used[-1]

    yield site
    for one in used:
        while one.answers:
            await one.answers.pop().closed()
    are_quiet = [await one.is_quiet() for one in used]
    _sites.stop_old()
    assert all(are_quiet)


@pytest.fixture
async def upstream(upstream_port: int) -> AsyncIterator[Callable[[Script], Awaitable[ScriptedUpstream]]]:
    """Start the upstream with a script."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(script: Script) -> ScriptedUpstream:
            scripted = ScriptedUpstream(script)
            listening = await asyncio.start_server(scripted.on_connection, "127.0.0.1", upstream_port)
            stack.push_async_callback(_close, listening, scripted)
            return scripted

        yield start


async def _close(listening: asyncio.Server, scripted: ScriptedUpstream) -> None:
    listening.close()
    await asyncio.sleep(0)  # a connection that was just accepted begins
    while serving := list(scripted.serving):
        for one in serving:
            one.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


@pytest.fixture
async def providers() -> AsyncIterator[dict[str, Any]]:
    """Three providers that fail as a test tells them."""
    from tests.asgi.target_farm import playing  # noqa: PLC0415 - it imports this module

    async with playing() as found:
        yield found


@pytest.fixture(scope="session")
def text_events() -> list[dict[str, Any]]:
    """The events of one text answer, as a provider sent them."""
    lines = (EXAMPLES / "chat-text-citations.ndjson").read_bytes().splitlines()
    return [json.loads(line) for line in lines]
