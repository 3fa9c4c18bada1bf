"""The number of open connections: its limits, and what is reported of connections that the server closes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from projector.server.config.settings import Limits, Settings
from projector.server.http import connection
from projector.server.http.connection import Connections, Listener
from projector.server.process import server
from projector.server.telemetry import logs
from projector.server.telemetry.logs import JoinedLines
from tests.waiting import wait_until

PROBE = b"GET /livez HTTP/1.1\r\nhost: test\r\n\r\n"
HEAD = (
    b"POST /api/v1/chat/stream HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n"
    b"content-length: 2\r\nexpect: 100-continue\r\n\r\n"
)
"""The head of a request whose body is awaited."""


@contextlib.asynccontextmanager
async def connected(site: Any) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def probed(site: Any) -> bytes:
    async with connected(site) as (reader, writer):
        writer.write(PROBE)
        with contextlib.suppress(ConnectionResetError):
            return await reader.readuntil(b"\r\n\r\n")
        return b"reset"


async def metrics_of(site: Any) -> str:
    return str((await (await site.get("/metrics", port=site.admin_port)).rest()).decode())


def closed(text: str) -> list[str]:
    """Return the samples of connections that were closed."""
    return [line for line in text.splitlines() if line.startswith("projector_connections_closed_total")]


def reported(lines: list[Any], reason: str) -> list[tuple[str, int]]:
    """Return levels and counts of the lines with a reason; servers of other tests may write lines with another one."""
    closed_ = [line for line in lines if line["event"] == "connections_closed" and line["reason"] == reason]
    return [(line["log_level"], line["count"]) for line in closed_]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [({"max_connections": 2}, "limit"), ({"max_connections_per_address": 2}, "address_limit")],
)
async def test_a_connection_too_many(serve: Any, limits: dict[str, int], reason: str) -> None:
    site = serve(limits=limits, admin={"port": 0})
    with capture_logs() as lines:
        async with connected(site) as (reader, writer), connected(site) as (other_reader, other):
            for one in (writer, other):
                one.write(HEAD)
            for answers in (reader, other_reader):  # one without a request would give way
                assert await answers.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            for _ in range(3):
                async with connected(site) as (refused, asking):
                    asking.write(HEAD)
                    answer = await refused.read()  # the connection is not reset
                    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\n")
            writer.write(b"[]")  # those that are open go on
            await reader.readuntil(b"must be a JSON object")
            text = await metrics_of(site)
            assert "projector_connections_open 2.0" in text
            assert closed(text) == [f'projector_connections_closed_total{{reason="{reason}"}} 3.0']
    assert reported(lines, reason)[0] == ("warning", 1), "further ones are in the next line"
    while not (await probed(site)).startswith(b"HTTP/1.1 200"):  # noqa: ASYNC110 - the server is another thread
        await asyncio.sleep(0.01)


async def test_a_flood_of_refused_connections_is_reset(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_REFUSED_MAX", 0)
    site = serve(limits={"max_connections_per_address": 1})
    async with connected(site) as (reader, writer), connected(site) as (refused, asking):
        asking.write(HEAD)
        with contextlib.suppress(ConnectionResetError):
            await refused.read()
        writer.write(PROBE)
        await reader.readuntil(b"ok\n")


@pytest.mark.parametrize("sent", [b"", PROBE[:-2]])
async def test_silent_connections_give_way(serve: Any, sent: bytes) -> None:
    """The oldest one without a request is closed for a new one; those with a request stay."""
    site = serve(limits={"max_connections": 3}, admin={"port": 0})
    async with connected(site) as (reader, used), connected(site) as (first, one), connected(site) as (_, other):
        one.write(sent)
        other.write(sent)
        while "projector_connections_open 3.0" not in (await metrics_of(site)):  # noqa: ASYNC110 - another thread
            await asyncio.sleep(0.01)
        used.write(PROBE)  # only now, so that it is silent for the shortest time
        await reader.readuntil(b"ok\n")
        assert (await probed(site)).startswith(b"HTTP/1.1 200")
        assert await first.read() == b""
        used.write(PROBE)
        await reader.readuntil(b"ok\n")
    text = await metrics_of(site)
    assert 'projector_connections_closed_total{reason="limit"}' in text


async def test_idle_connections_give_way(serve: Any) -> None:
    """The one that has been idle for longest is closed for a new one."""
    site = serve(limits={"max_connections": 2})
    async with connected(site) as (first, one), connected(site) as (second, other):
        for reader, writer in ((first, one), (second, other), (first, one)):
            writer.write(PROBE)
            await reader.readuntil(b"ok\n")
        assert (await probed(site)).startswith(b"HTTP/1.1 200")
        assert await second.read() == b""
        one.write(PROBE)
        await first.readuntil(b"ok\n")


async def test_a_connection_whose_last_body_is_awaited_is_not_idle(serve: Any) -> None:
    """Closing it at once would take its response from the client."""
    site = serve(limits={"max_connections": 1})
    async with connected(site) as (reader, writer):
        writer.write(b"POST /nothing HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: 10\r\n\r\n")
        await reader.readuntil(b"}")
        assert (await probed(site)).startswith(b"HTTP/1.1 503")


def test_an_idle_connection_outlives_those_of_clients() -> None:
    """Clients give theirs up after 5 s (httpx), 15 s (aiohttp) and 60 s (nginx); uvicorn's default is 5 s."""
    assert server(Settings(), demo=True).config.timeout_keep_alive > 60


async def test_a_head_that_is_late(serve: Any) -> None:
    site = serve(timeouts={"request_read_s": 0.2}, admin={"port": 0})
    with capture_logs() as lines:
        async with connected(site) as (reader, writer):
            writer.write(PROBE[:-2])
            assert await reader.read() == b""
    assert reported(lines, "slow_head") == [("info", 1)]
    text = await metrics_of(site)
    assert closed(text) == ['projector_connections_closed_total{reason="slow_head"} 1.0']


async def test_lines_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "REPORT_S", 0.05)
    joined = JoinedLines("joined_event", {"b": logging.WARNING})
    with capture_logs() as lines:  # servers of other tests may write lines too

        def found() -> list[tuple[str, str, int]]:
            return [(one["log_level"], one["reason"], one["count"]) for one in lines if one["event"] == "joined_event"]

        for _ in range(100):
            joined.add("a")
        joined.add("b")
        await wait_until(lambda: len(found()) >= 3)
        await wait_until(lambda: not joined._recent)  # a period in which nothing happens
        for _ in range(2):
            joined.add("a")
        joined.flush()
        joined.flush()
    assert found() == [("info", "a", 1), ("warning", "b", 1), ("info", "a", 99), ("info", "a", 1), ("info", "a", 1)]


class Made(asyncio.Protocol):
    """The protocol of a connection, as far as a listener without limits uses it."""

    is_admitted, transport = False, None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport


@contextlib.asynccontextmanager
async def listening(make: Callable[[], Made], count: int) -> AsyncIterator[tuple[Listener, list[socket.socket]]]:
    """Listen for clients that have connected already."""
    waiting = socket.create_server(("127.0.0.1", 0), backlog=count)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(waiting.getsockname())) for _ in range(count)]
        listener = Listener(waiting, make)  # type: ignore[arg-type] # all that it uses
        yield listener, clients
        listener.close()
        await listener.wait_closed()


async def test_new_connections_do_not_wait_for_a_turn_each() -> None:
    protocols: list[Made] = []

    def make() -> Made:
        protocols.append(Made())
        return protocols[-1]

    async with listening(make, 150):
        for _ in range(20):
            await asyncio.sleep(0)
        transports = [one.transport for one in protocols if one.transport is not None]
        for transport in transports:
            transport.abort()
        assert len(transports) == 150


async def test_connections_that_were_just_accepted_are_closed_with_the_listener() -> None:
    def make() -> Made:
        if not is_closing:
            is_closing.append(True)
            asyncio.get_running_loop().call_soon(listener.close)
        return Made()

    is_closing: list[bool] = []
    async with listening(make, 3) as (listener, clients):
        await wait_until(lambda: is_closing)
        await listener.wait_closed()
        for client in clients:
            client.settimeout(60)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.to_thread(client.recv, 1) == b""


async def test_every_refused_connection_is_counted() -> None:
    counted: list[str] = []
    open_ = Connections(Limits(max_connections=1), counted.append)
    assert [open_.admit(address) for address in "abb"] == [True, False, False]
    assert counted == ["limit", "limit"]


async def test_a_flood_of_bytes_that_are_no_request(serve: Any) -> None:
    site = serve(heartbeat_s=14.5, admin={"port": 0})  # a server of its own, without a recent line
    with capture_logs() as lines:
        for _ in range(20):
            async with connected(site) as (reader, writer):
                writer.write(b"SSH-2.0-x\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    counts = [line["count"] for line in lines if line["event"] == "malformed_http"]
    assert counts[0] == 1
    assert len(counts) < 20
    text = await metrics_of(site)
    assert 'projector_refusals_total{code="malformed_http",route="other"} 20.0' in text


async def test_each_address_has_its_own_number() -> None:
    open_ = Connections(Limits(max_connections=3, max_connections_per_address=1), lambda _reason: None)
    assert [open_.admit(address) for address in "aabcd"] == [True, False, True, True, False]
    open_.release("a")
    assert [open_.admit(address) for address in "ba"] == [False, True]
    for address in "abc":
        open_.release(address)
    assert (open_.open, open_._by_address) == (0, {})


def test_the_default_leaves_room_for_idle_connections() -> None:
    assert Limits(max_streams=10).connections == 120
    assert Limits(max_streams=10, max_connections=15).connections == 15


@pytest.mark.parametrize(
    ("soft", "hard", "allowed", "connections"),
    [
        (1_024, 4_096, 3_356, 2_100),
        (1_024, -1, 3_356, 2_100),
        (4_096, 4_096, None, 2_100),
        (1_024, 3_355, 3_355, 2_099),
        (1_024, 2_256, 2_256, 1_000),
        (256, 1_024, 1_024, 341),
    ],
)
def test_there_are_no_more_connections_than_files(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, allowed: int | None, connections: int
) -> None:
    found: list[int] = []
    resource = SimpleNamespace(
        RLIM_INFINITY=-1,
        RLIMIT_NOFILE=7,
        getrlimit=lambda _: (soft, hard),
        setrlimit=lambda _, limits: found.append(limits[0]),
    )
    monkeypatch.setattr("projector.server.listening.resource", resource)
    assert server(Settings())._public.connections.limits.connections == connections
    assert found == ([] if allowed is None else [allowed])
