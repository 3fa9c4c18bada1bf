"""Events of one run: numbering, ids, and the payloads of agent events and suspensions.

Ids are made from the run id and a number, never from a clock. Member names of payloads follow the schemas, which are
newer than the prose of the RFCs (`toolName`, not `toolId`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from projector.contracts.kinds import VENDOR

Event: TypeAlias = dict[str, Any]
"""One event of a run, as in `events.toml`."""
Verbosity: TypeAlias = Literal["summary", "full", "off"]

ID_MAX_CHARS: Final = 128
"""Limit for event, run and node ids."""
AGENT_ID_MIN_CHARS: Final = 3
INTERRUPT_KEY_MAX_CHARS: Final = 256
DIGEST_CHARS: Final = 16
"""Digest length in a shortened id: 64 bits, so that two names of one run do not collide."""
SEQUENCE_MAX_CHARS: Final = 20
"""Reserved after the run id in an event id: a colon and the digits of 2**63."""

SUSPENDED: Final = "node.suspended"
"""The event that asks a person."""
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
        event = present(
            eventId=f"{self._prefix}:{self.sequence}",
            runId=self.run_id,
            nodeId=node_id,
            type=event_type,
            payload=payload,
            timestamp=timestamp,
            sequence=self.sequence,
            causationId=causation_id,
        )
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


# payloads

APPROVAL: Final = "approval"
LOW_CONFIDENCE: Final = "low-confidence"
"""Kinds of interrupts."""

APPROVAL_ACTIONS: Final = ("accept", "reject", "refine", "edit-accept")
APPROVAL_SCHEMA: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {
        "action": {"enum": list(APPROVAL_ACTIONS)},
        "comment": {"type": "string"},
        "feedback": {"type": "string"},
        "refineFeedback": {"type": "object", "required": ["scope"]},
        "editedArtifactData": {},
    },
    "required": ["action"],
}
"""JSON Schema of the value that resumes an approval; other interrupts are resumed with any value."""


def reasoning_delta(agent_id: str, delta: str, sequence: int, verbosity: Verbosity) -> dict[str, Any]:
    """Build `agent.reasoning.delta`; `sequence` counts from 0 in each block."""
    return {"agentId": agent_id, "delta": delta, "sequence": sequence, "verbosity": verbosity}


def reasoned(agent_id: str, reasoning: str, verbosity: Verbosity, token_count: int | None = None) -> dict[str, Any]:
    """Build `agent.reasoned`, the full text of a closed block."""
    return present(agentId=agent_id, reasoning=reasoning, verbosity=verbosity, tokenCount=token_count)


def tool_call(agent_id: str, tool_name: str, call_id: str, members: Mapping[str, object]) -> dict[str, Any]:
    """Build `agent.toolCalled` or `agent.toolReturned`; `members` are their other members."""
    return {"agentId": agent_id, "toolName": tool_name, "callId": call_id, **members}


def interrupt_key(run_id: str, node_id: str, number: int) -> str:
    """Return the key of the `number`th interrupt of a node, counted from 0."""
    return shortened(f"{run_id}:{node_id}:{number}", INTERRUPT_KEY_MAX_CHARS)


def suspension(kind: str, node_id: str, interrupt_id: str, key: str, **members: object) -> dict[str, Any]:
    """Build `node.suspended`; `data` describes what to decide, for people who are asked."""
    return {"nodeId": node_id, "interruptId": interrupt_id, "kind": kind, "key": key, "reason": kind, **members}


def interrupt_request(suspension: Mapping[str, Any]) -> dict[str, Any]:
    """Build `interrupt.requested` from the payload of `node.suspended`."""
    return {name: suspension[name] for name in ("kind", "key", "resumeSchema", "data") if name in suspension}
