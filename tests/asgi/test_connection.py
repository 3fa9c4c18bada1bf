"""Clients that send a request slowly, not at all, without an end, or ahead of its answer; over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from projector.server.http.connection import HEAD_MAX_BYTES, OVERHEAD_MAX_BYTES, PIPELINED_MAX, _unchunked
from tests.asgi.conftest import in_time, plays
from tests.asgi.process import DEMO, lines_of, running
from tests.waiting import wait_until

PROBE = b"GET /livez HTTP/1.1\r\nhost: test\r\n\r\n"
BODY_S = 0.3
BODY_BYTES = 30_000_000
"""More than the system buffers of a connection."""
UPLOAD = b"POST /api/v1/chat/stream HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n"


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
    site = serve(timeouts={"request_read_s": BODY_S})

    async def begin() -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        reader, writer = await connected(site)
        writer.write(sent)
        return reader, writer, await reader.readuntil(b"ok\n") if PROBE in sent else b""

    reader, writer, answer = await in_time(begin)
    answer += await asyncio.wait_for(reader.read(), 60)  # to the end of the connection
    assert answer.count(b"HTTP/1.1 200 OK") == sent.count(PROBE)
    writer.close()


async def test_a_client_that_ends_its_side_gets_its_answer(serve: Any, upstream: Any, text_events: Any) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def script(peer: Any) -> None:
        asked.set()
        await ended.wait()
        await peer.start()
        for event in text_events:
            await peer.event(event)
        await peer.end()

    await upstream(script)
    reader, writer = await connected(serve())
    body = b'{"message": "hello"}'
    writer.write(UPLOAD + b"content-length: %d\r\n\r\n%b" % (len(body), body))
    await asked.wait()
    writer.write_eof()
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    ended.set()
    answer = await asyncio.wait_for(reader.read(), 60)
    assert b"HTTP/1.1 200 OK" in answer
    assert b'"status":"completed"' in answer
    assert answer.endswith(b"\r\n0\r\n\r\n")
    writer.close()


@pytest.mark.parametrize("requests", [1, 2])
async def test_a_client_that_leaves_before_its_answer_begins(serve: Any, upstream: Any, requests: int) -> None:
    """Its end looks like that of a client that still reads, until something is sent, but not with another request."""
    asked, gone = asyncio.Event(), asyncio.Event()

    async def script(peer: Any) -> None:
        asked.set()
        await peer.gone.wait()
        gone.set()

    await upstream(script)
    _, writer = await connected(serve())
    body = b'{"message": "hello"}'
    writer.write((UPLOAD + b"content-length: %d\r\n\r\n%b" % (len(body), body)) * requests)
    await asked.wait()
    writer.close()
    await asyncio.wait_for(gone.wait(), 10)  # a heartbeat is later


async def test_a_blank_line_after_a_response(serve: Any) -> None:
    """It stops uvicorn's keep-alive timer."""
    site = serve(timeouts={"request_read_s": BODY_S})

    async def begin() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await connected(site)
        writer.write(PROBE)
        await reader.readuntil(b"ok\n")
        return reader, writer

    reader, writer = await in_time(begin)
    writer.write(b"\r\n")
    assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()


async def test_a_slow_head_does_not_extend_the_time_limit(serve: Any) -> None:
    reader, writer = await connected(serve(timeouts={"request_read_s": BODY_S}))

    async def trickle() -> None:
        for byte in PROBE[:-2] + b"x: " + b"y" * 10_000:  # no part of it is a whole head, however late it is read
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)

    trickling = asyncio.create_task(trickle())
    with contextlib.suppress(ConnectionResetError):  # a byte was on its way when the server closed the connection
        assert await asyncio.wait_for(reader.read(), 60) == b""
    trickling.cancel()
    writer.close()


async def test_a_head_that_is_too_large(serve: Any) -> None:
    reader, writer = await connected(serve())
    line = b"x: " + b"y" * 1_000 + b"\r\n"
    writer.write(b"GET /livez HTTP/1.1\r\n")
    for _ in range(HEAD_MAX_BYTES // len(line) + 1):
        writer.write(line)
        await writer.drain()
    answer = await asyncio.wait_for(reader.read(), 60)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(b"The request head is too large.")
    writer.close()


async def test_a_head_that_is_too_large_in_one_piece(serve: Any) -> None:
    reader, writer = await connected(serve())
    writer.write(PROBE[:-2] + b"x: " + b"y" * HEAD_MAX_BYTES + b"\r\n\r\n" + PROBE)
    answer = await asyncio.wait_for(reader.read(), 60)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.endswith(b"The request head is too large.")
    writer.close()


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize("path", [b"/api/v1/chat/stream", b"/nothing"])
async def test_a_client_that_reads_after_its_whole_body_gets_an_early_error(
    serve: Any, version: bytes, path: bytes
) -> None:
    """As `urllib.request` does, and proxies with HTTP/1.0: they end the connection with the response."""
    site = serve(limits={"max_body_bytes": 1_000})
    reader, writer = await connected(site)
    head = b"POST %b HTTP/%b\r\nhost: test\r\ncontent-type: application/json\r\nconnection: close\r\n" % (path, version)
    writer.write(head + b"content-length: %d\r\n\r\n" % BODY_BYTES + b"x" * BODY_BYTES)
    await asyncio.wait_for(writer.drain(), 60)
    answer = await asyncio.wait_for(reader.read(), 60)
    assert answer.startswith(b"HTTP/1.1 404 " if path == b"/nothing" else b"HTTP/1.1 413 ")
    assert answer.endswith(b"}")
    writer.close()
    await wait_until(lambda: not site.connections)


@pytest.mark.parametrize(
    ("version", "header", "framing", "ends"),
    [
        (b"1.0", b"expect: 100-continue", [b"connection: close"], (b"data: {", b"}\n\n")),
        (b"1.0", b"connection: keep-alive", [b"connection: close"], (b"data: {", b"}\n\n")),
        (b"1.1", b"connection: close", [b"connection: close", b"transfer-encoding: chunked"], (b"", b"\r\n0\r\n\r\n")),
    ],
)
async def test_a_stream_has_the_framing_of_its_version(
    serve: Any,
    upstream: Any,
    text_events: Any,
    version: bytes,
    header: bytes,
    framing: list[bytes],
    ends: tuple[bytes, bytes],
) -> None:
    """HTTP/1.0 has neither chunks nor interim responses: its clients would take them for content."""
    await upstream(plays(text_events))
    reader, writer = await connected(serve())
    body = b'{"message": "hello"}'
    head = UPLOAD.replace(b"1.1", version) + header + b"\r\ncontent-length: %d\r\n\r\n" % len(body)
    writer.write(head + body)
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    head, _, content = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert [line for line in head.split(b"\r\n") if line.startswith((b"connection:", b"transfer-encoding:"))] == framing
    assert (content.startswith(ends[0]), content.endswith(ends[1])) == (True, True)


@pytest.mark.parametrize(("headers", "expected"), [([], 4), ([(b"content-length", b"4")], 0)])
async def test_a_length_that_an_answer_to_http_1_0_has_is_checked(headers: Any, expected: int) -> None:
    """uvicorn rejects what is longer than it expects: 0 here, once all was sent; 3 of a send that was cancelled."""

    async def send(_message: Any) -> None: ...

    cycle: Any = SimpleNamespace(send=send, response_started=False, chunked_encoding=None)
    unchunked = _unchunked(cycle)
    await unchunked({"type": "http.response.start", "status": 200, "headers": headers})
    cycle.response_started, cycle.expected_content_length = True, 0 if headers else 3
    await unchunked({"type": "http.response.body", "body": b"more"})
    assert cycle.expected_content_length == expected


async def test_a_body_without_end_after_the_response_ends_with_the_connection(serve: Any) -> None:
    reader, writer = await connected(serve())
    writer.write(b"POST /nothing HTTP/1.0\r\nhost: test\r\ncontent-length: %d\r\n\r\n" % 10**12)
    assert (await asyncio.wait_for(reader.read(), 60)).startswith(b"HTTP/1.1 404 ")
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionError):  # reset, or broken pipe
            while True:
                writer.write(b"x" * 1_000)
                await writer.drain()
                await asyncio.sleep(0.01)
    writer.close()


async def test_a_stream_may_outlast_the_time_limit_of_a_head(serve: Any, upstream: Any, text_events: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event(text_events[0])
        await asyncio.sleep(3 * BODY_S)
        await peer.event(text_events[-1])
        await peer.end()

    await upstream(script)
    answer = await in_time(serve(timeouts={"request_read_s": BODY_S}).ask)
    assert (await answer.frames())[-1]["kind"] == "final"


@pytest.mark.parametrize("ahead", [b"\r\n", b"GET /li", PROBE[:-2]])
async def test_the_time_limit_of_a_head_begins_after_the_response_before_it(
    serve: Any, upstream: Any, text_events: Any, ahead: bytes
) -> None:
    """A client may send a blank line after a body, or a part of its next request."""
    sent = asyncio.Event()

    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event(text_events[0])
        await sent.wait()
        await asyncio.sleep(3 * BODY_S)
        await peer.event(text_events[-1])
        await peer.end()

    await upstream(script)
    reader, writer = await in_time(lambda: connected(serve(timeouts={"request_read_s": BODY_S})))
    writer.write(UPLOAD + b'content-length: 17\r\n\r\n{"message": "hi"}')
    assert b"HTTP/1.1 200 OK" in await asyncio.wait_for(reader.readuntil(b'"kind":'), 60)
    writer.write(ahead)
    sent.set()
    answer = await asyncio.wait_for(reader.read(), 60)  # to the end of the connection
    assert b'"kind":"final"' in answer
    assert answer.endswith(b"\r\n0\r\n\r\n")
    writer.close()


async def test_several_requests_on_one_connection(serve: Any) -> None:
    """The size limit applies to each head separately."""
    reader, writer = await connected(serve())
    wide = PROBE.replace(b"host: test", b"host: test\r\nx: " + b"y" * 20_000)
    for _ in range(8):
        writer.write(wide)
        assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 OK")
    writer.close()


CHUNKED = UPLOAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"


@pytest.mark.parametrize(
    ("start", "endless"),
    [
        pytest.param(CHUNKED, b"x: y\r\n" * 1_000, id="many-trailers"),
        pytest.param(CHUNKED + b"x: ", b"y" * 8_000, id="one-trailer-without-an-end"),
        pytest.param(CHUNKED[:-3] + b"1;x=", b"y" * 8_000, id="a-chunk-extension"),
    ],
)
async def test_a_body_with_endless_other_bytes(serve: Any, start: bytes, endless: bytes) -> None:
    reader, writer = await connected(serve())
    writer.write(start)
    for _ in range(2 * OVERHEAD_MAX_BYTES // len(endless)):
        writer.write(endless)
    answer = b""
    with contextlib.suppress(ConnectionError):  # if the server had not read everything when it closed
        answer = await asyncio.wait_for(reader.read(), 60)
    assert answer.endswith(b"The request body has too many bytes other than its content.") or not answer
    writer.close()


async def test_trailers_are_ignored(serve: Any, upstream: Any, text_events: Any) -> None:
    await upstream(plays(text_events))
    reader, writer = await connected(serve())
    body = b'{"message": "hello"}'
    writer.write(
        UPLOAD + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
        b"%x\r\n%b\r\n0\r\nx-check: 1\r\nhost: other\r\n\r\n" % (len(body), body)
    )
    answer = await asyncio.wait_for(reader.read(), 60)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b'"kind":"final"' in answer
    writer.close()


async def test_the_number_of_pipelined_requests_is_limited(serve: Any) -> None:
    reader, writer = await connected(serve())
    writer.write(PROBE * PIPELINED_MAX)
    for _ in range(PIPELINED_MAX):
        assert (await asyncio.wait_for(reader.readuntil(b"ok\n"), 60)).startswith(b"HTTP/1.1 200 OK")
    writer.write(PROBE * (PIPELINED_MAX + 2))
    answer = await asyncio.wait_for(reader.read(), 60)
    assert answer.count(b"HTTP/1.1 200 OK") <= PIPELINED_MAX
    assert answer.count(b"HTTP/1.1 400 ") == 1
    writer.close()


async def test_too_many_requests_at_once_are_no_crash(tmp_path: Path) -> None:
    """Those before them find a connection that is closed, and from which nothing was to be read for a while."""
    request = UPLOAD + b'content-length: 17\r\n\r\n{"message": "hi"}'
    async with running(DEMO, 1, log=tmp_path / "log") as server:  # with uvloop
        for _ in range(2):
            reader = await server.connect(request.decode() * (PIPELINED_MAX + 2))
            assert b"HTTP/1.1 400 " in await asyncio.wait_for(reader.read(), 60)
        server.stop()
        assert await server.exit_code() == 0
    lines = lines_of(tmp_path / "log")
    assert {line["level"] for line in lines} == {"info"}
    assert sum(line["count"] for line in lines if line["event"] == "malformed_http") == 2, "the last line is not lost"


@pytest.mark.parametrize("name", ["Upgrade", "upgrade", "UPGRADE"])
@pytest.mark.parametrize("protocol", ["h2c", "websocket", "TLS/1.3"])
async def test_an_upgrade_is_ignored(serve: Any, upstream: Any, text_events: Any, name: str, protocol: str) -> None:
    """A server may ignore it (RFC 9110, section 7.8). Each byte of the head arrives by itself."""

    await upstream(plays(text_events))
    reader, writer = await connected(serve())
    body = b'{"message": "hello"}'
    head = UPLOAD + b"content-length: %d\r\nConnection: Upgrade, HTTP2-Settings\r\n" % len(body)
    head += f"{name}: {protocol}\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n".encode()
    for byte in head:
        writer.write(bytes([byte]))
        await asyncio.sleep(0)
    writer.write(body)
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n0\r\n\r\n"), 60)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b'"kind":"final"' in answer
    writer.close()


async def test_an_upgrade_behind_the_body_of_another_request_is_refused(serve: Any) -> None:
    """Its own body would be dropped, and what of it arrives later would be another request."""
    reader, writer = await connected(serve())
    offer = b"content-length: %d\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n" % len(PROBE)
    writer.write(PROBE[:-2] + b"content-length: 1\r\n\r\nx" + UPLOAD + offer + PROBE)
    answer = await asyncio.wait_for(reader.read(), 60)
    assert (answer.count(b"HTTP/1.1 400 "), answer.count(b"HTTP/1.1 ")) == (1, 1)
    writer.close()


async def test_curl_that_offers_http2(serve: Any, upstream: Any, text_events: Any, curl: str) -> None:
    await upstream(plays(text_events))
    url = f"http://127.0.0.1:{serve().port}/api/v1/chat/stream"
    words = ["--http2", "-sS", url, "-H", "content-type: application/json", "-d", '{"message": "hello"}']
    process = await asyncio.create_subprocess_exec(curl, *words, stdout=asyncio.subprocess.PIPE)
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert b'"kind":"final"' in output
