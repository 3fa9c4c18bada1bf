"""Memory of the server process: garbage collection, and the arenas of the allocator."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Final

_M_ARENA_MAX: Final = -8
"""Parameter of `mallopt` (mallopt(3))."""
_ARENAS: Final = 2
"""Large events are parsed in threads, and each arena keeps what its threads have freed. With the default, eight arenas
for each processor, a process under attack kept twice as much memory, and grew for minutes."""


def settle_memory() -> None:
    """Configure memory after the imports and before the first request, once for each process."""
    gc.freeze()  # a collection of the objects of all modules would hold the event loop for 50 ms
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # the C library of Alpine has no arenas
            mallopt(_M_ARENA_MAX, _ARENAS)
