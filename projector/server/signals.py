"""Signals of the server process. Handlers only record them: the log and the event loop must not be used there."""

from __future__ import annotations

import signal
from collections import deque
from types import FrameType
from typing import Final

_IGNORED: Final = tuple(
    number
    for name in ("SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR")
    if (number := getattr(signal, name, None)) is not None
)
"""Signals without a meaning here. By default they end the process at once, and with it all streams."""
RELOAD: Final[signal.Signals | None] = getattr(signal, "SIGHUP", None)
"""Signal that requests a reload; None on Windows."""
_KEPT_MAX: Final = 16


class ReceivedSignals:
    """The signals that arrived and were not handled yet, except those that end the server."""

    def __init__(self) -> None:
        self._received: deque[signal.Signals] = deque(maxlen=_KEPT_MAX)

    def install(self, *, with_reload: bool) -> None:
        """Record these signals from now on. Called in the main thread."""
        for number in _IGNORED:
            signal.signal(number, self._record)
        if with_reload and RELOAD is not None:
            signal.signal(RELOAD, self._record)

    def take(self) -> list[signal.Signals]:
        """Return the new signals, each once, in the order of their arrival."""
        found: dict[signal.Signals, None] = {}
        while self._received:
            found[self._received.popleft()] = None
        return list(found)

    def _record(self, number: int, _frame: FrameType | None) -> None:
        self._received.append(signal.Signals(number))
