"""One run of a workflow: what runs next, given what has ended."""

from __future__ import annotations

from typing import Final

from projector.workflows.definition import Step, Workflow
from projector.workflows.template import REQUEST_MESSAGE

FAILED: Final = frozenset({"failed", "cancelled"})
"""How a response ends that is no result: by itself, by its provider, or because its upstream broke."""


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
