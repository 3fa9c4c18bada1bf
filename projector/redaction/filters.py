"""Hold-back: what may be said of a plain text before its end is known, and what is withheld.

A sieve takes a text piece by piece and answers with steps over what it took: `(n, None)` says the next n characters as
they are, `(n, mark)` says the mark in their place; an empty mark goes on with the one before. Characters not yet
covered by a step are held. What is covered after n characters depends on those n characters alone: where the pieces
end decides nothing. `end` covers the rest.

    ValueSieve     registered values
    FormatSieve    credential formats
    PlainSieve     both, values first: a value wins over a format that it is a part of

`seal` is for a text that breaks off inside something withheld: it stands for all that follows.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Protocol, TypeAlias

from projector.contracts.kinds import REDACTED
from projector.redaction.detector import Detector, Values
from projector.redaction.grammar import ESCAPE

Step: TypeAlias = tuple[int, str | None]


class Sieve(Protocol):
    """What every sieve does."""

    def feed(self, text: str, /) -> list[Step]:
        """Take a piece; give the steps that are certain now."""
        ...

    def end(self) -> list[Step]:
        """Take the end of the text; give the steps over what was held. The sieve may be used for a new text."""
        ...


class ContentSieve(Sieve, Protocol):
    """A sieve for the content of a string."""

    def seal(self, rest: str, /) -> str | None:
        """Give what stands for all that follows, if the text breaks off before `rest`; None when that may be said."""
        ...


class Places:
    """Where the characters of a text stand once marks have taken the place of some."""

    __slots__ = ("_ends", "_read", "_starts")

    def __init__(self) -> None:
        self._read = 0
        self._starts: list[int] = []
        """Where each mark's text began."""
        self._ends: list[tuple[int, int, int]] = []
        """Where it ended, where the mark begins in what is said, and where it ends there."""

    def take(self, steps: list[Step]) -> None:
        """Follow the steps over the text."""
        for count, mark in steps:
            if mark is not None:
                place = self.of(self._read, is_end=True)
                self._starts.append(self._read)
                self._ends.append((self._read + count, place, place + len(mark)))
            self._read += count

    def of(self, position: int, *, is_end: bool) -> int:
        """Give the place of a position; of one inside a mark's text, the mark's end or its start."""
        if not (at := bisect_left(self._starts, position)):
            return position
        end, mark_start, mark_end = self._ends[at - 1]
        if position < end:
            return mark_end if is_end else mark_start
        return position - end + mark_end


class Said:
    """Turns steps into text; keeps the characters that no step covers yet. `marked` once a mark was said."""

    __slots__ = ("_unsaid", "marked")

    def __init__(self) -> None:
        self._unsaid = ""
        self.marked = False

    def take(self, steps: list[Step], text: str) -> str:
        """Give what the steps say of the text, and of what was kept before it."""
        text = self._unsaid + text
        if len(steps) == 1 and steps[0] == (len(text), None):
            self._unsaid = ""
            return text
        said: list[str] = []
        at = 0
        for count, mark in steps:
            said.append(text[at : at + count] if mark is None else mark)
            self.marked = self.marked or bool(mark)
            at += count
        self._unsaid = text[at:]
        return "".join(said)


def in_raw(steps: list[Step], raw: str) -> list[Step]:
    """Turn steps over decoded characters into steps over the escapes that spell them."""
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


class ValueSieve:
    """Withholds registered values."""

    __slots__ = ("_held", "_values")

    def __init__(self, values: Values) -> None:
        self._values = values
        self._held = ""

    def feed(self, text: str, /) -> list[Step]:
        """Take a piece; give the steps that are certain now."""
        return self._sift(self._held + text, at_end=False)

    def end(self) -> list[Step]:
        """Take the end of the text; give the steps over what was held."""
        return self._sift(self._held, at_end=True)

    def _sift(self, text: str, *, at_end: bool) -> list[Step]:
        steps: list[Step] = []
        self._held = ""
        while text:
            found = self._values.find(text, at_end=at_end)
            start, end, mark = found or (len(text), len(text), "")
            if start:
                steps.append((start, None))
            if not mark:
                self._held = text[start:]
                break
            steps.append((end - start, mark))
            text = text[end:]
        return steps


class FormatSieve:
    """Withholds credentials of known formats."""

    __slots__ = ("_detector", "_held", "_in_word", "_known", "_tail")

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self._held = ""
        self._in_word = False
        self._known = 0  # how many of the held characters were said before
        self._tail: re.Pattern[str] | None = None

    @property
    def swallowing(self) -> bool:
        """Whether a credential was found that has not ended."""
        return self._tail is not None

    def seal(self, rest: str, /) -> str | None:
        """Give nothing for all that follows where a credential goes on in it; None when what follows may be said."""
        return "" if self._tail is not None and self._tail.fullmatch(rest[:1]) else None

    def follow(self, said: str) -> None:
        """Go on behind text that was said already: what began in it may end in a credential."""
        self.feed(said)
        self._known = len(self._held)

    def feed(self, text: str, /) -> list[Step]:
        """Take a piece; give the steps that are certain now."""
        steps: list[Step] = []
        if self._tail is not None:
            text = self._swallow(self._tail, text, steps)
        self._sift(self._held + text, steps, at_end=False)
        return self._without_known(steps) if self._known else steps

    def end(self) -> list[Step]:
        """Take the end of the text; give the steps over what was held. A credential that has not ended goes on."""
        steps: list[Step] = []
        self._sift(self._held, steps, at_end=True)
        self._in_word = False
        return self._without_known(steps) if self._known else steps

    def _without_known(self, steps: list[Step]) -> list[Step]:
        """Take from the steps what was said before this text."""
        found: list[Step] = []
        for count, mark in steps:
            known = min(count, self._known)
            self._known -= known
            if count > known or mark:
                found.append((count - known, mark))
        return found

    def _sift(self, text: str, steps: list[Step], *, at_end: bool) -> None:
        while text:
            before = 1 if self._in_word else 0  # one letter stands for the word that goes on
            found = self._detector.find("0" + text if before else text, before, at_end=at_end)
            certain = len(text) if found is None else found.withheld - before
            if certain:
                steps.append((certain, None))
                self._in_word = _is_word(text[certain - 1])
            if found is None or found.row is None:
                text = text[certain:]
                break
            end = found.end - before
            steps.append((end - certain, REDACTED))
            text = self._swallow(self._detector.tails[found.row.name], text[end:], steps)
        self._held = text

    def _swallow(self, tail: re.Pattern[str], text: str, steps: list[Step]) -> str:
        """Drop what goes on with a credential; give what follows it, which begins a new word."""
        match = tail.match(text)
        count = match.end() if match else 0
        if count:
            steps.append((count, ""))
        self._tail = tail if count == len(text) else None
        self._in_word = False
        return text[count:]


def _is_word(char: str) -> bool:
    return char.isalnum() and char.isascii()


class PlainSieve:
    """Withholds registered values and credentials of known formats."""

    __slots__ = ("_formats", "_held", "_values")

    def __init__(self, detector: Detector) -> None:
        self._values = ValueSieve(detector.values)
        self._formats = FormatSieve(detector)
        self._held = ""

    def seal(self, rest: str, /) -> str | None:
        """Give nothing for all that follows where a credential goes on in it; None when what follows may be said."""
        return self._formats.seal(rest)

    def follow(self, said: str) -> None:
        """Go on behind text that was said already."""
        self._formats.follow(said)

    def feed(self, text: str, /) -> list[Step]:
        """Take a piece; give the steps that are certain now."""
        return self._pass_on(self._values.feed(text), text)

    def end(self) -> list[Step]:
        """Take the end of the text; give the steps over what was held. A credential that has not ended goes on."""
        return self._pass_on(self._values.end(), "") + self._formats.end()

    def _pass_on(self, found: list[Step], text: str) -> list[Step]:
        """Search what is no registered value for formats; a value ends the text before it, as a quote would."""
        text = self._held + text
        steps: list[Step] = []
        at = 0
        for count, mark in found:
            if mark is None:
                steps += self._formats.feed(text[at : at + count])
            elif not self._formats.swallowing:
                steps += self._formats.end()
                steps.append((count, mark))
            else:
                steps.append((count, ""))
            at += count
        self._held = text[at:]
        return steps


def plain_sieve(detector: Detector) -> FormatSieve | PlainSieve:
    """Give the sieve for plain text."""
    return PlainSieve(detector) if detector.values else FormatSieve(detector)


def whole(detector: Detector, text: str) -> str:
    """Give a whole plain text, cleaned."""
    sieve = plain_sieve(detector)
    return Said().take(sieve.feed(text) + sieve.end(), text)
