"""Payloads of the events of agents and of what they wait for: the only place where their shapes are written.

Field names are those of the schemas, which the prose of the RFCs is behind of (`toolName`, not `toolId`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from projector.openwop.contract.parts import KEY_MAX_CHARS, Verbosity
from projector.openwop.log import present, shortened

Payload: TypeAlias = dict[str, Any]

APPROVAL_SCHEMA: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {"action": {"enum": ["accept", "reject"]}, "comment": {"type": "string"}},
    "required": ["action"],
}
"""What the answer to an interrupt looks like, as JSON Schema."""


def reasoning_delta(agent_id: str, delta: str, sequence: int, verbosity: Verbosity) -> Payload:
    """More of an open block; `sequence` counts from 0 in each block."""
    return {"agentId": agent_id, "delta": delta, "sequence": sequence, "verbosity": verbosity}


def reasoned(agent_id: str, reasoning: str, verbosity: Verbosity, token_count: int | None = None) -> Payload:
    """All of a block that is closed now."""
    return present(agentId=agent_id, reasoning=reasoning, verbosity=verbosity, tokenCount=token_count)


def tool_called(agent_id: str, tool_name: str, call_id: str, **members: object) -> Payload:
    """A call; `members` are `inputs`, `transport`, `serverLabel` where they are known."""
    return {"agentId": agent_id, "toolName": tool_name, "callId": call_id, **members}


def tool_returned(agent_id: str, tool_name: str, call_id: str, **members: object) -> Payload:
    """The end of a call; `members` are `outcome` or `error`, never both, and `durationMs`."""
    return {"agentId": agent_id, "toolName": tool_name, "callId": call_id, **members}


def handoff(from_agent_id: str, to_agent_id: str, reason: str | None = None) -> Payload:
    """Another agent goes on."""
    return present(fromAgentId=from_agent_id, toAgentId=to_agent_id, reason=reason)


def decided(agent_id: str, decision: object, confidence: float | None = None) -> Payload:
    """A decision, which may be any value; a confidence where there is one."""
    return {"agentId": agent_id, "decision": decision} | present(confidence=confidence)


def interrupt_key(run_id: str, node_id: str, number: int) -> str:
    """Give the key of the `number`th interrupt of a node, counted from 0."""
    return shortened(f"{run_id}:{node_id}:{number}", KEY_MAX_CHARS)


def low_confidence(  # the members of two documents: the schema's, and those that RFC 0023's scenarios read
    node_id: str, interrupt_id: str, key: str, agent_id: str, *, threshold: float, observed: float, decision: object
) -> Payload:
    """A node waits because its agent is not sure enough."""
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
    about: Mapping[str, object],
    actions: Sequence[str] = ("accept", "reject"),
) -> Payload:
    """A node waits for an approval of a call; `about` is what else may be shown of it."""
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
            "artifactData": {"toolName": tool_name, **about},
            "actions": [*actions],
        },
    }
