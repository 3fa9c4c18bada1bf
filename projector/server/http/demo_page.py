"""The demo page: its files, and what the built-in provider sent, so that a person sees both sides of a stream.

The files are built from `clients/typescript/demo`. The page loads nothing else, and its policy forbids anything else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from projector.core.sse import encode_sse
from projector.providers import PROVIDERS
from projector.server.catalog import Catalog
from projector.server.http.problems import problem
from projector.server.http.stored_streams import find, position
from projector.server.upstream.demo import DemoUpstream

if TYPE_CHECKING:
    from projector.server.http.site import Site
    from projector.server.streaming.registry import Streams

FILES: Final = Path(__file__).parent.parent / "demo_page"
TYPES: Final = {
    "index.html": "text/html; charset=utf-8",
    "streams.html": "text/html; charset=utf-8",
    "streams.js": "text/javascript; charset=utf-8",
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
TICK_S: Final = 0.03
"""Seconds between two looks at a stream that runs: as often as a screen of 30 Hz is drawn."""


def demo_routes(catalog: Catalog) -> list[Route]:
    """Return the routes of the page, with the provider's side if the provider is the built-in one."""
    upstreams = (agent.targets.targets[0].provider.upstream for agent in catalog.agents.values())
    built_in = next((one for one in upstreams if isinstance(one, DemoUpstream)), None)
    side = None if built_in is None else ProviderSide(built_in)
    agents = {} if side is None else catalog.agents
    topics = {name: [*PROVIDERS[agent.provider.api].demo] for name, agent in agents.items()}
    return [
        Route("/", _index, include_in_schema=False),
        Route("/demo/about", partial(_about, topics=topics), include_in_schema=False),
        *([] if side is None else [Route("/demo/provider/{stream_id}", side.read, include_in_schema=False)]),
        file_route(),
    ]


async def _about(request: Request, *, topics: Mapping[str, Sequence[str]]) -> Response:
    """Respond with the topics of the built-in provider, if it is there, and whether a caller needs a key."""
    site: Site = request.app.state.site
    about = {"has_provider": bool(topics), "needs_key": site.settings.auth.is_on, "topics": topics}
    return JSONResponse(about, headers=HEADERS)


class ProviderSide:
    """What the built-in provider sent. Its streams are recordings, so they are no secret of a provider."""

    def __init__(self, upstream: DemoUpstream) -> None:
        self._upstream = upstream

    async def read(self, request: Request) -> Response:
        """Respond with the events that a stream of the caller was sent, after `?after=`, and with those that follow."""
        site: Site = request.app.state.site
        caller = await site.authenticator.caller(request.scope)
        stream_id = request.path_params["stream_id"]
        await find(site, stream_id, caller)
        headers = {**HEADERS, "x-accel-buffering": "no"}
        return StreamingResponse(
            self._events(site.streams, stream_id, position(request.scope)),
            headers=headers,
            media_type="text/event-stream",
        )

    async def _events(self, streams: Streams, stream_id: str, read: int) -> AsyncIterator[bytes]:
        is_running = True
        while is_running:
            is_running = streams.is_running(stream_id)  # first: nothing is sent to a stream after its end
            for event in self._upstream.sent.get(stream_id, [])[read:]:
                read += 1
                yield encode_sse(event)
            if is_running:
                await anyio.sleep(TICK_S)


async def _index(_request: Request) -> Response:
    return file_response("index.html")


async def _file(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in TYPES:
        raise problem("not_found")
    return file_response(name)


def file_route() -> Route:
    """Return the route of the files of the pages."""
    return Route("/demo/{file}", _file, include_in_schema=False)


def file_response(name: str) -> Response:
    """Respond with a file of the pages."""
    return FileResponse(FILES / name, headers={**HEADERS, "content-type": TYPES[name]})
