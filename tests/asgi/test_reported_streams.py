"""Streams that users of other gateways have reported, through the routes of the OpenAI APIs (CONTRACT D47, D48)."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any, Final

import pytest

from tests.unit.test_reported_streams import BEGINNING, CHAT, END, RESPONSES, WHOLE, sse

PATHS: Final = {RESPONSES: "/v1/responses", CHAT: "/v1/chat/completions"}
REQUESTS: Final[dict[str, dict[str, Any]]] = {
    RESPONSES: {"model": "m", "input": "hi"},
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
}
BOTH: Final = pytest.mark.parametrize("api", [RESPONSES, CHAT])


def sends(body: bytes, *headers: str) -> Any:
    async def script(peer: Any) -> None:
        head = ["HTTP/1.1 200 OK", f"content-length: {len(body)}", *headers]
        await peer.send("\r\n".join(head).encode() + b"\r\n\r\n")
        for at in range(0, len(body), 500):
            await peer.send(body[at : at + 500])

    return script


async def asked(serve: Any, api: str, *, stream: bool = False, **members: Any) -> tuple[int, Any]:
    """Return status and answer: a document, or the list of the events of a stream."""
    answer = await serve(retries={"max": 0}).ask(PATHS[api], {**REQUESTS[api], "stream": stream, **members})
    said = await answer.rest()
    if answer.headers["content-type"].startswith("application/json"):
        return answer.status, json.loads(said)
    lines = [line.removeprefix(b"data: ") for line in said.splitlines() if line.startswith(b"data: ")]
    return answer.status, [json.loads(line) for line in lines if line != b"[DONE]"]


def text_of(api: str, answer: Any) -> str:
    """Return the text of a document, or of a stream."""
    if api == RESPONSES:
        response = answer[-1]["response"] if isinstance(answer, list) else answer
        return "".join(part["text"] for item in response["output"] for part in item["content"])
    if isinstance(answer, list):
        choices = [choice for chunk in answer for choice in chunk["choices"]]
        return "".join(choice["delta"].get("content") or "" for choice in choices)
    return str(answer["choices"][0]["message"]["content"])


def compressed(data: bytes) -> bytes:
    """Return the bytes as two members of gzip."""
    return gzip.compress(data[:9]) + gzip.compress(data[9:])


BODIES: Final = {
    "comments": lambda api: (sse(": keepalive", *BEGINNING[api], ": keepalive", *END[api]), ()),
    "a document": lambda api: (json.dumps(WHOLE[api]).encode(), ("content-type: application/json",)),
    "a document of lines": lambda api: (json.dumps(WHOLE[api], indent=2).encode(), ()),
    "gzip": lambda api: (compressed(sse(*BEGINNING[api], *END[api])), ("content-encoding: gzip",)),
    "deflate": lambda api: (zlib.compress(sse(*BEGINNING[api], *END[api])), ("content-encoding: Deflate",)),
    "a document in gzip": lambda api: (gzip.compress(json.dumps(WHOLE[api]).encode()), ("content-encoding: gzip",)),
}


@BOTH
@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_the_answer_is_read(serve: Any, upstream: Any, api: str, body: Any, *, stream: bool) -> None:
    data, headers = body(api)
    await upstream(sends(data, *headers))
    status, answer = await asked(serve, api, stream=stream)
    assert (status, text_of(api, answer)) == (200, "Hello")


@BOTH
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        ({"error": {"message": "No", "code": "rate_limit_exceeded"}}, 429, "rate_limit_exceeded"),
        ([{"error": {"message": "No", "code": 503}}], 503, "503"),
        ({"base_resp": {"status_code": 1004, "status_msg": "No"}}, 401, "1004"),
        ({"detail": "No"}, 500, "provider_error"),
    ],
)
async def test_d48_an_error_is_the_error_that_it_is(
    serve: Any, upstream: Any, api: str, error: Any, status: int, code: str
) -> None:
    await upstream(sends(json.dumps(error).encode(), "content-type: application/json"))
    said, document = await asked(serve, api)
    assert (document["error"]["code"], document["error"]["message"]) == (code, "No")
    assert said == status


async def test_d48_a_bomb_ends_with_the_limit_of_an_event(serve: Any, upstream: Any) -> None:
    await upstream(sends(gzip.compress(b"data: " + bytes(60_000_000)), "content-encoding: gzip"))
    status, document = await asked(serve, RESPONSES)
    assert (status, document["error"]["code"]) == (502, "upstream_event_too_large")


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(b"data: {}", mtime=0)[:-12]], ids=["no gzip", "cut"])
async def test_d48_a_body_that_cannot_be_inflated(serve: Any, upstream: Any, body: bytes) -> None:
    await upstream(sends(body, "content-encoding: gzip"))
    status, document = await asked(serve, RESPONSES)
    assert (status, document["error"]["code"]) in {(502, "upstream_malformed"), (502, "upstream_truncated")}


async def test_d48_an_error_response_is_inflated(serve: Any, upstream: Any) -> None:
    async def script(peer: Any) -> None:
        body = gzip.compress(b'{"error":{"message":"No","code":"invalid_value"}}')
        head = f"HTTP/1.1 400 No\r\ncontent-encoding: gzip\r\ncontent-length: {len(body)}\r\n\r\n"
        await peer.send(head.encode() + body)

    await upstream(script)
    status, document = await asked(serve, RESPONSES)
    assert (status, document["error"]["code"], document["error"]["message"]) == (400, "invalid_value", "No")


@pytest.mark.parametrize("count", [2, 2.0, 128])
async def test_d49_several_choices_are_refused(serve: Any, upstream: Any, count: float) -> None:
    provider = await upstream(sends(b""))
    status, document = await asked(serve, CHAT, n=count)
    assert (status, document["error"]["param"], document["error"]["code"]) == (400, "n", "invalid_request")
    assert provider.peers.empty()


@pytest.mark.parametrize("count", [1, None])
async def test_d49_one_choice_is_not(serve: Any, upstream: Any, count: int | None) -> None:
    await upstream(sends(sse(*BEGINNING[CHAT], *END[CHAT])))
    status, document = await asked(serve, CHAT, n=count)
    assert (status, text_of(CHAT, document)) == (200, "Hello")
