"""The servers of `bench/proxy.py` and `bench/soak.py`, each a separate process.

A provider, a pass-through proxy that copies bytes with the same server and client libraries, the server under test,
and an idle server, whose response time is the delay that the machine itself causes.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from openai import AsyncOpenAI, DefaultAioHttpClient

from projector.server.config.settings import Settings
from projector.server.interpreter import settle_interpreter
from projector.server.listening import listen, raise_file_limit
from projector.server.process import server
from projector.server.telemetry.logs import configure_logs

EVENTS_PER_S = 50
PACED_EVENTS = 250
BURST_EVENTS = 2_000

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
FIRST = b'data: {"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}\n\n'
LAST = b'data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[]}}\n\n'
EVENT = (
    b'data: {"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_1","output_index":0,'
    b'"content_index":0,"delta":"hello there","logprobs":[],"obfuscation":"abcdefgh"}\n\n'
)
LARGE = (
    b'data: {"type":"response.image_generation_call.partial_image","item_id":"ig_1","output_index":1,'
    b'"partial_image_index":0,"partial_image_b64":"%b"}\n\n' % (b"A" * 2_000_000)
)
GARBAGE = b'data: {"type":\n\n'
ITEM = (
    b'data: {"type":"response.output_item.added","output_index":%d,"item":{"type":"function_call","id":"fc_%d",'
    b'"call_id":"call_%d","name":"f","arguments":""}}\n\n'
)
ATTACKS = {
    b"items": lambda: (ITEM % (at, at, at) for at in range(10_000)),
    b"objects": lambda: iter([b'data: {"x":[' + b"{}," * 2**20 + b"0]}\n\n"]),
    b"lines": lambda: iter([b"data:\n" * 100_000]),
}
"""Load -> events of which the server must not read all."""
KEPT_S = 15
"""Seconds for which ended streams are kept: less than the warm-up of the soak, so that its memory does not grow."""
WATCHED_S = 0.002
"""Period of the beats of the event loop that is watched."""


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send the requested stream: `paced`, `burst` or a single event, optionally with `large` and `broken` events."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    body = await reader.readexactly(int(length[1]) if length else 0)
    writer.write(HEAD + _chunk(FIRST))
    count = PACED_EVENTS if b"paced" in body else BURST_EVENTS if b"burst" in body else 1
    for number in range(count):
        writer.write(_chunk(EVENT % number))
        if b"paced" in body:
            await asyncio.sleep(1 / EVENTS_PER_S)
        else:
            await writer.drain()
    for load, events in ATTACKS.items():
        if load in body:
            with contextlib.suppress(ConnectionError):
                for event in events():
                    writer.write(_chunk(event))
                    await writer.drain()
            writer.close()
            return
    if b"large" in body:
        writer.write(_chunk(LARGE))
    if b"broken" in body:
        writer.write(_chunk(GARBAGE))
    else:
        writer.write(_chunk(LAST) + b"0\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        await writer.drain()
    writer.close()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def provide(port: int) -> None:
    """Serve as the provider."""
    server = await asyncio.start_server(answer, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


async def provide_for(port: int, seconds: int) -> None:
    """Serve as a provider that accepts no connections after a while."""
    server = await asyncio.start_server(answer, "127.0.0.1", port, backlog=2048)
    await asyncio.sleep(seconds)
    server.close()
    await asyncio.Event().wait()


def pass_through(port: int, provider: int) -> None:
    """Serve the pass-through proxy."""
    client = AsyncOpenAI(api_key="none", base_url=f"http://127.0.0.1:{provider}/v1", http_client=DefaultAioHttpClient())

    async def app(scope: dict[str, object], receive: object, send: object) -> None:
        if scope["type"] != "http":
            return
        body = (await receive())["body"]
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        asked = client.responses.with_streaming_response.create(model="m", input=body.decode(), stream=True)
        async with asked as response:
            async for chunk in response.http_response.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    _serve(app, port)


def project(port: int, provider: int, dying: int | None = None) -> None:
    """Serve the server under test, as `projector serve` does, with its log enabled.

    With a provider that dies, the agent `twofold` has two targets, of which that is the first.
    """
    configure_logs()
    ports = {"main": provider, "dying": dying or provider}
    targets = [{"upstream": name, "model": "m"} for name in ("dying", "main")]
    settings = Settings(
        port=port,
        upstreams={name: {"base_url": f"http://127.0.0.1:{number}/v1"} for name, number in ports.items()},
        store={"retention_s": KEPT_S},
        agents={"default": {"upstream": "main", "model": "m"}, "twofold": {"targets": targets}},
    )
    raise_file_limit(settings)
    serving = server(settings)
    serving.config.loaded_app = Watch(serving.config.loaded_app)
    settle_interpreter()
    threading.Thread(target=serving.compile, daemon=True).start()
    serving.run(sockets=[listen(settings)])


class Watch:
    """Middleware that answers `/blocks` with the longest block of the event loop, the longest pause, and tasks.

    Both are of two beats since it was asked last, in seconds. A pause is the time that passed, in which the system may
    have run other processes. A block is the CPU time of the process, at most the time that passed while the event loop
    did not wait for a CPU; on a busy machine it is a lower bound.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self._longest_s = self._paused_s = 0.0
        self._last: tuple[float, float, float] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer `/blocks`, or pass the request on."""
        if scope.get("path") != "/blocks":
            await self._app(scope, receive, send)
            return
        if self._last is None:
            self._beat()
        body = b"%.4f %.4f %d" % (self._longest_s, self._paused_s, len(asyncio.all_tasks()))
        self._longest_s = self._paused_s = 0.0
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    def _beat(self) -> None:
        now = time.process_time(), time.monotonic(), _queued_s()
        if self._last is not None:
            used_s, passed_s, queued_s = (after - before for after, before in zip(now, self._last, strict=True))
            self._longest_s = max(self._longest_s, min(used_s, passed_s - queued_s))
            self._paused_s = max(self._paused_s, passed_s)
        self._last = now
        asyncio.get_running_loop().call_later(WATCHED_S, self._beat)


def _queued_s() -> float:
    """Return the seconds that this thread has waited for a CPU."""
    text = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text(encoding="ascii")
    return int(text.split()[1]) / 1e9


def idle(port: int) -> None:
    """Serve an empty response to every request."""

    async def app(_scope: object, _receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    _serve(app, port)


def _serve(app: object, port: int) -> None:
    raise_file_limit(Settings())
    config = uvicorn.Config(
        app, port=port, loop="uvloop", http="httptools", lifespan="off", access_log=False, log_level="error"
    )
    uvicorn.Server(config).run()


PROVIDERS = {"provider": provide, "dying": provide_for}
"""Name -> a provider."""

if __name__ == "__main__":
    what, *ports = sys.argv[1], *map(int, sys.argv[2:])
    if what in PROVIDERS:
        uvloop.run(PROVIDERS[what](*ports))
    else:
        {"pass-through": pass_through, "proxy": project, "idle": idle}[what](*ports)
