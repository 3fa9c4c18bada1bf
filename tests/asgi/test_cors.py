"""Pages of other origins: what a browser is told before and with a request, over real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from projector.server.config.settings import Settings

pytestmark = pytest.mark.timeout(15)

PAGE = "https://a.example"
OTHER = "https://b.example"
CHAT = "/api/v1/chat/stream"
ASKED = "authorization, content-type, traceparent, x-request-id"


class Told:
    """What a browser reads of an answer."""

    def __init__(self, head: str) -> None:
        first, *lines = head.strip().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def names(self, header: str) -> set[str]:
        return {name.strip().lower() for name in self.headers.get(header, "").split(",")}


async def preflight(site: Any, path: str, **headers: str) -> Told:
    """Ask as a browser does before it sends a page's request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([f"OPTIONS {path} HTTP/1.1", "host: test", "connection: close", *lines, "", ""]).encode())
    told = Told((await reader.readuntil(b"\r\n\r\n")).decode())
    writer.close()
    return told


def asks(origin: str, method: str = "POST", headers: str = ASKED) -> dict[str, str]:
    return {"origin": origin, "access_control_request_method": method, "access_control_request_headers": headers}


@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/api/v1/streams/stream_1/cancel"])
async def test_a_page_that_is_named_may_ask(serve: Any, path: str) -> None:
    told = await preflight(serve(cors_origins=[PAGE]), path, **asks(PAGE))
    assert told.status == 200
    assert told.headers["access-control-allow-origin"] == PAGE
    assert "POST" in told.headers["access-control-allow-methods"]
    assert {name.strip() for name in ASKED.split(",")} <= told.names("access-control-allow-headers")
    assert "origin" in told.names("vary")  # a cache between must not give one page the answer of another


@pytest.mark.parametrize(
    ("origins", "headers"),
    [
        pytest.param([PAGE], asks(OTHER), id="another-page"),
        pytest.param([PAGE], asks("null"), id="a-page-of-no-origin"),
        pytest.param([PAGE], asks(f"{PAGE}.evil.example"), id="a-page-whose-origin-begins-alike"),
        pytest.param([PAGE], asks(PAGE.replace("https", "http")), id="the-same-host-by-http"),
        pytest.param([PAGE], asks(PAGE.upper()), id="another-spelling"),
        pytest.param([], asks(PAGE), id="off"),
    ],
)
async def test_no_other_page_may(serve: Any, origins: list[str], headers: dict[str, str]) -> None:
    told = await preflight(serve(cors_origins=origins), CHAT, **headers)
    assert told.status in {400, 405}
    assert "access-control-allow-origin" not in told.headers


@pytest.mark.parametrize("headers", [asks(PAGE, method="DELETE"), asks(PAGE, headers="x-forwarded-for")])
async def test_a_page_may_not_ask_just_anything(serve: Any, headers: dict[str, str]) -> None:
    assert (await preflight(serve(cors_origins=[PAGE]), CHAT, **headers)).status == 400


async def test_cookies_are_nobodys_way_in(serve: Any) -> None:
    """A caller shows a key or token; so no page sends another site's cookies here, and none is answered `*`."""
    site = serve(cors_origins=[PAGE, OTHER])
    told = await preflight(site, CHAT, **asks(PAGE))
    answer = await site.ask(f"{CHAT}?dialect=none", origin=PAGE, cookie="session=1")
    for headers in (told.headers, answer.headers):
        assert headers["access-control-allow-origin"] == PAGE
        assert "access-control-allow-credentials" not in headers


async def test_a_page_reads_what_it_needs_of_an_answer(serve: Any) -> None:
    """A problem document too: a page that may not read it cannot tell why it got no stream."""
    answer = await serve(cors_origins=[PAGE]).ask(f"{CHAT}?dialect=none", origin=PAGE)
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (422, PAGE)
    exposed = answer.headers["access-control-expose-headers"].split(", ")
    assert {"x-stream-id", "x-request-id", "retry-after"} <= set(exposed)


async def test_another_page_does_not_read_it(serve: Any) -> None:
    answer = await serve(cors_origins=[PAGE]).ask(f"{CHAT}?dialect=none", origin=OTHER)
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origins", [["*"], ["https://*.example"], ["https://a.example/path"], ["a.example"]])
def test_an_origin_is_named_whole(origins: list[str]) -> None:
    with pytest.raises(ValueError, match="cors_origins"):
        Settings.model_validate({"cors_origins": origins})
