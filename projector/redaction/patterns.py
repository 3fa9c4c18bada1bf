r"""The pattern language of credential formats, and the search for all formats of a policy at once.

The language is a small subset of Python's regular expressions, so that a text can be cut anywhere. A pattern is a
sequence of pieces: a literal, an escaped literal, a class or `WORD`, with `?`, `{n}` or `{m,n}`; `|` separates whole
patterns. A class matches greedily without backtracking, so it must not match characters that the next piece needs.
`WORD` is any sensitive word, in any case, with `-`, `_`, `.` or a blank between its letters.

At each position where a format may begin, a search has one of three results:

    complete    the shortest form of a credential
    open        the text ends inside a credential, so the text is held
    nothing     no continuation can make it a credential

At the end of a text an open credential counts only if `open_chars` characters of its pattern are present.

A search has two steps. One expression, the scan, looks for the first `PREFIX_CHARS` characters of all formats. Each of
its branches begins with a literal, so that Python skips quickly to possible starts; the look-behind for the start of a
word follows the first character for the same reason. Where the scan matches, one expression for all formats with that
first character decides. It is compiled on first use: compiling all of them costs ten times what most streams need.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from projector.redaction.rules import Format

WORD: Final = "WORD"
"""In an anchor: any sensitive word of the policy (`projector.redaction.rules`)."""

NEVER: Final = 1 << 30
"""Value of `open_chars` with which an unfinished credential is shown."""

PREFIX_CHARS: Final = 5
"""Length of the prefixes in the scan; `rule_files` rejects shorter formats."""

_PIECE: Final = re.compile(
    r"(?P<atom>WORD|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\]{}|?()*+^$.])"
    r"(?:\{(?P<least>\d+)(?:,(?P<most>\d+))?\}|(?P<maybe>\?))?"
)
_ALTERNATIVE: Final = re.compile(r"(?:\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|[^|])+")
_SEPARATOR: Final = "[-_. ]?+"
_WORD_START: Final = "word start"


class Piece(NamedTuple):
    """One step of a pattern: an atom of Python's syntax, and how often it is repeated."""

    atom: str
    least: int = 1
    most: int = 1


class RestOfWord(NamedTuple):
    """A step: the rest of a sensitive word after its first letter, or a whole word if `first` is empty."""

    first: str


class Mark(NamedTuple):
    """A step without characters: the start of a word, or the start (`body`) or end (`complete`) of a pattern."""

    what: str
    row: int = 0
    open_chars: int = 0


Step: TypeAlias = Piece | RestOfWord | Mark


class Group(NamedTuple):
    """The meaning of an empty group: a row, whether it is complete, and the group where its pattern begins."""

    row: int
    complete: bool
    body: int


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


def alternatives(pattern: str) -> list[str]:
    """Split a pattern at its top-level `|`."""
    return _ALTERNATIVE.findall(pattern)


def pieces(pattern: str, *, ignore_case: bool = False) -> list[Piece]:
    """Parse one pattern without `|`; raise `ValueError` if it is not in the language."""
    found: list[Piece] = []
    at = 0
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is None:
            raise ValueError(f"pattern: expected a literal, a class or a count at {at}")
        at = piece.end()
        atom, least, most, maybe = piece.groups()
        fewest = 0 if maybe else int(least or 1)
        found.append(Piece(_atom(atom, ignore_case=ignore_case), fewest, int(most or max(fewest, 1))))
    return found


def _atom(text: str, *, ignore_case: bool) -> str:
    if text[0] in "[\\" or text == WORD:
        return text
    return _any_case(text) if ignore_case else re.escape(text)


def _any_case(char: str) -> str:
    lower, upper = char.lower(), char.upper()
    return re.escape(char) if lower == upper else f"[{upper}{lower}]"


class Search:
    """The search for the formats of a policy: in text that may continue, or in complete text (`at_end`)."""

    def __init__(self, rows: Sequence[Format], words: Sequence[str], *, at_end: bool) -> None:
        self._rows = rows
        self._words = words
        self._at_end = at_end
        self._anchors: dict[str, list[tuple[int, Sequence[Step]]]] = {}  # by first character: row, what follows it
        for index, row in enumerate(rows):
            for way in alternatives(row.anchor):
                if words or WORD not in way:
                    self._add_anchor(index, row, pieces(way, ignore_case=row.ignore_case))
        self._scan: re.Pattern[str] | None = None
        self._units: dict[str, tuple[re.Pattern[str], tuple[Group, ...]]] = {}

    def first(self, text: str, start: int = 0) -> Find | None:
        """Return the first credential at or after `start`, or the first text that may become one."""
        scan = self._scan or self._compile_scan()
        while (found := scan.search(text, start)) is not None:
            start, end = found.span()
            if not self._at_end and end == len(text) and end - start < PREFIX_CHARS:
                return Find(start, start, end, None)  # too short to be complete
            regex, groups = self._units.get(text[start]) or self._compile(text[start])
            if (match := regex.match(text, start)) is not None:
                group = groups[match.lastindex or 0]
                is_open = not group.complete and not self._at_end
                return Find(start, match.start(group.body), match.end(), None if is_open else self._rows[group.row])
            start += 1
        return None

    def _add_anchor(self, index: int, row: Format, anchor: Sequence[Piece]) -> None:
        first, *more = anchor
        rest: list[Step] = [] if row.inside_words else [Mark(_WORD_START)]
        if first.most > 1:
            rest.append(Piece(first.atom, first.least - 1, first.most - 1))
        is_word = first.atom == WORD
        chars = dict.fromkeys(char for word in self._words for char in (word[0].upper(), word[0]))
        for char in chars if is_word else _ascii(first.atom):
            word = [RestOfWord(char)] if is_word else []
            self._anchors.setdefault(char, []).append((index, [*rest, *word, *more]))

    def _compile_scan(self) -> re.Pattern[str]:
        root = _Node()
        for char, anchors in self._anchors.items():
            node = root.child(Piece(re.escape(char)))
            for _index, steps in anchors:
                node.add([*_prefix(steps), Mark("complete")], char)
        self._scan = re.compile(_Writer(self._words, at_end=self._at_end, is_scan=True).start(root))
        return self._scan

    def _compile(self, char: str) -> tuple[re.Pattern[str], tuple[Group, ...]]:
        root = _Node()
        node = root.child(Piece(re.escape(char)))
        for index, steps in self._anchors[char]:
            row = self._rows[index]
            bodies = alternatives(row.pattern) + (alternatives(row.pattern_at_end) if self._at_end else [])
            for body in bodies:
                node.add([*steps, Mark("body", index, row.open_chars), *pieces(body), Mark("complete", index)], char)
        writer = _Writer(self._words, at_end=self._at_end)
        self._units[char] = unit = re.compile(writer.start(root)), tuple(writer.groups)
        return unit


@cache
def _ascii(atom: str) -> list[str]:
    """Return the ASCII characters that an atom matches; every format begins with one."""
    return re.findall(atom, "".join(map(chr, range(128))))


def _prefix(steps: Iterable[Step]) -> Iterable[Step]:
    """Yield the first steps, until they take `PREFIX_CHARS` with the character before them."""
    count = 1
    for step in steps:
        if count >= PREFIX_CHARS:
            return
        yield step
        if isinstance(step, RestOfWord) or step == Piece(WORD):
            return
        count += step.least if isinstance(step, Piece) else 0


class _Node:
    """A node of the trie, with the possible next steps in the order of the rules."""

    def __init__(self) -> None:
        self.children: dict[Step, _Node] = {}

    def child(self, step: Step) -> _Node:
        return self.children.setdefault(step, _Node())

    def add(self, steps: Iterable[Step], first: str) -> None:
        node = self
        for step in steps:
            at_start = step == Mark(_WORD_START)
            node = node.child(Mark(f"(?<![0-9A-Za-z]{re.escape(first)})") if at_start else step)


class _Writer:
    """Writer of a trie as one regular expression; `groups` are the meanings of its groups."""

    def __init__(self, words: Sequence[str], *, at_end: bool, is_scan: bool = False) -> None:
        self._words = words
        self._at_end = at_end
        self._is_scan = is_scan
        self.groups = [Group(-1, complete=False, body=0)]

    def start(self, root: _Node) -> str:
        need = NEVER if self._at_end else 0
        ways = [
            step.atom + self._rest(node, 1, need, 0) for step, node in root.children.items() if isinstance(step, Piece)
        ]
        return "|".join(ways) or "(?!)"

    def _rest(self, node: _Node, seen: int, need: int, body: int) -> str:
        """Write the expression for what follows `seen` characters; an open end counts from `need` characters."""
        ways: list[str] = []
        for step, child in node.children.items():
            if isinstance(step, Piece):
                ways += self._piece(step, child, seen, need, body)
            elif isinstance(step, RestOfWord):
                ways += self._word(step, child, seen, need, body)
            elif step.what == "complete" and self._is_scan:
                return ""
            elif step.what == "complete":
                self.groups.append(Group(step.row, complete=True, body=body))
                ways.append("()")
            elif step.what == "body":
                self.groups.append(Group(step.row, complete=False, body=len(self.groups)))
                inner = (0, step.open_chars) if self._at_end else (seen, need)
                ways.append("()" + self._rest(child, *inner, len(self.groups) - 1))
            else:
                ways.append(step.what + self._rest(child, seen, need, body))
        if seen >= need and any(not isinstance(step, Mark) for step in node.children):
            ways.append(r"\Z")
        return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"

    def _piece(self, piece: Piece, child: _Node, seen: int, need: int, body: int) -> list[str]:
        atom, least, most = piece
        if atom == WORD:
            return self._word(RestOfWord(""), child, seen, need, body)
        count = "" if least == most == 1 else f"{{{least},{most}}}+"
        ways = [f"{atom}{count}{self._rest(child, seen + least, need, body)}"]
        fewest = max(1, need - seen)
        longest = least - 1 if seen + least >= need else most  # beyond it, the node after the piece handles the end
        if fewest <= longest:
            ways.append(rf"{atom}{{{fewest},{longest}}}+\Z")
        return ways

    def _word(self, step: RestOfWord, child: _Node, seen: int, need: int, body: int) -> list[str]:
        words = [word[len(step.first) :] for word in self._words if word.startswith(step.first.lower())]
        if self._is_scan:
            words = list(dict.fromkeys(word[: PREFIX_CHARS - seen] for word in words))
        spelled = [_spelled(word)[0 if step.first else 1 :] for word in words]
        ways = [f"(?:{'|'.join(map(''.join, spelled))}){self._rest(child, seen + 1, need, body)}"]
        if seen >= need:
            ways += [_beginning(steps) for steps in spelled if len(steps) > 1]
        return ways


def _spelled(word: str) -> list[str]:
    """Return the steps of a word, with an optional separator before each letter."""
    return [step for char in word for step in (_SEPARATOR, _any_case(char))]


def _beginning(steps: Sequence[str]) -> str:
    """Return the expression for a text that ends inside the steps."""
    *before, last = steps[:-1]
    expression = rf"{last}\Z"
    for step in reversed(before):
        expression = rf"{step}(?:\Z|{expression})"
    return expression
