"""Tries of patterns, written as one regular expression: for the formats of a policy that begin alike.

A trie has the possible next steps of all its patterns at each node, in the order of the rules. Its expression matches
whole patterns, or a text that ends inside one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from projector.redaction.patterns import NEVER, PREFIX_CHARS, WORD, Piece, any_case

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


def prefix(steps: Iterable[Step], chars: int) -> Iterable[Step]:
    """Yield the first steps, until they take `chars` with the character before them, or could be too long."""
    count = longest = 1
    for step in steps:
        if count >= chars:
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
    """A node of the trie, with the possible next steps in the order of the rules."""

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
        ways = [
            step.atom + self._rest(node, 1, need, 0) for step, node in root.children.items() if isinstance(step, Piece)
        ]
        return "|".join(ways) or "(?!)"

    def by_first(self, root: Node) -> dict[str, str]:
        """Return the expression for what follows each first character; of text that the end may cut off."""
        return {step.atom: self._rest(node, 1, 0, 0) for step, node in root.children.items() if isinstance(step, Piece)}

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
            begins = _letters([word[: PREFIX_CHARS - seen] for word in words], is_open=seen >= need)
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
