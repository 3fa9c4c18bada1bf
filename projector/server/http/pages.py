"""The pages for people: of the demo, and of recent streams; and what they ask for.

The files are built from `clients/typescript/demo`. They load nothing else, and their policy forbids anything else. The
demo also shows what the built-in provider sent, so that a person sees both sides of a stream. The other page shows what
the store has of each stream, recordings of the provider's side, and cases.

Nothing of a stream here has a value that was withheld: frames are clean, records of the end have no payload, and what a
provider sent is shown as its redacted recording only. Callers see their own streams, operators at the admin listener
all.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from projector._errors import UsageError
from projector.contracts import codec
from projector.core.context import Timestamps
from projector.core.sse import encode_sse
from projector.providers import PROVIDERS
from projector.recording import Recording, record
from projector.recording.cases import pack
from projector.recording.replay import CASES_FILE, inputs_of, load_settings
from projector.server.catalog import AgentBinding, Catalog
from projector.server.config.config_base import DEFAULT_DIALECT
from projector.server.http.problems import problem
from projector.server.http.site import Site
from projector.server.http.stored_streams import delete, find, log_response, position, replayed
from projector.server.streaming.log_session import StoredStream
from projector.server.streaming.registry import Streams
from projector.server.upstream.demo import DemoUpstream
from projector.server.upstream.recorder import finder_for, secrets_of
from projector.store.protocol import StreamStatus, TrimmedError, UnknownStreamError, UnreadableError, reading

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
        Route("/", partial(_page, "index.html"), include_in_schema=False),
        Route("/demo/about", partial(_about, topics=topics), include_in_schema=False),
        *([] if side is None else [Route("/demo/provider/{stream_id}", side.read, include_in_schema=False)]),
        _FILE_ROUTE,
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


async def _page(name: str | None, request: Request) -> Response:
    """Respond with a file of the pages; None: the one in the path."""
    file = name or request.path_params["file"]
    if file not in TYPES:
        raise problem("not_found")
    return FileResponse(FILES / file, headers={**HEADERS, "content-type": TYPES[file]})


_FILE_ROUTE: Final = Route("/demo/{file}", partial(_page, None), include_in_schema=False)


_T = TypeVar("_T")
_OPERATOR: Final = "admin listener"
"""The caller in whose name operators read streams."""
COUNT_MAX: Final = 200
"""Streams of one answer."""
INTERRUPTED: Final = "interrupted"
RUNNING: Final = "in_progress"
UNREADABLE: Final = "unreadable"
"""Outcome of a stream of another version, or whose encryption key is not configured any more."""
_needed: Final = itemgetter(*(name for name in StoredStream._fields if name not in StoredStream._field_defaults))
"""What `StoredStream.of` needs; to call it for each row of a list takes 30 ms."""
_OF_RECORDING: Final = {"about", "close", "host_events", "profile"}
"""Settings of a case that a recording writes."""
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
        self._one_at_a_time = CapacityLimiter(1)
        """For what takes the processor for long."""

    def routes(self) -> list[Route]:
        """Return the routes, with those of the files on the admin listener, which has no demo page."""
        any_deleted = partial(delete, owner=None)
        deletion = Route("/streams/{stream_id}", any_deleted, methods=["DELETE"], include_in_schema=False)
        return [
            Route("/streams", partial(_page, "streams.html"), include_in_schema=False),
            Route("/streams/recent", self._recent, include_in_schema=False),
            Route("/streams/{stream_id}/events", self._events, include_in_schema=False),
            Route("/streams/{stream_id}/provider", self._provider, include_in_schema=False),
            Route("/streams/{stream_id}/case", self._case, include_in_schema=False),
            *((deletion, _FILE_ROUTE) if self._is_for_operators else ()),
        ]

    async def _owner(self, scope: Scope) -> str | None:
        """Return the caller whose streams a request may see; None: all."""
        site: Site = scope["app"].state.site
        return None if self._is_for_operators else await site.authenticator.caller(scope)

    async def _find(self, request: Request) -> tuple[Site, StreamStatus]:
        """Return the site, and the state of the stream in the path; raise `Problem` if a request may not see it."""
        site: Site = request.app.state.site
        return site, await find(site, request.path_params["stream_id"], await self._owner(request.scope))

    async def _recent(self, request: Request) -> Response:
        """Respond with what the store has of the last streams: those that run, then those that ended last."""
        site: Site = request.app.state.site
        owner = await self._owner(request.scope)
        found = await site.logs.store.recent(COUNT_MAX, owner)
        rows = [_row(status) for status in found]
        shown = [row | {"has_recording": self._recording(site, row) is not None} for row in rows]
        document = {"streams": shown, "has_demo": not self._is_for_operators}
        return Response(codec.dumps(document), media_type="application/json", headers=HEADERS)

    async def _events(self, request: Request) -> ASGIApp:
        """Respond with the events of a stream after a position."""
        site, status = await self._find(request)
        only, reader = DEFAULT_DIALECT, _OPERATOR if self._is_for_operators else None
        after = position(request.scope)
        return log_response(site, status, after=after, dialect=only, dialects=(only,), reader=reader)

    async def _provider(self, request: Request) -> Response:
        """Respond with the redacted recording of what the provider sent, as NDJSON."""
        site, status = await self._find(request)
        read = self._recording(site, _row(status))
        if read is None:
            raise problem("not_found", "There is no recording of this stream.")
        recording = await self._done(read)
        return Response(recording.data, media_type="application/x-ndjson", headers=HEADERS)

    async def _case(self, request: Request) -> Response:
        """Respond with a stream that has ended as a case for `projector replay`, as a ZIP file.

        Its input is the recording of the provider's side where it may be read, else what a client got.
        """
        site, status = await self._find(request)
        if status.seal is None:
            raise problem("not_found", "The stream has not ended.")
        stream_id, stored = status.head.stream_id, StoredStream.of(status.head)
        read = self._recording(site, _row(status))
        about: dict[str, object] = {
            "stream_id": stream_id,
            "clock": Timestamps().write(status.head.created_ms / 1000),
            "run": stored.is_run,
        }
        dialects = [DEFAULT_DIALECT]
        if read is None:
            reader = _OPERATOR if self._is_for_operators else None
            events = await _public_events(site, status, stored, reader)
            about["about"] = "What a client got, as public events; it has nothing of the provider."

            def recording() -> Recording:
                return Recording(DEFAULT_DIALECT, events, 0, 0)

        else:
            recording = read
            dialects += [stored.dialect] if stored.dialect != DEFAULT_DIALECT else []

        def packed() -> bytes:
            sent = recording()
            settings = {"about": "What the provider sent, redacted.", **about, **sent.settings}
            return pack(stream_id, sent._replace(settings=settings), dialects)

        data = await self._done(packed)
        names = {"content-disposition": f'attachment; filename="{stream_id}.zip"'}
        return Response(data, media_type="application/zip", headers={**HEADERS, **names})

    async def _done(self, work: Callable[[], _T]) -> _T:
        """Return the result of a function that reads recordings, which a thread runs, one at a time."""
        try:
            return await to_thread.run_sync(work, limiter=self._one_at_a_time)
        except (OSError, UsageError):
            raise problem("not_found", "The recording of this stream cannot be read.") from None

    def _recording(self, site: Site, row: Mapping[str, Any]) -> Callable[[], Recording] | None:
        """Return what reads the recording of a stream; None if there is none, or the stream has not ended."""
        stream_id = row["stream_id"]
        match = _STREAM_ID.fullmatch(stream_id)
        if match is None or row["outcome"] == RUNNING:
            return None
        inputs: dict[str, list[Path]] = {}
        for name, one in self._asked(row):
            upstream, api, kept = one.provider.upstream, one.provider.api, one.settings.record
            if isinstance(upstream, DemoUpstream) and (sent := upstream.sent.get(stream_id)):
                finder, data = finder_for(one.redactor.policy, secrets_of(site.settings)), b"\n".join(sent)
                return partial(record, api, data, finder, settings={"host_events": True}, input_format="ndjson")
            # a recording has reasoning and errors that callers never see
            if kept is not None and self._is_for_operators:
                first = kept.folder / inputs_of(api) / f"{name}.{match[1]}.ndjson"
                if first.exists():
                    inputs.setdefault(api, []).append(first)
        if len(inputs) != 1:  # steps of a workflow may have asked several APIs, and a case has one
            return None
        ((api, paths),) = inputs.items()
        return partial(_joined, api, paths)

    def _asked(self, row: Mapping[str, Any]) -> Iterator[tuple[str, AgentBinding]]:
        """Yield what a stream may have asked, each with the name that its recordings have: an agent, or a route."""
        workflow = self._catalog.workflows.get(row.get("workflow", ""))
        for name in (row.get("agent", ""),) if workflow is None else workflow.agents:
            if name in self._catalog.agents:
                yield name, self._catalog.agents[name]
        for route, binding in self._catalog.passthrough.items():
            if binding.route.path == row.get("route"):
                every = (*binding.bindings, *binding.models.values())
                yield from ((route, one) for one in {one.provider.api: one for one in every}.values())


def _row(status: StreamStatus) -> dict[str, Any]:
    """Return what is shown of a stream in a list."""
    head, seal = status.head, status.seal
    row: dict[str, Any] = {
        "stream_id": head.stream_id,
        "caller": head.owner,
        "created_ms": head.created_ms,
        "ended_ms": None if seal is None else seal.at_ms,
        "outcome": UNREADABLE,
    }
    with suppress(UnreadableError), reading():
        stored = dict(codec.loads(head.meta))
        _needed(stored)
        row |= {
            **{name: stored.get(name) for name in ("agent", "workflow", "dialect")},
            "outcome": RUNNING if seal is None else INTERRUPTED,
            **stored.get("request", {}),
            **(codec.loads(seal.ending) if seal is not None and seal.ending else {}),
        }
    return {name: value for name, value in row.items() if value is not None}


def _joined(provider: str, inputs: Sequence[Path]) -> Recording:
    """Return the recordings of a stream as one: those of each agent, which may have sent several requests."""
    paths = [
        path for first in inputs for path in (first, *sorted(first.parent.glob(f"{first.stem}-*.ndjson"), key=_number))
    ]
    if len(inputs) > 1:
        paths.sort(key=lambda path: path.stat().st_mtime_ns)  # agents take turns
    settings = load_settings(paths[-1].parent.parent / CASES_FILE)
    case = settings.get(paths[-1].stem, settings[""])
    members = case.model_dump(include=_OF_RECORDING, exclude_defaults=True, exclude_none=True)
    if len(paths) > 1:
        members["run"] = True
    return Recording(provider, b"".join(path.read_bytes() for path in paths), 0, 0, members)


def _number(path: Path) -> int:
    """Return the number of the request that a recording is of, from the end of its name."""
    digits = path.stem.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0


async def _public_events(site: Site, status: StreamStatus, stored: StoredStream, reader: str | None) -> bytes:
    """Return the whole stream in the public dialect, as NDJSON, with the end that readers write if it has none."""
    replay = stored.replay(DEFAULT_DIALECT, output_format="ndjson")
    try:
        events = await replayed(site, status, replay, reader)
    except (UnknownStreamError, TrimmedError):
        raise problem("unknown_stream") from None
    if status.seal is not None:
        events.append(replay.interrupt(status.head.stream_id, status.seal.at_ms / 1000))
    return b"".join(events)
