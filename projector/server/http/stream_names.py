"""Names that clients have for streams: the ID of a chat or a run leads to its last stream, at any server of the store.

A name belongs to its caller: what another caller named the same way is another stream.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio

from projector.contracts import codec
from projector.server.http.problems import Problem, problem
from projector.server.http.stored_streams import find
from projector.server.telemetry.stream_stats import StreamStats
from projector.store.protocol import StoreUnavailableError, StreamStatus

if TYPE_CHECKING:
    from projector.server.http.stream_route import Site

KEPT_S: Final = 86_400.0
"""Seconds that a name is kept, if the stream has not gone before."""


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


def chat_name(agent: str, chat_id: str) -> StreamName:
    """Return the name of the last stream of a chat."""
    return StreamName("chat_stream", agent, chat_id)


def run_name(agent: str, run_id: str) -> StreamName:
    """Return the name of the last stream of a run of AG-UI."""
    return StreamName("run_stream", agent, run_id)


def response_name(response_id: str) -> StreamName:
    """Return the name of the stream of a response."""
    return StreamName("response_stream", "", response_id)


@asynccontextmanager
async def named_by_response(site: Site, stats: StreamStats) -> AsyncGenerator[None, None]:
    """Name a stream by the ID of each of its responses as soon as the provider has sent it."""
    loop, found = asyncio.get_running_loop(), asyncio.Queue[str]()
    stats.on_response_id = lambda response_id: loop.call_soon_threadsafe(found.put_nowait, response_id)

    async def name_next() -> None:
        await name_stream(site, response_name(await found.get()), stats.caller, stats.stream_id)

    async def name_all() -> None:
        while True:
            await name_next()

    naming = asyncio.create_task(name_all())
    try:
        yield
    finally:
        naming.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([naming])
            while not found.empty():
                await name_next()


async def name_stream(site: Site, name: StreamName, caller: str, stream_id: str) -> None:
    """Name a stream; the newest one of a name counts. If the store is away, the stream goes on without."""
    with suppress(StoreUnavailableError):
        await site.logs.store.put(name.kind, name.key(caller), stream_id.encode(), KEPT_S)


async def find_named(site: Site, name: StreamName, caller: str) -> StreamStatus | None:
    """Return the state of a caller's stream; None if there is none of this name, or it is not kept any more."""
    try:
        stream_id = await site.logs.store.get(name.kind, name.key(caller))
    except StoreUnavailableError:
        raise problem("store_unavailable") from None
    if stream_id is None:
        return None
    try:
        return await find(site, stream_id.decode(), caller)
    except Problem as error:
        if error.code == "unknown_stream":
            return None
        raise
