"""Recent streams for people: the page, what the store has of each stream, and recordings of the provider's side.

Nothing here has a value that was withheld: frames are clean, records of the end have no payload, and what a provider
sent is shown as its redacted recording only. Callers see their own streams, operators at the admin listener all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from projector.contracts import codec
from projector.recording import record
from projector.recording.replay import inputs_of
from projector.server.catalog import Catalog
from projector.server.config.config_base import DEFAULT_DIALECT
from projector.server.http.demo_page import HEADERS, file_response, file_route
from projector.server.http.problems import problem
from projector.server.http.stored_streams import find, position, respond_with_log
from projector.server.streaming.stored_stream import StoredStream
from projector.server.upstream.demo import DemoUpstream
from projector.server.upstream.recorder import finder_for, secrets_of
from projector.store.protocol import StoreUnavailableError, StreamStatus

if TYPE_CHECKING:
    from projector.server.http.site import Site

COUNT_MAX: Final = 200
"""Streams of one answer."""
OPERATOR: Final = "admin listener"
"""The caller in whose name operators read streams."""
INTERRUPTED: Final = "interrupted"
RUNNING: Final = "in_progress"
_STREAM_ID: Final = re.compile(r"stream_([0-9a-f]{32})")


class RecentStreams:
    """The routes of the page.

    Args:
        catalog: agents, whose recordings are shown.
        is_for_operators: whether all streams are shown, without authentication.
    """

    def __init__(self, catalog: Catalog, *, is_for_operators: bool) -> None:
        self._catalog = catalog
        self._is_for_operators = is_for_operators

    def routes(self) -> list[Route]:
        """Return the routes, with those of the files on the admin listener, which has no demo page."""
        return [
            Route("/streams", _page, include_in_schema=False),
            Route("/streams/recent", self._recent, include_in_schema=False),
            Route("/streams/{stream_id}/events", _Events(self._owner), methods=["GET"], include_in_schema=False),
            Route("/streams/{stream_id}/provider", self._provider, include_in_schema=False),
            *([file_route()] if self._is_for_operators else []),
        ]

    async def _owner(self, scope: Scope) -> str | None:
        """Return the caller whose streams a request may see; None: all."""
        site: Site = scope["app"].state.site
        return None if self._is_for_operators else await site.authenticator.caller(scope)

    async def _recent(self, request: Request) -> Response:
        """Respond with what the store has of the last streams: those that run, then those that ended last."""
        site: Site = request.app.state.site
        owner = await self._owner(request.scope)
        try:
            found = await site.logs.store.recent(COUNT_MAX, owner)
        except StoreUnavailableError:
            raise problem("store_unavailable") from None
        rows = [_row(status) for status in found]
        shown = [row | {"has_recording": self._recording(site, row) is not None} for row in rows]
        document = {"streams": shown, "has_demo": not self._is_for_operators}
        return Response(codec.dumps(document), media_type="application/json", headers=HEADERS)

    async def _provider(self, request: Request) -> Response:
        """Respond with the redacted recording of what the provider sent, as NDJSON."""
        site: Site = request.app.state.site
        status = await find(site, request.path_params["stream_id"], await self._owner(request.scope))
        read = self._recording(site, _row(status))
        if read is None:
            raise problem("not_found", "There is no recording of this stream.")
        return Response(await to_thread.run_sync(read), media_type="application/x-ndjson", headers=HEADERS)

    def _recording(self, site: Site, row: Mapping[str, Any]) -> Callable[[], bytes] | None:
        """Return what reads the recording of a stream; None if there is none, or the stream has not ended."""
        stream_id, name = row["stream_id"], row.get("agent", "")
        agent, match = self._catalog.agents.get(name), _STREAM_ID.fullmatch(stream_id)
        if agent is None or match is None or row["outcome"] == RUNNING:
            return None
        provider, settings = agent.provider, agent.settings
        if isinstance(provider.upstream, DemoUpstream) and (sent := provider.upstream.sent.get(stream_id)):
            finder = finder_for(settings.policy, secrets_of(site.settings))
            return lambda: record(provider.api, b"\n".join(sent), finder, input_format="ndjson").data
        if settings.record is None or not self._is_for_operators:  # it has reasoning and errors that callers never see
            return None
        folder, stem = settings.record.folder / inputs_of(provider.api), f"{name}.{match[1]}"
        return partial(_joined, folder, stem) if (folder / f"{stem}.ndjson").exists() else None


class _Events:
    """An ASGI application that responds with the events of a stream in the public dialect."""

    def __init__(self, owner: Callable[[Scope], Any]) -> None:
        self._owner = owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with the events after a position; raise `Problem` if there are none."""
        site: Site = scope["app"].state.site
        owner = await self._owner(scope)
        with site.streams.admitted(OPERATOR if owner is None else owner) as account:
            status = await find(site, scope["path_params"]["stream_id"], owner)
            after, name = position(scope), DEFAULT_DIALECT
            await respond_with_log(
                site, scope, receive, send, status, account, after=after, dialect=name, dialects=(name,)
            )


def _row(status: StreamStatus) -> dict[str, Any]:
    """Return what is shown of a stream in a list."""
    head, seal, stored = status.head, status.seal, StoredStream.of(status.head)
    row: Mapping[str, Any] = {
        "stream_id": head.stream_id,
        "caller": head.owner,
        "agent": stored.agent,
        "workflow": stored.workflow,
        "dialect": stored.dialect,
        "created_ms": head.created_ms,
        "ended_ms": None if seal is None else seal.at_ms,
        "outcome": RUNNING if seal is None else INTERRUPTED,
        **(codec.loads(seal.ending) if seal is not None and seal.ending else {}),
    }
    return {name: value for name, value in row.items() if value is not None}


def _joined(folder: Path, stem: str) -> bytes:
    """Return the recordings of a stream that has sent several requests."""
    paths = [folder / f"{stem}.ndjson", *sorted(folder.glob(f"{stem}-*.ndjson"))]
    return b"".join(path.read_bytes() for path in paths)


async def _page(_request: Request) -> Response:
    return file_response("streams.html")
