"""The library parts in a FastAPI app, alone and under a BaseHTTPMiddleware of the host: how streams end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from fastapi.responses import StreamingResponse

from projector.server import ProjectingMiddleware, Projection, PublicSSEResponse
from projector.server.app import create_app
from projector.server.config.settings import Settings
from projector.server.telemetry.stream_stats import Terminal
from tests.asgi import in_process
from tests.waiting import wait_until

TEXT = b'data: {"type":"response.output_text.delta","item_id":"m","output_index":0,"delta":"Rain today"}\n\n'
DONE = b'data: {"type":"response.completed","response":{"id":"r","status":"completed"}}\n\n'


class Host:
    """Observations of a host that uses the library parts."""

    def __init__(self) -> None:
        self.told: list[Terminal] = []
        self.is_source_closed = asyncio.Event()
        self.is_dependency_left = False
        self.projection = Projection(on_terminal=self.told.append)

    async def source(self, *, ends: bool) -> AsyncGenerator[bytes, None]:
        try:
            yield TEXT
            if not ends:
                await asyncio.sleep(60)
            yield DONE
        finally:
            self.is_source_closed.set()

    async def dependency(self) -> AsyncGenerator[str, None]:
        yield "of the host"
        self.is_dependency_left = True


def with_a_response(host: Host) -> FastAPI:
    app = FastAPI()

    @app.post("/chat", response_class=PublicSSEResponse, dependencies=[Depends(host.dependency)])
    async def chat(asked: dict[str, bool]) -> PublicSSEResponse:
        return PublicSSEResponse(host.source(ends=asked["ends"]), host.projection)

    return app


def with_the_middleware(host: Host) -> FastAPI:
    app = FastAPI()
    app.add_middleware(ProjectingMiddleware, projection=host.projection)

    @app.post("/chat", dependencies=[Depends(host.dependency)])
    async def chat(asked: dict[str, bool]) -> StreamingResponse:
        return StreamingResponse(host.source(ends=asked["ends"]), media_type="text/event-stream")

    return app


class Upstream:
    """The host's source as the upstream of a proxy."""

    providers = frozenset({"openai_responses"})
    is_recording = False

    def __init__(self, host: Host) -> None:
        self._host = host

    def open(self, request: Any, /) -> Upstream:
        self._chunks = self._host.source(ends=request.body["input"] == "true")
        return self

    async def __aenter__(self) -> AsyncGenerator[bytes, None]:
        return self._chunks

    async def __aexit__(self, *_: object) -> None:
        await self._chunks.aclose()

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""


def with_the_proxy(host: Host) -> FastAPI:
    host.is_dependency_left = True  # a mounted app has none
    app = FastAPI()
    app.mount("/ai", create_app(Settings(), lambda *_: Upstream(host), on_terminal=host.told.append))
    return app


PATHS = {with_a_response: "/chat", with_the_middleware: "/chat", with_the_proxy: "/ai/api/v1/chat/stream"}


async def passes(request: Any, call_next: Any) -> Any:
    return await call_next(request)


class Client(in_process.Client):
    """A client that posts JSON."""

    def __init__(self, body: object) -> None:
        super().__init__(json.dumps(body).encode())

    async def post(self, app: Any, path: str) -> None:
        headers = [(b"content-type", b"application/json"), (b"host", b"test")]
        self.scope |= {"method": "POST", "path": path, "root_path": "", "scheme": "http", "headers": headers}
        self.scope |= {"client": ("127.0.0.1", 1), "state": {}, "asgi": {"version": "3.0", "spec_version": "2.3"}}
        await self.call(app)


@pytest.fixture(params=[False, True], ids=["alone", "under-base-http"])
def wrap(request: pytest.FixtureRequest) -> Callable[[FastAPI], FastAPI]:
    def wrapped(app: FastAPI) -> FastAPI:
        if request.param:
            app.middleware("http")(passes)
        return app

    return wrapped


def asked(make: Any, *, ends: bool) -> object:
    return {"message": "true" if ends else "false"} if make is with_the_proxy else {"ends": ends}


@pytest.mark.parametrize("make", PATHS)
async def test_a_whole_stream(wrap: Any, make: Any) -> None:
    host, client = Host(), Client(asked(make, ends=True))
    await client.post(wrap(make(host)), PATHS[make])
    assert client.sent[0]["status"] == 200
    assert client.body.count(b'"kind":"final"') == 1
    assert client.sent[-1]["more_body"] is False
    assert [terminal.outcome for terminal in host.told] == ["completed"]
    assert host.is_source_closed.is_set()
    assert host.is_dependency_left


@pytest.mark.parametrize("make", PATHS)
async def test_the_client_leaves(wrap: Any, make: Any) -> None:
    """The source is closed, and the host's hook receives the text so far."""
    host, client = Host(), Client(asked(make, ends=False))
    tasks = asyncio.all_tasks()
    asking = asyncio.create_task(client.post(wrap(make(host)), PATHS[make]))
    await wait_until(lambda: b"message.delta" in client.body)
    client.left.set()
    await asyncio.wait_for(host.is_source_closed.wait(), 60)
    await asyncio.gather(asking, return_exceptions=True)
    [terminal] = host.told
    assert (terminal.outcome, terminal.final["response_text"]) == ("client_left", "Rain today")
    await wait_until(lambda: asyncio.all_tasks() == tasks)  # the log of the stream is written last
    assert host.is_dependency_left


def test_the_route_is_described_as_a_stream() -> None:
    answer = with_a_response(Host()).openapi()["paths"]["/chat"]["post"]["responses"]["200"]
    assert list(answer["content"]) == ["text/event-stream"]
