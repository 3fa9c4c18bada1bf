"""The routes that answer at once: cancelling a stream, probes, metrics, the description of the server."""

from __future__ import annotations

from http import HTTPStatus

from anyio import to_thread
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from projector.core.faults import FAULTS
from projector.server.http.problems import problem, problem_of_fault
from projector.server.http.routes.stream_route import Site
from projector.server.streaming.registry import Streams


def routes() -> list[Route]:
    """Give the routes of every server."""
    return [
        Route("/api/v1/streams/{stream_id}/cancel", _cancel, methods=["POST"]),
        Route("/openapi.json", _openapi),
        Route("/metrics", _metrics),
        Route("/livez", _alive),
        Route("/healthz", _alive),
        Route("/readyz", _ready),
    ]


async def _alive(_request: Request) -> Response:
    """Say that the loop runs; nothing is asked of an upstream, which may cost money."""
    return PlainTextResponse("ok\n", headers={"cache-control": "no-store"})


async def _cancel(request: Request) -> Response:
    """End a stream; the client may not know yet that it has ended, so asking twice is no mistake."""
    site: Site = request.app.state.site
    caller = await site.authenticator.caller(request.scope)
    if not site.streams.cancel(request.path_params["stream_id"], caller):
        raise problem("unknown_stream")
    return Response(status_code=HTTPStatus.NO_CONTENT, headers={"x-request-id": request.state.request_id})


async def _metrics(request: Request) -> Response:
    """Give the metrics; they hold no ids and nothing of a payload."""
    return Response(request.app.state.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})


async def _openapi(request: Request) -> Response:
    """Return the OpenAPI document. The first call generates it, off the event loop: that takes some 0.1 s."""
    return Response(await to_thread.run_sync(request.app.state.openapi), media_type="application/json")


async def _ready(request: Request) -> Response:
    """Say whether new streams are welcome."""
    streams: Streams = request.app.state.streams
    if streams.is_draining:
        raise problem_of_fault(FAULTS["server_shutdown"])
    return await _alive(request)
