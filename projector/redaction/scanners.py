"""Scanners: each asks one search about a growing text, and reads the values that it finds to their ends.

A scanner returns steps over the text (`spellings.Step`). The steps after n characters depend on those n characters
alone, not on where the pieces end: what a scanner holds is exactly what its search has not decided.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, Final, TypeAlias

from projector.contracts.kinds import REDACTED
from projector.redaction.policy import CREDENTIALS
from projector.redaction.search import Find, Search
from projector.redaction.spellings import PLAIN, SPELLED, SPELLED_IN_SECRETS, Decoder, Queue, Step
from projector.redaction.text_search import ASSIGNED, FENCE, Candidate, TextSearch, search_of
from projector.redaction.value_ends import Cursor, End, Found, More, Registered, Reported, State, rest_of
from projector.redaction.value_shapes import is_hex_key, is_random

_FENCED: Final = "\0"
"""The mark of a fence, which is shown."""
BEFORE_CHARS: Final = 128
"""Shown characters that are kept, at least as many as the context of any search."""


Begins: TypeAlias = Callable[[Cursor], End | None]
"""Decides whether a text begins with a value, and returns the end of that."""


class Scanner(State):
    """The reader of one text with one search."""

    spelled: ClassVar[re.Pattern[str]] = SPELLED_IN_SECRETS
    """The spellings that are decoded where the text is read once more."""
    _has_unfinished = True  # whether an unfinished spelling after part of a value belongs to it
    _in_code = False
    _waits = True

    def __init__(self, find: Find, context: int, before: str, kind: type[str] = str) -> None:
        self._find = find
        self._context = context
        self._kind = kind
        self.before = before
        """The last characters that were shown; empty after a value, where a word begins."""
        self.held = ""
        """Characters that no step covers yet, and before them `_shown` characters that are shown."""
        self._shown = 0
        self._needs = 0  # number of held characters with which the search may decide
        self.value: End | None = None
        """The end of the value that is read."""
        self._mark = kind()  # for the next characters of that value
        self.named = self._mark
        """The mark of the last value."""
        self._is_marked = False
        self.begins: Begins | None = None
        """Decides whether the text begins with a value, before it is searched."""
        self.ended_in: End | None = None
        """The end of the value in which the text ended."""
        self.decoder: Decoder | None = None
        """The view of the text as it is read; None: it is read as it is written."""
        self.queue = Queue()
        """Its steps which other scanners have not made yet."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is undecided."""
        return self.value is None and not self.held and self.begins is None

    @property
    def uncovered(self) -> int:
        """Number of characters that were read and that no step covers."""
        return len(self.held) - self._shown

    @property
    def undecided(self) -> int:
        """Number of written characters at the end of the text that the search has not decided."""
        return len(self.held) + (0 if self.decoder is None else self.decoder.longer + self.decoder.unread)

    @property
    def state(self) -> str | None:
        """The text on which the reading of what follows depends; None if more than this text decides."""
        return self.before[-self._context :] if self.is_idle and not self._in_code else None

    @property
    def is_resumable(self) -> bool:
        """Whether a new scanner could continue with the text before and what is held: no code, and no value near."""
        is_near = self._is_marked and len(self.before) < self._context
        return not (is_near or self._shown or self.value is not None or self.begins is not None or self._in_code)

    def mark_again(self) -> None:
        """Put a mark before the next characters of the value that is read."""
        if self.value is not None:
            self._mark = self._kind(REDACTED)

    def feed(self, text: str) -> list[Step]:
        """Read a piece and return the steps over what is written that no later text can change."""
        decoder = self.decoder
        if decoder is None:
            return self._read(text)
        text = decoder.feed(text)
        return decoder.as_written(self._read(text)) if text else []

    def decide(self) -> list[Step]:
        """Return the steps that the characters so far decide. At the end of a string that another may continue."""
        self._waits = False
        steps = self._scan(self.held, at_end=False)
        self._waits = True
        return steps if self.decoder is None else self.decoder.as_written(steps)

    def end(self) -> list[Step]:
        """Return the steps at the end of the text."""
        decoder = self.decoder
        if decoder is None:
            return self._scan(self.held, at_end=True)
        steps: list[Step] = []
        if decoder.pending and self._has_unfinished:
            before = self.fork()._scan(self.held, at_end=True)  # noqa: SLF001 - of this class
            if before and (mark := before[-1][1]) is not None:
                return [*decoder.as_written(before), (decoder.unread, rest_of(mark))]
        if decoder.pending:
            steps = self._read(decoder.finish())
        steps += self._scan(self.held, at_end=True)
        return [*decoder.as_written(steps), (decoder.unread, None)]

    def _read(self, text: str) -> list[Step]:
        """Return the steps over text as this scanner reads it."""
        text = self.held + text
        if self.value is None and len(text) < self._needs:
            self.held = text
            return []
        return self._scan(text, at_end=False)

    def _scan(self, text: str, *, at_end: bool) -> list[Step]:
        steps: list[Step] = []
        shown, self._shown, self._needs, self.held = self._shown, 0, 0, ""
        while text or (at_end and self.value is not None):
            if self.value is not None:
                text = self._read_value(self.value, text, steps, at_end=at_end)
                continue
            begins = self.begins
            found = self._begin(begins, text, at_end=at_end) if begins else self._first(text, at_end=at_end)
            if found is None:
                steps.append((len(text) - shown, None))
                self._keep(text)
                return steps
            at = max(found.shown, shown)
            if at > shown:
                steps.append((at - shown, None))
            if found.mark is None:
                self._keep(text[: found.start])
                self.held, self._shown, self._needs = text[found.start :], at - found.start, found.end - found.start
                return steps
            shown = 0
            if found.mark == _FENCED:
                steps.append((found.end - at, None))
                self._keep(text[: found.end])
                self._fence()
            else:
                self._mark = self.named = self._kind(found.mark)
                before = self.before + text[: found.end]
                self._withhold(found.end - at, steps)
                if self._in_code:
                    self._keep(before)  # what follows may be of the same list, or a string that is joined
            text = text[found.end :]
            self.value = found.rest
        return steps

    def _ask(self, text: str, start: int, *, at_end: bool) -> Found | None:
        return self._find(text, start, at_end=at_end, waits=self._waits)

    def _first(self, text: str, *, at_end: bool) -> Found | None:
        """Return what is found first in a text, with positions in it."""
        start = len(self.before)
        found = self._ask(self.before + text, start, at_end=at_end)
        return found and Found(found.start - start, found.shown - start, found.end - start, found.mark, found.rest)

    def _begin(self, begins: Begins, text: str, *, at_end: bool) -> Found | None:
        """Return the value that the text begins with; what is found in it if there is none."""
        try:
            end = begins(Cursor(text, is_whole=at_end))
        except More:
            return Found(0, 0, len(text) + 1, None)
        self.begins = None
        return self._first(text, at_end=at_end) if end is None else Found(0, 0, 0, REDACTED, end)

    def _read_value(self, end: End, text: str, steps: list[Step], *, at_end: bool) -> str:
        """Add the steps over the next characters of a value and return the text after it."""
        count, is_end = end.feed(text)
        if at_end and not is_end:
            count, is_end = count + end.finish(text[count:]), True
            self.ended_in = end if count == len(text) else None
        self._withhold(count, steps)
        if is_end:
            self.value = None
            return text[count:]
        self.held = text[count:]
        return ""

    def _withhold(self, count: int, steps: list[Step]) -> None:
        """Add the step over the next characters of a value, after which a new word begins."""
        if count:
            steps.append((count, self._mark))
            self._mark = self._kind()
        self.before, self._is_marked = "", True

    def _fence(self) -> None:
        """Notice a fence, after which code begins or ends."""

    def _keep(self, text: str) -> None:
        before = self.before + text
        self.before = before if len(before) <= BEFORE_CHARS else before[-BEFORE_CHARS:]


_CODE_BEFORE_CHARS: Final = 96
"""Characters before a word in code that decide whether it is the value of a sensitive word."""


def mark_of(name: str) -> str:
    """Return the mark of a class; that of credentials is the contract's."""
    return REDACTED if name == CREDENTIALS else f"<redacted:{name}>"


def _nothing(_text: str, _start: int, *, at_end: bool) -> Found | None:  # noqa: ARG001 - a search
    """Return nothing: a scanner for classes asks its own search."""
    return None


class ValueScanner(Scanner):
    """The scanner for registered values, which may have blanks, quotes and brackets."""

    spelled = SPELLED


class ClassScanner(Scanner):
    """The scanner for personal data by class, and in fenced code for random values of sensitive words."""

    spelled = SPELLED
    _has_unfinished = False

    def __init__(self, search: Search, classes: TextSearch, before: str) -> None:
        super().__init__(_nothing, search.context, before)
        self._classes = classes
        self._search = search

    def _ask(self, text: str, start: int, *, at_end: bool) -> Found | None:
        plain = text if text.isascii() else text.translate(PLAIN)
        found = self._classes.first(plain, start, at_end=at_end)
        if self._in_code:
            limit = len(plain) if found is None else found.start
            found = self._secret(plain, start, limit, at_end=at_end) or found
        if found is None:
            return None
        at, end, row = found
        if row is None:
            return Found(at, at, len(text) + 1, None)
        self._kind = Reported if row.name in self._search.reported else str
        return Found(at, at, end, _FENCED if row is FENCE else mark_of(row.name))

    def _fence(self) -> None:
        self._in_code = not self._in_code

    def _secret(self, text: str, at: int, limit: int, *, at_end: bool) -> Candidate | None:
        """Return the first word in code, up to a position, that is the value of a sensitive word, or may become it."""
        words = search_of((ASSIGNED,))
        while (word := words.first(text, at, at_end=at_end)) is not None and word.start <= limit:
            if word.row is None or self._is_secret(text, word):
                return word
            at = word.end
        return None

    def _is_secret(self, text: str, found: Candidate) -> bool:
        """Return whether a word in code looks random, and is in the value of a sensitive word."""
        word = text[found.start : found.end]
        if not (is_random(word) or is_hex_key(word)):
            return False
        begin = max(0, found.start - _CODE_BEFORE_CHARS)
        return self._search.is_assigned(text[begin : found.end + 1], found.start - begin)


def scanners_of(search: Search, before: str) -> list[Scanner]:
    """Return the scanners of a text, in order of precedence of their marks."""
    found: list[Scanner] = [
        (ValueScanner if kind is Registered else Scanner)(find, search.context, before, kind)
        for find, kind in search.finds
    ]
    return found if search.classes is None else [*found, ClassScanner(search, search.classes, before)]
