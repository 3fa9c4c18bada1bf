"""The server as a process: output, draining, shutdown."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from projector.server.config.loading import SettingsError, load
from projector.server.config.settings import Settings
from projector.server.listening import listen
from tests.asgi.process import DEMO, SERVE, Process, running
from tests.waiting import wait_until

CREATED = b'data: {"type":"response.created","response":{"id":"r","status":"in_progress"}}\n\n'
TEXT = b'data: {"type":"response.output_text.delta","item_id":"m","output_index":0,"delta":"a"}\n\n'
DONE = b'data: {"type":"response.completed","response":{"id":"r","status":"completed"}}\n\n'


async def test_the_demo_prints_a_working_command(curl: str) -> None:
    async with running(DEMO, 3) as demo:
        assert (
            "image, approve, mcp, secret, tool, refuse, think, fail, limit, truncate, oversized (docs/cli.md)"
            in demo.lines[2]
        )
        words = shlex.split(demo.lines[1].removeprefix("Try:"))
        assert words[:2] == ["curl", "-N"]
        process = await asyncio.create_subprocess_exec(curl, *words[1:], "-s", stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
        assert output.startswith(b"data: {")
        assert b'"kind":"final"' in output.split(b"\n\n")[-2]
        assert "200 OK" in await demo.get("/readyz")
        demo.stop()
        assert await demo.exit_code() == 0


def environment(upstream_port: int) -> dict[str, str]:
    return {"OPENAI_BASE_URL": f"http://127.0.0.1:{upstream_port}/v1", "OPENAI_API_KEY": "sk-test"}


async def begins_to_drain(server: Process) -> None:
    """Stop a server with running streams, and wait until it knows."""
    server.stop()
    while "503 Service Unavailable" not in await server.get("/readyz"):  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.02)


async def test_running_streams_complete_while_the_server_drains(upstream: Any, upstream_port: int) -> None:
    may_end = asyncio.Event()

    async def script(peer: Any) -> None:
        await peer.start()
        await peer.chunk(CREATED + TEXT)
        await may_end.wait()
        await peer.chunk(DONE)
        await peer.end()

    await upstream(script)
    async with running(SERVE, 1, **environment(upstream_port)) as server:
        stream = await server.stream()
        await stream.readuntil(b"\n\n")
        await begins_to_drain(server)
        assert "200 OK" in await server.get("/livez")
        refused = (await (await server.stream()).read()).decode().lower()
        assert refused.startswith("http/1.1 503")
        assert "retry-after: 5\r\n" in refused
        assert '"code":"server_shutdown"' in refused
        may_end.set()
        assert b'"status":"completed"' in await stream.read()
        assert await server.exit_code() == 0


@pytest.mark.parametrize("signals", [1, 2])
async def test_streams_that_do_not_complete_get_a_terminal(upstream: Any, upstream_port: int, signals: int) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.chunk(CREATED)
        await peer.gone.wait()

    provider = await upstream(script)
    grace_s = {1: "0.3", 2: "300"}[signals]  # the second signal ends the grace period
    async with running(SERVE, 1, PROJECTOR_DRAIN_TIMEOUT_S=grace_s, **environment(upstream_port)) as server:
        stream = await server.stream()
        await stream.readuntil(b"\n\n")
        if signals > 1:
            await begins_to_drain(server)  # equal signals that arrive together are one
        server.stop()
        output = await stream.read()
        assert b'"code":"server_shutdown"' in output
        assert output.endswith(b"\r\n0\r\n\r\n")
        assert await server.exit_code() == 0
        peer = await provider.peers.get()
        await asyncio.wait_for(peer.gone.wait(), 60)


async def test_a_signal_with_the_first_line_ends_the_server_in_order() -> None:
    early = """
import os, signal, sys
def write(text, _write=sys.stdout.write):
    _write(text)
    sys.stdout.write = _write
    os.kill(os.getpid(), signal.SIGTERM)
sys.stdout.write = write
"""
    async with running(early + DEMO, 1) as demo:
        assert await demo.exit_code() == 0


async def test_a_signal_at_the_very_end_changes_nothing() -> None:
    late = "import atexit, os, signal\natexit.register(os.kill, os.getpid(), signal.SIGTERM)\n"
    async with running(late + DEMO, 2) as demo:
        demo.stop()
        assert await demo.exit_code() == 0


async def test_under_load_every_stream_gets_a_terminal_event(upstream: Any, upstream_port: int) -> None:
    """Of 100 streams some complete while the server drains, and some are ended by it."""
    chance, may_end, short = random.Random(1), asyncio.Event(), 0

    async def script(peer: Any) -> None:
        nonlocal short
        is_short = chance.random() < 0.5
        short += is_short
        await peer.start()
        await peer.chunk(CREATED)
        while not (is_short and may_end.is_set()):
            await peer.chunk(TEXT)
            await asyncio.sleep(0.02)
        await peer.chunk(DONE)
        await peer.end()

    provider = await upstream(script)
    async with running(SERVE, 1, PROJECTOR_DRAIN_TIMEOUT_S="300", **environment(upstream_port)) as server:
        streams = [await server.stream() for _ in range(100)]
        for stream in streams:
            await stream.readuntil(b"\n\n")
        reading = asyncio.gather(*(stream.read() for stream in streams))
        await begins_to_drain(server)
        may_end.set()
        while (await server.gauges())["projector_streams_active"] > len(streams) - short:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
        server.stop()
        output = await reading
        assert await server.exit_code() == 0
    ends = [(data.count(b'"kind":"final"'), data.count(b'"code":"server_shutdown"')) for data in output]
    assert sorted(ends) == [(0, 1)] * (len(streams) - short) + [(1, 0)] * short
    assert all(data.endswith(b"\r\n0\r\n\r\n") for data in output)
    await wait_until(lambda: not provider.serving)  # each ends when it sees its connection closed


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])  # noqa: S104 - refused
def test_a_public_address_requires_authentication(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    for name in [name for name in os.environ if name.startswith("PROJECTOR_")]:
        monkeypatch.delenv(name)
    with pytest.raises(SettingsError, match="`host` must be a loopback address"):
        load(os.environ, {"host": host, "port": 0})


def test_an_unavailable_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"cannot listen on 127.0.0.1, port {port}: "):
            listen(Settings(port=port))


async def failed_start(folder: Path, *arguments: str, **environment: str) -> tuple[bytes, str]:
    """Run Python with arguments that start a server; check that it exits with 2, and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *arguments),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | environment,
    )
    output, errors = await process.communicate()
    assert process.returncode == 2
    return output, errors.decode()


async def test_a_start_that_fails_is_logged(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        _, errors = await failed_start(tmp_path, "-m", "projector", "serve", "--port", str(port))
    lines = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    reason = f"cannot listen on 127.0.0.1, port {port}: Address already in use; choose another one with --port"
    assert [line["event"] for line in lines if line["level"] != "warning"] == ["start", "stop"]
    assert (lines[-1]["level"], lines[-1]["exit_code"], lines[-1]["reason"]) == ("error", 2, reason)
    assert f"projector: {reason}" in errors


async def test_a_taken_admin_port_is_reported_with_its_setting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = ("-m", "projector", "serve", "--port", "0")
        output, errors = await failed_start(tmp_path, *command, PROJECTOR_ADMIN__PORT=str(port))
    reason = f"cannot listen on 127.0.0.1, port {port}: Address already in use; choose another one with `admin.port`"
    assert output == b""
    assert f"projector: {reason} (PROJECTOR_ADMIN__PORT)\n" in errors


async def test_a_start_without_a_package_is_logged(tmp_path: Path) -> None:
    store = {"PROJECTOR_STORE__KIND": "redis", "PROJECTOR_STORE__URL": "redis://127.0.0.1:1"}
    _, errors = await failed_start(tmp_path, "-c", f"import sys; sys.modules['redis'] = None; {SERVE}", **store)
    *_, stop, printed = errors.splitlines()
    line = json.loads(stop)
    assert (line["event"], line["level"], line["exit_code"]) == ("stop", "error", 2)
    assert "` is missing; install `public-stream-projector[server,redis]`; " in line["reason"]
    assert printed == f"projector: {line['reason']}"


def test_a_missing_configuration_file(tmp_path: Any) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml: not found"):
        load({}, config=tmp_path / "none.toml")
