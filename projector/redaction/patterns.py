r"""The pattern language of credential formats.

The language is a small subset of Python's regular expressions, so that a text can be cut anywhere. A pattern is a
sequence of pieces: a literal, an escaped literal, a class or `WORD`, with `?`, `{n}` or `{m,n}`; `|` separates whole
patterns. A class matches greedily without backtracking, so it must not match characters that the next piece needs.
`WORD` is any sensitive word, in any case, with `-`, `_`, `.` or a blank between its letters.

Patterns that begin alike are a trie, which is written as one regular expression: at each node it has the possible next
steps of all patterns, in the order of the rules. It matches whole patterns, or a text that ends inside one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple, TypeAlias

WORD: Final = "WORD"
"""In an anchor: any sensitive word of the policy (`projector.redaction.rules`)."""

NEVER: Final = 1 << 30
"""Value of `open_chars` with which an unfinished credential is shown."""

PREFIX_CHARS: Final = 5
"""Length of the shortest credential; `rule_files` rejects shorter formats."""

SCAN_CHARS: Final = 8
"""Length of the prefixes in the scan: few words begin like one of them."""

CONTEXT_CHARS: Final = 16
"""Length of the longest escape behind which a word begins."""

_PIECE: Final = re.compile(
    r"(?P<atom>WORD|\\[^0-9A-Za-z]|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\]{}|?()*+^$.])"
    r"(?:\{(?P<least>\d+)(?:,(?P<most>\d+))?\}|(?P<maybe>\?))?"
)
_ALTERNATIVE: Final = re.compile(r"(?:\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|[^|])+")


class Piece(NamedTuple):
    """One step of a pattern: an atom of Python's syntax, and how often it is repeated."""

    atom: str
    least: int = 1
    most: int = 1


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
        found.append(_piece(atom, fewest, int(most or max(fewest, 1)), ignore_case))
    return found


def shortest_length(pattern: str, *, literal_only: bool = False) -> int:
    """Return how many characters a text of one alternative has at least; with `literal_only` without its classes."""
    return sum(piece.least for piece in pieces(pattern) if not literal_only or piece.atom[0] != "[")


def last_class(pattern: str) -> str:
    """Return the last class of the first alternative, "" if it has none: the default `tail` of a format."""
    return next((one.atom for one in reversed(pieces(alternatives(pattern)[0])) if one.atom[0] == "["), "")


def optional_ends(pattern: str) -> Iterator[Piece]:
    """Yield the pieces of which a text may have more behind the shortest form of an alternative."""
    for way in alternatives(pattern):
        for piece in reversed(pieces(way)):
            if piece.most > piece.least:
                yield piece
            if piece.least:
                break


@cache
def characters(atom: str, below: int = 0x250) -> frozenset[str]:
    """Return the characters that an atom matches, of those below a code point."""
    return frozenset(re.findall(atom, "".join(map(chr, range(below)))))


def first_fault(pattern: str) -> int | None:
    """Return the index of the first piece that is not in the language, None if all are."""
    at = 0
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        least, most = (0, 0) if piece is None else (int(piece["least"] or 1), int(piece["most"] or piece["least"] or 1))
        if piece is not None and 0 < most >= least and _is_expression(piece["atom"]):
            at = piece.end()
        elif pattern[at] == "|":
            at += 1
        else:
            return at
    return None


def _is_expression(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


@lru_cache(maxsize=4_096)
def _piece(text: str, least: int, most: int, ignore_case: bool) -> Piece:  # noqa: FBT001 - the key of the cache
    """Return a step. Formats have 25,000 of a few hundred different ones, which would take three megabytes."""
    if text[0] in "[\\" or text == WORD:
        return Piece(text, least, most)
    return Piece(any_case(text) if ignore_case else re.escape(text), least, most)


def any_case(char: str) -> str:
    """Return the expression for a character in any case."""
    lower, upper = char.lower(), char.upper()
    return re.escape(char) if lower == upper else f"[{upper}{lower}]"


def sequence(steps: Iterable[Piece], *, may_end: bool = False) -> str:
    """Return the expression for some pieces; with `may_end` also for a text that ends in them."""
    expression = ""
    for atom, least, most in reversed([*steps]):
        is_one = least == most == 1
        whole = (atom if is_one else f"{atom}{{{least},{most}}}+") + expression
        short = "" if is_one else f"{atom}{{0,{most}}}+"
        expression = rf"(?:{whole}|{short}\Z)" if may_end else whole
    return expression


# tries

_SEPARATOR: Final = "[-_. ]?+"
_END: Final = r"\Z"
_PREFIX_MAX_CHARS: Final = 48
"""Greatest length of a prefix; with the separators of a word it is below the overlap of windows."""


class RestOfWord(NamedTuple):
    """A step: the rest of a sensitive word after its first letter, or a whole word if `first` is empty."""

    first: str


class Mark(NamedTuple):
    """A step without characters: the start (`body`) or end (`complete`) of a pattern."""

    what: str
    row: int = 0
    open_chars: int = 0


Step: TypeAlias = Piece | RestOfWord | Mark


class Group(NamedTuple):
    """The meaning of an empty group: a row, whether it is complete, and the group where its pattern begins."""

    row: int
    complete: bool
    body: int


def prefix(steps: Iterable[Step]) -> Iterable[Step]:
    """Yield the first steps, until they take `SCAN_CHARS` with the first character, or could be too long."""
    count = longest = 1
    for step in steps:
        if count >= SCAN_CHARS:
            return
        if isinstance(step, Piece):
            longest += step.most
            if longest > _PREFIX_MAX_CHARS:
                if least := min(step.least, _PREFIX_MAX_CHARS - longest + step.most):
                    yield Piece(step.atom, least, least)
                return
            count += step.least
        yield step
        if isinstance(step, RestOfWord) or step == Piece(WORD):
            return


class Node:
    """A node of a trie of patterns, with the possible next steps in the order of the rules."""

    def __init__(self) -> None:
        self.children: dict[Step, Node] = {}

    def child(self, step: Step) -> Node:
        """Return the node behind a step, new if there is none."""
        return self.children.setdefault(step, Node())

    def add(self, steps: Iterable[Step]) -> None:
        """Add the rest of a pattern."""
        node = self
        for step in steps:
            node = node.child(step)


class Writer:
    """Writer of a trie as one regular expression; `groups` are the meanings of its groups."""

    def __init__(self, words: Sequence[str], *, at_end: bool, is_scan: bool = False) -> None:
        self._words = words
        self._at_end = at_end
        self._is_scan = is_scan
        self.groups = [Group(-1, complete=False, body=0)]

    def start(self, root: Node) -> str:
        """Return the expression for a whole trie; one that matches nothing if it is empty."""
        need = NEVER if self._at_end else 0
        ways: dict[bool, list[str]] = {True: [], False: []}
        for step, node in root.children.items():
            if isinstance(step, Piece):
                ways[step.atom.isascii()].append(step.atom + self._rest(node, 1, need, 0))
        if ways[False]:  # behind one check, because each way is tried at each character
            ways[True].append(rf"(?![\x00-\x7f])(?:{'|'.join(ways[False])})")
        return "|".join(ways[True]) or "(?!)"

    def _rest(self, node: Node, seen: int, need: int, body: int) -> str:
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
                if ways and not self._at_end and seen >= need:
                    ways.append(r"\Z")  # a longer pattern, which comes first, may still match
                self.groups.append(Group(step.row, complete=True, body=body))
                ways.append("()")
            else:
                self.groups.append(Group(step.row, complete=False, body=len(self.groups)))
                inner = (0, step.open_chars) if self._at_end else (seen, need)
                ways.append("()" + self._rest(child, *inner, len(self.groups) - 1))
        if seen >= need and any(not isinstance(step, Mark) for step in node.children):
            ways.append(r"\Z")
        return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"

    def _piece(self, piece: Piece, child: Node, seen: int, need: int, body: int) -> list[str]:
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

    def _word(self, step: RestOfWord, child: Node, seen: int, need: int, body: int) -> list[str]:
        words = [word[len(step.first) :] for word in self._words if word.startswith(step.first.lower())]
        if self._is_scan:
            begins = _letters([word[: SCAN_CHARS - seen] for word in words], is_open=seen >= need)
            return [begins if step.first else begins.removeprefix(_SEPARATOR)]
        spelled = [_spelled(word)[0 if step.first else 1 :] for word in words]
        ways = [f"(?:{'|'.join(map(''.join, spelled))}){self._rest(child, seen + 1, need, body)}"]
        if seen >= need:
            ways += [_beginning(steps) for steps in spelled if len(steps) > 1]
        return ways


def _letters(words: Iterable[str], *, is_open: bool) -> str:
    """Return the expression for the letters of one of the words, or for a text that ends inside them."""
    following: dict[str, list[str]] = {}
    for word in words:
        if not word:
            return ""
        following.setdefault(word[0], []).append(word[1:])
    ways = [any_case(char) + _letters(rests, is_open=is_open) for char, rests in following.items()]
    return f"{_SEPARATOR}(?:{'|'.join([*ways, *([_END] if is_open else [])])})"


def _spelled(word: str) -> list[str]:
    """Return the steps of a word, with an optional separator before each letter."""
    return [step for char in word for step in (_SEPARATOR, any_case(char))]


def _beginning(steps: Sequence[str]) -> str:
    """Return the expression for a text that ends inside the steps."""
    *before, last = steps[:-1]
    expression = rf"{last}\Z"
    for step in reversed(before):
        expression = rf"{step}(?:\Z|{expression})"
    return expression
