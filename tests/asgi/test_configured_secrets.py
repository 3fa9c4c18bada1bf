"""A provider that echoes the server's key: no route shows it, streamed or in one piece (CONTRACT D41)."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

KEY: Final = "mopane-Zq8RtB1nVt5K0aWe"
AGENT: Final = "/api/v1/chat/stream"
RESPONSES: Final = "/v1/responses"
CHAT: Final = "/v1/chat/completions"
BODIES: Final[dict[str, dict[str, Any]]] = {
    RESPONSES: {"model": "m", "input": "hi"},
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
}
ROUTES: Final = [(AGENT, True)] + [(path, is_stream) for path in BODIES for is_stream in (True, False)]


def echoed(peer: Any) -> tuple[str, str]:
    """Return the `Authorization` header of a request in two parts, cut inside the key."""
    value = peer.header(b"authorization").decode()
    assert value == f"Bearer {KEY}"
    return value[:14], value[14:]


def is_chat(peer: Any) -> bool:
    return b"/chat/completions" in peer.head.split(b"\r\n")[0]


async def echoes_in_text(peer: Any) -> None:
    await peer.start()
    parts = ("You sent ", *echoed(peer), ".")
    if is_chat(peer):
        for part in parts:
            await peer.event({"id": f"c-{KEY}", "model": KEY, "choices": [{"index": 0, "delta": {"content": part}}]})
        await peer.event({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    else:
        response = {"id": f"resp_{KEY}", "model": KEY}
        await peer.event({"type": "response.created", "response": {**response, "status": "in_progress"}})
        for part in parts:
            await peer.event({"type": "response.output_text.delta", "output_index": 0, "delta": part})
        await peer.event({"type": "response.completed", "response": {**response, "status": "completed"}})
    await peer.end()


async def echoes_in_an_error(peer: Any) -> None:
    await peer.start()
    error = {"message": f"Incorrect API key provided: {''.join(echoed(peer))}", "type": KEY, "code": KEY}
    await peer.event({"error": error} if is_chat(peer) else {"type": "error", "error": error})
    await peer.end()


async def echoes_in_a_response(peer: Any) -> None:
    echoed(peer)
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}", "code": KEY, "param": KEY}}).encode()
    head = ["HTTP/1.1 401 No", "content-type: application/json", f"content-length: {len(body)}", "connection: close"]
    await peer.send("\r\n".join(head).encode() + b"\r\n\r\n" + body)


@pytest.mark.parametrize(("path", "is_stream"), ROUTES)
@pytest.mark.parametrize("script", [echoes_in_text, echoes_in_an_error, echoes_in_a_response])
async def test_no_route_shows_the_key_of_the_server(
    serve: Any, upstream: Any, upstream_port: int, path: str, script: Any, *, is_stream: bool
) -> None:
    await upstream(script)
    one = {"base_url": f"http://localhost:{upstream_port}/v1", "api_key": KEY}
    site = serve(
        api_key=None,
        base_url=None,
        upstreams={"one": one, "two": {**one, "api": "openai_chat"}},
        agents={"default": {"upstream": "one", "model": "m"}},
        passthrough={"responses": "one", "chat_completions": "two"},
        retries={"max": 0},
    )
    with capture_logs() as logs:
        body = {**BODIES[path], "stream": is_stream} if path in BODIES else None
        answer = await (site.ask() if body is None else site.ask(path, body))
        shown = (await answer.rest()).decode()
        assert await site.is_quiet()
    assert shown
    assert KEY not in shown
    assert not any(piece in shown for piece in (KEY[:12], KEY[-12:]))
    if script is echoes_in_text:
        assert "<redacted>" in shown
    elif path != AGENT:
        assert "Incorrect API key provided: " in shown
    assert KEY not in repr(logs)
    assert KEY not in repr(answer.headers)
