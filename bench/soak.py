"""Minutes of mixed traffic and attacks: `make soak`, Linux only.

Streams complete, fail, send too much, lose their client or are cancelled, and one of two targets dies. Every stream
must have exactly one terminal event, nothing may be open at the end, memory must not grow after warm-up, and the event
loop must not delay requests.

To tolerate other load on the machine, the delay is compared with that of an idle server, probes during which a process
waited for a CPU are excluded, and memory is judged by its trend.

    python bench/soak.py [MINUTES]
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Final

import uvloop
from proxy import Site

from projector.server.config.settings import Settings
from projector.server.listening import raise_file_limit

MINUTES: Final = 10.0
WARM: Final = 0.3
"""Share of the time for warm-up: pools, caches and the allocator's arenas still grow."""
DIES_AFTER: Final = 0.5
"""Share of the time after which the first of two targets accepts no connections."""
GROWTH_MAX: Final = 0.05
"""Maximum growth of the trend after warm-up; a leak of a hundred bytes per stream exceeds it."""
LAG_MAX_MS: Final = 100.0
"""Maximum difference of the 99th percentile of the delay to that of the idle server; users do not notice it."""
BLOCK_MAX_MS: Final = 50.0
"""Longest time in which the process may hold its event loop, with all streams of the run."""
REPORT_S: Final = 15.0
PROBE_S: Final = 0.1
STARVED_S: Final = 0.01
"""Probes during which the process waited longer than this for a CPU are excluded."""
CLOSE_S: Final = 3.0
"""Seconds for connections to close after the last stream."""
KEPT_FILES: Final = 16
"""Files that may stay open: connections of the client pool, the log, the event loop."""
CLIENTS: Final = Path(__file__).with_name("soak_clients.py")


class Watched:
    """A server process that is probed repeatedly."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.lags_ms: list[float] = []
        self.starved = 0

    async def probe(self) -> None:
        """Record the delay of a request."""
        began, queued_s = time.perf_counter(), self._queued_s()
        await get(self.site, "/livez")
        waited_s = time.perf_counter() - began
        if self._queued_s() - queued_s > STARVED_S:
            self.starved += 1
        else:
            self.lags_ms.append(waited_s * 1e3)

    def lag_ms(self) -> float:
        """Return the 99th percentile of the delays."""
        return statistics.quantiles(self.lags_ms, n=100)[-1]

    def open_files(self) -> int:
        """Return the number of open files and sockets of the process."""
        return len(list(Path(f"/proc/{self.site.process.pid}/fd").iterdir()))

    def _queued_s(self) -> float:
        """Return the seconds that the threads of the process have waited for a CPU.

        Includes all threads: while the thread that holds the interpreter lock waits, so does the event loop.
        """
        files = Path(f"/proc/{self.site.process.pid}/task").glob("*/schedstat")
        return sum(int(file.read_text(encoding="ascii").split()[1]) for file in files) / 1e9


async def get(site: Site, path: str) -> bytes:
    """Return a whole response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port, limit=2**22)
    try:
        writer.write(b"GET %b HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n" % path.encode())
        return await reader.read()
    finally:
        writer.close()


async def watch(proxy: Watched, idle: Watched, clients: asyncio.subprocess.Process) -> list[int]:
    """Return the memory at each probe, in KiB, until the clients have ended."""
    memory: list[int] = []
    reported_at = time.monotonic()
    while clients.returncode is None:
        await asyncio.sleep(PROBE_S)
        await idle.probe()
        await proxy.probe()
        memory.append(proxy.site.memory_kib())
        if time.monotonic() - reported_at >= REPORT_S:
            reported_at = time.monotonic()
            lag = max(proxy.lags_ms[-100:], default=0)
            print(f"{memory[-1] / 1024:8.1f} MiB  max delay {lag:6.1f} ms  cpu {proxy.site.cpu_s():6.1f} s", flush=True)
    return memory


def growth(memory: list[int]) -> float:
    """Return the growth of memory after warm-up, as a share of the memory after warm-up.

    The trend is the median of the slopes between any two readings (Theil-Sen), so that a few high ones, when large
    events are held, have no effect.
    """
    warm = memory[int(len(memory) * WARM) :]
    step = max(1, len(warm) // 200)
    points = list(enumerate(warm))[::step]
    slope = statistics.median((y - x) / (b - a) for (a, x), (b, y) in itertools.combinations(points, 2))
    return slope * len(warm) / statistics.median(warm[:step] or warm)


async def still_open(proxy: Watched, files: int) -> list[str]:
    """Return descriptions of streams, requests, memory and files that are still open."""
    text = (await get(proxy.site, "/metrics")).decode()
    gauges = dict(re.findall(r"^(projector_\w+) ([\d.]+)$", text, re.MULTILINE))
    names = ("projector_streams_active", "projector_upstream_open", "projector_memory_held_bytes")
    found = [f"{name} {gauges[name]}" for name in names if float(gauges[name])]
    more = proxy.open_files() - files
    return [*found, f"{more} more files"] if more > KEPT_FILES else found


async def run(minutes: float) -> bool:
    """Print the figures and return whether all targets are reached."""
    provider, dying, control = Site("provider"), Site("dying", int(minutes * 60 * DIES_AFTER)), Site("idle")
    sites = [provider, dying, control, Site("proxy", provider.port, dying.port)]
    proxy, idle = Watched(sites[-1]), Watched(control)
    try:
        await get(proxy.site, "/blocks")  # starts the watch
        files = proxy.open_files()
        command = [sys.executable, str(CLIENTS), str(proxy.site.port), str(minutes * 60)]
        clients = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        memory = await watch(proxy, idle, clients)
        seen = json.loads((await clients.communicate())[0])
        longest_s, paused_s, tasks = (float(part) for part in (await get(proxy.site, "/blocks")).split()[-3:])
        await asyncio.sleep(CLOSE_S)
        left_open = await still_open(proxy, files)
    finally:
        for site in sites:
            site.stop()
    added, lag_ms, control_ms = growth(memory), proxy.lag_ms(), idle.lag_ms()
    print(f"streams: {', '.join(f'{count} {name}' for name, count in sorted(seen.items()))}")
    print(f"tasks: {tasks:.0f}")
    print(f"longest block of the event loop: {longest_s * 1e3:.0f} ms; target: at most {BLOCK_MAX_MS:.0f} ms")
    print(f"longest pause, while the system also ran other processes: {paused_s * 1e3:.0f} ms")
    print(f"still open: {', '.join(left_open) or 'nothing'}")
    print(f"memory: trend {added:+.1%} after warm-up; target: at most {GROWTH_MAX:.0%}")
    print(f"probes: {len(proxy.lags_ms)}, excluded {proxy.starved}")
    print(f"delay, p99: {lag_ms:.1f} ms, idle server {control_ms:.1f} ms; target: at most {LAG_MAX_MS} ms more")
    is_fast = longest_s * 1e3 <= BLOCK_MAX_MS and lag_ms - control_ms <= LAG_MAX_MS
    return not seen.get("wrong") and not left_open and added <= GROWTH_MAX and is_fast


if __name__ == "__main__":
    raise_file_limit(Settings())
    raise SystemExit(0 if uvloop.run(run(float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES)) else 1)
