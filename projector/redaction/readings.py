r"""A text is read twice where it has characters that are not what they stand for.

    as written   `pass\u0077ord=..`, `p<zero-width space>assword`, `pass<colour>word`, `p&#97;ssword`
    as read      `password=..` in each case: what a person sees, or the next program decodes

What either reading withholds is withheld. Both are needed: a registered value may have such characters itself, and an
escape ends a word for some programs (`\nghp_..`) and is part of it for others.

The second reading is begun where such a spelling is found: it continues from the state of the first one, and it ends
as soon as both are in the same state again. So a text without such spellings, as most are, is read once. The only cost
is that an unfinished spelling at the end of a piece is held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from projector.redaction.content_filter import Carry, Twin
from projector.redaction.spellings import SPELLED, UNFINISHED, UNFINISHED_MAX_CHARS, decoded
from projector.redaction.steps import Step

_HIDDEN_MAX_CHARS: Final = 64
"""Maximum length of what stands unseen between two characters; each run is held with the character behind it."""


Plain = TypeVar("Plain", bound=Twin)


class Readings(Generic[Plain]):
    """The filter of a plain text that reads it twice where needed. `first` reads the text as it is written."""

    __slots__ = ("_again", "_first", "_merged", "_pending", "quick")

    def __init__(self, first: Plain) -> None:
        self._first = first
        self._again: _Again[Plain] | None = None
        self._merged = _Merged()
        self._pending = ""  # an unfinished spelling, which neither has read
        self.quick: Callable[[str], int] = first.quick
        """Read a piece that needs no steps (`Filter.quick`); this is the method of the only reading."""

    def mark_of_rest(self, rest: str, /) -> str | None:
        """Return an empty mark, which drops the text, if it continues a credential; None if it may be shown."""
        mark = self._first.mark_of_rest(rest)
        return mark if mark is not None or self._again is None else self._again.filter.mark_of_rest(rest)

    def carry(self) -> Carry:
        """Return what the text leaves to the next string of its list, after `end`."""
        carry = self._first.carry()
        return carry if carry or self._again is None else self._again.filter.carry()

    def begin_after(self, carry: Carry) -> None:
        """Begin a string behind another one of its list."""
        self._first.begin_after(carry)

    def continue_after(self, shown: str) -> None:
        """Continue after text that was already shown."""
        self._first.continue_after(shown)

    def feed(self, text: str, /) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""
        if self._again is not None:
            return self._both(self._again, text)
        text = self._pending + text
        found = SPELLED.search(text)
        if found is None:
            unfinished = UNFINISHED.search(text, max(0, len(text) - UNFINISHED_MAX_CHARS))
            end = len(text) if unfinished is None else unfinished.start()
            self._pending = text[end:]
            self.quick = self._first.quick if end == len(text) else _never
            return self._first.feed(text[:end]) if end else []
        self._pending = ""
        self.quick = _never
        steps = self._first.feed(text[: found.start()]) if found.start() else []
        self._again = _Again(self._first.fork(), self._first.held)
        self._merged = _Merged()
        return steps + self._both(self._again, text[found.start() :])

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the text; a credential may still be unfinished."""
        if self._again is None:
            text, self._pending = self._pending, ""
            self.quick = self._first.quick
            return (self._first.feed(text) if text else []) + self._first.end()
        self._merged.add(self._first.end(), self._again.end())
        return self._merged.take()

    def _both(self, again: _Again[Plain], text: str) -> list[Step]:
        self._merged.add(self._first.feed(text), again.feed(text))
        steps = self._merged.take()
        after = self._first.idle_after
        if after is not None and after == again.filter.idle_after and not again.is_reading:
            self._again = None
            self.quick = self._first.quick
        return steps


def _never(_text: str, /) -> int:
    return -1


class _Again(Generic[Plain]):
    """The second reading: a filter of the text as it is read, with steps over the text as it is written.

    `held` is the number of characters that the filter holds of what was read before.
    """

    def __init__(self, text_filter: Plain, held: int) -> None:
        self.filter = text_filter
        self._pending = ""  # an unfinished spelling
        self._hidden = 0  # unseen characters before the next one
        self._held = held
        self._spelled: list[tuple[int, int]] = []  # number of a held character, and by how many it is longer

    @property
    def is_reading(self) -> bool:
        """Whether anything is held."""
        return bool(self._pending or self._hidden or self._held)

    def feed(self, text: str) -> list[Step]:
        """Read a piece."""
        text = self._pending + text
        parts: list[str] = []
        at = 0
        for spelling in SPELLED.finditer(text):
            self._see(text[at : spelling.start()], 0, parts)
            at = spelling.end()
            if char := decoded(spelling[0]):
                self._see(char, len(spelling[0]) - len(char), parts)
                continue
            self._hidden += len(spelling[0])
            if self._hidden > _HIDDEN_MAX_CHARS:
                self._hidden -= 1
                self._see(spelling[0][-1], 0, parts)
        unfinished = UNFINISHED.search(text, max(at, len(text) - UNFINISHED_MAX_CHARS))
        end = len(text) if unfinished is None else unfinished.start()
        self._see(text[at:end], 0, parts)
        self._pending = text[end:]
        return self._as_written(self.filter.feed("".join(parts))) if parts else []

    def end(self) -> list[Step]:
        """Return the steps at the end of the text; unseen characters there are shown."""
        parts: list[str] = []
        self._see(self._pending, 0, parts)
        self._pending = ""
        steps = (self.filter.feed("".join(parts)) if parts else []) + self.filter.end()
        return [*self._as_written(steps), (self._hidden, None)]

    def _see(self, text: str, longer: int, parts: list[str]) -> None:
        if not text:
            return
        if self._hidden or longer:
            self._spelled.append((self._held, self._hidden + longer))
            self._hidden = 0
        self._held += len(text)
        parts.append(text)

    def _as_written(self, steps: list[Step]) -> list[Step]:
        """Convert steps over what was read into steps over what is written."""
        found: list[Step] = []
        read = at = 0
        for count, mark in steps:
            read += count
            longer = 0
            while at < len(self._spelled) and self._spelled[at][0] < read:
                longer += self._spelled[at][1]
                at += 1
            found.append((count + longer, mark))
        self._spelled = [(number - read, longer) for number, longer in self._spelled[at:]]
        self._held -= read
        return found


class _Merged:
    """The steps of two readings of the same text as one: what either withholds is withheld."""

    def __init__(self) -> None:
        self._queues: tuple[list[Step], list[Step]] = ([], [])
        self._marks = ["", ""]  # of each reading, until the first of its characters
        self._is_marked = False  # whether a mark stands for the last character

    def add(self, first: list[Step], second: list[Step]) -> None:
        """Add the next steps of both readings."""
        for queue, steps in zip(self._queues, (first, second), strict=True):
            queue.extend(steps)

    def take(self) -> list[Step]:
        """Return the steps that both readings have made."""
        found: list[Step] = []
        self._skip_empty()
        while all(self._queues):
            count = min(queue[0][0] for queue in self._queues)
            marks = [queue[0][1] for queue in self._queues]
            if marks == [None, None]:
                found.append((count, None))
                self._is_marked = False
            else:
                found.append((count, "" if self._is_marked else self._mark(marks)))
                self._is_marked = True
            for queue, mark in zip(self._queues, marks, strict=True):
                queue[0] = (queue[0][0] - count, mark and "")
            self._skip_empty()
        return found

    def _mark(self, marks: list[str | None]) -> str:
        announced, self._marks = self._marks, ["", ""]
        return next((mark for mark in (*announced, *marks) if mark), "")  # none if it stands before the first step

    def _skip_empty(self) -> None:
        """Drop steps without characters; their mark is of the next characters of the reading."""
        for number, queue in enumerate(self._queues):
            while queue and not queue[0][0]:
                self._marks[number] = queue.pop(0)[1] or self._marks[number]
