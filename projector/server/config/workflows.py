"""The tables `[workflows.NAME]`: stages of steps, each an agent and what it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from pydantic import Field, model_validator

from projector._errors import UsageError, known_name
from projector.redaction.policy import Policy
from projector.server.config.config_base import DEFAULT_DIALECT, Dialects, Name, Table
from projector.workflows.definition import StepSource, Workflow, workflow_of


class HasPolicy(Protocol):
    """An agent, as far as a workflow looks at it."""

    @property
    def policy(self) -> Policy:
        """What its own streams show."""
        ...


class StepSettings(Table):
    """One agent, asked once."""

    name: Name
    agent: Name
    input: str = Field("{{request.message}}", min_length=1, max_length=100_000)
    """A template; see `projector.workflows.template`."""
    on_failure: Literal["fail", "go_on"] = "fail"
    """Whether the run ends when the step fails, or goes on without it."""

    @property
    def source(self) -> StepSource:
        """The step as a definition takes it."""
        return StepSource(self.name, self.agent, self.input, is_optional=self.on_failure == "go_on")


class StageSettings(Table):
    """A step, or several that run side by side."""

    name: Name
    steps: tuple[StepSettings, ...] = Field(min_length=1, max_length=32)


class WorkflowSettings(Table):
    """Stages that follow each other."""

    stages: tuple[StageSettings, ...] = Field(min_length=1, max_length=64)
    dialects: Dialects = (DEFAULT_DIALECT,)
    """What a request may choose by `?dialect=`; the first where it chooses none."""
    policy: Policy | None = None
    """Of the whole stream; None: that of its agents, who must then have the same."""
    max_parallel: int = Field(8, gt=0)
    """Upstreams that one run asks at once; what waits for its turn holds nothing."""
    max_input_chars: int = Field(200_000, gt=0)
    """Of the input of one step: a context window; longer values are cut."""
    total_s: float = Field(1800, gt=0)
    """The whole run; each upstream has its own limits beside."""

    @property
    def definition(self) -> Workflow:
        """The workflow, its templates read."""
        return workflow_of([(stage.name, [step.source for step in stage.steps]) for stage in self.stages])

    @model_validator(mode="after")
    def _can_be_read(self) -> WorkflowSettings:
        _ = self.definition
        return self

    def check(self, name: str, agents: Mapping[str, HasPolicy | None]) -> None:
        """Hold what the workflow says against the agents that there are; None is one with the defaults.

        Raises:
            UsageError: an agent is not there, or no policy is said and the agents have several.
        """
        asked = {agent: agents[known_name(f"agent of workflow `{name}`", agent, agents)] for agent in self.agents}
        policies = [agent.policy if agent is not None else Policy() for agent in asked.values()]
        if self.policy is None and any(policy != policies[0] for policy in policies):
            raise UsageError(f"workflow `{name}`: expected a `policy`, because its agents have different ones")

    @property
    def agents(self) -> list[str]:
        """The agents that it asks, by name."""
        return self.definition.agents
