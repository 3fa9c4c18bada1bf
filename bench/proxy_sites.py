"""The servers of `bench/proxy.py` and `bench/soak.py`, each a separate process.

A provider, a pass-through proxy that copies bytes with aiohttp and uvicorn, the server under test, and an idle server,
whose response time is the delay that the machine itself causes.
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

import aiohttp
import uvicorn
import uvloop

from projector.dialects import DIALECTS
from projector.server.config.settings import Settings
from projector.server.interpreter import settle_interpreter
from projector.server.listening import listen, raise_file_limit
from projector.server.process import server
from projector.server.telemetry.logs import configure_logs

EVENTS_PER_S = 50
PACED_EVENTS = 250
BURST_EVENTS = 2_000

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
KEPT_HEAD = HEAD.replace(b"connection: close\r\n", b"")
SHORT = [
    b'data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response",'
    b'"created_at":1741476777,"status":"in_progress","model":"m","output":[]}}\n\n',
    b'data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"msg_1",'
    b'"type":"message","status":"in_progress","content":[],"role":"assistant"}}\n\n',
    b'data: {"type":"response.content_part.added","sequence_number":2,"item_id":"msg_1","output_index":0,'
    b'"content_index":0,"part":{"type":"output_text","annotations":[],"text":""}}\n\n',
    *(
        b'data: {"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_1","output_index":0,'
        b'"content_index":0,"delta":"%b","logprobs":[],"obfuscation":"abcdefgh"}\n\n' % (number, text)
        for number, text in enumerate((b"The weather", b" in Paris", b" is mild."), start=3)
    ),
    b'data: {"type":"response.output_text.done","sequence_number":6,"item_id":"msg_1","output_index":0,'
    b'"content_index":0,"text":"The weather in Paris is mild."}\n\n',
    b'data: {"type":"response.output_item.done","sequence_number":7,"output_index":0,"item":{"id":"msg_1",'
    b'"type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],'
    b'"text":"The weather in Paris is mild."}]}}\n\n',
    b'data: {"type":"response.completed","sequence_number":8,"response":{"id":"resp_1","object":"response",'
    b'"created_at":1741476777,"status":"completed","model":"m","output":[{"id":"msg_1","type":"message",'
    b'"status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],'
    b'"text":"The weather in Paris is mild."}]}],"usage":{"input_tokens":12,"output_tokens":8,"total_tokens":20}}}\n\n',
]
"""A short answer, such as one between two tool calls: nine events."""
CHAT_EVENT = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1741476777,"model":"m",'
    b'"choices":[{"index":0,"delta":{%b},"logprobs":null,"finish_reason":%b}]}\n\n'
)
CHAT_FIRST = CHAT_EVENT % (b'"role":"assistant","content":""', b"null")
CHAT_LAST = CHAT_EVENT % (b"", b'"stop"')
CHAT_END = b"data: [DONE]\n\n"
CHAT_DELTA = CHAT_EVENT % (b'"content":"hello there"', b"null")
CHAT_SHORT = [CHAT_FIRST, *[CHAT_DELTA] * 6, CHAT_LAST, CHAT_END]
CHAT_DIALECTS = [name for name in DIALECTS if name != "openwop"]
"""Dialects of `/api/v1/chat/stream`; the first is the public one."""
LONG_BYTES = 64_000_000
"""Size of the text of a long answer, just below the limit of a stream."""
MEMORY_BYTES = 2**30
"""Memory of all streams, so that the share of one suffices for a long answer."""
LONG_DELTA = 4_000
LONG_PAUSE_S = 3
"""Pause before the end of a long answer, during which the memory that is held for it is read."""
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
    """Send the requested streams: `paced`, `burst` or a single event, optionally with `large` and `broken` events.

    The connection stays open after `short` answers, as those of providers do.
    """
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while await _answer(reader, writer):
            pass
    writer.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Send a stream; return whether another request may follow."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    body = await reader.readexactly(int(length[1]) if length else 0)
    is_chat = b"/chat/completions" in head.partition(b"\r\n")[0]
    if b"short" in body:
        writer.write(KEPT_HEAD)
        for event in CHAT_SHORT if is_chat else SHORT:
            writer.write(_chunk(event))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        return b"connection: close" not in head.lower()
    writer.write(HEAD + _chunk(CHAT_FIRST if is_chat else FIRST))
    if b"long" in body:
        await _send_long(writer)
    count = PACED_EVENTS if b"paced" in body else BURST_EVENTS if b"burst" in body else 1
    for number in range(count):
        writer.write(_chunk(CHAT_DELTA if is_chat else EVENT % number))
        if b"paced" in body:
            await asyncio.sleep(1 / EVENTS_PER_S)
        else:
            await writer.drain()
    for load, events in ATTACKS.items():
        if load in body:
            for event in events():
                writer.write(_chunk(event))
                await writer.drain()
            return False
    if b"large" in body:
        writer.write(_chunk(LARGE))
    if b"broken" in body:
        writer.write(_chunk(GARBAGE))
    else:
        writer.write(_chunk(CHAT_LAST + CHAT_END if is_chat else LAST) + b"0\r\n\r\n")
    await writer.drain()
    return False


async def _send_long(writer: asyncio.StreamWriter) -> None:
    event = _chunk((EVENT % 0).replace(b"hello there", b"word " * (LONG_DELTA // 5)))
    for _ in range(LONG_BYTES // LONG_DELTA):
        writer.write(event)
        await writer.drain()
    await asyncio.sleep(LONG_PAUSE_S)


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
    """Serve the pass-through proxy: the least that a proxy with these libraries does for a stream."""
    session: list[aiohttp.ClientSession] = []

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if not session:
            session.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        body = (await receive())["body"]
        path = "chat/completions" if b'"agent":"chat"' in body else "responses"
        headers = {"content-type": "application/json", "authorization": "Bearer none"}
        async with session[0].post(f"http://127.0.0.1:{provider}/v1/{path}", data=body, headers=headers) as response:
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async for chunk in response.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    _serve(app, port)


def project(port: int, provider: int, dying: int | None = None) -> None:
    """Serve the server under test, as `projector serve` does, with its log enabled.

    With a provider that dies, the agent `twofold` has two targets, of which that is the first. The agent `chat` has a
    provider of the Chat API, and both have every dialect of a chat.
    """
    configure_logs()
    ports = {"main": provider, "dying": dying or provider}
    targets = [{"upstream": name, "model": "m"} for name in ("dying", "main")]
    upstreams = {name: {"base_url": f"http://127.0.0.1:{number}/v1"} for name, number in ports.items()}
    upstreams["chat"] = upstreams["main"] | {"api": "openai_chat"}
    settings = Settings(
        port=port,
        limits={"max_memory_bytes": MEMORY_BYTES},
        upstreams=upstreams,
        store={"retention_s": KEPT_S},
        agents={
            "default": {"upstream": "main", "model": "m", "dialects": CHAT_DIALECTS},
            "chat": {"upstream": "chat", "model": "m", "dialects": CHAT_DIALECTS},
            "twofold": {"targets": targets},
        },
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
