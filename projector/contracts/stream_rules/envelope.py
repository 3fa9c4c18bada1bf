"""Rules of the envelope over a stream: ids, times, context (seed section 6)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from projector.contracts.public_sse_v1 import PublicEvent
from projector.contracts.stream_rules.table import Breach

_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


def event_id_of(members: Mapping[str, object]) -> int | None:
    """Give the id of an event that may break its model."""
    event_id = members.get("event_id")
    return event_id if isinstance(event_id, int) and not isinstance(event_id, bool) else None


class EnvelopeWatch:
    """Compares each envelope with the ones before it."""

    def __init__(self) -> None:
        self._last_id = 0
        self._timestamp = ""
        self._stream_id: str | None = None
        self._conversation_id: str | None = None

    def see(self, event: PublicEvent, /) -> list[Breach]:
        """Take the next event; return what its envelope breaks."""
        return [
            *self._event_id(event.event_id),
            *self._streams(event.stream_id, event.conversation_id),
            *self._time(event.server_timestamp),
        ]

    def skip(self, members: Mapping[str, object], /) -> None:
        """Take an event that breaks its model: its id still counts, so that one fault is not told twice."""
        self._last_id = event_id_of(members) or self._last_id + 1

    def _event_id(self, event_id: int) -> list[Breach]:
        last, self._last_id = self._last_id, event_id
        if event_id <= last:
            return [Breach("event_id_rises", f"expected an `event_id` over {last}, found {event_id}")]
        if event_id != last + 1:
            return [Breach("event_id_gapless", f"expected `event_id` {last + 1}, found {event_id}")]
        return []

    def _streams(self, stream_id: str, conversation_id: str | None) -> list[Breach]:
        self._stream_id = self._stream_id or stream_id
        self._conversation_id = self._conversation_id or conversation_id
        found = []
        if stream_id != self._stream_id:
            found.append(Breach("one_stream", "expected the `stream_id` of the first event"))
        if conversation_id is not None and conversation_id != self._conversation_id:
            found.append(Breach("one_conversation", "expected the `conversation_id` that was said before"))
        return found

    def _time(self, timestamp: str) -> list[Breach]:
        if not _is_time(timestamp):
            return [Breach("timestamp_form", "expected a time like 2025-12-15T12:00:00.000Z")]
        last, self._timestamp = self._timestamp, timestamp
        if timestamp < last:  # the form makes the order of the text the order of the times
            return [Breach("timestamp_order", "expected a `server_timestamp` not before the last one")]
        return []


def _is_time(timestamp: str) -> bool:
    if _TIMESTAMP.fullmatch(timestamp) is None:
        return False
    try:
        datetime.fromisoformat(timestamp)
    except ValueError:
        return False
    return True
