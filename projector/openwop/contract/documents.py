"""Response documents of a host: runs, event lists, errors, and its capabilities (`/.well-known/openwop`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from projector.contracts.parts import Count, Json, Maybe
from projector.openwop.contract.payloads import AgentId, Id, Name, OpenWopModel, RunStatus, Timestamp


class AgentRef(OpenWopModel):
    """Agent of a run."""

    agent_id: AgentId
    model_class: Maybe[str] = None


class RunError(OpenWopModel):
    """Error of a failed run."""

    code: Name
    message: Name
    details: Maybe[Json] = None


class RunSnapshot(OpenWopModel):
    """State of a run: `GET /v1/runs/{runId}`."""

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
    """Response to `POST /v1/runs`."""

    run_id: Id
    status: RunStatus
    events_url: Name
    status_url: Maybe[Name] = None


class RunForked(OpenWopModel):
    """Response to `POST /v1/runs/{runId}:fork`."""

    run_id: Id
    source_run_id: Id
    from_seq: Count
    mode: Literal["replay", "branch"]
    status: RunStatus
    events_url: Name


class WebhookCreated(OpenWopModel):
    """Response to `POST /v1/webhooks`; the secret is not shown again."""

    subscription_id: Id
    url: Name
    secret: Name
    event_types: list[Name]
    created_at: Timestamp


class EventList(OpenWopModel):
    """Event log of a run."""

    events: list[Json]


class EventPoll(EventList):
    """New events of a run, and whether the run has ended."""

    is_complete: bool


class ErrorBody(OpenWopModel):
    """Error response; all further information is in `details`."""

    error: Name
    message: Name
    details: Maybe[Json] = None


class Limits(OpenWopModel):
    """Limits of a host; the envelope limits are 0 because we emit no envelopes."""

    clarification_rounds: Count
    schema_rounds: Count
    envelopes_per_turn: Count
    max_run_duration_ms: Maybe[Annotated[int, Field(ge=1_000)]] = None
    max_request_body_bytes: Maybe[Annotated[int, Field(ge=1)]] = None


class ReasoningCapability(OpenWopModel):
    """How much reasoning runs emit, and whether it is streamed (RFC 0024)."""

    verbosity: Literal["summary", "full", "off"]
    token_limit: Maybe[Count] = None
    streaming: bool


class AgentsCapability(OpenWopModel):
    """Agent support; `agent.*` events require `supported` (RFC 0002)."""

    supported: bool
    reasoning: ReasoningCapability
    orchestrator: Maybe[bool] = None


class ConformanceCapability(OpenWopModel):
    """Whether the mock agent of the conformance suite is available (RFC 0023)."""

    mock_agent: bool


class UsageCapability(OpenWopModel):
    """Whether each model call is followed by `provider.usage` (RFC 0026)."""

    supported: bool


class WebhooksCapability(OpenWopModel):
    """Whether events are delivered to URLs of callers (`webhooks.md`)."""

    supported: bool
    signature_algorithms: list[Name]


class Implementation(OpenWopModel):
    """Software of the host."""

    name: str
    version: Maybe[str] = None
    vendor: Maybe[str] = None


class Discovery(OpenWopModel):
    """Capabilities of a host, one member per family (RFC 0073): `GET /.well-known/openwop`."""

    protocol_version: Literal["1.0"]
    supported_envelopes: list[Name]
    schema_versions: dict[str, Count]
    limits: Limits
    implementation: Maybe[Implementation] = None
    supported_transports: Maybe[list[Literal["rest"]]] = None
    agents: Maybe[AgentsCapability] = None
    conformance: Maybe[ConformanceCapability] = None
    provider_usage: Maybe[UsageCapability] = None
    webhooks: Maybe[WebhooksCapability] = None
    fixtures: Maybe[list[Name]] = None
    capabilities: Maybe[Json] = None
    """The same families again, for clients from before RFC 0073."""
