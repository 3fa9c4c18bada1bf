"""Routes for the operation of a server: probes, metrics, the OpenAPI document. None of them is authenticated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anyio import to_thread
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from projector.core.faults import FAULTS
from projector.server.http.problems import problem, problem_of_fault
from projector.server.streaming.registry import Streams

_NOT_STORED: Final = {"cache-control": "no-store"}


async def alive(_request: Request) -> Response:
    """Respond if the event loop is running. Sends no request to an upstream, which may cost money."""
    return PlainTextResponse("ok\n", headers=_NOT_STORED)


async def ready(request: Request) -> Response:
    """Respond with 503 while the server drains. Without its store, a server still serves streams."""
    streams: Streams = request.app.state.streams
    if streams.is_draining:
        raise problem_of_fault(FAULTS["server_shutdown"])
    if not request.app.state.logs.is_sound:
        return PlainTextResponse("ok\nstore: unavailable, new streams cannot be resumed\n", headers=_NOT_STORED)
    return await alive(request)


async def metrics(request: Request) -> Response:
    """Return all metrics in the Prometheus text format."""
    return Response(request.app.state.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})


async def openapi(request: Request) -> Response:
    """Return the OpenAPI document. The first call writes it, off the event loop: that takes some 20 ms."""
    return Response(await to_thread.run_sync(request.app.state.openapi), media_type="application/json")


def root_route(paths: Sequence[str], *, has_openapi: bool) -> Route:
    """Return the route of `/` on a server without a page: a 404 that names the paths of streams."""

    async def root(request: Request) -> Response:
        prefix = request.scope.get("root_path", "")
        named = f"streams: POST {', '.join(prefix + path for path in paths)}" if paths else "no stream is configured"
        openapi = f"GET {prefix}/openapi.json describes every route"
        described = openapi if has_openapi else "docs/operations.md lists every route"
        raise problem("not_found", f"There is no page here; {named}; {described}.")

    return Route("/", root, include_in_schema=False)


HEALTH_ROUTES: Final = (Route("/livez", alive), Route("/healthz", alive), Route("/readyz", ready))
"""Routes of every listener."""
INTERNAL_ROUTES: Final = (Route("/openapi.json", openapi), Route("/metrics", metrics))
"""Routes of the admin listener, or, if there is none, of the public one."""
