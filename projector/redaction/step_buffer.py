"""What a document says of its own text: steps, gathered until they are given away."""

from __future__ import annotations

from projector.redaction.filters import Step, in_raw


class Spoken:
    """Gathers steps. While `muted` everything is dropped; `marked` once a mark was said."""

    __slots__ = ("_kept", "_steps", "_unsaid", "marked", "muted")

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._kept = 0  # characters said behind the last step
        self._unsaid = ""  # read, and held by the sieve of a string or number
        self.muted = False
        self.marked = False

    def say(self, count: int) -> None:
        """Say the next characters."""
        if self.muted:
            self.step(count, "")
        else:
            self._kept += count

    def step(self, count: int, mark: str | None) -> None:
        """Say a mark in place of the next characters, or drop them, or say them."""
        if self.muted:
            mark = ""
        elif mark is None:
            self._kept += count
            return
        if self._kept:
            self._steps.append((self._kept, None))
            self._kept = 0
        if mark or count:
            self._steps.append((count, mark))
            self.marked = self.marked or bool(mark)

    def cover(self, steps: list[Step], text: str) -> None:
        """Say what a sieve decided about a text; what its steps do not cover stays unsaid."""
        text = self._unsaid + text
        covered = 0
        for count, mark in steps:
            self.step(count, mark)
            covered += count
        self._unsaid = text[covered:]

    def spell(self, steps: list[Step], raw: str) -> None:
        """Say what a sieve decided about the decoded characters of a string, in their spelling here."""
        if len(steps) == 1 and steps[0][1] is None and not self._unsaid and "\\" not in raw:
            self.say(steps[0][0])
            self._unsaid = raw[steps[0][0] :]
            return
        if "\\" in raw or "\\" in self._unsaid:
            steps = in_raw(steps, self._unsaid + raw)
        self.cover([(count, mark and _escaped(mark)) for count, mark in steps], raw)

    def taken(self) -> list[Step]:
        """Give the steps so far away; what is said in a row is one step."""
        steps, self._steps = self._steps, []
        if self._kept:
            steps.append((self._kept, None))
            self._kept = 0
        return steps


def _escaped(mark: str) -> str:
    """Give a mark as it stands inside a JSON string; a mark has no other character that needs an escape."""
    return mark.replace("\\", "\\\\").replace('"', '\\"')
