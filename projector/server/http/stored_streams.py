"""Stored streams: routes that read one from any event on, its status, cancel it, delete it; and `Idempotency-Key`.

An ID is no credential: a stream exists for its owner only. Everything works at any server with the same store. A
request that is sent again with the same `Idempotency-Key` attaches to the stream of the first one. The key belongs to
its caller and route. The same key with another body is an error, since the caller would get the answer to another
question.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import Any, Final

import anyio
from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from projector.contracts import codec
from projector.contracts.kinds import Kind
from projector.core.replay import StreamReplay
from projector.dialects.descriptor import DialectOptions
from projector.server.catalog import chosen_dialect
from projector.server.config.config_base import DEFAULT_DIALECT
from projector.server.http.problems import json_answer, no_content, problem, request_id
from projector.server.http.requests import dialect_options
from projector.server.http.site import Site
from projector.server.ownership import is_id
from projector.server.streaming.clock import repeat
from projector.server.streaming.log_session import PAGE_BYTES, LogSession, StoredStream, stored_frames, written
from projector.server.streaming.memory import Account
from projector.server.telemetry.request_facts import headers_of
from projector.server.telemetry.stream_stats import StreamStats
from projector.store.protocol import (
    Store,
    StoreUnavailableError,
    StreamStatus,
    TrimmedError,
    UnknownStreamError,
    reading,
)

_CLOSED_S: Final = 2.0
"""Seconds for the producer of a stream that is deleted to close its log, which it would report as lost otherwise."""
_DIGITS_MAX: Final = 15
"""Digits of the largest event number; more are inexact in JavaScript."""


class StreamRoute(Route):
    """A route that responds with a stream; the OpenAPI document lists its dialects."""

    def __init__(
        self, path: str, endpoint: Callable[..., Any], dialects: Collection[str], methods: Collection[str] = ("GET",)
    ) -> None:
        super().__init__(path, endpoint, methods=methods)
        self.dialects = dialects


def stream_routes(dialects: Collection[str]) -> list[Route]:
    """Return the routes of stored streams, which are in any of these dialects."""
    return [
        StreamRoute("/api/v1/streams/{stream_id}/events", _events, dialects),
        Route("/api/v1/streams/{stream_id}/cancel", _cancel, methods=["POST"]),
        Route("/api/v1/streams/{stream_id}", _stream, methods=["GET", "DELETE"]),
    ]


async def _events(request: Request) -> ASGIApp:
    """Respond with the events of a stream after a position."""
    site: Site = request.app.state.site
    caller = await site.authenticator.caller(request.scope)
    after = position(request.scope)
    status = await find(site, request.path_params["stream_id"], caller)
    return log_response(site, status, after=after, dialect=request.query_params.get("dialect"))


def log_response(
    site: Site,
    status: StreamStatus,
    *,
    after: int = 0,
    dialect: str | None = None,
    dialects: Sequence[str] = (),
    is_json: bool = False,
    reader: str | None = None,
    account: Account | None = None,
) -> ASGIApp:
    """Return the response with the events of a stored stream; 204 if nothing follows.

    Args:
        site: of the route.
        status: of the stream.
        after: number of the last event that the client has.
        dialect: of the events; by default that of the first reader.
        dialects: what `dialect` must be one of; by default those that the readers of the stream may select.
        is_json: whether the response is the JSON answer instead.
        reader: the caller that reads; by default the owner.
        account: of the request, if it was admitted.
    """

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        stored = StoredStream.of(status.head)
        name = stored.dialect if dialect is None else chosen_dialect(dialect, dialects or stored.dialects)
        options = dialect_options(scope)
        with reading():  # it may be of a dialect that this version does not have
            replay = stored.replay(name, after=after, options=options, output_format="ndjson" if is_json else "sse")
        stats = StreamStats(
            stream_id=status.head.stream_id,
            request_id=request_id(scope),
            dialect=name,
            caller=status.head.owner,
            agent=stored.agent,
            workflow=stored.workflow,
        )
        with nullcontext(account) if account is not None else site.streams.admitted(reader or stats.caller) as held:
            session = LogSession(
                site.logs.store,
                stats,
                replay,
                held,
                after=after,
                timeouts=site.settings.timeouts,
                heartbeat_s=site.settings.heartbeat_s,
                headers=[(b"location", location(scope, stats.stream_id).encode()), *run_headers(stored.options)],
                is_json=is_json,
            )
            if not await session.seek(receive):
                await no_content(scope)(scope, receive, send)
                return
            with site.streams.reading(session):
                await session.run(scope, receive, send)

    return respond


async def find(site: Site, stream_id: str, caller: str | None) -> StreamStatus:
    """Return the state of a caller's stream, of any stream for None; raise `Problem` if there is none of this ID."""
    status = await site.logs.store.find(stream_id) if is_id(stream_id) else None
    if status is None or caller not in {None, status.head.owner}:
        raise problem("unknown_stream")
    return status


def location(scope: Scope, stream_id: str) -> str:
    """Return the path of a stream, as the client of this request sees it."""
    return f"{scope.get('root_path', '')}/api/v1/streams/{stream_id}"


def run_headers(options: DialectOptions) -> list[tuple[bytes, bytes]]:
    """Return the header with the ID that a client gave its run, if a header can have it."""
    run_id = options.run_id
    return [(b"x-run-id", run_id.encode())] if run_id is not None and run_id.isascii() and run_id.isprintable() else []


def position(scope: Scope) -> int:
    """Return the number of the last event that the client has: `after`, else `Last-Event-ID`, else 0."""
    query = QueryParams(scope["query_string"])
    name = "after" if "after" in query else "Last-Event-ID"
    text = query.get("after", Headers(scope=scope).get("last-event-id", "")).strip()
    return position_of(name, text) if text else 0


def position_of(name: str, text: str) -> int:
    """Return the number of an event that a request has in a member; raise `Problem` if it is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise problem("invalid_position", f"`{name}` must be the number of an event, such as 7.", param=name)
    return int(text)


async def _stream(request: Request) -> Response:
    """Respond with the state of a stream, or delete it: one route, so that `Allow` has both methods."""
    site: Site = request.app.state.site
    caller = await site.authenticator.caller(request.scope)
    if request.method == "DELETE":
        return await delete(request, caller)
    status = await find(site, request.path_params["stream_id"], caller)
    stored = StoredStream.of(status.head)
    document: dict[str, Any] = {
        "stream_id": status.head.stream_id,
        "status": "in_progress",
        "last_event_id": 0,
        "created_at": status.head.created_ms // 1000,
        "dialect": stored.dialect,
        "dialects": [*stored.dialects],
        "agent": stored.agent,
        "workflow": stored.workflow,
        "conversation_id": stored.conversation_id,
    }
    last = await _last_frame(site, status)
    if last is not None:
        document["last_event_id"] = last["event_id"]
    if status.seal is not None:
        is_final = last is not None and last["kind"] == Kind.FINAL and not status.seal.reason
        with reading():
            document["status"] = last["final"]["status"] if last is not None and is_final else "error"
        if status.seal.reason:
            document["last_event_id"] += await _closing_events(site, stored, status, status.seal.at_ms)
    present = {name: value for name, value in document.items() if value is not None}
    return json_answer(present, request.scope)


async def replayed(site: Site, status: StreamStatus, replay: StreamReplay, reader: str | None = None) -> list[bytes]:
    """Return what a replay makes of all frames of a log; `reader` as in `log_response`.

    Raises:
        Problem: the reader has too many streams, or the server has.
    """
    read, made = 0, []
    with site.streams.admitted(reader or status.head.owner):
        while read < status.last:
            frames = (await site.logs.store.read(status.head.stream_id, read, PAGE_BYTES)).frames
            made.append(written(replay, frames))
            read += len(frames)
    return made


async def _closing_events(site: Site, stored: StoredStream, status: StreamStatus, at_ms: int) -> int:
    """Return how many events end an interrupted stream: they are in no log, readers write them (`StreamReplay`)."""
    replay = stored.replay(DEFAULT_DIALECT)
    try:
        await replayed(site, status, replay)
    except (UnknownStreamError, TrimmedError):  # it was larger than a log: nobody can read it
        return 0
    before = replay.position
    replay.interrupt(status.head.stream_id, at_ms / 1000)
    return replay.position - before


async def _last_frame(site: Site, status: StreamStatus) -> dict[str, Any] | None:
    if status.last == 0:
        return None
    return stored_frames(await read_page(site, status.head.stream_id, status.last - 1, 1))[-1]


async def read_page(site: Site, stream_id: str, after: int, max_bytes: int) -> Sequence[bytes]:
    """Return frames of a log after a number; raise `Problem` if there is no such log."""
    try:
        return (await site.logs.store.read(stream_id, after, max_bytes)).frames
    except (UnknownStreamError, TrimmedError):
        raise problem("unknown_stream") from None


async def _cancel(request: Request) -> Response:
    """Cancel a stream, wherever it runs. Idempotent: the client may not know yet that the stream has ended."""
    site: Site = request.app.state.site
    caller = await site.authenticator.caller(request.scope)
    stream_id = request.path_params["stream_id"]
    await cancel_stored(site, stream_id, caller)
    return no_content(request.scope)


async def cancel_stored(site: Site, stream_id: str, caller: str) -> None:
    """Cancel a stream, wherever it runs; raise `Problem` if the caller has none of this ID."""
    if not site.streams.cancel(stream_id, caller):
        await find(site, stream_id, caller)
        await site.logs.store.request_cancel(stream_id)


async def delete(request: Request, owner: str | None) -> Response:
    """Cancel a stream of an owner, or of any, if it runs, and delete its log once its producer has closed it."""
    site: Site = request.app.state.site
    store, stream_id = site.logs.store, request.path_params["stream_id"]
    try:
        found = await find(site, stream_id, owner)
    except StoreUnavailableError:  # perhaps it is unreadable: an operator may delete it all the same
        if owner is not None:
            raise
        await store.delete(stream_id)
        return no_content(request.scope)
    await cancel_stored(site, stream_id, found.head.owner)
    status: StreamStatus | None = found
    with anyio.move_on_after(_CLOSED_S):
        while status is not None and status.seal is None:
            await store.wait(stream_id, status.last, _CLOSED_S)
            status = await store.find(stream_id)
    await store.delete(stream_id)
    return no_content(request.scope)


KEY_MAX_CHARS: Final = 255
KIND: Final = "idempotency_key"
KEPT_S: Final = 86_400.0
"""Seconds that a key is kept. An answer that has expired before is not requested again."""
WAIT_S: Final = 120.0
"""Seconds for the first request to begin its stream, and after which a key is free whose server has died."""
LATE_S: Final = 1.0
"""Seconds for the log of a stream that has ended to arrive in the store."""
_POLL_S: Final = 0.1


def key_of(scope: Scope) -> str | None:
    """Return the key of a request, None without one; raise `Problem` if it is invalid."""
    given = headers_of(scope).get(b"idempotency-key")
    if given is None:
        return None
    key = given.decode("latin-1")
    if not key or len(key) > KEY_MAX_CHARS or not key.isascii() or not key.isprintable():
        expected = f"`Idempotency-Key` must have 1 to {KEY_MAX_CHARS} printable ASCII characters."
        raise problem("invalid_request", expected, param="Idempotency-Key")
    return key


class Claim:
    """The key of one request."""

    def __init__(self, store: Store, scope: Scope, caller: str, key: str, body: dict[str, Any]) -> None:
        self._store = store
        place = f"{scope['path']}?{scope['query_string'].decode('latin-1')}"
        self._key = hashlib.sha256("\n".join((caller, scope["path"], key)).encode()).hexdigest()
        self._ours = b""
        """What this request has stored under its key."""
        self._request = hashlib.sha256(place.encode() + b"\n" + codec.dumps(body)).hexdigest()

    async def enter(self, stream_id: str) -> StreamStatus | None:
        """Claim the key for a new stream; return the stream that it belongs to already, None if it is the new one.

        Raises:
            Problem: the key was used with another request, or the stream of the first one does not begin or is gone.
        """
        ours = self._ours = self._value(stream_id)
        began_at = time.monotonic()
        while (waited_s := time.monotonic() - began_at) < WAIT_S:
            claimed = await self._store.claim(KIND, {self._key: ours}, WAIT_S)
            with reading():
                found: dict[str, Any] = codec.loads(claimed[self._key])
                request, holder = found["request"], found["stream_id"]
            if request != self._request:
                raise problem("idempotency_key_reused")
            if holder == stream_id:
                return None
            status = await self._store.find(holder)
            if status is not None:
                return status
            if found.get("has_ended") and waited_s > LATE_S:
                raise problem("events_gone", "The stream of this `Idempotency-Key` is not kept any more.")
            await asyncio.sleep(_POLL_S)
        raise problem("overloaded", "The first request with this `Idempotency-Key` has not begun.")

    @asynccontextmanager
    async def held(self, stream_id: str, has_begun: Callable[[], bool]) -> AsyncGenerator[None, None]:
        """Hold the key while its stream runs; a refused request may be sent again with the same key."""
        hold = partial(self._put, WAIT_S, self._ours)
        holding = asyncio.create_task(repeat(hold, WAIT_S / 3))
        try:
            yield
        finally:
            holding.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([holding])
                if has_begun():
                    await self._put(KEPT_S, self._value(stream_id, has_ended=True))
                else:
                    await self._put(0, None)

    def _value(self, stream_id: str, **more: bool) -> bytes:
        return codec.to_keep(codec.dumps({"stream_id": stream_id, "request": self._request, **more}))

    async def _put(self, ttl_s: float, value: bytes | None) -> None:
        """Keep, replace or remove the value of the key, unless it has lapsed and belongs to another request."""
        with suppress(StoreUnavailableError):
            await self._store.update(
                KIND, [self._key], lambda stored: [value] if stored[0] in {None, self._ours} else None, ttl_s
            )
