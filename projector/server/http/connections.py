"""The open connections of a listener: their limits, and a report of those that the server closes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from projector.server.config.settings import Limits
from projector.server.telemetry.logs import JoinedLines

TOO_MANY: Final = "limit"
TOO_MANY_OF_ADDRESS: Final = "address_limit"
SLOW_HEAD: Final = "slow_head"
REASONS: Final = frozenset({TOO_MANY, TOO_MANY_OF_ADDRESS, SLOW_HEAD})
"""Why the server closes a connection without a request: a limit, or a head that did not arrive in time."""
_LEVELS: Final = {TOO_MANY: logging.WARNING, TOO_MANY_OF_ADDRESS: logging.WARNING}
"""Levels of the log lines. Browsers open connections ahead, and may not use them, so a slow head is no warning."""


class _Silent(Protocol):
    """A connection that has not sent a whole head of a request."""

    def give_way(self) -> None:
        """Close the connection."""


class Connections:
    """The open connections of one listener. `on_closed` is called with the reason for each that the server closes."""

    def __init__(self, limits: Limits, on_closed: Callable[[str], None]) -> None:
        self._limits = limits
        self._on_closed = on_closed
        self._by_address: Counter[str] = Counter()
        self._closed = JoinedLines("connections_closed", _LEVELS)
        self.malformed = JoinedLines("malformed_http")
        """Log lines about bytes that are no request."""
        self.silent: dict[_Silent, None] = {}
        """Admitted connections without a request, the oldest first; they are closed if there is no room for another."""
        self.open = 0
        """Number of connections."""

    def set_limits(self, limits: Limits) -> None:
        """Use other limits for new connections."""
        self._limits = limits

    def admit(self, address: str) -> bool:
        """Count a new connection of an address, and return True; return False if a limit is reached."""
        of_address = self._limits.max_connections_per_address
        if of_address is not None and self._by_address[address] >= of_address:
            self.report(TOO_MANY_OF_ADDRESS)
            return False
        if self.open >= self._limits.connections:
            self.report(TOO_MANY)
            oldest = next(iter(self.silent), None)
            if oldest is None:
                return False
            del self.silent[oldest]
            oldest.give_way()
        self.open += 1
        self._by_address[address] += 1
        return True

    def release(self, address: str) -> None:
        """Remove a connection that was admitted."""
        self.open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def report(self, reason: str) -> None:
        """Record a connection that the server closes."""
        self._on_closed(reason)
        self._closed.add(reason)
