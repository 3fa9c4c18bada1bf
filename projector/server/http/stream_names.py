"""Names that clients have for streams: the ID of a chat or a run leads to its last stream, at any server of the store.

A name belongs to its caller: what another caller named the same way is another stream.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from projector.contracts import codec
from projector.server.http.problems import Problem, problem
from projector.server.http.stored_streams import find
from projector.server.streaming.stream_logs import NAME_KEPT_S
from projector.store.protocol import StoreUnavailableError, StreamStatus

if TYPE_CHECKING:
    from projector.server.http.site import Site


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


async def name_stream(site: Site, name: StreamName, caller: str, stream_id: str) -> None:
    """Name a stream; the newest one of a name counts. If the store is away, the stream goes on without."""
    with suppress(StoreUnavailableError):
        await site.logs.store.put(name.kind, name.key(caller), stream_id.encode(), NAME_KEPT_S)


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
