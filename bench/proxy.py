"""CPU time of the server compared with a byte-for-byte pass-through proxy: `make bench-proxy`, Linux only.

The user and system CPU time of each process is divided by the number of received events. Both get the same load in
turn, and the medians are printed. With other load on the machine, the ratio is more reliable than either figure.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import uvloop
from proxy_sites import EVENTS_PER_S

from projector.server.config.settings import Settings
from projector.server.listening import raise_file_limit

STREAMS = 200
BURSTS = 20
ROUNDS = 5
FIRST_BYTES = 200
TARGET = 2.0
"""Maximum ratio to the pass-through for paced streams."""

SITES = Path(__file__).with_name("proxy_sites.py")
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
LOAD_OFFSET = 11
"""Position of the user time in /proc/<pid>/stat, after the name of the process, which may contain spaces."""


class Site:
    """One server process."""

    def __init__(self, what: str, *provider: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port: int = taken.getsockname()[1]
        ports = [str(port) for port in (self.port, *provider)]
        self.process = subprocess.Popen([sys.executable, str(SITES), what, *ports], stderr=subprocess.DEVNULL)  # noqa: S603 - our own script
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            if self.process.poll() is not None:
                raise SystemExit(f"{what}: the server exited before it accepted connections")
            time.sleep(0.05)

    def cpu_s(self) -> float:
        """Return the CPU time of the process."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[LOAD_OFFSET]) + int(fields[LOAD_OFFSET + 1])) * TICK_S

    def memory_kib(self) -> int:
        """Return the resident memory of the process."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    async def ask(self, what: str) -> tuple[int, float]:
        """Request a stream; return the number of its events, and the seconds to its first byte."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**22)
        body = b'{"message": "%b"}' % what.encode()
        began = time.perf_counter()
        writer.write(
            b"POST /api/v1/chat/stream HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )
        data = await reader.readuntil(b"data: ")
        first_byte_s = time.perf_counter() - began
        data += await reader.read()
        writer.close()
        return data.count(b"data: "), first_byte_s

    async def cpu_per_event_us(self, what: str, streams: int) -> float:
        """Return the CPU time per event of concurrent streams."""
        before = self.cpu_s()
        answers = await asyncio.gather(*(self.ask(what) for _ in range(streams)))
        return (self.cpu_s() - before) / sum(events for events, _ in answers) * 1e6

    async def first_byte_ms(self) -> float:
        """Return the time to the first byte of a stream on an idle server."""
        return statistics.median([(await self.ask("one"))[1] for _ in range(FIRST_BYTES)]) * 1e3

    async def memory_per_stream_kib(self) -> float:
        """Return the memory that a running stream adds."""
        before = self.memory_kib()
        running = [asyncio.create_task(self.ask("paced")) for _ in range(STREAMS)]
        await asyncio.sleep(2)
        held = self.memory_kib() - before
        await asyncio.gather(*running)
        return held / STREAMS

    def stop(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait()


async def measure() -> bool:
    """Print the results and return whether the target is reached."""
    provider = Site("provider")
    plain, proxy = Site("pass-through", provider.port), Site("proxy", provider.port)
    sites = {"pass-through": plain, "proxy": proxy}
    try:
        memory = {name: await site.memory_per_stream_kib() for name, site in sites.items()}  # before it is reused
        ratio = 0.0
        for load, streams in (("burst", BURSTS), ("paced", STREAMS)):
            costs: dict[str, list[float]] = {name: [] for name in sites}
            for _ in range(ROUNDS):
                for name, site in sites.items():
                    costs[name].append(await site.cpu_per_event_us(load, streams))
            cost = {name: statistics.median(values) for name, values in costs.items()}
            ratio = cost["proxy"] / cost["pass-through"]
            print(f"{load}, {streams} streams: CPU per event, {ROUNDS} rounds")
            for name, value in cost.items():
                print(f"  {name:14}{value:8.1f} us   {1e6 / (value * EVENTS_PER_S):6.0f} streams per core")
            print(f"  ratio         {ratio:8.2f}")
        first = {name: await site.first_byte_ms() for name, site in ({"provider": provider} | sites).items()}
        for name, value in first.items():
            print(f"first byte, {name:13}{value:8.2f} ms   added {value - first['provider']:6.2f} ms")
        for name, value in memory.items():
            print(f"memory per stream, {name:13}{value:8.0f} KiB")
    finally:
        for site in (provider, plain, proxy):
            site.stop()
    print(f"paced: {ratio:.2f} times the pass-through; target: at most {TARGET}")
    return ratio <= TARGET


if __name__ == "__main__":
    raise_file_limit(Settings())
    raise SystemExit(0 if uvloop.run(measure()) else 1)
