"""The server beside nginx, a pass-through proxy and LiteLLM: `make bench-compare`, Linux only.

All of them forward requests of the Chat API to the same provider. nginx and the pass-through copy bytes; LiteLLM and
the server read each event. Prints a table, and with a name writes a chart. A program that is not installed is left out.

    python bench/compare.py [--quick] [CHART.svg]
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from math import log10
from pathlib import Path
from typing import Final, NamedTuple

import uvloop
from provider_streams import BURST_EVENTS, EVENTS_PER_S, PACED_EVENTS
from proxy import CLOSE_S, Load, Site

from projector.server.config.settings import Settings
from projector.server.listening import raise_file_limit

LITELLM: Final = Path(__file__).parent.parent / ".compare" / "bin" / "litellm"
LOADS: Final = {
    "short": Load(200, 8, 0),
    "burst": Load(10, 10, 0, BURST_EVENTS),
    "paced": Load(40, 40, 0, PACED_EVENTS),
}
"""Fewer streams than in `bench/proxy.py`, so that LiteLLM keeps pace."""
STARTS: Final = 8
"""Streams that start at the same time, for the first byte."""

NGINX: Final = """
daemon off; worker_processes 1; pid nginx.pid; error_log stderr error;
events { worker_connections 4096; }
http {
    access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u;
    scgi_temp_path s;
    upstream provider { server 127.0.0.1:%(provider)d; keepalive 64; }
    server {
        listen 127.0.0.1:%(port)d;
        location / {
            proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_buffering off; proxy_read_timeout 600s;
        }
    }
}
"""
LITELLM_CONFIG: Final = """
model_list:
  - model_name: m
    litellm_params: {model: openai/m, api_base: "http://127.0.0.1:%(provider)d/v1", api_key: none}
litellm_settings: {telemetry: false}
"""
LITELLM_ENVIRON: Final = {
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
    "PYTHONPATH": "",
}
"""No authentication, as in the others, no download at the start, and no log of requests."""


class Program(Site):
    """A server of another project, or of this one, that forwards requests of the Chat API."""

    def __init__(self, what: str, provider: Site, folder: Path) -> None:
        if what in ("pass-through", "forwarding"):
            super().__init__(what, provider.port)
            return
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        ports = {"port": self.port, "provider": provider.port}
        if what == "nginx":
            (folder / "nginx.conf").write_text(NGINX % ports, encoding="ascii")
            command = [shutil.which("nginx") or "nginx", "-p", str(folder), "-c", "nginx.conf"]
        else:
            (folder / "litellm.yaml").write_text(LITELLM_CONFIG % ports, encoding="ascii")
            command = [str(LITELLM), "--config", str(folder / "litellm.yaml"), "--host", "127.0.0.1"]
            command += ["--port", str(self.port), "--num_workers", "1"]
        environ = os.environ | LITELLM_ENVIRON
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdout=quiet, stderr=quiet, env=environ)  # noqa: S603 - our own arguments
        self.wait(what)

    def request(self, what: str, agent: str, query: str) -> bytes:  # noqa: ARG002 - the parameters of the base class
        """Return a request of the Chat API."""
        body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"%b"}]}' % what.encode()
        return (
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n"
            b"authorization: Bearer none\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        )


class Row(NamedTuple):
    """The figures of one program."""

    costs: Mapping[str, float]
    """Load -> CPU time of an event, or of a short stream, in microseconds."""
    first_byte_ms: float
    rest_mb: float
    opened_mb: float


async def cost_us(site: Site, name: str) -> float:
    """Return the CPU time of an event, or of a short stream."""
    load = LOADS[name]
    turns = asyncio.Semaphore(load.at_a_time)

    async def ask() -> None:
        async with turns:
            events, _ = await site.ask(name)
            if events == 1:
                raise SystemExit("a stream failed")

    before = site.cpu_s()
    await asyncio.gather(*(ask() for _ in range(load.streams)))
    return (site.cpu_s() - before) / load.streams / load.events * 1e6


async def measured(site: Site) -> tuple[float, float, float]:
    """Return the median time to the first byte, and the memory at rest and with open streams."""
    await site.ask("short")
    await asyncio.sleep(CLOSE_S)
    rest = site.memory_kib()
    running = [asyncio.create_task(site.ask("paced")) for _ in range(LOADS["paced"].streams)]
    await asyncio.sleep(2)
    opened = site.memory_kib()
    await asyncio.gather(*running)
    answers = [await asyncio.gather(*(site.ask("short") for _ in range(STARTS))) for _ in range(20)]
    first_s = statistics.median(seconds for round_ in answers for _, seconds in round_)
    return first_s * 1e3, rest * 1.024e-3, opened * 1.024e-3


async def compare(rounds: int) -> dict[str, Row]:
    """Return the figures of each program that is installed."""
    names = ["pass-through", "forwarding"]
    names = [*(["nginx"] if shutil.which("nginx") else []), *names, *(["litellm"] if LITELLM.exists() else [])]
    provider = Site("provider")
    sites: dict[str, Site] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name in names:
                sites[name] = Program(name, provider, Path(folder))
            once = {name: await measured(site) for name, site in sites.items()}
            costs: dict[str, dict[str, list[float]]] = {name: {load: [] for load in LOADS} for name in names}
            for load in LOADS:
                for _ in range(rounds):
                    for name, site in sites.items():
                        costs[name][load].append(await cost_us(site, load))
        finally:
            for site in (provider, *sites.values()):
                site.stop()
    return {
        name: Row({load: statistics.median(values) for load, values in costs[name].items()}, *once[name])
        for name in names
    }


LABELS: Final = {"forwarding": "this server", "litellm": "LiteLLM"}
COLOURS: Final = {"short": "#4e79a7", "burst": "#f28e2b", "paced": "#59a14f"}
TWO_DIGITS: Final = 10
"""Figures from this one are printed without decimals."""
UNITS: Final = {"short": "short stream", "burst": "event of a burst", "paced": "paced event"}


def table(rows: Mapping[str, Row]) -> str:
    """Return the figures as a table in Markdown."""
    heads = ["program", *UNITS.values(), "streams per core", f"first byte, {STARTS} starts", "memory at rest"]
    heads.append(f"with {LOADS['paced'].streams} streams")
    lines = [heads, ["---"] * len(heads)]
    for name, row in rows.items():
        streams = 1e6 / (row.costs["paced"] * EVENTS_PER_S) if row.costs["paced"] else 0
        costs = [_us(value) for value in row.costs.values()]
        memory = [f"{row.rest_mb:.0f} MB", f"{row.opened_mb:.0f} MB"]
        lines.append([LABELS.get(name, name), *costs, f"{streams:.0f}", f"{row.first_byte_ms:.1f} ms", *memory])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _us(value: float) -> str:
    return f"{value:,.{0 if value >= TWO_DIGITS else 1}f} µs"


def chart(rows: Mapping[str, Row]) -> str:
    """Return a bar chart of the CPU times as SVG, on a logarithmic scale."""
    left, width, bar = 110, 520, 16
    most = max(value for row in rows.values() for value in row.costs.values())
    scale = width / (log10(most) + 1)  # from 0.1 us
    parts, y = [], 40
    for at, (name, colour) in enumerate(COLOURS.items()):
        parts.append(f'<rect x="{left + 150 * at}" y="8" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{left + 17 + 150 * at}" y="19">{UNITS[name]}</text>')
    for name, row in rows.items():
        parts.append(f'<text x="{left - 8}" y="{y + 2 * bar - 3}" text-anchor="end">{LABELS.get(name, name)}</text>')
        for load, value in row.costs.items():
            length = max(2, scale * (log10(max(value, 0.1)) + 1))
            parts.append(f'<rect x="{left}" y="{y}" width="{length:.0f}" height="{bar - 3}" fill="{COLOURS[load]}"/>')
            parts.append(f'<text x="{left + length + 5:.0f}" y="{y + bar - 5}">{_us(value)}</text>')
            y += bar
        y += 14
    parts.append(f'<text x="{left}" y="{y + 6}">CPU time of the server, logarithmic scale</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 90} {y + 16}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f"{''.join(parts)}</svg>\n"
    )


if __name__ == "__main__":
    raise_file_limit(Settings())
    found = uvloop.run(compare(2 if "--quick" in sys.argv else 5))
    print(table(found))
    for argument in sys.argv[1:]:
        if argument.endswith(".svg"):
            Path(argument).write_text(chart(found), encoding="utf-8")
