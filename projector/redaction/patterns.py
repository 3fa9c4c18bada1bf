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

A search has two steps. Expressions, the scans, look for the first `PREFIX_CHARS` characters of all formats: behind
characters that end a word, and anywhere for the few formats with `inside_words`. Most of a text is inside words, so the
scan of most formats looks at one character of five. Where a scan matches, one expression for all formats with that
first character decides. It is compiled on first use: compiling all of them costs ten times what most streams need.

A word also begins behind an escape that was not decoded: a literal `\n` or `\u003d`, `%20`, `=3D` of quoted-printable,
the colours of a terminal. The text before the start of a search counts, so a caller passes `CONTEXT_CHARS` of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property, lru_cache
from typing import Final, NamedTuple, TypeAlias

from projector.redaction.rules import Format

WORD: Final = "WORD"
"""In an anchor: any sensitive word of the policy (`projector.redaction.rules`)."""

NEVER: Final = 1 << 30
"""Value of `open_chars` with which an unfinished credential is shown."""

PREFIX_CHARS: Final = 5
"""Length of the prefixes in the scan; `rule_files` rejects shorter formats."""

CONTEXT_CHARS: Final = 16
"""Length of the longest escape behind which a word begins."""

_PIECE: Final = re.compile(
    r"(?P<atom>WORD|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\]{}|?()*+^$.])"
    r"(?:\{(?P<least>\d+)(?:,(?P<most>\d+))?\}|(?P<maybe>\?))?"
)
_ALTERNATIVE: Final = re.compile(r"(?:\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|[^|])+")
_SEPARATOR: Final = "[-_. ]?+"
_END: Final = r"\Z"
_WINDOW_CHARS: Final = 512
_OVERLAP_CHARS: Final = 64
"""A scan reads a window and the longest prefix behind it, so that the scans of a text with many finds stay linear."""
_PREFIX_MAX_CHARS: Final = 48
"""Greatest length of a prefix; with the separators of a word it is below the overlap."""
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
first characters of others (`projector.redaction.readings`)."""
_SPELLING: Final = re.compile(r"[\\&%\x1b]")
"""First characters of the spellings that are read twice."""
_UNFINISHED_ESCAPE: Final = re.compile(r"[\\%=\[][0-9A-Za-z;]{0,13}\Z")


class Piece(NamedTuple):
    """One step of a pattern: an atom of Python's syntax, and how often it is repeated."""

    atom: str
    least: int = 1
    most: int = 1


class RestOfWord(NamedTuple):
    """A step: the rest of a sensitive word after its first letter, or a whole word if `first` is empty."""

    first: str


class Mark(NamedTuple):
    """A step without characters: the start (`body`) or end (`complete`) of a pattern."""

    what: str
    row: int = 0
    open_chars: int = 0


Step: TypeAlias = Piece | RestOfWord | Mark


_Scan: TypeAlias = Callable[[str, int], "re.Match[str] | None"]


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
        found.append(_piece(atom, fewest, int(most or max(fewest, 1)), ignore_case))
    return found


@lru_cache(maxsize=4_096)
def _piece(text: str, least: int, most: int, ignore_case: bool) -> Piece:  # noqa: FBT001 - the key of the cache
    """Return a step. Formats have 25,000 of a few hundred different ones, which would take three megabytes."""
    return Piece(_atom(text, ignore_case=ignore_case), least, most)


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
                    self._add_anchor(index, pieces(way, ignore_case=row.ignore_case))
        self._units: dict[tuple[str, bool], tuple[re.Pattern[str], tuple[Group, ...]]] = {}
        self._starting: dict[str, int] = {}  # short text at the start of a word -> what `quick` returns, from its start
        self._inside: dict[str, int] = {}  # the same inside a word

    def compile(self) -> None:
        """Compile what is otherwise compiled on first use, some milliseconds for each first character of a format."""
        _ = self._quick_scans, self._scans.prefix
        if not self._at_end:
            _ = self._open_scans.prefix
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

    def quick(self, text: str, start: int) -> int:
        """Return the position up to which a text is shown; -1 if only `first` can decide.

        Nearly every fragment is decided here, with the same result: nothing begins at or after `start`, or what begins
        first is cut off by the end of the text before it could be complete. `start` is at least 1.
        """
        if len(text) - start > _TAIL_CHARS and not self._at_end:
            return -1
        before = text[start - 1]
        if before != " " and _UNFINISHED_ESCAPE.search(text, start - CONTEXT_CHARS, start) is not None:
            return -1
        if len(text) - start > _SHORT_CHARS:
            return self._quick(text, start)
        known = self._inside if before in _ALNUM else self._starting
        rest = text[start:]
        end = known.get(rest)
        if end is None:
            if len(known) >= _SHORTS_MAX:
                known.clear()
            end = self._quick(text, start)
            end = known[rest] = end - start if end >= 0 else -1
        return end + start if end >= 0 else -1

    def _quick(self, text: str, start: int) -> int:
        """Decide as `quick`, behind text that does not end inside an escape."""
        word_scan, inside_scan = self._quick_scans
        word = word_scan(text, start - 1)
        inside = inside_scan(text, start)
        first = _earlier(word, inside)
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
                found = self._open_or_match(text, at, prefix_end, is_word=is_word)
                if found is not None and first.lastindex is None:
                    return found
                best = found or best  # behind an escape; another one may begin in the escape
            following = first.re.search(text, first.start() + 1, stop)
            word, inside = (following, inside) if first is word else (word, following)
        return best

    def _open_or_match(self, text: str, at: int, prefix_end: int, *, is_word: bool) -> Find | None:
        """Return the credential at a position whose prefix was found, or open text."""
        if not self._at_end and prefix_end == len(text) and prefix_end - at < PREFIX_CHARS:
            return Find(at, at, prefix_end, None)  # too short to be complete
        return self._match(text, at, is_word=is_word)

    def _match(self, text: str, at: int, *, is_word: bool) -> Find | None:
        """Return the credential or open text that begins at a position."""
        regex, groups = self._units.get((text[at], is_word)) or self._compile(text[at], is_word=is_word)
        match = regex.match(text, at)
        if match is None:
            return None
        group = groups[match.lastindex or 0]
        is_open = not group.complete and not self._at_end
        return Find(at, match.start(group.body), match.end(), None if is_open else self._rows[group.row])

    def _add_anchor(self, index: int, anchor: Sequence[Piece]) -> None:
        first, *more = anchor
        rest: list[Step] = [Piece(first.atom, first.least - 1, first.most - 1)] if first.most > 1 else []
        is_word = first.atom == WORD
        chars = dict.fromkeys(char for word in self._words for char in (word[0].upper(), word[0]))
        for char in chars if is_word else _ascii(first.atom):
            word = [RestOfWord(char)] if is_word else []
            self._anchors.setdefault(char, []).append((index, [*rest, *word, *more]))

    @cached_property
    def _scans(self) -> Scans:
        """Scans for whole prefixes."""
        return self._compile_scans(at_end=True)

    @cached_property
    def _open_scans(self) -> Scans:
        """Scans that find a prefix that the end of the text cuts off, too."""
        return self._compile_scans(at_end=False)

    def prefixes(self, count: int) -> tuple[dict[str, str], dict[str, str]]:
        """Return the expressions for the first characters of all formats, which the end of the text may cut off.

        Of formats at the start of a word, and of those anywhere: from the second character on, by the first one.
        """
        words, anywhere = self._tries(count)
        writer = _Writer(self._words, at_end=False, is_scan=True)
        return writer.by_first(words), writer.by_first(anywhere)

    @cached_property
    def _quick_scans(self) -> tuple[_Scan, _Scan]:
        scans = self._scans if self._at_end else self._open_scans
        return scans.word.search, scans.inside.search

    def _compile_scans(self, *, at_end: bool) -> Scans:
        words, anywhere = self._tries(PREFIX_CHARS)
        writer = _Writer(self._words, at_end=at_end, is_scan=True)
        firsts = [step.atom for step in words.children if isinstance(step, Piece)]
        return Scans(writer.start(words), firsts, writer.start(anywhere))

    def _tries(self, count: int) -> tuple[_Node, _Node]:
        """Return the prefixes of formats at the start of a word, and of those anywhere."""
        tries = {False: _Node(), True: _Node()}
        for char, anchors in self._anchors.items():
            for index, steps in anchors:
                node = tries[self._rows[index].inside_words].child(Piece(re.escape(char)))
                node.add([*_prefix(steps, count), Mark("complete")])
        return tries[False], tries[True]

    def _compile(self, char: str, *, is_word: bool) -> tuple[re.Pattern[str], tuple[Group, ...]]:
        """Compile the expression for all formats with a first character, at the start of a word or inside one."""
        root = _Node()
        node = root.child(Piece(re.escape(char)))
        for index, steps in self._anchors[char]:
            row = self._rows[index]
            bodies = alternatives(row.pattern) + (alternatives(row.pattern_at_end) if self._at_end else [])
            for body in bodies if is_word or row.inside_words else ():
                node.add([*steps, Mark("body", index, row.open_chars), *pieces(body), Mark("complete", index)])
        writer = _Writer(self._words, at_end=self._at_end)
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


@cache
def _ascii(atom: str) -> list[str]:
    """Return the ASCII characters that an atom matches; every format begins with one."""
    return re.findall(atom, "".join(map(chr, range(128))))


def _prefix(steps: Iterable[Step], chars: int) -> Iterable[Step]:
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


class _Node:
    """A node of the trie, with the possible next steps in the order of the rules."""

    def __init__(self) -> None:
        self.children: dict[Step, _Node] = {}

    def child(self, step: Step) -> _Node:
        return self.children.setdefault(step, _Node())

    def add(self, steps: Iterable[Step]) -> None:
        node = self
        for step in steps:
            node = node.child(step)


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

    def by_first(self, root: _Node) -> dict[str, str]:
        """Return the expression for what follows each first character; of text that the end may cut off."""
        return {step.atom: self._rest(node, 1, 0, 0) for step, node in root.children.items() if isinstance(step, Piece)}

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
            else:
                self.groups.append(Group(step.row, complete=False, body=len(self.groups)))
                inner = (0, step.open_chars) if self._at_end else (seen, need)
                ways.append("()" + self._rest(child, *inner, len(self.groups) - 1))
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
    ways = [_any_case(char) + _letters(rests, is_open=is_open) for char, rests in following.items()]
    return f"{_SEPARATOR}(?:{'|'.join([*ways, *([_END] if is_open else [])])})"


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
