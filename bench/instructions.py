"""Instructions of the pipeline for an event, counted by valgrind: the clock and other programs do not change them.

A process that runs every input is compared with one that runs an input some more times, so that
nothing is compiled in between.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
from typing import Final

from bench import inputs, subjects

DELTAS: Final = 1_000
TIMES: Final = 5
INPUTS: Final = [
    *(each for made in (inputs.text(DELTAS), inputs.chat(DELTAS)) for each in (made, inputs.alone(made))),
    inputs.arguments(3 * DELTAS, 4),
    inputs.arguments(DELTAS, 40),
]
VALGRIND: Final = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
COUNT: Final = re.compile(r"I\s+refs:\s+([0-9,]+)")


def main() -> None:
    """Print the instructions of an event of each input."""
    if shutil.which(VALGRIND[0]) is None:
        print("instructions: skipped, valgrind is not installed")
        return
    print("instructions of the pipeline for an event")
    once = _counted()
    for at, subject in enumerate(INPUTS):
        print(f"  {subject.name:36}{(_counted(str(at)) - once) / (TIMES * subject.events) / 1_000:6.1f} k", flush=True)


def _counted(*again: str) -> int:
    """Return the instructions of a process that runs every input, and some of them again."""
    command = [*VALGRIND, sys.executable, "-m", "bench.instructions", "run", *again]
    environ = os.environ | {"PYTHONHASHSEED": "0"}
    ended = subprocess.run(command, check=True, capture_output=True, text=True, env=environ)  # noqa: S603 - our own
    found = COUNT.search(ended.stderr)
    if found is None:
        raise SystemExit(ended.stderr)
    return int(found[1].replace(",", ""))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        gc.disable()  # a collection would be more than what is measured
        for each in (*INPUTS, *(INPUTS[int(at)] for at in sys.argv[2:] for _ in range(TIMES))):
            subjects.pipeline(each)
