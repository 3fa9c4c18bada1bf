"""Event log of one run: numbers and names its events. Ids are made from the run id and a number, never from a clock."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

Event: TypeAlias = dict[str, Any]
"""One event of a run, as in `projector.openwop.contract.events`."""
Verbosity: TypeAlias = Literal["summary", "full", "off"]

VENDOR: Final = "public-sse"
"""Prefix of our own event types and members."""
ID_MAX_CHARS: Final = 128
"""Limit for event, run and node ids."""
AGENT_ID_MIN_CHARS: Final = 3
INTERRUPT_KEY_MAX_CHARS: Final = 256
DIGEST_CHARS: Final = 16
"""Digest length in a shortened id: 64 bits, so that two names of one run do not collide."""
SEQUENCE_MAX_CHARS: Final = 20
"""Reserved behind the run id in an event id: a colon and the digits of 2**63."""

RUN_TERMINALS: Final = frozenset({"run.completed", "run.failed", "run.cancelled"})
NODE_TERMINALS: Final = frozenset({"node.completed", "node.failed", "node.cancelled"})

SUMMARY_MAX_TOKENS: Final = 512
"""Default limit of the protocol for a reasoning summary."""
SUMMARY_MAX_CHARS: Final = SUMMARY_MAX_TOKENS * 4
"""Four characters per token, an approximation for English text; only the provider can count tokens."""

DEFAULT_THRESHOLD: Final = 0.7
"""Confidence below which a decision is suspended for approval (RFC 0002 section F)."""


class EventLog:
    """Factory of the events of one run, with consecutive sequence numbers from 0. Ids over the limit are shortened."""

    def __init__(self, run_id: str) -> None:
        self.run_id = shortened(run_id)
        self.sequence = 0
        """Sequence number of the next event."""
        self._prefix = shortened(run_id, ID_MAX_CHARS - SEQUENCE_MAX_CHARS)

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
        """Create the next event; members without a value are omitted."""
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
    """Return the name, or its beginning and a digest of all of it if it exceeds the limit."""
    if len(name) <= max_chars:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:DIGEST_CHARS]
    return f"{name[: max_chars - DIGEST_CHARS - 1]}-{digest}"


def agent_id(name: str) -> str:
    """Return the id of an agent; names shorter than the protocol's three characters get a prefix."""
    return name if len(name) >= AGENT_ID_MIN_CHARS else f"agent:{name}"


def present(**members: object) -> dict[str, Any]:
    """Return the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def is_low(confidence: object, threshold: float) -> bool:
    """Return whether a confidence is a finite number below the threshold (`interrupt.md` CP-1)."""
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        return False
    return math.isfinite(confidence) and confidence < threshold
