"""OpenWOP below the wire: the log of a run, its replay, escalation, and a reader for whoever consumes one. Sans I/O.

The dialect `openwop` writes such a log from a model's stream, and a host writes one of its own; both number and name
their events here, so that nothing in a log depends on a clock or on chance.
"""

from __future__ import annotations

from projector.openwop.escalation import DEFAULT_THRESHOLD, is_low
from projector.openwop.log import Event, EventLog, shortened
from projector.openwop.reader import RunReader
from projector.openwop.replay import InvocationLog, attempt_key, divergence, replayed

__all__ = [
    "DEFAULT_THRESHOLD",
    "Event",
    "EventLog",
    "InvocationLog",
    "RunReader",
    "attempt_key",
    "divergence",
    "is_low",
    "replayed",
    "shortened",
]
