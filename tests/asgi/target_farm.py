"""Three providers on sockets that fail as a test tells them, and settings with agents that have several of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from bench.redis_server import free_port
from projector.core.sse import encode_sse
from tests.asgi.conftest import SSE_HEAD, Answer, Site, abort

NAMES: Final = ("one", "two", "three")
FRESH: Final = iter(range(10**6))
"""Numbers of models: each test has targets of its own, which nothing has cooled."""
TLS: Final = b"\x16"
"""First byte of a client that expects TLS."""
MAX_RETRIES: Final = 2
CHAT: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"


class Call(NamedTuple):
    """A request that a provider received."""

    head: str
    body: dict[str, Any]


class Wire:
    """A connection, from the provider's side."""

    def __init__(self, provider: Provider, call: Call, writer: asyncio.StreamWriter, closed: asyncio.Event) -> None:
        self.provider = provider
        self.call = call
        self.writer = writer
        self.closed = closed

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def events(self, *events: dict[str, Any]) -> None:
        data = b"".join(encode_sse(json.dumps(event).encode()) for event in events)
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))


Play: TypeAlias = Callable[[Wire], Awaitable[None]]


class Provider:
    """A provider that plays its behaviours one after another, then answers with its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.plays: deque[Play] = deque()
        self.calls: list[Call] = []
        self.called = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()

    def on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (first := await reader.readexactly(1)) == TLS:
            writer.write(b"no TLS here")
            return
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].partition("\r")[0] or 0)
        call = Call(head, json.loads(await reader.readexactly(length)) if length else {})
        self.calls.append(call)
        self.called.set()
        closed = asyncio.Event()
        watching = asyncio.create_task(_watch(reader, closed))
        try:
            await (self.plays.popleft() if self.plays else answers)(Wire(self, call, writer, closed))
        finally:
            watching.cancel()


async def _watch(reader: asyncio.StreamReader, closed: asyncio.Event) -> None:
    with contextlib.suppress(OSError):
        await reader.read()
    closed.set()


def events_of(name: str, number: int, call: Call) -> list[dict[str, Any]]:
    """Return an answer that consists of the provider's name."""
    ids = f"{name}_{number}"
    if "messages" in call.body:
        chunk = {"id": f"c_{ids}", "object": "chat.completion.chunk", "created": 1, "model": call.body["model"]}
        return [
            {**chunk, "choices": [{"index": 0, "delta": {"content": name}, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        ]
    response = {"id": f"resp_{ids}", "status": "in_progress"}
    item = {"id": f"msg_{ids}", "type": "message", "role": "assistant", "content": []}
    delta = {"item_id": item["id"], "output_index": 0, "content_index": 0, "delta": name}
    return [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_text.delta", **delta},
        {"type": "response.completed", "response": {**response, "status": "completed"}},
    ]


async def answers(wire: Wire) -> None:
    """Answer with the provider's name."""
    await wire.send(SSE_HEAD)
    await wire.events(*events_of(wire.provider.name, len(wire.provider.calls), wire.call))
    await wire.send(b"0\r\n\r\n")


async def breaks_off(wire: Wire) -> None:
    """Begin to answer, then reset the connection."""
    await wire.send(SSE_HEAD)
    await wire.events(*events_of(wire.provider.name, len(wire.provider.calls), wire.call)[:1])
    await asyncio.sleep(0.02)
    abort(wire.writer)


async def closes(_wire: Wire) -> None:
    """Close without a response."""


async def resets(wire: Wire) -> None:
    """Reset the connection."""
    abort(wire.writer)


async def head_only(wire: Wire) -> None:
    """Send the head of a response, and close."""
    await wire.send(SSE_HEAD)


async def silent(wire: Wire) -> None:
    """Send nothing."""
    await wire.closed.wait()


async def silent_after_head(wire: Wire) -> None:
    """Send the head of a response, and nothing else."""
    await wire.send(SSE_HEAD)
    await wire.closed.wait()


async def not_http(wire: Wire) -> None:
    """Send something that is not HTTP."""
    await wire.send(b"SSH-2.0-x\r\n\r\n")


def status(code: int, *lines: str) -> Play:
    """Return a behaviour that answers with an error."""
    body = b'{"error": {"message": "No."}}'
    head = [f"HTTP/1.1 {code} X", f"content-length: {len(body)}", "connection: close", *lines, "", ""]

    async def play(wire: Wire) -> None:
        await wire.send("\r\n".join(head).encode() + body)

    return play


class Row(NamedTuple):
    """A failure: the code, what may follow (`again`: the same target, `over`: another one), and how it is made."""

    code: str
    remedy: str
    play: Play

    def hasty(self, *names: str) -> tuple[str, ...]:
        """Return the upstreams with a short time limit: those that fail, if the failure is silence."""
        return names if self.code == "upstream_timeout_first_byte" else ()


ROWS: Final[Mapping[str, Row]] = {
    "closes": Row("upstream_reset", "again over", closes),
    "resets": Row("upstream_reset", "again over", resets),
    "head only": Row("upstream_reset", "again over", head_only),
    "silent": Row("upstream_timeout_first_byte", "over", silent),
    "silent after the head": Row("upstream_timeout_first_byte", "over", silent_after_head),
    "not http": Row("upstream_malformed", "over", not_http),
    **{
        str(code): Row(f"upstream_http_{code}", remedy, status(code))
        for remedy, codes in {
            "again over": (408, 429, 500, 502, 503, 504, 529, 599),
            "over": (401, 402, 403, 404, 410),
            "again": (409, 425),
            "": (307, 400, 413, 418, 422, 501, 505),
        }.items()
        for code in codes
    },
    "429 wait": Row("upstream_http_429", "over", status(429, "retry-after: 60")),
    "503 wait": Row("upstream_http_503", "over", status(503, "retry-after: 60")),
    "500 final": Row("upstream_http_500", "over", status(500, "x-should-retry: false")),
}


class Farm:
    """Three providers, and a server with agents for them."""

    def __init__(self, site: Site, providers: Mapping[str, Provider]) -> None:
        self.site = site
        self.providers = providers

    async def ask(self, agent: str, **body: Any) -> Answer:
        return await self.site.ask(body={"agent": agent, "message": "hello", **body})

    @property
    def calls(self) -> dict[str, int]:
        """The number of requests that each provider received, without those that received none."""
        return {name: len(one.calls) for name, one in self.providers.items() if one.calls}


@cache
def ports() -> dict[str, int]:
    """Return free ports of the providers, and one on which nobody listens."""
    return {name: free_port() for name in (*NAMES, "refused")}


@contextlib.asynccontextmanager
async def playing() -> AsyncIterator[dict[str, Provider]]:
    """Run the providers."""
    found = {name: Provider(name) for name in NAMES}
    async with contextlib.AsyncExitStack() as stack:
        for name, one in found.items():
            listening = await asyncio.start_server(one.on_connection, "127.0.0.1", ports()[name])
            stack.callback(listening.close)
        yield found
        tasks = [task for one in found.values() for task in one.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


AGENTS: Final = 120
PATIENCE_S: Final = 60.0
"""Time limit of the first byte of an upstream that answers: a busy machine must not exceed it."""
HASTE_S: Final = 0.25
"""Time limit of the first byte of an upstream that is silent."""


def settings_of(hasty: Collection[str] = (), **more: Any) -> dict[str, Any]:
    """Return settings with many agents, each with targets of its own; requests to `hasty` upstreams soon time out."""
    urls = {name: f"http://127.0.0.1:{port}/v1" for name, port in ports().items()}
    urls["tls"] = urls["one"].replace("http:", "https:")
    chains = {
        "two": ("one", "two"),
        "three": NAMES,
        "alone": ("one",),
        "tls": ("tls", "two"),
        "refused": ("refused", "two"),
    }
    agents = {
        f"{kind}-{number}": {"targets": [{"upstream": name, "model": f"m{number}"} for name in chain]}
        for kind, chain in chains.items()
        for number in range(AGENTS)
    }
    return {
        "api_key": None,
        "base_url": None,
        "upstreams": {
            name: {"base_url": url, "timeouts": {"first_byte_s": HASTE_S if name in hasty else PATIENCE_S}}
            for name, url in urls.items()
        },
        "agents": agents,
        "retries": {"max": MAX_RETRIES, "initial_backoff_s": 0.01, "budget_share": 10},
        **more,
    }


def fresh(kind: str) -> str:
    """Return an agent that no test has used."""
    return f"{kind}-{next(FRESH) % AGENTS}"


async def outcome_of(answer: Answer) -> tuple[str, str]:
    """Return who answered, and the code of the failure."""
    if answer.status != 200:
        return "", (await answer.problem())["code"]
    frames = await answer.frames()
    assert sum(frame["kind"] in {"final", "error"} for frame in frames) == 1
    last = frames[-1]
    return last.get("final", {}).get("response_text", ""), last.get("error", {}).get("code", "")
