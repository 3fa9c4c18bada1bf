"""The workflows that a server offers, made from the settings once, ready to be run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from projector import Pipeline, StreamContext, build_pipeline
from projector.core.pipeline import OnFrame, OutputFormat
from projector.dialects.options import DialectOptions
from projector.redaction.redactor import Redactor
from projector.server.catalog import AgentBinding, Catalog, chosen_dialect
from projector.server.config.agent_settings import WorkflowSettings
from projector.server.config.settings import Settings
from projector.workflows.definition import Workflow


@dataclass(frozen=True, slots=True)
class WorkflowBinding:
    """One workflow, its agents and what its streams show."""

    name: str
    settings: WorkflowSettings
    definition: Workflow
    agents: Mapping[str, AgentBinding]
    redactor: Redactor

    def dialect(self, asked: str | None) -> str:
        """Give the dialect of a stream.

        Raises:
            Problem: `asked` is none of those that are spoken here.
        """
        return chosen_dialect(asked, self.settings.dialects)

    def pipeline(
        self,
        dialect: str,
        context: StreamContext,
        on_frame: OnFrame | None = None,
        *,
        options: DialectOptions | None = None,
        output_format: OutputFormat = "sse",
    ) -> Pipeline:
        """Give the pipeline of one run; each step has a branch of its own in it."""
        first = next(iter(self.agents.values())).provider
        return build_pipeline(
            provider=first.api,
            profile=first.profile,
            dialect=dialect,
            redactor=self.redactor,
            context=context,
            run=True,
            on_frame=on_frame,
            options=options,
            output_format=output_format,
        )


def workflow_bindings(settings: Settings, catalog: Catalog) -> dict[str, WorkflowBinding]:
    """Give the workflows by their names."""
    return {name: _binding(name, workflow, catalog) for name, workflow in settings.workflows.items()}


def _binding(name: str, settings: WorkflowSettings, catalog: Catalog) -> WorkflowBinding:
    definition = settings.definition
    agents = {agent: catalog.agent(agent) for agent in definition.agents}
    first = next(iter(agents.values()))
    redactor = first.redactor if settings.policy is None else Redactor(settings.policy)
    return WorkflowBinding(name, settings, definition, agents, redactor)
