"""Clients that leave, reload or stop before the provider has answered: a stream that goes on is found and stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from tests.asgi.conftest import Answer, Peer, Site
from tests.asgi.examples import example
from tests.asgi.test_ag_ui_route import USER
from tests.asgi.test_ai_sdk_route import body as chat_body

EVENTS: Final = [json.loads(line) for line in example("chat-text-citations")[0]]
PATIENCE_S: Final = 60.0
RUNS: Final = "/api/v1/ag-ui/desk"
CHATS: Final = "/api/v1/ai-sdk/desk"
LAST: Final = b"on the shared drive"
Ask = Callable[[Site, str], Awaitable[Answer]]


class Thinking:
    """A provider that sends nothing, not even the head of its response, until a gate is opened."""

    def __init__(self) -> None:
        self.asked = asyncio.Queue[Peer]()
        self.gate = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        self.asked.put_nowait(peer)
        waiting = [asyncio.create_task(one.wait()) for one in (self.gate, peer.gone)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
        await peer.start()
        for event in EVENTS:
            await peer.event(event)
        await peer.end()


def settings_of(upstream_port: int) -> dict[str, Any]:
    dialects = ["public_sse_v1", "ag_ui", "ai_sdk"]
    agent = {"upstream": "one", "model": "m", "dialects": dialects, "on_disconnect": "continue"}
    upstreams = {"one": {"base_url": f"http://localhost:{upstream_port}/v1"}}
    tables = {"upstreams": upstreams, "agents": {"desk": agent}, "retries": {"max": 0}}
    return {"api_key": None, "base_url": None, "heartbeat_s": 300, **tables}


@pytest.fixture
def site(serve: Any, upstream_port: int) -> Site:
    found: Site = serve(**settings_of(upstream_port))
    return found


async def send_message(site: Site, name: str) -> Answer:
    return await site.post(idempotency_key=name)


async def message_again(site: Site, name: str) -> Answer:
    return await site.ask(idempotency_key=name)


async def send_run(site: Site, name: str) -> Answer:
    return await site.post(RUNS, {"threadId": name, "runId": name, "messages": [USER]})


async def run_again(site: Site, name: str) -> Answer:
    return await site.get(f"{RUNS}?runId={name}")


async def send_chat(site: Site, name: str) -> Answer:
    return await site.post(CHATS, {**chat_body(), "id": name})


async def chat_again(site: Site, name: str) -> Answer:
    return await site.get(f"{CHATS}/{name}/stream")


SENT: Final[dict[str, tuple[Ask, Ask]]] = {
    "public_sse_v1": (send_message, message_again),
    "ag_ui": (send_run, run_again),
    "ai_sdk": (send_chat, chat_again),
}
"""Dialect -> how a page sends a request with a name of its own, and how it finds the stream after a reload."""


async def stop(site: Site, dialect: str, name: str) -> None:
    """Stop a stream: that of a chat by its name, any other at the address that the headers of a reader have."""
    if dialect == "ai_sdk":
        answer = await site.ask(f"{CHATS}/{name}/stop", b"")
    else:
        later = await SENT[dialect][1](site, name)
        answer = await site.ask(f"{later.headers['location']}/cancel", b"")
    assert answer.status == 204


@pytest.mark.parametrize("has_left", [False, True])
@pytest.mark.parametrize("dialect", SENT)
async def test_stop(site: Site, upstream: Any, dialect: str, has_left: bool) -> None:  # noqa: FBT001 - a row
    provider, name = Thinking(), f"stop-{has_left}"
    await upstream(provider)
    answer = await SENT[dialect][0](site, name)
    peer = await asyncio.wait_for(provider.asked.get(), PATIENCE_S)
    if has_left:
        await answer.closed()
    await stop(site, dialect, name)
    await asyncio.wait_for(peer.gone.wait(), PATIENCE_S)
    assert await site.is_quiet()


@pytest.mark.parametrize("dialect", SENT)
async def test_reload(site: Site, upstream: Any, dialect: str) -> None:
    provider = Thinking()
    await upstream(provider)
    send, again = SENT[dialect]
    answer = await send(site, "reload")
    await asyncio.wait_for(provider.asked.get(), PATIENCE_S)
    await answer.closed()
    later = await again(site, "reload")
    assert (later.status, later.headers["x-stream-id"][:7]) == (200, "stream_")
    provider.gate.set()
    assert LAST in await later.rest()
    assert provider.asked.empty(), "the provider is asked once"


@pytest.mark.parametrize("dialect", SENT)
async def test_stop_at_another_server(
    serve: Any, upstream: Any, upstream_port: int, redis_server: Any, dialect: str
) -> None:
    store = {"kind": "redis", "url": redis_server.url, "prefix": f"early-{dialect}:"}
    one, other = [serve(**settings_of(upstream_port), store={**store, "retention_s": one_s}) for one_s in (300, 301)]
    provider = Thinking()
    await upstream(provider)
    await SENT[dialect][0](one, "stop")
    peer = await asyncio.wait_for(provider.asked.get(), PATIENCE_S)
    await stop(other, dialect, "stop")
    await asyncio.wait_for(peer.gone.wait(), PATIENCE_S)
    assert await one.is_quiet()


async def test_a_refused_request_has_its_answer(site: Site, upstream: Any) -> None:
    async def refuse(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 429 X\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n")

    await upstream(refuse)
    for _ in range(2):  # the first one has freed the key
        answer = await site.ask(idempotency_key="refused")
        assert (answer.status, answer.headers["retry-after"]) == (429, "7")
    assert await site.is_quiet()
