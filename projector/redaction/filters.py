"""Streaming filters of plain text and numbers. They decide which characters are shown and which are withheld.

A filter reads a text piece by piece and returns steps over it (`projector.redaction.steps`). The steps after n
characters depend on those n characters alone, not on where the pieces end. `end` covers the rest.

    ValueFilter      registered values
    FormatFilter     credential formats
    PlainFilter      both; a registered value takes precedence over a format around it
    Readings         reads a text again where its characters are not what they stand for (`readings`)
    NumberFilter     registered values that are numbers (`4711` as a PIN)
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from projector.contracts.kinds import REDACTED
from projector.redaction.content_filter import Carry
from projector.redaction.detector import Detector, Values
from projector.redaction.json_grammar import COMPLETE_STATES, DIGIT_RUN, DIGIT_STATES, NUMBER
from projector.redaction.readings import Readings
from projector.redaction.steps import Step, StepWriter, without_shown
from projector.redaction.value_places import BEFORE_CHARS
from projector.redaction.value_reader import Reading, ValueReader

_WORD_END: Final = " "
"""Stands for what is before a text, so that a word begins with it."""
_BEFORE_MAX_CHARS: Final = 2 * BEFORE_CHARS
"""Shown characters are kept up to this length, because to cut them after each fragment costs more."""


class ValueFilter:
    """The filter that withholds registered values."""

    __slots__ = ("_values", "held")

    def __init__(self, values: Values) -> None:
        self._values = values
        self.held = ""
        """Characters that may begin a value."""

    def quick(self, _text: str, /) -> int:
        """Leave every piece to `feed`; `ValueStream` has a quick search of its own."""
        return -1

    def feed(self, text: str, /) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""
        text = self.held + text
        found = self._values.beginning(text)
        start = len(text) if found is None else found.start()
        if start < len(text) and text[start:] not in self._values.openings:
            return self._filter(text, at_end=False)
        self.held = text[start:]
        return [(start, None)] if start else []

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the text."""
        return self._filter(self.held, at_end=True)

    def _filter(self, text: str, *, at_end: bool) -> list[Step]:
        steps: list[Step] = []
        self.held = ""
        while text:
            found = self._values.find(text, at_end=at_end)
            start, end, mark = found or (len(text), len(text), "")
            if start:
                steps.append((start, None))
            if not mark:
                self.held = text[start:]
                break
            steps.append((end - start, mark))
            text = text[end:]
        return steps


class FormatFilter:
    """The filter that withholds credentials of known formats, and the values of sensitive words (`ValueReader`)."""

    __slots__ = ("_before", "_detector", "_held", "_passed", "_reader", "_shown", "_tail", "is_piece")

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._before = ""  # the last characters that were shown, at least `BEFORE_CHARS`; empty behind a mark
        self._held = ""
        self._reader: ValueReader | None = None
        self._shown = 0  # number of held characters that were already shown
        self._tail: re.Pattern[str] | None = None
        self._passed: re.Pattern[str] | None = None  # a tail that the whole text may continue, though it is shown
        self.is_piece = False
        """Whether the text ends inside a secret of which the beginning was in another text (`Detector.find`)."""

    @property
    def in_credential(self) -> bool:
        """Whether the last credential may still continue."""
        return self._tail is not None or (self._reader is not None and self._reader.is_taken)

    @property
    def held(self) -> int:
        """Number of characters that no step covers yet."""
        return len(self._held) + (self._reader.held if self._reader is not None else 0)

    @property
    def is_reading(self) -> bool:
        """Whether the reader of a value decides about what is held."""
        return self._reader is not None

    def undecided_with(self, text: str) -> str:
        """Return the held text and another one behind it, with what stands before; empty if there is none."""
        held = (self._held if self._reader is None else self._reader.undecided) + text
        return (self._before + held)[-BEFORE_CHARS - len(held) :] if held else ""

    def fork(self) -> FormatFilter:
        """Return a filter in the same state."""
        twin = FormatFilter(self._detector)
        twin._before, twin._held, twin._shown = self._before, self._held, self._shown
        twin._tail, twin._passed, twin.is_piece = self._tail, self._passed, self.is_piece
        twin._reader = self._reader.fork() if self._reader is not None else None
        return twin

    @property
    def idle_after(self) -> str | None:
        """The text before what follows, on which its reading depends; None if more than this text decides."""
        is_idle = self._reader is None and self._tail is None and not self._held and not self._shown
        return self._before[-BEFORE_CHARS:] if is_idle else None

    @property
    def can_reread(self) -> bool:
        """Whether what is held can be read again behind the text before it: in no credential."""
        return self._reader is None and self._tail is None and not self._shown

    def drop_held(self) -> None:
        """Forget the held characters, which the caller will feed again."""
        self._held = ""

    @property
    def before(self) -> str:
        """The last characters that were shown; empty behind a mark."""
        return self._before

    def resume(self, before: str) -> None:
        """Continue behind text that was shown without this filter because nothing began in it."""
        self._before = before

    def mark_of_rest(self, rest: str, /) -> str | None:
        """Return an empty mark, which drops the text, if it continues a credential; None if it may be shown."""
        if self._reader is not None and self._reader.is_taken:
            return ""
        return "" if self._tail is not None and self._tail.fullmatch(rest[:1]) else None

    def carry(self) -> Carry:
        """Return what the text leaves to the next string of its list, after `end`."""
        reader = self._reader if self._reader is not None and self._reader.is_taken else None
        tail = self._tail or (self._passed if reader is None else None)
        return Carry(reader=reader, tail=tail, is_cut=reader is not None and reader.continues)

    def begin_after(self, carry: Carry) -> None:
        """Begin a string behind another one of its list."""
        if carry.key:
            self._reader = ValueReader("entry", carry.key, "", self._detector.keys)
        elif carry.reader is not None:
            self._reader = carry.reader.again()
        elif carry.tail is not None:
            reader = "rest" if carry.is_cut else "tail"
            self._reader = ValueReader(reader, carry.tail.pattern, "", self._detector.keys)

    def begin_in(self, value: Carry) -> None:
        """Begin a text inside a credential that another text begins; its rest is dropped without a mark."""
        self._reader = None if value.reader is None else value.reader.fork()
        self._tail = value.tail

    def quick(self, text: str, /) -> int:
        """Read a piece in which nothing begins, or only at its end.

        It is exact because `feed` does the same: it searches behind the shown text, and holds what may begin there.
        """
        if self._reader is not None or self._tail is not None or self._shown:
            return -1
        before = self._before or _WORD_END
        start = len(before)
        whole = before + self._held + text if self._held else before + text
        end = self._detector.shown(whole, start, at_end=False)
        if end < 0:
            return -1
        self._held = whole[end:] if end < len(whole) else ""
        if end > _BEFORE_MAX_CHARS:
            self._before = whole[end - BEFORE_CHARS : end]
        else:
            self._before = whole[:end] if self._before else whole[start:end]
        return end - start

    def feed(self, text: str, /) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""
        if (count := self.quick(text)) >= 0:
            return [(count, None)] if count else []
        steps: list[Step] = []
        if self._reader is not None:
            text = self._read_value(self._reader.feed(text), steps)
        elif self._tail is not None:
            text = self._drop_tail(self._tail, text, steps)
        self._filter(self._held + text, steps, at_end=False)
        if self._shown:
            steps, self._shown = without_shown(steps, self._shown)
        return steps

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the text; a credential may still be unfinished."""
        steps: list[Step] = []
        text = self._held
        if self._reader is None and not self._shown:
            before = self._before or _WORD_END
            is_shown = not text or self._detector.shown(before + text, len(before), at_end=True) >= 0
            if is_shown and not (text and self.is_piece):
                self._before = self._held = ""
                return [(len(text), None)] if text else []
        self._passed = None if self._reader is None else self._reader.passing
        while text or self._reader is not None:
            self._filter(text, steps, at_end=True)
            text = "" if self._reader is None else self._read_value(self._reader.end(), steps)
            if self.in_credential:
                break
        self._before = ""
        if self._shown:
            steps, self._shown = without_shown(steps, self._shown)
        return steps

    def continue_after(self, shown: str) -> None:
        """Continue after text that was already shown. A credential may have started in that text."""
        self.feed(shown)
        self._shown = self.held

    def _filter(self, text: str, steps: list[Step], *, at_end: bool) -> None:
        while text and self._reader is None:
            before = len(self._before)
            found = self._detector.find(self._before + text, before, at_end=at_end, is_piece=self.is_piece)
            certain = len(text) if found is None else found.withheld - before
            if certain:
                steps.append((certain, None))
                self._before = (self._before + text[:certain])[-BEFORE_CHARS:]
            if found is None or found.row is None:
                text = text[certain:]
                break
            if found.row.value:
                anchor = "" if found.row.keep_anchor else text[certain : found.end - before]
                self._reader = ValueReader(found.row.value, self._before[-BEFORE_CHARS:], anchor, self._detector.keys)
                text = self._read_value(self._reader.feed(text[certain:]), steps)
                continue
            end = found.end - before
            steps.append((end - certain, REDACTED))
            rest, tail = text[end:], self._detector.formats.tail(found.row)
            if at_end and (cut := self._detector.formats.tail(found.row, is_cut=True)).fullmatch(rest):
                tail = cut
            text = self._drop_tail(tail, rest, steps)
        self._held = text

    def _read_value(self, reading: Reading, steps: list[Step]) -> str:
        """Add the steps over a value and return the text after it, in which the search goes on."""
        steps += reading.steps
        if self._reader is None or reading.rest is None:
            return ""
        self._before = "" if self._reader.is_taken else (self._before + self._reader.anchor)[-BEFORE_CHARS:]
        self._reader = None
        return reading.rest

    def _drop_tail(self, tail: re.Pattern[str], text: str, steps: list[Step]) -> str:
        """Drop the remaining characters of a credential and return the text after it, which begins a new word."""
        match = tail.match(text)
        count = match.end() if match else 0
        if count:
            steps.append((count, ""))
        self._tail = tail if count == len(text) else None
        self._before = ""
        return text[count:]


class PlainFilter:
    """The filter that withholds registered values and credentials of known formats."""

    __slots__ = ("_detector", "_formats", "_held", "_lacks", "_values")

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._lacks = detector.values.lacks
        self._values = ValueFilter(detector.values)
        self._formats = FormatFilter(detector)
        self._held = ""

    @property
    def held(self) -> int:
        """Number of characters that no step covers yet."""
        return len(self._held) + self._formats.held

    @property
    def is_reading(self) -> bool:
        """Whether the reader of a value decides about what is held."""
        return self._formats.is_reading

    def undecided_with(self, text: str) -> str:
        """Return the held text and another one behind it, with what stands before; empty if there is none."""
        return self._formats.undecided_with(self._held + text)

    def fork(self) -> PlainFilter:
        """Return a filter in the same state."""
        twin = PlainFilter(self._detector)
        twin._held, twin._values.held = self._held, self._values.held
        twin._formats = self._formats.fork()
        return twin

    @property
    def is_piece(self) -> bool:
        """Whether the text ends inside a secret of which the beginning was in another text."""
        return self._formats.is_piece

    @is_piece.setter
    def is_piece(self, value: bool) -> None:
        self._formats.is_piece = value

    @property
    def idle_after(self) -> str | None:
        """The text before what follows, on which its reading depends; None if more than this text decides."""
        return None if self._held else self._formats.idle_after

    def mark_of_rest(self, rest: str, /) -> str | None:
        """Return an empty mark, which drops the text, if it continues a credential; None if it may be shown."""
        return self._formats.mark_of_rest(rest)

    def carry(self) -> Carry:
        """Return what the text leaves to the next string of its list, after `end`."""
        return self._formats.carry()

    def begin_after(self, carry: Carry) -> None:
        """Begin a string behind another one of its list."""
        self._formats.begin_after(carry)

    def resume(self, before: str) -> None:
        """Continue behind text that was shown without this filter because nothing began in it."""
        self._formats.resume(before)

    def quick(self, text: str, /) -> int:
        """Read a piece as `FormatFilter.quick` does, if no registered value begins in it."""
        return self._formats.quick(text) if not self._held and self._lacks(text) else -1

    def feed(self, text: str, /) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""
        if not self._held and self._lacks(text):
            return self._formats.feed(text)
        return self._search_rest(self._values.feed(text), text)

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the text; a credential may still be unfinished."""
        return self._search_rest(self._values.end(), "") + self._formats.end()

    def _search_rest(self, found: list[Step], text: str) -> list[Step]:
        """Search the text between registered values for formats; a credential does not continue across a value."""
        text = self._held + text
        steps: list[Step] = []
        at = 0
        for count, mark in found:
            if mark is None:
                steps += self._formats.feed(text[at : at + count])
            elif not self._formats.in_credential:
                steps += self._formats.end()
                steps.append((count, mark))
            else:
                steps.append((count, ""))
            at += count
        self._held = text[at:]
        return steps


PlainText: TypeAlias = Readings[FormatFilter] | Readings[PlainFilter]


def plain_filter(detector: Detector) -> PlainText:
    """Return the filter for plain text."""
    return Readings(PlainFilter(detector)) if detector.values else Readings(FormatFilter(detector))


def clean_plain(detector: Detector, text: str) -> str:
    """Return a whole plain text, cleaned."""
    plain = plain_filter(detector)
    return StepWriter().write(plain.feed(text) + plain.end(), text)


class NumberFilter:
    """Filter of one number in a JSON document; a registered number is withheld."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._state = "start"
        self._held: str | None = "" if values.has_numbers else None

    @property
    def complete(self) -> bool:
        """Whether the number may end here."""
        return self._state in COMPLETE_STATES

    def read(self, text: str, at: int) -> int:
        """Return the position of the first character from `at` on that does not continue the number."""
        while at < len(text):
            state = NUMBER[self._state].get(text[at])
            if state is None:
                break
            self._state = state
            at += 1
            if state in DIGIT_STATES and (run := DIGIT_RUN.match(text, at)) is not None:
                at = run.end()
        return at

    def feed(self, text: str) -> list[Step]:
        """Add characters of the number and return the steps that no later text can change."""
        if self._held is None:
            return [(len(text), None)]
        self._held += text
        if self._values.may_be_number(self._held):
            return []
        held, self._held = self._held, None
        return [(len(held), None)]

    def end(self, *, at_end: bool) -> list[Step]:
        """Return the steps over the held characters at the end of the number or text."""
        if not self._held:
            return []
        held, self._held = self._held, None
        mark = self._values.mark_of_number(held, at_end=at_end)
        return [(len(held), None if mark is None else f'"{mark}"')]
