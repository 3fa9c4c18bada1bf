"""What an open stream costs, and whether the plan holds: `make bench-capacity`, Linux only, some minutes.

Servers and Redis are processes on loopback; provider and clients are this one. Costs are measured with few streams and
printed for `bench/capacity_plan.py`. Then larger loads run, and what they took is compared with the formula.

Time is simulated, so that a busy machine measures the same, only later: a server is paused, gets the events of one
hundredth of a second, goes on, and has all the time until the clients have them. It has ten such turns, then it is the
next one's: in the plan each has a core of its own, with its own caches. CPU is what the kernel counts for a process;
the median of several spans is taken. A load and the costs that it is compared with are measured alternately.

    python bench/capacity.py
"""

from __future__ import annotations

import asyncio
import math
import random
import shutil
import signal
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, cast

import uvloop
from proxy import Site
from redis import Redis
from store_server import KEPT_S, StoreSite

from bench.capacity_plan import (
    SIZES,
    TURN_S,
    Costs,
    Load,
    carried,
    plan,
    plan_table,
    redis_commands,
    redis_in_bytes,
    redis_us,
    rows_of,
    server_us,
)
from bench.provider_streams import EVENT, FIRST, HEAD, SHORT
from bench.redis_cluster import RedisCluster
from bench.redis_server import RedisServer
from projector.server.config.settings import Settings
from projector.server.listening import raise_file_limit

SPANS: Final = 8
SPAN_TURNS: Final = 10
OPEN_STREAMS: Final = 150
"""Open streams of each of `OPEN_SERVERS`."""
OPEN_SERVERS: Final = 4
STREAMS: Final = 50
"""Of which some, or all, have an event in each turn."""
FEW: Final = 10
SHORTS: Final = 150
AT_A_TIME: Final = 8
"""Streams that start at a time: more would be a burst, not a load."""
SETTLING_S: Final = 3
OPEN_S: Final = 15
"""Seconds without events: six renewals of leases."""
NEAR: Final = 0.2
"""Difference to the formula that is allowed."""


class Scenario(NamedTuple):
    """A load, of which each server has a share."""

    name: str
    streams: int
    servers: int
    events_per_s: float = 50
    has_cluster: bool = False


SCENARIOS: Final = (
    Scenario("10,000 / 100", 100, 1),
    Scenario("100,000 / 100", 1_000, 8),
    Scenario("1,000,000 / 104, with a cluster", 9_600, 80, has_cluster=True),  # 20,000 files, which many systems allow
)


class Provider:
    """The provider, whose streams have an event when they are told."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.port = 0
        self._sent = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin a stream, which has no end; or send a short one."""
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]))
            if b"short" in body:
                writer.write(HEAD + b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in SHORT) + b"0\r\n\r\n")
            else:
                writer.write(HEAD)
                self._send(writer, FIRST)
                self.writers.append(writer)
                await reader.read()
                self.writers.remove(writer)
        writer.close()

    def send(self, writer: asyncio.StreamWriter) -> None:
        """Send the next event of a stream."""
        self._sent += 1
        self._send(writer, EVENT % self._sent)

    @staticmethod
    def _send(writer: asyncio.StreamWriter, event: bytes) -> None:
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))


class Client(asyncio.Protocol):
    """A client that counts."""

    events = 0
    bytes = 0

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._transport: asyncio.Transport | None = None
        self.first = b""
        self.begun = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Count what arrives."""
        Client.events += data.count(b'"kind":"message.delta"')
        Client.bytes += len(data)
        if not self.begun.is_set():
            self.first += data
            if b"data: " in self.first:
                self.begun.set()

    def location(self) -> str:
        """Return the address of the stream."""
        return self.first.partition(b"location: ")[2].partition(b"\r\n")[0].decode()

    def leave(self) -> None:
        """Break off."""
        if self._transport is not None:
            self._transport.abort()


class Seen(NamedTuple):
    """What has been used until a moment."""

    at_s: float
    server_us: float
    bytes: float
    commands: float
    in_bytes: float
    out_bytes: float
    redis_us: float
    kept_bytes: float

    def since(self, before: Seen) -> Seen:
        """Return what was used since another moment."""
        return Seen(*(mine - theirs for mine, theirs in zip(self, before, strict=True)))

    def times(self, factor: float) -> Seen:
        """Return what is used in so many times as long."""
        return Seen(*(factor * value for value in self))


class Bench:
    """The processes of a load."""

    def __init__(self, sites: Sequence[Site], nodes: Sequence[RedisServer], provider: Provider) -> None:
        self.sites = sites
        self._nodes = [Redis(port=one.port) for one in nodes]
        self.provider = provider
        self._clients: list[Client] = []
        self._writers: list[list[asyncio.StreamWriter]] = []
        self._readers = 0
        self.idle = Seen(*(0.0 for _ in Seen._fields))
        """What a second without events takes, with its streams."""
        self._span_s = 0.0
        self._chosen = random.Random(1)

    async def start(self, streams: int, *, has_readers: bool = False) -> None:
        """Start streams at one server after the other; readers are at the next server."""
        turns = asyncio.Semaphore(AT_A_TIME)
        self._readers = int(has_readers)

        async def one(site: Site, other: Site) -> None:
            async with turns:
                client = await self._ask(site, site.request("open", "default", ""))
            if has_readers:
                path = f"{client.location()}/events"
                await self._ask(other, b"GET %b HTTP/1.1\r\nhost: a\r\n\r\n" % path.encode())

        self._writers = []
        for number, site in enumerate(self.sites):
            others = len(self.provider.writers)
            other = self.sites[(number + 1) % len(self.sites)]
            await asyncio.gather(*(one(site, other) for _ in range(streams // len(self.sites))))
            self._writers.append(self.provider.writers[others:])
        await self.turns(streams, 1)  # whatever is first in a stream
        await self.rest()

    async def rest(self, seconds: float = OPEN_S) -> Seen:
        """Return what a second without events takes."""
        await asyncio.sleep(SETTLING_S)
        before = self.seen()
        await asyncio.sleep(seconds)
        seen = self.seen().since(before)
        self.idle = seen.times(1 / seen.at_s)
        return self.idle

    async def _ask(self, site: Site, request: bytes) -> Client:
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(lambda: Client(request), "127.0.0.1", site.port)
        self._clients.append(client)
        await client.begun.wait()
        return client

    async def turns(self, events: int, count: int) -> None:
        """Let some streams of each server have an event at the same time, so many times, one server after the other.

        Each turn ends when the clients have the events.
        """
        share = events // len(self.sites)
        for site, writers in zip(self.sites, self._writers, strict=True):
            for _ in range(count):
                wanted = Client.events + share * (1 + self._readers)
                site.process.send_signal(signal.SIGSTOP)
                for writer in self._chosen.sample(writers, share):
                    self.provider.send(writer)
                site.process.send_signal(signal.SIGCONT)
                while Client.events < wanted:  # noqa: ASYNC110 - an event for each would cost more
                    await asyncio.sleep(0.001)

    def seen(self) -> Seen:
        """Return what has been used."""
        infos: list[dict[str, Any]] = [dict(cast("Any", one.info())) for one in self._nodes]

        def total(*names: str) -> float:
            return sum(float(info[name]) for info in infos for name in names)

        return Seen(
            time.perf_counter(),
            sum(cpu_us(site) for site in self.sites),
            Client.bytes,
            total("total_commands_processed"),
            total("total_net_input_bytes"),
            total("total_net_output_bytes"),
            1e6 * total("used_cpu_sys", "used_cpu_user"),
            total("used_memory"),
        )

    async def span(self, events: int) -> Seen:
        """Return what some turns take, besides what the time takes that they need.

        If that is long, most of what they take is what the time takes, and this is measured again before.
        """
        if self._span_s > OPEN_S:
            await self.rest(self._span_s)
        before = self.seen()
        await self.turns(events, SPAN_TURNS)
        seen = self.seen().since(before)
        self._span_s = seen.at_s
        return seen.since(self.idle.times(seen.at_s))

    def memory_kb(self) -> float:
        """Return the memory of the servers."""
        return sum(site.memory_kib() for site in self.sites) * 1.024

    async def stop(self) -> None:
        """Let the clients leave, and wait until their streams have ended."""
        for client in self._clients:
            client.leave()
        self._clients.clear()
        while not all(writer.is_closing() for part in self._writers for writer in part):  # noqa: ASYNC110 - the servers close their requests
            await asyncio.sleep(0.05)
        await asyncio.sleep(KEPT_S + SETTLING_S)  # until Redis has forgotten them


class Open(NamedTuple):
    """What open streams take: memory, and what one without events takes in a second."""

    server_kb: float
    stream_kb: float
    kept_bytes: float
    second: Seen


async def opened(nodes: Sequence[RedisServer], provider: Provider) -> Open:
    """Return what open streams take of new servers. What these and Redis do without streams is not part of it."""
    async with bench(OPEN_SERVERS, nodes, provider) as running:
        idle = await running.rest()
        streams = OPEN_SERVERS * OPEN_STREAMS
        server_kb, before = running.memory_kb(), running.seen()
        await running.start(streams)
        kept_bytes = running.seen().since(before).kept_bytes
        stream_kb = running.memory_kb() - server_kb
        second = running.idle.since(idle).times(1 / streams)
        await running.stop()
    return Open(server_kb / OPEN_SERVERS, stream_kb / streams, kept_bytes / streams, second)


async def turns(*loads: tuple[Bench, int]) -> list[Seen]:
    """Return what a turn takes with each of some benches and numbers of events, in spans one after the other."""
    spans: list[list[Seen]] = [[] for _ in loads]
    for _ in range(SPANS):
        for (running, events), seen in zip(loads, spans, strict=True):
            seen.append(await running.span(events))
    return [_of_a_turn(one) for one in spans]


def _of_a_turn(spans: Sequence[Seen]) -> Seen:
    """Return what a turn of some spans takes: the median of CPU, and the mean of the others.

    What the time takes is bursts, such as renewals of leases: without its mean a span may be too small as well.
    """
    mean = Seen(*(statistics.mean(values) / SPAN_TURNS for values in zip(*spans, strict=True)))
    return mean._replace(
        server_us=statistics.median(one.server_us for one in spans) / SPAN_TURNS,
        redis_us=statistics.median(one.redis_us for one in spans) / SPAN_TURNS,
        commands=mean.commands - 1 / SPAN_TURNS,
    )


def cpu_us(site: Site) -> float:
    """Return the CPU time of a server in microseconds; that of `Site` has ticks of ten milliseconds."""
    tasks = Path(f"/proc/{site.process.pid}/task").glob("*/schedstat")
    return sum(int(one.read_text(encoding="ascii").split()[0]) for one in tasks) / 1e3


@asynccontextmanager
async def bench(servers: int, nodes: Sequence[RedisServer], provider: Provider) -> AsyncIterator[Bench]:
    """Run new servers."""
    with ExitStack() as stack:
        starting = (asyncio.to_thread(StoreSite, str(nodes[0].port), provider.port) for _ in range(servers))
        sites = await asyncio.gather(*starting)
        for site in sites:
            stack.callback(site.process.kill)
            await site.ask("short")
        yield Bench(sites, nodes, provider)


async def measure(redis: RedisServer, provider: Provider) -> Costs:
    """Return the costs, from few streams."""
    open_ = await opened([redis], provider)
    async with bench(2, [redis], provider) as two:
        one = Bench(two.sites[:1], [redis], provider)
        await one.start(STREAMS)
        few, all_ = await turns((one, FEW), (one, STREAMS))
        await one.stop()
        await two.start(STREAMS)
        (alone,) = await turns((two, STREAMS))
        await two.stop()
        await two.start(STREAMS, has_readers=True)
        (read,) = await turns((two, STREAMS))
        await two.stop()
        started = []
        for _ in range(SPANS):
            before_us = cpu_us(one.sites[0])
            await asyncio.gather(*(one.sites[0].ask("short") for _ in range(SHORTS // SPANS)))
            started.append((cpu_us(one.sites[0]) - before_us) / (SHORTS // SPANS))
    costs = Costs(
        server_mb=open_.server_kb / 1e3,
        stream_kb=open_.stream_kb,
        open_us=open_.second.server_us,
        reader_us=max(0.0, read.server_us - alone.server_us) / STREAMS,
        start_us=min(started),
        client_bytes=(all_.bytes - few.bytes) / (STREAMS - FEW),
        provider_bytes=len(EVENT % 10_000) + len(b"ff\r\n\r\n"),
        redis_commands=(all_.commands - few.commands) / (STREAMS - FEW),
        redis_open_commands=open_.second.commands,
        redis_open_us=open_.second.redis_us,
        redis_in_bytes=(all_.in_bytes - few.in_bytes) / (STREAMS - FEW),
        redis_open_bytes=open_.second.in_bytes,
        redis_out_bytes=(read.out_bytes - alone.out_bytes) / STREAMS,
        redis_event_bytes=(all_.kept_bytes + few.kept_bytes) / (STREAMS + FEW),
        redis_stream_bytes=open_.kept_bytes,
    )
    return with_turns(costs, few, all_)


def with_turns(costs: Costs, few: Seen, all_: Seen) -> Costs:
    """Return costs with the CPU of turns with few and with all events."""
    event_us = (all_.server_us - few.server_us) / (STREAMS - FEW)
    redis_event_us = (all_.redis_us - few.redis_us) / (STREAMS - FEW)
    return replace(
        costs,
        event_us=event_us,
        turn_us=max(0.0, few.server_us - FEW * event_us),
        redis_event_us=redis_event_us,
        redis_turn_us=max(0.0, few.redis_us - FEW * redis_event_us),
    )


async def with_cluster(costs: Costs, small: Bench, nodes: Sequence[RedisServer]) -> Costs:
    """Return costs with those of a cluster, from few streams."""
    open_ = await opened(nodes, small.provider)
    await small.start(STREAMS)
    few, all_ = await turns((small, FEW), (small, STREAMS))
    await small.stop()
    of = with_turns(costs, few, all_)
    return replace(
        costs,
        cluster_turn_us=of.turn_us,
        cluster_event_us=of.event_us,
        cluster_redis_open_us=open_.second.redis_us,
        cluster_redis_turn_us=of.redis_turn_us,
        cluster_redis_event_us=of.redis_event_us,
    )


def predicted(load: Scenario, costs: Costs) -> dict[str, float]:
    """Return what a second of a load takes according to the formula."""
    of = Load(streams=load.streams, events_per_s=load.events_per_s, lasting_s=math.inf, readers=0)
    return {
        "cores of the servers": load.servers * costs.busy_core + load.streams * server_us(of, costs) / 1e6,
        "memory of the servers, MB": load.servers * costs.server_mb + load.streams * costs.stream_kb / 1e3,
        "to clients, MB": load.streams * load.events_per_s * costs.client_bytes / 1e6,
        "commands": load.streams * redis_commands(of, costs),
        "to Redis, MB": load.streams * redis_in_bytes(of, costs) / 1e6,
        "cores of Redis": load.servers * costs.redis_busy_core + load.streams * redis_us(of, costs) / 1e6,
        "memory of Redis, MB": load.streams * load.events_per_s * costs.redis_event_bytes / 1e6,
    }


async def compare(load: Scenario, nodes: Sequence[RedisServer], small: Bench, costs: Costs) -> bool:
    """Run a load, and print what a second of it took; return whether all is near to the formula.

    What servers and Redis do without streams is not part of it.

    Between its spans `small` has turns as they were measured, so that what other programs do to a core is in both.
    """
    async with bench(load.servers, nodes, small.provider) as running:
        idle = await running.rest()
        await running.start(load.streams)
        idle = running.idle.since(idle)
        memory_mb = running.memory_kb() / 1e3
        await small.start(STREAMS)
        events = round(load.streams * load.events_per_s * TURN_S)
        few, all_, turn = await turns((small, FEW), (small, STREAMS), (running, events))
        await running.stop()
        await small.stop()
    costs = with_turns(costs, few, all_)
    second = Seen(*(each + once for each, once in zip(turn.times(1 / TURN_S), idle, strict=True)))
    took = {
        "cores of the servers": second.server_us / 1e6,
        "memory of the servers, MB": memory_mb,
        "to clients, MB": second.bytes / 1e6,
        "commands": second.commands,
        "to Redis, MB": second.in_bytes / 1e6,
        "cores of Redis": second.redis_us / 1e6,
        "memory of Redis, MB": turn.kept_bytes / TURN_S / 1e6,
    }
    print(
        f"{load.name}: {load.streams} streams of {load.events_per_s} events per s, {load.servers} servers, in a second"
    )
    is_near = True
    for name, value in predicted(load, costs).items():
        ratio = took[name] / value
        is_near &= abs(ratio - 1) <= NEAR
        print(f"  {name:28}{value:10.3f} by the formula{took[name]:10.3f} measured   {ratio:5.2f}", flush=True)
    return is_near


async def run() -> bool:
    """Print everything."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        program, cli = shutil.which("redis-server"), shutil.which("redis-cli")
        if program is None or cli is None:
            raise SystemExit("there is no redis-server or no redis-cli")
        redis = stack.enter_context(RedisServer(program, folder))
        provider = Provider()
        listening = await asyncio.start_server(provider.answer, "127.0.0.1", 0, backlog=2048)
        provider.port = listening.sockets[0].getsockname()[1]
        # a load has a Redis of its own: what its open streams do there now and then is as much as a few turns
        cluster, other_cluster = (
            stack.enter_context(RedisCluster(program, cli, folder / name)).primaries() for name in ("one", "two")
        )
        (folder / "other").mkdir()
        other = stack.enter_context(RedisServer(program, folder / "other"))
        costs = await measure(redis, provider)
        is_near = True
        async with bench(1, [redis], provider) as small, bench(1, cluster, provider) as small_cluster:
            costs = await with_cluster(costs, small_cluster, cluster)
            print(f"{costs}\n{rows_of(costs)}\n\n{carried(Load(), costs)}\n")
            print(f"{plan_table([plan(Load(streams=size), costs) for size in SIZES])}\n", flush=True)
            for load in SCENARIOS:
                if load.has_cluster:
                    is_near &= await compare(load, other_cluster, small_cluster, costs.of_cluster)
                else:
                    is_near &= await compare(load, [other], small, costs)
        return is_near


if __name__ == "__main__":
    raise_file_limit(Settings())
    raise SystemExit(not uvloop.run(run()))
