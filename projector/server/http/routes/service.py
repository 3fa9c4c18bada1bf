"""The routes without a stream: cancelling a stream, probes, metrics, the OpenAPI document."""

from __future__ import annotations

from http import HTTPStatus

from anyio import to_thread
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from projector.core.faults import FAULTS
from projector.server.http.problems import problem, problem_of_fault, request_id
from projector.server.http.routes.stream_route import Site
from projector.server.streaming.registry import Streams


def routes() -> list[Route]:
    """Return the routes of every server."""
    return [
        Route("/api/v1/streams/{stream_id}/cancel", _cancel, methods=["POST"]),
        Route("/openapi.json", _openapi),
        Route("/metrics", _metrics),
        Route("/livez", _alive),
        Route("/healthz", _alive),
        Route("/readyz", _ready),
    ]


async def _alive(_request: Request) -> Response:
    """Respond if the event loop is running. Sends no request to an upstream, which may cost money."""
    return PlainTextResponse("ok\n", headers={"cache-control": "no-store"})


async def _cancel(request: Request) -> Response:
    """Cancel a stream. Idempotent: the client may not know yet that the stream has ended."""
    site: Site = request.app.state.site
    caller = await site.authenticator.caller(request.scope)
    if not site.streams.cancel(request.path_params["stream_id"], caller):
        raise problem("unknown_stream")
    return Response(status_code=HTTPStatus.NO_CONTENT, headers={"x-request-id": request_id(request.scope)})


async def _metrics(request: Request) -> Response:
    """Return the metrics, which contain no IDs and no payload."""
    return Response(request.app.state.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})


async def _openapi(request: Request) -> Response:
    """Return the OpenAPI document. The first call generates it, off the event loop: that takes some 0.1 s."""
    return Response(await to_thread.run_sync(request.app.state.openapi), media_type="application/json")


async def _ready(request: Request) -> Response:
    """Respond if new streams are accepted."""
    streams: Streams = request.app.state.streams
    if streams.is_draining:
        raise problem_of_fault(FAULTS["server_shutdown"])
    return await _alive(request)
