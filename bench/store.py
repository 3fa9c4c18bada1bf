"""`make bench-store`: the cost of storing an event and of reading it again, in each store. Prints, and never fails.

CPU times are those of this process; Redis has a process of its own. docs/performance.md explains the figures.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, TypeAlias

import uvloop
from redis.asyncio import Redis

from bench import inputs
from bench.inputs import Input
from bench.redis_server import RedisServer
from bench.rounds import Cost, measure
from bench.subjects import REDACTOR, frames_of
from projector import StreamContext, build_pipeline
from projector.contracts import codec
from projector.server.streaming.local_logs import LocalLogs
from projector.server.streaming.stream_logs import StreamLogs
from projector.store.encryption import EncryptedStore
from projector.store.memory import MemoryStore
from projector.store.protocol import Batch, Store, StoreLimits, StreamHead
from projector.store.redis_store import RedisStore
from projector.store.sqlite import SqliteStore

ROUNDS: Final = 5
STREAMS: Final = 200
DELTAS: Final = 200
"""Of each stream."""
BATCH: Final = 8
"""Events that are stored together where only reading or memory is measured."""
PAGE_BYTES: Final = 65_536
EVENTS_PER_S: Final = 50
"""Of a stream that a person reads."""
TICKS: Final = 20
TICK_EVENTS: Final = 5
"""Events of a stream that come at the same time."""
NONE: Final = "none"
_MUCH: Final = 2**40
LIMITS: Final = StoreLimits(
    stream_bytes=_MUCH, stream_frames=_MUCH, owner_bytes=_MUCH, owner_streams=_MUCH, total_bytes=_MUCH
)

MakeStore: TypeAlias = Callable[[], Store]


class Kind(NamedTuple):
    """A store to measure."""

    make: MakeStore
    """Returns an empty store."""
    used_bytes: Callable[[], int]
    """Returns the memory that all stores of this kind use, or their files."""


def main() -> None:
    """Measure and print."""
    subject = inputs.text(DELTAS)
    with kinds() as made:
        _writing(subject, made)
        _reading(subject, made)
        _following(subject, made)
        _memory(subject, made)


def _writing(subject: Input, made: Mapping[str, Kind]) -> None:
    events = STREAMS * len(encoded(subject))
    makers: dict[str, MakeStore | None] = {NONE: None, **{name: kind.make for name, kind in made.items()}}
    costs = measure({name: partial(_write, subject, make) for name, make in makers.items()}, ROUNDS)
    print(f"{STREAMS} streams at a time, {events:,} events, {ROUNDS} rounds: pipeline and log")
    for name, cost in costs.items():
        print(f"  {name:12}{1e6 * cost.least / events:6.2f} us per event   {cost.over(costs[NONE])} of none")


def _write(subject: Input, make: MakeStore | None) -> None:
    uvloop.run(write(subject, STREAMS, None if make is None else make()))


def _reading(subject: Input, made: Mapping[str, Kind]) -> None:
    costs: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(ROUNDS):
        for name, kind in made.items():
            costs[name].append(uvloop.run(read(subject, kind.make())))
    print(f"reading {STREAMS} logs again, in pages of {PAGE_BYTES:,} bytes")
    for name, seconds in costs.items():
        per_event = Cost(seconds).least / (STREAMS * len(encoded(subject)))
        print(f"  {name:12}{1e6 * per_event:6.2f} us per event")


def _following(subject: Input, made: Mapping[str, Kind]) -> None:
    events = STREAMS * TICKS * TICK_EVENTS
    print(f"following {STREAMS} streams of {EVENTS_PER_S} events per s, {TICK_EVENTS} at a time")
    for name, kind in made.items():
        alone, read = (min(uvloop.run(live(subject, kind.make(), readers)) for _ in range(3)) for readers in (0, 1))
        per_event = max(read - alone, 0.0) / events
        readers = 1 / (per_event * EVENTS_PER_S)
        print(f"  {name:12}{1e6 * per_event:6.2f} us per event and reader: {readers:,.0f} readers per core")


def _memory(subject: Input, made: Mapping[str, Kind]) -> None:
    frames = encoded(subject)
    print(f"memory or disk of an event of {sum(map(len, frames)) / len(frames):.0f} bytes")
    for name, kind in made.items():
        used = uvloop.run(kept(subject, kind)) / (STREAMS * len(frames))
        print(f"  {name:12}{used:6.0f} bytes")


@contextmanager
def kinds() -> Iterator[Mapping[str, Kind]]:
    """Return the stores that this machine can run."""
    program = shutil.which("redis-server")
    with TemporaryDirectory() as folder:
        files = Path(folder) / "files"
        files.mkdir()
        made = {
            "memory": Kind(lambda: MemoryStore(LIMITS), _traced_bytes),
            "encrypted": Kind(lambda: EncryptedStore(MemoryStore(LIMITS), [bytes(32)]), _traced_bytes),
            "sqlite": Kind(
                lambda: SqliteStore(files / os.urandom(8).hex(), LIMITS),
                lambda: sum(path.stat().st_size for path in files.iterdir() if path.suffix == ""),
            ),
        }
        if program is None:
            print("redis: skipped, there is no redis-server")
            yield made
            return
        with RedisServer(program, Path(folder)) as server:
            prefix = (f"{number}:" for number in range(10**9))
            redis = Kind(
                lambda: RedisStore(server.url, "bench", LIMITS, prefix=next(prefix)), partial(_redis_bytes, server)
            )
            yield made | {"redis": redis}


def encoded(subject: Input) -> list[bytes]:
    """Return the frames of a stream as they are stored."""
    (frames,) = frames_of(subject)
    return [codec.dumps(frame) for frame in frames]


async def write(subject: Input, streams: int, store: Store | None) -> None:
    """Run streams at the same time, with a log in a store if there is one, and wait for the logs."""
    logs: StreamLogs | None = None
    if isinstance(store, MemoryStore):
        logs = LocalLogs(store, unread_s=_MUCH)
    elif store is not None:
        logs = StreamLogs(store, unread_s=_MUCH)
    running = [_stream(f"s{number}", logs) for number in range(streams)]
    for reads in zip_longest(*subject.streams[:1] * streams):
        for data, feed in zip(reads, running, strict=True):
            feed(data)
        await asyncio.sleep(0)
    for feed in running:
        feed(None)
    while logs is not None and logs.open:  # noqa: ASYNC110 - the logs have no event for it
        await asyncio.sleep(0.001)
    if logs is not None:
        _check(is_right=not logs.lost)
        await logs.aclose()


def _stream(stream_id: str, logs: StreamLogs | None) -> Callable[[bytes | None], bytes]:
    """Return what feeds a stream; None ends it."""
    pipeline = build_pipeline(
        provider="openai_responses",
        dialect="public_sse_v1",
        context=StreamContext(stream_id=stream_id),
        redactor=REDACTOR,
    )
    log = None
    if logs is not None:
        log = logs.begin(StreamHead(stream_id, "", "bench", 0, b"{}"), lambda: None, lambda _: None)
        pipeline.on_output = log.add

    def feed(data: bytes | None) -> bytes:
        output = pipeline.close() if data is None else pipeline.feed(data)
        if log is not None:
            log.notify()
        return output

    return feed


async def fill(store: Store, frames: Sequence[bytes]) -> None:
    """Write logs, in batches."""
    ids = [f"s{number}" for number in range(STREAMS)]
    await _open(store, ids)
    for start in range(0, len(frames), BATCH):
        part = frames[start : start + BATCH]
        batches = [Batch(stream_id, start + 1, [bytes(bytearray(one)) for one in part]) for stream_id in ids]
        _check(is_right=not await store.append(batches))
    for stream_id in ids:
        _check(is_right=await store.seal(stream_id))


async def _open(store: Store, ids: Sequence[str]) -> None:
    for stream_id in ids:
        _check(is_right=await store.open(StreamHead(stream_id, "", "bench", 0, b"{}")))


def _check(*, is_right: bool) -> None:
    if not is_right:
        raise RuntimeError("a store did not do what is measured")


async def read(subject: Input, store: Store) -> float:
    """Return the CPU seconds of reading all logs."""
    frames = encoded(subject)
    await fill(store, frames)
    gc.collect()
    start = time.process_time()
    for number in range(STREAMS):
        last, seal = 0, None
        while seal is None:
            page = await store.read(f"s{number}", last, PAGE_BYTES)
            last, seal = page.last, page.seal
        _check(is_right=last == len(frames))
    cost = time.process_time() - start
    await store.aclose()
    return cost


async def live(subject: Input, store: Store, readers: int) -> float:
    """Return the CPU seconds of streams that are written in real time, each with so many readers that follow it."""
    frames = encoded(subject)[:TICK_EVENTS]
    ids = [f"s{number}" for number in range(STREAMS)]
    await _open(store, ids)
    following = [asyncio.create_task(follow(store, one)) for one in ids for _ in range(readers)]
    start, next_s = time.process_time(), time.monotonic()
    for tick in range(TICKS):
        await store.append([Batch(one, TICK_EVENTS * tick + 1, frames) for one in ids])
        next_s += TICK_EVENTS / EVENTS_PER_S
        await asyncio.sleep(max(0.0, next_s - time.monotonic()))
    for one in ids:
        await store.seal(one)
    for last in await asyncio.gather(*following):
        _check(is_right=last == TICKS * TICK_EVENTS)
    cost = time.process_time() - start
    await store.aclose()
    return cost


async def follow(store: Store, stream_id: str) -> int:
    """Read a log until its end; return the number of its last frame."""
    last = 0
    while True:
        page = await store.read(stream_id, last, PAGE_BYTES)
        last = page.last
        if page.seal is not None:
            return last
        await store.wait(stream_id, last, 5)


async def kept(subject: Input, kind: Kind) -> int:
    """Return the memory of logs."""
    frames = encoded(subject)
    tracemalloc.start()
    store = kind.make()
    before = await asyncio.to_thread(kind.used_bytes)
    await fill(store, frames)
    gc.collect()
    used = await asyncio.to_thread(kind.used_bytes) - before
    tracemalloc.stop()
    await store.aclose()
    return used


def _traced_bytes() -> int:
    return tracemalloc.get_traced_memory()[0]


def _redis_bytes(server: RedisServer) -> int:
    async def used() -> int:
        async with Redis.from_url(server.url) as client:
            info: Any = await client.info("memory")
            return int(info["used_memory"])

    return asyncio.run(used())


if __name__ == "__main__":
    main()
