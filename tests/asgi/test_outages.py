"""Outages of Redis: no stream that has a client ends with them, and its readers go on soon after them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from bench.redis_server import RedisServer
from projector.server.streaming import stream_logs
from projector.server.streaming.stream_logs import StreamLogs
from projector.store.memory import MemoryStore
from projector.store.protocol import StoreUnavailableError, StreamHead
from tests.asgi.chaos import R_ONE, events_of
from tests.asgi.faulty_provider import END, HEAD
from tests.asgi.killed_servers import CONFIG, Case, fetch, messages_of, unnumbered
from tests.asgi.process import TWO_APIS, Process, running, serve_with

OUTAGES_S: Final = (2, 9, 12)
"""From a few renewals of a lease to more than a lease."""
BEFORE_S: Final = 2.0
AFTER_S: Final = 5.0
"""Less than a lease: the producer must not have to wait for one."""

pytestmark = pytest.mark.timeout(180)


@contextlib.asynccontextmanager
async def provider(lasting_s: float) -> AsyncIterator[int]:
    """Return the port of a provider whose responses last a number of seconds."""

    async def provide(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            events = events_of(R_ONE)
            first = next(one for one in events if b"output_text.delta" in one)
            delta = unnumbered(first)
            at, end = events.index(first), time.monotonic() + lasting_s
            writer.write(HEAD)
            for event in events[:at]:
                writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            while time.monotonic() < end:
                writer.write(b"%x\r\n%b\r\n" % (len(delta), delta))
                await asyncio.sleep(0.1)
            for event in events[at:]:
                if b"output_text.delta" not in event:
                    writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            writer.write(END)
        writer.close()

    async with await asyncio.start_server(provide, "127.0.0.1", 0, limit=2**24) as listening:
        yield listening.sockets[0].getsockname()[1]


async def read(case: Case, server: Process, path: str) -> None:
    """Read a stream to its end; a reader that is cut off or refused comes back with what it has."""
    for _ in range(200):
        case.problems.clear()
        case.rest += await fetch(case, server, f"{path}after={len(messages_of(case.rest))}", time.monotonic())
        if b'"final"' in case.rest or b'"error"' in case.rest:
            return
        await asyncio.sleep(0.25)


async def outage(outage_s: float, program: str, folder: Path) -> dict[str, Any]:
    """Stop Redis for some seconds during a stream; return what its client and a reader at another server got."""
    lasting_s = BEFORE_S + outage_s + AFTER_S
    async with provider(lasting_s) as port, contextlib.AsyncExitStack() as stack:
        redis = stack.enter_context(RedisServer(program, folder))
        config = folder / "projector.toml"
        settings = f'kind = "redis"\nurl = "{redis.url}"'
        config.write_text(TWO_APIS.format(port=port) + CONFIG.format(store=settings), encoding="utf-8")
        one, other = [await stack.enter_async_context(running(serve_with(config), 1)) for _ in range(2)]
        reader = await one.connect(Case("public_sse_v1", "a").request().decode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        location = head.partition("location: ")[2].partition("\r\n")[0]
        reading = asyncio.create_task(read(later := Case("public_sse_v1", "a"), other, f"{location}/events?"))
        await asyncio.sleep(BEFORE_S)
        redis.pause()
        await asyncio.sleep(outage_s)
        redis.resume()
        back_at, first = time.monotonic(), b""
        with contextlib.suppress(asyncio.IncompleteReadError):
            while size := int(await reader.readuntil(b"\r\n"), 16):
                first += (await reader.readexactly(size + 2))[:-2]
        ended_at = time.monotonic()
        await reading
        behind_s = time.monotonic() - ended_at
    return {
        "outage_s": outage_s,
        "client": messages_of(first),
        "reader": messages_of(later.rest),
        "went on for": ended_at - back_at,
        "reader behind by": behind_s,
    }


async def test_an_outage_of_redis_ends_no_stream(program: Any, tmp_path: Path) -> None:
    folders = [tmp_path / str(outage_s) for outage_s in OUTAGES_S]
    for folder in folders:
        folder.mkdir()
    cases = zip(OUTAGES_S, folders, strict=True)
    found = await asyncio.gather(*(outage(outage_s, program("redis-server"), folder) for outage_s, folder in cases))
    for one in found:
        assert b'"status":"completed"' in one["client"][-1], one["outage_s"]
        assert one["reader"] == one["client"], one["outage_s"]


async def test_only_what_was_written_ends_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, leases are renewed while no frame can be written."""
    monkeypatch.setattr(stream_logs, "RENEWAL_S", 0.001)
    monkeypatch.setattr(stream_logs, "_RETRY_S", (0.002,))
    store = MemoryStore()
    append, attempts = store.append, asyncio.Queue[None]()

    async def fail(_batches: Any) -> Any:
        attempts.put_nowait(None)
        raise StoreUnavailableError("the disk is full")

    monkeypatch.setattr(store, "append", fail)
    logs = StreamLogs(store, unread_s=300)
    one = logs.begin(StreamHead("s", "owner", "one", 0, b"{}"), lambda: None, lambda _: None)
    with capture_logs() as lines:

        def events() -> list[str]:
            return [line["event"] for line in lines if line["event"].startswith("store_")]  # not of other servers

        one.notify()
        while one.is_pending:
            await one.stored()
        one.add([{"kind": "output_text.delta"}], [b"{}"])
        one.notify()
        for _ in range(30):
            await attempts.get()
        assert events() == ["store_unavailable"]
        monkeypatch.setattr(store, "append", append)
        while not logs.is_available:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0)
        assert events() == ["store_unavailable", "store_available"]
    await logs.aclose()


async def test_a_place_does_not_wait_for_the_server_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()

    async def fail(*_: object) -> None:
        raise StoreUnavailableError("the server of the name is away")

    monkeypatch.setattr(store, "put", fail)
    monkeypatch.setattr(store, "place_of", lambda _: "place")
    logs = StreamLogs(store, unread_s=300)
    one = logs.begin(StreamHead("s", "owner", "one", 0, b"{}"), lambda: None, lambda _: None)
    one.names.append(("chat_stream", "key"))
    one.add([{"kind": "output_text.delta"}], [b"{}"])
    one.notify()
    await one.stored()
    assert (logs.at("s").is_available, one.is_pending) == (True, False)
    await logs.aclose()
