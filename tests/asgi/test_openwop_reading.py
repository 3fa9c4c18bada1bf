"""Readers of a run of the OpenWOP host: modes, resuming, polls, invalid queries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from starlette.datastructures import QueryParams

from projector.openwop.requests import MAX_POLL_S, MODES, poll_s
from projector.openwop.run_log import RunLog, stream
from tests.asgi.openwop_peer import OpenWopPeer, document, error, messages, messages_of, types

STREAMING = "conformance-agent-reasoning-streaming"
LOW_CONFIDENCE = "conformance-agent-low-confidence"


@pytest.fixture
def host(serve: Callable[..., Any]) -> OpenWopPeer:
    return OpenWopPeer(serve(openwop={"conformance": True}))


async def test_the_json_log_is_complete_in_every_mode(host: OpenWopPeer) -> None:
    run_id = await host.create(STREAMING)
    await host.until(run_id, "completed")
    whole = await host.log(run_id)
    for mode in MODES:
        answer = await host.get(f"/v1/runs/{run_id}/events?streamMode={mode}")
        assert (await document(answer))["events"] == whole


async def test_a_stream_is_the_log_in_its_order(host: OpenWopPeer) -> None:
    run_id = await host.create(STREAMING)
    await host.until(run_id, "completed")
    whole = await host.log(run_id)
    for query in ("?streamMode=debug", "?streamMode=debug,updates"):
        said = await messages(await host.stream(run_id, query))
        assert [message.data for message in said] == whole
        assert [message.id for message in said] == [str(event["sequence"]) for event in whole]
        assert types(said) == types(whole)


MODE_ROWS: list[tuple[str, list[str]]] = [
    ("", ["run.started", "node.started", "agent.toolCalled", "node.suspended", "run.completed"]),
    ("updates", ["run.started", "node.started", "agent.toolCalled", "node.suspended", "run.completed"]),
    ("messages", ["output.chunk", "node.suspended", "run.completed"]),
    (
        "updates,messages",
        ["run.started", "node.started", "agent.toolCalled", "output.chunk", "node.suspended", "run.completed"],
    ),
    (
        "debug",
        [
            "run.started", "node.started", "agent.toolCalled", "output.chunk", "node.suspended",
            "run.completed",
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "expected"), MODE_ROWS)
async def test_events_of_each_mode(mode: str, expected: list[str]) -> None:
    log = RunLog("run_1", 10_000, lambda _: True)
    for kind in MODE_ROWS[-1][1]:
        payload = {"nodeId": "n", "interruptId": "i", "kind": "approval"}
        log.emit(kind, payload, node_id="n")
    shown = frozenset(mode.split(",")) if mode else frozenset({"updates"})
    assert types(messages_of(b"".join([piece async for piece in stream(log, shown, -1, 60)]))) == expected


@pytest.mark.parametrize("last", [-1, 0, 3, 6, 7])
async def test_a_stream_resumes_after_the_last_event_id(host: OpenWopPeer, last: int) -> None:
    run_id = await host.create(STREAMING)
    await host.until(run_id, "completed")
    whole = await host.log(run_id)
    said = await messages(await host.stream(run_id, "?streamMode=debug", last_event_id=str(last)))
    assert [message.data for message in said] == whole[last + 1 :]
    polled = await document(await host.get(f"/v1/runs/{run_id}/events/poll?lastSequence={last}"))
    assert polled == {"events": whole[last + 1 :], "isComplete": True}


async def test_a_reader_beyond_the_log_gets_the_end(host: OpenWopPeer) -> None:
    """Whatever it was sent before, a reader that resumes gets the terminal event."""
    run_id = await host.create(LOW_CONFIDENCE)
    await host.until(run_id, "waiting-approval")
    reader = await host.stream(run_id, last_event_id="100")
    await document(await host.resolve(run_id, "low-conf-decider", "accept"))
    assert types(await messages(reader)) == ["interrupt.resolved", "node.resumed", "node.completed", "run.completed"]
    for last in ("100", "9" * 30):
        said = await messages(await host.stream(run_id, "?streamMode=messages", last_event_id=last))
        assert types(said) == ["run.completed"]
    polled = await document(await host.get(f"/v1/runs/{run_id}/events/poll?lastSequence=100"))
    assert polled == {"events": [], "isComplete": True}


async def test_a_large_log_is_sent_in_pieces(serve: Callable[..., Any], upstream: Any) -> None:
    async def script(peer: Any) -> None:
        await peer.start()
        await peer.event({"type": "response.created", "response": {"id": "r", "status": "in_progress"}})
        place = {"item_id": "m", "output_index": 0, "content_index": 0}
        for _ in range(100):
            await peer.event({"type": "response.output_text.delta", **place, "delta": "word " * 1_000})
        await peer.event({"type": "response.completed", "response": {"id": "r", "status": "completed"}})
        await peer.end()

    await upstream(script)
    host = OpenWopPeer(serve(openwop={}))
    run_id = await host.say("hello", "default")
    await host.until(run_id, "completed")
    whole = await host.log(run_id)
    assert sum(len(event["payload"].get("chunk", "")) for event in whole) == 100 * 5_000
    polled = await document(await host.get(f"/v1/runs/{run_id}/events/poll?lastSequence=50"))
    assert polled == {"events": whole[51:], "isComplete": True}
    said = await messages(await host.stream(run_id, "?streamMode=debug"))
    assert [message.data for message in said] == whole


async def test_heartbeats_are_sent_during_pauses(serve: Callable[..., Any]) -> None:
    host = OpenWopPeer(serve(heartbeat_s=0.05, openwop={"conformance": True}))
    run_id = await host.create(LOW_CONFIDENCE)
    stream = await host.stream(run_id)
    while b": keepalive\n\n" not in await stream.chunk():
        pass
    await document(await host.post(f"/v1/runs/{run_id}/cancel", {}))
    assert (await messages(stream))[-1].event == "run.cancelled"


async def test_a_poll_waits_for_new_events(host: OpenWopPeer) -> None:
    run_id = await host.create(LOW_CONFIDENCE)
    await host.until(run_id, "waiting-approval")
    last = len(await host.log(run_id)) - 1
    at_once = await document(await host.get(f"/v1/runs/{run_id}/events/poll?lastSequence={last}"))
    assert at_once == {"events": [], "isComplete": False}
    path = f"/v1/runs/{run_id}/events/poll?since={last}&timeout=20"
    polling = asyncio.create_task(host.get(path))
    await asyncio.sleep(0.05)
    await document(await host.resolve(run_id, "low-conf-decider", "accept"))
    polled = await document(await polling)
    assert types(polled["events"])[0] == "interrupt.resolved"


async def test_a_poll_without_a_cursor_begins_at_the_start(host: OpenWopPeer) -> None:
    run_id = await host.create(STREAMING)
    await host.until(run_id, "completed")
    whole = await host.log(run_id)
    for query in ("", "?lastSequence=-1", "?timeout=3", "?timeout=0.5"):
        assert (await document(await host.get(f"/v1/runs/{run_id}/events/poll{query}")))["events"] == whole


def test_large_times_are_clamped() -> None:
    assert poll_s(QueryParams("timeout=999999")) == MAX_POLL_S
    assert poll_s(QueryParams("timeout=0.25")) == 0.25


REFUSED: list[tuple[str, str]] = [
    ("events?streamMode=values", "unsupported_stream_mode"),
    ("events?streamMode=nothing", "unsupported_stream_mode"),
    ("events?streamMode=", "unsupported_stream_mode"),
    ("events/poll?lastSequence=x", "validation_error"),
    ("events/poll?lastSequence=-2", "validation_error"),
    ("events/poll?timeout=-1", "validation_error"),
    ("events/poll?timeout=nan", "validation_error"),
    ("events/poll?timeout=1e3", "validation_error"),
    ("events/poll?timeout=.5", "validation_error"),
]


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
@pytest.mark.parametrize(("path", "code"), REFUSED)
async def test_a_query_is_validated_first(host: OpenWopPeer, path: str, code: str, accept: str) -> None:
    run_id = await host.create(STREAMING)
    said = await error(await host.get(f"/v1/runs/{run_id}/{path}", accept=accept), 400)
    assert said["error"] == code
    if code == "unsupported_stream_mode":
        assert said["details"] == {"supported": list(MODES)}


async def test_an_invalid_cursor_is_rejected(host: OpenWopPeer) -> None:
    run_id = await host.create(STREAMING)
    for last in ("x", "-5", "1e3", "٣"):
        answer = await host.get(f"/v1/runs/{run_id}/events", accept="text/event-stream", last_event_id=last)
        assert (await error(answer, 400))["error"] == "validation_error"


ACCEPTS: list[tuple[str, str]] = [
    ("application/json", "application/json"),
    ("application/json, */*", "application/json"),
    ("text/event-stream", "text/event-stream; charset=utf-8"),
    ("application/json, text/event-stream", "text/event-stream; charset=utf-8"),
    ("*/*", "text/event-stream; charset=utf-8"),
    ("", "text/event-stream; charset=utf-8"),
]


@pytest.mark.parametrize(("accept", "media_type"), ACCEPTS)
async def test_the_response_type_follows_the_accept_header(host: OpenWopPeer, accept: str, media_type: str) -> None:
    run_id = await host.create(STREAMING)
    await host.until(run_id, "completed")
    answer = await host.get(f"/v1/runs/{run_id}/events", accept=accept)
    assert (answer.status, answer.headers["content-type"]) == (200, media_type)
    await answer.rest()
