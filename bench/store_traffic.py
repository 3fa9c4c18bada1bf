"""The traffic of a server with its Redis: `python -m bench.store_traffic [STREAMS ...]`, part of `make bench-store`.

Simulated streams append their events through the store, in the batches that a server makes, to a Redis server of its
own. Prints what reaches Redis, as its own statistics say. docs/performance.md uses the figures.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import uvloop
from redis.asyncio import Redis

from bench import inputs
from bench.redis_server import RedisServer
from bench.store import EVENTS_PER_S, LIMITS, encoded, follow
from projector.store.protocol import Batch, StreamHead
from projector.store.redis_store import RedisStore

STREAMS: Final = (100, 300, 1000)
SECONDS: Final = 5.0
FLUSH_S: Final = 0.01
"""Seconds between the batches of a process."""
GROUPS: Final = round(1 / EVENTS_PER_S / FLUSH_S)
"""Batches in which the streams take turns, so that each has an event as often as a person reads them."""


class Counters:
    """The statistics of a Redis server at a time, and the CPU time of this process."""

    def __init__(self, info: dict[str, Any]) -> None:
        self.at_s = time.perf_counter()
        self.own_cpu_s = time.process_time()
        self.commands = int(info["total_commands_processed"])
        self.net_bytes = int(info["total_net_input_bytes"])
        self.memory = int(info["used_memory"])
        self.cpu_s = float(info["used_cpu_sys"]) + float(info["used_cpu_user"])


async def simulate(server: RedisServer, streams: int, readers: int) -> None:
    """Write streams for some seconds, each with so many readers that follow it, and print what that took."""
    frame = encoded(inputs.text(20))[10]
    store = RedisStore(server.url, "bench", LIMITS, prefix=f"{streams}:{readers}:")
    ids = [f"s{number}" for number in range(streams)]
    async with Redis.from_url(server.url) as client:
        for one in ids:
            await store.open(StreamHead(one, "", "bench", 0, b"{}"))
        following = [asyncio.create_task(follow(store, one)) for one in ids for _ in range(readers)]
        before, written = Counters(await client.info()), 0
        firsts = dict.fromkeys(ids, 1)
        while (passed_s := time.perf_counter() - before.at_s) < SECONDS:
            group = ids[written % GROUPS :: GROUPS]
            if await store.append([Batch(one, firsts[one], [frame]) for one in group]):
                raise RuntimeError("the store refused a batch")
            for one in group:
                firsts[one] += 1
            written += 1
            await asyncio.sleep(max(0, written * FLUSH_S - passed_s))
        after = Counters(await client.info())
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    await store.aclose()
    seconds, events = after.at_s - before.at_s, sum(firsts.values()) - streams
    print(
        f"{streams:6} streams with {readers} readers each, "
        f"{events / seconds:8,.0f} events per s of {len(frame)} bytes: "
        f"{(after.commands - before.commands) / seconds:8,.0f} commands per s, "
        f"{(after.net_bytes - before.net_bytes) / seconds / 1e6:6.2f} MB per s, "
        f"{(after.memory - before.memory) / events:4.0f} bytes per event in memory, "
        f"Redis {(after.cpu_s - before.cpu_s) / seconds:4.0%} of a core, "
        f"{1e6 * (after.cpu_s - before.cpu_s) / events:5.1f} us per event; "
        f"this process {(after.own_cpu_s - before.own_cpu_s) / seconds:4.0%}"
    )


def main(counts: list[int]) -> None:
    """Simulate each number of streams."""
    program = shutil.which("redis-server")
    if program is None:
        print("redis: skipped, there is no redis-server")
        return
    with TemporaryDirectory() as folder, RedisServer(program, Path(folder)) as server:
        for streams in counts:
            for readers in (0, 1):
                uvloop.run(simulate(server, streams, readers))


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]] or [*STREAMS])
