"""Hours in minutes: `make soak`. Streams that end, fail, are left and are cancelled, until the time is over.

Watched are the memory of the proxy process and how long its loop lets a request wait. Memory must not grow once it is
warm, nothing may be open at the end, and no stream may end without its one terminal.

    python bench/soak.py [MINUTES]
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import time

import uvloop
from proxy import Site

from projector.asgi.server import _raise_file_limit
from projector.asgi.settings import Settings

MINUTES = 10.0
CLIENTS = 100
WARM = 0.3
"""Of the time: until then pools, caches and the allocator's arenas still grow."""
GROWTH_MAX = 1.15
"""Of memory, from warm to the end: what an allocator breaks into pieces, not what leaks."""
LAG_MAX_MS = 250.0
REPORT_S = 15.0
PROBE_S = 0.1
TERMINALS = (b'"kind":"final"', b'"kind":"error"')
LOADS = ("one", "burst", "paced")
WEIGHTS = (60, 10, 30)


class Soak:
    """One run."""

    def __init__(self, site: Site, ends_at: float) -> None:
        self._site = site
        self._ends_at = ends_at
        self._chance = random.Random(1)
        self.ended = 0
        self.left = 0
        self.wrong = 0
        self.lags_ms: list[float] = []

    async def client(self) -> None:
        """Ask again and again; some leave in between, some cancel."""
        while time.monotonic() < self._ends_at:
            leaves = self._chance.random() < 0.3  # noqa: PLR2004 - enough to matter, few enough that most end
            load = self._chance.choices(LOADS, WEIGHTS)[0]
            try:
                async with asyncio.timeout(self._chance.random() * 2 if leaves else 60):
                    data = await self._stream(load)
            except TimeoutError:
                self.left += 1
                self.wrong += not leaves
                continue
            self.ended += 1
            self.wrong += sum(data.count(kind) for kind in TERMINALS) != 1

    async def watch(self) -> list[int]:
        """Give the memory at each report; probe how long the loop lets a request wait."""
        memory = []
        reported_at = time.monotonic()
        while time.monotonic() < self._ends_at:
            began = time.perf_counter()
            await asyncio.sleep(PROBE_S)
            asked = time.perf_counter()
            await self._get("/livez")
            # this loop has 100 clients of its own: what it lets its own timer wait is not the proxy's
            own = asked - began - PROBE_S
            self.lags_ms.append(max(0.0, time.perf_counter() - asked - own) * 1e3)
            if time.monotonic() - reported_at >= REPORT_S:
                reported_at = time.monotonic()
                memory.append(self._site.memory_kib())
                lag = max(self.lags_ms[-100:])
                print(f"{memory[-1] / 1024:8.1f} MiB  lag {lag:6.1f} ms  ended {self.ended}  left {self.left}")
        return memory

    async def gauges(self) -> dict[str, float]:
        """Give what is open."""
        text = (await self._get("/metrics")).decode()
        return {name: float(value) for name, value in re.findall(r"^(projector_\w+) ([\d.]+)$", text, re.MULTILINE)}

    async def _stream(self, load: str) -> bytes:
        body = b'{"message": "%b"}' % load.encode()
        head = (
            b"POST /api/v1/chat/stream HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n"
        )
        return await self._ask(head + b"content-length: %d\r\n\r\n%b" % (len(body), body))

    async def _get(self, path: str) -> bytes:
        return await self._ask(b"GET %b HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n" % path.encode())

    async def _ask(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._site.port, limit=2**22)
        try:
            writer.write(request)
            return await reader.read()
        finally:
            writer.close()


async def run(minutes: float) -> bool:
    """Print what was seen; give whether all is well."""
    provider = Site("provider")
    proxy = Site("proxy", provider.port)
    try:
        soak = Soak(proxy, time.monotonic() + minutes * 60)
        watching = asyncio.create_task(soak.watch())
        await asyncio.gather(*(soak.client() for _ in range(CLIENTS)))
        memory = await watching
        await asyncio.sleep(2)
        gauges = await soak.gauges()
    finally:
        proxy.stop()
        provider.stop()
    warm = memory[int(len(memory) * WARM)]
    growth = memory[-1] / warm
    lag = sorted(soak.lags_ms)[int(len(soak.lags_ms) * 0.99)]
    still_open = {name: gauges[name] for name in ("projector_streams_active", "projector_upstream_open")}
    print(f"ended {soak.ended}, left {soak.left}, without one terminal {soak.wrong}, open {still_open}")
    print(
        f"memory {growth:.2f} times that when warm (at most {GROWTH_MAX}), lag p99 {lag:.1f} ms (at most {LAG_MAX_MS})"
    )
    return not soak.wrong and not any(still_open.values()) and growth <= GROWTH_MAX and lag <= LAG_MAX_MS


if __name__ == "__main__":
    _raise_file_limit(Settings())
    raise SystemExit(0 if uvloop.run(run(float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES)) else 1)
