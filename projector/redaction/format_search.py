r"""The search for all credential formats of a policy at once.

At each position where a format may begin, a search has one of three results:

    complete    the shortest form of a credential
    open        the text ends inside a credential, so the text is held
    nothing     no continuation can make it a credential

At the end of a text an open credential counts only if `open_chars` characters of its pattern are present.

A search has two steps. Expressions, the scans, look for the first `PREFIX_CHARS` characters of all formats: behind
characters that end a word, and anywhere for the few formats with `inside_words`. Most of a text is inside words, so the
scan of most formats looks at one character of five. Where a scan matches, one expression for all formats with that
first character decides. It is compiled on first use: compiling all of them costs ten times what most streams need.

A word also begins behind an escape that was not decoded: a literal `\n` or `\u003d`, `%20`, `=3D` of quoted-printable,
the colours of a terminal. The text before the start of a search counts, so a caller passes `CONTEXT_CHARS` of it.

Some credentials have their mark in the middle or at the end: `RunSearch` finds them in runs of characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

from projector.redaction.patterns import (
    CONTEXT_CHARS,
    PREFIX_CHARS,
    WORD,
    Group,
    Mark,
    Node,
    Piece,
    RestOfWord,
    Step,
    Writer,
    alternatives,
    characters,
    last_class,
    pieces,
    prefix,
    sequence,
)
from projector.redaction.rules import Format
from projector.redaction.spellings import MAY_BE_SPELLED

_WINDOW_CHARS: Final = 512
_OVERLAP_CHARS: Final = 64
"""A scan reads a window and the longest prefix behind it, so that the scans of a text with many finds stay linear."""
_TAIL_CHARS: Final = 64
"""End of a text that may continue, where prefixes may be unfinished; the scans for those cost twice as much."""
_SHORT_CHARS: Final = 8
"""A text of so few characters, as most fragments are, repeats often, so what was decided about it is kept."""
_SHORTS_MAX: Final = 4_096
"""Texts whose decision is kept; more are forgotten at once."""
_ALNUM: Final = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_HEX: Final = "[0-9A-Fa-f]"
_ESCAPES: Final = (
    rf"\\(?:[abefnrtv0]|u{_HEX}{{4}}|x{_HEX}{{2}})()|%(?:25){{0,3}}{_HEX}{{2}}()|={_HEX}{{2}}()|\[[0-9;]{{0,12}}[mK]()"
    rf"|\\()|&()|\x1b()|%{_HEX}?\Z()"
)
"""Escapes that were not decoded: of strings, percent-encoding, quoted-printable, the colours of a terminal; and the
first characters of others (`projector.redaction.spellings`)."""
_SPELLING: Final = re.compile(r"[\\&%\x1b]")
"""First characters of the spellings that are read twice."""
_AFTER_ESCAPE: Final = "|".join(
    f"(?<={escape})"
    for escape in (r"\\[abefnrtv0]", *(mark + _HEX * 2 for mark in (r"\\x", r"\\u00", "%", "%25", "=")))
)
"""The end of such an escape."""
_UNFINISHED_ESCAPE: Final = re.compile(r"[\\%=\[][0-9A-Za-z;]{0,13}\Z")


class Find(NamedTuple):
    """A credential of the format `row`, whose pattern begins at `body`.

    `row` is None for text that may still become one; then `end` is the end of the text.
    """

    start: int
    body: int
    end: int
    row: Format | None

    @property
    def withheld(self) -> int:
        """Start of the withheld text: after the anchor if the format shows it."""
        return self.body if self.row is not None and self.row.keep_anchor else self.start


class FormatSearch:
    """The search for the formats of a policy: in text that may continue, or in complete text (`at_end`)."""

    def __init__(
        self, rows: Sequence[Format], words: Sequence[str], apart: Sequence[str] = (), *, at_end: bool
    ) -> None:
        self._rows = [*rows, *(row._replace(inside_words=False) for row in rows if apart and row.anchor == WORD)]
        self._words = (*words, *apart)
        self._at_end = at_end
        self._anchors: dict[str, list[tuple[int, Sequence[Step]]]] = {}  # by first character: row, what follows it
        for index, row in enumerate(self._rows):
            for way in alternatives(row.anchor):
                if words or WORD not in way:
                    firsts = words if index < len(rows) else apart
                    self._add_anchor(index, pieces(way, ignore_case=row.ignore_case), firsts)
        self._units: dict[tuple[str, bool], tuple[re.Pattern[str], tuple[Group, ...]]] = {}
        self._starting: dict[str, int] = {}  # short text at the start of a word -> what `quick` returns, from its start
        self._inside: dict[str, int] = {}  # the same inside a word
        self.shorts_max = _SHORTS_MAX

    def compile(self) -> None:
        """Compile what is otherwise compiled on first use, some milliseconds for each first character of a format."""
        for scans in (self._scans, self._open_scans):
            _ = scans.prefix
        for char in self._anchors:
            for is_word in (True, False):
                if (char, is_word) not in self._units:
                    self._compile(char, is_word=is_word)

    def first(self, text: str, start: int = 0) -> Find | None:
        """Return the first credential at or after `start`, or the first text that may become one."""
        if not start:
            found = self.first(f" {text}", 1)
            return found and Find(found.start - 1, found.body - 1, found.end - 1, found.row)
        tail = len(text) if self._at_end else max(start, len(text) - _TAIL_CHARS)
        for begin in range(start, tail, _WINDOW_CHARS):
            if (found := self._in_window(self._scans, text, begin, min(begin + _WINDOW_CHARS, tail))) is not None:
                return found
        return None if self._at_end else self._in_window(self._open_scans, text, tail, len(text))

    def quick(self, text: str, start: int, *, is_plain: bool = False) -> int:
        """Return the position up to which a text is shown; -1 if only `first` can decide.

        Nearly every fragment is decided here, with the same result: nothing begins at or after `start`, or what begins
        first is cut off by the end of the text before it could be complete. `start` is at least 1. With `is_plain`
        all characters from `CONTEXT_CHARS` before it on are those of `PLAIN_CHARS`.
        """
        before = text[start - 1]
        if not is_plain and before != " " and _UNFINISHED_ESCAPE.search(text, start - CONTEXT_CHARS, start) is not None:
            return -1
        if len(text) - start > _SHORT_CHARS:
            return self._quick(text, start)
        known = self._inside if before in _ALNUM else self._starting
        rest = text[start:]
        end = known.get(rest)
        if end is None:
            if len(known) >= self.shorts_max:
                known.clear()
            end = self._quick(text, start)
            end = known[rest] = end - start if end >= 0 else -1
        return end + start if end >= 0 else -1

    def _quick(self, text: str, start: int) -> int:
        """Decide as `quick`, behind text that does not end inside an escape."""
        if len(text) - start > _TAIL_CHARS and not self._at_end:
            scans = self._scans
            if scans.word.search(text, start - 1) is not None or scans.inside.search(text, start) is not None:
                return -1
            start = len(text) - _TAIL_CHARS
        scans = self._open_scans
        word = scans.word.search(text, start - 1)
        inside = scans.inside.search(text, start)
        first = inside if word is None else _earlier(word, inside)
        if first is None:
            return len(text)
        at, end = first.span()
        if first is word:
            at += 1
        if self._at_end or first.lastindex is not None or end != len(text) or end - at >= PREFIX_CHARS:
            return -1
        return at if _SPELLING.search(text, at) is None else -1

    def _in_window(self, scans: Scans, text: str, begin: int, end: int) -> Find | None:
        """Return the first credential or open text that begins in a part of a text."""
        stop = end + _OVERLAP_CHARS
        escape = _UNFINISHED_ESCAPE.search(text, max(0, begin - CONTEXT_CHARS), begin)
        word = scans.word.search(text, begin - 1, stop)
        inside = scans.inside.search(text, begin if escape is None else escape.start(), stop)
        best: Find | None = None
        while (first := _earlier(word, inside)) is not None and (best is None or first.start() < best.start):
            at, prefix_end = scans.start_of(first, text, stop)
            if begin <= at < end and (best is None or at < best.start):
                is_word = first is word or first.lastindex is not None
                is_short = not self._at_end and prefix_end == len(text) and prefix_end - at < PREFIX_CHARS
                found = Find(at, at, prefix_end, None) if is_short else self._match(text, at, is_word=is_word)
                if found is not None and first.lastindex is None:
                    return found
                best = found or best  # behind an escape; another one may begin in the escape
            following = first.re.search(text, first.start() + 1, stop)
            word, inside = (following, inside) if first is word else (word, following)
        return best

    def _match(self, text: str, at: int, *, is_word: bool) -> Find | None:
        """Return the credential or open text that begins at a position."""
        regex, groups = self._units.get((text[at], is_word)) or self._compile(text[at], is_word=is_word)
        match = regex.match(text, at)
        if match is None:
            return None
        group = groups[match.lastindex or 0]
        is_open = not group.complete and not self._at_end
        return Find(at, match.start(group.body), match.end(), None if is_open else self._rows[group.row])

    def _add_anchor(self, index: int, anchor: Sequence[Piece], words: Sequence[str]) -> None:
        first, *more = anchor
        rest: list[Step] = [Piece(first.atom, first.least - 1, first.most - 1)] if first.most > 1 else []
        is_word = first.atom == WORD
        chars = dict.fromkeys(char for word in words for char in (word[0].upper(), word[0]))
        for char in chars if is_word else sorted(characters(first.atom, below=128)):  # each format begins in ASCII
            word = [RestOfWord(char)] if is_word else []
            self._anchors.setdefault(char, []).append((index, [*rest, *word, *more]))

    @cached_property
    def _scans(self) -> Scans:
        """The scans for whole prefixes."""
        return self._compile_scans(at_end=True)

    @cached_property
    def _open_scans(self) -> Scans:
        """The scans for prefixes that the end of the text may cut off, unless it is complete."""
        return self._scans if self._at_end else self._compile_scans(at_end=False)

    def _compile_scans(self, *, at_end: bool) -> Scans:
        words, anywhere = self._tries()
        writer = Writer(self._words, at_end=at_end, is_scan=True)
        firsts = [step.atom for step in words.children if isinstance(step, Piece)]
        return Scans(writer.start(words), firsts, writer.start(anywhere))

    def _tries(self) -> tuple[Node, Node]:
        """Return the prefixes of formats at the start of a word, and of those anywhere."""
        tries = {False: Node(), True: Node()}
        for char, anchors in self._anchors.items():
            for index, steps in anchors:
                node = tries[self._rows[index].inside_words].child(Piece(re.escape(char)))
                node.add([*prefix(steps), Mark("complete")])
        return tries[False], tries[True]

    def _compile(self, char: str, *, is_word: bool) -> tuple[re.Pattern[str], tuple[Group, ...]]:
        """Compile the expression for all formats with a first character, at the start of a word or inside one."""
        root = Node()
        node = root.child(Piece(re.escape(char)))
        for index, steps in self._anchors[char]:
            row = self._rows[index]
            bodies = alternatives(row.pattern) + (alternatives(row.pattern_at_end) if self._at_end else [])
            for body in bodies if is_word or row.inside_words else ():
                node.add([*steps, Mark("body", index, row.open_chars), *pieces(body), Mark("complete", index)])
        writer = Writer(self._words, at_end=self._at_end)
        self._units[char, is_word] = unit = re.compile(writer.start(root)), tuple(writer.groups)
        return unit


def _earlier(word: re.Match[str] | None, inside: re.Match[str] | None) -> re.Match[str] | None:
    """Return the match that begins first; a match at the start of a word has one character before it."""
    if word is None:
        return inside
    if inside is None:
        return word
    return word if word.start() < inside.start() else inside


class Scans:
    """The scans for two groups of prefixes: of formats at the start of a word, and of those anywhere."""

    def __init__(self, word_prefixes: str, firsts: Sequence[str], inside_prefixes: str) -> None:
        self.word = re.compile(f"[^0-9A-Za-z](?={'|'.join(firsts) or '(?!)'})(?:{word_prefixes})")
        """Prefixes with the character before them."""
        self.inside = re.compile(f"{inside_prefixes}|{_ESCAPES}")
        """Prefixes anywhere, and escapes, which set a group."""
        self._word_prefixes = word_prefixes

    def start_of(self, found: re.Match[str], text: str, stop: int) -> tuple[int, int]:
        """Return where the prefix of a match begins and ends; an escape without a prefix behind it has none."""
        if found.re is self.word:
            return found.start() + 1, found.end()
        if found.lastindex is None:
            return found.span()
        prefix = self.prefix.match(text, found.end(), stop)
        return prefix.span() if prefix is not None else (-1, -1)

    @cached_property
    def prefix(self) -> re.Pattern[str]:
        """Prefixes of formats at the start of a word; most texts have no escape and never compile it."""
        return re.compile(self._word_prefixes)


_RUN_CLASS: Final = "A-Za-z0-9+/_=~-"
_RUN: Final = {
    at_end: re.compile(rf"(?:[{_RUN_CLASS}]++|[.:](?=[A-Za-z0-9]{'' if at_end else '|' + chr(92) + 'Z'})|)*+")
    for at_end in (False, True)
}
"""A run, in which a dot or colon has a letter or digit after it: in a complete text, and in one that may continue."""
_RUN_BEFORE: Final = re.compile(rf"[.:{_RUN_CLASS}]*+")
_RUN_MAX_CHARS: Final = 256
"""Length up to which a run is held until it ends; a longer one is data, such as a file in base64."""
_TURN: Final = "(?:[a-z](?=[A-Z0-9])|[0-9](?=[A-Za-z])|[A-Z](?=[0-9]))"
TURNS: Final = re.compile(f"{_TURN}[A-Za-z0-9]{{0,5}}?{_TURN}")
"""Two changes between small letters, capitals and digits that are near each other: generated characters have one at
every second character, words and names in code have few."""
_TURNS_CHARS: Final = 9
_CHANGES: Final = re.compile("[A-Z0-9](?:(?<=[a-z].)|(?<=[0-9])(?=[A-Za-z])|(?<=[A-Z])(?=[0-9]))")
"""The capital or digit of one such change, which is found sooner."""
_BEFORE_CHARS: Final = 96
PLAIN_CHARS: Final = "".join(
    char
    for char in map(chr, range(128))
    if not any(each.match(char) for each in (MAY_BE_SPELLED, re.compile(r"[A-Z0-9=\[]")))
)
"""Characters with which no spelling, no escape and no run begins."""


class RunSearch:
    """The search for credentials with a mark behind or inside generated characters, in runs of such characters.

    Nothing announces them, and no reader waits for each word to end. So a run is held from where it looks generated,
    and what stands before that, some four characters of the credential, is shown.
    """

    def __init__(self, rows: Sequence[Format]) -> None:
        self._rows = [
            (row, _mark_of(row.anchor), _run_of(row, is_cut=False), _run_of(row, is_cut=True)) for row in rows
        ]
        self._marks = re.compile("|".join(mark.pattern for _, mark, _, _ in self._rows))

    def may_begin(self, text: str, start: int) -> int:
        """Return the first position at or after `start` where characters look generated; -1 if they do nowhere."""
        if not self._rows or _CHANGES.search(text, start - 1) is None:
            return -1
        at = max(0, start - _TURNS_CHARS)
        while (found := TURNS.search(text, at)) is not None:
            if found.end() >= start:
                return found.end()
            at = found.start() + 1
        return -1

    def first(self, text: str, start: int, *, at_end: bool) -> tuple[int, int, Format | None] | None:
        """Return the first credential at or after a position as (start, end, row), or a run that may become one."""
        at = start
        while (at := self.may_begin(text, at)) >= 0:
            end = _RUN[at_end].match(text, at).end()  # type: ignore[union-attr]  # matches always
            if end == len(text) and not at_end and end - at <= _RUN_MAX_CHARS:
                return at, end, None
            end = min(end, at + _RUN_MAX_CHARS)
            begin = at - len(_RUN_BEFORE.match(text[max(0, at - _BEFORE_CHARS) : at][::-1])[0])  # type: ignore[index]
            is_cut = at_end and end == len(text)
            for row, mark, whole, cut in self._rows if self._marks.search(text, begin, end) else ():
                if mark.search(text, begin, end) and (cut if is_cut else whole).search(text, begin, end):
                    return at, end, row
            at = end
        return None


def _mark_of(anchor: str) -> re.Pattern[str]:
    """Return what every credential with an anchor contains: of one that begins with a class, which is slow, its end.

    The end is the last piece that is not optional.
    """
    ends = (
        next(piece.atom for piece in reversed(pieces(way)) if piece.least) if way[0] == "[" else way
        for way in alternatives(anchor)
    )
    return re.compile("|".join(ends))


def _run_of(row: Format, *, is_cut: bool) -> re.Pattern[str]:
    """Return the expression for a credential in a run; of one that the end of the text cuts off if `is_cut`."""
    begins = f"(?:(?<![A-Za-z0-9{row.not_after[1:-1]}])|{_AFTER_ESCAPE})"
    word = begins if row.word or row.exact or row.not_after else ""
    tail = (row.tail or last_class(row.pattern))[1:-1]
    end = rf"(?![+/={tail}])" if row.exact else ""
    begun = rf"(?=[\s\S]{{{row.open_chars}}})" if is_cut else ""
    body = "|".join(sequence(pieces(way), may_end=is_cut) for way in alternatives(row.pattern))
    return re.compile(f"{word}{row.before}(?:{row.anchor}){begun}(?:{body}){end}")
