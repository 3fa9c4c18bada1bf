"""What a host of OpenWOP answers beside events: runs, lists of events, errors, and what it can do (`/.well-known`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from projector.contracts.parts import Count, Json, Maybe
from projector.openwop.contract.parts import AgentId, Id, Name, OpenWopModel, RunStatus, Timestamp

# runs


class AgentRef(OpenWopModel):
    """The agent that drives a run."""

    agent_id: AgentId
    model_class: Maybe[str] = None


class RunError(OpenWopModel):
    """Why a run has failed, in its snapshot."""

    code: Name
    message: Name
    details: Maybe[Json] = None


class RunSnapshot(OpenWopModel):
    """How a run stands: `GET /v1/runs/{runId}`."""

    run_id: Id
    workflow_id: Name
    status: RunStatus
    current_node_id: Maybe[Id] = None
    started_at: Maybe[Timestamp] = None
    completed_at: Maybe[Timestamp] = None
    agent: Maybe[AgentRef] = None
    variables: Maybe[Json] = None
    error: Maybe[RunError] = None
    tags: Maybe[list[str]] = None
    metadata: Maybe[Json] = None
    configurable: Maybe[Json] = None


class RunCreated(OpenWopModel):
    """The answer to `POST /v1/runs`."""

    run_id: Id
    status: RunStatus
    events_url: Name
    status_url: Maybe[Name] = None


class EventList(OpenWopModel):
    """The log of a run as one document; each entry is an event of `projector.openwop.contract.events`."""

    events: list[Json]


class EventPoll(EventList):
    """What is new in the log of a run, and whether the run has ended."""

    is_complete: bool


class ErrorBody(OpenWopModel):
    """Every refusal; whatever else there is to say stands under `details`."""

    error: Name
    message: Name
    details: Maybe[Json] = None


# what a host can do


class Limits(OpenWopModel):
    """What a host allows; we speak no envelopes, so these are 0."""

    clarification_rounds: Count
    schema_rounds: Count
    envelopes_per_turn: Count
    max_run_duration_ms: Maybe[Annotated[int, Field(ge=1_000)]] = None
    max_request_body_bytes: Maybe[Annotated[int, Field(ge=1)]] = None


class ReasoningCapability(OpenWopModel):
    """How reasoning is told, and whether it is told while it happens (RFC 0024)."""

    verbosity: Literal["summary", "full", "off"]
    token_limit: Maybe[Count] = None
    streaming: bool


class AgentsCapability(OpenWopModel):
    """Without `supported`, no `agent.*` event may be emitted (RFC 0002)."""

    supported: bool
    reasoning: ReasoningCapability
    orchestrator: Maybe[bool] = None


class ConformanceCapability(OpenWopModel):
    """Whether the agent of the conformance suite is there (RFC 0023)."""

    mock_agent: bool


class UsageCapability(OpenWopModel):
    """Whether there is a `provider.usage` for each model call (RFC 0026)."""

    supported: bool


class Implementation(OpenWopModel):
    """Who answers."""

    name: str
    version: Maybe[str] = None
    vendor: Maybe[str] = None


class Discovery(OpenWopModel):
    """`GET /.well-known/openwop`: the families stand at the root (RFC 0073)."""

    protocol_version: Literal["1.0"]
    supported_envelopes: list[Name]
    schema_versions: dict[str, Count]
    limits: Limits
    implementation: Maybe[Implementation] = None
    supported_transports: Maybe[list[Literal["rest"]]] = None
    agents: Maybe[AgentsCapability] = None
    conformance: Maybe[ConformanceCapability] = None
    provider_usage: Maybe[UsageCapability] = None
    fixtures: Maybe[list[Name]] = None
    capabilities: Maybe[Json] = None
    """The same families once more, for readers of before RFC 0073."""
