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

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from projector.redaction.content_filter import Carry, Twin
from projector.redaction.spellings import MAY_BE_SPELLED, SPELLED, UNFINISHED, UNFINISHED_MAX_CHARS, decoded
from projector.redaction.steps import Step, without_shown

_HIDDEN_MAX_CHARS: Final = 64
"""Maximum length of what stands unseen between two characters; each run is held with the character behind it."""


Plain = TypeVar("Plain", bound=Twin)


class Readings(Generic[Plain]):
    """The filter of a plain text that reads it twice where needed. `first` reads the text as it is written."""

    __slots__ = (
        "_again",
        "_first",
        "_is_cut",
        "_merged",
        "_open_chars",
        "_pending",
        "_shown",
        "_undecided",
        "quick",
    )

    def __init__(self, first: Plain) -> None:
        self._first = first
        self._again: _Again[Plain] | None = None
        self._merged: Merged | None = None  # of two readings
        self._pending = ""  # an unfinished spelling, which neither has read
        self._shown = 0  # number of held characters that were already shown
        self._undecided = ""  # at the end of the text
        self._open_chars = 0  # its last characters that may begin a secret; 0 if its reader decides
        self._is_cut = False  # whether a secret began in text that was shown before
        self.quick: Callable[[str], int] = first.quick
        """Read a piece that needs no steps (`Filter.quick`); this is the method of the only reading."""

    @property
    def is_single(self) -> bool:
        """Whether the text is read once, and nothing that is held was shown before."""
        return self._again is None and not self._shown

    def restart(self) -> None:
        """Begin a new text; only `quick` may have read the last one, and nothing is held."""
        self._first.resume("")

    def drop_pending(self) -> None:
        """Forget an unfinished spelling, which the caller will feed again."""
        self._pending = ""
        self.quick = self._first.quick

    def mark_of_rest(self, rest: str, /) -> str | None:
        """Return an empty mark, which drops the text, if it continues a credential; None if it may be shown."""
        mark = self._first.mark_of_rest(rest)
        return mark if mark is not None or self._again is None else self._again.filter.mark_of_rest(rest)

    @property
    def held(self) -> int:
        """Number of characters that no step covers yet."""
        again = self._again.held if self._again is not None else 0
        return self._first.held + again + len(self._pending)

    @property
    def undecided(self) -> str:
        """Held text that may become a secret, with the text before it; empty if there is none."""
        text = self._first.undecided_with(self._pending)
        if not text and self._again is not None and self._again.held:
            return self._first.idle_after or ""
        return text

    def carry(self) -> Carry:
        """Return what the text leaves to the next string of its list, after `end`."""
        carry = self._first.carry()
        if carry.is_nothing and self._again is not None:
            carry = self._again.filter.carry()
        if self._is_cut and not carry.is_nothing:
            carry = carry._replace(is_cut=True)
        if not self._undecided:
            return carry
        return carry._replace(text=self._undecided, lines=self._undecided, open_chars=self._open_chars)

    def begin_after(self, carry: Carry) -> None:
        """Begin a string behind another one of its list."""
        self._first.begin_after(carry)
        self._is_cut = carry.is_cut

    def continue_after(self, shown: str) -> None:
        """Continue after text that was already shown. A secret may have begun in that text."""
        steps = self.feed(shown)
        self._shown = len(shown) - sum(count for count, _ in steps)
        if self._shown:
            self.quick = _never

    def feed(self, text: str, /) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""
        return self._not_shown(self._read(text)) if self._shown else self._read(text)

    def _read(self, text: str) -> list[Step]:
        if self._again is not None:
            return self._both(self._again, text)
        if not self._pending and MAY_BE_SPELLED.search(text) is None:
            return self._first.feed(text)
        text = self._pending + text
        found = SPELLED.search(text)
        if found is None:
            unfinished = UNFINISHED.search(text, max(0, len(text) - UNFINISHED_MAX_CHARS))
            end = len(text) if unfinished is None else unfinished.start()
            self._pending = text[end:]
            self.quick = self._first.quick if end == len(text) and not self._shown else _never
            return self._first.feed(text[:end]) if end else []
        self._pending = ""
        self.quick = _never
        steps = self._first.feed(text[: found.start()]) if found.start() else []
        self._again = _Again(self._first.fork(), self._first.held)
        self._merged = None
        return steps + self._both(self._again, text[found.start() :])

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the text; a credential may still be unfinished."""
        return self._not_shown(self._end()) if self._shown else self._end()

    def _not_shown(self, steps: list[Step]) -> list[Step]:
        """Return steps without the characters that were shown before."""
        found, self._shown = without_shown(steps, self._shown)
        self._is_cut = self._is_cut or any(mark for _, mark in found)
        if not self._shown and self._again is None and not self._pending:
            self.quick = self._first.quick
        return found

    def _end(self) -> list[Step]:
        if self._again is None and not (self._pending or self._shown or self._first.held):
            self._undecided = ""
            return self._first.end()
        self._undecided = self.undecided
        is_simple = self._again is None and not self._first.is_reading
        self._open_chars = self._first.held + len(self._pending) if is_simple else 0
        self._first.is_piece = bool(self._shown)
        if self._again is None:
            text, self._pending = self._pending, ""
            self.quick = self._first.quick
            return (self._first.feed(text) if text else []) + self._first.end()
        return self._merge([self._first.end(), self._again.end()])

    def _merge(self, steps: Iterable[list[Step]]) -> list[Step]:
        merged = self._merged = self._merged or Merged(2)
        return merged.add(steps)

    def _both(self, again: _Again[Plain], text: str) -> list[Step]:
        steps = self._merge([self._first.feed(text), again.feed(text)])
        after = self._first.idle_after
        if after is not None and after == again.filter.idle_after and not again.held:
            self._again = None
            self.quick = self._first.quick if not self._shown else _never
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
    def held(self) -> int:
        """Number of characters that no step covers yet, at least."""
        return len(self._pending) + self._hidden + self._held

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
        steps = self._ended()
        return [*self._as_written(steps), (self._hidden, None)]

    def _ended(self) -> list[Step]:
        """Return the last steps of the filter. An unfinished spelling behind part of a secret is part of it."""
        text, self._pending = self._pending, ""
        if not text:
            return self.filter.end()
        before = self.filter.fork().end()
        parts: list[str] = []
        self._see(text, 0, parts)
        if before and before[-1][1] is not None:
            return [*before, (len(text), "")]
        return self.filter.feed("".join(parts)) + self.filter.end()

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


class Merged:
    """The steps of several readings of the same text as one: what any of them withholds is withheld."""

    def __init__(self, readings: int) -> None:
        self._queues: list[list[Step]] = [[] for _ in range(readings)]
        self._marks = [""] * readings  # of each reading, until the first of its characters
        self._is_marked = False  # whether a mark stands for the last character

    def add(self, steps: Iterable[list[Step]]) -> list[Step]:
        """Add the next steps of each reading; return the steps that all of them have made."""
        for queue, new in zip(self._queues, steps, strict=True):
            queue.extend(new)
        found: list[Step] = []
        self._skip_empty()
        while all(self._queues):
            count = min(queue[0][0] for queue in self._queues)
            marks = [queue[0][1] for queue in self._queues]
            found.append((count, self._mark(marks)))
            for queue, mark in zip(self._queues, marks, strict=True):
                queue[0] = (queue[0][0] - count, mark and "")
            self._skip_empty()
        return found

    def _mark(self, marks: list[str | None]) -> str | None:
        """Return the mark for the next characters; empty if they are of a value whose mark stands before them."""
        if all(mark is None for mark in marks):
            self._is_marked = False
            return None
        begins = [announced or mark for announced, mark in zip(self._marks, marks, strict=True)]
        if self._is_marked and not all(begins):
            return ""
        self._is_marked = True
        self._marks = [""] * len(self._marks)
        return next((mark for mark in begins if mark), "")  # none if it stands before the first step

    def _skip_empty(self) -> None:
        """Drop steps without characters; their mark is of the next characters of the reading."""
        for number, queue in enumerate(self._queues):
            while queue and not queue[0][0]:
                self._marks[number] = queue.pop(0)[1] or self._marks[number]
