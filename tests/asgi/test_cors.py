"""CORS over real sockets: preflight requests and responses."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from projector.server.config.settings import Settings

PAGE = "https://a.example"
OTHER = "https://b.example"
CHAT = "/api/v1/chat/stream"
ASKED = "authorization, content-type, traceparent, x-request-id"


class CorsResponse:
    """What a browser reads of a response."""

    def __init__(self, text: str) -> None:
        head, _, self.body = text.partition("\r\n\r\n")
        first, *lines = head.strip().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def names(self, header: str) -> set[str]:
        return {name.strip().lower() for name in self.headers.get(header, "").split(",")}


async def preflight(site: Any, path: str, **headers: str) -> CorsResponse:
    """Send a preflight request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([f"OPTIONS {path} HTTP/1.1", "host: test", "connection: close", *lines, "", ""]).encode())
    told = CorsResponse((await reader.read()).decode())
    writer.close()
    return told


def asking(origin: str, method: str = "POST", headers: str = ASKED) -> dict[str, str]:
    return {"origin": origin, "access_control_request_method": method, "access_control_request_headers": headers}


@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/api/v1/streams/stream_1/cancel"])
async def test_a_configured_origin_is_allowed(serve: Any, path: str) -> None:
    told = await preflight(serve(cors_origins=[PAGE]), path, **asking(PAGE))
    assert told.status == 200
    assert told.headers["access-control-allow-origin"] == PAGE
    assert "POST" in told.headers["access-control-allow-methods"]
    assert {name.strip() for name in ASKED.split(",")} <= told.names("access-control-allow-headers")
    assert "origin" in told.names("vary")  # a shared cache must not send one page the response to another


@pytest.mark.parametrize(
    ("origins", "headers"),
    [
        pytest.param([PAGE], asking(OTHER), id="another-page"),
        pytest.param([PAGE], asking("null"), id="a-page-of-no-origin"),
        pytest.param([PAGE], asking(f"{PAGE}.evil.example"), id="a-page-whose-origin-begins-alike"),
        pytest.param([PAGE], asking(PAGE.replace("https", "http")), id="the-same-host-by-http"),
        pytest.param([PAGE], asking(PAGE.upper()), id="another-spelling"),
        pytest.param([], asking(PAGE), id="off"),
    ],
)
async def test_other_origins_are_not_allowed(serve: Any, origins: list[str], headers: dict[str, str]) -> None:
    told = await preflight(serve(cors_origins=origins), CHAT, **headers)
    assert (told.status, json.loads(told.body)["code"]) == (400, "cors_not_allowed")
    assert "access-control-allow-origin" not in told.headers


@pytest.mark.parametrize("headers", [asking(PAGE, method="PUT"), asking(PAGE, headers="x-forwarded-for")])
async def test_other_methods_and_headers_are_not_allowed(serve: Any, headers: dict[str, str]) -> None:
    assert (await preflight(serve(cors_origins=[PAGE]), CHAT, **headers)).status == 400


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        (asking(OTHER), "The origin of the page is not one of `PROJECTOR_CORS_ORIGINS`."),
        (
            asking(PAGE, method="PUT"),
            "The method or a header is not allowed for pages of other origins.",
        ),
    ],
)
async def test_a_refusal_is_an_error_response_with_a_code(serve: Any, headers: dict[str, str], detail: str) -> None:
    with capture_logs() as logs:
        site = serve(cors_origins=[PAGE])
        told = await preflight(site, CHAT, **headers)
        of_openai = await preflight(site, "/v1/responses", **headers)
        await site.is_quiet()
    assert (told.status, told.headers["content-type"]) == (400, "application/problem+json")
    problem = json.loads(told.body)
    assert (problem["code"], problem["detail"]) == ("cors_not_allowed", detail)
    assert (of_openai.status, json.loads(of_openai.body)["error"]["code"]) == (400, "cors_not_allowed")
    assert [line["code"] for line in logs if line["event"] == "request"] == ["cors_not_allowed"] * 2


async def test_credentials_are_not_allowed(serve: Any) -> None:
    """Callers authenticate with a key or token, so cookies are not allowed, and `*` is never sent."""
    site = serve(cors_origins=[PAGE, OTHER])
    told = await preflight(site, CHAT, **asking(PAGE))
    answer = await site.ask(f"{CHAT}?dialect=none", origin=PAGE, cookie="session=1")
    for headers in (told.headers, answer.headers):
        assert headers["access-control-allow-origin"] == PAGE
        assert "access-control-allow-credentials" not in headers


async def test_a_page_can_read_the_exposed_headers(serve: Any) -> None:
    """Of problem documents as well: otherwise a page could not report why there is no stream."""
    answer = await serve(cors_origins=[PAGE]).ask(f"{CHAT}?dialect=none", origin=PAGE)
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (422, PAGE)
    exposed = answer.headers["access-control-expose-headers"].split(", ")
    assert {"x-stream-id", "x-request-id", "retry-after"} <= set(exposed)


async def test_a_page_of_another_origin_cannot_read_responses(serve: Any) -> None:
    answer = await serve(cors_origins=[PAGE]).ask(f"{CHAT}?dialect=none", origin=OTHER)
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origins", [["*"], ["https://*.example"], ["https://a.example/path"], ["a.example"]])
def test_an_origin_must_be_complete(origins: list[str]) -> None:
    with pytest.raises(ValueError, match="cors_origins"):
        Settings.model_validate({"cors_origins": origins})
