"""The protocol of a store: logs of streams, leases of their producers, and values with a time to live.

A **log** has the clean frames of one stream, numbered from 1. One process, the producer, appends to it; any process
reads it. A **seal** closes a log: after it nothing can be appended, by anyone. Exactly one caller sets it: the producer
with its last frames, or a reader that finds that the producer's lease has lapsed.

`unavailable` in the docstrings means `StoreUnavailableError`, which every method may raise. IDs, owners and keys are
valid Unicode: for another text, a method may raise `UnicodeEncodeError`, and fails for this caller only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from projector.store.budgets import Budgets, Change

INTERRUPTED: Final = "stream_interrupted"
"""Reason of the seal of a stream that its producer did not end."""

LEASE_S: Final = 8.0
"""Seconds after which a lease lapses. With `RENEWAL_S`, and a second until it is noticed, readers of a process that was
killed know it within ten seconds."""
RENEWAL_S: Final = 2.5
"""Seconds between renewals of a lease: two may fail."""

Refusal: TypeAlias = Literal["sealed", "unknown", "gap"]
"""Why frames were not appended: the log is closed; it was deleted, has expired or never existed; its last frame is not
the one before the first of the batch."""


def new_stream_id() -> str:
    """Return the ID of a new stream."""
    return f"stream_{os.urandom(16).hex()}"


class StoreError(Exception):
    """A store cannot do what was asked."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached, or cannot read or write. The message has no payload and no credentials."""


class StoreFullError(StoreUnavailableError):
    """There is no room for another stream, even without those that are sealed."""


class UnreadableError(StoreUnavailableError):
    """What the store has was altered, is of another version, or has a key that is not configured; the rest is there."""


@contextmanager
def reading() -> Iterator[None]:
    """Raise `UnreadableError` for a stored value that its reader rejects."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError):
        raise UnreadableError("the store has data that this version cannot read") from None


class UnknownStreamError(StoreError):
    """No such stream: it was deleted, has expired, or never existed."""


class TrimmedError(StoreError):
    """Frames after the given number are not kept any more."""


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """What is kept, and how long. At a limit the streams that were sealed first are dropped first.

    The log of a stream over `stream_bytes` or `stream_frames` loses its first frames: who reads at its end goes on,
    others get `TrimmedError`. Refusing its last frames would take the end of the answer from both.
    """

    retention_s: float = 300.0
    """Seconds that a log is kept after its seal."""
    open_max_s: float = 21_600.0
    """Seconds after which a log that is not sealed is dropped."""
    stream_bytes: int = 32 * 2**20
    stream_frames: int = 500_000
    owner_bytes: int = 64 * 2**20
    """Size of the logs of one caller."""
    owner_streams: int = 1_000
    total_bytes: int = 256 * 2**20
    total_streams: int = 10_000
    values: int = 100_000
    """Values of each kind; the least recently written go first. A store with a memory of its own may ignore it."""


class StreamHead(NamedTuple):
    """What is known of a stream when it starts; never changed."""

    stream_id: str
    owner: str
    """The caller that may read and cancel it."""
    producer: str
    """ID of the process that appends."""
    created_ms: int
    """Time since 1970-01-01 UTC."""
    meta: bytes
    """JSON of the server, opaque here: agent, route, dialect, options."""


class Batch(NamedTuple):
    """Successive frames of one stream."""

    stream_id: str
    first: int
    """Number of the first frame."""
    frames: Sequence[bytes]
    """At least one."""


class Seal(NamedTuple):
    """How a log was closed."""

    reason: str
    """Empty if its producer closed it: its last frames are in the log. Otherwise a code, `INTERRUPTED` by default, and
    readers compute closers and terminal from the frames."""
    at_ms: int
    ending: bytes = b""
    """JSON of the server about the end, opaque here; empty if the stream was interrupted."""


class Page(NamedTuple):
    """Frames that follow a number."""

    first: int
    """Number of the first frame, or the number that the next one will have."""
    frames: Sequence[bytes]
    seal: Seal | None
    """Set only if nothing follows these frames."""

    @property
    def last(self) -> int:
        """The number of the last frame; `first - 1` without frames."""
        return self.first + len(self.frames) - 1


class StreamStatus(NamedTuple):
    """The state of a stream."""

    head: StreamHead
    first: int
    """Number of the first frame that is kept."""
    last: int
    """Number of the last frame; 0 before the first."""
    seal: Seal | None


class Renewal(NamedTuple):
    """The result of renewing a lease."""

    lost: Refusal | None
    """Why it was not renewed: the stream cannot be continued."""
    cancel_requested: bool
    unread_ms: int
    """Time since a reader was seen, or since the stream was opened."""


class Store(Protocol):
    """A store. Its methods belong to one event loop; it opens connections and threads when they are first needed."""

    budgets: Budgets
    """Budgets of callers, shared by all servers with this store."""

    # logs

    async def open(self, head: StreamHead) -> bool:
        """Create a log, and take its lease. Return whether the ID was free.

        Raises:
            StoreFullError: a limit of streams or bytes is reached, and nothing can be dropped.
        """

    async def append(self, batches: Sequence[Batch]) -> Mapping[str, Refusal]:
        """Append frames to the logs of several streams; return those that were refused.

        A refused batch changes nothing. After `sealed` and `unknown` no batch is accepted. If the store is unavailable,
        each batch may have been appended or not: appending the last batch of a stream again does nothing if it was.
        """

    async def seal(
        self, stream_id: str, *, first: int = 0, frames: Sequence[bytes] = (), reason: str = "", ending: bytes = b""
    ) -> bool:
        """Append the last frames and close the log in one step; return whether this call closed it.

        Frames that do not follow the last one are left out, and the reason is then `INTERRUPTED`: readers end the
        stream without them. False also if there is no such stream.
        """

    async def read(self, stream_id: str, after: int, max_bytes: int) -> Page:
        """Return frames after a number, of at most `max_bytes` together, but at least one if there is one.

        At the end of a log with a lapsed lease, it seals the log as `INTERRUPTED`.

        Raises:
            UnknownStreamError: there is no such stream.
            TrimmedError: the next frame is not kept any more, or was lost.
        """

    async def wait(self, stream_id: str, after: int, timeout_s: float) -> None:
        """Wait until there may be something to read after a number: frames, a seal, a lapsed lease, a deletion.

        A waiting reader counts as seen. It may return early. Many waiting readers need one connection.
        """

    async def find(self, stream_id: str) -> StreamStatus | None:
        """Return the state of a stream. A log with a lapsed lease is sealed first, as by `read`."""

    async def recent(self, count: int, owner: str | None = None) -> Sequence[StreamStatus]:
        """Return the states of at most `count` streams, of one owner or of all: those that run, then those sealed last.

        The cost depends on `count`, and at most on the number of the streams that are kept. The `meta` of a stream
        that cannot be read is empty, so that it does not hide the others.
        """

    async def delete(self, stream_id: str) -> None:
        """Remove a log. Idempotent; its producer's next batch is refused as `unknown`."""

    # producers and readers of other processes

    async def renew(self, stream_ids: Collection[str]) -> Mapping[str, Renewal]:
        """Renew leases of streams that this process produces. To be called every `RENEWAL_S` seconds."""

    async def request_cancel(self, stream_id: str) -> bool:
        """Ask the producer to cancel; return whether the stream exists and is not sealed. Idempotent."""

    def listen(self, on_cancel: Callable[[str], None], on_interrupted: Callable[[str], None], /) -> None:
        """Set what is called, on the event loop, with IDs of streams.

        Args:
            on_cancel: for each one of this process that is to be cancelled. If that is lost, `renew` tells it again.
            on_interrupted: for each one that is sealed here without its end.
        """

    # values

    async def claim(self, kind: str, values: Mapping[str, bytes], ttl_s: float) -> Mapping[str, bytes]:
        """Store the values of keys that have none, each by itself; return what is stored for each key."""

    async def put(self, kind: str, values: Mapping[str, bytes], ttl_s: float) -> None:
        """Store values, each by itself."""

    async def get(self, kind: str, keys: Sequence[str]) -> list[bytes | None]:
        """Return values."""

    async def update(self, kind: str, keys: Sequence[str], change: Change, ttl_s: float) -> None:
        """Replace several values by what `change` makes of them, in one step.

        If there are several, their keys have the same text before the first `|`.
        """

    # the store itself

    def places(self) -> Sequence[str]:
        """Return all places, in an order in which neighbours are near each other; none if there is one only."""
        return ()

    def place_of(self, stream_id: str) -> str:  # noqa: ARG002 - by default there is one
        """Return what has a log: streams of one place wait for each other, and fail together. May change once."""
        return ""

    async def ping(self, place: str = "") -> None:
        """Return if the store can read and write: a place, or all of it."""

    async def aclose(self) -> None:
        """Release connections and threads. Idempotent. Methods must not be called afterwards."""
