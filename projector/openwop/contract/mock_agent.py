"""The configuration of `core.conformance.mock-agent`, as RFC 0023 section D and RFC 0024 have it; nothing beside it."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field, JsonValue, TypeAdapter, model_validator

from projector.contracts.parts import Count, Maybe
from projector.openwop.contract.documents import ErrorBody
from projector.openwop.contract.parts import AGENT_ID_MIN_CHARS, Name, OpenWopModel, Share

AgentName: TypeAlias = Annotated[str, Field(min_length=AGENT_ID_MIN_CHARS)]


class MockReasoning(OpenWopModel):
    """What the agent reasons: the summary, unless there are chunks to stream."""

    summary: str
    trace: Maybe[str] = None
    token_count: Maybe[Count] = None
    stream_chunks: Maybe[list[str]] = None


class MockToolCall(OpenWopModel):
    """One call, with its result or its error: one of them must be there."""

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
    """Which agent goes on."""

    to_agent_id: AgentName
    reason: Maybe[str] = None
    context: JsonValue = None


class MockDecision(OpenWopModel):
    """What the agent decides, and how sure it is."""

    decision: JsonValue
    confidence: Maybe[Share] = None
    reasoning: Maybe[str] = None


class MockAgentConfig(OpenWopModel):
    """The configuration of one node. `mock_confidence` counts where there is no decision."""

    agent_id: Maybe[AgentName] = None
    mock_reasoning: Maybe[bool | MockReasoning] = None
    mock_tool_calls: Maybe[list[MockToolCall]] = None
    mock_handoff: Maybe[MockHandoff] = None
    mock_decision: Maybe[MockDecision] = None
    mock_confidence: Maybe[Share] = None


CONFIG_ADAPTER: Final[TypeAdapter[MockAgentConfig]] = TypeAdapter(MockAgentConfig)


def parse_config(value: Any) -> MockAgentConfig:
    """Read a configuration.

    Raises:
        pydantic.ValidationError: an unknown key, a number out of its range, a call without an end.
    """
    return CONFIG_ADAPTER.validate_python(value)
