"""Filters of the text that people read: credentials, personal data by class, secrets in code blocks.

    ClassFilter   values of classes; in fenced code also random values of sensitive words
    ProseFilter   credentials, then the classes in what they leave

Like all filters (`projector.redaction.filters`) these return steps that depend on the characters read so far alone.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from projector.contracts.kinds import REDACTED
from projector.redaction.content_filter import Carry
from projector.redaction.filters import FormatFilter
from projector.redaction.policy import CREDENTIALS
from projector.redaction.readings import Readings
from projector.redaction.rules import KeyRules, TextClass, Verdict
from projector.redaction.steps import Step, without_shown
from projector.redaction.text_search import Found, search_of
from projector.redaction.text_view import unfinished, view_of
from projector.redaction.value_shapes import is_hex_key, is_random

BEFORE_CHARS: Final = 96
FENCE: Final = TextClass("fence", "", "", "```|~~~", run="[0-9A-Za-z_+#-]", least=3, most=32, before="`|~")
ASSIGNED: Final = TextClass(
    CREDENTIALS, "", "", r"[0-9A-Za-z_!@#$%^&*+~/.-]", run="[0-9A-Za-z_!@#$%^&*+~/.-]", least=10, most=256,
    before="[0-9A-Za-z_!@#$%^&*+~/.-]",
)  # fmt: skip
"""A word in code that may be the value of a sensitive word."""
_ASSIGNMENT: Final = re.compile(
    r"([\w.-]{1,64})[\"'\])]{0,2}[ \t]{0,8}(?:=>|:=|[=:])[ \t]{0,8}(?:[A-Za-z]{1,2}(?=[\"']))?[\"'`]?\Z"
)
_WITHHELD: Final = "\0"
"""Stands for a character of a value in the text before what follows: behind a value another one may begin."""
_JSON_QUOTE: Final = re.compile(r'\\.|"', re.DOTALL)


def mark_of(name: str) -> str:
    """Return the mark of a class; that of credentials is the contract's."""
    return REDACTED if name == CREDENTIALS else f"<redacted:{name}>"


class ClassFilter:
    """The filter that withholds personal data by class.

    Args:
        rows: the classes.
        keys: the sensitive words whose random values are withheld in fenced code; None: none are.
        is_json: whether the text is JSON, where a mark in place of a number is a string.
    """

    __slots__ = ("_before", "_decodes", "_escape", "_in_string", "_keys", "_search", "_shown", "held", "in_code")

    def __init__(self, rows: tuple[TextClass, ...], keys: KeyRules | None, *, is_json: bool = False) -> None:
        fenced = (FENCE,) if keys is not None and not is_json else ()
        self._search = search_of((*rows, *fenced))
        self._keys = keys
        self._decodes = bool(rows)
        self._before = ""
        self.held = ""
        self._shown = 0
        self._in_string = False if is_json else None
        self._escape = ""
        self.in_code = False

    @property
    def can_reread(self) -> bool:
        """Whether what is held can be read again behind the text before it: not in code, in JSON, behind a value."""
        is_behind = _WITHHELD in self._before[-self._search.looks_back :]
        return not is_behind and not self.in_code and not self._shown and self._in_string is None

    def resume(self, before: str) -> None:
        """Continue behind text that was shown without this filter because nothing began in it."""
        self._before = before[-BEFORE_CHARS:]

    def continue_after(self, shown: str) -> None:
        """Continue after text that was already shown. A value may have started in that text."""
        self.feed(shown)
        self._shown = len(self.held)

    def feed(self, text: str, /, ahead: str = "") -> list[Step]:
        """Read a piece and return the steps that no later text can change.

        `ahead` is what follows it, which counts but is not read yet.
        """
        return self._filter(self.held + text, at_end=False, ahead=ahead)

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the text."""
        steps = self._filter(self.held, at_end=True)
        self._before = ""
        return steps

    def _filter(self, raw: str, *, at_end: bool, ahead: str = "") -> list[Step]:
        whole, places = self._view(raw + ahead, at_end=at_end)
        at, limit = len(self._before), bisect_left(places, len(raw))
        steps: list[Step] = []
        done = 0
        while True:
            found = self._next(whole, at, limit, at_end=at_end)
            certain = len(whole) if found is None else found.start
            position = min(places[certain], len(raw))
            if position > done:
                self._show(raw[done:position], steps)
                done = position
            if found is None or found.row is None or places[found.end] > len(raw):
                break
            at = found.end
            steps.append((places[at] - done, self._mark(found.row)))
            done = places[at]
            whole = f"{whole[: found.start]}{_WITHHELD * (at - found.start)}{whole[at:]}"
        self.held = raw[done:]
        shown = min(certain, limit)
        self._before = whole[max(0, shown - BEFORE_CHARS) : shown]
        if self._shown:
            steps, self._shown = without_shown(steps, self._shown)
        return steps

    def _view(self, raw: str, *, at_end: bool) -> tuple[str, Sequence[int]]:
        """Return the text before and the view of a text, and the position in the text of each of their characters."""
        if not self._decodes:
            return self._before + raw, range(-len(self._before), len(raw) + 1)
        view = view_of(raw if at_end else raw[: len(raw) - unfinished(raw)])
        before = range(-len(self._before), 0)
        if isinstance(view.positions, range):
            return self._before + view.text, range(before.start, view.positions.stop)
        return self._before + view.text, [*before, *view.positions]

    def _next(self, text: str, at: int, read: int, *, at_end: bool) -> Found | None:
        """Return the next value or open text; fences in the first `read` characters switch between prose and code."""
        while True:
            found = self._search.first(text, at, at_end=at_end)
            if self.in_code:
                limit = len(text) if found is None else found.start
                secret = self._secret(text, at, limit, at_end=at_end)
                if secret is not None:
                    return secret
            if found is None or found.row is not FENCE or found.end > read:
                return found
            self.in_code = not self.in_code
            at = found.end

    def _secret(self, text: str, at: int, limit: int, *, at_end: bool) -> Found | None:
        """Return the first word in code, up to a position, that is the value of a sensitive word, or may become it."""
        words = search_of((ASSIGNED,))
        while (word := words.first(text, at, at_end=at_end)) is not None and word.start <= limit:
            if word.row is None or self._is_secret(text, word):
                return word
            at = word.end
        return None

    def _is_secret(self, text: str, found: Found) -> bool:
        """Return whether a word in code is the value of a sensitive word and looks random."""
        word = text[found.start : found.end]
        if self._keys is None or not (is_random(word) or is_hex_key(word)):
            return False
        key = _ASSIGNMENT.search(text, max(0, found.start - BEFORE_CHARS), found.start)
        return key is not None and self._keys.verdict(key[1].strip("-.")) is Verdict.SENSITIVE

    def _show(self, text: str, steps: list[Step]) -> None:
        steps.append((len(text), None))
        if self._in_string is None:
            return
        text = self._escape + text
        self._escape = "\\" if (len(text) - len(text.rstrip("\\"))) % 2 else ""
        quotes = sum(match[0] == '"' for match in _JSON_QUOTE.finditer(text))
        self._in_string = self._in_string != bool(quotes % 2)

    def _mark(self, row: TextClass) -> str:
        mark = mark_of(row.name)
        return f'"{mark}"' if self._in_string is False else mark


class ProseFilter:
    """The filter of prose: credentials, then personal data in what they leave."""

    __slots__ = ("_formats", "_held", "_readings", "classes")

    def __init__(self, formats: FormatFilter | None, classes: ClassFilter) -> None:
        self._formats = formats
        self._readings = None if formats is None else Readings(formats)
        self.classes = classes
        self._held = ""

    def shown_before_held(self, recent: str) -> str | None:
        """Return the end of the text before what is held, if that can be read again behind it; None if it cannot.

        `recent` is the end of all text that was read.
        """
        if not self.classes.can_reread:
            return None
        if self._formats is None or self._readings is None:
            held = len(self.classes.held)
            return recent[:-held] if held else recent
        if not self._formats.can_reread or not self._readings.is_single:
            return None
        before, held = self._formats.before, len(self.classes.held)
        return before[: len(before) - held] if held <= len(before) else None

    def drop_held(self) -> None:
        """Forget the held characters, which the caller will feed again."""
        self._held = self.classes.held = ""
        if self._formats is not None and self._readings is not None:
            self._formats.drop_held()
            self._readings.drop_pending()

    @property
    def open_value(self) -> Carry | None:
        """The credential inside which the text ends, if it may continue in the next text."""
        carry = Carry() if self._readings is None else self._readings.carry()
        return carry if carry.reader is not None or carry.tail is not None else None

    def begin_in(self, value: Carry) -> None:
        """Begin inside a credential, of which a mark stands in the text before."""
        if self._formats is not None:
            self._formats.begin_in(value)

    def quick(self, _text: str, /) -> int:
        """Leave every piece to `feed`; `ProseStream` has a quick search of its own."""
        return -1

    def resume(self, before: str) -> None:
        """Continue behind text that was shown without this filter because nothing began in it."""
        self.classes.resume(before)
        if self._formats is not None:
            self._formats.resume(before)

    def continue_after(self, shown: str) -> None:
        """Continue after text that was already shown. A value may have started in that text."""
        self.classes.continue_after(shown)
        if self._readings is not None:
            self._readings.continue_after(shown)

    def feed(self, text: str, /) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""
        return self.classes.feed(text) if self._readings is None else self._rest(self._readings.feed(text), text)

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the text."""
        steps = [] if self._readings is None else self._rest(self._readings.end(), "")
        return steps + self.classes.end()

    def _rest(self, found: list[Step], text: str) -> list[Step]:
        """Search the text between credentials for personal data, which does not continue across one."""
        text = self._held + text
        steps: list[Step] = []
        at = 0
        for count, mark in found:
            if mark is None:
                steps += self.classes.feed(text[at : at + count])
            else:
                steps += [*self.classes.end(), (count, mark)]
            at += count
        self._held = text[at:]
        return steps if not self.classes.held else steps + self.classes.feed("", self._held)
