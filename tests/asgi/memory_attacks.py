"""Attacks on the memory of a server: what a provider sends, and what clients do; the rows of `ATTACKS`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias

from tests.asgi.conftest import request_bytes
from tests.asgi.process import TWO_APIS, Process

HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
MIB: Final = 2**20
MAX_MEMORY_BYTES: Final = 64 * MIB
HOLD_S: Final = 0.5
"""Seconds for which clients that read nothing keep their connections."""

CONFIG: Final = """
[limits]
max_memory_bytes = {limit}
[retries]
max = 0
[timeouts]
request_read_s = 2
[agents.helper]
upstream = "one"
model = "m"
dialects = ["public_sse_v1", "ag_ui"]
[workflows.wide]
max_parallel = 32
stages = [{{name = "all", steps = [{steps}]}}]
"""


def config(port: int) -> str:
    """Return the configuration of the attacked server."""
    steps = ", ".join(f'{{name = "s{at}", agent = "helper"}}' for at in range(32))
    return (CONFIG + TWO_APIS).format(limit=MAX_MEMORY_BYTES, port=port, steps=steps)


def event(value: object) -> bytes:
    """Return one event."""
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def delta(text: str, item: int = 0) -> bytes:
    """Return a delta of the text of an item."""
    return event(
        {
            "type": "response.output_text.delta",
            "item_id": f"m{item}",
            "output_index": item,
            "content_index": 0,
            "delta": text,
        }
    )


IMAGE: Final = {
    "type": "response.image_generation_call.partial_image",
    "item_id": "ig",
    "output_index": 0,
    "partial_image_index": 0,
}
DONE: Final = event({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}})
CHAT_DONE: Final = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n"


def image(size: int) -> bytes:
    """Return an image in one event."""
    return event(IMAGE | {"partial_image_b64": "A" * size})


def items(number: int) -> Iterator[bytes]:
    """Yield the beginnings of items, each tiny."""
    for at in range(number):
        yield event(
            {"type": "response.output_item.added", "output_index": at, "item": {"type": "message", "id": f"m{at}"}}
        )


def calls(number: int) -> Iterator[bytes]:
    """Yield tool calls of a Chat stream."""
    for at in range(number):
        call = {"index": at, "id": f"c{at}", "function": {"name": "f", "arguments": "{}"}}
        yield event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})


def annotations(number: int) -> Iterator[bytes]:
    """Yield citations of one message."""
    yield delta("a")
    for at in range(number):
        found = {
            "type": "url_citation",
            "url": f"https://a.example/{at}",
            "title": "t",
            "start_index": 0,
            "end_index": 1,
        }
        yield event(
            {
                "type": "response.output_text.annotation.added",
                "item_id": "m0",
                "output_index": 0,
                "content_index": 0,
                "annotation_index": at,
                "annotation": found,
            }
        )


class Sent(NamedTuple):
    """What the provider sends: parts made once, repeated, and the end."""

    parts: Callable[[], Iterator[bytes]]
    waits: bool = False
    """Whether the response stays open afterwards."""


def blocks(parts: Iterator[bytes], size: int = 65_536) -> Iterator[bytes]:
    """Join small parts."""
    joined, length = [], 0
    for part in parts:
        joined.append(part)
        length += len(part)
        if length >= size:
            yield b"".join(joined)
            joined, length = [], 0
    yield b"".join(joined)


def once(*parts: bytes) -> Callable[[], Iterator[bytes]]:
    """Return a maker of these parts."""
    return lambda: iter(parts)


def _long_chat(size: int) -> Iterator[bytes]:
    text = event({"choices": [{"index": 0, "delta": {"content": "abcdefgh " * 7_000}}]})
    yield from repeat(text, size // len(text))
    yield CHAT_DONE


def _text(size: int, done: bytes = DONE) -> Iterator[bytes]:
    text = delta("abcdefgh " * 7_000)
    yield from repeat(text, size // len(text))
    yield done


PROVIDED: Final[Mapping[str, Sent]] = {
    "hello": Sent(once(delta("hello"), DONE)),
    "images": Sent(lambda: iter([image(27 * MIB), DONE])),
    "events": Sent(lambda: iter([event({"type": "response.unknown", "text": "A" * 30 * MIB}), DONE])),
    "objects": Sent(lambda: iter([b'data: {"type":"response.unknown","x":[' + b"{}," * (9 * MIB) + b"0]}\n\n", DONE])),
    "wide-text": Sent(lambda: iter([delta("").replace(b'""', b'"' + b"a" * (28 * MIB) + "😀".encode() + b'"'), DONE])),
    "commas": Sent(lambda: iter([event({"type": "response.unknown", "text": "," * 30 * MIB}), DONE])),
    "lenient": Sent(lambda: iter([b'data: {"text":"' + b"\\n" * (15 * MIB) + b'","x":NaN}\n\n', DONE])),
    "fast": Sent(lambda: blocks(repeat(delta("a"), 200_000))),
    "fast-chat": Sent(lambda: blocks(repeat(event({"choices": [{"index": 0, "delta": {"content": "a"}}]}), 400_000))),
    "items": Sent(lambda: blocks(part for parts in (items(250_000), [DONE]) for part in parts)),
    "calls": Sent(lambda: blocks(part for parts in (calls(100_000), [CHAT_DONE]) for part in parts)),
    "annotations": Sent(lambda: blocks(part for parts in (annotations(100_000), [DONE]) for part in parts)),
    "half": Sent(once(b"data: " + b"x" * MIB), waits=True),
    "comment": Sent(lambda: iter([b": " + b"x" * (31 * MIB) + b"\n\n", delta("a"), DONE])),
    "lines": Sent(lambda: iter([b"data:\n" * (5 * MIB) + b"\n", delta("a"), DONE])),
    "text": Sent(lambda: _text(64 * MIB)),
    "chat": Sent(lambda: _long_chat(64 * MIB)),
    "outputs": Sent(lambda: _text(4 * MIB)),
}


@contextlib.asynccontextmanager
async def providing() -> AsyncIterator[int]:
    """Run a provider that plays the row whose name follows `attack-` in a request; yield its port."""
    tasks: set[asyncio.Task[Any]] = set()
    made: dict[str, list[bytes]] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
            body = await reader.readexactly(length)
            name = body.partition(b"attack-")[2].partition(b'"')[0].partition(b" ")[0].decode()
            sent = PROVIDED[name]
            if name not in made:
                made[name] = list(sent.parts())
            writer.write(HEAD)
            for part in made[name]:
                for start in range(0, len(part), 256 * 1024):
                    writer.write(part[start : start + 256 * 1024])
                    await writer.drain()
            if sent.waits:
                await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**24, backlog=2048)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


Client: TypeAlias = Callable[[Process], Awaitable[str]]
"""One client; returns the end of its response, as its code or status."""


def end_of(data: bytes) -> str:
    """Return how a response ended: the code of an error, the status of `final`, or that it is cut off."""
    for line in reversed(data[-4_096:].splitlines()):
        text = line.removeprefix(b"data: ")
        if text[:1] != b"{":
            continue
        with contextlib.suppress(ValueError):
            found = json.loads(text)
            error = found.get("error") or {}
            return str(
                error.get("code")
                or found.get("code")
                or found.get("final", {}).get("status")
                or found.get("type")
                or found.get("status")
            )
    head = data.partition(b"\r\n")[0].decode("latin-1")
    return head[:30] or "nothing"


async def exchange(server: Process, *parts: bytes, reads: bool = True, hold_s: float = HOLD_S) -> str:
    """Send bytes, and read the response to its end, or nothing of it for a while."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=MIB)
    last = b""
    try:
        with contextlib.suppress(OSError):
            for part in parts:
                writer.write(part)
                await writer.drain()
            if not reads:
                await asyncio.sleep(hold_s)
                return "stalled"
            while data := await reader.read(MIB):
                last = (last + data)[-65_536:]
        return end_of(last)
    finally:
        writer.transport.abort()


def asks(path: str, body: Mapping[str, object], *, reads: bool = True, hold_s: float = HOLD_S) -> Client:
    """Return a client that sends one request."""
    data = request_bytes(path, json.dumps(body).encode(), connection="close")
    return lambda server: exchange(server, data, reads=reads, hold_s=hold_s)


def chat(name: str, agent: str = "helper", *, reads: bool = True, hold_s: float = HOLD_S) -> Client:
    """Return a client of the chat stream."""
    return asks("/api/v1/chat/stream", {"message": f"attack-{name}", "agent": agent}, reads=reads, hold_s=hold_s)


def slow_body(size: int) -> Client:
    """Return a client that sends all but the last byte of a body."""
    body = b'{"message": "attack-hello ' + b"a" * size + b'"}'
    data = request_bytes("/api/v1/chat/stream", body, connection="close")
    return lambda server: exchange(server, data[:-1], reads=False, hold_s=1.5)


def head_only(size: int) -> Client:
    """Return a client that sends half a head."""
    return lambda server: exchange(server, b"GET /livez HTTP/1.1\r\nx: " + b"y" * size, reads=False, hold_s=1.0)


def pipelined(number: int) -> Client:
    """Return a client that sends requests ahead and reads nothing."""
    return lambda server: exchange(server, b"GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n" * number, reads=False)


def large_body(name: str, size: int, character: str = "a") -> Client:
    """Return a client that sends a large message."""
    body = json.dumps({"message": f"attack-{name} " + character * size, "agent": "helper"}, ensure_ascii=False)
    data = request_bytes("/api/v1/chat/stream", body.encode(), connection="close")
    return lambda server: exchange(server, data)


def history(size: int) -> Client:
    """Return a client of AG-UI with a long history."""
    messages = [{"id": f"m{at}", "role": ("user", "assistant")[at % 2], "content": "x" * 70_000} for at in range(size)]
    messages.append({"id": "last", "role": "user", "content": "attack-hello"})
    run = {"threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return asks("/api/v1/ag-ui/chatty", run | {"messages": messages})


class Attack(NamedTuple):
    """Some clients at the same time."""

    client: Client
    number: int


def _json(name: str, path: str, body: Mapping[str, object]) -> Client:
    return asks(path, body | {"model": f"attack-{name}"})


ATTACKS: Final[Mapping[str, Attack]] = {
    "images": Attack(chat("images"), 8),
    "large events": Attack(chat("events"), 8),
    "an event of many objects": Attack(chat("objects"), 4),
    "an event of wide characters": Attack(chat("wide-text"), 4),
    "an event of many commas": Attack(chat("commas"), 4),
    "an event that is not strict JSON": Attack(chat("lenient"), 4),
    "stalled readers": Attack(chat("fast", reads=False, hold_s=2), 500),
    "stalled readers of chat": Attack(chat("fast-chat", "chatty", reads=False, hold_s=2), 500),
    "endless items": Attack(chat("items"), 2),
    "endless items in another dialect": Attack(
        asks("/v1/responses", {"input": "attack-items", "model": "m", "stream": True}), 2
    ),
    "endless tool calls": Attack(chat("calls", "chatty"), 2),
    "endless annotations": Attack(chat("annotations"), 2),
    "unfinished events": Attack(chat("half", reads=False, hold_s=2), 1000),
    "a comment": Attack(chat("comment"), 8),
    "an event of many lines": Attack(chat("lines"), 4),
    "endless text": Attack(chat("text"), 8),
    "JSON of an endless text": Attack(
        _json("chat", "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}), 20
    ),
    "JSON of endless items": Attack(_json("items", "/v1/responses", {"input": "a"}), 2),
    "slow bodies": Attack(slow_body(7 * MIB), 60),
    "large bodies": Attack(large_body("hello", 900_000), 200),
    "large bodies of wide characters": Attack(large_body("hello", 900_000, "😀"), 40),
    "half heads": Attack(head_only(60_000), 900),
    "pipelined requests": Attack(pipelined(16), 300),
    "large histories": Attack(history(100), 30),
    "parallel steps": Attack(asks("/api/v1/workflows/wide/run-stream", {"message": "attack-outputs"}), 1),
}
"""Name -> attack."""
