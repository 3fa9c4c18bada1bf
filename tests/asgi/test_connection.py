"""Clients that send a head slowly, never, or without an end; over real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from projector.server.http.connection import HEAD_MAX_BYTES

pytestmark = pytest.mark.timeout(15)

PROBE = b"GET /livez HTTP/1.1\r\nhost: test\r\n\r\n"
BODY_S = 0.3


async def connected(site: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", site.port)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\r\n", id="a-blank-line"),
        pytest.param(b"POST /api/v1/ch", id="half-a-line"),
        pytest.param(PROBE[:-2], id="all-but-the-last-line"),
        pytest.param(PROBE + PROBE[:-2], id="a-request-and-half-of-another"),
    ],
)
async def test_a_head_that_does_not_arrive(serve: Any, sent: bytes) -> None:
    reader, writer = await connected(serve(timeouts={"request_read_s": BODY_S}))
    writer.write(sent)
    answer = await asyncio.wait_for(reader.read(), 10)  # to the end of the connection
    assert answer.count(b"HTTP/1.1 200 OK") == sent.count(PROBE)
    writer.close()


async def test_a_blank_line_after_an_answer(serve: Any) -> None:
    """It ends uvicorn's own wait for the next request."""
    reader, writer = await connected(serve(timeouts={"request_read_s": BODY_S}))
    writer.write(PROBE)
    await reader.readuntil(b"ok\n")
    writer.write(b"\r\n")
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()


async def test_a_head_that_arrives_byte_by_byte_is_not_given_more_time(serve: Any) -> None:
    reader, writer = await connected(serve(timeouts={"request_read_s": BODY_S}))

    async def trickle() -> None:
        for byte in PROBE * 100:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)

    trickling = asyncio.create_task(trickle())
    assert await asyncio.wait_for(reader.read(), 10) == b""
    trickling.cancel()
    writer.close()


async def test_a_head_without_an_end(serve: Any) -> None:
    reader, writer = await connected(serve())
    line = b"x: " + b"y" * 1_000 + b"\r\n"
    writer.write(b"GET /livez HTTP/1.1\r\n")
    for _ in range(HEAD_MAX_BYTES // len(line) + 1):
        writer.write(line)
        await writer.drain()
    answer = await asyncio.wait_for(reader.read(), 10)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(b"The request head is too large.")
    writer.close()


async def test_a_stream_may_last_longer_than_a_head(serve: Any, upstream: Any, text_events: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event(text_events[0])
        await asyncio.sleep(3 * BODY_S)
        await peer.event(text_events[-1])
        await peer.end()

    await upstream(script)
    answer = await serve(timeouts={"request_read_s": BODY_S}).ask()
    assert (await answer.frames())[-1]["kind"] == "final"


async def test_many_requests_of_one_connection(serve: Any) -> None:
    """The bytes of each head count for themselves."""
    reader, writer = await connected(serve())
    wide = PROBE.replace(b"host: test", b"host: test\r\nx: " + b"y" * 20_000)
    for _ in range(8):
        writer.write(wide)
        assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 OK")
    writer.close()
