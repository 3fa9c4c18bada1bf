"""Settings of the host: the table `[openwop]`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, Field, JsonValue, SecretStr, StringConstraints, model_validator

from projector._errors import UsageError
from projector.openwop.conformance.definitions import (
    FIXTURES,
    DefinitionError,
    RegisteredWorkflow,
    read_fixtures,
    register,
)
from projector.openwop.event_log import DEFAULT_THRESHOLD
from projector.server.config.config_base import matching
from projector.server.extensions import Extension, ExtensionSettings

if TYPE_CHECKING:
    from projector.server.catalog import Catalog
    from projector.server.config.agent_settings import AgentSettings, WorkflowSettings
    from projector.server.http.stream_route import Site

DIALECT: Final = "openwop"

CallerName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^(key|token|address):.+$")]
"""A caller, as it is named in the server log."""

WebhookOrigin: TypeAlias = Annotated[
    str, matching(r"https?://[a-z0-9.\[\]:_-]+", "an origin in lower case such as https://hooks.example")
]


def _check_network(text: str) -> str:
    ip_network(text)
    return text


WebhookNetwork: TypeAlias = Annotated[str, AfterValidator(_check_network)]


class OpenWopSettings(ExtensionSettings):
    """Settings of the OpenWOP host; an empty table enables it."""

    conformance: bool = False
    """Whether conformance node types and the workflows of the conformance suite are available. Not for production."""
    conformance_callers: tuple[CallerName, ...] = ()
    """Callers that may run conformance workflows; if empty, all callers may, and ids must begin with `conformance-`."""
    fixtures_dir: Path | None = None
    """Folder with the workflows of the conformance suite, which compares their texts; replaces the host's own."""
    workflows: dict[str, dict[str, JsonValue]] = {}
    """Further workflows of configured nodes: id -> definition, as in the protocol."""
    escalation_threshold: float = Field(DEFAULT_THRESHOLD, ge=0, le=1)
    """Confidence below which a decision waits for approval; a run can override it."""
    max_runs: int = Field(1000, gt=0)
    """Number of runs that are kept with their logs, running ones included. The oldest ended runs are dropped first."""
    max_run_bytes: int = Field(16 * 1024 * 1024, gt=0)
    """Size limit of one log, about 50,000 tokens with one event each. A run that exceeds it fails."""
    max_log_bytes: int = Field(256 * 1024 * 1024, gt=0)
    """Size limit of all logs together."""
    retention_s: float = Field(3600, gt=0)
    """Seconds a log is kept after the end of its run."""
    approval_timeout_s: float = Field(3600, gt=0)
    """Seconds a run waits for approval before it fails."""
    token_secret: SecretStr | None = Field(None, min_length=32)
    """Key that signs the tokens of interrupts; by default a random one, with which tokens end with the process."""
    token_secret_file: Path | None = None
    """File with that key."""
    webhook_origins: tuple[WebhookOrigin, ...] = ()
    """Origins that webhooks and `callbackUrl` may name; without any there are none. An address may be private."""
    webhook_networks: tuple[WebhookNetwork, ...] = ()
    """Private networks that the host names of these origins may resolve to."""
    webhook_secret: SecretStr | None = Field(None, min_length=32)
    """Key that signs what is sent to a `callbackUrl`; a subscription has a key of its own."""
    webhook_secret_file: Path | None = None
    """File with that key."""
    webhook_attempts: int = Field(5, gt=0, le=20)
    """Number of attempts to deliver an event."""
    webhook_backoff_s: float = Field(1.0, gt=0)
    """Seconds before the second attempt; doubled before each further one."""
    max_caller_webhooks: int = Field(20, gt=0)
    """Number of webhooks of one caller; further ones get 429."""
    max_caller_runs: int = Field(250, gt=0)
    """Number of runs of one caller that have not ended; further ones get 429."""
    max_caller_waiting: int = Field(100, gt=0)
    """Number of runs of one caller that wait for approval; while it is reached, new runs get 429."""
    max_caller_readers: int = Field(250, gt=0)
    """Number of readers of one caller; further ones get 429."""

    @model_validator(mode="after")
    def _check_workflows(self) -> OpenWopSettings:
        try:
            self.registered()
        except DefinitionError as error:
            raise ValueError(str(error)) from None
        return self

    def start(self, catalog: Catalog, site: Site) -> Extension:
        """Create the host."""
        from projector.openwop.host.host import Host  # noqa: PLC0415 - the table is validated without the host

        return Host(self, catalog, site)

    def registered(self) -> dict[str, RegisteredWorkflow]:
        """Return the workflows of configured nodes by id; raise `DefinitionError` if one cannot be registered."""
        own: dict[str, Mapping[str, Any]] = {name: {"id": name, **members} for name, members in self.workflows.items()}
        return {name: self._register(name, document) for name, document in {**self.fixtures(), **own}.items()}

    def fixtures(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the workflows of the conformance suite by id; raise `DefinitionError` if they cannot be read."""
        if not self.conformance:
            return {}
        return FIXTURES if self.fixtures_dir is None else read_fixtures(self.fixtures_dir)

    def _register(self, name: str, document: Mapping[str, Any]) -> RegisteredWorkflow:
        try:
            workflow = register(document, is_on=self.conformance, has_role=bool(self.conformance_callers))
        except DefinitionError as error:
            raise DefinitionError(f"workflows.{name}: {error}") from None
        if workflow.definition.id != name:
            raise DefinitionError(f"workflows.{name}: `id` must be `{name}`")
        return workflow

    def check(self, agents: Mapping[str, AgentSettings | None], workflows: Mapping[str, WorkflowSettings]) -> None:
        """Raise `UsageError` if two agents, workflows or configured nodes have the same name."""
        counts = Counter(list(self.registered()))
        kinds: tuple[Mapping[str, AgentSettings | None] | Mapping[str, WorkflowSettings], ...] = (agents, workflows)
        for kind in kinds:
            counts.update(name for name, one in kind.items() if one is None or DIALECT in one.dialects)
        for name in sorted(counts):
            if counts[name] > 1:
                raise UsageError(f"openwop: `{name}` names several agents or workflows; rename all but one")
