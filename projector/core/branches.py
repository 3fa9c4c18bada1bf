"""The branches of a stream: the position of each response that may stream beside others. A stream has at least one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector._errors import UsageError
from projector.core.canonical import Frame
from projector.core.context import BranchContext, StreamContext
from projector.core.handlers import endings
from projector.core.lifecycle import BRANCH_TRANSITIONS, OPTIONAL_BRANCH_TRANSITIONS, TRANSITIONS, Phase, Rows
from projector.core.state import StreamState
from projector.core.transcript import End
from projector.redaction.redactor import Redactor

PLACE: Final = ("stage_name", "parallel_group", "branch_index")
"""The members of a workflow that tell branches apart for whoever reads the stream."""


class Branch:
    """One of them: its state, its phase, and the rows that it follows."""

    __slots__ = ("phase", "rows", "state")

    def __init__(self, state: StreamState, rows: Rows) -> None:
        self.state = state
        self.rows = rows
        self.phase = Phase.IDLE

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.phase is Phase.ENDED

    @property
    def end(self) -> End | None:
        """How its last response ended, None where none has."""
        return self.state.run.ends.get(self.state.branch)

    @property
    def place(self) -> tuple[object, ...]:
        """Where it stands in the workflow."""
        workflow = self.state.envelope.get("workflow")
        return tuple(workflow.get(name) for name in PLACE) if isinstance(workflow, Mapping) else (None,) * len(PLACE)


class Branches:
    """The branches of one stream, the main one first."""

    def __init__(self, redactor: Redactor, context: StreamContext) -> None:
        self._redactor = redactor
        self.main = Branch(StreamState(redactor, context), TRANSITIONS)
        self.all = [self.main]

    @property
    def are_several(self) -> bool:
        """Whether there is another one beside the main one."""
        return len(self.all) > 1

    def open(self, context: BranchContext) -> Branch:
        """Give a further branch.

        Raises:
            UsageError: another branch that is open stands at the same place.
        """
        said = StreamContext(agent=context.agent, workflow=context.workflow)
        stage, is_optional = context.stage, context.is_optional
        state = StreamState(self._redactor, said, main=self.main.state, stage=stage, is_optional=is_optional)
        branch = Branch(state, OPTIONAL_BRANCH_TRANSITIONS if is_optional else BRANCH_TRANSITIONS)
        speaking = [other for other in self.all[1:] if not other.is_over]
        if self.main.phase is Phase.OPEN:
            speaking.append(self.main)
        if any(other.place == branch.place for other in speaking):
            raise UsageError("expected a `workflow` with a stage, parallel group or branch of its own")
        self.all.append(branch)
        return branch

    def standing(self) -> tuple[Branch, Phase]:
        """Give whose end the end of the run is, and where the run stands.

        It is open as long as a response is, which speaks for itself; otherwise the main branch speaks for all.
        """
        for branch in self.all:
            if branch.phase is Phase.OPEN:
                return branch, Phase.OPEN
        has_ended = any(branch.phase in {Phase.SETTLED, Phase.ENDED} for branch in self.all)
        return self.main, Phase.SETTLED if has_ended else Phase.IDLE

    def closers(self, *, is_cancelled: bool) -> list[tuple[Branch, list[Frame]]]:
        """Close what is open in each branch; what a cancelled one has said so far counts."""
        closers = [(branch, endings.close_items(branch.state)) for branch in self.all]
        for branch in self.all[1:] if is_cancelled else ():
            if branch.phase is Phase.OPEN:
                endings.settle(branch.state, "cancelled")
        return closers

    def forget(self) -> None:
        """Keep nothing of what any branch has said."""
        for branch in self.all:
            branch.state.forget()

    def end(self) -> None:
        """Let nothing more come of any branch."""
        for branch in self.all:
            branch.phase = Phase.ENDED
