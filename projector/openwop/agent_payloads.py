"""Payload builders for agent events and suspensions: the only place where these shapes are written.

Member names follow the schemas, which are newer than the prose of the RFCs (`toolName`, not `toolId`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from projector.openwop.event_log import INTERRUPT_KEY_MAX_CHARS, Verbosity, present, shortened

Payload: TypeAlias = dict[str, Any]

APPROVAL_SCHEMA: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {"action": {"enum": ["accept", "reject"]}, "comment": {"type": "string"}},
    "required": ["action"],
}
"""JSON Schema of the value that resumes an interrupt."""


def reasoning_delta(agent_id: str, delta: str, sequence: int, verbosity: Verbosity) -> Payload:
    """Build `agent.reasoning.delta`; `sequence` counts from 0 in each block."""
    return {"agentId": agent_id, "delta": delta, "sequence": sequence, "verbosity": verbosity}


def reasoned(agent_id: str, reasoning: str, verbosity: Verbosity, token_count: int | None = None) -> Payload:
    """Build `agent.reasoned`, the full text of a closed block."""
    return present(agentId=agent_id, reasoning=reasoning, verbosity=verbosity, tokenCount=token_count)


def tool_called(agent_id: str, tool_name: str, call_id: str, **members: object) -> Payload:
    """Build `agent.toolCalled`; `members` are `inputs`, `transport` and `serverLabel` where known."""
    return {"agentId": agent_id, "toolName": tool_name, "callId": call_id, **members}


def tool_returned(agent_id: str, tool_name: str, call_id: str, **members: object) -> Payload:
    """Build `agent.toolReturned`; `members` are either `outcome` or `error`, and `durationMs`."""
    return {"agentId": agent_id, "toolName": tool_name, "callId": call_id, **members}


def handoff(from_agent_id: str, to_agent_id: str, reason: str | None = None) -> Payload:
    """Build `agent.handoff`."""
    return present(fromAgentId=from_agent_id, toAgentId=to_agent_id, reason=reason)


def decided(agent_id: str, decision: object, confidence: float | None = None) -> Payload:
    """Build `agent.decided`; the decision may be any JSON value, null included."""
    return {"agentId": agent_id, "decision": decision} | present(confidence=confidence)


def interrupt_key(run_id: str, node_id: str, number: int) -> str:
    """Return the key of the `number`th interrupt of a node, counted from 0."""
    return shortened(f"{run_id}:{node_id}:{number}", INTERRUPT_KEY_MAX_CHARS)


def low_confidence(
    node_id: str, interrupt_id: str, key: str, agent_id: str, *, threshold: float, observed: float, decision: object
) -> Payload:
    """Build `node.suspended` for a decision below the threshold: the schema's members and those of RFC 0023."""
    known = {"agentId": agent_id, "threshold": threshold, "observed": observed}
    return {
        "nodeId": node_id,
        "interruptId": interrupt_id,
        "kind": "low-confidence",
        "key": key,
        "reason": "low-confidence",
        **known,
        "resumeSchema": APPROVAL_SCHEMA,
        "data": {**known, "decision": decision},
    }


def approval(
    node_id: str,
    interrupt_id: str,
    key: str,
    agent_id: str,
    *,
    call_id: str,
    tool_name: str,
    details: Mapping[str, object],
) -> Payload:
    """Build `node.suspended` for a tool call that needs approval; `details` is what else may be shown of the call."""
    return {
        "nodeId": node_id,
        "interruptId": interrupt_id,
        "kind": "approval",
        "key": key,
        "reason": "approval",
        "agentId": agent_id,
        "resumeSchema": APPROVAL_SCHEMA,
        "data": {
            "artifactId": call_id,
            "artifactType": "public-sse.tool-call",
            "title": f"Approve the call of {tool_name}?",
            "artifactData": {"toolName": tool_name, **details},
            "actions": ["accept", "reject"],
        },
    }
