"""Steps of a workflow, as the context of the frames tells them."""

from __future__ import annotations

from collections.abc import Mapping

from projector.core.canonical import Frame
from projector.dialects.ag_ui.run import Event, Run, metadata
from projector.dialects.workflow import BranchPosition, position_of


class Steps:
    """The steps that are open.

    A step ends when its branch goes on to another step, or when the workflow goes where the branch does not lead; in
    a run
    with branches also with its branch.
    """

    def __init__(self) -> None:
        self._workflow: Mapping[str, object] | None = None
        self._open: dict[BranchPosition | int, str] = {}
        """What is open, by its place; in a run with branches by the number of its branch."""

    def follow(self, run: Run, workflow: Mapping[str, object] | None) -> list[Event]:
        """Say what a changed workflow context ends and begins."""
        if workflow is self._workflow or workflow == self._workflow:
            return []
        self._workflow = workflow
        position, name = position_of(workflow or {})
        key = run.branch or position
        events = [self._finish(run, other) for other in self._left(key, name)]
        if name and key not in self._open:
            self._open[key] = name
            events.append(run.event("STEP_STARTED", stepName=name, metadata=metadata(workflow=workflow)))
        return events

    def close(self, run: Run) -> list[Event]:
        """Say the end of every step."""
        return [self._finish(run, key) for key in list(self._open)]

    def enter(self, run: Run, frame: Frame) -> list[Event]:
        """Follow the branch that speaks from now on, or say the end of the step of one that is over."""
        if frame["is_over"]:
            return [self._finish(run, frame["branch"])] if frame["branch"] in self._open else []
        run.enter(frame["branch"])
        return self.follow(run, frame.get("workflow"))

    def _left(self, key: BranchPosition | int, name: str) -> list[BranchPosition | int]:
        """Give what is left by going on to a step: of a run with branches, only what the branch itself had open."""
        if isinstance(key, int):
            return [key] if self._open.get(key, name) != name else []
        return [
            other
            for other, said in self._open.items()
            if isinstance(other, BranchPosition)
            and not (other == key and said == name)
            and not (name and key.is_beside(other))
        ]

    def _finish(self, run: Run, key: BranchPosition | int) -> Event:
        return run.event("STEP_FINISHED", stepName=self._open.pop(key))
