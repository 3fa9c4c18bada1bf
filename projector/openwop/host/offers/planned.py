"""A workflow of configured nodes, for conformance only."""

from __future__ import annotations

from typing import Any

from starlette.types import Scope

from projector.openwop.conformance.definitions import RegisteredWorkflow
from projector.openwop.conformance.mock_nodes import PlannedRun
from projector.openwop.event_log import Verbosity
from projector.openwop.host.asked import RunRequest
from projector.openwop.host.offers.offer import Begin, definition, refuse_what_is_not_settable
from projector.openwop.host.refusals import Refusal
from projector.openwop.host.run import Run
from projector.openwop.host.settings import OpenWop
from projector.openwop.host.work.planned import PlannedWork
from projector.redaction.redactor import Redactor


class PlannedWorkflow:
    """One workflow."""

    def __init__(self, registered: RegisteredWorkflow, settings: OpenWop, redactor: Redactor) -> None:
        self._registered = registered
        self._settings = settings
        self._redactor = redactor

    @property
    def verbosity(self) -> Verbosity:
        """Everything is told."""
        return "full"

    def document(self) -> dict[str, Any]:
        """Give the definition."""
        said = self._registered.definition.model_dump(mode="json", by_alias=True, exclude_none=True)
        return definition(self._registered.definition.id, said.pop("nodes")) | said

    def prepare(self, asked: RunRequest, caller: str, _scope: Scope) -> Begin:
        """Read what the run may set: how sure is sure enough, and how much of the reasoning is told."""
        named = self._settings.conformance_callers
        if named and caller not in named:
            raise Refusal("forbidden")
        said = asked.configurable
        refuse_what_is_not_settable(said)
        threshold = said.escalation_threshold
        if threshold is None:
            threshold = self._settings.escalation_threshold

        def begin(run: Run) -> PlannedWork:
            about = PlannedRun(run.run_id, self._redactor, threshold, said.reasoning_verbosity or self.verbosity)
            return PlannedWork(self._registered.steps(about))

        return begin
