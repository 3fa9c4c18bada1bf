"""A client disconnect closes the upstream connection within a second, observed at the upstream."""

from __future__ import annotations

import asyncio
import random
import socket
from typing import Any

import pytest
from structlog.testing import capture_logs

from projector.contracts import codec
from projector.core.sse import encode_sse
from tests.waiting import wait_until

SOON_S = 60.0

DELTA = {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0}


async def before_the_head(peer: Any) -> None:
    await peer.gone.wait()


async def before_the_first_byte(peer: Any) -> None:
    await peer.start()
    await peer.gone.wait()


async def between_events(peer: Any) -> None:
    await peer.start()
    await peer.event(DELTA | {"delta": "a"})
    await peer.gone.wait()


async def while_events_come(peer: Any) -> None:
    await peer.start()
    while True:
        await peer.event(DELTA | {"delta": "a"})
        await asyncio.sleep(0.001)


async def in_half_a_frame(peer: Any) -> None:
    await peer.start()
    await peer.chunk(b'data: {"type":"response.output_te')
    await peer.gone.wait()


async def with_an_endless_event(peer: Any) -> None:
    await peer.start()
    await peer.chunk(b"data: ")
    while True:
        await peer.chunk(b"x" * 10_000)
        await asyncio.sleep(0.001)  # it would soon be too large


async def test_the_client_leaves_between_two_attempts(serve: Any, upstream: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.send(b"HTTP/1.1 503 No\r\nretry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    provider = await upstream(script)
    site = serve()
    answer = await site.post()
    await provider.peers.get()
    await wait_until(lambda: not site.streams.upstream_open)
    assert site.streams.active == 1
    answer.leave()
    assert await site.is_quiet()
    assert provider.peers.empty()


@pytest.mark.parametrize("leave", ["close", "reset"])
@pytest.mark.parametrize(
    "script",
    [
        before_the_head,
        before_the_first_byte,
        between_events,
        while_events_come,
        in_half_a_frame,
        with_an_endless_event,
    ],
)
async def test_the_upstream_is_closed(serve: Any, upstream: Any, script: Any, leave: str) -> None:
    provider = await upstream(script)
    site = serve()
    answer = await site.post()
    peer = await provider.peers.get()
    await asyncio.sleep(0.1)
    assert site.streams.upstream_open == 1
    if leave == "reset":
        answer.reset()
    else:
        answer.leave()
    await asyncio.wait_for(peer.gone.wait(), SOON_S)


async def test_the_upstream_is_closed_while_a_send_is_blocked(serve: Any, upstream: Any) -> None:
    """A client that does not read stops the provider by backpressure; its disconnect ends both connections."""
    data = encode_sse(codec.dumps(DELTA | {"delta": "a" * 8_000}))
    sent = 0

    async def script(peer: Any) -> None:
        nonlocal sent
        await peer.start()
        while True:
            await peer.chunk(data)
            sent += len(data)

    provider = await upstream(script)
    site = serve()
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", site.port))
    body = b'{"message": "hello"}'
    client.sendall(
        b"POST /api/v1/chat/stream HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%b" % (len(body), body)
    )
    peer = await provider.peers.get()
    before = -1
    while sent != before:  # until all buffers are full
        before = sent
        await asyncio.sleep(0.4)
    assert sent > 0
    assert not peer.gone.is_set()
    client.close()
    await asyncio.wait_for(peer.gone.wait(), SOON_S)


async def test_many_disconnect_at_random_moments(serve: Any, upstream: Any) -> None:
    async def script(peer: Any) -> None:
        await asyncio.sleep(chance.random() / 50)
        await peer.start()
        while True:
            await asyncio.sleep(chance.random() / 100)
            await peer.event(DELTA | {"delta": "a" * 100})

    async def visit() -> None:
        answer = await site.post()
        await asyncio.sleep(chance.random() / 10)
        answer.leave()

    chance = random.Random(1)
    await upstream(script)
    site = serve()
    for _ in range(4):
        await asyncio.gather(*(visit() for _ in range(50)))
    assert await site.is_quiet(), "and the memory is released"


async def test_a_disconnect_during_the_request_reaches_no_upstream(serve: Any, upstream: Any) -> None:
    provider = await upstream(before_the_head)
    site = serve()
    answer = await site.post(body=b'{"message": ', content_length="1000")
    await asyncio.sleep(0.05)
    answer.leave()
    await asyncio.sleep(0.05)
    assert provider.peers.empty()
    assert site.streams.active == 0


async def test_a_client_that_stops_reading_is_disconnected(serve: Any, upstream: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        while True:
            await peer.event(DELTA | {"delta": "a" * 8_000})

    provider = await upstream(script)
    site = serve(timeouts={"client_stall_timeout_s": 0.5})
    answer = await site.post()
    answer.stop_reading()
    peer = await provider.peers.get()
    await asyncio.wait_for(peer.gone.wait(), 60)


@pytest.mark.parametrize(("leaves", "reason"), [("leave", "closed"), ("stop_reading", "stalled")])
@pytest.mark.parametrize(("on_disconnect", "outcome"), [("cancel", "client_left"), ("continue", "completed")])
async def test_when_and_why_a_client_was_gone(
    serve: Any, upstream: Any, leaves: str, reason: str, on_disconnect: str, outcome: str
) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        while not peer.gone.is_set() and not is_over.is_set():
            await peer.event(DELTA | {"delta": "a" * 8_000})
            await asyncio.sleep(0.001)
        await peer.event({"type": "response.completed", "response": {"id": "r", "status": "completed"}})
        await peer.end()

    is_over = asyncio.Event()
    await upstream(script)
    agents = {"default": {"upstream": "default", "model": "m", "on_disconnect": on_disconnect}}
    site = serve(timeouts={"client_stall_timeout_s": 0.5}, agents=agents)
    with capture_logs() as logs:
        answer = await site.ask()
        getattr(answer, leaves)()
        await wait_until(lambda: all(one.stats.client_gone for one in site.streams._running.values()))
        await asyncio.sleep(0.05)
        is_over.set()
        assert await site.is_quiet()
    [line] = [line for line in logs if line["event"] == "stream_end"]
    assert (line["outcome"], line["client_gone"]) == (outcome, reason)
    assert 0 < line["client_gone_s"] <= line["duration_s"]
    assert f'projector_clients_gone_total{{reason="{reason}"}}'.encode() in await (await site.get("/metrics")).rest()
