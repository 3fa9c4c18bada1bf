"""The server beside nginx, a pass-through proxy, a gateway in Rust and LiteLLM: `make bench-compare`, Linux only.

All of them forward requests of the Chat API to the same provider. A program that is not installed is left out.
`costs` are CPU times, memory and the first event: each round gives every program the same load, in another order, and
ratios are those to the pass-through in the same round. They need an idle machine. `answers` are leaks and wrong ends
(`bench/answers.py`), which do not depend on load.

    python bench/compare.py [costs] [answers] [--update] [--quick] [--help]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from math import log10
from pathlib import Path
from typing import Final, NamedTuple

import answers
import uvloop
from programs import FLOOR, LABELS, OURS, Program, installed
from provider_streams import BURST_EVENTS, EVENTS_PER_S, PACED_EVENTS, SLOW_S
from proxy import CLOSE_S, TICK_S, Load, Site

from projector.server.config.settings import Settings
from projector.server.listening import raise_file_limit

DOCS: Final = Path(__file__).parent.parent / "docs"
LOADS: Final = {
    "short": Load(200, 8, 0),
    "burst": Load(10, 10, 0, BURST_EVENTS),
    "paced": Load(40, 40, 0, PACED_EVENTS),
}
"""Fewer streams than in `bench/proxy.py`, so that LiteLLM keeps pace."""
STARTS: Final = 8
"""Streams that start at the same time, for the first event."""
OPEN: Final = 200
"""Slow streams that are open at the same time, for memory."""
SILENCE_S: Final = 60
MOST_BUSY: Final = 0.1
"""Highest share of the CPUs that other programs may use."""


class Machine:
    """Watches what share of the CPUs other programs use."""

    def __init__(self, *, is_patient: bool) -> None:
        self._is_patient = is_patient
        self.most = 0.0
        """The highest share so far."""

    def begin(self, sites: Sequence[Site]) -> tuple[float, float]:
        """Return the time, and the CPU time that others have used."""
        user, nice, system, _, _, _, _, steal = Path("/proc/stat").read_text(encoding="ascii").split()[1:9]
        own = time.process_time() + sum(site.cpu_s() for site in sites)
        return time.monotonic(), sum(map(int, (user, nice, system, steal))) * TICK_S - own

    def end(self, began: tuple[float, float], sites: Sequence[Site]) -> None:
        """End the command if others used too much since then, unless that is allowed."""
        now = self.begin(sites)
        share = (now[1] - began[1]) / (now[0] - began[0]) / (os.cpu_count() or 1)
        self.most = max(self.most, share)
        if share > MOST_BUSY and not self._is_patient:
            raise SystemExit(f"other programs use {share:.0%} of the CPUs, so figures would be wrong; see --busy")


class Row(NamedTuple):
    """The figures of one program."""

    costs: Mapping[str, Sequence[float]]
    """Load -> CPU time of an event, or of a short stream, in microseconds, of each round; `first` in milliseconds."""
    rest_mb: float
    stream_kb: float


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


async def first_ms(site: Site) -> float:
    """Return the median time to the first event."""
    found = [await asyncio.gather(*(site.ask("short") for _ in range(STARTS))) for _ in range(5)]
    return statistics.median(seconds for batch in found for _, seconds in batch) * 1e3


async def memory(site: Site) -> tuple[float, float]:
    """Return the memory at rest in MB, and that of an open stream in kB."""
    await asyncio.gather(*(site.ask("short") for _ in range(STARTS)))
    await asyncio.sleep(CLOSE_S)
    rest = site.memory_kib()
    running = [asyncio.create_task(site.ask("slow")) for _ in range(OPEN)]
    await asyncio.sleep(SLOW_S / 2)
    opened = site.memory_kib()
    await asyncio.gather(*running)
    return rest * 1.024e-3, (opened - rest) / OPEN * 1.024


async def costs(names: Sequence[str], rounds: int, machine: Machine) -> dict[str, Row]:
    """Return the figures of each program."""
    began = machine.begin([])
    await asyncio.sleep(2)
    machine.end(began, [])
    provider = Site("provider")
    sites: dict[str, Site] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name in names:
                sites[name] = Program(name, provider.port, Path(folder), SILENCE_S)
            held = {name: await memory(site) for name, site in sites.items()}
            everything = [provider, *sites.values()]
            found = {name: {load: [] for load in [*LOADS, "first"]} for name in names}
            for number in range(rounds):
                order = names[number % len(names) :] + names[: number % len(names)]
                for load in [*LOADS, "first"]:
                    began = machine.begin(everything)
                    for name in order[:: -1 if number % 2 else 1]:
                        cost = first_ms(sites[name]) if load == "first" else cost_us(sites[name], load)
                        found[name][load].append(await cost)
                    machine.end(began, everything)
        finally:
            for site in (provider, *sites.values()):
                site.stop()
    return {name: Row(found[name], *held[name]) for name in names}


async def seen(names: Sequence[str], planted: int, failed: int, kinds: Sequence[str]) -> str:
    """Return a table of what clients of each program saw."""
    asked = answers.leaks(planted) + answers.faults(failed, kinds)
    counts: dict[str, answers.Counts] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with answers.Provider(asked).serve() as port:
            for name in names:
                site = Program(name, port, Path(folder), answers.SILENCE_S)
                try:
                    counts[LABELS.get(name, name)] = await answers.count(site.port, answers.CHAT, asked)
                    if name == OURS:
                        counts["this server, `public_sse_v1`"] = await answers.count(site.port, answers.PUBLIC, asked)
                finally:
                    await asyncio.to_thread(site.stop)  # the provider goes on
    return answers.table(counts, asked)


COLOURS: Final = {"short": "#4e79a7", "burst": "#f28e2b", "paced": "#59a14f"}
TWO_DIGITS: Final = 10
"""Figures from this one are printed without decimals."""
UNITS: Final = {"short": "short stream", "burst": "event of a burst", "paced": "paced event"}


def table(rows: Mapping[str, Row]) -> str:
    """Return the figures as a table in Markdown, with ratios to the pass-through."""
    heads = ["program", *UNITS.values(), "streams per core", f"first event, {STARTS} starts", "memory at rest"]
    heads.append("of an open stream")
    lines = [heads, ["---"] * len(heads)]
    for name, row in rows.items():
        paced = statistics.median(row.costs["paced"])
        streams = f"{1e6 / (paced * EVENTS_PER_S):.0f}" if paced else ""
        ratios = {load: _ratio(row.costs[load], rows[FLOOR].costs[load]) for load in row.costs}
        cells = [f"{_us(statistics.median(row.costs[load]))} ({ratios[load]})" for load in LOADS]
        first = f"{statistics.median(row.costs['first']):.1f} ms ({ratios['first']})"
        memory_ = [f"{row.rest_mb:.0f} MB", f"{row.stream_kb:.0f} kB"]
        lines.append([LABELS.get(name, name), *cells, streams, first, *memory_])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _ratio(ours: Sequence[float], floor: Sequence[float]) -> str:
    """Return the median of the ratios in each round."""
    ratio = statistics.median(one / other for one, other in zip(ours, floor, strict=True) if other)
    return f"{ratio:.{0 if ratio >= TWO_DIGITS else 1}f}"


def _us(value: float) -> str:
    return f"{value:,.{0 if value >= TWO_DIGITS else 1}f} µs"


def chart(rows: Mapping[str, Row]) -> str:
    """Return a bar chart of the CPU times as SVG, on a logarithmic scale."""
    left, width, bar = 190, 520, 16
    medians = {name: {load: statistics.median(row.costs[load]) for load in LOADS} for name, row in rows.items()}
    scale = width / (log10(max(max(costs.values()) for costs in medians.values())) + 1)  # from 0.1 us
    parts, y = [], 40
    for at, (name, colour) in enumerate(COLOURS.items()):
        parts.append(f'<rect x="{left + 150 * at}" y="8" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{left + 17 + 150 * at}" y="19">{UNITS[name]}</text>')
    for name, costs in medians.items():
        parts.append(f'<text x="{left - 8}" y="{y + 2 * bar - 3}" text-anchor="end">{LABELS.get(name, name)}</text>')
        for load, value in costs.items():
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


def write(name: str, text: str) -> None:
    """Write a table into docs/performance.md, after its mark."""
    page = DOCS / "performance.md"
    mark = f"<!-- {name}: python bench/compare.py {name} --update -->\n\n"
    old = page.read_text(encoding="utf-8")
    new, found = re.subn(rf"{re.escape(mark)}(?:\|.*\n)*", lambda _: f"{mark}{text}\n", old)
    if found != 1:
        raise ValueError(f"expected one mark: {mark}")
    page.write_text(new, encoding="utf-8")


def main() -> None:
    """Print the tables; with `--update`, write them and the chart."""
    parser = argparse.ArgumentParser(description="Compare the server with other programs.")
    parser.add_argument("what", nargs="*", choices=("costs", "answers", []), help="default: both")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and no silent provider")
    parser.add_argument("--secrets", type=int, default=700, metavar="N", help="answers with a secret (default: 700)")
    parser.add_argument("--faults", type=int, default=20, metavar="N", help="answers with each fault (default: 20)")
    parser.add_argument("--busy", action="store_true", help="measure on a busy machine too")
    parser.add_argument("--update", action="store_true", help="write docs/performance.md and docs/compare.svg")
    parser.add_argument("--only", nargs="+", choices=installed(), default=installed(), help="programs to start")
    given = parser.parse_args()
    what = given.what or ("costs", "answers")
    if "costs" in what:
        if FLOOR not in given.only:
            parser.error(f"costs are ratios to the {FLOOR}")
        machine = Machine(is_patient=given.busy)
        rows = uvloop.run(costs(given.only, 2 if given.quick else 7, machine))
        text = table(rows)
        if machine.most > MOST_BUSY:
            text += f"\n| measured while others used up to {machine.most:.0%} of the CPUs{' |' * 8}"
        print(text)
        if given.update:
            write("costs", text)
            (DOCS / "compare.svg").write_text(chart(rows), encoding="utf-8")
    if "answers" in what:
        kinds = [kind for kind in answers.FAULTS if kind != "silence" or not given.quick]
        text = asyncio.run(seen(given.only, given.secrets, given.faults, kinds))
        print(text)
        if given.update:
            write("answers", text)


if __name__ == "__main__":
    raise_file_limit(Settings())
    main()
