"""Workflows: stages that follow each other, each one step or several parallel steps; and what runs next in a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from projector._errors import UsageError
from projector.core.context import BranchContext
from projector.workflows.template import REQUEST_MESSAGE, Template, names_of

FAILED: Final = frozenset({"failed", "cancelled"})
"""Statuses of a response whose text is not used as a result."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request to an agent."""

    name: str
    agent: str
    input: Template
    is_optional: bool
    """Whether the run continues when it fails."""
    stage: str
    stage_index: int
    branch_index: int | None
    """Its index among the parallel steps of its stage; None if it is the only one."""

    def context(self, workflow_key: str, run_id: str) -> BranchContext:
        """Return the workflow context of its events in one run (seed contract, section 6.2)."""
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
    """The stages of a workflow."""

    stages: tuple[tuple[Step, ...], ...]

    @property
    def agents(self) -> list[str]:
        """The agents of its steps, by name."""
        return [step.agent for stage in self.stages for step in stage]


def workflow_of(stages: Sequence[tuple[str, Sequence[StepSource]]]) -> Workflow:
    """Return the workflow of these stages, each with its name.

    Raises:
        UsageError: a stage or step repeats a name, or a template refers to a step that is not in an earlier stage.
    """
    parsed: list[tuple[Step, ...]] = []
    earlier: set[str] = set()
    names: set[str] = set()
    for index, (stage, sources) in enumerate(stages):
        if stage in names:
            raise UsageError(f"stage `{stage}`: expected a unique name")
        names.add(stage)
        steps = tuple(_step(source, stage, index, at, len(sources), earlier) for at, source in enumerate(sources))
        for step in steps:
            if step.name in earlier:
                raise UsageError(f"step `{step.name}`: expected a unique name")
            earlier.add(step.name)
        parsed.append(steps)
    return Workflow(tuple(parsed))


def _step(source: StepSource, stage: str, index: int, at: int, parallel: int, earlier: set[str]) -> Step:
    try:
        template = Template(source.input, names_of(earlier))
    except UsageError as error:
        raise UsageError(f"step `{source.name}`: input: {error}") from None
    return Step(source.name, source.agent, template, source.is_optional, stage, index, at if parallel > 1 else None)


class Plan:
    """The remaining steps of one run.

    Args:
        workflow: its stages.
        message: message of the caller.
        max_input_chars: limit of the input of one step.
    """

    def __init__(self, workflow: Workflow, message: str, max_input_chars: int) -> None:
        self._left = list(workflow.stages)
        self._values = {REQUEST_MESSAGE: message}
        self._max_input_chars = max_input_chars
        self.is_failed = False
        """Whether a required step has failed."""

    def next(self) -> tuple[Step, ...]:
        """Return the parallel steps that run now; empty at the end of the run."""
        return self._left.pop(0) if self._left and not self.is_failed else ()

    def input_of(self, step: Step) -> str:
        """Return the input of a step, after the stages before it have ended."""
        return step.input.render(self._values, self._max_input_chars)

    def on_end(self, step: Step, status: str, text: str) -> None:
        """Record the result of a step; a failed one has no text."""
        self._values[f"steps.{step.name}.status"] = status
        self._values[f"steps.{step.name}.text"] = "" if status in FAILED else text
        self.is_failed |= status in FAILED and not step.is_optional
