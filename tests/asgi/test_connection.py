"""Clients that send a request head slowly, not at all, or without an end; over real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from projector.server.process import HEAD_MAX_BYTES

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
async def test_a_missing_head_times_out(serve: Any, sent: bytes) -> None:
    reader, writer = await connected(serve(timeouts={"request_read_s": BODY_S}))
    writer.write(sent)
    answer = await asyncio.wait_for(reader.read(), 10)  # to the end of the connection
    assert answer.count(b"HTTP/1.1 200 OK") == sent.count(PROBE)
    writer.close()


async def test_a_blank_line_after_a_response(serve: Any) -> None:
    """It stops uvicorn's keep-alive timer."""
    reader, writer = await connected(serve(timeouts={"request_read_s": BODY_S}))
    writer.write(PROBE)
    await reader.readuntil(b"ok\n")
    writer.write(b"\r\n")
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()


async def test_a_slow_head_does_not_extend_the_time_limit(serve: Any) -> None:
    reader, writer = await connected(serve(timeouts={"request_read_s": BODY_S}))

    async def trickle() -> None:
        for byte in PROBE * 100:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)

    trickling = asyncio.create_task(trickle())
    assert await asyncio.wait_for(reader.read(), 10) == b""
    trickling.cancel()
    writer.close()


async def test_a_head_that_is_too_large(serve: Any) -> None:
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


async def test_a_stream_may_outlast_the_time_limit_of_a_head(serve: Any, upstream: Any, text_events: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event(text_events[0])
        await asyncio.sleep(3 * BODY_S)
        await peer.event(text_events[-1])
        await peer.end()

    await upstream(script)
    answer = await serve(timeouts={"request_read_s": BODY_S}).ask()
    assert (await answer.frames())[-1]["kind"] == "final"


async def test_several_requests_on_one_connection(serve: Any) -> None:
    """The size limit applies to each head separately."""
    reader, writer = await connected(serve())
    wide = PROBE.replace(b"host: test", b"host: test\r\nx: " + b"y" * 20_000)
    for _ in range(8):
        writer.write(wide)
        assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 OK")
    writer.close()
