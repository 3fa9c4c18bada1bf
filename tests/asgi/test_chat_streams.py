"""The running stream of a chat of the AI SDK: read again after a reload, stopped, and nobody else's."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests.asgi.callers import keys
from tests.asgi.examples import example
from tests.asgi.test_ai_sdk_route import ANN, AUTH, BOB, body, path
from tests.asgi.test_resume import Provider, until

EVENTS: Final = [json.loads(line) for line in example("chat-text-citations")[0]]
ENDED_S: Final = 60.0


@pytest.fixture
def site(serve: Any, upstream_port: int) -> Any:
    upstreams = {"one": {"base_url": f"http://localhost:{upstream_port}/v1"}}
    agent = {"upstream": "one", "model": "m", "dialects": ["ai_sdk"], "on_disconnect": "continue"}
    agents = {"desk": agent, "other": agent, "once": agent | {"rate_limits": {"requests_per_day": 1}}}
    return serve(api_key=None, base_url=None, auth=AUTH, upstreams=upstreams, agents=agents)


async def status_of(site: Any, chat: str = "chat-1", agent: str = "desk", caller: Any = ANN) -> int:
    answer = await site.get(f"{path(agent)}/{chat}/stream", **caller)
    answer.leave()
    return int(answer.status)


async def test_a_reload_reads_the_stream_from_its_start(site: Any, upstream: Any) -> None:
    provider = Provider(EVENTS, 8)
    await upstream(provider)
    answer = await site.ask(f"{path('desk')}?level=7", body(), **ANN)
    begin = await until(answer, b"text-delta")
    answer.leave()
    again = await site.get(f"{path('desk')}/chat-1/stream", **ANN)
    assert (again.status, again.headers["x-vercel-ai-ui-message-stream"]) == (200, "v1")
    assert again.headers["x-stream-id"] == answer.headers["x-stream-id"]
    assert [await status_of(site, "chat-2"), await status_of(site, agent="other")] == [204, 204]
    assert await status_of(site, caller=BOB) == 204, "a chat of the same name is another one"
    provider.gate.set()
    whole = await again.rest()
    assert whole.startswith(begin)
    assert whole.endswith(b"data: [DONE]\n\n")
    await until_ended(site)
    assert await status_of(site) == 204


@pytest.mark.parametrize("chat", ["user/7", "/7/stream", "a b?c", "a\nb"])
async def test_an_id_of_any_characters(site: Any, upstream: Any, chat: str) -> None:
    provider = Provider(EVENTS, 8)
    await upstream(provider)
    answer = await site.ask(path("desk"), body(id=chat), **ANN)
    await until(answer, b"text-delta")
    assert await status_of(site, quote(chat, safe="")) == 200
    assert (await site.ask(f"{path('desk')}/{quote(chat, safe='')}/stop", b"", **ANN)).status == 204
    assert b'{"type":"abort"' in await answer.rest()


async def test_a_chat_without_an_id_is_none(site: Any) -> None:
    assert (await site.ask(f"{path('desk')}//stop", b"", **ANN)).status == 404


async def until_ended(site: Any) -> None:
    """Wait for the end of the log, which the store receives a moment after the readers."""
    async with asyncio.timeout(ENDED_S):
        while await status_of(site) != 204:  # noqa: ASYNC110 - the store has no event for clients
            await asyncio.sleep(0.01)


async def test_the_last_stream_of_a_chat_counts(site: Any, upstream: Any) -> None:
    provider = Provider(EVENTS, 8)
    await upstream(provider)
    answers = [await site.ask(path("desk"), body(), **ANN) for _ in range(2)]
    for answer in answers:
        await until(answer, b"text-delta")
    again = await site.get(f"{path('desk')}/chat-1/stream", **ANN)
    assert again.headers["x-stream-id"] == answers[1].headers["x-stream-id"]
    provider.gate.set()


async def test_stop(site: Any, upstream: Any) -> None:
    provider = Provider(EVENTS, 8)
    await upstream(provider)
    answer = await site.ask(path("desk"), body(), **ANN)
    await until(answer, b"text-delta")
    stop = f"{path('desk')}/chat-1/stop"
    assert (await site.ask(stop, b"", **BOB)).status == 204
    assert (await site.ask(stop, b"", **ANN)).status == 204
    assert b'{"type":"abort"' in await answer.rest()
    assert (await site.ask(stop, b"", **ANN)).status == 204


async def test_a_refused_request_does_not_take_the_place_of_the_stream_that_runs(site: Any, upstream: Any) -> None:
    await upstream(Provider(EVENTS, 8))
    answer = await site.ask(path("once"), body(), **ANN)
    await until(answer, b"text-delta")
    assert (await site.ask(path("once"), body(), **ANN)).status == 429
    assert await status_of(site, agent="once") == 200
    assert (await site.ask(f"{path('once')}/chat-1/stop", b"", **ANN)).status == 204
    assert b'{"type":"abort"' in await answer.rest()


async def test_who_may_ask(site: Any, serve: Any, upstream_port: int) -> None:
    for ending in ("stream", "stop"):
        ask = site.get if ending == "stream" else site.ask
        assert (await ask(f"{path('nobody')}/chat-1/{ending}", **ANN)).status == 404
        assert (await ask(f"{path('desk')}/chat-1/{ending}")).status == 401
    agent = {"upstream": "one", "model": "m", "dialects": ["ai_sdk"]}
    upstreams = {"one": {"base_url": f"http://localhost:{upstream_port}/v1"}}
    limited = serve(
        api_key=None,
        base_url=None,
        auth={"api_keys": keys("ann")},
        callers={"default": {"routes": ["chat"]}},
        upstreams=upstreams,
        agents={"desk": agent},
    )
    assert (await limited.get(f"{path('desk')}/chat-1/stream", **ANN)).status == 403
