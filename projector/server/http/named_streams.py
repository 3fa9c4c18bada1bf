"""Streams that clients find by names of their own, and the routes that read and stop them by these names.

The ID of a chat (AI SDK), of a run (AG-UI) or of a response (OpenAI) leads to its last stream, at any server of the
store. A name belongs to its caller: what another caller named the same way is another stream. What a provider stores is
not asked for.

`@ag-ui/client` only starts runs. TanStack AI sends a request again with `Last-Event-ID` when its connection was lost,
and `GET ?offset=-1&runId=...` after a reload of the page. Neither asks the provider again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from functools import partial
from typing import Any, Final, NamedTuple

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from projector.contracts import codec
from projector.conversation.client_history import InputRefusedError
from projector.dialects.ag_ui.conversation import read_run_input
from projector.server.config.caller_settings import AG_UI, AI_SDK
from projector.server.http.problems import json_answer, no_content, problem, unknown_agent_of
from projector.server.http.requests import read_json
from projector.server.http.site import Site
from projector.server.http.stored_streams import StreamRoute, cancel_stored, log_response, position_of, read_page
from projector.server.streaming.log_session import StoredStream, written
from projector.store.protocol import StreamStatus


class StreamName(NamedTuple):
    """A name of a stream."""

    kind: str
    """Kind of the value in the store."""
    agent: str
    id: str
    """The client's ID."""

    def key(self, caller: str) -> str:
        """Return the key of the value in the store."""
        return hashlib.sha256(codec.dumps([caller, self.agent, self.id])).hexdigest()


CHAT_STREAM: Final = "chat_stream"
RUN_STREAM: Final = "run_stream"
RESPONSE_STREAM: Final = "response_stream"
"""Kinds of names: of the last stream of a chat, of the last one of a run of AG-UI, of the stream of a response."""


async def find_named(site: Site, name: StreamName, caller: str) -> StreamStatus | None:
    """Return the state of a caller's stream; None if there is none of this name, or it is not kept any more."""
    (stream_id,) = await site.logs.store.get(name.kind, [name.key(caller)])
    status = None if stream_id is None else await site.logs.store.find(stream_id.decode())
    return status if status is not None and status.head.owner == caller else None


class _ChatId(PathConvertor):
    """Characters of any kind, line breaks too; at least one."""

    regex = "(?s:.+)"


register_url_convertor("chat_id", _ChatId())


def chat_routes(agents: Collection[str]) -> list[Route]:
    """Return the routes of the chats of these agents; none without agents."""
    if not agents:
        return []
    return [
        StreamRoute("/api/v1/ai-sdk/{agent}/{chat_id:chat_id}/stream", partial(_chat_stream, agents), (AI_SDK,)),
        Route("/api/v1/ai-sdk/{agent}/{chat_id:chat_id}/stop", partial(_stop, agents), methods=["POST"]),
    ]


async def _enter(scope: Scope, dialect: str, agents: Collection[str]) -> tuple[Site, str, str]:
    """Return the site, the caller of a request and the agent in its path; raise `Problem` if it may not use that."""
    site: Site = scope["app"].state.site
    caller, grant = await site.authenticator.grant(scope)
    grant.check_route(dialect)
    agent: str = scope["path_params"]["agent"]
    if agent not in agents or not grant.allows("agents", agent):
        raise unknown_agent_of(dialect)
    return site, caller, agent


async def _chat_stream(agents: Collection[str], request: Request) -> ASGIApp:
    """Respond with the running stream of a chat; 204 if there is none.

    A stream whose server has stopped is sent too: no client got its end, and the part of it that one has looks whole.
    """
    site, status = await _find_chat(agents, request)
    if status is None or (status.seal is not None and not status.seal.reason):
        return no_content(request.scope)
    return log_response(site, status, dialect=AI_SDK)


async def _stop(agents: Collection[str], request: Request) -> Response:
    """Cancel the running stream of a chat. Idempotent: 204 also if there is none."""
    site, status = await _find_chat(agents, request)
    if status is not None and status.seal is None:
        await cancel_stored(site, status.head.stream_id, status.head.owner)
    return no_content(request.scope)


async def _find_chat(agents: Collection[str], request: Request) -> tuple[Site, StreamStatus | None]:
    site, caller, agent = await _enter(request.scope, AI_SDK, agents)
    return site, await find_named(site, StreamName(CHAT_STREAM, agent, request.path_params["chat_id"]), caller)


_LAST_EVENT_ID: Final = "Last-Event-ID"
_FROM_START: Final = "-1"
"""`offset` of a client that has no event."""


def run_route(path: str, agents: Collection[str], start: ASGIApp) -> Route:
    """Return the route that starts runs with another application, and responds with the events of those that exist."""
    return StreamRoute(path, partial(_run, agents, start), (AG_UI,), ["GET", "POST"])


async def _run(agents: Collection[str], start: ASGIApp, request: Request) -> ASGIApp:
    """Respond with the events of a run; raise `Problem` if there are none."""
    scope, is_post = request.scope, request.method == "POST"
    if is_post and not _last_event_id(scope):
        return start
    site, caller, agent = await _enter(scope, AG_UI, agents)
    after = _position(scope)
    thread_id, run_id = await _read_ids(site, request, caller) if is_post else (None, _run_id(scope))
    status = await find_named(site, StreamName(RUN_STREAM, agent, run_id), caller)
    if status is None or thread_id not in {None, StoredStream.of(status.head).conversation_id}:
        raise problem("unknown_stream")
    return log_response(site, status, after=after, dialect=AG_UI)


async def _read_ids(site: Site, request: Request, caller: str) -> tuple[str, str]:
    """Return thread and run of a request that is sent again."""
    with site.streams.admitted(caller) as account:
        body = await read_json(request.scope, request.receive, site.settings, account)
    try:
        run = read_run_input(body)
    except InputRefusedError as error:
        raise problem("invalid_request", str(error)) from None
    return run.thread_id, run.run_id


def _run_id(scope: Scope) -> str:
    run_id = QueryParams(scope["query_string"]).get("runId")
    if not run_id:
        raise problem("invalid_request", "`runId` is required.", param="runId")
    return run_id


def _last_event_id(scope: Scope) -> str:
    return Headers(scope=scope).get(_LAST_EVENT_ID, "").strip()


def _position(scope: Scope) -> int:
    """Return the number of the last event that the client has: `Last-Event-ID`, else `offset`, else 0."""
    if last := _last_event_id(scope):
        return position_of(_LAST_EVENT_ID, last)
    offset = QueryParams(scope["query_string"]).get("offset", _FROM_START)
    return 0 if offset == _FROM_START else position_of("offset", offset)


RESPONSES: Final = "responses"
"""The route and its dialect."""
_FIRST_BYTES: Final = 65_536
"""Bytes of frames that are read for the start of a response: its status and model are among the first."""


def response_routes(names: Collection[str]) -> list[Route]:
    """Return the routes of stored responses, if the route that creates them is among these."""
    if RESPONSES not in names:
        return []
    return [
        Route("/v1/responses/{response_id}", _retrieve, methods=["GET"]),
        Route("/v1/responses/{response_id}/cancel", _cancel, methods=["POST"]),
    ]


async def _find_response(request: Request) -> tuple[Site, StreamStatus]:
    """Return the site, and the state of the stream of a response; raise `Problem` if the caller has none."""
    site: Site = request.app.state.site
    caller, grant = await site.authenticator.grant(request.scope)
    grant.check_route(RESPONSES)
    status = await find_named(site, StreamName(RESPONSE_STREAM, "", request.path_params["response_id"]), caller)
    if status is None:
        raise problem("unknown_response")
    return site, status


async def _retrieve(request: Request) -> ASGIApp:
    """Respond with a response: its events after `starting_after`, the whole of it, or its state so far."""
    site, status = await _find_response(request)
    query = request.query_params
    given = query.get("stream", "false")
    if given not in {"true", "false"}:
        raise problem("invalid_request", "`stream` must be true or false.", param="stream")
    is_json, after = given == "false", 0
    if is_json and status.seal is None:
        return json_answer(await _state_of(site, status), request.scope)
    if "starting_after" in query:
        after = position_of("starting_after", query["starting_after"]) + 1  # the first event has the number 0 here
    return log_response(site, status, after=0 if is_json else after, dialect=RESPONSES, is_json=is_json)


async def _cancel(request: Request) -> ASGIApp:
    """Cancel a response, and respond with it."""
    site, status = await _find_response(request)
    if status.seal is None:
        await cancel_stored(site, status.head.stream_id, status.head.owner)
    return log_response(site, status, dialect=RESPONSES, is_json=True)


async def _state_of(site: Site, status: StreamStatus) -> dict[str, Any]:
    """Return a response that has not ended, as its first event shows it: without output."""
    frames = await read_page(site, status.head.stream_id, 0, _FIRST_BYTES)
    replay = StoredStream.of(status.head).replay(RESPONSES, output_format="ndjson")
    lines = written(replay, frames).splitlines()
    event: dict[str, Any] = codec.loads(lines[0]) if lines else {}
    if "response" not in event:
        raise problem("unknown_response")
    return {**event["response"], "status": "in_progress"}
