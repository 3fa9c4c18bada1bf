"""Instructions of the server for a stream, counted by callgrind: `make bench-cost`, where valgrind is installed.

User-space instructions only, so other load changes nothing. Every connection and all features of `projector serve` are
part of it, besides those of the pass-through of `bench/proxy.py`, which copies bytes.

    python bench/cost.py [subject ...]
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from provider_streams import HUNDRED, THOUSAND
from proxy import PASS_THROUGHS, PIPELINE, Site

SUBJECTS: Final = ("pass-through", PIPELINE, "proxy")
WARM_UP: Final = 6
DUMP_S: Final = 0.1
"""Seconds between two looks for what callgrind writes."""
LONG_TURN: Final = "import projector.server.upstream.reader as reader; reader._TURN_S = 1.0\n"
"""Under valgrind a turn of the reader is over after each event, which it is not otherwise."""


class Load(NamedTuple):
    """Streams of one kind, and the most that one may cost in the server, in millions."""

    streams: int
    most: float


LOADS: Final = {"short": Load(20, 2.2), THOUSAND: Load(3, 24), HUNDRED: Load(2, 11)}


class Counted(Site):
    """A server process under callgrind."""

    def __init__(self, what: str, provider: int, folder: Path) -> None:
        self._file = folder / f"{what}.out"
        self._dumps = 0
        tool = ("valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={self._file}")
        first = LONG_TURN if what not in PASS_THROUGHS else ""
        super().__init__(what, provider, tool=tool, first=first)

    def control(self, *arguments: str) -> None:
        """Tell callgrind what to do."""
        command = ("callgrind_control", *arguments, str(self.process.pid))
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - a program of valgrind

    async def millions(self, name: str, streams: int) -> float:
        """Return the instructions of a stream, in millions."""
        self.control("-z")
        for _ in range(streams):
            events, _ = await self.ask(name)
            if events == 1:
                raise SystemExit("the stream failed")
        await asyncio.sleep(DUMP_S)  # what follows the last byte
        self.control("--dump")
        self._dumps += 1
        file = self._file.with_name(f"{self._file.name}.{self._dumps}")
        while (found := self._total(file)) is None:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(DUMP_S)
        return found / streams / 1e6

    @staticmethod
    def _total(file: Path) -> int | None:
        if not file.exists():
            return None
        found = re.search(
            r"^(?:totals|summary): (\d+)", file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE
        )
        return int(found[1]) if found else None


async def measure(subjects: list[str]) -> None:
    """Print the costs of every subject."""
    provider = Site("provider")
    print("millions of instructions of a stream: " + ", ".join(LOADS))
    try:
        with tempfile.TemporaryDirectory() as folder:
            for what in subjects:
                site = Counted(what, provider.port, Path(folder))
                try:
                    for _ in range(WARM_UP):
                        await site.ask("short")
                    site.control("-i", "on")
                    for name, load in LOADS.items():
                        await site.ask(name)
                        cost = await site.millions(name, load.streams)
                        target = f"   target: at most {load.most}" if what == "proxy" else ""
                        print(f"  {what:28}{name:12}{cost:8.2f} M{target}", flush=True)
                finally:
                    site.stop()
    finally:
        provider.stop()


if __name__ == "__main__":
    if shutil.which("callgrind_control") is None:
        print("instructions of a stream: skipped, valgrind is not installed")
    else:
        asyncio.run(measure(sys.argv[1:] or list(SUBJECTS)))
