"""When an upstream has taken too long. No clock here: every method is told the time, in seconds."""

from __future__ import annotations

from math import inf

from projector.server.config.settings import Timeouts


class Deadlines:
    """The limits of one stream: first byte, idle, total. While the client is what we wait for, idle stands still."""

    def __init__(self, timeouts: Timeouts, now: float) -> None:
        self._timeouts = timeouts
        self._total_at = now + timeouts.total_s
        self._first_byte_at = inf
        self._idle_at = inf

    def on_attempt(self, now: float) -> None:
        """Note that the upstream is asked, perhaps again."""
        self._first_byte_at = now + self._timeouts.first_byte_s

    def on_pause(self) -> None:
        """Note that the upstream is not asked for a while."""
        self._first_byte_at = inf

    def on_bytes(self) -> None:
        """Note that the upstream spoke: whatever is waited for next, it is not the upstream."""
        self._first_byte_at = inf
        self._idle_at = inf

    def on_wait(self, now: float) -> None:
        """Note that the upstream is waited for again."""
        self._idle_at = now + self._timeouts.idle_s

    def next(self) -> tuple[float, str]:
        """Give the limit that comes first: when, and the code of the fault that it is."""
        return min(
            (self._total_at, "upstream_timeout_total"),
            (self._first_byte_at, "upstream_timeout_first_byte"),
            (self._idle_at, "upstream_timeout_idle"),
        )
