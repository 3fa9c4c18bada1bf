"""Workflows of mock nodes for the conformance suite (RFC 0023 and 0024): definitions, registration, and their events.

Node types are `core.conformance.mock-agent` and the hooks of `core.orchestrator.supervisor`. `trace` of the reasoning,
`context` of a handoff and `reasoning` of a decision are valid configuration without an event member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import Field, JsonValue, ValidationError, field_validator, model_validator

from projector._validation import sentences
from projector.contracts import codec
from projector.contracts.parts import Count, Json, Maybe
from projector.openwop import event_log
from projector.openwop.event_log import ID_MAX_CHARS, SUMMARY_MAX_CHARS, Verbosity, present
from projector.openwop.events import AgentId, Id, Name, OpenWopModel, Share
from projector.redaction.redactor import Redactor

STUB_REASONING: Final = "Configured reasoning of a mock agent."
"""Text of `mockReasoning: true`."""

# configuration of the nodes


class MockReasoning(OpenWopModel):
    """Reasoning: the summary, or the chunks if there are any."""

    summary: str
    trace: Maybe[str] = None
    token_count: Maybe[Count] = None
    stream_chunks: Maybe[list[str]] = None


class MockError(OpenWopModel):
    """Error of a tool call."""

    error: Name
    message: Name
    details: Maybe[Json] = None


class MockToolCall(OpenWopModel):
    """A tool call with its result or error; one of them is required."""

    tool_id: Name
    arguments: JsonValue = None
    result: JsonValue = None
    error: Maybe[MockError] = None
    duration_ms: Maybe[Count] = None

    @model_validator(mode="after")
    def _has_an_end(self) -> MockToolCall:
        if not {"result", "error"} & self.model_fields_set:
            raise ValueError("expected `result` or `error`")
        return self


class MockHandoff(OpenWopModel):
    """A handoff to another agent."""

    to_agent_id: AgentId
    reason: Maybe[str] = None
    context: JsonValue = None


class MockDecision(OpenWopModel):
    """A decision and its confidence."""

    decision: JsonValue
    confidence: Maybe[Share] = None
    reasoning: Maybe[str] = None


class MockAgentConfig(OpenWopModel):
    """Configuration of a mock agent; `mock_confidence` applies if there is no `mock_decision`."""

    agent_id: Maybe[AgentId] = None
    mock_reasoning: Maybe[bool | MockReasoning] = None
    mock_tool_calls: Maybe[list[MockToolCall]] = None
    mock_handoff: Maybe[MockHandoff] = None
    mock_decision: Maybe[MockDecision] = None
    mock_confidence: Maybe[Share] = None

    @property
    def reasoning(self) -> MockReasoning | None:
        """The reasoning, if there is any."""
        one = self.mock_reasoning
        return one if isinstance(one, MockReasoning) else MockReasoning(summary=STUB_REASONING) if one else None

    @property
    def decided(self) -> MockDecision | None:
        """The decision, if there is one."""
        if self.mock_decision is None and self.mock_confidence is not None:
            return MockDecision(decision={"kind": "mock"}, confidence=self.mock_confidence)
        return self.mock_decision


class PendingDecision(OpenWopModel, extra="allow"):
    """Decision of a supervisor: to run other nodes, to ask the user, or to end the run."""

    kind: Literal["next-worker", "ask-user", "terminate"]
    confidence: Maybe[Share] = None


class SupervisorConfig(OpenWopModel):
    """Configuration of a supervisor: a decision, a confidence that overrides its own, or both (RFC 0023 section C)."""

    mock_confidence: Maybe[Share] = None
    mock_pending_decision: Maybe[PendingDecision] = None

    @property
    def decided(self) -> MockDecision:
        """The decision."""
        pending = self.mock_pending_decision or PendingDecision(kind="terminate")
        confidence = pending.confidence if self.mock_confidence is None else self.mock_confidence
        decision = pending.model_dump(mode="json", by_alias=True, exclude_none=True)
        return MockDecision(decision=decision, **present(confidence=confidence))


# definitions


class PinnedAgent(OpenWopModel, extra="ignore"):
    """Agent that a node is pinned to."""

    agent_id: AgentId


class _Node(OpenWopModel, extra="ignore"):
    id: Id
    agent: Maybe[PinnedAgent] = None


class MockAgentNode(_Node):
    """A mock agent."""

    type_id: Literal["core.conformance.mock-agent"]
    config: MockAgentConfig = MockAgentConfig()


class SupervisorNode(_Node):
    """A supervisor."""

    type_id: Literal["core.orchestrator.supervisor"]
    config: SupervisorConfig = SupervisorConfig()


WorkflowNode: TypeAlias = Annotated[MockAgentNode | SupervisorNode, Field(discriminator="type_id")]

NODE_TYPES: Final = frozenset({"core.conformance.mock-agent", "core.orchestrator.supervisor"})


class WorkflowDefinition(OpenWopModel, extra="ignore"):
    """A workflow that may have these nodes (RFC 0023 section B.1).

    Its nodes run in the order of the list, so edges and variables would have no effect.
    """

    id: Annotated[str, Field(pattern=r"^conformance-[a-z0-9_-]+$", max_length=ID_MAX_CHARS)]
    nodes: Annotated[list[WorkflowNode], Field(min_length=1)]
    edges: Annotated[list[Json], Field(default_factory=list, max_length=0)]
    variables: Annotated[list[Json], Field(default_factory=list, max_length=0)]

    @field_validator("nodes")
    @classmethod
    def _have_unique_ids(cls, nodes: list[WorkflowNode]) -> list[WorkflowNode]:
        if len({node.id for node in nodes}) < len(nodes):
            raise ValueError("expected unique ids")
        return nodes


class MockWorkflow(NamedTuple):
    """A workflow that can be run: its definition as published, and its nodes."""

    document: Mapping[str, Any]
    nodes: Sequence[WorkflowNode]


def register(document: Mapping[str, Any]) -> MockWorkflow:
    """Validate a workflow; the message of a `ValueError` names the position, never a configured value."""
    try:
        return MockWorkflow(document, WorkflowDefinition.model_validate(document).nodes)
    except ValidationError as error:
        raise ValueError(sentences(error, document)[0]) from None


def read_workflows(folder: Path) -> dict[str, MockWorkflow]:
    """Return the workflows in the JSON files of a folder, by id.

    Workflows with other node types than `NODE_TYPES` are skipped: a folder of the suite has those of all profiles.

    Raises:
        ValueError: a file cannot be read, or is no valid workflow.
    """
    found: dict[str, MockWorkflow] = {}
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise ValueError("`fixtures_dir`: expected a folder with JSON files")
    for path in paths:
        try:
            document = codec.loads(path.read_bytes())
            types = {node.get("typeId") for node in document["nodes"]}
        except (OSError, codec.CodecError, AttributeError, KeyError, TypeError) as error:
            message = f"`fixtures_dir`: expected a workflow in `{path.name}` ({type(error).__name__})"
            raise ValueError(message) from None
        if types <= NODE_TYPES:
            found[document["id"]] = register(document)
    return found


# events


class Emitter(NamedTuple):
    """Emits the events of one node, in the order of RFC 0023 section B."""

    node: WorkflowNode
    redactor: Redactor
    verbosity: Verbosity
    emit: Callable[..., str]
    """Appends an event to the log of the run, and returns its id."""

    def agent(self) -> str:
        """Emit the reasoning, tool calls and handoff of the node; return the id of its agent."""
        node, config = self.node, self.node.config
        if isinstance(config, SupervisorConfig):
            return f"host:supervisor:{node.id}" if node.agent is None else node.agent.agent_id
        pinned = f"host:mock-agent:{node.id}" if node.agent is None else node.agent.agent_id
        agent_id = config.agent_id or pinned
        if config.reasoning is not None and self.verbosity != "off":
            self._reasoning(config.reasoning, agent_id)
        for position, call in enumerate(config.mock_tool_calls or ()):
            self._call(call, f"call_{node.id}_{position}", agent_id)
        if (handoff := config.mock_handoff) is not None:
            agents = {"fromAgentId": agent_id, "toAgentId": handoff.to_agent_id}
            self._emit("agent.handoff", agents | present(reason=handoff.reason))
        return agent_id

    def decision(self, decided: MockDecision, agent_id: str, run_id: str, threshold: float) -> str | None:
        """Emit a decision, and a suspension if its confidence is low; return the id of the suspension."""
        value, confidence = decided.decision, decided.confidence
        decision = {"agentId": agent_id, "decision": value}
        self._emit("agent.decided", decision | present(confidence=confidence))
        if confidence is None or confidence >= threshold:
            return None
        known = {"agentId": agent_id, "threshold": threshold, "observed": confidence}
        node_id, data = self.node.id, known | {"decision": value}
        key = event_log.interrupt_key(run_id, node_id, 0)
        suspension = event_log.suspension(
            event_log.LOW_CONFIDENCE, node_id, f"int_{run_id}_{node_id}", key, **known, data=data
        )
        event_id = self._emit(event_log.SUSPENDED, suspension)
        self._emit("interrupt.requested", event_log.interrupt_request(suspension), event_id)
        return event_id

    def _emit(self, name: str, payload: Mapping[str, Any], causation_id: str | None = None) -> str:
        """Emit an event with its payload after redaction."""
        max_chars = self.redactor.policy.limits.output_string_max_chars
        clean = self.redactor.json(payload, string_max_chars=max_chars).value
        return self.emit(name, clean, node_id=self.node.id, causation_id=causation_id)

    def _reasoning(self, config: MockReasoning, agent_id: str) -> None:
        """Emit a delta for each chunk, then the closing event, both of the same clean text (RFC 0024)."""
        stream = self.redactor.message_stream()  # a chunk holds back what may become a secret in the next
        pieces: list[str] = [stream.feed(chunk).value for chunk in config.stream_chunks or [config.summary]]
        pieces[-1] += stream.close().value
        room, text = SUMMARY_MAX_CHARS if self.verbosity == "summary" else sum(map(len, pieces)), ""
        for at, piece in enumerate(pieces):
            kept = piece[: room - len(text)]
            text += kept
            if config.stream_chunks:
                delta = event_log.reasoning_delta(agent_id, kept, at, self.verbosity)
                self.emit("agent.reasoning.delta", delta, node_id=self.node.id)
        closing = event_log.reasoned(agent_id, text, self.verbosity, config.token_count)
        self.emit("agent.reasoned", closing, node_id=self.node.id)

    def _call(self, call: MockToolCall, call_id: str, agent_id: str) -> None:
        ids = (agent_id, call.tool_id, call_id)
        inputs = {"inputs": call.arguments} if "arguments" in call.model_fields_set else {}
        result: dict[str, Any] = {"outcome": call.result}
        if (error := call.error) is not None:
            result = {"error": present(code=error.error, message=error.message, details=error.details)}
        result |= present(durationMs=call.duration_ms)
        called = self._emit("agent.toolCalled", event_log.tool_call(*ids, inputs))
        self._emit("agent.toolReturned", event_log.tool_call(*ids, result), called)
