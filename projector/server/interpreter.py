"""The interpreter of the server process: garbage collection, the allocator, turns of threads.

Nothing may hold the event loop for long, whatever clients and providers send. An automatic full collection takes time
in proportion to all live objects, some 0.6 us each: a hundred streams with many items made it take 120 ms. So full
collections run when the server has few objects. Reference counting frees streams; a collection frees the few objects
of each that frameworks leave in cycles.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Final

from projector.server.streaming.memory import STREAM_BYTES

_M_ARENA_MAX: Final = -8
"""Parameter of `mallopt` (mallopt(3))."""
_ARENAS: Final = 2
"""Large events are parsed in threads, and each arena keeps what its threads have freed. With the default, eight arenas
for each processor, a process under attack kept twice as much memory, and grew for minutes."""
_SWITCH_S: Final = 0.0005
"""Seconds for which a thread may hold the interpreter while the event loop waits; 5 ms by default, for each step."""
_YOUNG: Final = 2_000
"""New objects before they are collected; 700 by default. Most of those of a short stream are then gone before they are
looked at, which saves 2 % of its instructions."""
_MIDDLE: Final = 3
"""Such collections before another one of what they left; 10 by default. It is of at most 8,000 objects, as before."""
_NEVER: Final = 2**30
"""Younger collections before an automatic full one."""

SOME_REQUESTS: Final = 500
"""Requests after which there is something to collect: some thousand objects, half a megabyte."""
MANY_REQUESTS: Final = 20_000
"""Requests after which all objects are collected, however many there are."""
FEW_STREAMS_BYTES: Final = 100 * STREAM_BYTES
"""Memory of streams with some 40,000 objects, which are collected in about 25 ms. The objects themselves must not be
counted: `gc.get_objects` makes a `tuple` that a thread is building fail (`SystemError`)."""


def settle_interpreter() -> None:
    """Configure the interpreter after the imports and before the first request, once for each process."""
    sys.setswitchinterval(_SWITCH_S)
    gc.freeze()  # a collection of the objects of all modules would hold the event loop for 50 ms
    gc.set_threshold(_YOUNG, _MIDDLE, _NEVER)
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # the C library of Alpine has no arenas
            mallopt(_M_ARENA_MAX, _ARENAS)


class Collector:
    """Runs full garbage collections; `tick` is called about once a second."""

    def __init__(self) -> None:
        self._collected_at = 0

    def tick(self, requests: int, held_bytes: int) -> None:
        """Collect if there may be garbage, and either few objects or too much garbage.

        Args:
            requests: the number of requests so far.
            held_bytes: memory that all streams hold.
        """
        new = requests - self._collected_at
        if new < SOME_REQUESTS:
            return
        if new >= MANY_REQUESTS or held_bytes <= FEW_STREAMS_BYTES:
            self._collected_at = requests
            gc.collect()
