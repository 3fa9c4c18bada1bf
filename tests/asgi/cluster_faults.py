"""Faults of a Redis Cluster while streams of several servers are written and read at others.

Run `python -m tests.asgi.cluster_faults --streams 200 --rounds 3` for more streams than the test has. In each round a
slot moves to another primary, a primary is paused for longer than it takes to fail over, and one is killed. Of each
stream a client reads the answer, and a reader the log at another server. Both come back with the last event that they
have. Each must get every event once and one terminal; the streams of other primaries must not notice.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from redis.crc import key_slot

from bench.redis_cluster import RedisCluster
from bench.redis_server import RedisServer
from projector.store.redis_servers import tag_of
from tests.asgi.killed_servers import CONFIG, Case, messages_of
from tests.asgi.process import TWO_APIS, Process, running, serve_with
from tests.asgi.test_outages import provider

SERVERS: Final = 3
LASTING_S: Final = 10.0
PAUSE_S: Final = 3.0
PROGRESS: Final = 5
"""Events that each reader gets before a fault, and those of other primaries during it."""
_TRIES: Final = 120
_RETRY_S: Final = 0.25


@dataclass
class Reading:
    """What one reader of a stream got."""

    server: Process
    location: str
    data: bytes = b""
    problems: list[str] = field(default_factory=list)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The whole events."""
        whole = self.data[: self.data.rfind(b"\n\n") + 2] if b"\n\n" in self.data else b""
        return [json.loads(one.partition(b"data: ")[2]) for one in messages_of(whole)]

    @property
    def is_over(self) -> bool:
        """Whether the terminal is there."""
        return bool(events := self.events) and events[-1]["kind"] in {"final", "error"}

    async def go_on(self) -> None:
        """Read to the end; come back after a response that was cut off or refused."""
        for _ in range(_TRIES):
            count = len(self.events)
            self.data = self.data[: self.data.rfind(b"\n\n") + 2] if count else b""
            request = f"GET {self.location}/events?after={count} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
            with contextlib.suppress(asyncio.IncompleteReadError, OSError, ValueError):
                await self.take(await self.server.connect(request))
            if self.is_over:
                return
            await asyncio.sleep(_RETRY_S)
        self.problems.append("no end")

    async def take(self, reader: asyncio.StreamReader) -> None:
        """Read a response as far as it goes."""
        status = int((await reader.readuntil(b"\r\n\r\n"))[9:12])
        if status == 410:
            self.problems.append("a gap")
        while status == 200 and (size := int(await reader.readuntil(b"\r\n"), 16)):
            self.data += (await reader.readexactly(size + 2))[:-2]


@dataclass
class Stream:
    """One stream with its readers."""

    client: Reading
    reader: Reading
    answer: asyncio.StreamReader

    @property
    def slot(self) -> int:
        """The slot of its keys."""
        return key_slot(tag_of(self.client.location.rpartition("/")[2]).encode())

    async def read(self) -> None:
        """Read the answer, and the log at another server."""

        async def answer() -> None:
            with contextlib.suppress(asyncio.IncompleteReadError, OSError, ValueError):
                while size := int(await self.answer.readuntil(b"\r\n"), 16):
                    self.client.data += (await self.answer.readexactly(size + 2))[:-2]
            if not self.client.is_over:
                await self.client.go_on()

        await asyncio.gather(answer(), self.reader.go_on())

    def judge(self, *, is_apart: bool) -> list[str]:
        """Return what is wrong; `is_apart` if the fault was of another primary."""
        found = []
        for who, one in (("client", self.client), ("reader", self.reader)):
            events = one.events
            found += [f"{who}: {problem}" for problem in one.problems]
            if [event["event_id"] for event in events] != list(range(1, len(events) + 1)):
                found.append(f"{who}: not every event once")
            ends = [at for at, event in enumerate(events) if event["kind"] in {"final", "error"}]
            if ends != [len(events) - 1]:
                found.append(f"{who}: terminal events at {ends} of {len(events)}")
            elif not self.is_complete(one):
                code = events[-1].get("error", {}).get("code")
                if is_apart or code != "stream_interrupted":
                    found.append(f"{who}{' of another primary' * is_apart}: ends with {code}")
        if is_apart and self.client.events != self.reader.events:
            found.append("client and reader differ")
        return found

    @staticmethod
    def is_complete(one: Reading) -> bool:
        """Return whether a reader got a complete answer."""
        return bool(one.events) and one.events[-1].get("final", {}).get("status") == "completed"


async def begin(server: Process, other: Process) -> Stream:
    """Start a stream on one server, to be read on another one as well."""
    answer = await server.connect(Case("public_sse_v1", "a").request().decode())
    head = (await answer.readuntil(b"\r\n\r\n")).decode()
    location = head.partition("location: ")[2].partition("\r\n")[0]
    return Stream(Reading(server, location), Reading(other, location), answer)


async def progress(readings: list[Reading]) -> None:
    """Wait until each of them has some events more."""
    wanted = [one.data.count(b"\n\n") + PROGRESS for one in readings]
    pairs = [*zip(readings, wanted, strict=True)]
    while any(one.data.count(b"\n\n") < count and not one.is_over for one, count in pairs):  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.1)


def spread(cluster: RedisCluster, slots: set[int]) -> None:
    """Move a slot of streams if one primary has all: each server has one slot for its own, and slots have moved."""
    owners = {cluster.owner(slot) for slot in slots}
    if len(owners) == 1:
        cluster.move(min(slots), next(one for one in cluster.primaries() if one not in owners))
    while len({cluster.owner(slot) for slot in slots}) == 1:  # the server that is asked learns it from the others
        time.sleep(0.05)


Moment = Callable[[], Awaitable[None]]


async def move(cluster: RedisCluster, primary: RedisServer, slots: set[int], _others: Moment) -> None:
    """Move the slots of streams to another primary."""
    to = next(one for one in await asyncio.to_thread(cluster.primaries) if one is not primary)
    for slot in list(slots)[:3]:
        await asyncio.to_thread(cluster.move, slot, to)


async def pause(_cluster: RedisCluster, primary: RedisServer, _slots: set[int], others: Moment) -> None:
    """Pause a primary until a replica has taken over, and it comes back with what it was told meanwhile."""
    primary.pause()
    await asyncio.gather(asyncio.sleep(PAUSE_S), others())
    primary.resume()


async def kill(_cluster: RedisCluster, primary: RedisServer, _slots: set[int], others: Moment) -> None:
    """Kill a primary."""
    primary.kill()
    await others()


FAULTS: Final[Mapping[str, Callable[[RedisCluster, RedisServer, set[int], Moment], Awaitable[None]]]] = {
    "a slot moves": move,
    "a primary is paused": pause,
    "a primary is killed": kill,
}
LOSSLESS: Final = frozenset({"a slot moves"})


async def run_fault(name: str, cluster: RedisCluster, servers: list[Process], count: int) -> dict[str, Any]:
    """Run streams with one fault; return what was wrong, and how the streams ended."""
    pairs = [(servers[number % len(servers)], servers[(number + 1) % len(servers)]) for number in range(count)]
    streams = await asyncio.gather(*(begin(*pair) for pair in pairs))
    reading = asyncio.gather(*(stream.read() for stream in streams))
    readings = [one for stream in streams for one in (stream.client, stream.reader)]
    await progress(readings)
    await asyncio.to_thread(spread, cluster, {stream.slot for stream in streams})
    primary = cluster.owner(streams[0].slot)
    owners = {slot: cluster.owner(slot) for slot in {stream.slot for stream in streams}}
    apart = [stream for stream in streams if owners[stream.slot] is not primary]
    slots = {slot for slot, owner in owners.items() if owner is primary}
    others = [one for stream in apart for one in (stream.client, stream.reader)]
    await FAULTS[name](cluster, primary, slots, lambda: progress(others))
    await reading
    wrong = Counter[str]()
    for stream in streams:
        is_apart = stream in apart or name in LOSSLESS
        wrong.update(stream.judge(is_apart=is_apart))
    return {
        "fault": name,
        "streams": len(streams),
        "of other primaries": len(apart),
        "complete": sum(stream.is_complete(stream.client) for stream in streams),
        "complete for the reader": sum(stream.is_complete(stream.reader) for stream in streams),
        "wrong": dict(wrong),
    }


async def run_rounds(cluster: RedisCluster, folder: Path, count: int, rounds: int = 1) -> list[dict[str, Any]]:
    """Run all faults some times, with servers that stay."""
    found = []
    async with provider(LASTING_S) as port, contextlib.AsyncExitStack() as stack:
        config = folder / "projector.toml"
        settings = f'kind = "redis"\nurl = "{cluster.url}"'
        config.write_text(TWO_APIS.format(port=port) + CONFIG.format(store=settings), encoding="utf-8")
        starting = (stack.enter_async_context(running(serve_with(config), 1)) for _ in range(SERVERS))
        servers = [await one for one in starting]
        for _ in range(rounds):
            for name in FAULTS:
                found.append(await run_fault(name, cluster, servers, count))
                for server in cluster.servers:
                    if not server.is_running:
                        server.start()
                await asyncio.to_thread(cluster.settle)
    return found


def main() -> None:
    """Run faults, and print what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisCluster("redis-server", "redis-cli", Path(folder)) as cluster,
    ):
        for one in asyncio.run(run_rounds(cluster, Path(folder), given.streams, given.rounds)):
            print(one)  # noqa: T201


if __name__ == "__main__":
    main()
