"""CPU time of the server compared with a byte-for-byte pass-through proxy: `make bench-proxy`, Linux only.

The user and system CPU time of each process is divided by the number of events, or of streams if they are short. All
subjects get the same load in turn, and the medians are printed. With other load on the machine, ratios are more
reliable than either figure, and times until the first byte mean little.

    python bench/proxy.py [--quick]
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

import uvloop
from provider_streams import BURST_EVENTS, EVENTS_PER_S, LONG_BYTES, LONG_PAUSE_S, PACED_EVENTS
from proxy_sites import CHAT_DIALECTS

from projector.server.config.settings import Settings
from projector.server.listening import raise_file_limit

ROUNDS: Final = {"--quick": 2}
USUAL_ROUNDS: Final = 5
FIRST_BYTE_ROUNDS: Final = 25
STARTS: Final = (8, 200)
"""Numbers of streams that start at the same time, for the time until the first byte."""
OPEN: Final = 200
"""Open streams, for memory."""

PIPELINE: Final = "pipeline alone"
"""A pass-through with a pipeline: how near to a pass-through a server of these parts can be."""

SITES: Final = Path(__file__).with_name("proxy_sites.py")
PASS_THROUGH: Final = str(Path(__file__).with_name("pass_through.py"))
PASS_THROUGHS: Final = {"pass-through": [PASS_THROUGH], PIPELINE: [PASS_THROUGH, "--pipeline"]}
"""Subject -> its script, and its options after the ports."""
RUN: Final = """
import pathlib, runpy, sys
sys.argv[0:1] = []
sys.modules.update(dict.fromkeys(("opentelemetry", "rich")))
sys.path.insert(0, str(pathlib.Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script without what is installed for development only, and would be imported where it is installed."""
TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
LOAD_OFFSET: Final = 11
"""Position of the user time in /proc/<pid>/stat, after the name of the process, which may contain spaces."""
CLOSE_S: Final = 1.0
"""Seconds for connections to close after the last stream."""


class Load(NamedTuple):
    """Streams of one kind: how many, how many at a time, the highest wanted ratio, and the events of each.

    If they are short, the cost of a stream is printed, not that of an event.
    """

    streams: int
    at_a_time: int
    most: float
    events: int = 1


LOADS: Final = {
    "short": Load(800, 8, 2.5),
    "burst": Load(20, 20, 2.5, BURST_EVENTS),
    "paced": Load(200, 200, 1.5, PACED_EVENTS),
}
CHAT_MOST: Final = 1.15
"""Highest ratio of the Chat API to the Responses API."""
DIALECT_MOST: Final = 1.2
"""Highest ratio of a dialect to the public one."""
REST_MOST_MB: Final = 75
OPEN_MOST_MB: Final = 90
LONG_MOST: Final = 1.2
"""Highest memory of a stream with a long text, as a multiple of its text."""


class Site:
    """One server process."""

    script: ClassVar = SITES

    def __init__(self, what: str, *provider: int, tool: Sequence[str] = (), first: str = "") -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port: int = taken.getsockname()[1]
        script, *options = PASS_THROUGHS.get(what) or [str(self.script)]
        name = [] if what in PASS_THROUGHS else [what]
        ports = (str(port) for port in (self.port, *provider))
        command = [*tool, sys.executable, "-c", first + RUN, script, *name, *ports, *options]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)  # noqa: S603 - our own scripts
        self.wait(what)

    def wait(self, what: str) -> None:
        """Wait until the server accepts connections."""
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            if self.process.poll() is not None:
                raise SystemExit(f"{what}: the server exited before it accepted connections")
            time.sleep(0.05)

    def cpu_s(self) -> float:
        """Return the CPU time of the server's processes."""
        ticks = 0
        for pid in self._pids():
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            ticks += int(fields[LOAD_OFFSET]) + int(fields[LOAD_OFFSET + 1])
        return ticks * TICK_S

    def memory_kib(self, what: str = "VmRSS") -> int:
        """Return the resident memory of the server's processes; with `VmHWM`, the highest so far."""
        files = (Path(f"/proc/{pid}/status") for pid in self._pids())
        lines = [line for file in files for line in file.read_text(encoding="ascii").splitlines()]
        return sum(int(line.split()[1]) for line in lines if line.startswith(what))

    def _pids(self) -> list[str]:
        """Return the process and its children: the workers of nginx."""
        pid = str(self.process.pid)
        return [pid, *Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]

    async def ask(self, what: str, agent: str = "default", query: str = "") -> tuple[int, float]:
        """Request a stream; return the number of its events, and the seconds to its first byte."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**22)
        began = time.perf_counter()
        writer.write(self.request(what, agent, query))
        data = await reader.readuntil(b"data: ")
        first_byte_s = time.perf_counter() - began
        events, end = 1, b""
        while data := await reader.read(2**18):
            data = end + data
            events += data.count(b"data: ")
            end = data[-5:]
        writer.close()
        return events, first_byte_s

    def request(self, what: str, agent: str, query: str) -> bytes:
        """Return the request of a stream."""
        body = b'{"message":"%b","agent":"%b"}' % (what.encode(), agent.encode())
        return (
            b"POST /api/v1/chat/stream%b HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (query.encode(), len(body), body)
        )

    def stop(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait()


class Subject(NamedTuple):
    """A server with an agent and a dialect."""

    site: Site
    agent: str = "default"
    query: str = ""

    async def cpu_us(self, name: str, load: Load) -> float:
        """Return the CPU time per provider event, or per stream if they are short."""
        turns = asyncio.Semaphore(load.at_a_time)

        async def ask() -> None:
            async with turns:
                events, _ = await self.site.ask(name, self.agent, self.query)
                if events == 1:
                    raise SystemExit("the stream failed")

        before = self.site.cpu_s()
        await asyncio.gather(*(ask() for _ in range(load.streams)))
        return (self.site.cpu_s() - before) / load.streams * 1e6

    async def first_byte_ms(self, starts: int) -> float:
        """Return the median time to the first byte of streams that start at the same time."""
        answers = await asyncio.gather(*(self.site.ask("short", self.agent, self.query) for _ in range(starts)))
        return statistics.median(seconds for _, seconds in answers) * 1e3


def ratio_line(name: str, value: float, most: float) -> str:
    """Return a line with a ratio and its target."""
    return f"  {name:28}{value:7.2f}   target: at most {most}{'' if value <= most else ': not reached'}"


async def cpu(subjects: dict[str, Subject], name: str, rounds: int) -> None:
    """Print the CPU time of all subjects under one load."""
    load, costs = LOADS[name], {subject: [] for subject in subjects}
    for subject in subjects.values():
        await subject.cpu_us(name, load._replace(streams=load.at_a_time))
    for _ in range(rounds):
        for one, subject in subjects.items():
            costs[one].append(await subject.cpu_us(name, load))
    cost = {one: statistics.median(values) for one, values in costs.items()}
    unit = "stream" if load.events == 1 else "event"
    print(f"{name}, {load.streams} streams, {load.at_a_time} at a time: CPU per {unit}, {rounds} rounds")
    for one, value in cost.items():
        cores = f"   {1e6 * load.events / (value * EVENTS_PER_S):6.0f} streams per core" if name == "paced" else ""
        print(f"  {one:28}{value / load.events:9.1f} us{cores}")
    public = CHAT_DIALECTS[0]
    print(ratio_line("to the pass-through", cost[public] / cost["pass-through"], load.most))
    print(ratio_line("Chat to the pass-through", cost["chat"] / cost["pass-through, chat"], load.most))
    print(ratio_line("Chat to Responses", cost["chat"] / cost[public], CHAT_MOST))
    for one in CHAT_DIALECTS[1:]:
        print(ratio_line(f"{one} to {public}", cost[one] / cost[public], DIALECT_MOST))


async def first_bytes(subjects: dict[str, Subject], rounds: int) -> None:
    """Print what the proxies add to the time until the first byte."""
    for starts in STARTS:
        times: dict[str, list[float]] = {one: [] for one in subjects}
        for _ in range(rounds):
            for one, subject in subjects.items():
                times[one].append(await subject.first_byte_ms(starts))
        first = {one: statistics.median(values) for one, values in times.items()}
        print(f"first byte, {starts} streams start at the same time, {rounds} rounds")
        for one, value in first.items():
            print(f"  {one:28}{value:9.2f} ms   added {value - first['provider']:7.2f} ms")


async def memory(provider: Site) -> None:
    """Print the memory of new processes: at rest, with open streams, and for a long text."""
    for what, most in (("pass-through", (None, None)), ("proxy", (REST_MOST_MB, OPEN_MOST_MB))):
        site = Site(what, provider.port)
        try:
            await site.ask("short")
            await asyncio.sleep(CLOSE_S)
            rest = site.memory_kib()
            running = [asyncio.create_task(site.ask("paced")) for _ in range(OPEN)]
            await asyncio.sleep(2)
            opened = site.memory_kib()
            await asyncio.gather(*running)
        finally:
            site.stop()
        for name, kib, limit in (("at rest", rest, most[0]), (f"{OPEN} open streams", opened, most[1])):
            target = "" if limit is None else f"   target: at most {limit}"
            print(f"memory, {what}, {name}: {kib * 1.024e-3:.0f} MB{target}")
    site = Site("proxy", provider.port)
    try:
        await site.ask("short")
        rest = site.memory_kib()
        running = asyncio.create_task(site.ask("long"))
        sizes, peak = [0], 0
        while not running.done():
            await asyncio.sleep(LONG_PAUSE_S / 10)
            sizes.append(site.memory_kib() // 1024)
            peak = site.memory_kib("VmHWM")
        held = statistics.mode(sizes) * 1024  # it does not change in the pause only
        events, _ = await running
    finally:
        site.stop()
    text_kib = LONG_BYTES / 1024
    print(ratio_line(f"memory, {LONG_BYTES / 1e6:.0f} MB of text", (held - rest) / text_kib, LONG_MOST))
    print(f"  its peak, at the end{(peak - rest) / text_kib:15.2f}   ({events} events)")


async def measure(rounds: int) -> None:
    """Print everything."""
    provider = Site("provider")
    sites = [provider]
    try:
        await memory(provider)
        plain, floor, proxy = (Site(what, provider.port) for what in ("pass-through", PIPELINE, "proxy"))
        sites += plain, floor, proxy
        subjects = {
            "pass-through": Subject(plain),
            "pass-through, chat": Subject(plain, "chat"),
            PIPELINE: Subject(floor),
            f"{PIPELINE}, chat": Subject(floor, "chat"),
            **{one: Subject(proxy, query=f"?dialect={one}") for one in CHAT_DIALECTS},
            "chat": Subject(proxy, "chat"),
        }
        names = ("pass-through", CHAT_DIALECTS[0])
        await first_bytes(
            {"provider": Subject(provider)} | {one: subjects[one] for one in names}, FIRST_BYTE_ROUNDS * rounds // 5
        )
        for name in LOADS:
            await cpu(subjects, name, rounds)
    finally:
        for site in sites:
            site.stop()


if __name__ == "__main__":
    raise_file_limit(Settings())
    uvloop.run(measure(ROUNDS.get(sys.argv[-1], USUAL_ROUNDS)))
