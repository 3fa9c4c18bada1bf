"""The log of one run: what numbers and names its events. Every id is made of the run's own id and a number."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from projector.openwop.contract.parts import AGENT_ID_MIN_CHARS, ID_MAX_CHARS, VENDOR

Event: TypeAlias = dict[str, Any]
"""One event of a run; `projector.openwop.contract` says what it may hold."""

DIGEST_CHARS: Final = 16
"""Of a shortened id: 64 bits, so that no two names of one run meet."""

SEQUENCE_ROOM_CHARS: Final = 20
"""Behind the run in the id of an event: a colon and the digits of 2**63."""


class EventLog:
    """Makes the events of one run, numbered from 0 by one; a longer id than the protocol allows is shortened."""

    def __init__(self, run_id: str) -> None:
        self.run_id = shortened(run_id)
        self.sequence = 0
        """The number of the next event."""
        self._prefix = shortened(run_id, ID_MAX_CHARS - SEQUENCE_ROOM_CHARS)

    def event(
        self,
        event_type: str,
        payload: Mapping[str, object],
        *,
        timestamp: str,
        node_id: str | None = None,
        causation_id: str | None = None,
        notices: object = None,
    ) -> Event:
        """Give the next event, with the members that have a value."""
        event: Event = {"eventId": f"{self._prefix}:{self.sequence}", "runId": self.run_id}
        if node_id is not None:
            event["nodeId"] = node_id
        event |= {"type": event_type, "payload": payload, "timestamp": timestamp, "sequence": self.sequence}
        if causation_id is not None:
            event["causationId"] = causation_id
        if notices:
            event[f"{VENDOR}.notices"] = notices
        self.sequence += 1
        return event


def shortened(name: str, max_chars: int = ID_MAX_CHARS) -> str:
    """Give a name that fits; of a longer one the beginning, and a digest of all of it."""
    if len(name) <= max_chars:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:DIGEST_CHARS]
    return f"{name[: max_chars - DIGEST_CHARS - 1]}-{digest}"


def agent_id(name: str) -> str:
    """Give the id of an agent by its name; the protocol wants three characters."""
    return name if len(name) >= AGENT_ID_MIN_CHARS else f"agent:{name}"


def present(**members: object) -> dict[str, Any]:
    """Give the members of a payload that have a value."""
    return {name: value for name, value in members.items() if value is not None}
