"""Gemini behind the server: an array instead of an event stream, and errors with their waits."""

from __future__ import annotations

import json
from typing import Any

from tests.asgi.conftest import SSE_HEAD, Peer


async def refuse(peer: Peer, status: int, error: dict[str, Any]) -> None:
    text = json.dumps([{"error": error}]).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
    await peer.send(head.encode() + text)


def configured(port: int) -> dict[str, Any]:
    upstream = {"api": "gemini", "base_url": f"http://localhost:{port}/v1beta", "api_key": "AIza-test-key-of-nobody"}
    return {
        "api_key": None,
        "base_url": None,
        "upstreams": {"one": upstream},
        "agents": {"default": {"upstream": "one", "model": "m"}},
        "passthrough": {"responses": "one"},
    }


async def test_an_array_is_read_as_it_arrives(serve: Any, upstream: Any, upstream_port: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD.replace(b"text/event-stream", b"application/json"))
        await peer.chunk(b'[{\n "candidates": [{"content": {"parts": [{"text": "Early in the morning, "}]}}]\n}\n')
        await peer.gone.wait()

    await upstream(script)
    site = serve(**configured(upstream_port))
    answer = await site.ask()
    shown = b""
    while b"Early in" not in shown:  # the array has no end
        shown += await answer.chunk()
    answer.leave()


async def test_an_error_asks_for_a_wait(serve: Any, upstream: Any, upstream_port: int) -> None:
    async def script(peer: Peer) -> None:
        info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12.4s"}
        error = {"code": 429, "message": "Quota", "status": "RESOURCE_EXHAUSTED", "details": [info]}
        await refuse(peer, 429, error)

    await upstream(script)
    site = serve(**configured(upstream_port), retries={"max": 0})
    answer = await site.ask("/v1/responses", {"model": "m", "stream": True, "input": "Hi"})
    assert (answer.status, answer.headers.get("retry-after")) == (429, "13")
    assert "resource_exhausted" in (await answer.rest()).decode()
