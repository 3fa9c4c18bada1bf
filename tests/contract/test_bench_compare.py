"""The comparison of leaks and ends in `make bench-compare` tells a program that copies bytes from this server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

COMMAND: Final = "bench/compare.py answers --quick --secrets 14 --faults 1 --only pass-through forwarding"
ROWS: Final = {
    "pass-through": ["8 (8)", "6 (6)", "0", "5", "1", "2"],
    "this server": ["0 (0)", "0 (0)", "0", "0", "0", "0"],
    "this server, `public_sse_v1`": ["0 (0)", "0 (0)", "0", "0", "0", "0"],
}
"""Secrets that are read whole (half of them) of formats that others find and of more, then wrong ends: complete, none,
two, a broken connection."""


def test_a_pass_through_leaks_and_has_wrong_ends() -> None:
    root = Path(__file__).parent.parent.parent
    done = subprocess.run([sys.executable, *COMMAND.split()], cwd=root, capture_output=True, text=True, check=False)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
    assert {name: cells for name, *cells in rows} == ROWS, done.stderr
