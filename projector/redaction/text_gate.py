"""What a policy withholds from text that people read, compiled, and the gate: one expression that decides most deltas.

The gate finds the first position where a credential or a value of a class may begin, or the end of the text may begin
one. What it decided for words is kept, because words repeat often.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from projector.redaction import patterns
from projector.redaction.clean import Cleaned, CleanText
from projector.redaction.detector import DISGUISES, Detector
from projector.redaction.filters import FormatFilter
from projector.redaction.policy import CREDENTIALS
from projector.redaction.rules import TextClass
from projector.redaction.spellings import INVISIBLE
from projector.redaction.text_filter import FENCE, ClassFilter, ProseFilter
from projector.redaction.text_search import looks_back, search_of
from projector.redaction.text_view import PLAIN

_PREFIX_CHARS: Final = 8
"""Length of the prefixes of formats in the gate: long enough that few words begin like one."""
_WORDS_MAX: Final = 4_096
"""Texts whose decision is kept; more are forgotten at once."""
_WORD_MAX_CHARS: Final = 24
_new_tuple: Final = tuple.__new__  # as in `projector.redaction.stream`


_Known = TypeVar("_Known")
Decided: TypeAlias = tuple[Cleaned[CleanText], str]
"""The part of a text that can be shown, and its end, which may begin a value."""


Result: TypeAlias = tuple[CleanText, str, bool]
"""What of a text can be shown, its end that is held, and whether that is closed (`Gate.is_closed`)."""


class Prose:
    """What a policy withholds from text that people read, compiled; shared by all streams.

    Args:
        detector: the detector of the policy.
        actions: class -> action; `credentials` among them.
        rows: the rules of the other classes.
    """

    def __init__(self, detector: Detector, actions: Mapping[str, str], rows: tuple[TextClass, ...]) -> None:
        self.actions = actions
        self.rows = tuple(row for row in rows if row.name in actions)
        self._keys = detector.keys if CREDENTIALS in actions else None
        self._detector = detector.of_prose() if CREDENTIALS in actions else None
        self._gate: Gate | None = None

    def filter(self, *, is_json: bool = False) -> ProseFilter:
        """Return a filter for one text."""
        formats = None if self._detector is None or is_json else FormatFilter(self._detector)
        return ProseFilter(formats, ClassFilter(self.rows, self._keys, is_json=is_json))

    def compile(self) -> None:
        """Compile what is otherwise compiled by the first text."""
        _ = self.gate, self.filter()

    def withholds_end(self, text: str) -> bool:
        """Return whether the last characters of a text are withheld."""
        words = self.filter()
        steps = [step for step in (*words.feed(text), *words.end()) if step[0]]
        return bool(steps) and steps[-1][1] is not None

    @property
    def gate(self) -> Gate:
        """The gate of the fast path, compiled on first use."""
        if self._gate is None:
            self._gate = Gate(self._detector, self.rows)
        return self._gate


class Gate:
    """The expression that finds where a value may begin. Its groups are empty and tell which kind of match it is.

    A prefix at the start of a word begins with the character before it, so it comes last: what begins with that
    character begins earlier. Alternatives are excluded by sets of characters, because most texts fit none.
    """

    def __init__(self, detector: Detector | None, rows: tuple[TextClass, ...]) -> None:
        ways = [f"(?:{search_of(rows).expression})()"] if rows else []
        if rows:
            ways.append(r"[%&\\\x1b]()")
        if detector is not None:
            ways.append(_credentials(*detector.formats.live.prefixes(_PREFIX_CHARS)))
        gate = re.compile("|".join(ways))
        self.search: Final = gate.search
        self.class_group = 1
        self.word_group = gate.groups if detector is not None else -1
        self.words: Final[dict[str, Decided]] = {}
        """What was decided for texts behind a space, and for texts that begin with one behind a `quiet` character."""
        self.steps: Final[dict[str, tuple[CleanText, str]]] = {}
        """What was decided for texts that begin with a space behind a closed text, which they leave closed."""
        self.results: Final[dict[str, Result]] = {}
        """What was decided for texts, each behind the `context` characters that it depends on."""
        self._ends: Final[dict[str, bool]] = {}
        """What `is_closed` found for held texts, each behind a character."""
        self.context: Final = 1 + max(looks_back(row) for row in (*rows, FENCE))
        self.quiet: Final = frozenset(char for char in _QUIET if not _sees_space(rows) and self._is_quiet(char))
        self._has_classes = bool(rows)
        self._in_values = _IN_VALUES if all(row.check for row in rows) else _NO_LETTER
        special = {*DISGUISES, *(PLAIN if rows else ())}
        self.special: Final = re.compile(f"[{''.join(map(chr, special))}{INVISIBLE}\\ud800-\\udfff]").search
        """Search for characters beyond ASCII that only `ProseFilter` reads."""

    def decide(self, recent: str, text: str) -> Decided | None:
        """Return what of a text can be shown behind another one; None if that takes more than this expression.

        What follows a space does not depend on what is before it, so the result is kept: words repeat often.
        """
        start, end = len(recent), len(recent) + len(text)
        near = self.search(recent + text, start - 1)
        begin = end
        if near is not None:
            begin = near.start() + (near.lastindex == self.word_group)
            if near.end() != end or begin < start or not self._is_cut(near.lastindex, end - begin):
                return None
        decided = _new_tuple(Cleaned, (text[: begin - start], ())), text[begin - start :]
        if recent[-1] in self.quiet and (recent[-1] == " " or text[:1] == " ") and self._may_keep(text):
            _keep(self.words, text, decided)
        return decided

    def shows_all(self, text: str) -> bool:
        """Return whether no value begins in a text, whatever follows it."""
        return (text.isascii() or self.special(text) is None) and self.search(f" {text}") is None

    def is_closed(self, last: str, held: str) -> bool:
        """Return whether a space ends what is held behind a character, so that what follows the space is independent.

        Then no value begins in the held text, nor in the character if nothing is held, whatever follows the space.
        """
        if not held or len(held) >= _WORD_MAX_CHARS:
            return not held and last in self.quiet
        place = last + held
        is_closed = self._ends.get(place)
        if is_closed is None:
            is_closed = False
            if last in self.quiet and (last == " " or not self._has_classes):
                decided = self.decide(last, f"{held} ")
                is_closed = decided is not None and not decided[1]
            if self._may_keep(held):
                _keep(self._ends, place, is_closed)
        return is_closed

    def keep(self, recent: str, text: str, result: Result) -> None:
        """Keep what was decided for a text behind another one, unless that is too short to tell."""
        if len(recent) >= self.context and self._may_keep(place := recent[-self.context :] + text):
            _keep(self.results, place, result)

    def keep_step(self, text: str, shown: CleanText, rest: str) -> None:
        """Keep what was decided for a text between two closed ones."""
        if text[0] == " " and self._may_keep(text):
            _keep(self.steps, text, (shown, rest))

    def _is_cut(self, group: int | None, count: int) -> bool:
        """Return whether text at the end is only held, whatever follows: a candidate of a class, or a short prefix."""
        return group == self.class_group or (count < patterns.PREFIX_CHARS and group in (None, self.word_group))

    def _may_keep(self, text: str) -> bool:
        """Return whether a result may be kept. With classes nothing is that may be a value of one."""
        return len(text) <= _WORD_MAX_CHARS and not (self._has_classes and self._in_values.search(text))

    def _is_quiet(self, char: str) -> bool:
        """Return whether no value begins with a character if a space follows."""
        found = (self.search(char + after) for after in (" ", " a", "  "))
        return not any(near is not None and near.start() == 0 for near in found)


def _keep(known: dict[str, _Known], text: str, what: _Known) -> None:
    if len(known) >= _WORDS_MAX:
        known.clear()
    known[text] = what


def _sees_space(rows: Sequence[TextClass]) -> bool:
    """Return whether a candidate of a class may begin with a space, or depends on a space before it."""
    begins = (patterns.pieces(way)[0] for row in rows for way in patterns.alternatives(row.begins))
    before = (patterns.pieces(way)[-1] for row in rows for way in patterns.alternatives(row.before))
    return any(re.match(piece.atom, " ") for piece in (*begins, *before))


def _credentials(words: Mapping[str, str], anywhere: Mapping[str, str]) -> str:
    """Return the expression for fences, escapes, and the prefixes of formats anywhere and at the start of a word.

    Groups: 1 of a fence, one of an escape, the last one of a word.
    """
    letters = "".join(sorted(set(_ALNUM) - {*anywhere}))
    inside = "|".join(f"(?<={first}){rest}" for first, rest in anywhere.items())
    others = rf"(?:{search_of((FENCE,)).behind_first})()|(?<=[%=\[\\&\x1b])()"
    if anywhere:
        others += f"|(?<=[{''.join(anywhere)}])(?:{inside})"
    firsts = sorted(words)
    chunks = [firsts[at : at + _CHUNK] for at in range(0, len(firsts), _CHUNK)]
    starts = "|".join(
        f"(?=[{''.join(chunk)}])(?:{'|'.join(first + words[first] for first in chunk)})" for chunk in chunks
    )
    first = f"[^{letters}]" if letters else r"[\s\S]"
    return f"{first}(?:(?<! )(?:{others})|(?<![0-9A-Za-z])()(?:{starts or '(?!)'}))"


_ALNUM: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_QUIET: Final = f"{_ALNUM} .,;:!?”—áàâäãåæçéèêëíìîïñóòôöõøßúùûüý"
_IN_VALUES: Final = re.compile(r"[\d@]|<<")
"""One of these is in each value that a check accepts."""
_NO_LETTER: Final = re.compile(r"(?! )[\W\d_]")
"""What is searched for where a class has no check, so that any text may be a value: only words are kept."""
_CHUNK: Final = 6
"""First characters that one set excludes: few enough that an alternative is found soon."""
