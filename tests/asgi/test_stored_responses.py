"""`/v1/responses/{id}`: a response is read again after each of its events, in one piece, and cancelled."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import pytest

from tests.asgi.examples import example
from tests.asgi.test_ai_sdk_route import ANN, AUTH, BOB
from tests.asgi.test_resume import Provider, until

RESPONSES: Final = "/v1/responses"
BODY: Final = {"model": "m", "input": "Hi", "stream": True}
EVENTS: Final = [json.loads(line) for line in example("chat-text-citations")[0]]
ENDED_S: Final = 60.0


@pytest.fixture
def site(serve: Any, upstream_port: int) -> Any:
    upstreams = {"one": {"base_url": f"http://localhost:{upstream_port}/v1"}}
    return serve(api_key=None, base_url=None, auth=AUTH, upstreams=upstreams, passthrough={"responses": "one"})


async def begun(site: Any, upstream: Any, until_event: int) -> tuple[Provider, Any, bytes, str]:
    provider = Provider(EVENTS, until_event)
    await upstream(provider)
    answer = await site.ask(RESPONSES, BODY, **ANN)
    begin = await until(answer, b"output_text.delta")
    response_id = json.loads(begin.partition(b"data: ")[2].partition(b"\n")[0])["response"]["id"]
    async with asyncio.timeout(ENDED_S):
        while (await retrieved(site, response_id))[0] == 404:  # noqa: ASYNC110 - the store has no event for clients
            await asyncio.sleep(0.01)
    return provider, answer, begin, response_id


async def retrieved(site: Any, response_id: str, query: str = "", caller: Any = ANN) -> tuple[int, Any]:
    answer = await site.get(f"{RESPONSES}/{response_id}?{query}", **caller)
    return answer.status, json.loads(await answer.rest())


async def test_a_stream_goes_on_after_each_event(site: Any, upstream: Any) -> None:
    provider, answer, begin, response_id = await begun(site, upstream, 8)
    early = await site.get(f"{RESPONSES}/{response_id}?stream=true", **ANN)
    provider.gate.set()
    whole = begin + await answer.rest()
    assert await early.rest() == whole
    messages = [message + b"\n\n" for message in whole.split(b"\n\n") if message]
    for number in range(len(messages) - 1):
        later = await site.get(f"{RESPONSES}/{response_id}?stream=true&starting_after={number}", **ANN)
        assert later.status == 200
        assert await later.rest() == b"".join(messages[number + 1 :])


async def test_a_response_in_one_piece(site: Any, upstream: Any) -> None:
    provider, answer, _, response_id = await begun(site, upstream, 8)
    status, running = await retrieved(site, response_id)
    assert (status, running["id"], running["status"], running["output"]) == (200, response_id, "in_progress", [])
    provider.gate.set()
    last = (await answer.rest()).strip().rpartition(b"data: ")[2]
    async with asyncio.timeout(ENDED_S):
        while running["status"] == "in_progress":
            status, running = await retrieved(site, response_id)
    assert running == json.loads(last)["response"]


async def test_cancel(site: Any, upstream: Any) -> None:
    _, answer, _, response_id = await begun(site, upstream, 8)
    cancelled = await site.ask(f"{RESPONSES}/{response_id}/cancel", b"", **ANN)
    document = json.loads(await cancelled.rest())
    assert (cancelled.status, document["id"], document["object"]) == (200, response_id, "response")
    assert document["status"] not in {"in_progress", "completed"}
    await answer.rest()
    again = await site.ask(f"{RESPONSES}/{response_id}/cancel", b"", **ANN)
    assert json.loads(await again.rest()) == document


async def test_what_is_not_there(site: Any, upstream: Any) -> None:
    provider, _, _, response_id = await begun(site, upstream, 8)
    rows: list[tuple[str, str, Any, int, str, str | None]] = [
        (response_id, "", BOB, 404, "unknown_response", None),
        ("resp_0", "", ANN, 404, "unknown_response", None),
        (response_id, "stream=yes", ANN, 400, "invalid_request", "stream"),
        (response_id, "stream=true&starting_after=x", ANN, 400, "invalid_position", "starting_after"),
        (response_id, "stream=true&starting_after=-1", ANN, 400, "invalid_position", "starting_after"),
        (response_id, "", {}, 401, "invalid_api_key", None),
    ]
    for one, query, caller, status, code, param in rows:
        found, document = await retrieved(site, one, query, caller)
        error = document["error"]
        assert (found, error["code"], error["param"]) == (status, code, param), (query, status)
    provider.gate.set()
