"""CPU time of hostile streams at twice their size, as a ratio: 2 where cost is linear, 4 where it is quadratic.

Tests count the same inputs (`tests/property/test_linear.py`); this also sees scans that happen inside one C call.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.property.test_linear import ROWS, work_of

ROUNDS: Final = 4
SCALE: Final = 8
"""Times the sizes of the tests: about 20 ms a run."""


def cpu_s(work: Callable[[], object]) -> float:
    """Return the least CPU seconds of several runs, without garbage collection."""
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        gc.disable()
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
        gc.enable()
    return best


def main() -> None:
    """Print a line for each shape of stream."""
    for row in ROWS:
        once, twice = (cpu_s(work_of(row.make(row.size * SCALE * factor))) for factor in (1, 2))
        print(f"{row.name:45} {twice / once:5.2f}")


if __name__ == "__main__":
    main()
