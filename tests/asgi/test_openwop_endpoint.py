"""One path of the OpenWOP host as an ASGI application: internal errors, disconnects, and slow readers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from projector.openwop.host import Endpoint, HostRequest
from projector.openwop.run_log import PIECE_BYTES, LogResponse, RunLog, document, poll, stream
from projector.server.app import create_app
from projector.server.config.settings import Settings
from projector.server.http.stream_route import Site
from projector.server.upstream.demo import DemoUpstream

SCOPE: dict[str, Any] = {
    "type": "http",
    "method": "GET",
    "path": "/",
    "path_params": {},
    "query_string": b"",
    "headers": [(b"content-type", b"application/json")],
    "client": ("127.0.0.1", 1),
    "state": {},
}

Send = Callable[[Any], Awaitable[None]]


@pytest.fixture
def site() -> Site:
    made: Site = create_app(Settings(), lambda *_: DemoUpstream(pace_s=0)).state.site
    return made


def sink(said: list[Any]) -> Send:
    async def send(message: Any) -> None:
        said.append(message)

    return send


async def leave() -> dict[str, Any]:
    return {"type": "http.disconnect"}


async def stay() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def test_an_internal_error_shows_no_details(site: Site) -> None:
    async def crash(_request: HostRequest) -> Any:
        raise KeyError("a secret")

    said: list[Any] = []
    with pytest.raises(KeyError):
        await Endpoint(site, {"GET": crash})(SCOPE, leave, sink(said))
    assert said[0]["status"] == 500
    assert json.loads(said[1]["body"])["error"] == "internal_error"
    assert b"secret" not in said[1]["body"]


async def test_an_internal_error_after_the_head_sends_nothing(site: Site) -> None:
    async def begin(_request: HostRequest) -> Any:
        async def crash(_scope: Any, _receive: Any, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            raise KeyError("a secret")

        return crash

    said: list[Any] = []
    with pytest.raises(KeyError):
        await Endpoint(site, {"GET": begin})(SCOPE, leave, sink(said))
    assert [message["type"] for message in said] == ["http.response.start"]


async def test_a_client_that_disconnects_while_sending_gets_no_response(site: Site) -> None:
    async def read(request: HostRequest) -> Any:
        return await request.document()

    said: list[Any] = []
    await Endpoint(site, {"GET": read})(SCOPE, leave, sink(said))
    assert said == []


def log_of(*texts: str) -> RunLog:
    log = RunLog("run_1", 10_000_000, lambda _: True)
    for text in texts:
        log.emit("unknown.kind", {"text": text})
    return log


def response(pieces: AsyncGenerator[bytes, None]) -> LogResponse:
    return LogResponse([], pieces, client_stall_timeout_s=0.05)


PIECES: list[tuple[str, Callable[[RunLog], AsyncGenerator[bytes, None]]]] = [
    ("document", document),
    ("poll", lambda log: poll(log, -1, 0)),
    ("stream", lambda log: stream(log, {"debug"}, -1, 60)),
]


@pytest.mark.parametrize(("name", "pieces"), PIECES, ids=[row[0] for row in PIECES])
async def test_a_stalled_reader_is_sent_one_piece(name: str, pieces: Callable[[RunLog], Any]) -> None:
    """Otherwise a hundred stalled readers would need the memory of a hundred logs."""
    del name
    given: list[int] = []

    async def send(message: Any) -> None:
        if "body" in message:
            given.append(len(message["body"]))
            await asyncio.Event().wait()

    async with asyncio.timeout(60):
        await response(pieces(log_of(*["x" * 20_000] * 100)))(SCOPE, stay, send)
    assert len(given) == 1
    assert given[0] < 2 * PIECE_BYTES


async def test_a_reader_with_a_broken_connection_is_dropped() -> None:
    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            raise OSError

    async with asyncio.timeout(60):
        await response(stream(log_of("a"), {"debug"}, -1, 60))(SCOPE, stay, send)


async def test_a_disconnect_is_noticed_without_events() -> None:
    said: list[Any] = []
    async with asyncio.timeout(60):
        await response(stream(log_of(), {"debug"}, -1, 60))(SCOPE, leave, sink(said))
    assert len(said) <= 1
