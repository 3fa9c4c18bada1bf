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
    """Mock nodes and workflows of the [conformance suite](openwop.md#start-the-host-for-the-conformance-suite); not
    for production."""
    fixtures_dir: Path | None = None
    """Folder with the workflows of the suite, instead of the host's own."""
    escalation_threshold: float = Field(default=DEFAULT_THRESHOLD, ge=0, le=1)
    """Confidence below which a decision waits for approval; a run can override it."""
    max_runs: int = Field(default=1000, gt=0)
    """Kept runs; the oldest ended one of the caller with the most is dropped first."""
    max_run_bytes: int = Field(default=16 * 1024 * 1024, gt=0)  # about 50,000 tokens with one event each
    """Size of one log; a run that exceeds it fails with `log_full`."""
    max_log_bytes: int = Field(default=256 * 1024 * 1024, gt=0)
    """Size of all logs."""
    retention_s: float = Field(default=3600, gt=0)
    """Seconds a log is kept after the end of its run."""
    approval_timeout_s: float = Field(default=3600, gt=0)
    """Seconds a run waits for approval before it fails with `interrupt_timeout`."""

    @model_validator(mode="after")
    def _check_workflows(self) -> OpenWopSettings:
        self.mock_workflows  # noqa: B018 - reads them; an invalid one is a `ValueError`
        return self

    @cached_property
    def mock_workflows(self) -> Mapping[str, MockWorkflow]:
        """Workflows of mock nodes by id."""
        return read_workflows(self.fixtures_dir or FIXTURES) if self.conformance else {}

    def check(self, agents: Mapping[str, Any]) -> None:
        """Raise `UsageError` if an agent has the name of a workflow of the suite."""
        for name in sorted(self.mock_workflows):
            if name in agents and DIALECT in agents[name].dialects:
                raise UsageError(f"openwop: `{name}` names an agent and a workflow of mock nodes; rename the agent")
