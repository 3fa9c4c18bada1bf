"""The server in a separate process, with its figures from the operating system."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import ssl
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

SERVE = "from projector.cli import main; raise SystemExit(main(['serve', '--port', '0']))"
DEMO = "from projector.cli import main; raise SystemExit(main(['demo', '--port', '0']))"
TWO_APIS = """
[upstreams.one]
base_url = "http://127.0.0.1:{port}/v1"
[upstreams.two]
api = "openai_chat"
base_url = "http://127.0.0.1:{port}/v1"
[passthrough]
responses = "one"
chat_completions = "two"
dialects = ["responses", "chat_completions", "openresponses", "public_sse_v1"]
[agents.chatty]
upstream = "two"
model = "m"
dialects = ["public_sse_v1", "ag_ui"]
"""
"""Part of a configuration: upstreams with either API at one port, the passthrough routes, and an agent."""
COUNTING = """
import asyncio, gc, sys, threading

def count():
    for _ in sys.stdin:
        tasks = [one for one in gc.get_objects() if type(one) is asyncio.Task and not one.done()]
        print(len(tasks), flush=True)

threading.Thread(target=count, daemon=True).start()
"""
"""Before `SERVE`: answers each line of standard input with the number of tasks."""
COLLECTING = """
import gc, sys, threading

def collect():
    for _ in sys.stdin:
        print(gc.collect(), flush=True)

gc.disable()
threading.Thread(target=collect, daemon=True).start()
"""
"""Before `SERVE`: answers each line of standard input with the number of objects that only a collection could free."""
WATCHING = """
import asyncio, sys, threading, time
from projector.server.process import DrainingServer

PERIOD_S = 0.002
longest_s = 0.0

def watch(loop):
    last = clocks()

    def beat():
        nonlocal last
        global longest_s
        now = clocks()
        used_s, passed_s, queued_s = (after - before for after, before in zip(now, last))
        longest_s = max(longest_s, min(used_s, passed_s - queued_s))
        last = now
        loop.call_later(PERIOD_S, beat)

    beat()

def clocks():
    with open(f"/proc/self/task/{threading.get_native_id()}/schedstat") as file:
        queued_ns = int(file.read().split()[1])
    return time.process_time(), time.monotonic(), queued_ns / 1e9

async def main_loop(self, _main_loop=DrainingServer.main_loop):
    watch(asyncio.get_running_loop())
    await _main_loop(self)

def answer():
    global longest_s
    for _ in sys.stdin:
        print(longest_s, flush=True)
        longest_s = 0.0

DrainingServer.main_loop = main_loop
threading.Thread(target=answer, daemon=True).start()
"""
"""Before `SERVE`: answers each line of standard input with the longest block of the event loop since the last one.

A block is the CPU time of the process between two beats of the loop: while others use the machine no CPU time passes,
and a thread that holds the interpreter lock blocks the loop as well. It is at most the time that passed, because
threads may run at the same time, without the time for which the thread of the loop waited for a CPU: on a busy machine
this is a lower bound, because a thread that waits for the interpreter also waits for a CPU each time it looks.
"""


def serve_with(config: Path) -> str:
    """Return `SERVE` with a configuration file."""
    return SERVE.replace("'--port', '0'", f"'--port', '0', '--config', {str(config)!r}")


def lines_of(log: Path) -> list[dict[str, Any]]:
    """Return the lines of a log. The last one may be there in part, since another process writes it."""
    return [json.loads(line) for line in log.read_bytes().split(b"\n")[:-1]]


class Process:
    """A server in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, lines: list[str]) -> None:
        self.process = process
        self.lines = lines
        match = re.search(r"https?://(?:127\.0\.0\.1|0\.0\.0\.0):(\d+)", lines[0])
        assert match is not None
        self.port = int(match[1])
        self.trusted: ssl.SSLContext | None = None
        """Context of clients, for a server with TLS."""
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, request: str, *, port: int | None = None) -> asyncio.StreamReader:
        host = "127.0.0.1" if self.trusted is None else "localhost"
        reader, writer = await asyncio.open_connection(host, port or self.port, ssl=self.trusted)
        self._writers.append(writer)
        writer.write(request.encode())
        return reader

    async def get(self, path: str, *, port: int | None = None) -> str:
        reader = await self.connect(f"GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", port=port)
        return (await reader.read()).decode()

    async def stream(self) -> asyncio.StreamReader:
        body = '{"message": "hello"}'
        return await self.connect(
            "POST /api/v1/chat/stream HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}"
        )

    def leave(self) -> None:
        """Close the last connection."""
        self._writers.pop().close()

    def open_files(self) -> int:
        """Return the number of open files and sockets."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    async def tasks(self) -> int:
        """Return the number of tasks, if the process counts them."""
        return int(await self._answer())

    async def garbage(self) -> int:
        """Collect garbage and return the number of its objects, if the process does not collect by itself."""
        return int(await self._answer())

    async def longest_block_s(self) -> float:
        """Return the longest block of the event loop since the last call, in seconds, if the process watches it."""
        return float(await self._answer())

    async def _answer(self) -> bytes:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"\n")
        return await self.process.stdout.readline()

    def peak_bytes(self) -> int:
        """Return the largest resident memory since the start."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024

    async def gauges(self) -> dict[str, float]:
        """Return the metrics that have no labels."""
        text = await self.get("/metrics")
        return {name: float(value) for name, value in re.findall(r"^(projector_\w+) ([\d.e+]+)$", text, re.MULTILINE)}

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    async def exit_code(self) -> int:
        return await asyncio.wait_for(self.process.wait(), 60)


@contextlib.asynccontextmanager
async def running(code: str, n_lines: int, *, log: Path | None = None, **environ: str) -> AsyncGenerator[Process, None]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PROJECTOR_", "OPENAI_"))}
    with log.open("wb") if log is not None else contextlib.nullcontext(asyncio.subprocess.DEVNULL) as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            code,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env=inherited | {"PROJECTOR_DEMO_PACE_S": "0.03"} | environ,
        )
    assert process.stdout is not None
    server = Process(process, [(await process.stdout.readline()).decode() for _ in range(n_lines)])
    try:
        yield server
    finally:
        await server.close()
