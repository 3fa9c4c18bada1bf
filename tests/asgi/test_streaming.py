"""A stream from a real upstream through a real server to a raw client."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from projector import StreamContext, build_pipeline
from projector.core.sse import encode_sse
from projector.server.upstream import protocol
from tests.asgi.conftest import plays

CHAT = "/api/v1/chat/stream"
TIME = re.compile(rb'"server_timestamp":"[^"]*"')


def expected(events: list[dict[str, Any]], stream_id: str, provider: str = "openai_responses") -> bytes:
    context = StreamContext(stream_id=stream_id)
    pipeline = build_pipeline(provider=provider, dialect="public_sse_v1", context=context)
    said = b"".join(pipeline.feed(encode_sse(json.dumps(event).encode())) for event in events)
    return TIME.sub(b"", said + pipeline.close())


@pytest.mark.parametrize(
    ("path", "body", "sent_on"),
    [
        (CHAT, {"message": "hello"}, {"model": "gpt-5.4-mini", "input": "hello", "stream": True}),
        (
            "/v1/responses?dialect=public_sse_v1",
            {"model": "gpt-x", "input": "hi", "tools": [{"type": "web_search"}], "x": [None]},
            {"model": "gpt-x", "input": "hi", "tools": [{"type": "web_search"}], "x": [None], "stream": True},
        ),
    ],
)
async def test_frames_arrive_byte_for_byte(
    serve: Any, upstream: Any, text_events: Any, path: str, body: dict[str, Any], sent_on: dict[str, Any]
) -> None:
    provider = await upstream(plays(text_events))
    answer = await serve().ask(path, body)
    said = await answer.rest()
    assert TIME.sub(b"", said) == expected(text_events, answer.headers["x-stream-id"])
    peer = await provider.peers.get()
    assert peer.head.startswith(b"POST /v1/responses HTTP/1.1\r\n")
    assert peer.body == sent_on


USAGE = {"stream_options": {"include_usage": True}}


async def test_chat_completions_are_asked_as_such(serve: Any, upstream: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.chunk(b'data: {"choices": [{"index": 0, "delta": {"content": "hi"}}]}\n\ndata: [DONE]\n\n')
        await peer.end()

    provider = await upstream(script)
    messages = [{"role": "user", "content": "hi"}]
    answer = await serve().ask("/v1/chat/completions", {"messages": messages})
    assert answer.status == 200
    await answer.rest()
    peer = await provider.peers.get()
    assert peer.head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert peer.body == {"model": "gpt-5.4-mini", "messages": messages, "stream": True} | USAGE


async def test_headers_of_a_stream(serve: Any, upstream: Any, text_events: Any) -> None:
    await upstream(plays([text_events[-1]]))
    answer = await serve().ask(x_request_id="req-from-the-caller")
    stream_id = answer.headers.pop("x-stream-id")
    assert answer.headers.pop("location") == f"/api/v1/streams/{stream_id}"
    answer.headers.pop("date")
    assert answer.status == 200
    assert answer.headers == {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache, no-transform",
        "x-accel-buffering": "no",
        "incremental": "?1",
        "x-content-type-options": "nosniff",
        "x-request-id": "req-from-the-caller",
        "connection": "keep-alive",
        "transfer-encoding": "chunked",
    }
    assert re.fullmatch("stream_[0-9a-f]{32}", stream_id)
    assert {frame["stream_id"] for frame in await answer.frames()} == {stream_id}


async def test_request_to_the_provider(serve: Any, upstream: Any, text_events: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.send(
            b"HTTP/1.1 200 OK\r\nset-cookie: who=me; Path=/\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        await peer.event(text_events[-1])
        await peer.end()

    provider = await upstream(script)
    for _ in range(2):
        await (await serve().ask(cookie="session=of-the-caller", authorization="Bearer of-the-caller")).rest()
        peer = await provider.peers.get()
        assert peer.header(b"authorization") == b"Bearer sk-test"
        assert peer.header(b"accept-encoding") == b"identity"
        assert peer.header(b"cookie") is None


async def test_no_key_is_no_authorization(
    serve: Any, upstream: Any, text_events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # and no proxy of the environment

    provider = await upstream(plays([text_events[-1]]))
    await (await serve(api_key=None).ask()).rest()
    peer = await provider.peers.get()
    assert peer.header(b"authorization") is None


async def test_a_provider_behind_a_proxy(
    serve: Any, upstream: Any, upstream_port: int, text_events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "provider.invalid")  # must not disable the configured proxy

    provider = await upstream(plays([text_events[-1]]))
    site = serve(
        api_key=None,
        base_url=None,
        upstreams={
            "far": {"base_url": "http://provider.invalid/v1", "proxy": f"http://me:pw@localhost:{upstream_port}"}
        },
        agents={"default": {"upstream": "far", "model": "m"}},
    )
    assert (await (await site.ask()).frames())[-1]["kind"] == "final"
    peer = await provider.peers.get()
    assert peer.head.startswith(b"POST http://provider.invalid/v1/responses HTTP/1.1\r\n")
    assert peer.header(b"proxy-authorization") == b"Basic bWU6cHc="


async def test_frames_arrive_one_by_one(serve: Any, upstream: Any, text_events: Any) -> None:
    received = asyncio.Semaphore(0)

    async def script(peer: Any) -> None:
        await peer.start()
        for event in text_events:
            await peer.event(event)
            if event["type"].endswith(".delta"):
                await received.acquire()  # nothing more before the client has this one
        await peer.end()

    await upstream(script)
    answer = await serve().ask()
    said = b""
    while chunk := await answer.chunk():
        said += chunk
        for _ in range(chunk.count(b'"kind":"message.delta"')):
            received.release()
    assert TIME.sub(b"", said) == expected(text_events, answer.headers["x-stream-id"])


async def test_the_head_arrives_before_the_first_byte_of_the_provider(serve: Any, upstream: Any) -> None:
    await upstream(plays([], ends=False))
    answer = await serve().ask()
    assert answer.status == 200
    answer.leave()


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_cuts_of_the_provider_do_not_matter(serve: Any, upstream: Any, text_events: Any, size: int) -> None:
    data = b"".join(encode_sse(json.dumps(event).encode()) for event in text_events)

    async def script(peer: Any) -> None:
        await peer.start()
        for start in range(0, len(data), size):
            await peer.chunk(data[start : start + size])
        await peer.end()

    await upstream(script)
    answer = await serve().ask()
    said = await answer.rest()
    assert TIME.sub(b"", said) == expected(text_events, answer.headers["x-stream-id"])


def heartbeats(data: bytes) -> int:
    return len(re.findall(rb": heartbeat \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n\n", data))


async def test_heartbeats_while_the_provider_is_silent(serve: Any, upstream: Any, text_events: Any) -> None:
    heard = [asyncio.Event(), asyncio.Event()]

    async def script(peer: Any) -> None:
        await peer.start()
        await heard[0].wait()
        for event in text_events[:5]:
            await peer.event(event)
        await heard[1].wait()
        await peer.event(text_events[-1])
        await peer.end()

    await upstream(script)
    answer = await serve(heartbeat_s=0.1).ask()
    before = [await answer.chunk() for _ in range(2)]
    assert [heartbeats(chunk) for chunk in before] == [1, 1]
    heard[0].set()
    middle = b""
    while b"data: " not in middle or heartbeats(middle.rpartition(b"data: ")[2]) < 2:
        middle += await answer.chunk()
    heard[1].set()
    assert (await answer.rest()).endswith(b"}\n\n")


async def test_heartbeats_while_output_is_held(serve: Any, upstream: Any, text_events: Any) -> None:
    """The provider sends continuously: half an event, and text that may be the start of a secret."""
    held = b'data: {"type":"response.output_text.delta","item_id":"m","output_index":0,"delta":"%b"}\n\n'

    async def script(peer: Any) -> None:
        await peer.start()
        for byte in held % b"a":
            await peer.chunk(bytes([byte]))
            await asyncio.sleep(0.01)
        for _ in range(20):
            await peer.chunk(held % b"quay")  # each is held until more follows
            await asyncio.sleep(0.05)
        await peer.event(text_events[-1])
        await peer.end()

    await upstream(script)
    registered = {"policy": {"registered": [{"value": "quay" * 100}]}}
    answer = await serve(heartbeat_s=0.1, agents={"default": {"upstream": "default", "model": "m", **registered}}).ask()
    before, _, after = (await answer.rest()).partition(b"data: ")
    assert heartbeats(before) >= 2
    assert heartbeats(after) >= 2


async def test_a_heartbeat_commits_the_status_before_the_provider_answers(serve: Any, upstream: Any) -> None:
    has_head = asyncio.Event()

    async def script(peer: Any) -> None:
        await has_head.wait()
        await peer.send(b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    await upstream(script)
    answer = await serve(heartbeat_s=0.1, retries={"max": 0}).ask()
    has_head.set()
    assert answer.status == 200
    assert heartbeats(await answer.chunk()) == 1
    [frame] = await answer.frames()
    assert (frame["kind"], frame["error"]["code"]) == ("error", "upstream_http_500")


async def test_no_heartbeat_between_events_that_come_often(serve: Any, upstream: Any, text_events: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        for event in text_events:
            await peer.event(event)
            await asyncio.sleep(0.1)
        await peer.end()

    await upstream(script)
    site = serve(heartbeat_s=1.0)
    counts = []
    while 0 not in counts and len(counts) < 5:  # a busy machine may pause for a second
        counts.append(heartbeats(await (await site.ask()).rest()))
    assert 0 in counts


async def test_a_connection_that_was_read_to_its_end_is_kept(
    serve: Any, upstream: Callable[..., Awaitable[Any]], text_events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "CLOSE_S", 60.0)  # the end is not late, whatever the machine does

    async def script(peer: Any) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        await peer.event(text_events[-1])
        await asyncio.sleep(0.05)  # the end comes after the terminal event, in a packet of its own
        await peer.end()
        await peer.gone.wait()

    provider = await upstream(script)
    await (await serve().ask()).rest()
    peer = await provider.peers.get()
    await asyncio.sleep(0.2)
    assert not peer.gone.is_set()  # kept for the next request


async def test_a_stream_is_cancelled_by_its_id(serve: Any, upstream: Any, text_events: Any) -> None:
    provider = await upstream(plays(text_events[:5], ends=False))
    site = serve()
    answer = await site.ask()
    said = b""
    while b"message.delta" not in said:
        said += await answer.chunk()
    path = f"/api/v1/streams/{answer.headers['x-stream-id']}/cancel"
    statuses = [(await site.ask(path, b"")).status for _ in range(2)]
    last = (await answer.frames())[-1]
    assert last["final"]["status"] == "cancelled"
    assert last["final"]["response_text"]
    statuses.append((await site.ask(path, b"")).status)  # it has ended, and cancelling it is still not an error
    assert statuses == [204, 204, 204]
    peer = await provider.peers.get()
    await asyncio.wait_for(peer.gone.wait(), 60)


async def test_an_unknown_stream_cannot_be_cancelled(serve: Any) -> None:
    answer = await serve().ask("/api/v1/streams/stream_0/cancel", b"")
    assert (answer.status, (await answer.problem())["code"]) == (404, "unknown_stream")
