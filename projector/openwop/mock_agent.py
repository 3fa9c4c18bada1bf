"""`core.conformance.mock-agent`: what a node of this type says, from its configuration alone (RFC 0023 B, RFC 0024).

The order is the RFC's: reasoning, pairs of tool call and return, handoff, decision, and then the suspension where the
decision is not sure enough. `trace` and `tokenCount` of the reasoning, `context` of a handoff and `reasoning` of a
decision may be configured and are not said: no event has a place for them.
"""

from __future__ import annotations

from typing import Any, Final

from contracts.openwop.mock_agent import MockAgentConfig, MockReasoning, MockToolCall
from projector.openwop.plan import Decision, Node, Run, Step, decision

TYPE_ID: Final = "core.conformance.mock-agent"

STUB_REASONING: Final = "A stand-in for reasoning: this agent is configured, it does not think."
"""What `mockReasoning: true` says."""
STUB_DECISION: Final = {"kind": "mock"}
"""What an agent decides that is configured with a confidence only."""

TOKEN_LIMIT: Final = 512
"""How many tokens of reasoning `summary` tells, as the protocol has it by default."""
CHARS_PER_TOKEN: Final = 4
"""What tokenizers make of English, about."""


def plan(config: MockAgentConfig, node: Node, run: Run) -> list[Step]:
    """Give what the node says between its beginning and its end."""
    agent_id = run.redactor.identifier(config.agent_id or node.agent_id or f"host:mock-agent:{node.node_id}")
    said = _reasoning(config.mock_reasoning, node, agent_id, run)
    for position, call in enumerate(config.mock_tool_calls or ()):
        said += _tool_pair(call, f"call_{node.node_id}_{position}", node, agent_id, run, at=len(said))
    if config.mock_handoff is not None:
        said.append(_handoff(config, node, agent_id, run))
    decided = _decision(config)
    return said if decided is None else said + decision(run, node, agent_id, decided)


def _reasoning(config: bool | MockReasoning | None, node: Node, agent_id: str, run: Run) -> list[Step]:
    """Give a delta for each chunk, then the whole block; both of the same clean text (RFC 0024)."""
    if not config or run.verbosity == "off":
        return []
    whole = STUB_REASONING if config is True else config.summary
    chunks = (config.stream_chunks or []) if isinstance(config, MockReasoning) else []
    pieces = _bounded(_clean(chunks or [whole], run), run)
    common = {"agentId": agent_id, "verbosity": run.verbosity}
    deltas = [
        Step("agent.reasoning.delta", {**common, "delta": piece, "sequence": sequence}, node.node_id)
        for sequence, piece in enumerate(pieces if chunks else [])
    ]
    return [*deltas, Step("agent.reasoned", {**common, "reasoning": "".join(pieces)}, node.node_id)]


def _clean(chunks: list[str], run: Run) -> list[str]:
    """Withhold what the policy withholds, also where it is cut; a piece holds what is certain when it is said."""
    stream = run.redactor.message_stream()
    pieces: list[str] = [stream.feed(chunk).value for chunk in chunks]
    pieces[-1] += stream.close().value
    return pieces


def _bounded(pieces: list[str], run: Run) -> list[str]:
    """Cut what a summary leaves out, in the deltas as in the whole: no delta shows what its block withholds."""
    if run.verbosity != "summary":
        return pieces
    room = TOKEN_LIMIT * CHARS_PER_TOKEN
    kept = []
    for piece in pieces:
        kept.append(piece[:room])
        room -= len(kept[-1])
    return kept


def _tool_pair(call: MockToolCall, call_id: str, node: Node, agent_id: str, run: Run, *, at: int) -> list[Step]:
    """Give a call and its return; the return answers the call."""
    name = run.redactor.label(call.tool_id).value
    common = {"agentId": agent_id, "toolName": name, "callId": call_id}
    called: dict[str, Any] = dict(common)
    if "arguments" in call.model_fields_set:
        called["inputs"] = _shown(call.arguments, run)
    returned: dict[str, Any] = dict(common)
    if call.error is not None:
        returned["error"] = {"code": call.error.error, "message": run.redactor.text(call.error.message).value}
        if call.error.details is not None:
            returned["error"]["details"] = _shown(call.error.details, run)
    else:
        returned["outcome"] = _shown(call.result, run)
    if call.duration_ms is not None:
        returned["durationMs"] = call.duration_ms
    return [
        Step("agent.toolCalled", called, node.node_id),
        Step("agent.toolReturned", returned, node.node_id, answers=at),
    ]


def _shown(value: object, run: Run) -> object:
    return run.redactor.json(value, string_max_chars=run.redactor.policy.limits.output_string_max_chars).value


def _handoff(config: MockAgentConfig, node: Node, agent_id: str, run: Run) -> Step:
    handoff = config.mock_handoff
    assert handoff is not None  # noqa: S101 - asked by who calls this
    payload = {"fromAgentId": agent_id, "toAgentId": run.redactor.identifier(handoff.to_agent_id)}
    if handoff.reason is not None:
        payload["reason"] = run.redactor.text(handoff.reason).value
    return Step("agent.handoff", payload, node.node_id)


def _decision(config: MockAgentConfig) -> Decision | None:
    """Give what is decided; the bare confidence counts only where there is no decision."""
    if config.mock_decision is not None:
        return Decision(config.mock_decision.decision, config.mock_decision.confidence)
    return None if config.mock_confidence is None else Decision(STUB_DECISION, config.mock_confidence)
