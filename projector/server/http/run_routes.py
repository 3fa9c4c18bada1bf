"""The route of AG-UI runs: start a run, go on with one after an event, and join one by its ID.

`@ag-ui/client` only starts runs. TanStack AI sends a request again with `Last-Event-ID` when its connection was lost,
and `GET ?offset=-1&runId=...` after a reload of the page. Neither asks the provider again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, QueryParams
from starlette.types import ASGIApp, Receive, Scope, Send

from projector.conversation.client_history import InputRefusedError
from projector.dialects.ag_ui.conversation import read_run_input
from projector.server.config.caller_settings import AG_UI
from projector.server.http.problems import problem, unknown_agent_of
from projector.server.http.requests import ClientLeftError, read_json
from projector.server.http.stored_streams import position_of, respond_with_log
from projector.server.http.stream_names import find_named, run_name
from projector.server.streaming.memory import Account
from projector.server.streaming.stored_stream import StoredStream
from projector.store.protocol import StreamStatus

if TYPE_CHECKING:
    from projector.server.http.site import Site

_LAST_EVENT_ID: Final = "Last-Event-ID"
_FROM_START: Final = "-1"
"""`offset` of a client that has no event."""


class RunRoute:
    """An ASGI application that starts runs with another one, and responds with the events of those that exist."""

    dialects = (AG_UI,)

    def __init__(self, agents: Collection[str], start: ASGIApp) -> None:
        self._agents = agents
        self._start = start

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with the events of a run; raise `Problem` if there are none."""
        is_post = scope["method"] == "POST"
        if is_post and not _last_event_id(scope):
            await self._start(scope, receive, send)
            return
        site: Site = scope["app"].state.site
        caller, grant = await site.grant(scope)
        grant.check_route(AG_UI)
        agent = scope["path_params"]["agent"]
        if agent not in self._agents or not grant.allows_agent(agent):
            raise unknown_agent_of(AG_UI)
        after = _position(scope)
        with site.streams.admitted(caller) as account:
            try:
                thread_id, run_id = (
                    await _read_ids(site, scope, receive, account) if is_post else (None, _run_id(scope))
                )
            except ClientLeftError:
                return
            status = await find_named(site, run_name(agent, run_id), caller)
            if status is None or not _is_of_thread(status, thread_id):
                raise problem("unknown_stream")
            await respond_with_log(site, scope, receive, send, status, account, after=after, dialect=AG_UI)


async def _read_ids(site: Site, scope: Scope, receive: Receive, account: Account) -> tuple[str, str]:
    """Return thread and run of a request that is sent again."""
    body = await read_json(scope, receive, site.settings, account)
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


def _is_of_thread(status: StreamStatus, thread_id: str | None) -> bool:
    return thread_id is None or StoredStream.of(status.head).conversation_id == thread_id


def _last_event_id(scope: Scope) -> str:
    return Headers(scope=scope).get(_LAST_EVENT_ID, "").strip()


def _position(scope: Scope) -> int:
    """Return the number of the last event that the client has: `Last-Event-ID`, else `offset`, else 0."""
    if last := _last_event_id(scope):
        return position_of(_LAST_EVENT_ID, last)
    offset = QueryParams(scope["query_string"]).get("offset", _FROM_START)
    return 0 if offset == _FROM_START else position_of("offset", offset)
