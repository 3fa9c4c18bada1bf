"""One path of the OpenWOP host as an ASGI application: internal errors and disconnects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from projector.openwop.host.endpoint import Endpoint, HostRequest
from projector.openwop.host.log_readers import EventStream
from projector.openwop.host.run_log import RunLog
from projector.openwop.host.run_requests import Mode
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


async def test_an_internal_error_shows_no_details(site: Site) -> None:
    async def crash(_call: HostRequest) -> None:
        raise KeyError("a secret")

    said: list[Any] = []
    with pytest.raises(KeyError):
        await Endpoint(site, {"GET": crash})(SCOPE, leave, sink(said))
    assert said[0]["status"] == 500
    assert json.loads(said[1]["body"])["error"] == "internal_error"
    assert b"secret" not in said[1]["body"]


async def test_an_internal_error_after_the_head_sends_nothing(site: Site) -> None:
    async def crash(call: HostRequest) -> None:
        await call.send({"type": "http.response.start", "status": 200, "headers": []})
        raise KeyError("a secret")

    said: list[Any] = []
    with pytest.raises(KeyError):
        await Endpoint(site, {"GET": crash})(SCOPE, leave, sink(said))
    assert [message["type"] for message in said] == ["http.response.start"]


async def test_a_client_that_disconnects_while_sending_gets_no_response(site: Site) -> None:
    async def read(call: HostRequest) -> None:
        await call.body()

    said: list[Any] = []
    await Endpoint(site, {"GET": read})(SCOPE, leave, sink(said))
    assert said == []


def stream(log: RunLog) -> EventStream:
    modes: set[Mode] = {"debug"}
    return EventStream(log, modes, buffer_s=0, last_sequence=-1, heartbeat_s=60, client_stall_timeout_s=0.05)


async def stay() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_stalled_reader_is_disconnected() -> None:
    log = RunLog("run_1", 10_000, lambda _: True)
    log.emit("run.started", {})

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async with asyncio.timeout(60):
        await stream(log)(SCOPE, stay, send)


async def test_a_reader_with_a_broken_connection_is_dropped() -> None:
    log = RunLog("run_1", 10_000, lambda _: True)
    log.emit("run.started", {})

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            raise OSError

    async with asyncio.timeout(60):
        await stream(log)(SCOPE, stay, send)


async def test_a_disconnect_is_noticed_without_events() -> None:
    log = RunLog("run_1", 10_000, lambda _: True)
    said: list[Any] = []
    async with asyncio.timeout(60):
        await stream(log)(SCOPE, leave, sink(said))
    assert len(said) <= 1
