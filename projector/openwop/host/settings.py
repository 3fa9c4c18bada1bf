"""The table `[openwop]`: whether the conformance suite may run here, and how much is kept of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import Field, JsonValue, StringConstraints, model_validator

from projector._errors import UsageError
from projector.openwop.conformance.definitions import FIXTURES, DefinitionError, RegisteredWorkflow, register
from projector.openwop.event_log import DEFAULT_THRESHOLD
from projector.server.extensions import Extension, ExtensionSettings, HasDialects

if TYPE_CHECKING:
    from projector.server.catalog import Catalog
    from projector.server.http.routes.stream_route import Site

_DIALECT: Final = "openwop"

CallerName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^(key|token|address):.+$")]
"""A caller, as the log names it."""


class OpenWop(ExtensionSettings):
    """A host of OpenWOP; an empty table switches it on."""

    conformance: bool = False
    """Whether the types of nodes for conformance may be run, and the suite's three workflows are there: not for
    production."""
    conformance_callers: tuple[CallerName, ...] = ()
    """Who may run them; where nobody is named everybody may, and only workflows named `conformance-...` are taken."""
    workflows: dict[str, dict[str, JsonValue]] = {}
    """Further workflows of configured nodes, by id, as the protocol writes them."""
    escalation_threshold: float = Field(DEFAULT_THRESHOLD, ge=0, le=1)
    """Below this confidence a decision waits for a person, unless its run says otherwise."""
    max_runs: int = Field(1000, gt=0)
    """Whose logs are kept, those that run among them; the oldest that have ended make room."""
    max_run_bytes: int = Field(16 * 1024 * 1024, gt=0)
    """The log of one run: fifty thousand tokens, of which each is an event. A run that says more fails."""
    max_log_bytes: int = Field(256 * 1024 * 1024, gt=0)
    """All logs together."""
    retention_s: float = Field(3600, gt=0)
    """How long a log is kept after its run has ended."""
    approval_timeout_s: float = Field(3600, gt=0)
    """How long a run waits for a person; then it fails."""

    @model_validator(mode="after")
    def _workflows_may_be_run(self) -> OpenWop:
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
        """Give the workflows of configured nodes by id: the suite's where it may run, and those of the configuration.

        Raises:
            DefinitionError: one that may not be run here.
        """
        named: dict[str, Mapping[str, Any]] = {name: {"id": name, **said} for name, said in self.workflows.items()}
        fixtures = FIXTURES if self.conformance else {}
        return {name: self._register(name, document) for name, document in {**fixtures, **named}.items()}

    def _register(self, name: str, document: Mapping[str, Any]) -> RegisteredWorkflow:
        try:
            known = register(document, is_on=self.conformance, has_role=bool(self.conformance_callers))
        except DefinitionError as error:
            raise DefinitionError(f"workflows.{name}.{error}") from None
        if known.definition.id != name:
            raise DefinitionError(f"workflows.{name}.id: expected `{name}`")
        return known

    def check(self, agents: Mapping[str, HasDialects | None], workflows: Mapping[str, HasDialects]) -> None:
        """Check that agents, workflows and configured nodes have different names.

        Raises:
            UsageError: two have the same name.
        """
        times = Counter(list(self.registered()))
        kinds: tuple[Mapping[str, HasDialects | None], ...] = (agents, workflows)
        for kind in kinds:
            times.update(name for name, one in kind.items() if one is None or _DIALECT in one.dialects)
        for name in sorted(times):
            if times[name] > 1:
                raise UsageError(f"openwop: expected one agent or workflow of the name `{name}`")
