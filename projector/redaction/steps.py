"""Apply the steps of filters (`spellings.Step`): to a text, to the escapes that spell it, and to positions in it."""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from typing import TypeVar

from projector.redaction.json_grammar import ESCAPE
from projector.redaction.spellings import Step

T = TypeVar("T")


@cache
def _slots(kind: type) -> tuple[str, ...]:
    return tuple(name for base in kind.__mro__ for name in base.__dict__.get("__slots__", ()))


def twin_of(original: T) -> T:
    """Return a shallow copy, which is cheaper than that of `copy`: each string of an array needs several."""
    kind: type = original.__class__
    twin: T = object.__new__(kind)
    for name in _slots(kind):
        object.__setattr__(twin, name, getattr(original, name))
    members = getattr(original, "__dict__", None)
    if members is not None:
        twin.__dict__.update(members)
    return twin


def raw_steps(steps: list[Step], raw: str) -> list[Step]:
    """Convert steps over decoded characters into steps over the escapes that spell them."""
    escapes = ESCAPE.finditer(raw)
    escape = next(escapes, None)
    found: list[Step] = []
    read = extra = 0
    for count, mark in steps:
        read += count
        before = extra
        while escape is not None and escape.start() - extra < read:
            extra += escape.end() - escape.start() - 1
            escape = next(escapes, None)
        found.append((count + extra - before, mark))
    return found


class StepWriter:
    """Applies steps to a text; keeps the characters that no step covers yet. `marked` once a mark was written."""

    __slots__ = ("held", "marked")

    def __init__(self) -> None:
        self.held = ""
        """Characters that no step covers yet."""
        self.marked = False

    def show(self, count: int, text: str) -> str:
        """Return the first `count` of the held characters and `text`, and hold the others."""
        text = self.held + text if self.held else text
        self.held = text[count:]
        return text[:count]

    def write(self, steps: list[Step], text: str) -> str:
        """Return the clean text that results from applying the steps to the held characters and `text`."""
        text = self.held + text
        if len(steps) == 1 and steps[0] == (len(text), None):
            self.held = ""
            return text
        clean: list[str] = []
        at = 0
        for count, mark in steps:
            clean.append(text[at : at + count] if mark is None else mark)
            self.marked = self.marked or bool(mark)
            at += count
        self.held = text[at:]
        return "".join(clean)


class StepBuffer:
    """Gathers the steps of a document. While `muted` everything is dropped; `marked` once a mark was added."""

    __slots__ = ("_shown", "_steps", "held", "marked", "muted")

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._shown = 0  # characters shown since the last step
        self.held = ""
        """Characters held by the filter of a string or number."""
        self.muted = False
        self.marked = False

    def show(self, count: int) -> None:
        """Show the next characters."""
        if self.muted:
            self.add(count, "")
        else:
            self._shown += count

    def add(self, count: int, mark: str | None) -> None:
        """Add a step."""
        if self.muted:
            mark = ""
        elif mark is None:
            self._shown += count
            return
        if self._shown:
            self._steps.append((self._shown, None))
            self._shown = 0
        if mark or count:
            self._steps.append((count, mark))
            self.marked = self.marked or bool(mark)

    def extend(self, steps: list[Step], text: str) -> None:
        """Add a filter's steps over the held characters and `text`; uncovered characters are held."""
        text = self.held + text
        covered = 0
        for count, mark in steps:
            self.add(count, mark)
            covered += count
        self.held = text[covered:]

    def extend_decoded(self, steps: list[Step], raw: str) -> None:
        """Add a filter's steps over the decoded characters of a string that is spelled as `raw`."""
        if len(steps) == 1 and steps[0][1] is None and "\\" not in raw and "\\" not in self.held:
            count = steps[0][0]
            self.show(count)
            self.held = (self.held + raw)[count:]
            return
        if "\\" in raw or "\\" in self.held:
            steps = raw_steps(steps, self.held + raw)
        self.extend([(count, mark and _escaped(mark)) for count, mark in steps], raw)

    def take(self) -> list[Step]:
        """Return the collected steps and clear them. Consecutive shown characters are one step."""
        steps, self._steps = self._steps, []
        if self._shown:
            steps.append((self._shown, None))
            self._shown = 0
        return steps


def _escaped(mark: str) -> str:
    """Return a mark escaped for a JSON string; marks contain no other characters that need escapes."""
    return type(mark)(mark.replace("\\", "\\\\").replace('"', '\\"'))


class PositionMap:
    """Maps positions in a text to positions in the clean text, where marks have replaced some characters."""

    __slots__ = ("_ends", "_starts", "read")

    def __init__(self) -> None:
        self.read = 0
        """Length of the text so far; a caller that shows all of a text may add its length."""
        self._starts: list[int] = []
        """Start of the text that each mark replaces."""
        self._ends: list[tuple[int, int, int]] = []
        """End of the text of each mark; start and end of the mark in the clean text."""

    @property
    def has_marks(self) -> bool:
        """Whether a mark replaced anything."""
        return bool(self._starts)

    def add(self, steps: list[Step]) -> None:
        """Add the steps over the next characters of the text."""
        for count, mark in steps:
            if mark is not None:
                start = self.position(self.read, is_end=True)
                self._starts.append(self.read)
                self._ends.append((self.read + count, start, start + len(mark)))
            self.read += count

    def position(self, position: int, *, is_end: bool) -> int:
        """Return the position in the clean text; inside replaced text, the end or start of its mark."""
        if not (at := bisect_left(self._starts, position)):
            return position
        end, mark_start, mark_end = self._ends[at - 1]
        if position < end:
            return mark_end if is_end else mark_start
        return position - end + mark_end
