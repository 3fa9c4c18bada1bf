"""What a workflow is: stages one after the other, each a step or a group of steps side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from projector._errors import UsageError
from projector.core.context import BranchContext
from projector.workflows.template import Template, names_of


@dataclass(frozen=True, slots=True)
class Step:
    """One agent, asked once."""

    name: str
    agent: str
    input: Template
    is_optional: bool
    """Whether the run goes on when it fails."""
    stage: str
    stage_index: int
    branch_index: int | None
    """Its place among the steps of its stage, None where it is the only one."""

    def context(self, workflow_key: str, run_id: str) -> BranchContext:
        """Give what is said of it in one run (seed contract, section 6.2)."""
        group = {"parallel_group": self.stage, "branch_index": self.branch_index}
        workflow: dict[str, object] = {
            "workflow_key": workflow_key,
            "workflow_run_id": run_id,
            "stage_name": self.stage,
            "step_name": self.name,
            "step_agent": self.agent,
            **(group if self.branch_index is not None else {}),
        }
        return BranchContext(self.agent, workflow, stage=self.stage_index, is_optional=self.is_optional)


@dataclass(frozen=True, slots=True)
class StepSource:
    """A step as it is configured."""

    name: str
    agent: str
    input: str
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Workflow:
    """The stages of one."""

    stages: tuple[tuple[Step, ...], ...]

    @property
    def agents(self) -> list[str]:
        """The agents that it asks, by name."""
        return [step.agent for stage in self.stages for step in stage]


def workflow_of(stages: Sequence[tuple[str, Sequence[StepSource]]]) -> Workflow:
    """Give a workflow from its stages, each with its name.

    A step may name what steps of earlier stages said; steps of its own stage run beside it and have said nothing yet.

    Raises:
        UsageError: a stage or step has the name of another, or a template names what cannot be known there.
    """
    made: list[tuple[Step, ...]] = []
    done: set[str] = set()
    names: set[str] = set()
    for index, (stage, sources) in enumerate(stages):
        if stage in names:
            raise UsageError(f"stage `{stage}`: expected a name that no other stage has")
        names.add(stage)
        steps = tuple(_step(source, stage, index, at, len(sources), done) for at, source in enumerate(sources))
        for step in steps:
            if step.name in done:
                raise UsageError(f"step `{step.name}`: expected a name that no other step has")
            done.add(step.name)
        made.append(steps)
    return Workflow(tuple(made))


def _step(source: StepSource, stage: str, index: int, at: int, beside: int, done: set[str]) -> Step:
    try:
        template = Template(source.input, names_of(done))
    except UsageError as error:
        raise UsageError(f"step `{source.name}`: input: {error}") from None
    branch = at if beside > 1 else None
    return Step(source.name, source.agent, template, source.is_optional, stage, index, branch)
