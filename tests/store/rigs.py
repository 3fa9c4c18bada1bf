"""Stores under test, each as two processes see it, with a clock that is set by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol, TypeAlias

from projector.store.encryption import EncryptedStore
from projector.store.memory import MemoryStore
from projector.store.protocol import Batch, Store, StoreLimits, StreamHead
from projector.store.sqlite import SqliteStore

SMALL: Final = StoreLimits(
    retention_s=300,
    open_max_s=3_600,
    stream_bytes=20_000,
    stream_frames=200,
    owner_bytes=40_000,
    owner_streams=4,
    total_bytes=60_000,
    total_streams=6,
    values=1_000,
)


class Clock:
    """Seconds since 1970-01-01, set by hand."""

    def __init__(self) -> None:
        self.now_s = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s


class Rig(Protocol):
    """One store."""

    one: Store
    """As the process with the ID `one` sees it."""
    other: Store
    """As another process sees it; the same object if the store has one process only."""

    async def advance(self, seconds: float) -> None:
        """Advance the time."""


@dataclass
class LocalRig:
    """A store of one process."""

    one: Store
    clock: Clock

    @property
    def other(self) -> Store:
        return self.one

    async def advance(self, seconds: float) -> None:
        self.clock.now_s += seconds


MakeRig: TypeAlias = Callable[[StoreLimits], AbstractAsyncContextManager[Rig]]


@asynccontextmanager
async def memory(limits: StoreLimits = SMALL) -> AsyncIterator[Rig]:
    clock = Clock()
    store = MemoryStore(limits, clock, clock)
    yield LocalRig(store, clock)
    await store.aclose()


@asynccontextmanager
async def sqlite(limits: StoreLimits = SMALL) -> AsyncIterator[Rig]:
    clock = Clock()
    with TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "store.sqlite", limits, clock)
        yield LocalRig(store, clock)
        await store.aclose()


@asynccontextmanager
async def encrypted(limits: StoreLimits = SMALL) -> AsyncIterator[Rig]:
    clock = Clock()
    store = EncryptedStore(MemoryStore(limits, clock, clock), [b"k" * 32])
    yield LocalRig(store, clock)
    await store.aclose()


LOCAL: Final[Mapping[str, MakeRig]] = {"memory": memory, "sqlite": sqlite, "encrypted": encrypted}
"""Stores that need nothing on the machine."""


def head(stream_id: str = "s", owner: str = "ann", producer: str = "one") -> StreamHead:
    return StreamHead(stream_id, owner, producer, 1_800_000_000_000, b'{"agent":"a"}')


def ignored(_stream_id: str) -> None:
    """Do nothing, for `Store.listen`."""


def frames(first: int, last: int, size: int = 0) -> list[bytes]:
    """Return frames that contain their numbers."""
    return [b'{"event_id":%d}' % number + b" " * size for number in range(first, last + 1)]


def batch(first: int, last: int, stream_id: str = "s", size: int = 0) -> Batch:
    return Batch(stream_id, first, frames(first, last, size))


async def read_all(store: Store, stream_id: str = "s", after: int = 0, max_bytes: int = 1_000) -> list[bytes]:
    """Return what a log has now."""
    found: list[bytes] = []
    while True:
        page = await store.read(stream_id, after, max_bytes)
        found += page.frames
        after = page.last
        if page.seal is not None or not page.frames:
            return found
