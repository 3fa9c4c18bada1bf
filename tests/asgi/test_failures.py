"""Failures of providers: a problem document before the status is committed, a terminal event after it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from types import FrameType
from typing import Any

import pytest

from projector.core.faults import Fault
from projector.server.upstream.protocol import ProviderFailure, ProviderRequest, UpstreamError
from tests.asgi.callers import Server, Upstream, completed, keys, text
from tests.asgi.conftest import frames_of
from tests.waiting import PATIENCE_S, wait_until


def status(line: str, *headers: str, body: bytes = b"secret detail of the provider") -> Any:
    async def script(peer: Any) -> None:
        lines = [f"HTTP/1.1 {line}", *headers, f"content-length: {len(body)}", "connection: close"]
        await peer.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    return script


async def resets(peer: Any) -> None:
    peer.reset()


async def closes(peer: Any) -> None:
    """Close without a response."""


async def speaks_no_http(peer: Any) -> None:
    await peer.send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")


async def sends_an_endless_error(peer: Any) -> None:
    await peer.send(b"HTTP/1.1 400 No\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        await peer.chunk(b"x" * 65_536)


@pytest.mark.parametrize(
    ("script", "http", "code", "may_retry", "retry_after"),
    [
        (status("400 Bad Request"), 502, "upstream_http_400", False, None),
        (status("401 Unauthorized"), 502, "upstream_http_401", False, None),
        (status("403 Forbidden"), 502, "upstream_http_403", False, None),
        (status("404 Not Found"), 502, "upstream_http_404", False, None),
        (status("408 Request Timeout"), 502, "upstream_http_408", True, None),
        (status("422 Unprocessable"), 502, "upstream_http_422", False, None),
        (status("429 Too Many Requests", "retry-after: 7"), 429, "upstream_http_429", True, "7"),
        (status("429 Too Many Requests"), 429, "upstream_http_429", True, "5"),
        (status("429 Too Many Requests", "retry-after: 99999"), 429, "upstream_http_429", True, "3600"),
        (status("429 Too Many Requests", f"retry-after: {'9' * 5000}"), 429, "upstream_http_429", True, "3600"),
        (status("429 Too Many Requests", "retry-after: 0007"), 429, "upstream_http_429", True, "7"),
        (status("429 Too Many Requests", "retry-after: soon"), 429, "upstream_http_429", True, "5"),
        (status("503 Unavailable", "retry-after: Wed, 21 Oct 2015 07:28:00 GMT"), 503, "upstream_http_503", True, "0"),
        (status("500 Oops"), 502, "upstream_http_500", True, None),
        (status("504 Gateway Timeout"), 502, "upstream_http_504", True, None),
        (status("301 Moved", "location: http://localhost:9/v1/responses"), 502, "upstream_http_301", False, None),
        (status("307 Moved", "location: /v1/elsewhere"), 502, "upstream_http_307", False, None),
        (status("204 No Content", body=b""), 502, "upstream_http_204", False, None),
        (sends_an_endless_error, 502, "upstream_http_400", False, None),
        (resets, 502, "upstream_reset", True, None),
        (closes, 502, "upstream_reset", True, None),
        (speaks_no_http, 502, "upstream_malformed", False, None),
    ],
)
async def test_a_failure_before_the_status_is_a_problem(
    serve: Any, upstream: Any, script: Any, http: int, code: str, *, may_retry: bool, retry_after: str | None
) -> None:
    provider = await upstream(script)
    answer = await serve(retries={"max": 0}).ask(x_request_id="req-1")
    assert answer.status == http
    assert answer.headers.get("retry-after") == retry_after
    document = await answer.problem()
    assert "secret" not in document.pop("detail")
    assert document.pop("title")
    assert document == {
        "type": "about:blank",
        "status": http,
        "instance": "/api/v1/chat/stream",
        "code": code,
        "is_retryable": may_retry,
        "request_id": "req-1",
    }
    assert provider.peers.qsize() == 1  # one request, whatever the target of the redirect


@pytest.mark.parametrize(("code", "shown"), [("context_length_exceeded", True), ("sk-proj-" + "a1B2" * 12, False)])
async def test_a_problem_has_the_code_of_the_provider(serve: Any, upstream: Any, *, code: str, shown: bool) -> None:
    """A page can say that a conversation is too long; a code that holds a secret is withheld."""
    error = {"error": {"message": "words of the provider", "type": "invalid_request_error", "code": code}}
    body = json.dumps(error).encode()
    head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)

    async def script(peer: Any) -> None:
        await peer.send(head + body)

    await upstream(script)
    document = await (await serve(retries={"max": 0}).ask()).problem()
    assert document["code"] == "upstream_http_400"
    assert (document.get("provider_code") == code) == shown
    assert code in str(document) or not shown
    assert "words of" not in str(document)


@pytest.mark.parametrize(
    ("code", "line", "kind", "detail", "may_retry"),
    [
        ("insufficient_quota", "429 No", None, "The quota of the provider's account is used up.", False),
        ("rate_limit_exceeded", "429 No", "requests", "The provider's rate limit was reached. Try again later.", True),
        (
            "context_length_exceeded",
            "400 No",
            "invalid_request_error",
            "The input is longer than the model accepts.",
            False,
        ),
        (
            "content_policy_violation",
            "400 No",
            "invalid_request_error",
            "The provider's content policy does not allow this request or its response.",
            False,
        ),
        (None, "529 No", "overloaded_error", "The provider is overloaded. Try again later.", True),
        (None, "400 No", "invalid_request_error", "The provider answered with HTTP status 400.", False),
        ("invalid_request_error", "503 No", None, "The provider answered with HTTP status 503.", True),
        ("of_a_gateway", "500 No", None, "The provider answered with HTTP status 500.", True),
    ],
)
async def test_a_refusal_says_what_the_code_would_say_in_a_stream(
    serve: Any, upstream: Any, code: str | None, line: str, kind: str | None, detail: str, *, may_retry: bool
) -> None:
    body = json.dumps({"error": {"message": "words of the provider", "type": kind, "code": code}}).encode()
    provider = await upstream(status(line, "content-type: application/json", body=body))
    answer = await serve(retries={"max": 1, "initial_backoff_s": 0.01}).ask()
    document = await answer.problem()
    assert (document["detail"], document["is_retryable"]) == (detail, may_retry)
    assert answer.headers["x-should-retry"] == "false"  # this server has repeated it, or that cannot help
    assert provider.peers.qsize() == (2 if may_retry else 1)


async def test_connection_refused(serve: Any) -> None:
    answer = await serve(retries={"max": 0}).ask()
    assert (answer.status, (await answer.problem())["code"]) == (502, "upstream_unreachable")


def after_the_head(*parts: bytes, end: str) -> Any:
    async def script(peer: Any) -> None:
        await peer.start()
        for part in parts:
            await peer.chunk(part)
        if end == "clean":
            await peer.end()
        if end == "reset":
            await peer.may_reset.wait()  # the reset would discard data in transit
            peer.reset()

    return script


TEXT = b'data: {"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"a"}\n\n'
DONE = (
    b'data: {"type":"response.completed","response":{"id":"resp_1","object":"response","status":"completed",'
    b'"output":[]}}\n\n'
)


@pytest.mark.parametrize(
    ("script", "heard", "kind", "code"),
    [
        (after_the_head(end="clean"), b"", "error", "upstream_empty"),
        (after_the_head(b": hi\n\n", end="clean"), b"", "error", "upstream_empty"),
        (after_the_head(TEXT, end="clean"), b"", "error", "upstream_truncated"),
        (after_the_head(TEXT, end="close"), b"", "error", "upstream_reset"),
        (after_the_head(TEXT, end="reset"), b"data: ", "error", "upstream_reset"),
        (after_the_head(end="reset"), b"", "error", "upstream_reset"),
        (after_the_head(b"<html>not found</html>", end="clean"), b"", "error", "upstream_malformed"),
        (after_the_head(b"data: {nonsense\n\n", end="clean"), b"", "error", "upstream_malformed"),
        (after_the_head(TEXT, DONE, end="clean"), b"", "final", "completed"),
        (after_the_head(TEXT, DONE, end="close"), b"", "final", "completed"),
        (after_the_head(TEXT, DONE, end="reset"), b'"kind":"final"', "final", "completed"),
    ],
)
async def test_a_failure_after_the_status_is_a_terminal(
    serve: Any, upstream: Any, script: Any, heard: bytes, kind: str, code: str
) -> None:
    """A provider that resets its connection first waits until the client has received `heard`."""
    provider = await upstream(script)
    answer = await serve(retries={"max": 0}).ask()
    assert answer.status == 200
    said = b""
    while heard not in said:
        said += await answer.chunk()
    (await provider.peers.get()).may_reset.set()
    frames = frames_of(said + await answer.rest())
    last = frames[-1]
    assert last["kind"] == kind
    assert (last.get("error") or {"code": last["final"]["status"]})["code"] == code
    assert [frame["kind"] in {"final", "error"} for frame in frames].count(True) == 1


async def test_an_upstream_that_stays_open_is_closed_after_the_terminal(serve: Any, upstream: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.chunk(DONE)
        while True:
            await peer.chunk(TEXT)

    provider = await upstream(script)
    answer = await serve().ask()
    assert (await answer.frames())[-1]["kind"] == "final"
    peer = await provider.peers.get()
    await asyncio.wait_for(peer.gone.wait(), PATIENCE_S)


async def test_a_huge_event(serve: Any, upstream: Any) -> None:
    """An event of 30 MB, just below the limit, does not delay other requests while it arrives and is parsed."""
    image = b"A" * 30_000_000
    others_ended = asyncio.Event()

    async def script(peer: Any) -> None:
        await peer.start()
        if peer.body["input"] == "huge":
            await peer.chunk(
                b'data: {"type":"response.image_generation_call.partial_image","item_id":"ig_1","output_index":0,'
                b'"partial_image_index":0,"partial_image_b64":"' + image
            )
            await others_ended.wait()
            await peer.chunk(b'"}\n\n')
        await peer.chunk(DONE)
        await peer.end()

    await upstream(script)
    site = serve()
    huge = await site.ask(body={"message": "huge"})
    reading = asyncio.create_task(huge.frames())
    await wait_until(lambda: site.streams.held_bytes >= len(image))
    ends = [(await (await site.ask()).frames())[-1]["kind"] for _ in range(5)]
    others_ended.set()
    ends += [(await (await site.ask()).frames())[-1]["kind"] for _ in range(5)]
    assert set(ends) == {"final"}
    frames = await reading
    said = "".join(frame["data"] for frame in frames if frame["kind"] == "chunk.delta")
    assert (len(said), set(said), frames[-1]["kind"]) == (len(image), {"A"}, "final")
    assert await site.is_quiet(), "the memory is released"


async def never_answers(peer: Any) -> None:
    await peer.gone.wait()


async def never_speaks(peer: Any) -> None:
    await peer.start()
    await peer.gone.wait()


async def falls_silent(peer: Any) -> None:
    await peer.start()
    await peer.chunk(TEXT)
    await peer.gone.wait()


async def never_stops(peer: Any) -> None:
    await peer.start()
    while True:
        await peer.chunk(TEXT)
        await asyncio.sleep(0.02)


async def test_a_timeout_before_the_status_is_a_problem(serve: Any, upstream: Any) -> None:
    provider = await upstream(never_answers)
    site = serve(timeouts={"first_byte_s": 0.3})
    answer = await site.ask()
    assert (answer.status, (await answer.problem())["code"]) == (504, "upstream_timeout_first_byte")
    assert await site.is_quiet()
    if not provider.peers.empty():  # on a busy machine, the time may pass before the request is sent
        await asyncio.wait_for(provider.peers.get_nowait().gone.wait(), PATIENCE_S)


@pytest.mark.parametrize(
    ("script", "timeouts", "code"),
    [
        (never_speaks, {"first_byte_s": 1.5}, "upstream_timeout_first_byte"),
        (falls_silent, {"idle_s": 1.0}, "upstream_timeout_idle"),
        (never_stops, {"total_s": 1.5}, "upstream_timeout_total"),
    ],
)
async def test_a_timeout_after_the_status_is_a_terminal(
    serve: Any, upstream: Any, script: Any, timeouts: dict[str, float], code: str
) -> None:
    provider = await upstream(script)
    answer = await serve(timeouts=timeouts).ask()
    assert (await answer.frames())[-1]["error"]["code"] == code
    peer = await provider.peers.get()
    await asyncio.wait_for(peer.gone.wait(), PATIENCE_S)


async def test_a_connection_that_is_not_accepted(serve: Any, upstream_port: int) -> None:
    with socket.socket() as deaf:  # its queue of one is full, so no handshake ends
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        deaf.bind(("127.0.0.1", upstream_port))
        deaf.listen(0)
        with contextlib.ExitStack() as waiting:
            for _ in range(3):
                one = waiting.enter_context(socket.socket())
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", upstream_port))
            answer = await serve(timeouts={"connect_s": 0.3}, retries={"max": 0}).ask()
            assert (answer.status, (await answer.problem())["code"]) == (504, "upstream_timeout_connect")


@pytest.mark.parametrize(
    ("path", "http", "code"),
    [
        ("/nothing", 404, "not_found"),
        ("/livez/", 404, "not_found"),  # a redirect would contain the untrusted host of the request
        ("/api/v1/chat/stream", 405, "method_not_allowed"),
    ],
)
async def test_errors_of_the_router_are_problems(serve: Any, path: str, http: int, code: str) -> None:
    answer = await serve().get(path)
    assert (answer.status, (await answer.problem())["code"]) == (http, code)


async def test_an_unknown_dialect_is_a_problem(serve: Any) -> None:
    answer = await serve().ask("/api/v1/chat/stream?dialect=klingon")
    document = await answer.problem()
    assert (answer.status, document["code"]) == (422, "unknown_dialect")
    assert "public_sse_v1" in document["detail"]


async def test_what_arrived_before_a_connection_broke_off_is_shown(serve: Any, upstream: Any) -> None:
    """A provider may close at once behind its last event, without the end of the body, while we still read."""
    words = [f"word {at:05} " + "x" * 50 for at in range(600)]

    async def script(peer: Any) -> None:
        await peer.start()
        created = [{"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}]
        deltas = [{"type": "response.output_text.delta", "output_index": 0, "delta": word} for word in words]
        done = [{"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}]
        data = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in [*created, *deltas, *done])
        await peer.send(b"%x\r\n%b\r\n" % (len(data), data))

    await upstream(script)
    answer = await serve().ask()
    events = [json.loads(line[6:]) for line in (await answer.rest()).splitlines() if line.startswith(b"data: ")]
    assert "".join(event.get("delta", "") for event in events) == "".join(words)
    assert (events[-1]["kind"], events[-1]["final"]["status"]) == ("final", "completed")


async def test_a_refusal_of_the_provider_does_no_work_that_is_thrown_away() -> None:
    """Calls of functions of this project, which do not depend on the machine."""
    calls: Counter[str] = Counter()
    fault = Fault.of_status(429)
    refused = UpstreamError(fault, 60, failure=ProviderFailure(429, "Rate limit reached", code="rate_limit_exceeded"))

    class Refusing(Upstream):
        @contextlib.asynccontextmanager
        async def open(self, _request: ProviderRequest, /) -> AsyncGenerator[AsyncIterator[bytes], None]:
            raise refused
            yield

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and f"{os.sep}projector{os.sep}" in frame.f_code.co_filename:
            callers = (frame, frame.f_back, frame.f_back and frame.f_back.f_back)
            if not any(each and each.f_code.co_qualname == "Ticker._tick" for each in callers):  # time, not the request
                calls[frame.f_code.co_qualname] += 1

    server = Server({"auth": {"api_keys": keys("alice")}, "base_url": "http://localhost:1/v1"}, Refusing())
    await server.ask()  # fills caches
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        answer = await server.ask()
    finally:
        sys.setprofile(before)
    assert (answer.status, answer.json()["code"]) == (429, "upstream_http_429")
    assert calls["Pipeline.__init__"] == calls["StreamLog.__init__"] == 0, "neither a pipeline nor a log"
    assert calls.total() <= 250


async def test_a_text_delta_crosses_four_functions_of_the_server() -> None:
    """From where the bytes of the upstream are read to `send`, a pipeline and a log beside the way."""
    ways: list[list[str]] = []

    async def script(_request: Any) -> AsyncGenerator[bytes, None]:
        for _ in range(9):
            yield text("word ")
        yield completed()

    def follow(frame: FrameType | None, event: str, _: object) -> None:
        if event != "call" or frame is None or frame.f_code.co_qualname != "Client.send":
            return
        way: list[str] = []
        while (frame := frame.f_back) is not None and frame.f_code.co_qualname != "UpstreamReader._read":
            if f"{os.sep}projector{os.sep}" in frame.f_code.co_filename:  # not Starlette's
                way.append(frame.f_code.co_qualname)
        if frame is not None:
            ways.append(way)

    server = Server({"auth": {"api_keys": keys("alice")}, "base_url": "http://localhost:1/v1"}, Upstream(script))
    before = sys.getprofile()
    sys.setprofile(follow)
    try:
        await server.ask()
    finally:
        sys.setprofile(before)
    deltas = ways[2:-1]  # without head, first and last events
    assert len(deltas) > 5
    assert max(map(len, deltas)) <= 4, deltas[0]
