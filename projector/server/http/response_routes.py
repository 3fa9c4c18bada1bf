"""Routes of stored responses, as the SDKs of OpenAI use them: `retrieve`, also as a stream, and `cancel`.

A response is that of the stream in which this server sent it. What a provider stores is not asked for.
"""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from projector.contracts import codec
from projector.server.http.problems import problem, request_id
from projector.server.http.stored_streams import cancel_stored, position_of, read_page, respond_with_log
from projector.server.http.stream_names import find_named, response_name
from projector.server.streaming.stored_stream import StoredStream
from projector.store.protocol import StreamStatus

if TYPE_CHECKING:
    from projector.server.http.site import Site

RESPONSES: Final = "responses"
"""The route and its dialect."""
_FIRST_BYTES: Final = 65_536
"""Bytes of frames that are read for the start of a response: its status and model are among the first."""
_BOOLEANS: Final = {"true": True, "false": False}


def response_routes(names: Collection[str]) -> list[Route]:
    """Return the routes of stored responses, if the route that creates them is among these."""
    if RESPONSES not in names:
        return []
    return [
        Route("/v1/responses/{response_id}", _retrieve, methods=["GET"]),
        Route("/v1/responses/{response_id}/cancel", _cancel, methods=["POST"]),
    ]


async def _enter(site: Site, scope: Scope) -> tuple[str, StreamStatus]:
    """Return the caller of a request and the state of its stream; raise `Problem` if there is none."""
    caller, grant = await site.grant(scope)
    grant.check_route(RESPONSES)
    status = await find_named(site, response_name(scope["path_params"]["response_id"]), caller)
    if status is None:
        raise problem("unknown_response")
    return caller, status


class _Retrieve:
    """Responds with a response: its events after `starting_after`, the whole of it, or its state so far."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        site: Site = scope["app"].state.site
        caller, status = await _enter(site, scope)
        query = QueryParams(scope["query_string"])
        given = query.get("stream", "false")
        if given not in _BOOLEANS:
            raise problem("invalid_request", "`stream` must be true or false.", param="stream")
        if not _BOOLEANS[given] and status.seal is None:
            await _json(await _state_of(site, status), scope)(scope, receive, send)
            return
        # the first event has the number 0 here, and 1 in the log
        after = position_of("starting_after", query["starting_after"]) + 1 if "starting_after" in query else 0
        with site.streams.admitted(caller) as account:
            is_json = not _BOOLEANS[given]
            after = 0 if is_json else after
            await respond_with_log(
                site, scope, receive, send, status, account, after=after, dialect=RESPONSES, is_json=is_json
            )


class _Cancel:
    """Cancels a response, and responds with it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        site: Site = scope["app"].state.site
        caller, status = await _enter(site, scope)
        if status.seal is None:
            await cancel_stored(site, status.head.stream_id, caller)
        with site.streams.admitted(caller) as account:
            await respond_with_log(site, scope, receive, send, status, account, dialect=RESPONSES, is_json=True)


_retrieve, _cancel = _Retrieve(), _Cancel()


async def _state_of(site: Site, status: StreamStatus) -> dict[str, Any]:
    """Return a response that has not ended, as its first event shows it: without output."""
    frames = await read_page(site, status.head.stream_id, 0, _FIRST_BYTES)
    replay = StoredStream.of(status.head).replay(RESPONSES, output_format="ndjson")
    lines = replay.feed(codec.loads(frame) for frame in frames).splitlines()
    event: dict[str, Any] = codec.loads(lines[0]) if lines else {}
    if "response" not in event:
        raise problem("unknown_response")
    return {**event["response"], "status": "in_progress"}


def _json(document: dict[str, Any], scope: Scope) -> Response:
    headers = {"cache-control": "no-store", "x-request-id": request_id(scope)}
    return Response(codec.dumps(document), HTTPStatus.OK, headers, media_type="application/json")
