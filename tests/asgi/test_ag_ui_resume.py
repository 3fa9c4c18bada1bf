"""Runs of AG-UI that go on after a lost connection: the same request with `Last-Event-ID`, and the GET that joins."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.asgi.callers import keys
from tests.asgi.examples import example
from tests.asgi.test_ag_ui_route import USER, path
from tests.asgi.test_resume import Provider, deleted, until

ANN: Final = {"authorization": "Bearer ann"}
BOB: Final = {"authorization": "Bearer bob"}
AGENT: Final = {"upstream": "one", "model": "m", "dialects": ["ag_ui", "public_sse_v1"]}
AGENTS: Final[dict[str, dict[str, Any]]] = {
    "desk": AGENT,
    "patient": AGENT | {"on_disconnect": "continue"},
    "forgetful": AGENT | {"store": "none"},
    "public": AGENT | {"dialects": ["public_sse_v1"]},
}
EXAMPLES: Final = (
    "chat-text-citations",
    "chat-reasoning-summary",
    "chat-code-interpreter",
    "chat-image-chunks",
    "chat-mcp-tool",
    "chat-incomplete",
    "chat-failed",
)
"""Among them are frames that make several events, and frames that make none."""


@pytest.fixture
def site(serve: Any, upstream_port: int) -> Any:
    upstreams = {"one": {"base_url": f"http://localhost:{upstream_port}/v1"}}
    callers = {"callers": {"key:visitor": {"routes": ["chat"]}}, "auth": {"api_keys": keys("ann", "bob", "visitor")}}
    return serve(api_key=None, base_url=None, upstreams=upstreams, agents=AGENTS, **callers)


def body(run_id: str = "run-1", thread_id: str = "thread-1") -> dict[str, Any]:
    return {"threadId": thread_id, "runId": run_id, "messages": [USER]}


def provider_of(name: str, until_event: int | None = None) -> Provider:
    events = [json.loads(line) for line in example(name)[0]]
    return Provider(events, len(events) if until_event is None else until_event)


def messages_of(data: bytes) -> list[bytes]:
    return [message + b"\n\n" for message in data.split(b"\n\n") if message]


async def joined(site: Any, query: str, agent: str = "desk", **headers: str) -> Any:
    return await site.get(f"{path(agent)}?{query}", **(ANN | headers))


@pytest.mark.parametrize("name", EXAMPLES)
async def test_a_run_goes_on_after_each_event(site: Any, upstream: Any, name: str) -> None:
    provider = provider_of(name)
    await upstream(provider)
    answer = await site.ask(path("desk"), body(), **ANN)
    assert answer.headers["x-run-id"] == "run-1"
    messages = messages_of(await answer.rest())
    assert [message.partition(b"\n")[0] for message in messages] == [
        b"id: %d" % (number + 1) for number in range(len(messages))
    ]
    for after in range(len(messages)):
        asked = await site.ask(path("desk"), body(), last_event_id=str(after), **ANN)
        read = await joined(site, "offset=-1&runId=run-1", last_event_id=str(after))
        for later in (asked, read):
            assert (later.status, await later.rest()) == (200, b"".join(messages[after:]))
            assert {later.headers[header] for header in ("x-run-id", "x-stream-id", "location")} == {
                *("run-1", answer.headers["x-stream-id"], answer.headers["location"])
            }
    assert len(provider.peers) == 1, "the provider is asked once"


async def test_a_running_stream_is_joined(site: Any, upstream: Any) -> None:
    provider = provider_of("chat-text-citations", 6)
    await upstream(provider)
    answer = await site.ask(path("patient"), body("run-2"), **ANN)
    begin = await until(answer, b"TEXT_MESSAGE_CONTENT")
    answer.reset()
    has = messages_of(begin)
    asked = await site.ask(path("patient"), body("run-2"), last_event_id=str(len(has)), **ANN)
    read = await joined(site, "offset=-1&runId=run-2", "patient")
    provider.gate.set()
    whole = await read.rest()
    assert begin + await asked.rest() == whole
    assert json.loads(messages_of(whole)[-1].partition(b"data: ")[2])["type"] == "RUN_FINISHED"
    assert len(provider.peers) == 1


async def test_a_run_that_is_sent_again_without_a_position_is_a_new_one(site: Any, upstream: Any) -> None:
    provider = provider_of("chat-text-citations")
    await upstream(provider)
    first = await site.ask(path("desk"), body("run-3"), **ANN)
    await first.rest()
    second = await site.ask(path("desk"), body("run-3"), last_event_id=" ", **ANN)
    whole = await second.rest()
    assert first.headers["x-stream-id"] != second.headers["x-stream-id"]
    assert await (await joined(site, "runId=run-3")).rest() == whole, "the newest run of an ID counts"
    assert len(provider.peers) == 2


async def test_positions(site: Any, upstream: Any) -> None:
    await upstream(provider_of("chat-text-citations"))
    messages = messages_of(await (await site.ask(path("desk"), body("run-4"), **ANN)).rest())
    last = len(messages)
    rows: list[tuple[str, str | None, int, str | int]] = [
        ("", None, 200, last),
        ("offset=-1", None, 200, last),
        ("offset=0", None, 200, last),
        (f"offset={last - 2}", None, 200, 2),
        ("offset=-1", str(last - 1), 200, 1),
        ("offset=-1", str(last), 204, 0),
        (f"offset={last}", None, 204, 0),
        ("offset=now", None, 400, "invalid_position"),
        ("offset=-2", None, 400, "invalid_position"),
        ("offset=-1", "x", 400, "invalid_position"),
        ("offset=-1", str(last + 1), 400, "unknown_event"),
    ]
    for query, last_event_id, status, expected in rows:
        headers = {} if last_event_id is None else {"last_event_id": last_event_id}
        answer = await joined(site, f"runId=run-4&{query}", **headers)
        assert answer.status == status, query
        if status == 200:
            assert len(messages_of(await answer.rest())) == expected, query
        elif status == 400:
            assert (await answer.problem())["code"] == expected, query
    for last_event_id, status in ((str(last), 204), ("-1", 400), (str(last + 1), 400)):
        again = await site.ask(path("desk"), body("run-4"), last_event_id=last_event_id, **ANN)
        assert again.status == status, last_event_id


async def test_what_is_not_there(site: Any, upstream: Any) -> None:
    provider = provider_of("chat-text-citations")
    await upstream(provider)
    answer = await site.ask(path("desk"), body("run-5"), **ANN)
    await answer.rest()
    visitor = {"authorization": "Bearer visitor"}
    rows: list[tuple[str, dict[str, Any], dict[str, str], int, str]] = [
        ("desk", body("run-0"), ANN, 404, "unknown_stream"),
        ("desk", body("run-5", "thread-2"), ANN, 404, "unknown_stream"),
        ("desk", body("run-5"), BOB, 404, "unknown_stream"),
        ("patient", body("run-5"), ANN, 404, "unknown_stream"),
        ("public", body("run-5"), ANN, 404, "unknown_agent"),
        ("nobody", body("run-5"), ANN, 404, "unknown_agent"),
        ("desk", body("run-5"), {}, 401, "unauthenticated"),
        ("desk", body("run-5"), visitor, 403, "permission_denied"),
        ("desk", {"threadId": "thread-1", "messages": []}, ANN, 422, "invalid_request"),
    ]
    for agent, asked, caller, status, code in rows:
        again = await site.ask(path(agent), asked, last_event_id="1", **caller)
        assert (again.status, (await again.problem())["code"]) == (status, code), asked
        read = await site.get(f"{path(agent)}?offset=-1&runId={asked.get('runId', '')}", **caller)
        is_of_thread = status == 404 and asked["threadId"] == "thread-2"  # which the joining request does not name
        assert read.status == (200 if is_of_thread else status), asked
    assert (await site.get(f"{path('desk')}?offset=-1", **ANN)).status == 422
    assert await deleted(site, answer.headers["location"], **ANN) == 204
    assert (await joined(site, "offset=-1&runId=run-5")).status == 404
    assert len(provider.peers) == 1


async def test_an_agent_that_stores_nothing(site: Any, upstream: Any) -> None:
    provider = provider_of("chat-text-citations")
    await upstream(provider)
    answer = await site.ask(path("forgetful"), body("run-6"), **ANN)
    assert b"id: " not in await answer.rest(), "a client that sees IDs would ask for the rest"
    again = await site.ask(path("forgetful"), body("run-6"), last_event_id="1", **ANN)
    assert (again.status, (await again.problem())["code"]) == (404, "unknown_stream")
    assert len(provider.peers) == 1


@pytest.mark.parametrize("run_id", ["caf\u00e9", "a\r\nb"])
async def test_the_id_of_a_run_that_no_header_can_have(site: Any, upstream: Any, run_id: str) -> None:
    await upstream(provider_of("chat-text-citations"))
    answer = await site.ask(path("desk"), body(run_id), **ANN)
    await answer.rest()
    assert "x-run-id" not in answer.headers


async def test_events_that_are_gone(serve: Any, upstream: Any, upstream_port: int, text_events: Any) -> None:
    delta = next(event for event in text_events if event["type"] == "response.output_text.delta")
    at = text_events.index(delta)
    long = {**delta, "delta": "word " * 100, "sequence_number": None}  # equal deltas of one number would be one
    many = [*text_events[:at], *([long] * 200), *text_events[at + 1 :]]
    await upstream(Provider(many, len(many)))
    upstreams = {"one": {"base_url": f"http://localhost:{upstream_port}/v1"}}
    store = {"max_stream_bytes": 200_000}
    site = serve(api_key=None, base_url=None, upstreams=upstreams, agents={"desk": AGENT}, store=store)
    await (await site.ask(path("desk"), body())).rest()
    again = await site.ask(path("desk"), body(), last_event_id="1")
    assert (again.status, (await again.problem())["code"]) == (410, "events_gone")
