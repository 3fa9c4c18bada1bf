"""The demo page: its files, and what the built-in provider sends, so that a person sees both sides of a stream.

The files are built from `clients/typescript/demo`. The page loads nothing else, and its policy forbids anything else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from projector.contracts import codec
from projector.providers import DEFAULT_PROVIDER
from projector.server.catalog import Catalog
from projector.server.http.problems import problem
from projector.server.upstream.demo import DemoUpstream
from projector.server.upstream.protocol import ProviderRequest

FILES: Final = Path(__file__).parent.parent / "demo_page"
TYPES: Final = {
    "index.html": "text/html; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
}
"""File of the page -> media type."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy: own files, requests to this server, images in data URLs."""
HEADERS: Final = {
    "content-security-policy": POLICY,
    "cache-control": "no-cache",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
INPUT_MAX_CHARS: Final = 20_000
"""Longest `input` of the built-in provider. The page sends at most 2,000 characters, which may be escaped."""


def demo_routes(catalog: Catalog) -> list[Route]:
    """Return the routes of the page, with the provider's side if the provider is the built-in one."""
    routes = [Route("/", _index, include_in_schema=False), Route("/demo/{file}", _file, include_in_schema=False)]
    for agent in catalog.agents.values():
        upstream = agent.targets.targets[0].provider.upstream
        if isinstance(upstream, DemoUpstream):
            return [Route("/demo/provider", ProviderSide(upstream).play, include_in_schema=False), *routes]
    return routes


class ProviderSide:
    """What the built-in provider sends for an input. Its streams are recordings, so they are no secret."""

    def __init__(self, upstream: DemoUpstream) -> None:
        self._upstream = upstream

    async def play(self, request: Request) -> Response:
        """Respond with the provider's bytes for the JSON in `?input=`, as they would arrive at the server."""
        given = request.query_params.get("input", '""')
        if len(given) > INPUT_MAX_CHARS:
            raise problem("invalid_request", "`input` is too long.", param="input")
        value: object = None
        with suppress(ValueError):
            value = codec.loads(given.encode())
        if not isinstance(value, str | list):
            raise problem("invalid_request", "`input` must be a JSON string or a list.", param="input")
        headers = {**HEADERS, "x-accel-buffering": "no"}
        return StreamingResponse(self._chunks(value), headers=headers, media_type="text/event-stream")

    async def _chunks(self, given: str | list[object]) -> AsyncIterator[bytes]:
        async with self._upstream.open(ProviderRequest(DEFAULT_PROVIDER, {"input": given})) as chunks:
            async for chunk in chunks:
                yield chunk


async def _index(_request: Request) -> Response:
    return _response("index.html")


async def _file(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in TYPES:
        raise problem("not_found")
    return _response(name)


def _response(name: str) -> Response:
    return FileResponse(FILES / name, headers={**HEADERS, "content-type": TYPES[name]})
