"""The filter of a plain text, whole or growing: one path for both, because a whole text is a text that is fed once.

    Readings     what several scanners withhold, of the text as it is written and as it is read (`spellings`)
    TextFilter   the readings of one text, which begin where the search cannot tell at once that all of it is shown

A filter returns steps over the text (`spellings.Step`). The steps after n characters depend on those n characters
alone, not on where the pieces end: what a scanner holds is exactly what its search has not decided. Texts that readers
join, such as the parts of a message, are one text for the search: the filter of the next one continues with the state
of the last one (`TextFilter.following`).
"""

# ruff: noqa: SLF001 - a fork sets the members of its own class
from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from projector.redaction.clean import CleanText
from projector.redaction.scanners import BEFORE_CHARS, Scanner, scanners_of
from projector.redaction.search import Search
from projector.redaction.spellings import MAY_BE_SPELLED, SPELLED, Decoder, Queue, Step, merge, unfinished_from
from projector.redaction.value_ends import Continued, Cursor, End, State, is_reported

PIECE_CHARS: Final = 4_096
"""Maximum length of a piece. It bounds the time to search the rest of a piece again after a find."""


def in_pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces of at most `PIECE_CHARS`."""
    for start in range(0, len(text), PIECE_CHARS):
        yield text[start : start + PIECE_CHARS]


_LEAST_CHARS: Final = 104
"""Of `BEFORE_CHARS` these are kept when there are more, because to cut them after each piece costs more."""
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz.,;:!?")
"""What no value begins with if a blank follows, so that the text from there on decides alone."""
_WORD_MAX_CHARS: Final = 24
_WORDS_MAX: Final = 4_096
_IN_VALUES: Final = re.compile(r"[\d@<]")
"""One of these is in each value of a class: no such text is kept."""
_ESCAPE: Final = re.compile(r"(?:[\\%=\[&]|\x1b[()]?)[0-9A-Za-z;#]{0,13}\Z")
"""An escape at the end of a text, after which a word begins: `Search.shown` does not look back so far."""


class Filter(Protocol):
    """The interface of every filter of a text or string."""

    def quick(self, text: str, /) -> int:
        """Read a piece that needs no steps, as nearly every piece of a growing text.

        Return how many of the held characters and `text` are shown; the rest is held. -1 if nothing was read because
        only `feed` can decide.
        """

    def feed(self, text: str, /) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the text."""

    def goes_on(self, rest: str, /) -> bool:
        """Return whether a text that follows would belong to a value that is withheld."""

    @property
    def ended_in(self) -> list[End]:
        """The ends of the values in which the text ended, after `end`."""


class Readings(State):
    """The readings of a text. Those of the text as it is read begin with its first spelling."""

    def __init__(self, search: Search, before: str) -> None:
        self._of_formats = len(search.finds) - 1
        self.rows = scanners_of(search, before)
        self._count = len(self.rows)
        self._pending = ""  # an unfinished spelling, which no reading has read
        self._last: Step | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is undecided."""
        return not self._pending and all(row.is_idle and row.queue.is_even for row in self.rows)

    @property
    def undecided(self) -> int:
        """Number of characters at the end of the text that the searches have not decided."""
        return len(self._pending) + max(row.undecided for row in self.rows)

    def resumable(self) -> tuple[str, str] | None:
        """Return the text before and what is held, with which new readings could continue; None if more decides."""
        if len(self.rows) > self._count or self._pending or not all(row.is_resumable for row in self.rows):
            return None
        if not all(row.queue.is_shown for row in self.rows):
            return None
        last = max(self.rows, key=lambda row: len(row.held))
        return last.before, last.held

    def begin(self, begins: Callable[[Cursor], End | None]) -> None:
        """Decide whether the text begins with a value, before it is searched."""
        self.rows[self._of_formats].begins = begins

    def feed(self, text: str) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""
        if len(self.rows) > self._count:
            return self._both(text)
        text, self._pending = self._pending + text, ""
        if MAY_BE_SPELLED.search(text) is None:
            return self._feed(text)
        found = SPELLED.search(text)
        if found is None:
            end = unfinished_from(text)
            self._pending = text[end:]
            return self._feed(text[:end])
        steps = self._feed(text[: found.start()])
        self._read_twice()
        return steps + self._both(text[found.start() :])

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the text."""
        pending, self._pending = self._pending, ""
        if pending:
            self._read_twice()
        return self._feed(pending) + self._each(Scanner.end)

    def decide(self) -> list[Step]:
        """Return the steps that the characters so far decide (`Scanner.decide`)."""
        return self._each(Scanner.decide)

    def _each(self, read: Callable[[Scanner], list[Step]]) -> list[Step]:
        if len(self.rows) == 1:
            return read(self.rows[0])
        for row in self.rows:
            row.queue.add(read(row))
        return self._merged()

    def _feed(self, text: str) -> list[Step]:
        if not text:
            return []
        if len(self.rows) == 1:
            return self.rows[0].feed(text)
        for row in self.rows:
            row.queue.add(row.feed(text))
        return self._merged()

    def _read_twice(self) -> None:
        """Begin to read the text as it is read too."""
        for row in self.rows[: self._count]:
            twin = row.fork()
            twin.decoder = Decoder(row.uncovered, row.spelled)
            self.rows.append(twin)

    def _merged(self) -> list[Step]:
        groups = [[row.queue for row in self.rows[kind :: self._count]] for kind in range(self._count)]
        steps = merge(groups, self._last)
        self._last = steps[-1] if steps else self._last
        return steps

    def _both(self, text: str) -> list[Step]:
        steps = self._feed(text)
        pairs = zip(self.rows[: self._count], self.rows[self._count :], strict=True)
        if all(_are_equal(*pair) for pair in pairs):
            del self.rows[self._count :]
        return steps


def _are_equal(written: Scanner, read: Scanner) -> bool:
    """Return whether two readings are in the same state from here on."""
    state = written.state
    is_idle = read.decoder is not None and not read.decoder.unread and read.queue.is_even and written.queue.is_even
    return is_idle and state is not None and state == read.state


class TextFilter(State):
    """The filter of one text.

    Nearly every piece is decided by `Search.shown`; the readings begin where it cannot tell, and end when nothing near
    is withheld any more.
    """

    # what few filters have
    _undecided: str | None = None  # held and new text about which the search could not tell: it is not asked again
    _uncovered = 0  # characters of the readings that no step covers
    _begun: str | None = None  # mark of a value that began in the earlier text, until its next character
    _reported: str | None = None  # the last mark of a value that is only reported, in the earlier text
    _going_on: Sequence[str] = ()  # marks of values that were read when the earlier text ended
    _ended: frozenset[str | None] = frozenset()  # the marks that the earlier text had at its end
    _is_muted = False  # whether a value that began in the earlier text has its mark there
    late: str | None = None
    """The mark of a value that is whole in the earlier text, where it was none as long as no text followed."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._before = " "  # the last characters that were shown
        self.held = ""
        """Characters that may begin a value, as long as no reading is needed."""
        self._readings: Readings | None = None
        self._shown = 0  # undecided characters that were shown or withheld with an earlier text

    @property
    def is_open(self) -> bool:
        """Whether anything is undecided, or a value is read."""
        return bool(self.held) or (self._readings is not None and not self._readings.is_idle)

    @property
    def ends(self) -> list[End]:
        """The ends of the values that are read."""
        return [row.value for row in self._rows if row.value is not None]

    @property
    def is_quick(self) -> bool:
        """Whether no reading is needed, and all that is held is of this text."""
        return self._readings is None and not self._shown

    @property
    def ended_in(self) -> list[End]:
        """The ends of the values in which the text ended, after `end`."""
        return [row.ended_in for row in self._rows if row.ended_in is not None]

    @property
    def _rows(self) -> list[Scanner]:
        return [] if self._readings is None else self._readings.rows

    @property
    def state(self) -> tuple[str, str] | None:
        """The texts on which the reading of what follows depends; None if more than these decide."""
        is_simple = self._readings is None and not self._shown and self._begun is None
        return (self._before[-self._search.context :], self.held) if is_simple else None

    @property
    def is_shown(self) -> bool:
        """Whether everything is shown if the text ends here; False if only `end` can tell."""
        if self._readings is not None or not self.held:
            return not self.is_open
        whole = self._before + self.held
        return self._search.shown(whole, len(self._before), is_whole=True) == len(whole)

    def reaches_back(self, count: int) -> bool:
        """Return whether what is undecided, or a value that is read, began before the last characters."""
        undecided = len(self.held) if self._readings is None else self._readings.undecided
        return bool(self.ends) or undecided > count

    def quick(self, text: str, /) -> int:
        """Read a piece in which nothing begins, or only at its end (`Filter.quick`)."""
        shown = self.shows(text)
        return -1 if shown is None else len(shown)

    def shows(self, text: str, /) -> str | None:
        """Read a piece in which nothing begins, or only at its end; return what is shown, None if nothing was read."""
        new = self.held + text
        if self._readings is not None or new == self._undecided:
            return None
        before, words = self._before, self._search.words
        start = len(before)
        whole = before + new
        last = before[-1]
        if words is not None and (last in _LETTERS if new[:1] == " " else last == " " and before[-2:-1] in _LETTERS):
            count = words.get(new)
            end = self._decide_word(words, new, whole) if count is None else start + count
        else:
            end = self._search.shown(whole, start)
        start += self._shown
        if end < start:
            self._undecided = new
            return None
        self._shown = 0
        if end == len(whole):
            self.held = ""
            self._before = whole if end <= BEFORE_CHARS else whole[-_LEAST_CHARS:]
        else:
            self.held = whole[end:]
            self._before = whole[:end] if end <= BEFORE_CHARS else whole[end - _LEAST_CHARS : end]
        return whole[start:end]

    def shows_each(self, texts: Sequence[str], start: int, /) -> list[CleanText]:
        """Read pieces from a position on and return what each shows, as long as `shows` can tell."""
        found: list[Any] = []  # of clean texts: the search has decided about each
        words = self._search.words if self._readings is None else None
        for text in texts[start:] if start else texts:
            before = self._before
            if (
                words is not None
                and words.get(text) == len(text)  # a known word
                and not self.held
                and text[0] == " "
                and before[-1] in _LETTERS
            ):
                before += text
                self._before = before if len(before) <= BEFORE_CHARS else before[-_LEAST_CHARS:]
                found.append(text)
            elif (shown := self.shows(text)) is not None:
                found.append(shown)
            else:
                break
        return found

    def _decide_word(self, words: dict[str, int], text: str, whole: str) -> int:
        """Return the position up to which a text is shown, and keep what was decided about a word."""
        start = len(whole) - len(text)
        end = self._search.shown(whole, start)
        if (end >= start or whole.isascii()) and len(text) <= _WORD_MAX_CHARS and _IN_VALUES.search(text) is None:
            if len(words) >= _WORDS_MAX:
                words.clear()
            words[text] = end - start
        return end

    def feed(self, text: str, /) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""
        readings = self._readings
        if readings is None:
            if (count := self.quick(text)) >= 0:
                return [(count, None)] if count else []
            readings = self._begin()
            text, self.held, self._undecided = self.held + text, "", None
        return self._made(readings, readings.feed(text), len(text))

    def decide(self) -> list[Step]:
        """Return the steps that the characters so far decide: at the end of a text that another one continues."""
        readings = self._readings
        return [] if readings is None else self._made(readings, readings.decide(), 0)

    def _made(self, readings: Readings, steps: list[Step], count: int) -> list[Step]:
        """Return the steps that readings made when they read some more characters."""
        self._uncovered += count - sum(covered for covered, _ in steps)
        if self._follows:
            steps = self._not_shown(steps)
        if not self._follows and (near := readings.resumable()) is not None:
            self._resume(*near)
        return steps

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the text."""
        steps: list[Step]
        if self._readings is not None:
            steps = self._readings.end()
        elif not self.held:
            return []
        else:
            is_shown, held, self.held = self.is_shown, self.held, ""
            steps = [(len(held), None)] if is_shown else self._begin().feed(held) + self._begin().end()
        return self._not_shown(steps) if self._follows else steps

    def goes_on(self, rest: str, /) -> bool:
        """Return whether a text that follows would belong to a value that is withheld."""
        return any(end.goes_on(rest) for end in (*self.ends, *self.ended_in))

    def continue_after(self, shown: str) -> None:
        """Continue after text that was already shown. A value may have begun in it."""
        self.feed(shown)
        self._pass()

    def following(self, separator: str = "", *, is_string: bool = False) -> TextFilter:
        """Return the filter of the text that readers join with this one, before this one is ended.

        A value that begins in this text goes on in the next one, where it has a mark only if its beginning was shown,
        or if that is a string of its own.
        """
        twin = self.fork()
        steps = [] if is_string else twin.decide()
        twin._begun, twin._going_on, twin._is_muted, twin._ended, twin.late = None, (), False, frozenset(), None
        if not is_string:
            ended = [] if self.is_shown else self.fork().end()
            last = next((mark for count, mark in reversed(ended) if count), None)
            twin._is_muted = last is not None or bool(twin.ends)
            twin._ended = frozenset(mark for _, mark in ended)
            twin._going_on = [row.named for row in twin._rows if row.value is not None]
        for _, mark in steps + twin.feed(separator) if separator else steps:
            twin.late = mark if mark and mark not in twin._ended else twin.late
        for row in twin._rows if is_string else ():
            row.mark_again()
        twin._pass()
        return twin

    def begin(self, begins: Callable[[Cursor], End | None]) -> None:
        """Decide whether the text begins with a value, before it is searched."""
        self._begin().begin(begins)

    def _resume(self, before: str, held: str) -> None:
        """Leave the readings if the next piece can be decided without them."""
        before = before or " "
        if _ESCAPE.search(before) is None and self._search.shown(before + held, len(before)) == len(before):
            self._before, self.held, self._readings, self._uncovered = before, held, None, 0

    def _begin(self) -> Readings:
        if self._readings is None:
            self._readings = Readings(self._search, self._before)
        return self._readings

    def _pass(self) -> None:
        """Count what is held as passed on."""
        self._shown = len(self.held) if self._readings is None else self._uncovered

    @property
    def _follows(self) -> bool:
        """Whether the steps still depend on the earlier text."""
        return bool(self._shown or self._going_on) or self._begun is not None

    def _not_shown(self, steps: list[Step]) -> list[Step]:
        """Return the steps without the characters that were passed on with an earlier text."""
        found: list[Step] = []
        for count, mark in steps:
            passed = min(count, self._shown)
            self._shown -= passed
            if passed and mark != "":
                self._begun, self._going_on = mark, ()
                self._reported = mark if mark is not None and is_reported(mark) else self._reported
            elif passed and mark is not None and is_reported(mark):
                self._begun = self._reported or self._begun  # it goes on behind one that is withheld
            if count == passed:
                self.late = mark if mark and mark not in self._ended else self.late
                continue
            begun, self._begun = self._begun, None
            going_on, self._going_on = self._going_on, ()
            if mark is not None and begun is not None and (passed or not mark):
                found.append((count - passed, Continued.of([begun]) if self._is_muted else begun))
            else:
                found.append((count - passed, Continued.of(going_on) if mark == "" and going_on else mark))
        return found


class Union:
    """The filter of a text that is read in several ways at once: what any of them withholds is withheld.

    Args:
        readings: the filters.
        held: number of characters that only the first one has read, and no step covers.
    """

    def __init__(self, readings: Sequence[Filter], held: int = 0) -> None:
        self.readings = [*readings]
        self.lost: list[str] = []
        """The marks that the last steps do not have, because another reading withholds the same characters."""
        self._last: Step | None = None
        self._queues = [Queue([(held, None)] if held and at else []) for at in range(len(self.readings))]

    @property
    def settled(self) -> TextFilter | None:
        """A filter that can replace this one, because all are in the same state."""
        first = self.readings[0]
        if not isinstance(first, TextFilter) or not all(queue.is_even for queue in self._queues):
            return None
        state = first.state
        is_same = state is not None and all(
            isinstance(each, TextFilter) and each.state == state for each in self.readings
        )
        return first if is_same else None

    def quick(self, text: str, /) -> int:
        """Read a piece that needs no steps (`Filter.quick`)."""
        return self.readings[0].quick(text) if len(self.readings) == 1 else -1

    def feed(self, text: str, /) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""
        steps = [each.feed(text) for each in self.readings]
        return steps[0] if len(steps) == 1 else self._merged(steps)

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the text."""
        steps = [each.end() for each in self.readings]
        return steps[0] if len(steps) == 1 else self._merged(steps)

    def goes_on(self, rest: str, /) -> bool:
        """Return whether a text that follows would belong to a value that is withheld."""
        return any(each.goes_on(rest) for each in self.readings)

    @property
    def ended_in(self) -> list[End]:
        """The ends of the values in which the text ended, after `end`."""
        return [end for each in self.readings for end in each.ended_in]

    def _merged(self, steps: list[list[Step]]) -> list[Step]:
        for queue, more in zip(self._queues, steps, strict=True):
            queue.add(more)
        self.lost = []
        merged = merge([self._queues], self._last, self.lost)
        self._last = merged[-1] if merged else self._last
        return merged
