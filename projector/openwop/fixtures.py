"""The three workflows that the conformance suite runs, by the ids that it knows; what they say is in our own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.openwop import mock_agent


def _fixture(workflow_id: str, name: str, node_id: str, agent_id: str, config: Mapping[str, Any]) -> Mapping[str, Any]:
    node = {
        "id": node_id,
        "typeId": mock_agent.TYPE_ID,
        "name": name,
        "position": {"x": 0, "y": 0},
        "config": config,
        "inputs": {},
        "agent": {"agentId": agent_id, "modelClass": "reasoning"},
    }
    return {
        "id": workflow_id,
        "name": name,
        "version": "1.0",
        "nodes": [node],
        "edges": [],
        "triggers": [{"id": "manual", "type": "manual", "enabled": True}],
        "variables": [],
        "metadata": {"tags": ["conformance"]},
        "settings": {"timeout": 15000},
    }


_REASONING: Final = _fixture(
    "conformance-agent-reasoning",
    "Every event of an agent",
    "reasoner",
    "core.conformance.reasoning-agent",
    {
        "mockReasoning": {"summary": "One tool is enough here; somebody else goes on after it.", "tokenCount": 24},
        "mockToolCalls": [
            {"toolId": "openwop.echo:echo", "arguments": {"x": 1}, "result": {"x": 1}, "durationMs": 1},
        ],
        "mockHandoff": {"toAgentId": "core.conformance.handoff-target", "reason": "demo-handoff"},
        "mockDecision": {"decision": {"next": "done"}, "confidence": 1},
    },
)
_STREAMING: Final = _fixture(
    "conformance-agent-reasoning-streaming",
    "Reasoning while it happens",
    "streaming-reasoner",
    "core.conformance.streaming-reasoner",
    {
        "mockReasoning": {
            "summary": "The question is plain, and so is the answer.",
            "tokenCount": 12,
            "streamChunks": ["What is asked is plain. ", "There is one thing to say. ", "So it is said shortly."],
        },
    },
)
_LOW_CONFIDENCE: Final = _fixture(
    "conformance-agent-low-confidence",
    "A decision that waits for a person",
    "low-conf-decider",
    "core.conformance.low-conf-decider",
    {"mockDecision": {"decision": {"kind": "stub-low-conf"}, "confidence": 0.5}},
)

FIXTURES: Final[Mapping[str, Mapping[str, Any]]] = {
    document["id"]: document for document in (_REASONING, _STREAMING, _LOW_CONFIDENCE)
}
"""Id of a workflow -> its definition, as the protocol writes one."""
