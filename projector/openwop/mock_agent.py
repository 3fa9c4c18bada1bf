"""`core.conformance.mock-agent`: what a node of this type says, from its configuration alone (RFC 0023 B, RFC 0024).

The order is the RFC's: reasoning, pairs of tool call and return, handoff, decision, and then the suspension where the
decision is not sure enough. `trace` of the reasoning, `context` of a handoff and `reasoning` of a decision may be
configured and are not said: no event has a place for them.
"""

from __future__ import annotations

from typing import Any, Final

from projector.openwop import agents
from projector.openwop.contract.documents import ErrorBody
from projector.openwop.contract.mock_agent import MockAgentConfig, MockHandoff, MockReasoning, MockToolCall
from projector.openwop.log import present
from projector.openwop.plan import Decision, Node, Run, Step, decision, shown

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
        said.append(_handoff(config.mock_handoff, node, agent_id, run))
    decided = _decision(config)
    return said if decided is None else said + decision(run, node, agent_id, decided)


def _reasoning(config: bool | MockReasoning | None, node: Node, agent_id: str, run: Run) -> list[Step]:  # noqa: FBT001 - as the schema has it
    """Give a delta for each chunk, then the whole block; both of the same clean text (RFC 0024)."""
    if not config or run.verbosity == "off":
        return []
    whole = STUB_REASONING if config is True else config.summary
    chunks = (config.stream_chunks or []) if isinstance(config, MockReasoning) else []
    pieces = _bounded(_clean(chunks or [whole], run), run)
    said = [
        Step("agent.reasoning.delta", agents.reasoning_delta(agent_id, piece, sequence, run.verbosity), node.node_id)
        for sequence, piece in enumerate(pieces if chunks else [])
    ]
    tokens = config.token_count if isinstance(config, MockReasoning) else None
    closing = agents.reasoned(agent_id, "".join(pieces), run.verbosity, tokens)
    return [*said, Step("agent.reasoned", closing, node.node_id)]


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
    names = (agent_id, run.redactor.label(call.tool_id).value, call_id)
    inputs: dict[str, Any] = {}
    if "arguments" in call.model_fields_set:
        inputs["inputs"] = shown(call.arguments, run)
    outcome = present(durationMs=call.duration_ms)
    if call.error is None:
        outcome["outcome"] = shown(call.result, run)
    else:
        outcome["error"] = _error(call.error, run)
    return [
        Step("agent.toolCalled", agents.tool_called(*names, **inputs), node.node_id),
        Step("agent.toolReturned", agents.tool_returned(*names, **outcome), node.node_id, answers=at),
    ]


def _error(error: ErrorBody, run: Run) -> dict[str, Any]:
    """Give an error of the configuration in the words of events."""
    details = None if error.details is None else shown(error.details, run)
    return present(
        code=run.redactor.label(error.error).value, message=run.redactor.text(error.message).value, details=details
    )


def _handoff(handoff: MockHandoff, node: Node, agent_id: str, run: Run) -> Step:
    reason = None if handoff.reason is None else run.redactor.text(handoff.reason).value
    return Step(
        "agent.handoff", agents.handoff(agent_id, run.redactor.identifier(handoff.to_agent_id), reason), node.node_id
    )


def _decision(config: MockAgentConfig) -> Decision | None:
    """Give what is decided; the bare confidence counts only where there is no decision."""
    if config.mock_decision is not None:
        return Decision(config.mock_decision.decision, config.mock_decision.confidence)
    return None if config.mock_confidence is None else Decision(STUB_DECISION, config.mock_confidence)
