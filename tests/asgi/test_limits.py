"""Limits over real sockets: rejections, and independence of other clients from a slow one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from projector.server.config.settings import Limits, Settings
from projector.server.listening import raise_file_limit
from projector.server.streaming.memory import STREAM_BYTES
from tests.asgi.conftest import in_time
from tests.waiting import wait_until

DELTA = {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0}


async def silent(peer: Any) -> None:
    await peer.start()
    await peer.gone.wait()


async def test_too_many_streams_for_the_server(serve: Any, upstream: Any) -> None:
    await upstream(silent)
    site = serve(limits={"max_streams": 2})
    first, _ = [await site.ask() for _ in range(2)]
    refused = await site.ask()
    assert (refused.status, refused.headers["retry-after"]) == (503, "5")
    assert (await refused.problem())["code"] == "overloaded"
    first.leave()
    await wait_until(lambda: site.streams.active == 1)
    assert (await site.ask()).status == 200


async def test_too_many_streams_of_one_caller(serve: Any, upstream: Any) -> None:
    await upstream(silent)
    site = serve(limits={"max_streams_per_caller": 1})
    await site.ask()
    refused = await site.ask()
    assert (refused.status, refused.headers["retry-after"]) == (429, "5")
    assert (await refused.problem())["code"] == "too_many_streams"


@pytest.mark.parametrize("says_length", [True, False])
async def test_a_body_that_is_too_large(serve: Any, says_length: bool) -> None:  # noqa: FBT001 - a row of the table
    site = serve(limits={"max_body_bytes": 1000})
    if says_length:
        answer = await site.ask(body=b'"' + b"a" * 1000 + b'"')
    else:
        chunked = b"400\r\n" + b"a" * 1024 + b"\r\n"
        answer = await site.ask(body=chunked, content_length="", transfer_encoding="chunked")
    assert (answer.status, (await answer.problem())["code"]) == (413, "body_too_large")


async def test_a_body_that_does_not_arrive(serve: Any) -> None:
    site = serve(timeouts={"request_read_s": 0.2})
    answer = await in_time(lambda: site.ask(body=b'{"mess', content_length="20"))
    assert (answer.status, (await answer.problem())["code"]) == (408, "request_timeout")


async def test_memory_is_bounded_while_events_do_not_end(serve: Any, upstream: Any, text_events: Any) -> None:
    may_go_on = asyncio.Event()

    async def script(peer: Any) -> None:
        await peer.start()
        if peer.body["input"] == "flood":
            await peer.chunk(b"data: ")
            while True:
                await peer.chunk(b"x" * 10_000)
                await asyncio.sleep(0.001)
        await may_go_on.wait()
        for event in text_events:
            await peer.event(event)
        await peer.end()

    await upstream(script)
    site = serve(limits={"max_memory_bytes": 5 * STREAM_BYTES})
    running = await site.ask()
    for _ in range(3):
        await site.post(body={"message": "flood"})
    await wait_until(lambda: site.streams.held_bytes >= 5 * STREAM_BYTES)
    refused = await site.ask()
    assert (refused.status, (await refused.problem())["code"]) == (503, "overloaded")
    may_go_on.set()
    assert (await running.frames())[-1]["kind"] == "final"


async def test_small_streams_end_while_a_client_reads_nothing(serve: Any, upstream: Any, text_events: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        if peer.body["input"] == "flood":
            while True:
                await peer.event(DELTA | {"delta": "a" * 8_000})
        for event in text_events:
            await peer.event(event)
            await asyncio.sleep(0.01)
        await peer.end()

    await upstream(script)
    site = serve()
    deaf = await site.post(body={"message": "flood"})
    deaf.stop_reading()
    answers = await asyncio.gather(*(site.ask() for _ in range(20)))
    ends = await asyncio.gather(*(answer.frames() for answer in answers))
    assert {frames[-1]["kind"] for frames in ends} == {"final"}
    held_bytes = 0
    while site.streams.held_bytes != held_bytes:  # until the buffers of the system are full
        held_bytes = site.streams.held_bytes
        await asyncio.sleep(0.2)
    await wait_until(lambda: site.streams.active == 1)
    assert held_bytes < Limits().max_text_bytes, "its upstream is read to the limit"


async def test_five_hundred_streams_at_once_all_end(serve: Any, upstream: Any, text_events: Any) -> None:
    raise_file_limit(Settings.model_validate({"limits": {"max_streams": 1000}}))  # this process holds both ends
    everyone = asyncio.Barrier(501)

    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event(text_events[0])
        await everyone.wait()
        await peer.event(text_events[-1])
        await peer.end()

    await upstream(script)
    site = serve(limits={"max_streams": 500})
    answers = [await site.post() for _ in range(500)]
    await wait_until(lambda: everyone.n_waiting == 500)  # who is the last is the test
    assert site.streams.active == 500
    await everyone.wait()
    for answer in answers:
        await answer.read_head()
        kinds = [frame["kind"] for frame in await answer.frames()]
        assert (kinds[-1], kinds.count("final"), kinds.count("error")) == ("final", 1, 0)


async def test_unfinished_events_share_the_budget(serve: Any, upstream: Any) -> None:
    """The events together exceed the budget, so they are read one at a time."""
    image = b"A" * 400_000
    event = (
        b'data: {"type":"response.image_generation_call.partial_image","item_id":"ig_1","output_index":0,'
        b'"partial_image_index":0,"partial_image_b64":"' + image + b'"}\n\n'
        b'data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}\n\n'
    )

    async def script(peer: Any) -> None:
        await peer.start()
        for start in range(0, len(event), 50_000):
            await peer.chunk(event[start : start + 50_000])
            await asyncio.sleep(0.005)
        await peer.end()

    await upstream(script)
    site = serve(limits={"max_memory_bytes": 2_000_000, "max_streams": 8})
    answers = [await site.post() for _ in range(5)]
    for answer in answers:
        await answer.read_head()
    whole = [answer for answer in answers if answer.status == 200]
    assert len(whole) > 1
    for frames in await asyncio.gather(*(answer.frames() for answer in whole)):
        assert frames[-1]["kind"] == "final"
    assert await site.is_quiet(), "and the memory is released"
