"""Progress of long work, on a terminal only: never in a pipe, never in a log."""

from __future__ import annotations

import sys
import time
from typing import Final, Self

QUIET_S: Final = 0.5
"""Work that takes less shows nothing."""
STEP_S: Final = 0.1


class Progress:
    """Count work, and show it on standard error while that is a terminal.

    Args:
        unit: what is counted, in the plural.
        total: how much there is; None where nobody knows.
    """

    def __init__(self, unit: str, total: int | None = None) -> None:
        self._unit = unit
        self._total = total
        self._done = 0
        # a terminal that shows the output itself must not get lines of ours between
        self._is_shown = sys.stderr.isatty() and not sys.stdout.isatty()
        self._next_at = time.monotonic() + QUIET_S
        self._has_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._has_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def advance(self, amount: int) -> None:
        """Count some work."""
        self._done += amount
        if not self._is_shown or time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + STEP_S
        self._has_shown = True
        share = f" of {self._total:,} ({self._done * 100 // self._total} %)" if self._total else ""
        sys.stderr.write(f"\r\x1b[K{self._done:,}{share} {self._unit}")
        sys.stderr.flush()
