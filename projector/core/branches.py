"""The branches of a stream: one for each of its responses that may stream at the same time, the main one first."""

from __future__ import annotations

from projector._errors import UsageError
from projector.core.canonical import Frame
from projector.core.context import BranchContext, StreamContext
from projector.core.handlers import endings
from projector.core.lifecycle import BRANCH_TRANSITIONS, OPTIONAL_BRANCH_TRANSITIONS, Phase
from projector.core.state import StreamState
from projector.redaction.redactor import Redactor


class Branches:
    """All branches of one stream. Each is a `StreamState` with a phase of its own."""

    def __init__(self, redactor: Redactor, context: StreamContext) -> None:
        self._redactor = redactor
        self.main = StreamState(redactor, context)
        self.all = [self.main]

    @property
    def are_several(self) -> bool:
        """Whether there is a branch other than the main one."""
        return len(self.all) > 1

    def open(self, context: BranchContext) -> StreamState:
        """Open a branch.

        Raises:
            UsageError: another open branch has the same position in the workflow.
        """
        branch = StreamState(
            self._redactor,
            StreamContext(agent=context.agent, workflow=context.workflow),
            main=self.main,
            transitions=OPTIONAL_BRANCH_TRANSITIONS if context.is_optional else BRANCH_TRANSITIONS,
            stage=context.stage,
            is_optional=context.is_optional,
        )
        running = [other for other in self.all[1:] if not other.is_over]
        if self.main.phase is Phase.OPEN:
            running.append(self.main)
        if any(other.position == branch.position for other in running):
            raise UsageError("expected a `workflow` with a stage, parallel group or branch index not in use")
        self.all.append(branch)
        return branch

    def closing(self) -> tuple[StreamState, Phase]:
        """Return the branch that ends with the run, and the phase of the run.

        That is a branch with an open response, if there is one; otherwise the main branch ends for all of them.
        """
        for branch in self.all:
            if branch.phase is Phase.OPEN:
                return branch, Phase.OPEN
        has_ended = any(branch.phase in {Phase.SETTLED, Phase.ENDED} for branch in self.all)
        return self.main, Phase.SETTLED if has_ended else Phase.IDLE

    def close_items(self, *, is_cancelled: bool) -> list[tuple[StreamState, list[Frame]]]:
        """Close the open items of each branch; a cancelled response still contributes its text to `final`."""
        closers = [(branch, endings.close_items(branch)) for branch in self.all]
        for branch in self.all[1:] if is_cancelled else ():
            if branch.phase is Phase.OPEN:
                endings.settle(branch, "cancelled")
        return closers

    def release(self) -> None:
        """Drop what the branches have emitted."""
        for branch in self.all:
            branch.release()

    def end(self) -> None:
        """End all branches."""
        for branch in self.all:
            branch.phase = Phase.ENDED
