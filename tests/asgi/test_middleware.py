"""`ProjectingMiddleware` around streams that this project has already projected."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route

from projector.server import ProjectingMiddleware, Projection, PublicSSEResponse, Settings, create_app
from projector.server.streaming.host_source import HostUpstream
from projector.server.telemetry.stream_stats import Terminal
from tests.asgi.in_process import ask

EVENTS = (
    {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0, "delta": "a"},
    {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}},
)


async def events() -> AsyncGenerator[object, None]:
    for event in EVENTS:
        yield event


async def chat(_request: Request) -> Response:
    return PublicSSEResponse(events())


async def copied(scope: Any, receive: Any, send: Any) -> None:
    """Respond as an app that passes a copy of the scope on."""
    await PublicSSEResponse(events())(dict(scope), receive, send)


def proxy() -> Starlette:
    return create_app(Settings(store={"kind": "memory"}), lambda *_: HostUpstream(events()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("inner", "path"),
    [
        pytest.param(Starlette(routes=[Route("/chat", chat, methods=["POST"])]), "/chat", id="a-response"),
        pytest.param(copied, "/chat", id="a-copy-of-the-scope"),
        pytest.param(Starlette(routes=[Mount("/ai", proxy())]), "/ai/api/v1/chat/stream", id="the-proxy"),
    ],
)
async def test_a_stream_of_this_project_passes_unchanged(inner: Any, path: str) -> None:
    told: list[Terminal] = []
    answer = await ask(ProjectingMiddleware(inner, Projection(on_terminal=told.append)), path, {"message": "hello"})
    assert '"status":"completed"' in answer.text
    assert (answer.text.count('"kind":"final"'), told) == (1, [])


async def test_a_stored_stream_passes_unchanged() -> None:
    app = ProjectingMiddleware(proxy())
    answer = await ask(app, "/api/v1/chat/stream", {"message": "hello"})
    again = await ask(app, f"/api/v1/streams/{answer.headers['x-stream-id']}/events", None, method="GET")
    assert again.text == answer.text


async def test_a_stream_with_a_foreign_stream_id_is_projected() -> None:
    """The header may be a provider's, which must not be able to turn redaction off."""

    async def relay(_request: Request) -> Response:
        text = b'data: {"type":"response.completed","response":{"id":"r","status":"completed"}}\n\n'
        return StreamingResponse(iter([text]), media_type="text/event-stream", headers={"x-stream-id": "theirs"})

    app = Starlette(routes=[Route("/chat", relay, methods=["POST"])])
    answer = await ask(ProjectingMiddleware(app), "/chat", {})
    assert '"kind":"final"' in answer.text
    assert answer.headers["x-stream-id"] != "theirs"
