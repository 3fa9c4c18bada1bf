"""Ratio of the CPU time of hostile streams at twice the size: 2 for linear cost, 4 for quadratic cost.

`tests/property/test_linear.py` counts operations for the same inputs; this also sees scans within one C call.
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
"""Factor on the sizes of the tests; a run takes about 20 ms."""


def cpu_s(work: Callable[[], object]) -> float:
    """Return the minimum CPU seconds of several runs, without garbage collection."""
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
    """Print the ratio of each kind of stream."""
    for row in ROWS:
        once, twice = (cpu_s(work_of(row.make(row.size * SCALE * factor))) for factor in (1, 2))
        print(f"{row.name:45} {twice / once:5.2f}")


if __name__ == "__main__":
    main()
