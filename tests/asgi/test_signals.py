"""Signals of a server process: reload, drain, and those that must do no harm."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import ssl
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.asgi.certificates import Authority
from tests.asgi.conftest import SSE_HEAD, ScriptedUpstream
from tests.asgi.process import DEMO, Process, lines_of, running
from tests.asgi.process import SERVE as WITHOUT_FILE
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no such signals")

CREATED = b'data: {"type":"response.created","response":{"id":"r","status":"in_progress"}}\n\n'
TEXT = b'data: {"type":"response.output_text.delta","item_id":"m","output_index":0,"delta":"a"}\n\n'
DONE = b'data: {"type":"response.completed","response":{"id":"r","status":"completed"}}\n\n'
SERVE = "from projector.cli import main; raise SystemExit(main(['serve', '--port', '0', '--config', {file!r}]))"
CONFIG = """
[auth.api_keys]
anna = "sha256:{anna}"

[upstreams.one]
base_url = "http://127.0.0.1:{port}/v1"
api_key_file = "key"

[agents.default]
upstream = "one"
model = "{model}"
"""
AGENT = '\n[agents.second]\nupstream = "one"\nmodel = "another"\n'


def hash_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


class Provider:
    """A provider whose responses end when the test releases them; keeps the heads and bodies of the requests."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.peers: list[Any] = []

    async def script(self, peer: Any) -> None:
        self.peers.append(peer)
        await peer.start()
        await peer.chunk(CREATED + TEXT)
        await self.released.wait()
        await peer.chunk(TEXT + DONE)
        await peer.end()

    async def keep_alive(self, peer: Any) -> None:
        """Respond, and keep the connection open."""
        self.peers.append(peer)
        await peer.send(SSE_HEAD.replace(b"connection: close\r\n", b""))
        await peer.chunk(CREATED + TEXT)
        await self.released.wait()
        await peer.chunk(DONE)
        await peer.end()
        await peer.gone.wait()


async def completes(peer: Any) -> None:
    """Respond at once."""
    await peer.start()
    await peer.chunk(CREATED + TEXT + DONE)
    await peer.end()


class Reloaded:
    """A server with a configuration file, and its log."""

    def __init__(self, process: Process, folder: Path, port: int) -> None:
        self.process = process
        self._folder = folder
        self._port = port

    def write(self, *, model: str = "m", key: str = "anna", sent: str = "sk-first", more: str = "") -> None:
        write(self._folder, self._port, model=model, key=key, sent=sent, more=more)

    def log(self) -> list[dict[str, Any]]:
        return lines_of(self._folder / "log")

    async def send(self, number: signal.Signals, event: str) -> dict[str, Any]:
        """Send a signal, and return the next log line of an event."""
        n_before = sum(line["event"] == event for line in self.log())
        self.process.process.send_signal(number)
        async with asyncio.timeout(60):
            while True:
                found = [line for line in self.log() if line["event"] == event]
                if len(found) > n_before:
                    return found[n_before]
                await asyncio.sleep(0.02)

    async def stream(self, *, key: str = "anna", agent: str = "default") -> asyncio.StreamReader:
        body = json.dumps({"message": "hello", "agent": agent})
        return await self.process.connect(
            "POST /api/v1/chat/stream HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {key}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}"
        )


def write(folder: Path, port: int, *, model: str = "m", key: str = "anna", sent: str = "sk-first", more: str) -> None:
    (folder / "key").write_text(sent)
    (folder / "projector.toml").write_text(CONFIG.format(anna=hash_of(key), port=port, model=model) + more)


Started = Callable[..., Any]


@pytest.fixture
def started(tmp_path: Path, upstream: Any, upstream_port: int) -> Started:
    @asynccontextmanager
    async def start(
        script: Callable[[Any], Awaitable[None]], more: str = "", **environ: str
    ) -> AsyncGenerator[Reloaded, None]:
        await upstream(script)
        write(tmp_path, upstream_port, more=more)
        code = SERVE.format(file=str(tmp_path / "projector.toml"))
        async with running(code, 1, log=tmp_path / "log", **environ) as process:
            yield Reloaded(process, tmp_path, upstream_port)

    return start


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGALRM", "SIGHUP"])
async def test_a_signal_does_no_harm_to_running_streams(started: Started, name: str) -> None:
    provider = Provider()
    async with started(provider.script) as server:
        streams = [await server.stream() for _ in range(10)]
        for stream in streams:
            await stream.readuntil(b"\n\n")
        for _ in range(3):
            line = await server.send(signal.Signals[name], "reloaded" if name == "SIGHUP" else "signal_ignored")
        assert line.get("signal", name) == name
        provider.released.set()
        for stream in streams:
            assert b'"status":"completed"' in await stream.read()
        server.process.stop()
        assert await server.process.exit_code() == 0


async def test_a_signal_while_the_server_drains_does_no_harm(started: Started) -> None:
    provider = Provider()
    async with started(provider.script) as server:
        stream = await server.stream()
        await stream.readuntil(b"\n\n")
        server.process.stop()
        while "503" not in await server.process.get("/readyz"):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
        for name in ("SIGHUP", "SIGUSR1", "SIGQUIT"):
            server.process.process.send_signal(signal.Signals[name])
        assert "503" in await server.process.get("/readyz")
        provider.released.set()
        assert b'"status":"completed"' in await stream.read()
        assert await server.process.exit_code() == 0


async def test_a_third_signal_ends_the_server_without_an_error(started: Started) -> None:
    """An alert on the log would fire, for what the operator did."""
    async with started(Provider().script) as server:
        stream = await server.stream()
        await stream.readuntil(b"\n\n")
        server.process.stop()
        await wait_until(lambda: any(line["event"] == "drain" for line in server.log()))
        # the second and the third arrive at once: after the second alone, the server could end too early for a third
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            server.process.process.send_signal(number)
        assert await server.process.exit_code() == 0
        lines = server.log()
    assert (lines[-1]["event"], lines[-1]["exit_code"]) == ("stop", 0)
    assert [line for line in lines if line["level"] == "error"] == []


async def test_a_demo_whose_terminal_is_closed_drains() -> None:
    async with running(DEMO, 2) as demo:
        stream = await demo.stream()
        await stream.readuntil(b"\n\n")
        demo.process.send_signal(signal.SIGHUP)
        assert b'"status":"completed"' in await stream.read()
        assert await demo.exit_code() == 0


@pytest.mark.parametrize("output", ["full", "unread"])
async def test_a_server_whose_output_cannot_be_written_serves(tmp_path: Path, output: str) -> None:
    log = tmp_path / "log"
    read_end, write_end = os.pipe() if output == "unread" else (None, os.open("/dev/full", os.O_WRONLY))
    if read_end is not None:
        os.close(read_end)
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", DEMO, stdout=write_end, stderr=stderr)
    os.close(write_end)
    try:
        await wait_until(
            lambda: process.returncode is not None or any(one["event"] == "ready" for one in lines_of(log))
        )
        if process.returncode is None:
            process.terminate()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert [one["event"] for one in lines_of(log)][-2:] == ["drain", "stop"]


async def test_a_reload_applies_to_new_requests_and_keeps_running_streams(started: Started) -> None:
    provider = Provider()
    async with started(provider.script) as server:
        old = await server.stream()
        await old.readuntil(b"\n\n")
        assert (await (await server.stream(agent="second")).read()).startswith(b"HTTP/1.1 404")
        server.write(model="other", key="bert", sent="sk-second", more=AGENT)
        line = await server.send(signal.SIGHUP, "reloaded")
        assert line["needs_restart"] == []
        assert (await (await server.stream(key="anna")).read()).startswith(b"HTTP/1.1 401")
        new = []
        for options in ({}, {"agent": "second"}):
            new.append(await server.stream(key="bert", **options))
            await new[-1].readuntil(b"\n\n")
        assert (await server.process.gauges())["projector_streams_active"] == 3
        models = [peer.body["model"] for peer in provider.peers]
        assert models == ["m", "other", "another"]
        keys = [peer.header(b"authorization") for peer in provider.peers]
        assert keys == [b"Bearer sk-first", b"Bearer sk-second", b"Bearer sk-second"]
        assert not provider.peers[0].gone.is_set()
        provider.released.set()
        for stream in (old, *new):
            assert b'"status":"completed"' in await stream.read()
        while (await server.process.gauges())["projector_streams_active"]:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)  # a stream is counted after its last byte
        text = await server.process.get("/metrics")
        assert 'projector_streams_total{dialect="public_sse_v1",outcome="completed"} 3.0' in text
        assert "sk-first" not in str(server.log())


async def test_an_upstream_connection_of_the_old_settings_is_closed_after_its_last_stream(started: Started) -> None:
    provider = Provider()
    async with started(provider.keep_alive) as server:
        streams = [await server.stream() for _ in range(2)]
        for stream in streams:
            await stream.readuntil(b"\n\n")
        for _ in range(3):
            await server.send(signal.SIGHUP, "reloaded")
        assert not any(peer.gone.is_set() for peer in provider.peers)
        provider.released.set()
        for stream in streams:
            assert b'"status":"completed"' in await stream.read()
        for peer in provider.peers:
            await asyncio.wait_for(peer.gone.wait(), 60)
        provider.released.clear()  # at the same time: a kept connection gets no second request
        streams = [await server.stream() for _ in range(2)]  # connections of the settings in effect are kept
        for stream in streams:
            await stream.readuntil(b"\n\n")
        provider.released.set()
        for stream in streams:
            assert b'"status":"completed"' in await stream.read()
        assert not any(peer.gone.is_set() for peer in provider.peers[2:])


async def test_a_stream_of_the_old_settings_belongs_to_its_caller(started: Started) -> None:
    provider = Provider()
    async with started(provider.script) as server:
        stream = await server.stream()
        head = (await stream.readuntil(b"\r\n\r\n")).decode().lower()
        stream_id = next(line.split(": ")[1] for line in head.split("\r\n") if line.startswith("x-stream-id"))
        server.write(model="other")
        await server.send(signal.SIGHUP, "reloaded")
        cancel = await server.process.connect(
            f"POST /api/v1/streams/{stream_id}/cancel HTTP/1.1\r\nhost: a\r\nauthorization: Bearer anna\r\n"
            "content-length: 0\r\nconnection: close\r\n\r\n"
        )
        assert (await cancel.read()).startswith(b"HTTP/1.1 204")
        assert b'"status":"cancelled"' in await stream.read()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("[agents", "invalid TOML"),
        ('[agents.second]\nupstream = "none"\nmodel = "m"', "upstream of agent `second`"),
        ("heartbeat = 1", "heartbeat"),
        ('[agents.second]\nupstream = "one"\nmodel = "m"\ninstructions_file = "none"', "not found"),
    ],
)
async def test_a_bad_file_is_refused_and_the_old_settings_stay(started: Started, more: str, reason: str) -> None:
    provider = Provider()
    provider.released.set()
    async with started(provider.script) as server:
        server.write(model="other", key="bert", more=more)
        line = await server.send(signal.SIGHUP, "reload_refused")
        assert reason in line["reason"]
        assert b'"status":"completed"' in await (await server.stream()).read()
        assert provider.peers[0].body["model"] == "m"
        assert [line["event"] for line in server.log() if line["event"].startswith("reload")] == ["reload_refused"]
        server.write(model="third")
        await server.send(signal.SIGHUP, "reloaded")
        await (await server.stream()).read()
        assert provider.peers[1].body["model"] == "third"


async def test_certificates_are_read_again(started: Started, tmp_path: Path) -> None:
    """Of an upstream; a file that cannot be used is refused, and the old one stays in use."""
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("server"))
    secure = await asyncio.start_server(ScriptedUpstream(completes).on_connection, "127.0.0.1", 0, ssl=context)
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(other.file.read_bytes())
    url = f"https://localhost:{secure.sockets[0].getsockname()[1]}/v1"
    more = f"""
[upstreams.secure]
base_url = "{url}"
tls.ca_file = "trusted.pem"
[agents.secure]
upstream = "secure"
model = "m"
"""
    async with secure, started(completes, more=more) as server:
        assert b"upstream_unreachable" in await (await server.stream(agent="secure")).read()
        while not (ended := [one for one in server.log() if one["event"] == "stream_end"]):  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.01)
        assert [(line["upstream"], line["reason"]) for line in ended] == [("secure", "certificate")]
        trusted.write_text("no certificate")
        line = await server.send(signal.SIGHUP, "reload_refused")
        assert line["reason"] == "`upstreams.secure.tls.ca_file`: expected a certificate in PEM format"
        trusted.write_bytes(authority.file.read_bytes())
        await server.send(signal.SIGHUP, "reloaded")
        assert b'"status":"completed"' in await (await server.stream(agent="secure")).read()


async def test_a_start_and_a_reload_warn(started: Started) -> None:
    plain = '\n[upstreams.plain]\nbase_url = "http://10.0.0.7/v1"\napi_key_file = "key"\n'
    async with started(completes, more=plain) as server:
        await server.send(signal.SIGHUP, "reloaded")
        reason = "`upstreams.plain.base_url`: the key is sent unencrypted; use https:// for another machine"
        await server.send(signal.SIGUSR1, "signal_ignored")
        warned = [(line["level"], line["reason"]) for line in server.log() if line["event"] == "configuration_warning"]
        assert warned == [("warning", reason)] * 2


async def test_a_reload_during_the_start_is_done_after_it(tmp_path: Path) -> None:
    """It may come before the server is there that could do it, and ended the process."""
    sent_early = """
import os, signal
from projector.cli import servers
server_module = servers.server_module
def imported(name):
    os.kill(os.getpid(), signal.SIGHUP)
    return server_module(name)
servers.server_module = imported
"""
    async with running(sent_early + WITHOUT_FILE, 1, log=tmp_path / "log") as process:
        await wait_until(lambda: "reloaded" in [line["event"] for line in lines_of(tmp_path / "log")])
        process.stop()
        assert await process.exit_code() == 0


@pytest.mark.parametrize("command", ["serve", "demo"])
async def test_a_server_that_is_stopped_during_its_start_ends(command: str) -> None:
    """The first process of a container gets no signal without a handler, so it was killed when the patience ended."""
    sent_early = """
import os, signal
from projector.cli import servers
def imported(name):
    os.kill(os.getpid(), signal.SIGTERM)
    raise AssertionError("the signal came late")
servers.server_module = imported
"""
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", sent_early + WITHOUT_FILE.replace("serve", command), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await asyncio.wait_for(server.communicate(), 60)
    assert (server.returncode, errors) == (0, b"")


async def test_settings_that_need_a_restart_are_named(started: Started) -> None:
    provider = Provider()
    provider.released.set()
    async with started(provider.script) as server:
        server.write(model="other")
        file = server._folder / "projector.toml"
        file.write_text('host = "127.0.0.2"\ndrain_timeout_s = 3\n' + file.read_text() + "\n[openwop]\n")
        line = await server.send(signal.SIGHUP, "reloaded")
        assert line["needs_restart"] == ["host", "openwop"]
        assert b'"status":"completed"' in await (await server.stream()).read()
        assert provider.peers[0].body["model"] == "other"


async def test_a_file_without_callers_is_refused_while_the_address_is_public(
    started: Started,
) -> None:
    """The new `host` does not apply before a restart, so the old one counts."""
    provider = Provider()
    async with started(provider.script, PROJECTOR_HOST="0.0.0.0") as server:  # noqa: S104 - that is the test
        file = server._folder / "projector.toml"
        file.write_text(file.read_text().replace("[auth.api_keys]\n", "").replace("anna =", "#"))
        line = await server.send(signal.SIGHUP, "reload_refused")
        assert "`host` must be a loopback address" in line["reason"]
        assert (await (await server.stream(key="none")).read()).startswith(b"HTTP/1.1 401")


async def test_the_limit_of_connections_is_reloaded(started: Started) -> None:
    provider = Provider()
    async with started(provider.script, more="\n[limits]\nmax_connections = 1\n") as server:
        stream = await server.stream()
        await stream.readuntil(b"\n\n")
        assert (await (await server.process.connect("")).read()).startswith(b"HTTP/1.1 503")
        server.write(more="\n[limits]\nmax_connections = 2\n")
        await server.send(signal.SIGHUP, "reloaded")
        assert "200 OK" in await server.process.get("/livez")
        provider.released.set()
        assert b'"status":"completed"' in await stream.read()


async def test_limits_of_a_reload_apply_at_once(started: Started) -> None:
    provider = Provider()
    async with started(provider.script) as server:
        stream = await server.stream()
        await stream.readuntil(b"\n\n")
        server.write(more="\n[limits]\nmax_streams = 1\n")
        await server.send(signal.SIGHUP, "reloaded")
        assert (await (await server.stream()).read()).startswith(b"HTTP/1.1 503")
        provider.released.set()
        assert b'"status":"completed"' in await stream.read()
        while (await (await server.stream()).read()).startswith(b"HTTP/1.1 503"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
