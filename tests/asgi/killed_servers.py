"""Streams whose server is killed: every reader gets each event once, and one terminal that reports a failure.

Run `python -m tests.asgi.killed_servers --cases 200` for more cases than the tests have. A case is a stream in one of
six dialects. Its server gets SIGKILL at a random moment; its client comes back with the last event that it has, at
once, by the route of its API; other readers come at once and later. What the client got before and after, and what each
reader got, must be the same bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from bench.redis_server import RedisServer
from projector.core.faults import FAULTS
from tests.asgi.chaos import C_ONE, IN_CHAT, IN_RESPONSES, R_ONE, RUN_INPUT, STREAM, events_of, read_stream
from tests.asgi.conftest import Answer, request_bytes
from tests.asgi.faulty_provider import END, HEAD
from tests.asgi.process import TWO_APIS, Process, running, serve_with
from tests.waiting import wait_until

DIALECTS: Final = ("public_sse_v1", "ai_sdk", "ag_ui", "responses", "chat_completions", "anthropic_messages")
STORES: Final = ("redis", "sqlite")
PER_SERVER: Final = 12
"""Streams of a server that is killed, in all dialects."""
LONGEST_S: Final = 1.2
"""Seconds after which a server is killed, at the latest: some of its streams have ended."""
ENDED_S: Final = 10.0
"""Documented limit of the time from the death of a server to the terminal of its streams."""
LATER_S: Final = 11.0
SLOW_S: Final = 10.0
"""Seconds that a busy machine may add."""
INTERRUPTED: Final = (b"stream_interrupted", FAULTS["stream_interrupted"].message.encode())
"""What an error of a stream without a producer has: its code, or in the Messages API the message."""
CONFIG: Final = """
[agents.helper]
upstream = "one"
model = "m"
dialects = ["public_sse_v1", "ag_ui", "ai_sdk"]
[store]
{store}
"""


def unnumbered(event: bytes) -> bytes:
    """Return an event without its number, so that it can be sent again: with it, it would be a repetition."""
    return re.sub(rb'"sequence_number":\d+,?', b"", event)


@dataclass
class Case:
    """A stream, and what its readers got."""

    dialect: str
    name: str
    """ID of its chat or run."""
    head: dict[str, str] = field(default_factory=dict)
    begin: bytes = b""
    """The whole events of the first client, before its server was killed."""
    rest: bytes = b""
    wholes: list[bytes] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    def request(self) -> bytes:
        """Return the request that starts the stream."""
        chat = {"id": self.name, "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "hi"}]}]}
        path, body = {
            "public_sse_v1": ("/api/v1/chat/stream", {"message": "hi", "agent": "helper"}),
            "ai_sdk": ("/api/v1/ai-sdk/helper", chat),
            "ag_ui": ("/api/v1/ag-ui/helper", RUN_INPUT | {"runId": self.name}),
            "responses": ("/v1/responses", IN_RESPONSES | STREAM),
            "chat_completions": ("/v1/chat/completions", IN_CHAT | STREAM),
            "anthropic_messages": ("/v1/messages", IN_CHAT | STREAM | {"max_tokens": 9}),
        }[self.dialect]
        return request_bytes(path, json.dumps(body).encode(), connection="close")

    @property
    def events(self) -> str:
        """The address of the events in the dialect of the first client."""
        return f"{self.head['location']}/events?dialect={self.dialect}"

    def again(self) -> str:
        """Return the address that its client asks for what follows, as its API has it."""
        count = len(messages_of(self.begin))
        if self.dialect == "ai_sdk":
            return f"/api/v1/ai-sdk/helper/{self.name}/stream"
        if self.dialect == "ag_ui":
            return "/api/v1/ag-ui/helper?" + urlencode({"runId": self.name, "offset": count or -1})
        if self.dialect == "responses" and count:
            created = json.loads(messages_of(self.begin)[0].partition(b"data: ")[2])
            given = {"stream": "true", "starting_after": count - 1}
            return f"/v1/responses/{created['response']['id']}?{urlencode(given)}"
        return f"{self.events}&after={count}"


def messages_of(data: bytes) -> list[bytes]:
    """Return the events of a stream, without comments and `[DONE]`."""
    return [one for one in events_in(data) if not one.endswith(b"data: [DONE]")]


def events_in(data: bytes) -> list[bytes]:
    """Return the events of a stream, without heartbeats."""
    return [one for one in data.split(b"\n\n") if one and not one.startswith((b":", b"event: ping\n"))]


async def provide(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a request with paced events, some of which arrive together."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]))
        fresh = b'"id":"resp_%d' % time.monotonic_ns()
        events = [
            re.sub(rb'"id":"resp_[0-9a-f]+', fresh, one)
            for one in events_of(C_ONE if b"chat/completions" in head else R_ONE)
        ]
        delta = next(one for one in events if b"output_text.delta" in one or b'"content":"' in one)
        at = events.index(delta)
        chosen = random.Random()
        await asyncio.sleep(chosen.uniform(0, 0.1))
        writer.write(HEAD)
        for event in [
            *events[:at],
            *[unnumbered(delta)] * 60,
            *(one for one in events[at:] if b"output_text.delta" not in one),
        ]:
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            await writer.drain()
            if chosen.random() < 0.7:
                await asyncio.sleep(chosen.uniform(0, 0.02))
        writer.write(END)
    writer.close()


async def begin(case: Case, server: Process) -> None:
    """Start a stream and read it until it ends or its server does."""
    data = b""
    with contextlib.suppress(asyncio.IncompleteReadError, OSError, IndexError, ValueError):
        reader = await server.connect(case.request().decode())
        answer = Answer(reader, None)  # type: ignore[arg-type]  # it is not closed
        await answer.read_head()
        case.head = answer.headers
        while True:
            data += await answer.chunk()
            case.begin = data[: data.rfind(b"\n\n") + 2] if b"\n\n" in data else b""


async def fetch(case: Case, server: Process, path: str, since: float) -> bytes:
    """Return a response to its end, and note what is wrong with it."""
    data = await (await server.connect(f"GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")).read()
    case.slowest_s = max(case.slowest_s, time.monotonic() - since)
    head, _, body = data.partition(b"\r\n\r\n")
    status = int(head[9:12] or 0)
    if status == 204:
        return b""
    if status != 200:
        case.problems.append(f"{path}: {status} {body[:300]!r}")
        return b""
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        whole += body[: int(size, 16)]
        if int(size, 16) == 0:
            break
        body = body[int(size, 16) + 2 :]
    else:
        case.problems.append(f"{path}: the response was cut off")
    return b"".join(one + b"\n\n" for one in events_in(whole))


async def come_back(case: Case, server: Process, since: float) -> None:
    """Read what the first client and others get at another server; the end is due some time after `since`."""
    if "location" not in case.head:
        return  # the client has nothing to come back for: its request has failed
    case.rest, whole = await asyncio.gather(
        fetch(case, server, case.again(), since), fetch(case, server, case.events, since)
    )
    case.wholes.append(whole)
    case.wholes.append(await fetch(case, server, case.events, time.monotonic()))
    await asyncio.sleep(max(0.0, since + LATER_S - time.monotonic()))
    now = time.monotonic()
    count = len(messages_of(case.begin))
    later, rest = await asyncio.gather(
        fetch(case, server, case.events, now), fetch(case, server, f"{case.events}&after={count}", now)
    )
    case.wholes.append(later)
    case.wholes.append(case.begin.removesuffix(b"data: [DONE]\n\n") + rest if rest else case.begin)


def judge(case: Case) -> list[str]:
    """Return what is wrong with what the readers of a stream got."""
    if "location" not in case.head:
        return []
    begun = b"".join(one + b"\n\n" for one in events_in(case.begin))
    found, whole = [*case.problems], case.wholes[0]
    found += [f"reader {number} got other bytes" for number, one in enumerate(case.wholes) if one != whole]
    if not whole.startswith(begun):
        found.append("the client got what is not in the log")
    if case.dialect == "ai_sdk":  # its clients read a running answer from the start
        joined = case.rest or begun
    else:
        joined = begun.removesuffix(b"data: [DONE]\n\n") + case.rest if case.rest else begun
    is_complete, violations = _read(case.dialect, whole)
    if joined != whole and not (case.dialect == "ai_sdk" and is_complete and not case.rest):
        found.append("the client got other bytes than a reader")
    is_reported = any(one in whole for one in INTERRUPTED)
    if is_complete and is_reported:
        found.append("a cut answer looks complete")
    if not is_complete and not is_reported:
        found.append("the failure is not reported")
    if case.slowest_s > ENDED_S + SLOW_S:
        found.append(f"the end came after {case.slowest_s:.1f} s")
    return found + violations


def _read(dialect: str, data: bytes) -> tuple[bool, list[str]]:
    if dialect != "ai_sdk":
        return read_stream(dialect, data)
    types = [json.loads(one.partition(b"data: ")[2])["type"] for one in messages_of(data)]
    ends = [one for one in types if one in {"finish", "error", "abort"}]
    is_right = len(ends) == 1 and types[-1] == ends[0] and data.endswith(b"data: [DONE]\n\n")
    return ends == ["finish"], [] if is_right else [f"terminal events {ends}, the last one is {types[-1:]}"]


@contextlib.asynccontextmanager
async def storing(store: str, folder: Path, program: str) -> AsyncIterator[str]:
    """Run what a store needs; yield its settings."""
    if store == "sqlite":
        yield f'kind = "sqlite"\npath = "{folder / "streams.db"}"'
        return
    with RedisServer(program, folder) as redis:
        yield f'kind = "redis"\nurl = "{redis.url}"'


async def run_cases(store: str, count: int, folder: Path, program: str = "redis-server") -> list[Case]:
    """Return cases with what is wrong with each; servers are killed one after the other."""
    listening = await asyncio.start_server(provide, "127.0.0.1", 0, limit=2**24)
    port, cases = listening.sockets[0].getsockname()[1], list[Case]()
    async with listening, storing(store, folder, program) as settings, contextlib.AsyncExitStack() as stack:
        config = folder / "projector.toml"
        routes = '[passthrough]\nmessages = "one"', 'dialects = ["anthropic_messages", '
        text = TWO_APIS.format(port=port) + CONFIG.format(store=settings)
        text = text.replace("[passthrough]", routes[0]).replace('dialects = ["responses"', routes[1] + '"responses"')
        config.write_text(text, encoding="utf-8")
        code = serve_with(config)
        survivor = None if store == "sqlite" else await stack.enter_async_context(running(code, 1))
        reading: list[asyncio.Task[None]] = []
        while len(cases) < count:
            killed = [
                Case(DIALECTS[number % len(DIALECTS)], f"name-{len(cases)}-{number}") for number in range(PER_SERVER)
            ]
            killed_at = await kill(code, killed)
            cases += killed
            if survivor is not None:
                reading += [asyncio.create_task(come_back(case, survivor, killed_at)) for case in killed]
                continue
            async with running(code, 1) as restarted:
                now = time.monotonic()  # before there was no server that could end them
                await asyncio.gather(*(come_back(case, restarted, now) for case in killed))
        await asyncio.gather(*reading)
    for case in cases:
        case.problems = judge(case)
    return cases


async def kill(code: str, cases: list[Case]) -> float:
    """Run streams on a server until it is killed; return when that was."""
    async with running(code, 1) as victim:
        assert "ok" in await victim.get("/livez")
        first = [asyncio.create_task(begin(case, victim)) for case in cases]
        await wait_until(lambda: any(case.head for case in cases))  # a slow machine has none in this time
        await asyncio.sleep(random.uniform(0.02, LONGEST_S))
        victim.process.send_signal(signal.SIGKILL)
        killed_at = time.monotonic()
        await victim.process.wait()
        await asyncio.gather(*first)
    return killed_at


def summary(cases: list[Case]) -> dict[str, Any]:
    """Return how many cases there were, and what was wrong."""
    begun = [case for case in cases if "location" in case.head]
    return {
        "cases": len(cases),
        "with a head": len(begun),
        "interrupted": sum(any(one in case.wholes[0] for one in INTERRUPTED) for case in begun),
        "slowest_s": round(max((case.slowest_s for case in begun), default=0.0), 1),
        "wrong": Counter(f"{case.dialect}: {one}" for case in cases for one in case.problems),
    }


def main() -> None:
    """Run cases with each store, and print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--store", choices=STORES, action="append")
    given = parser.parse_args()
    for store in given.store or STORES:
        with tempfile.TemporaryDirectory() as folder:
            print(store, summary(asyncio.run(run_cases(store, given.cases, Path(folder)))))  # noqa: T201


if __name__ == "__main__":
    main()
