"""Settings of the host: the table `[openwop]`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic import Field, model_validator

from projector._errors import UsageError
from projector.openwop.event_log import DEFAULT_THRESHOLD
from projector.openwop.mock_nodes import MockWorkflow, read_workflows
from projector.server.config.config_base import ExtensionSettings

DIALECT: Final = "openwop"

FIXTURES: Final = Path(__file__).parent / "fixtures"
"""Workflows with the ids of the suite, in our own words."""


class OpenWopSettings(ExtensionSettings):
    """Settings of the OpenWOP host; an empty table enables it."""

    extension: ClassVar[str] = "projector.openwop.host:Host"

    conformance: bool = False
    """Whether mock nodes and the workflows of the conformance suite can be run, by all callers. Not for production."""
    fixtures_dir: Path | None = None
    """Folder with the workflows of the conformance suite, which compares their texts; replaces the host's own."""
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

    @model_validator(mode="after")
    def _check_workflows(self) -> OpenWopSettings:
        self.mock_workflows  # noqa: B018 - reads them; an invalid one is a `ValueError`
        return self

    @cached_property
    def mock_workflows(self) -> Mapping[str, MockWorkflow]:
        """Workflows of mock nodes by id."""
        return read_workflows(self.fixtures_dir or FIXTURES) if self.conformance else {}

    def check(self, agents: Mapping[str, Any], workflows: Mapping[str, Any]) -> None:
        """Raise `UsageError` if an agent has the name of a workflow of the suite."""
        del workflows
        for name in sorted(self.mock_workflows):
            if name in agents and (agents[name] is None or DIALECT in agents[name].dialects):
                raise UsageError(f"openwop: `{name}` names an agent and a workflow of mock nodes; rename the agent")
