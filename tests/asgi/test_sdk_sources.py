"""`PublicSSEResponse` over streams of the real `openai`, `httpx` and `aiohttp` clients, with a provider on loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, get_args

import aiohttp
import httpx2
import pytest
from openai import AsyncOpenAI, OpenAI, Timeout
from openai.lib.streaming.chat import ChatCompletionStreamEvent
from pydantic import BaseModel

from projector import UsageError
from projector.core.faults import FAULTS
from projector.server import Projection, PublicSSEResponse
from projector.server.streaming.host_source import (
    CHUNK_EVENT,
    DERIVED_EVENTS,
    closing_stack,
    read_bytes,
    upstream_error,
)
from projector.server.upstream.protocol import ProviderFailure
from tests.asgi.conftest import Peer
from tests.asgi.in_process import Answer, post

HI: Final[Any] = [{"role": "user", "content": "Hi"}]
MODEL: Final = "gpt-test"


class Verdict(BaseModel):
    is_good: bool


CALLS: Final[dict[str, tuple[str, Callable[[AsyncOpenAI], Any]]]] = {
    "responses.create": (
        "openai_responses",
        lambda client: client.responses.create(model=MODEL, input="Hi", stream=True),
    ),
    "responses.stream": ("openai_responses", lambda client: client.responses.stream(model=MODEL, input="Hi")),
    "chat.create": (
        "openai_chat",
        lambda client: client.chat.completions.create(model=MODEL, messages=HI, stream=True),
    ),
    "chat.stream": ("openai_chat", lambda client: client.chat.completions.stream(model=MODEL, messages=HI)),
}

TEXT: Final = {
    "openai_responses": [
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"type": "message", "id": "msg_1", "status": "in_progress", "role": "assistant", "content": []},
        },
        {
            "type": "response.content_part.added",
            "item_id": "msg_1",
            "output_index": 0,
            "content_index": 0,
            "part": {"type": "output_text", "text": "", "annotations": []},
        },
        *(
            {
                "type": "response.output_text.delta",
                "item_id": "msg_1",
                "output_index": 0,
                "content_index": 0,
                "delta": delta,
            }
            for delta in ("Hel", "lo")
        ),
    ],
    "openai_chat": [
        {
            "id": "chat_1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": MODEL,
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": delta}, "finish_reason": None}],
        }
        for delta in ("Hel", "lo")
    ],
}
MESSAGE: Final = {
    "type": "message",
    "id": "msg_1",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
}
END: Final = {
    "openai_responses": [
        {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": [MESSAGE]}},
    ],
    "openai_chat": [
        {**TEXT["openai_chat"][0], "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {**TEXT["openai_chat"][0], "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    ],
}
ERROR: Final = {"error": {"message": "The engine is overloaded.", "type": "server_error", "code": "overloaded"}}

both_apis = pytest.mark.parametrize("name", CALLS)


@pytest.fixture
async def client(upstream_port: int) -> AsyncIterator[AsyncOpenAI]:
    url = f"http://127.0.0.1:{upstream_port}/v1"
    async with AsyncOpenAI(api_key="sk-test", base_url=url, max_retries=0, timeout=60) as one:
        yield one


def stream(*events: object, ends: bool = True, breaks: bool = False) -> Callable[[Peer], Any]:
    async def script(peer: Peer) -> None:
        await peer.start()
        for number, event in enumerate(events):
            await peer.event({"sequence_number": number, **event})  # type: ignore[dict-item]  # all are mappings
        if breaks:
            return  # the connection is closed in the middle of the response
        if ends:
            await peer.chunk(b"data: [DONE]\n\n")
            await peer.end()
        else:
            await peer.gone.wait()

    return script


def refuse(status: int, **headers: str) -> Callable[[Peer], Any]:
    body = json.dumps({"error": {"message": "No.", "type": "a_type", "code": "a_code", "param": "model"}}).encode()

    async def script(peer: Peer) -> None:
        lines = [f"HTTP/1.1 {status} No", "content-type: application/json", f"content-length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await peer.send("\r\n".join([*lines, "", ""]).encode() + body)
        await peer.gone.wait()

    return script


async def ask(client: AsyncOpenAI, name: str) -> Answer:
    provider, call = CALLS[name]
    return await post(PublicSSEResponse(call(client), Projection(provider=provider)), "/chat")


def last(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200
    assert answer.text.count('"kind":"final"') + answer.text.count('"kind":"error"') == 1
    message: dict[str, Any] = json.loads(answer.text.split("\n\n")[-2].removeprefix("data: "))
    return message


@both_apis
async def test_a_stream_of_the_sdk(client: AsyncOpenAI, upstream: Any, name: str) -> None:
    provider = CALLS[name][0]
    await upstream(stream(*TEXT[provider], *END[provider]))
    final = last(await ask(client, name))["final"]
    assert (final["status"], final["response_text"]) == ("completed", "Hello")


@both_apis
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500, 503])
async def test_a_refused_call(client: AsyncOpenAI, upstream: Any, name: str, status: int) -> None:
    scripted = await upstream(refuse(status, retry_after="7"))
    answer = await ask(client, name)
    problem = json.loads(answer.text)
    assert (answer.status, problem["code"]) == (status if status in {429, 503} else 502, f"upstream_http_{status}")
    assert problem["is_retryable"] is (status in {429, 500, 503})
    assert answer.headers.get("retry-after") == ("7" if status in {429, 503} else None)
    assert answer.headers.get("x-should-retry") == (None if problem["is_retryable"] else "false")
    assert scripted.peers.qsize() == 1


@both_apis
async def test_a_provider_that_is_not_there(client: AsyncOpenAI, name: str) -> None:
    answer = await ask(client, name)
    assert (answer.status, json.loads(answer.text)["code"]) == (502, "upstream_unreachable")


@both_apis
async def test_a_provider_that_does_not_answer(client: AsyncOpenAI, upstream: Any, name: str) -> None:
    async def wait(peer: Peer) -> None:
        await peer.gone.wait()

    await upstream(wait)
    answer = await ask(client.with_options(timeout=Timeout(60, read=0.1)), name)
    assert (answer.status, json.loads(answer.text)["code"]) == (504, "upstream_timeout_first_byte")


@both_apis
async def test_a_connection_that_breaks(client: AsyncOpenAI, upstream: Any, name: str) -> None:
    await upstream(stream(*TEXT[CALLS[name][0]], breaks=True))
    error = last(await ask(client, name))["error"]
    assert (error["code"], error["is_retryable"]) == ("upstream_reset", True)


@both_apis
async def test_a_stream_that_stops(client: AsyncOpenAI, upstream: Any, name: str) -> None:
    await upstream(stream(*TEXT[CALLS[name][0]], ends=False))
    answer = await ask(client.with_options(timeout=Timeout(60, read=1.5)), name)
    assert last(answer)["error"]["code"] == "upstream_timeout_idle"


@both_apis
async def test_an_error_in_the_stream(client: AsyncOpenAI, upstream: Any, name: str) -> None:
    await upstream(stream(*TEXT[CALLS[name][0]], ERROR))
    error = last(await ask(client, name))["error"]
    assert (error["code"], error["source"], error["is_retryable"]) == ("overloaded", "provider", True)


@both_apis
async def test_an_error_before_the_stream(client: AsyncOpenAI, upstream: Any, name: str) -> None:
    await upstream(stream(ERROR))
    answer = await ask(client, name)
    problem = json.loads(answer.text)
    assert (answer.status, problem["code"], problem["is_retryable"]) == (502, "provider_error", True)


@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_an_end_that_the_helper_raises(client: AsyncOpenAI, upstream: Any, finish: str) -> None:
    """With an output type, `chat.completions.stream` raises instead of returning the last chunk."""
    first = TEXT["openai_chat"][0]
    text = {**first, "choices": [{"index": 0, "delta": {"content": '{"is_good": tr'}, "finish_reason": None}]}
    end = {**first, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    await upstream(stream(text, end))
    call = client.chat.completions.stream(model=MODEL, messages=HI, response_format=Verdict)
    terminal = last(await post(PublicSSEResponse(call, Projection(provider="openai_chat")), "/chat"))
    assert terminal["final"]["status"] == "incomplete"
    assert terminal["final"]["response_text"] == '{"is_good": tr'


def test_every_event_of_the_helper_is_a_chunk_or_derived() -> None:
    types = {get_args(event.model_fields["type"].annotation)[0] for event in get_args(ChatCompletionStreamEvent)}
    assert types == {CHUNK_EVENT, *DERIVED_EVENTS}


async def test_snapshots_are_not_encoded(client: AsyncOpenAI, upstream: Any) -> None:
    """The snapshot of the stream helper has the whole text in each event."""
    await upstream(stream(*TEXT["openai_responses"], *END["openai_responses"]))
    async with closing_stack() as stack:
        seen = [data async for data in read_bytes(client.responses.stream(model=MODEL, input="Hi"), stack)]
    assert len(seen) > 5
    assert not any(b"snapshot" in data for data in seen)


async def test_an_awaited_stream(client: AsyncOpenAI, upstream: Any) -> None:
    await upstream(stream(*TEXT["openai_responses"], *END["openai_responses"]))
    source = await client.responses.create(model=MODEL, input="Hi", stream=True)
    assert last(await post(PublicSSEResponse(source), "/chat"))["final"]["response_text"] == "Hello"


def test_a_synchronous_stream_is_rejected() -> None:
    sync = OpenAI(api_key="sk-test", base_url="http://127.0.0.1:9/v1", max_retries=0)
    for source in (sync.responses.stream(model=MODEL, input="Hi"), iter([b"a"])):
        with pytest.raises(UsageError, match="streams of synchronous clients are not supported"):
            PublicSSEResponse(source)  # type: ignore[arg-type]  # the mistake


async def test_an_awaitable_of_something_else() -> None:
    async def call() -> Any:
        return iter([b"a"])

    answer = await post(PublicSSEResponse(call()), "/chat")
    assert (answer.status, json.loads(answer.text)["code"]) == (500, "internal_error")


async def aiohttp_bytes(url: str, seconds: float = 60) -> AsyncIterator[bytes]:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as session,
        session.post(f"{url}/responses", json={}, raise_for_status=True) as response,
    ):
        async for data in response.content.iter_any():
            yield data


async def httpx_bytes(url: str, seconds: float = 60) -> AsyncIterator[bytes]:
    async with (
        httpx2.AsyncClient(timeout=seconds) as session,
        session.stream("POST", f"{url}/v1", json={}) as response,
    ):
        response.raise_for_status()
        async for data in response.aiter_bytes():
            yield data


def test_an_error_response_is_kept_for_the_log() -> None:
    request, headers = httpx2.Request("POST", "http://a.test"), {"retry-after-ms": "1500", "x-should-retry": "true"}
    body = {"error": {"message": "Slow down.", "type": "rate", "code": "slow_down"}}
    error = upstream_error(FAULTS["provider_error"], httpx2.Response(429, headers=headers, json=body, request=request))
    assert error.failure == ProviderFailure(429, "Slow down.", "rate", "slow_down")
    assert (error.retry_after_s, error.should_retry) == (2, True)
    unread = httpx2.Response(500, stream=httpx2.ByteStream(b"a"), request=request)
    assert upstream_error(FAULTS["provider_error"], unread).failure == ProviderFailure(500)
    assert upstream_error(FAULTS["provider_error"]).failure is None


by_hand = pytest.mark.parametrize("source", [aiohttp_bytes, httpx_bytes])


@by_hand
@pytest.mark.parametrize("status", [401, 429])
async def test_a_source_written_by_hand_that_is_refused(
    upstream: Any, upstream_port: int, source: Any, status: int
) -> None:
    await upstream(refuse(status, retry_after="7"))
    answer = await post(PublicSSEResponse(source(f"http://127.0.0.1:{upstream_port}")), "/chat")
    assert (answer.status, json.loads(answer.text)["code"]) == (
        502 if status == 401 else 429,
        f"upstream_http_{status}",
    )
    assert answer.headers.get("retry-after") == (None if status == 401 else "7")


@by_hand
async def test_a_source_written_by_hand_that_breaks(upstream: Any, upstream_port: int, source: Any) -> None:
    await upstream(stream(*TEXT["openai_responses"], breaks=True))
    answer = await post(PublicSSEResponse(source(f"http://127.0.0.1:{upstream_port}")), "/chat")
    assert last(answer)["error"]["code"] == "upstream_reset"


@by_hand
async def test_a_source_written_by_hand_that_stops(upstream: Any, upstream_port: int, source: Any) -> None:
    await upstream(stream(*TEXT["openai_responses"], ends=False))
    answer = await post(PublicSSEResponse(source(f"http://127.0.0.1:{upstream_port}", 1.5)), "/chat")
    assert last(answer)["error"]["code"].startswith("upstream_timeout_")
