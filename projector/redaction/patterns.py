r"""From rows of credential formats to two regular expressions: one for text that goes on, one for text that ends.

The pattern language is a small part of Python's, so that it can be cut anywhere: pieces in a row, each a literal, an
escaped literal or a class, with `?`, `{n}` or `{m,n}`; `|` only between whole patterns. A class takes as many
characters as it can and gives none back, so the class before a piece must not take what the piece needs.

For `gh[po]_[A-Za-z0-9]{36}` the expression for text that goes on says, at each start, one of three things:

    complete    the shortest form stands there; an empty group marks which format
    open        the text ends inside what may become one: hold it back until more is known
    nothing     no text that follows can make it a credential

For text that ends, an open one counts only if `open_chars` of its body are there. All formats are branches of one trie,
each start of a branch a literal: Python then skips to possible starts at memory speed. The look-behind for a word's
start stands behind the first character for the same reason (6 ns a character instead of 51, measured).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from projector.redaction.formats.row import NEVER

_PIECE: Final = re.compile(
    r"(?P<atom>\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\]{}|?])"
    r"(?:\{(?P<least>\d+)(?:,(?P<most>\d+))?\}|(?P<maybe>\?))?"
)
_ALTERNATIVE: Final = re.compile(r"(?:\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|[^|])+")


class Piece(NamedTuple):
    """One step of a pattern: an atom of Python's syntax, and how often it stands."""

    atom: str
    least: int = 1
    most: int = 1


class Mark(NamedTuple):
    """A step without characters: a word begins here, the body of format `row` begins here, or is complete here."""

    what: str
    row: int = 0
    open_chars: int = 0


Step: TypeAlias = Piece | Mark


class Branch(NamedTuple):
    """One way to write one format, as steps."""

    steps: Sequence[Step]


class Group(NamedTuple):
    """What an empty group says: the row, whether it is complete here, and the group where its body begins."""

    row: int
    complete: bool
    body: int


class Expression(NamedTuple):
    """A compiled expression with the meaning of its groups; group 0 is the match and means nothing."""

    regex: re.Pattern[str]
    groups: tuple[Group, ...]


def alternatives(pattern: str) -> list[str]:
    """Split a pattern at its top-level `|`."""
    return _ALTERNATIVE.findall(pattern)


def pieces(pattern: str, *, any_case: bool = False) -> list[Piece]:
    """Read one pattern without `|`.

    Raises:
        ValueError: the pattern is not in the language.
    """
    found: list[Piece] = []
    at = 0
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is None:
            raise ValueError(f"pattern: expected a literal, a class or a count at {at}")
        at = piece.end()
        least = 0 if piece["maybe"] else int(piece["least"] or 1)
        most = int(piece["most"] or max(least, 1))
        found.append(Piece(_atom(piece["atom"], any_case=any_case), least, most))
    return found


def _atom(text: str, *, any_case: bool) -> str:
    if text[0] in "[\\":
        return text
    if any_case and text.lower() != text.upper():
        return f"[{text.upper()}{text.lower()}]"
    return re.escape(text)


def branch(row: int, anchor: Sequence[Piece], body: Sequence[Piece], *, open_chars: int, inside_words: bool) -> Branch:
    """Give the steps of one way to write a format."""
    first, *more = anchor
    start: list[Step] = [Piece(first.atom)]
    if not inside_words:
        start.append(Mark("word"))
    if first.most > 1:
        start.append(Piece(first.atom, first.least - 1, first.most - 1))
    return Branch([*start, *more, Mark("body", row, open_chars), *body, Mark("complete", row)])


def compile_branches(branches: Iterable[Branch], *, at_end: bool) -> Expression:
    """Give the expression that finds the first of the branches: for text that goes on, or for text that ends."""
    root = _Node()
    for item in branches:
        head, *rest = item.steps
        for char in _characters(head):
            node = root.child(Piece(re.escape(char)))
            for step in rest:
                node = node.child(step if step != Mark("word") else Mark(f"(?<![0-9A-Za-z]{re.escape(char)})"))
    writer = _Writer(at_end=at_end)
    return Expression(re.compile(writer.start(root)), tuple(writer.groups))


def _characters(first: Step) -> list[str]:
    """Give the characters that a pattern may begin with; all formats begin in ASCII."""
    assert isinstance(first, Piece)  # noqa: S101  # `branch` puts a piece there
    return [chr(code) for code in range(128) if re.fullmatch(first.atom, chr(code))]


class _Node:
    """A place in the trie: what may follow, in the order of the table."""

    def __init__(self) -> None:
        self.children: dict[Step, _Node] = {}

    def child(self, step: Step) -> _Node:
        return self.children.setdefault(step, _Node())


class _Writer:
    """Writes the trie as one expression, and remembers what its groups mean."""

    def __init__(self, *, at_end: bool) -> None:
        self._at_end = at_end
        self.groups = [Group(-1, complete=False, body=0)]

    def start(self, root: _Node) -> str:
        need = NEVER if self._at_end else 0
        ways = [
            step.atom + self._rest(node, 1, need, 0) for step, node in root.children.items() if isinstance(step, Piece)
        ]
        return "|".join(ways) or "(?!)"

    def _rest(self, node: _Node, seen: int, need: int, body: int) -> str:
        """Write what follows a node of which `seen` characters are read; `need` of them make an open end count."""
        ways: list[str] = []
        for step, child in node.children.items():
            if isinstance(step, Piece):
                ways += self._piece(step, child, seen, need, body)
            elif step.what == "complete":
                self.groups.append(Group(step.row, complete=True, body=body))
                ways.append("()")
            elif step.what == "body":
                self.groups.append(Group(step.row, complete=False, body=len(self.groups)))
                inner = (0, step.open_chars) if self._at_end else (seen, need)
                ways.append("()" + self._rest(child, *inner, len(self.groups) - 1))
            else:
                ways.append(step.what + self._rest(child, seen, need, body))
        if seen >= need and any(isinstance(step, Piece) for step in node.children):
            ways.append(r"\Z")
        return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"

    def _piece(self, piece: Piece, child: _Node, seen: int, need: int, body: int) -> list[str]:
        atom, least, most = piece
        count = "" if least == most == 1 else f"{{{least},{most}}}+"
        ways = [f"{atom}{count}{self._rest(child, seen + least, need, body)}"]
        fewest = max(1, need - seen)
        longest = least - 1 if seen + least >= need else most  # beyond it, the node behind the piece sees the end
        if fewest <= longest:
            ways.append(rf"{atom}{{{fewest},{longest}}}+\Z")
        return ways
