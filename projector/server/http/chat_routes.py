"""Routes of a chat of the AI SDK besides sending: read the running answer again from its start, and stop it."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from projector.server.config.caller_settings import AI_SDK
from projector.server.http.problems import request_id, unknown_agent_of
from projector.server.http.stored_streams import cancel_stored, respond_with_log
from projector.server.http.stream_names import StreamName, chat_name, find_named

if TYPE_CHECKING:
    from projector.server.http.site import Site


def chat_routes(agents: Collection[str]) -> list[Route]:
    """Return the routes of the chats of these agents; none without agents."""
    if not agents:
        return []
    return [
        Route("/api/v1/ai-sdk/{agent}/{chat_id}/stream", _ChatStream(agents), methods=["GET"]),
        Route("/api/v1/ai-sdk/{agent}/{chat_id}/stop", partial(_stop, agents), methods=["POST"]),
    ]


async def _enter(scope: Scope, agents: Collection[str]) -> tuple[str, StreamName]:
    """Return the caller of a request, and the name of its chat's stream."""
    site: Site = scope["app"].state.site
    caller, grant = await site.grant(scope)
    grant.check_route(AI_SDK)
    agent = scope["path_params"]["agent"]
    if agent not in agents or not grant.allows_agent(agent):
        raise unknown_agent_of(AI_SDK)
    return caller, chat_name(agent, scope["path_params"]["chat_id"])


class _ChatStream:
    """An ASGI application that responds with the running stream of a chat; 204 if there is none.

    A stream whose server has stopped is sent too: no client got its end, and the part of it that one has looks whole.
    """

    dialects = (AI_SDK,)

    def __init__(self, agents: Collection[str]) -> None:
        self._agents = agents

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        site: Site = scope["app"].state.site
        caller, name = await _enter(scope, self._agents)
        with site.streams.admitted(caller) as account:
            status = await find_named(site, name, caller)
            if status is None or (status.seal is not None and not status.seal.reason):
                headers = {"cache-control": "no-store", "x-request-id": request_id(scope)}
                await Response(status_code=HTTPStatus.NO_CONTENT, headers=headers)(scope, receive, send)
                return
            await respond_with_log(site, scope, receive, send, status, account, dialect=AI_SDK)


async def _stop(agents: Collection[str], request: Request) -> Response:
    """Cancel the running stream of a chat. Idempotent: 204 also if there is none."""
    site: Site = request.app.state.site
    caller, name = await _enter(request.scope, agents)
    status = await find_named(site, name, caller)
    if status is not None and status.seal is None:
        await cancel_stored(site, status.head.stream_id, caller)
    return Response(status_code=HTTPStatus.NO_CONTENT, headers={"x-request-id": request_id(request.scope)})
