"""Connections to providers: when they are used again, and what a provider may send on them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvloop

from bench.redis_server import free_port
from projector.server.config.upstream_settings import UpstreamSettings, UpstreamTimeouts
from projector.server.upstream import protocol
from projector.server.upstream.connection_pool import READ_MAX_BYTES
from projector.server.upstream.http_upstream import ERROR_BODY_MAX_BYTES, HTTPUpstream
from projector.server.upstream.protocol import ProviderRequest, UpstreamError
from tests.waiting import wait_until

REQUEST = ProviderRequest("openai_responses", {"input": "hello"})
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def answer(text: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status, len(text), text)


class Provider:
    """A server that keeps its connections; each request is answered by the next of its replies."""

    def __init__(self) -> None:
        self.connections = 0
        self.replies: list[Callable[[asyncio.StreamWriter], Awaitable[None]]] = []
        self.heads: list[bytes] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.reads_bodies = True

    def on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                if self.reads_bodies:
                    await reader.readexactly(length)
                await self.replies.pop(0)(writer)


def sends(*parts: bytes, pause_s: float = 0) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    async def reply(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return reply


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[tuple[Provider, HTTPUpstream]]:
    one = Provider()
    server = await asyncio.start_server(one.on_connection, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/"
    upstream = HTTPUpstream(UpstreamSettings(base_url=url, api_key="sk-test"), UpstreamTimeouts())
    try:
        yield one, upstream
    finally:
        await upstream.aclose()
        server.close()
        for task in one.tasks:
            task.cancel()
        await asyncio.gather(*one.tasks, return_exceptions=True)


@pytest.fixture
async def provider() -> AsyncIterator[tuple[Provider, HTTPUpstream]]:
    async with serving() as both:
        yield both


async def text_or_code(upstream: HTTPUpstream) -> bytes:
    try:
        return await ask(upstream)
    except UpstreamError as error:
        return error.fault.code.encode()


async def ask(upstream: HTTPUpstream, request: ProviderRequest = REQUEST) -> bytes:
    async with upstream.open(request) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def failure(upstream: HTTPUpstream) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await ask(upstream)
    return caught.value


async def test_a_connection_is_used_again(provider: Any) -> None:
    one, upstream = provider
    one.replies = [
        sends(answer(b"a")),
        sends(CHUNKED, b"1\r\nb\r\n", b"0\r\n\r\n", pause_s=0.02),
        sends(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200", b" OK\r\ncontent-length: 1\r\n\r\nc", pause_s=0.02),
        sends(answer(b'{"error": "d"}', b"400 Bad Request")),
        sends(answer(b"e")),
    ]
    assert [await ask(upstream) for _ in range(3)] == [b"a", b"b", b"c"]
    assert (await failure(upstream)).failure.message == "d"
    assert await ask(upstream) == b"e"
    assert one.connections == 1


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize(
    ("late", "pause_s", "first"),
    [
        pytest.param(answer(b"of another"), 0.0, b"a", id="with-the-response"),
        pytest.param(answer(b"of another"), 0.05, b"a", id="later"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", 0.0, b"a", id="half-a-head-with-the-response"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", 0.05, b"a", id="half-a-head-later"),
        pytest.param(b"x", 0.0, b"a", id="a-byte-with-the-response"),
        pytest.param(b"x", 0.05, b"a", id="a-byte-later"),
    ],
)
def test_a_connection_on_which_anything_arrived_is_not_used_again(
    late: bytes, pause_s: float, first: bytes, loop: str
) -> None:
    async def run() -> tuple[list[bytes], int]:
        async with serving() as (one, upstream):
            parts = [answer(b"a"), late] if pause_s else [answer(b"a") + late]
            one.replies = [sends(*parts, pause_s=pause_s), sends(answer(b"b"))]
            texts = [await text_or_code(upstream)]
            await asyncio.sleep(3 * pause_s)
            texts.append(await text_or_code(upstream))
            return texts, one.connections

    assert (uvloop.run if loop == "uvloop" else asyncio.run)(run()) == ([first, b"b"], 2)


async def test_bytes_that_the_event_loop_has_not_read_yet(provider: Any) -> None:
    """They are in the socket when the connection is taken: nothing else of this loop ran since they arrived."""
    one, upstream = provider
    writers: list[asyncio.StreamWriter] = []

    async def reply(writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(answer(b"a"))

    one.replies = [reply, sends(answer(b"b"))]
    assert await ask(upstream) == b"a"
    raw = socket.socket(fileno=socket.dup(writers[0].get_extra_info("socket").fileno()))
    raw.sendall(answer(b"of another"))
    raw.close()
    assert await ask(upstream) == b"b"
    assert one.connections == 2


async def test_a_response_before_the_request_was_sent(provider: Any) -> None:
    one, upstream = provider
    one.reads_bodies = False
    one.replies = [sends(answer(b'{"error": "too large"}', b"413 Too Large"))]
    with pytest.raises(UpstreamError) as caught:
        await ask(upstream, ProviderRequest("openai_responses", {"input": "x" * 8_000_000}))
    assert caught.value.failure.message == "too large"
    one.reads_bodies = True
    one.replies = [sends(answer(b"b"))]
    assert await ask(upstream) == b"b"
    assert one.connections == 2


async def test_the_rest_of_a_response_is_read_before_the_connection_is_used_again(
    provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "CLOSE_S", 60.0)  # the rest is not late, whatever the machine does
    one, upstream = provider
    one.replies = [sends(CHUNKED, b"1\r\na\r\n", b"1\r\nb\r\n", b"0\r\n\r\n", pause_s=0.02), sends(answer(b"c"))]
    async with upstream.open(REQUEST) as chunks:
        assert await anext(chunks) == b"a"
    assert await ask(upstream) == b"c"
    assert one.connections == 1


async def test_a_response_that_is_left_is_not_mixed_with_the_next(provider: Any) -> None:
    one, upstream = provider
    one.replies = [sends(CHUNKED, b"1\r\na\r\n", b"1\r\nb\r\n", pause_s=0.02), sends(answer(b"c"))]

    async def leave() -> None:
        async with upstream.open(REQUEST) as chunks:
            await anext(chunks)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await leave()
    assert await ask(upstream) == b"c"
    assert one.connections == 2


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        pytest.param(HEAD + b"\r\nab", b"ab", id="no-length"),
        pytest.param(HEAD + b"transfer-encoding: Chunked\r\n\r\n1\r\na", b"upstream_reset", id="cut-off-chunked"),
        pytest.param(HEAD + b"transfer-encoding: chunked, gzip\r\n\r\nab", b"ab", id="not-chunked-at-last"),
        pytest.param(
            HEAD + b"transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n",
            b"upstream_reset",
            id="cut-off-chunked-of-two-headers",
        ),
        pytest.param(HEAD + b"content-length: 2\r\n\r\na", b"upstream_reset", id="cut-off"),
        pytest.param(b"HTTP/1.1 000 OK\r\ncontent-length: 1\r\n\r\na", b"upstream_malformed", id="no-status"),
        pytest.param(HEAD + b"content-le", b"upstream_reset", id="half-a-head"),
        pytest.param(HEAD + b"connection: close\r\ncontent-length: 1\r\n\r\na", b"a", id="closed-by-name"),
        pytest.param(HEAD + b"a: b\r\n" * 200 + b"content-length: 1\r\n\r\na", b"a", id="a-header-repeated"),
        pytest.param(HEAD + b"%d: b\r\n" * 200 % (*range(200),), b"upstream_malformed", id="many-headers"),
        pytest.param(HEAD + b"a: " + b"b" * 70_000, b"upstream_malformed", id="a-long-head"),
        pytest.param(
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: a\r\nconnection: upgrade\r\n\r\nxyz",
            b"upstream_http_101",
            id="another-protocol",
        ),
        pytest.param(HEAD + b"upgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 1\r\n\r\na", b"a", id="an-offer"),
        pytest.param(CHUNKED + b"1 ;x=y\r\na\r\n0\r\nx: y\r\n\r\n", b"a", id="extension-and-trailer"),
    ],
)
async def test_a_connection_that_ends_after(reply: bytes, found: bytes) -> None:
    async with listening(after_the_head(reply)) as port:
        upstream = HTTPUpstream(UpstreamSettings(base_url=f"http://127.0.0.1:{port}/v1"), UpstreamTimeouts())
        assert await text_or_code(upstream) == found
        await upstream.aclose()


async def test_a_closed_response_reads_nothing_of_the_next_one(provider: Any) -> None:
    one, upstream = provider
    one.replies = [sends(answer(b"a")), sends(answer(b"of another caller"))]
    async with upstream.open(REQUEST) as left:
        assert await anext(left) == b"a"
    async with upstream.open(REQUEST) as chunks:
        assert [chunk async for chunk in left] == []
        assert [chunk async for chunk in chunks] == [b"of another caller"]
    assert one.connections == 1


@pytest.mark.parametrize("body", ["x", "x" * 100_000])
async def test_a_response_that_comes_before_the_request(body: str) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(b"{}", b"503 Busy"))
        await reader.read()

    async with listening(refuse) as port:
        upstream = HTTPUpstream(UpstreamSettings(base_url=f"http://127.0.0.1:{port}/v1"), UpstreamTimeouts())
        with pytest.raises(UpstreamError) as caught:
            await ask(upstream, ProviderRequest("openai_responses", {"input": body}))
        assert caught.value.fault.code == "upstream_http_503"
        await upstream.aclose()


async def test_a_body_that_is_not_read_is_not_received(provider: Any) -> None:
    """The connection is paused, and goes on once what has arrived was read."""
    one, upstream = provider
    size, sent = 8 * 2**20, 0

    async def reply(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(bytes(65_536))
            sent += 65_536
            await writer.drain()

    one.replies = [reply, sends(answer(b"b"))]
    async with upstream.open(REQUEST) as chunks:
        first = await anext(chunks)
        await asyncio.sleep(0.2)
        (handler,) = upstream._pool._acquired
        assert sum(map(len, handler._parts)) <= READ_MAX_BYTES + 2**18
        assert len(first) + sum([len(chunk) async for chunk in chunks]) == size
    assert await ask(upstream) == b"b"
    assert one.connections == 1


async def test_endless_informational_responses_are_a_failure(provider: Any) -> None:
    one, upstream = provider
    early = b"HTTP/1.1 103 Early Hints\r\n\r\n"
    one.replies = [sends(early * 16 + answer(b"a")), sends(early * 17 + answer(b"b"))]
    assert await ask(upstream) == b"a"
    error = await failure(upstream)
    assert (error.fault.code, error.reason) == ("upstream_malformed", "not_http")


async def test_endless_informational_responses_do_not_block_the_server(serve: Any, upstream: Any) -> None:
    async def script(peer: Any) -> None:
        while True:
            await peer.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000)

    await upstream(script)
    response = await serve(retries={"max": 0}).ask()
    assert (response.status, (await response.problem())["code"]) == (502, "upstream_malformed")


async def test_a_response_that_fails_while_sending_fails_too(provider: Any) -> None:
    one, upstream = provider
    one.replies = [sends(pause_s=60)]
    failing = asyncio.create_task(failure(upstream))
    await wait_until(lambda: one.heads)
    (handler,) = upstream._pool._acquired
    handler.data_received(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
    handler.close()  # by the task that sends the body
    error = await failing
    assert (error.fault.code, error.reason) == ("upstream_malformed", "not_http")


@pytest.mark.parametrize("sent", [b"zz\r\nmore\r\n", b"5\r\nhello!\r\n", b"-1\r\n"])
async def test_a_framing_error_in_a_stream_ends_it_at_once(provider: Any, sent: bytes) -> None:
    one, upstream = provider
    one.replies = [sends(CHUNKED + b"1\r\na\r\n", sent, pause_s=0.02)]
    async with asyncio.timeout(60):  # the provider keeps the connection open
        error = await failure(upstream)
    assert (error.fault.code, error.reason) == ("upstream_malformed", "not_http")


@pytest.mark.parametrize(
    ("first", "more"),
    [(b"1;", b"x" * 30_000), (b"0\r\n", b"x: " + b"y" * 5_000 + b"\r\n")],
    ids=["extension", "trailers"],
)
async def test_endless_framing_ends_a_stream(provider: Any, first: bytes, more: bytes) -> None:
    one, upstream = provider

    async def reply(writer: asyncio.StreamWriter) -> None:
        await sends(CHUNKED + b"1\r\na\r\n", first)(writer)
        while True:
            await sends(more)(writer)

    one.replies = [reply]
    async with asyncio.timeout(60):  # the provider never stops
        error = await failure(upstream)
    assert (error.fault.code, error.reason) == ("upstream_malformed", "not_http")


async def test_the_request(provider: Any) -> None:
    one, upstream = provider
    one.replies = [sends(b"HTTP/1.1 200 OK\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n"), sends(answer(b""))]
    request = ProviderRequest("openai_chat", {"messages": []}, {"traceparent": "00-1"})
    for _ in range(2):
        await ask(upstream, request)
    first, *lines = one.heads[1].decode().strip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert first == "POST /v1/chat/completions HTTP/1.1"
    assert headers.pop("user-agent").startswith("public-stream-projector/")
    assert headers.pop("host").startswith("127.0.0.1:")
    assert headers == {
        "accept": "text/event-stream",
        "accept-encoding": "identity",
        "authorization": "bearer sk-test",
        "content-length": "29",
        "content-type": "application/json",
        "traceparent": "00-1",
    }


async def test_without_a_key_there_is_no_authorization(provider: Any) -> None:
    one, with_key = provider
    upstream = HTTPUpstream(UpstreamSettings(base_url=with_key._base_url), UpstreamTimeouts())
    one.replies = [sends(answer(b""))]
    await ask(upstream)
    assert b"authorization" not in one.heads[0].lower()
    await upstream.aclose()


# failures


async def test_the_failure_of_a_provider(provider: Any) -> None:
    one, upstream = provider
    body = b'{"error": {"message": "Slow down", "type": "t", "code": "c", "param": null}}'
    head = b"HTTP/1.1 429 Too Many\r\nretry-after-ms: 4200\r\nx-should-retry: false\r\ncontent-length: %d\r\n\r\n"
    one.replies = [sends(head % len(body) + body)]
    error = await failure(upstream)
    assert (error.fault.code, error.retry_after_s, error.should_retry) == ("upstream_http_429", 5, False)
    assert error.failure is not None
    assert (error.failure.status, error.failure.message, error.failure.type) == (429, "Slow down", "t")
    assert (error.failure.code, error.failure.param) == ("c", None)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        pytest.param([b"content-length: 9\r\n\r\n"], None, id="missing"),
        pytest.param([b"content-length: 99\r\n\r\n", b'{"error": "cut off"}'], "cut off", id="cut-off"),
        pytest.param([b"content-length: 99999\r\n\r\n", b'{"error": "' + b"x" * 99_000], None, id="too-large"),
        pytest.param([b"transfer-encoding: chunked\r\n\r\n", b"zz\r\n"], None, id="not-http"),
    ],
)
async def test_an_error_body_that_never_ends(provider: Any, parts: list[bytes], message: str | None) -> None:
    """A limited part is read, for a limited time; its connection is closed."""
    one, upstream = provider
    assert ERROR_BODY_MAX_BYTES < 99_000
    one.replies = [sends(b"HTTP/1.1 500 Oops\r\n", *parts), sends(answer(b"a"))]
    error = await failure(upstream)
    assert error.failure is not None
    assert (error.failure.status, error.failure.message) == (500, message)
    assert await ask(upstream) == b"a"
    assert one.connections == 2


OnConnection = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(on_connection: OnConnection) -> AsyncIterator[int]:
    """Run a server and yield its port."""
    tasks: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await on_connection(reader, writer)

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await asyncio.gather(*tasks)


def after_the_head(*parts: bytes) -> OnConnection:
    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for part in parts:
            writer.write(part)
            await writer.drain()

    return on_connection


async def speaks_no_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(answer(b"plain"))
    await writer.drain()


async def failure_at(url: str, **settings: Any) -> UpstreamError:
    upstream = HTTPUpstream(UpstreamSettings(base_url=url, **settings), UpstreamTimeouts())
    try:
        return await failure(upstream)
    finally:
        await upstream.aclose()


@pytest.mark.parametrize(
    ("on_connection", "scheme", "code", "reason"),
    [
        (speaks_no_tls, "https", "upstream_unreachable", "tls"),
        (after_the_head(), "http", "upstream_reset", "closed"),
        (after_the_head(b"SSH-2.0\r\n\r\n"), "http", "upstream_malformed", "not_http"),
    ],
    ids=["no-tls", "no-response", "no-http"],
)
async def test_the_reason_of_a_failed_request(on_connection: OnConnection, scheme: str, code: str, reason: str) -> None:
    async with listening(on_connection) as port:
        error = await failure_at(f"{scheme}://127.0.0.1:{port}/v1")
    assert (error.fault.code, error.reason, error.failure) == (code, reason, None)


async def test_a_host_that_does_not_exist() -> None:
    error = await failure_at("http://no-such-host.invalid/v1")
    assert (error.fault.code, error.reason) == ("upstream_unreachable", "dns")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_port_that_refuses(host: str) -> None:
    error = await failure_at(f"http://{host}:{free_port()}/v1")
    assert (error.fault.code, error.reason) == ("upstream_unreachable", "refused")


async def test_a_proxy_that_refuses() -> None:
    async with listening(after_the_head(b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n")) as port:
        error = await failure_at("https://provider.invalid/v1", proxy=f"http://127.0.0.1:{port}")
    assert (error.fault.code, error.reason) == ("upstream_unreachable", "proxy")


@pytest.mark.parametrize(
    ("user", "sent"), [("", b""), ("me:pass@", b"proxy-authorization: basic bwu6cgfzcw==")], ids=["nobody", "a-user"]
)
@pytest.mark.parametrize("api", ["openai_responses", "anthropic_messages"])
async def test_a_proxy_does_not_receive_the_key_of_the_provider(user: str, sent: bytes, api: Any) -> None:
    heads: list[bytes] = []

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()

    async with listening(on_connection) as port:
        proxy = f"http://{user}127.0.0.1:{port}"
        await failure_at("https://provider.invalid/v1", proxy=proxy, api_key="sk-test", api=api)
    (head,) = heads
    assert head.startswith(b"CONNECT provider.invalid:443 ")
    assert (b"sk-test" in head, b"aiohttp" in head) == (False, False)
    assert [line for line in head.lower().split(b"\r\n") if b"authorization" in line] == [sent] * bool(sent)


async def test_a_proxy_without_tls_receives_the_whole_url() -> None:
    heads: list[bytes] = []

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer(b"a"))
        await writer.drain()

    async with listening(on_connection) as port:
        settings = UpstreamSettings(base_url="http://provider.invalid/v1", proxy=f"http://127.0.0.1:{port}")
        upstream = HTTPUpstream(settings, UpstreamTimeouts())
        assert await ask(upstream) == b"a"
        await upstream.aclose()
    assert heads[0].startswith(b"POST http://provider.invalid/v1/responses HTTP/1.1\r\nHost: provider.invalid\r\n")


async def test_a_get_is_sent_again_if_its_connection_was_closed() -> None:
    connections = 0

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        if connections > 1:
            writer.write(answer(b'{"data": [{"id": "m"}]}'))
            await writer.drain()

    async with listening(on_connection) as port:
        upstream = HTTPUpstream(UpstreamSettings(base_url=f"http://127.0.0.1:{port}/v1"), UpstreamTimeouts())
        assert [model.id for model in await upstream.models()] == ["m"]
        await upstream.aclose()
    assert connections == 2


def test_each_event_loop_has_its_own_session() -> None:
    """A test client of Starlette may run each request in a loop of its own."""
    upstream = HTTPUpstream(UpstreamSettings(), UpstreamTimeouts())

    async def once() -> bytes:
        async with serving() as (one, other):
            upstream._base_url = other._base_url
            one.replies = [sends(answer(b"a"))]
            text = await ask(upstream)
            if upstream._pool is not None:
                await upstream._pool.close()
            return text

    assert [asyncio.run(once()) for _ in range(2)] == [b"a", b"a"]
