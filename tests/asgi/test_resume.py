"""Streams that are read again: after each event, in each dialect, by several readers, without their first client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from projector.dialects import DIALECTS
from projector.server.streaming import log_session
from tests.asgi.callers import keys
from tests.asgi.conftest import Answer, Peer, Site, frames_of
from tests.waiting import wait_until

CHAT: Final = "/api/v1/chat/stream"
AGENT: Final = {"upstream": "one", "model": "m", "dialects": [*DIALECTS]}


def agents(upstream_port: int, **agent: Any) -> dict[str, Any]:
    one = {"base_url": f"http://localhost:{upstream_port}/v1", "api_key": "sk-test"}
    tables = {"upstreams": {"one": one}, "agents": {"default": AGENT | agent}, "openwop": {}}
    return {"api_key": None, "base_url": None, **tables}


class Provider:
    """Sends events up to a gate, and the rest when it is opened."""

    def __init__(self, events: list[dict[str, Any]], until: int) -> None:
        self._events = events
        self._until = until
        self.gate = asyncio.Event()
        self.peers: list[Peer] = []

    async def __call__(self, peer: Peer) -> None:
        self.peers.append(peer)
        await peer.start()
        for number, event in enumerate(self._events):
            if number == self._until:
                await self.gate.wait()
            await peer.event(event)
        await peer.end()


Listen = Callable[[Provider], Awaitable[object]]


async def events_of(site: Site, answer: Answer, after: int | str = "", query: str = "", **headers: str) -> Answer:
    path = f"{answer.headers['location']}/events?{query}" + (f"&after={after}" if after != "" else "")
    return await site.get(path, **headers)


async def until(answer: Answer, found: bytes) -> bytes:
    data = b""
    while found not in data:
        data += await answer.chunk()
    return data


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_reader_gets_the_same_bytes_after_each_event(
    serve: Any, upstream: Any, upstream_port: int, text_events: Any, dialect: str
) -> None:
    await upstream(Provider(text_events, len(text_events)))
    site = serve(**agents(upstream_port))
    answer = await site.ask(f"{CHAT}?dialect={dialect}")
    whole = await answer.rest()
    messages = [message + b"\n\n" for message in whole.split(b"\n\n") if message]
    has_mark = DIALECTS[dialect].end_mark is not None
    for after in range(len(messages) - has_mark):
        later = await events_of(site, answer, after)
        assert (later.status, await later.rest()) == (200, b"".join(messages[after:]))
        assert later.headers["content-type"].startswith("text/event-stream")


async def test_positions(serve: Any, upstream: Any, text_events: Any) -> None:
    await upstream(Provider(text_events, len(text_events)))
    site = serve()
    answer = await site.ask()
    frames = frames_of(await answer.rest())
    last = frames[-1]["event_id"]
    rows: list[tuple[int | str, dict[str, str], int, object]] = [
        (last, {}, 204, None),
        ("", {"last_event_id": str(last)}, 204, None),
        (last - 1, {}, 200, [last]),
        ("", {"last_event_id": str(last - 2)}, 200, [last - 1, last]),
        (0, {"last_event_id": str(last)}, 200, [frame["event_id"] for frame in frames]),
        ("", {}, 200, [frame["event_id"] for frame in frames]),
        (last + 1, {}, 400, "unknown_event"),
        ("-1", {}, 400, "invalid_position"),
        ("1.5", {}, 400, "invalid_position"),
        ("9" * 16, {}, 400, "invalid_position"),
        ("%D9%A1", {}, 400, "invalid_position"),
        ("", {"last_event_id": "x"}, 400, "invalid_position"),
    ]
    for after, headers, status, expected in rows:
        later = await events_of(site, answer, after, **headers)
        assert later.status == status, (after, headers)
        if status == 200:
            assert [frame["event_id"] for frame in await later.frames()] == expected
        elif status == 400:
            assert (await later.problem())["code"] == expected
    other = await events_of(site, answer, 0, "dialect=nope")
    assert (other.status, (await other.problem())["code"]) == (422, "unknown_dialect")
    unknown = await site.get("/api/v1/streams/stream_0/events")
    assert (unknown.status, (await unknown.problem())["code"]) == (404, "unknown_stream")


async def begun(serve: Any, upstream: Any, text_events: Any, **settings: Any) -> tuple[Site, Answer]:
    """Return a server, and the answer of a stream whose provider goes on after its gate only."""
    await upstream(Provider(text_events, 6))
    site = serve(**settings)
    answer = await site.ask()
    await until(answer, b"message.delta")
    return site, answer


async def test_readers_join_a_running_stream(serve: Any, upstream: Any, text_events: Any) -> None:
    provider = Provider(text_events, 6)
    await upstream(provider)
    site = serve()
    answer = await site.ask()
    begin = await until(answer, b"message.delta")
    readers = [await events_of(site, answer, after) for after in (0, 1, 3)]
    gone = await events_of(site, answer)
    gone.leave()
    state = json.loads(await (await site.get(answer.headers["location"])).rest())
    assert (state["status"], state["dialect"]) == ("in_progress", "public_sse_v1")
    provider.gate.set()
    whole = [frame["event_id"] for frame in frames_of(begin + await answer.rest())]
    assert whole == list(range(1, len(whole) + 1))
    for after, reader in zip((0, 1, 3), readers, strict=True):
        assert [frame["event_id"] for frame in await reader.frames()] == whole[after:]
    state = json.loads(await (await site.get(answer.headers["location"])).rest())
    assert (state["status"], state["last_event_id"]) == ("completed", whole[-1])


async def test_the_state_of_an_interrupted_stream_counts_its_end(serve: Any, upstream: Any, text_events: Any) -> None:
    site, answer = await begun(serve, upstream, text_events)
    await site.state.logs.store.seal(answer.headers["x-stream-id"], reason="stream_interrupted")
    state = json.loads(await (await site.get(answer.headers["location"])).rest())
    frames = await (await events_of(site, answer)).frames()
    assert frames[-1]["error"]["code"] == "stream_interrupted"
    assert (state["status"], state["last_event_id"]) == ("error", len(frames))


async def test_the_state_of_an_interrupted_stream_counts_as_a_reader(
    serve: Any, upstream: Any, text_events: Any
) -> None:
    site, answer = await begun(serve, upstream, text_events, limits={"max_streams_per_caller": 1})
    await site.state.logs.store.seal(answer.headers["x-stream-id"], reason="stream_interrupted")
    state = await site.get(answer.headers["location"])
    assert (state.status, (await state.problem())["code"]) == (429, "too_many_streams")


async def test_a_frame_that_no_dialect_can_write(
    serve: Any, upstream: Any, upstream_port: int, text_events: Any
) -> None:
    """A reader that has begun is cut off, and does not wait for a store that is away."""
    site, answer = await begun(serve, upstream, text_events, **agents(upstream_port), heartbeat_s=0.05)
    reader = await events_of(site, answer, "", "dialect=responses")
    await until(reader, b"output_text.delta")
    stream_id, store = answer.headers["x-stream-id"], site.state.logs.store
    bad = {"stream_id": stream_id, "event_id": 99, "kind": "message.delta"}
    assert store.append_now(stream_id, store._open[stream_id].last + 1, [json.dumps(bad).encode()]) is None
    with pytest.raises(asyncio.IncompleteReadError):
        await reader.rest()
    later = await events_of(site, answer, "", "dialect=responses")
    assert (later.status, (await later.problem())["code"]) == (503, "store_unavailable")


async def test_a_log_that_goes_while_it_is_read_ends_its_readers(
    serve: Any, upstream: Any, upstream_port: int, text_events: Any
) -> None:
    site, answer = await begun(serve, upstream, text_events, **agents(upstream_port), heartbeat_s=0.05)
    reader = await events_of(site, answer)
    data = await until(reader, b"message.delta")
    await site.state.logs.store.delete(answer.headers["x-stream-id"])
    frames = frames_of(data + await reader.rest())
    assert [frame["event_id"] for frame in frames] == [*range(1, len(frames) + 1)]
    assert frames[-1]["error"]["code"] == "stream_interrupted"


async def test_a_log_that_is_trimmed_while_it_is_read_has_not_ended(
    serve: Any, upstream: Any, upstream_port: int, text_events: Any
) -> None:
    """A reader that is too slow is cut off: the stream goes on, so that no terminal would be true."""
    site, answer = await begun(
        serve, upstream, text_events, **agents(upstream_port), heartbeat_s=0.05, store={"max_stream_bytes": 100_000}
    )
    reader = await events_of(site, answer)
    await until(reader, b"message.delta")
    stream_id, store = answer.headers["x-stream-id"], site.state.logs.store
    for _ in range(20):
        assert store.append_now(stream_id, store._open[stream_id].last + 1, [b"x" * 10_000]) is None
    with pytest.raises(asyncio.IncompleteReadError):
        await reader.rest()


async def test_a_reader_that_leaves_before_its_event_is_there_is_not_admitted_any_more(
    serve: Any, upstream: Any, text_events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_session, "BEHIND_S", 600)
    site, answer = await begun(serve, upstream, text_events)
    streams = site.state.streams
    _, writer = await site.connect()
    writer.write(f"GET {answer.headers['location']}/events?after=999 HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    await wait_until(lambda: streams._all_admitted == 2)
    writer.close()
    await wait_until(lambda: streams._all_admitted == 1)


@pytest.mark.parametrize("on_disconnect", ["cancel", "continue"])
async def test_a_client_that_leaves(
    serve: Any, upstream: Any, upstream_port: int, text_events: Any, on_disconnect: str
) -> None:
    provider = Provider(text_events, 6)
    await upstream(provider)
    site = serve(**agents(upstream_port, on_disconnect=on_disconnect))
    answer = await site.ask()
    begin = await until(answer, b"message.delta")
    answer.leave()
    if on_disconnect == "cancel":
        await asyncio.wait_for(provider.peers[0].gone.wait(), 60)
    later = await events_of(site, answer, len(frames_of(begin)))
    await asyncio.sleep(0.05)
    provider.gate.set()
    frames = frames_of(begin) + await later.frames()
    assert [frame["event_id"] for frame in frames] == list(range(1, len(frames) + 1))
    assert frames[-1]["final"]["status"] == {"cancel": "cancelled", "continue": "completed"}[on_disconnect]


async def test_a_stream_that_nobody_reads_is_cancelled(
    serve: Any, upstream: Any, upstream_port: int, text_events: Any
) -> None:
    provider = Provider(text_events, 6)
    await upstream(provider)
    site = serve(**agents(upstream_port, on_disconnect="continue"), store={"unread_s": 0.05})
    answer = await site.ask()
    await until(answer, b"message.delta")
    answer.leave()
    await asyncio.wait_for(provider.peers[0].gone.wait(), 60)
    frames = await (await events_of(site, answer)).frames()
    assert frames[-1]["final"]["status"] == "cancelled"


async def test_a_stalled_client_does_not_stop_a_stream_that_survives(
    serve: Any, upstream: Any, upstream_port: int, text_events: Any
) -> None:
    delta = next(event for event in text_events if event["type"] == "response.output_text.delta")
    at = text_events.index(delta)
    many = [*text_events[:at], *([delta | {"delta": "x" * 60_000}] * 300), *text_events[at + 1 :]]
    await upstream(Provider(many, len(many)))
    timeouts = {"client_stall_timeout_s": 0.3}
    site = serve(
        **agents(upstream_port, on_disconnect="continue"), timeouts=timeouts, store={"max_stream_bytes": 2**26}
    )
    answer = await site.ask()
    answer.stop_reading()
    assert await site.is_quiet()
    frames = await (await events_of(site, answer)).frames()
    assert frames[-1]["final"]["status"] == "completed"
    answer.reset()


async def test_another_caller_has_no_such_stream(serve: Any, upstream: Any, text_events: Any) -> None:
    await upstream(Provider(text_events, len(text_events)))
    site = serve(auth={"api_keys": keys("anna", "ben")})
    anna, ben = {"authorization": "Bearer anna"}, {"authorization": "Bearer ben"}
    answer = await site.ask(**anna)
    await answer.rest()
    place = answer.headers["location"]
    for path in (place, f"{place}/events"):
        assert (await site.get(path)).status == 401
        stranger = await site.get(path, **ben)
        assert (stranger.status, (await stranger.problem())["code"]) == (404, "unknown_stream")
    assert (await site.ask(f"{place}/cancel", b"", **ben)).status == 404
    assert (await site.get(f"{place}/events", **anna)).status == 200


async def test_a_deleted_stream_is_gone(serve: Any, upstream: Any, text_events: Any) -> None:
    await upstream(Provider(text_events, len(text_events)))
    site = serve()
    answer = await site.ask()
    await answer.rest()
    assert await deleted(site, answer.headers["location"]) == 204
    assert (await events_of(site, answer)).status == 404
    assert await deleted(site, answer.headers["location"]) == 404
    refused = await site.get(answer.headers["location"], method="PUT")
    assert sorted(refused.headers["allow"].split(", ")) == ["DELETE", "GET", "HEAD"]


async def deleted(site: Site, path: str, **headers: str) -> int:
    return (await site.get(path, method="DELETE", **headers)).status


async def test_an_agent_that_stores_nothing(serve: Any, upstream: Any, upstream_port: int, text_events: Any) -> None:
    await upstream(Provider(text_events, len(text_events)))
    site = serve(**agents(upstream_port, store="none"))
    answer = await site.ask(idempotency_key="a")
    await answer.rest()
    assert "location" not in answer.headers
    assert (await site.get(f"/api/v1/streams/{answer.headers['x-stream-id']}/events")).status == 404


async def test_a_long_stream_loses_its_first_events(
    serve: Any, upstream: Any, upstream_port: int, text_events: Any
) -> None:
    delta = next(event for event in text_events if event["type"] == "response.output_text.delta")
    at = text_events.index(delta)
    again = {name: value for name, value in delta.items() if name != "sequence_number"}  # it would be a repetition
    many = [*text_events[:at], *([again | {"delta": "word " * 100}] * 200), *text_events[at + 1 :]]
    await upstream(Provider(many, len(many)))
    site = serve(**agents(upstream_port), store={"max_stream_bytes": 200_000})
    answer = await site.ask()
    last = frames_of(await answer.rest())[-1]["event_id"]
    begin = await events_of(site, answer)
    assert (begin.status, (await begin.problem())["code"]) == (410, "events_gone")
    assert last > 200


# Idempotency-Key


async def test_the_same_key_asks_once(serve: Any, upstream: Any, text_events: Any) -> None:
    provider = Provider(text_events, 6)
    await upstream(provider)
    site = serve()
    first = await site.ask(idempotency_key="key-1")
    begin = await until(first, b"message.delta")
    second = await site.ask(idempotency_key="key-1")
    assert second.headers["x-stream-id"] == first.headers["x-stream-id"]
    provider.gate.set()
    whole = begin + await first.rest()
    assert await second.rest() == whole
    third = await site.ask(idempotency_key="key-1")
    assert await third.rest() == whole
    assert len(provider.peers) == 1
    other = await site.ask(body={"message": "another"}, idempotency_key="key-1")
    assert (other.status, (await other.problem())["code"]) == (422, "idempotency_key_reused")
    fresh = await site.ask(idempotency_key="key-2")
    await fresh.rest()
    assert len(provider.peers) == 2


async def test_a_key_of_a_json_answer(serve: Any, upstream: Any, text_events: Any) -> None:
    provider = Provider(text_events, len(text_events))
    await upstream(provider)
    site, body = serve(), {"model": "m", "input": "hi"}
    answers = [await site.ask("/v1/responses", body, idempotency_key="key-json") for _ in range(2)]
    one, two = [json.loads(await answer.rest()) for answer in answers]
    assert one == two
    assert (one["object"], len(provider.peers)) == ("response", 1)
    other = await site.ask("/v1/responses", body | {"input": "another"}, idempotency_key="key-json")
    assert (other.status, (await other.openai_error())["code"]) == (400, "idempotency_key_reused")


async def test_a_refused_request_frees_its_key(serve: Any, upstream: Any, text_events: Any) -> None:
    site = serve(retries={"max": 0})
    refused = await site.ask(idempotency_key="key-3")
    assert refused.status == 502  # nothing listens
    provider = Provider(text_events, len(text_events))
    await upstream(provider)
    answer = await site.ask(idempotency_key="key-3")
    assert answer.status == 200
    await answer.rest()


@pytest.mark.parametrize("key", ["x" * 256, "caf\u00e9"])
async def test_invalid_keys(serve: Any, key: str) -> None:
    answer = await serve().ask(idempotency_key=key)
    assert (answer.status, (await answer.problem())["code"]) == (422, "invalid_request")
