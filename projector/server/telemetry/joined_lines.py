"""Log lines that anybody can cause in any number: the first is written at once, those that follow are joined."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Final

from projector.server.telemetry.logs import log

REPORT_S: Final = 10.0
"""Seconds between two lines with the same reason: a flood of connections must not become a flood of lines."""


class JoinedLines:
    """Lines of one event, with a `reason` of a bounded set, and the `count` of what they stand for."""

    def __init__(self, event: str, levels: Mapping[str, int] | None = None) -> None:
        self._event = event
        self._levels = levels or {}
        self._unreported: Counter[str] = Counter()
        self._recent: set[str] = set()

    def add(self, reason: str) -> None:
        """Write a line now, or count it in the next one if the last is recent. Requires a running event loop."""
        self._unreported[reason] += 1
        if reason not in self._recent:
            self._write(reason)

    def _write(self, reason: str) -> None:
        self._recent.discard(reason)
        count = self._unreported.pop(reason, 0)
        if count:
            log.log(self._levels.get(reason, logging.INFO), self._event, reason=reason, count=count)
            self._recent.add(reason)
            asyncio.get_running_loop().call_later(REPORT_S, self._write, reason)
