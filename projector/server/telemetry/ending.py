"""What is recorded of the end of a stream: the fields of its log line, and the record beside its frames in the store.

Neither has a payload. The record is made when the terminal exists, before the last bytes are sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.contracts import codec
from projector.server.telemetry.labels import event_label
from projector.server.telemetry.request_facts import CALLER_MAX_CHARS
from projector.server.telemetry.stream_stats import StreamStats


def line_of(stats: StreamStats) -> dict[str, object]:
    """Return the fields of the log line: IDs, names and numbers, no payload."""
    return {
        "stream_id": stats.stream_id,
        "request_id": stats.request_id,
        "trace_id": stats.trace.trace_id,
        "caller": stats.caller[:CALLER_MAX_CHARS],
        "route": stats.route,
        "status": stats.status,
        "agent": stats.agent,
        "workflow": stats.workflow,
        "workflow_run_id": stats.workflow_run_id,
        "upstream": stats.upstream or None,
        "model": stats.model or None,
        "dialect": stats.dialect,
        "response_id": stats.terminal.get("response_id"),
        "outcome": stats.outcome,
        "code": stats.code,
        "reason": stats.reason,
        "duration_s": round(stats.duration_s, 3),
        "first_byte_s": None if stats.first_byte_s is None else round(stats.first_byte_s, 3),
        "first_token_s": None if stats.first_token_s is None else round(stats.first_token_s, 3),
        "overhead_s": round(stats.overhead_s, 6),
        "events": stats.terminal.get("event_id"),
        "heartbeats": stats.heartbeats,
        "notices": dict(stats.notices) or None,
        **stats.usage,
    }


_IN_HEAD: Final = frozenset({"stream_id", "trace_id", "caller", "dialect", "notices"})
"""Fields that a stored stream has anyway, that are of use in a log only, or that have another name in the record."""


def ending_of(stats: StreamStats, dropped: Mapping[str, int]) -> bytes:
    """Return the record of a stream that has its terminal, as JSON.

    It has the fields of the log line, and counts: `withheld` by the type of notices, `dropped` by the type of provider
    events that were not forwarded.
    """
    line = {name: value for name, value in line_of(stats).items() if value is not None and name not in _IN_HEAD}
    known: dict[str, int] = {}
    for name, times in dropped.items():
        known[event_label(name)] = known.get(event_label(name), 0) + times
    return codec.dumps_to_keep({**line, "withheld": stats.notices, "dropped": known})
