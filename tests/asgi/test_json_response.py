"""`"stream": false` over real sockets: the JSON response to the same request."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest
from openai import APIStatusError, AsyncOpenAI

from projector import Policy, StreamContext, build_pipeline
from tests.json_answers import assemble

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson"
RESPONSES: Final = "/v1/responses"
CHAT: Final = "/v1/chat/completions"
SOON_S: Final = 60.0
"""Limit for a busy machine. `test_leaving` shows that it takes less than a second."""

REQUESTS: Final[dict[str, dict[str, Any]]] = {
    RESPONSES: {"model": "gpt-x", "input": "hi", "stream": False},
    CHAT: {"model": "gpt-x", "messages": [{"role": "user", "content": "hi"}], "stream": False},
}
VOCABULARIES: Final = {RESPONSES: "openai_responses", CHAT: "openai_chat"}
DIALECTS: Final = {RESPONSES: "responses", CHAT: "chat_completions"}
"""Route -> its default dialect."""

CASES: Final = [
    (RESPONSES, "chat-text-citations"),
    (RESPONSES, "chat-reasoning-summary"),
    (RESPONSES, "chat-web-search"),
    (RESPONSES, "chat-refusal"),
    (RESPONSES, "chat-structured-output"),
    (RESPONSES, "chat-incomplete"),
    (RESPONSES, "chat-failed"),
    (RESPONSES, "chat-cancelled"),
    (RESPONSES, "chat-provider-error"),
    (RESPONSES, "chat-truncated"),
    (CHAT, "chat-completions-text"),
    (CHAT, "chat-completions-parallel-tools"),
    (CHAT, "chat-completions-reasoning-content"),
    (CHAT, "chat-completions-length"),
    (CHAT, "chat-completions-error-chunk"),
]
"""Route, and the example that its provider sends."""


def events_of(path: str, name: str) -> list[bytes]:
    lines = (EXAMPLES / VOCABULARIES[path] / f"{name}.ndjson").read_bytes().splitlines()
    return [b"data: " + line + b"\n\n" for line in lines if not line.startswith(b'{"type":"projector.')]


def plays(events: list[bytes]) -> Any:
    async def script(peer: Any) -> None:
        await peer.start()
        for event in events:
            await peer.chunk(event)
        await peer.end()

    return script


def expected(path: str, events: list[bytes], stream_id: str) -> Any:
    """Return the answer assembled from the stream of the same events."""
    pipeline = build_pipeline(
        provider=VOCABULARIES[path],
        dialect=DIALECTS[path],
        context=StreamContext(stream_id=stream_id),
        output_format="ndjson",
        policy=Policy(error_messages="provider"),
    )
    return assemble(
        [*b"".join(map(pipeline.feed, events)).splitlines(), *pipeline.close().splitlines()], DIALECTS[path]
    )


@pytest.mark.parametrize(("path", "name"), CASES)
async def test_the_answer_equals_the_end_of_the_stream(serve: Any, upstream: Any, path: str, name: str) -> None:
    events = events_of(path, name)
    provider = await upstream(plays(events))
    answer = await serve().ask(path, REQUESTS[path])
    whole = expected(path, events, answer.headers["x-stream-id"])
    said = json.loads(await answer.rest())
    assert (answer.status, answer.headers["content-type"]) == (whole.status, "application/json")
    assert answer.headers["cache-control"] == "no-store"
    without_time = {"created_at": 0, "completed_at": 0}  # without a time from the provider, the time of the stream
    assert {**said, **without_time} == {**whole.body, **without_time}
    usage = {"stream_options": {"include_usage": True}} if path == CHAT else {}
    assert (await provider.peers.get()).body == REQUESTS[path] | {"stream": True} | usage


async def test_the_openai_client_reads_json_and_streams(serve: Any, upstream: Any) -> None:
    await upstream(plays(events_of(RESPONSES, "chat-text-citations")))
    base_url = f"http://127.0.0.1:{serve().port}/v1"
    async with AsyncOpenAI(api_key="none", base_url=base_url, max_retries=0) as client:
        response = await client.responses.create(model="gpt-x", input="hi", stream=False)
        assert (response.status, response.output[-1].type) == ("completed", "message")
        unsaid = await client.responses.create(model="gpt-x", input="hi")
        assert unsaid.output_text == response.output_text
        stream = await client.responses.create(model="gpt-x", input="hi", stream=True)
        events = [event async for event in stream]
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == response.output_text != ""
    assert events[-1].response.usage == response.usage


@pytest.mark.node
async def test_the_ai_sdk_reads_json_and_streams(serve: Any, upstream: Any, node_modules: Path) -> None:
    await upstream(plays(events_of(RESPONSES, "chat-text-citations")))
    url = f"http://127.0.0.1:{serve().port}/v1/responses?dialect=openresponses"
    command = ("node", "openresponses-route.mjs", url)
    node = await asyncio.create_subprocess_exec(*command, cwd=node_modules, stdout=asyncio.subprocess.PIPE)
    said, _ = await node.communicate()
    reports = json.loads(said)
    assert reports["whole"] == reports["stream"]
    assert reports["whole"]["text"]
    assert reports["refused"] == 400


@pytest.mark.parametrize(
    ("code", "status"), [("rate_limit_exceeded", 429), ("server_error", 500), ("invalid_prompt", 400)]
)
async def test_the_openai_client_raises_the_providers_error(serve: Any, upstream: Any, code: str, status: int) -> None:
    error = {"type": "error", "code": code, "message": "No.", "param": None, "sequence_number": 1}
    await upstream(plays([b"data: " + json.dumps(error).encode() + b"\n\n"]))
    base_url = f"http://127.0.0.1:{serve().port}/v1"
    async with AsyncOpenAI(api_key="none", base_url=base_url, max_retries=0) as client:
        with pytest.raises(APIStatusError) as raised:
            await client.responses.create(model="gpt-x", input="hi", stream=False)
    assert (raised.value.status_code, raised.value.code) == (status, code)


@pytest.mark.parametrize(("reasoning", "parts"), [("full", 1), ("summary", 0)])
async def test_reasoning_precedes_the_message(
    serve: Any, upstream: Any, upstream_port: int, reasoning: str, parts: int
) -> None:
    """User story 2 of seed 003; the text is shown if the policy allows it (CONTRACT D36)."""
    await upstream(plays(events_of(CHAT, "chat-completions-reasoning-content")))
    site = serve(
        api_key=None,
        base_url=None,
        upstreams={"local": {"api": "openai_chat", "base_url": f"http://localhost:{upstream_port}/v1"}},
        passthrough={"chat_completions": "local", "policy": {"reasoning": reasoning}},
    )
    response = json.loads(await (await site.ask(f"{CHAT}?dialect=responses", REQUESTS[CHAT])).rest())
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
    assert len(response["output"][0].get("content", [])) == parts


async def test_a_large_answer_is_complete_and_its_memory_released(serve: Any, upstream: Any) -> None:
    text = "a fjord " * 1000
    delta = {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0, "delta": text}
    end = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}
    events = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in [*[delta] * 100, end]]
    await upstream(plays(events))
    site = serve()
    answer = await site.ask(RESPONSES, REQUESTS[RESPONSES])
    response = json.loads(await answer.rest())
    assert response["output"][0]["content"][0]["text"] == text * 100
    assert await site.is_quiet(), "the memory is released"


# which dialect


@pytest.mark.parametrize(
    ("passthrough", "query", "status"),
    [
        ({}, "", 200),
        ({}, "?dialect=openresponses", 200),
        ({}, "?dialect=public_sse_v1", 400),
        ({}, "?dialect=ag_ui", 400),
        ({}, "?dialect=none", 400),
        ({"dialects": ["public_sse_v1"]}, "", 400),
        ({"dialects": ["public_sse_v1", "openresponses"]}, "", 200),
    ],
)
async def test_json_needs_a_dialect_with_an_assembler(
    serve: Any, upstream: Any, upstream_port: int, passthrough: dict[str, Any], query: str, status: int
) -> None:
    await upstream(plays(events_of(RESPONSES, "chat-text-citations")))
    upstreams = {"one": {"base_url": f"http://localhost:{upstream_port}/v1"}}
    site = serve(api_key=None, base_url=None, upstreams=upstreams, passthrough={"responses": "one", **passthrough})
    answer = await site.ask(RESPONSES + query, REQUESTS[RESPONSES])
    assert answer.status == status
    if status != 200 and query != "?dialect=none":
        refusal = await answer.openai_error()
        assert (refusal["type"], refusal["code"]) == ("invalid_request_error", "invalid_request")
        assert "has no JSON response" in refusal["message"]
        assert ("Use `POST /v1/responses`" in refusal["message"]) == ("dialects" in passthrough)
        assert ("`openresponses`" in refusal["message"]) == ("dialects" not in passthrough)


@pytest.mark.parametrize(
    ("query", "said", "content_type"),
    [
        ("", {}, "application/json"),
        ("", {"stream": None}, "application/json"),
        ("", {"stream": True}, "text/event-stream; charset=utf-8"),
        ("?dialect=public_sse_v1", {}, "text/event-stream; charset=utf-8"),
        ("?dialect=ag_ui", {}, "text/event-stream; charset=utf-8"),
        ("?dialect=openresponses", {}, "application/json"),
        ("?dialect=openresponses", {"stream": True}, "text/event-stream; charset=utf-8"),
    ],
)
async def test_the_default_of_stream_depends_on_the_dialect(
    serve: Any, upstream: Any, query: str, said: dict[str, Any], content_type: str
) -> None:
    """The APIs of OpenAI and Open Responses answer with JSON by default."""
    await upstream(plays(events_of(RESPONSES, "chat-text-citations")))
    answer = await serve().ask(RESPONSES + query, {"model": "gpt-x", "input": "hi"} | said)
    assert (answer.status, answer.headers["content-type"]) == (200, content_type)


@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize("said", ["false", 0, [], {}])
async def test_stream_must_be_a_boolean(serve: Any, path: str, said: object) -> None:
    answer = await serve().ask(path, REQUESTS[path] | {"stream": said})
    error = await answer.openai_error()
    assert (answer.status, error["message"], error["param"]) == (400, "`stream` must be true or false.", "stream")


# failures and leaving


BEGINNING: Final = events_of(RESPONSES, "chat-text-citations")[:6]


async def falls_silent(peer: Any) -> None:
    await peer.start()
    for event in BEGINNING:
        await peer.chunk(event)
    await peer.gone.wait()


async def breaks_off(peer: Any) -> None:
    await peer.start()
    for event in BEGINNING:
        await peer.chunk(event)
    peer.reset()


async def never_answers(peer: Any) -> None:
    await peer.gone.wait()


async def refuses_late(peer: Any) -> None:
    await asyncio.sleep(0.3)  # several heartbeats would have committed the status
    await peer.send(b"HTTP/1.1 429 Slow Down\r\nretry-after: 7\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")


async def ends_early(peer: Any) -> None:
    await plays(BEGINNING)(peer)


async def sends_nothing(peer: Any) -> None:
    await plays([])(peer)


async def sends_a_page(peer: Any) -> None:
    await plays([b"<html>Bad gateway</html>\n\n"])(peer)


@pytest.mark.parametrize(
    ("script", "timeouts", "status", "code"),
    [
        (falls_silent, {"idle_s": 0.5}, 504, "upstream_timeout_idle"),
        (breaks_off, {}, 502, "upstream_reset"),
        (ends_early, {}, 502, "upstream_truncated"),
        (sends_nothing, {}, 502, "upstream_empty"),
        (sends_a_page, {}, 502, "upstream_malformed"),
        (never_answers, {"first_byte_s": 0.5}, 504, "upstream_timeout_first_byte"),
        (refuses_late, {}, 429, "upstream_http_429"),
    ],
)
async def test_a_failure_at_any_time_is_an_error_response(
    serve: Any, upstream: Any, script: Any, timeouts: dict[str, float], status: int, code: str
) -> None:
    await upstream(script)
    site = serve(heartbeat_s=0.05, timeouts=timeouts, retries={"max": 0})
    answer = await site.ask(RESPONSES, REQUESTS[RESPONSES])
    assert (answer.status, (await answer.openai_error())["code"]) == (status, code)


async def test_a_disconnect_closes_the_upstream(serve: Any, upstream: Any) -> None:
    provider = await upstream(falls_silent)
    answer = await serve().post(RESPONSES, REQUESTS[RESPONSES])
    peer = await provider.peers.get()
    answer.leave()
    await asyncio.wait_for(peer.gone.wait(), SOON_S)


async def test_a_cancelled_stream_returns_the_incomplete_response(serve: Any, upstream: Any) -> None:
    provider = await upstream(falls_silent)
    site = serve()
    answer = await site.post(RESPONSES, REQUESTS[RESPONSES])
    await provider.peers.get()
    [stream_id] = site.streams._running
    assert (await site.ask(f"/api/v1/streams/{stream_id}/cancel", b"")).status == 204
    await answer.read_head()
    response = json.loads(await answer.rest())
    assert (answer.status, response["status"], response["incomplete_details"]) == (200, "cancelled", None)
