"""One path of the OpenWOP host as an ASGI application: internal errors, disconnects, and slow readers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from projector.openwop import host
from projector.openwop.host import Endpoint, HostRequest, IdempotencyKeys
from projector.openwop.requests import HostError
from projector.openwop.run_log import PIECE_BYTES, RunLog, document, poll, stream
from projector.server.app import create_app
from projector.server.config.settings import Settings
from projector.server.http.problems import ClientLeftError, Problem, respond
from projector.server.http.site import Site
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

    routes = [Route("/", Endpoint(site, {"GET": crash}))]
    app = Starlette(routes=routes, exception_handlers=dict.fromkeys((Problem, Exception), respond))
    said: list[Any] = []
    with pytest.raises(KeyError):
        await app({**SCOPE, "http_version": "1.1"}, leave, sink(said))
    assert said[0]["status"] == 500
    assert json.loads(said[1]["body"])["error"] == "internal_error"
    assert b"secret" not in said[1]["body"]


async def test_a_client_that_disconnects_while_sending_gets_no_response(site: Site) -> None:
    async def answer(*_: object) -> Any:
        raise AssertionError

    said: list[Any] = []
    with pytest.raises(ClientLeftError) as left:
        await Endpoint(site, {"GET": IdempotencyKeys(site).around(answer)})(SCOPE, leave, sink(said))
    response = await respond(Request(SCOPE), left.value)
    await response(SCOPE, leave, sink(said))
    assert said == []


@pytest.mark.parametrize(
    "others", [["another"] * 9, [f"address:2001:db8::{n}" for n in range(1, 10)]], ids=["one caller", "one network"]
)
async def test_keys_of_the_caller_with_the_most_are_dropped_first(
    site: Site, monkeypatch: pytest.MonkeyPatch, others: list[str]
) -> None:
    monkeypatch.setattr(host, "KEYS_MAX", 4)
    answered: list[str] = []

    async def answer(request: HostRequest, _body: object) -> Any:
        answered.append(request.headers["idempotency-key"])
        if answered[-1] == "fails":
            raise HostError("not_found")
        return Response(b"{}")

    handle = IdempotencyKeys(site).around(answer)
    for number in range(9):
        with pytest.raises(HostError):
            await handle(keyed(f"failing{number}", "fails"))  # leaves no key that pushes out another
    answered.clear()
    mine, theirs = [("me", "mine"), ("me", "mine too")], [(caller, f"n{n}") for n, caller in enumerate(others)]
    for caller, name in (*mine, *theirs, *mine, theirs[0]):
        await handle(keyed(caller, name))
    assert answered == ["mine", "mine too", *(f"n{n}" for n in range(9)), "n0"]


async def test_keys_of_answers_with_tokens_are_those_of_the_caller_of_the_run(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "KEYS_MAX", 4)
    answered: list[str] = []

    async def answer(request: HostRequest, _body: object) -> Any:
        answered.append(request.headers["idempotency-key"])
        return Response(b"{}")

    keys = IdempotencyKeys(site)
    by_key, by_token = keys.around(answer), keys.around(answer, lambda _: nullcontext("another"))
    for name in ("mine", "mine too"):
        await by_key(keyed("me", name))
    for n in range(9):
        request = keyed("", f"n{n}")
        request.scope["path"] = f"/v1/interrupts/{n}"
        await by_token(request)
    for name in ("mine", "mine too"):
        await by_key(keyed("me", name))
    assert answered == ["mine", "mine too", *(f"n{n}" for n in range(9))]


async def test_a_request_may_fail_after_its_key_was_dropped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "KEYS_MAX", 1)

    async def answer(request: HostRequest, _body: object) -> Any:
        if request.headers["idempotency-key"] == "first":
            await handle(keyed("me", "second"))
            raise HostError("not_found")
        return Response(b"{}")

    handle = IdempotencyKeys(site).around(answer)
    with pytest.raises(HostError):
        await handle(keyed("me", "first"))


def keyed(caller: str, name: str) -> HostRequest:
    async def body() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}"}

    headers = [*SCOPE["headers"], (b"idempotency-key", name.encode())]
    request = HostRequest({**SCOPE, "headers": headers}, body)
    request.caller = caller
    return request


def log_of(*texts: str) -> RunLog:
    log = RunLog("run_1", 10_000_000, lambda _: True)
    for text in texts:
        log.emit("unknown.kind", {"text": text})
    return log


PIECES: list[tuple[str, Callable[[RunLog], AsyncGenerator[bytes, None]]]] = [
    ("document", document),
    ("poll", lambda log: poll(log, -1, 0)),
    ("stream", lambda log: stream(log, {"debug"}, -1, 60)),
]


@pytest.mark.parametrize(("name", "pieces"), PIECES, ids=[row[0] for row in PIECES])
async def test_a_large_log_is_sent_in_pieces(name: str, pieces: Callable[[RunLog], Any]) -> None:
    """Otherwise a hundred stalled readers would need the memory of a hundred logs."""
    del name
    log = log_of(*["x" * 20_000] * 100)
    log.emit("run.completed", {})
    given = [len(piece) async for piece in pieces(log)]
    assert len(given) > 10
    assert max(given) < 2 * PIECE_BYTES
