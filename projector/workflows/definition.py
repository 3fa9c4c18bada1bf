"""What a workflow is: stages one after the other, each a step or a group of steps side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from projector._errors import UsageError
from projector.core.context import BranchContext
from projector.workflows.template import REQUEST_MESSAGE, Template, names_of

FAILED: Final = frozenset({"failed", "cancelled"})
"""How a response ends that is no result: by itself, by its provider, or because its upstream broke."""


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


class Plan:
    """What is to be done, stage by stage.

    Args:
        workflow: its stages.
        message: what the caller says.
        max_input_chars: of the input of one step.
    """

    def __init__(self, workflow: Workflow, message: str, max_input_chars: int) -> None:
        self._left = list(workflow.stages)
        self._values = {REQUEST_MESSAGE: message}
        self._max_input_chars = max_input_chars
        self.is_failed = False
        """Whether a step has failed that the run cannot do without."""

    def next(self) -> tuple[Step, ...]:
        """Give the steps that run now, side by side; none where the run is over."""
        return self._left.pop(0) if self._left and not self.is_failed else ()

    def input_of(self, step: Step) -> str:
        """Give what a step is asked, now that the stages before it have ended."""
        return step.input.render(self._values, self._max_input_chars)

    def on_end(self, step: Step, status: str, text: str) -> None:
        """Take how a step ended; what a failed one has said so far is no result."""
        self._values[f"steps.{step.name}.status"] = status
        self._values[f"steps.{step.name}.text"] = "" if status in FAILED else text
        self.is_failed |= status in FAILED and not step.is_optional
