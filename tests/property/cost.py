"""Deterministic cost of a computation: steps and allocated bytes, counted by the interpreter's own hooks.

CPU time depends on what else the machine does; these counts do not, so a test can compare them exactly. Three counters:

- steps: executed lines of Python, instructions of comprehensions, and calls of C functions
- scanned: elements that list methods with linear cost (`insert`, `remove`, ...) walk over
- allocated: bytes of larger allocations between two lines, also those freed at once (copies of a growing buffer)

A scan inside one C call (`in` on a list, a regular expression that backtracks) is in none of them: `bench/linear.py`
prints ratios of CPU time for the same inputs, and hostile texts of a million characters run under pytest's time limit.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NamedTuple

_SMALL_BYTES: Final = 512
"""Smaller allocations are not counted, because the hooks themselves allocate some hundred bytes per line."""
_STEPS: Final = frozenset({"line", "opcode"})
_COMPREHENSIONS: Final = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
_WALKING: Final = frozenset({"insert", "remove", "index", "count", "copy", "sort", "reverse"})


class Cost(NamedTuple):
    """Cost of one call."""

    steps: int
    scanned: int
    allocated: int


def cost_of(work: Callable[[], object]) -> Cost:
    """Count what a call costs; it runs once before, so that caches are filled.

    The hooks keep their counts in variables of this function: they run for each line, and attributes take longer.
    """
    work()
    steps = scanned = allocated = held = 0
    traced_memory, reset_peak = tracemalloc.get_traced_memory, tracemalloc.reset_peak

    def on_line(frame: FrameType, event: str, _argument: object) -> Any:
        """Count a line, and what was allocated since the last one. A comprehension is one line, so its steps count."""
        nonlocal steps, allocated, held
        if event in _STEPS:
            steps += 1
        elif event == "call" and frame.f_code.co_name in _COMPREHENSIONS:
            frame.f_trace_opcodes = True
        now, peak = traced_memory()
        if peak - held > _SMALL_BYTES:
            allocated += peak - held
        held = now
        reset_peak()
        return on_line

    def on_call(_frame: FrameType, event: str, function: Any) -> None:
        """Count a call of a C function."""
        nonlocal steps, scanned
        if event == "c_call":
            steps += 1
            owner = getattr(function, "__self__", None)
            if type(owner) is list and function.__name__ in _WALKING:
                scanned += len(owner)

    previous = sys.gettrace(), sys.getprofile()
    gc.disable()
    with alone():
        tracemalloc.start()
        try:
            sys.setprofile(on_call)
            sys.settrace(on_line)
            work()
        finally:
            sys.settrace(previous[0])
            sys.setprofile(previous[1])
            tracemalloc.stop()
            gc.enable()
    return Cost(steps, scanned, allocated)


@contextmanager
def alone() -> Iterator[None]:
    """Keep other threads from running, unless this one waits: what servers of other tests allocate would be counted."""
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(_ALONE_S)
    try:
        yield
    finally:
        sys.setswitchinterval(switch_s)


def assert_linear(make: Callable[[int], Callable[[], object]], size: int) -> None:
    """Check that twice the size costs about twice as much: 2 where cost is linear, 4 where it is quadratic.

    Args:
        make: returns the work for a size; preparing it is not counted.
        size: large enough for a quadratic part to outweigh the fixed part of a stream.
    """
    for _ in range(_TRIES):
        once, twice = cost_of(make(size)), cost_of(make(2 * size))
        failed = [
            f"{name}: {before} for {size}, {after} for {2 * size}"
            for name, before, after in zip(Cost._fields, once, twice, strict=True)
            if after > _AT_MOST[name] * before + _SLACK[name]
        ]
        if not failed:
            return
    raise AssertionError(failed)


def assert_linear_up_to_eight(make: Callable[[int], Callable[[], object]], size: int) -> None:
    """Check that eight times the size costs about eight times as much.

    A quadratic part that is small beside the linear one shows over three doublings first.
    """
    for _ in range(_TRIES):
        once, eight_times = cost_of(make(size)), cost_of(make(8 * size))
        failed = [
            f"{name}: {before} for {size}, {after} for {8 * size}"
            for name, before, after in zip(Cost._fields, once, eight_times, strict=True)
            if after > _AT_MOST_OF_EIGHT[name] * before + _SLACK[name]
        ]
        if not failed:
            return
    raise AssertionError(failed)


_ALONE_S: Final = 60.0
"""How long other threads wait for the interpreter."""
_TRIES: Final = 3
"""A thread may still have run in between, so a failure is measured again."""
_AT_MOST: Final = {"steps": 2.3, "scanned": 2.3, "allocated": 2.7}
"""Maximum ratio of the costs; lists and tables grow in steps."""
_AT_MOST_OF_EIGHT: Final = {"steps": 8.8, "scanned": 9.5, "allocated": 11.0}
"""The same for eight times the size."""
_SLACK: Final = {"steps": 0, "scanned": 1_000, "allocated": 65_536}
"""Constant allowance for any size: a table that grows in one step."""
