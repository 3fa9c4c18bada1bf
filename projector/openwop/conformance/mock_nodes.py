"""Node types with configured output: `core.conformance.mock-agent` and the hooks of `core.orchestrator.supervisor`.

A node is planned as a list of steps before the run starts. A host writes each step as an event; at `node.suspended` it
waits for an answer. Event order is that of RFC 0023 section B: reasoning, pairs of tool call and result, handoff,
decision, suspension if the confidence is low. `trace` of the reasoning, `context` of a handoff and `reasoning` of a
decision are valid configuration without an event member.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import Field, JsonValue, model_validator

from projector.contracts.parts import Count, Maybe
from projector.openwop import event_log
from projector.openwop.contract.documents import ErrorBody
from projector.openwop.contract.payloads import Name, OpenWopModel, Share
from projector.openwop.event_log import (
    AGENT_ID_MIN_CHARS,
    DEFAULT_THRESHOLD,
    SUMMARY_MAX_CHARS,
    Verbosity,
    is_low,
    present,
)
from projector.redaction.redactor import Redactor

MOCK_AGENT: Final = "core.conformance.mock-agent"
SUPERVISOR: Final = "core.orchestrator.supervisor"

STUB_REASONING: Final = "Configured reasoning of a mock agent."
"""Text of `mockReasoning: true`."""
STUB_DECISION: Final = {"kind": "mock"}
"""Decision of an agent that is configured with a confidence only."""

_WORKER_ID_MAX_CHARS: Final = 256

AgentName: TypeAlias = Annotated[str, Field(min_length=AGENT_ID_MIN_CHARS)]
WorkerId: TypeAlias = Annotated[str, Field(min_length=1, max_length=_WORKER_ID_MAX_CHARS)]


class Step(NamedTuple):
    """One event to be emitted."""

    type: str
    payload: Mapping[str, Any]
    node_id: str | None = None
    cause: int | None = None
    """Index of the step that caused it: in the plan of a node, then in that of the run."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """Properties of a run that its plan depends on; a decision with a confidence below `threshold` is suspended."""

    run_id: str
    redactor: Redactor
    threshold: float = DEFAULT_THRESHOLD
    verbosity: Verbosity = "full"

    def clean(self, value: object) -> object:
        """Return a JSON value after redaction."""
        return self.redactor.json(value, string_max_chars=self.redactor.policy.limits.output_string_max_chars).value


class PlannedNode(NamedTuple):
    """A node and the agent it is pinned to, if any."""

    node_id: str
    agent_id: str | None = None


def _decision_steps(
    run: PlannedRun, node: PlannedNode, agent_id: str, decision: object, confidence: float | None, *, at: int = 0
) -> list[Step]:
    """Plan `agent.decided`, and a suspension if the confidence is low (RFC 0023 section B, step 4).

    `at` is the number of steps of the node before them.
    """
    value = run.clean(decision)
    steps = [Step("agent.decided", event_log.decided(agent_id, value, confidence), node.node_id)]
    if confidence is not None and is_low(confidence, run.threshold):
        suspension = event_log.low_confidence(
            node.node_id,
            f"int_{run.run_id}_{node.node_id}",
            event_log.interrupt_key(run.run_id, node.node_id, 0),
            agent_id,
            threshold=run.threshold,
            observed=confidence,
            decision=value,
        )
        request = event_log.interrupt_request(suspension)
        steps.append(Step("node.suspended", suspension, node.node_id))
        steps.append(Step("interrupt.requested", request, node.node_id, cause=at + 1))
    return steps


class MockReasoning(OpenWopModel):
    """Reasoning: the summary, or the chunks if there are any."""

    summary: str
    trace: Maybe[str] = None
    token_count: Maybe[Count] = None
    stream_chunks: Maybe[list[str]] = None


class MockToolCall(OpenWopModel):
    """A tool call with its result or error; one of them is required."""

    tool_id: Name
    arguments: JsonValue = None
    result: JsonValue = None
    error: Maybe[ErrorBody] = None
    duration_ms: Maybe[Count] = None

    @model_validator(mode="after")
    def _has_an_end(self) -> MockToolCall:
        if not {"result", "error"} & self.model_fields_set:
            raise ValueError("expected `result` or `error`")
        return self


class MockHandoff(OpenWopModel):
    """A handoff to another agent."""

    to_agent_id: AgentName
    reason: Maybe[str] = None
    context: JsonValue = None


class MockDecision(OpenWopModel):
    """A decision and its confidence."""

    decision: JsonValue
    confidence: Maybe[Share] = None
    reasoning: Maybe[str] = None


class MockAgentConfig(OpenWopModel):
    """Configuration of a mock agent; `mock_confidence` applies if there is no `mock_decision`."""

    agent_id: Maybe[AgentName] = None
    mock_reasoning: Maybe[bool | MockReasoning] = None
    mock_tool_calls: Maybe[list[MockToolCall]] = None
    mock_handoff: Maybe[MockHandoff] = None
    mock_decision: Maybe[MockDecision] = None
    mock_confidence: Maybe[Share] = None

    def plan(self, node: PlannedNode, run: PlannedRun) -> list[Step]:
        """Plan the events of the node between its start and its end."""
        agent_id = run.redactor.identifier(self.agent_id or node.agent_id or f"host:mock-agent:{node.node_id}")
        steps = self._reasoning(node, agent_id, run)
        for position, call in enumerate(self.mock_tool_calls or ()):
            steps += _call_steps(call, f"call_{node.node_id}_{position}", node, agent_id, run, at=len(steps))
        if (handoff := self.mock_handoff) is not None:
            reason = None if handoff.reason is None else run.redactor.text(handoff.reason).value
            payload = event_log.handoff(agent_id, run.redactor.identifier(handoff.to_agent_id), reason)
            steps.append(Step("agent.handoff", payload, node.node_id))
        if (decided := self.mock_decision) is not None:
            steps += _decision_steps(run, node, agent_id, decided.decision, decided.confidence, at=len(steps))
        elif self.mock_confidence is not None:
            steps += _decision_steps(run, node, agent_id, STUB_DECISION, self.mock_confidence, at=len(steps))
        return steps

    def _reasoning(self, node: PlannedNode, agent_id: str, run: PlannedRun) -> list[Step]:
        """Plan a delta for each chunk, then the closing event, both of the same clean text (RFC 0024)."""
        config = self.mock_reasoning
        if not config or run.verbosity == "off":
            return []
        text = STUB_REASONING if config is True else config.summary
        chunks = (config.stream_chunks or []) if isinstance(config, MockReasoning) else []
        pieces = _truncated(_cleaned(chunks or [text], run), run)
        steps = [
            Step("agent.reasoning.delta", event_log.reasoning_delta(agent_id, piece, at, run.verbosity), node.node_id)
            for at, piece in enumerate(pieces if chunks else [])
        ]
        tokens = config.token_count if isinstance(config, MockReasoning) else None
        closing = event_log.reasoned(agent_id, "".join(pieces), run.verbosity, tokens)
        return [*steps, Step("agent.reasoned", closing, node.node_id)]


def _cleaned(chunks: list[str], run: PlannedRun) -> list[str]:
    """Redact the chunks as one text; a chunk holds back what may become a secret in the next."""
    stream = run.redactor.message_stream()
    pieces: list[str] = [stream.feed(chunk).value for chunk in chunks]
    pieces[-1] += stream.close().value
    return pieces


def _truncated(pieces: list[str], run: PlannedRun) -> list[str]:
    if run.verbosity != "summary":
        return pieces
    room = SUMMARY_MAX_CHARS
    kept = []
    for piece in pieces:
        kept.append(piece[:room])
        room -= len(kept[-1])
    return kept


def _call_steps(
    call: MockToolCall, call_id: str, node: PlannedNode, agent_id: str, run: PlannedRun, *, at: int
) -> list[Step]:
    ids = (agent_id, run.redactor.label(call.tool_id).value, call_id)
    inputs: dict[str, Any] = {"inputs": run.clean(call.arguments)} if "arguments" in call.model_fields_set else {}
    result = present(durationMs=call.duration_ms)
    if call.error is None:
        result["outcome"] = run.clean(call.result)
    else:
        result["error"] = present(
            code=run.redactor.label(call.error.error).value,
            message=run.redactor.text(call.error.message).value,
            details=None if call.error.details is None else run.clean(call.error.details),
        )
    return [
        Step("agent.toolCalled", event_log.tool_call(*ids, **inputs), node.node_id),
        Step("agent.toolReturned", event_log.tool_call(*ids, **result), node.node_id, cause=at),
    ]


class NextWorker(OpenWopModel):
    """Decision to run other nodes."""

    kind: Literal["next-worker"]
    next_worker_ids: Annotated[list[WorkerId], Field(min_length=1)]
    confidence: Maybe[Share] = None


class AskUser(OpenWopModel):
    """Decision to ask the user."""

    kind: Literal["ask-user"]
    prompt: Name


class Criterion(OpenWopModel):
    """A success criterion."""

    key: Name
    met: bool


class Terminate(OpenWopModel):
    """Decision to end the run."""

    kind: Literal["terminate"]
    reason: Maybe[Name] = None
    confidence: Maybe[Share] = None
    success_criteria: Maybe[list[Criterion]] = None


PendingDecision: TypeAlias = Annotated[NextWorker | AskUser | Terminate, Field(discriminator="kind")]


class SupervisorConfig(OpenWopModel):
    """Configuration of a supervisor: a decision, a confidence that overrides its own, or both (RFC 0023 section C)."""

    mock_confidence: Maybe[Share] = None
    mock_pending_decision: Maybe[PendingDecision] = None

    @model_validator(mode="after")
    def _has_a_hook(self) -> SupervisorConfig:
        if self.mock_confidence is None and self.mock_pending_decision is None:
            raise ValueError("expected `mockConfidence` or `mockPendingDecision`: supervisors are mocked on this host")
        return self

    def plan(self, node: PlannedNode, run: PlannedRun) -> list[Step]:
        """Plan the events of the node between its start and its end."""
        agent_id = run.redactor.identifier(node.agent_id or f"host:supervisor:{node.node_id}")
        decided = self.mock_pending_decision or Terminate(kind="terminate")
        confidence = getattr(decided, "confidence", None) if self.mock_confidence is None else self.mock_confidence
        decision = decided.model_dump(mode="json", by_alias=True, exclude_none=True)
        return _decision_steps(run, node, agent_id, decision, confidence)


NodeConfig: TypeAlias = MockAgentConfig | SupervisorConfig

NODE_TYPES: Final[Mapping[str, type[NodeConfig]]] = {MOCK_AGENT: MockAgentConfig, SUPERVISOR: SupervisorConfig}
"""Node type -> its configuration."""
