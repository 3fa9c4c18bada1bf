r"""Filters of decoded strings: plain text, JSON in it, and strings that follow each other in a list; and of numbers.

A string is read in one of four modes, and the first character after blanks decides:

    BLANK       only blanks so far
    PLAIN       any other first character: plain text to the end (`TextFilter`)
    DOCUMENT    `{`, `[` or `"`: the decoded text is read by an inner filter of documents
    WITHHELD    the document broke off inside a value that is withheld, so the rest is withheld too

Documents may follow each other (JSON lines). After a syntax error outside a withheld value the mode is PLAIN, and the
end of the document is context of the search: `{"password": hunter2` is no JSON, but its value is withheld. A registered
value that contains JSON syntax would be torn apart by the grammar. So a document is searched for these values before it
is parsed, and what follows one of them is withheld.

The strings of an array, and the entries of a log, are read alone and as the continuation of the strings before them: as
a text that was cut anywhere (`["ghp_a1B2", "c3D4.."]`) and as one that was cut into its lines. A key announces the next
string (`["--password", "hunter2"]`). What any reading withholds is withheld; what was shown before stays shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from projector.redaction import value_shapes as shapes
from projector.redaction.assignments import announces, entry_end
from projector.redaction.clean import Gathered
from projector.redaction.registered import Values
from projector.redaction.rules import names_a_value
from projector.redaction.search import Search
from projector.redaction.spellings import Step, StepWriter
from projector.redaction.text_filter import Filter, TextFilter, Union
from projector.redaction.value_ends import Cursor, End, Tail, end_of

# the grammar of JSON's strings, numbers and literals (RFC 8259)

LITERALS: Final = {"t": "true", "f": "false", "n": "null"}
NUMBER_OPENS: Final = "-0123456789"
"""First characters of a number."""
PLAIN_RUN: Final = re.compile(r'[^"\\\x00-\x1f]*+')
NOT_PLAIN: Final = re.compile(r'["\\\x00-\x1f]')
BLANKS: Final = re.compile(r"[ \t\n\r]*+")
_MEMBER: Final = r'"([^"\\\x00-\x1f]*+)"[ \t\n\r]*+:[ \t\n\r]*+'
MEMBER: Final = {'"': re.compile(_MEMBER), ",": re.compile(rf",[ \t\n\r]*+{_MEMBER}")}
"""First character -> a member of an object up to its value, as its first and after another one. Keys with escapes
do not match."""
_WHOLE: Final = "-?(?:0|[1-9][0-9]*+)"
_NUMBER: Final = rf"{_WHOLE}(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_SIMPLE_VALUE: Final = (
    rf'(?:"(|[^"\\\x00-\x1f {{\[][^"\\\x00-\x1f]*+)"|true|false|null|({_NUMBER}))(?=[ \t\n\r]*+[,}}])'
)
SIMPLE_MEMBER: Final = {char: re.compile(member.pattern + _SIMPLE_VALUE) for char, member in MEMBER.items()}
"""The same with a whole value that is no container and no string that may contain JSON; groups: key, string, number."""
NEXT_OBJECT: Final = re.compile(r"\}[ \t\n\r]*+,[ \t\n\r]*+\{")
"""The end of an object, and the beginning of the next one of an array."""
_COMPLETE_NUMBER: Final = re.compile(_NUMBER)
_OPEN_NUMBER: Final = re.compile(rf"{_WHOLE}(?:\.(?![0-9])|(?:\.[0-9]++)?(?:[eE][+-]?[0-9]*+)?)|-")
"""The longest beginning of a number."""
_DIGITS: Final = re.compile(r"[0-9]{2,}")


# members whose key was shown before
#
# Documents with arrays of objects repeat their keys, so these members are read at once. It is exact because what a key
# does depends on the key alone, unless it is in a pair of a name and a value, and because a clean value that is no
# container leaves nothing to the next member.

FIRST: Final = frozenset('",}')
"""First characters of what is read at once."""
_MAX_KEPT: Final = 64
"""Maximum number of keys that are remembered; arrays of objects repeat fewer."""
_KEY_MAX_CHARS: Final = 80


class KnownMembers:
    """Keys of one document that were shown whole.

    Args:
        is_clean: whether a complete string is certainly shown as it is.
        has_numbers: whether a number may be withheld.
    """

    __slots__ = ("_has_numbers", "_is_clean", "keys")

    def __init__(self, is_clean: Callable[[str], bool], *, has_numbers: bool) -> None:
        self._is_clean = is_clean
        self._has_numbers = has_numbers
        self.keys: set[str] = set()
        """Keys whose values are not sensitive."""

    def add(self, key: str) -> None:
        """Remember a key that was shown, and whose value is not sensitive."""
        if len(key) <= _KEY_MAX_CHARS and len(self.keys) < _MAX_KEPT:
            self.keys.add(key)

    def members(self, text: str, at: int) -> tuple[int, str | None] | None:
        """Return the end of the members at a position, from a comma or a first key on, whose keys are known.

        With it the last key, if its value is still to be read; None if not even the first key is known.
        """
        start = at
        while (found := SIMPLE_MEMBER[text[at]].match(text, at)) is not None:
            if not self._is_shown(*found.groups()):
                break
            at = found.end()
            if text[at] != ",":
                return at, None
        member = MEMBER[text[at]].match(text, at)
        if member is not None and member[1] in self.keys:
            return member.end(), member[1]
        return (at, None) if at > start else None

    def _is_shown(self, key: str, content: str | None, number: str | None) -> bool:
        """Return whether a member is shown, and leaves nothing to the next one."""
        if key not in self.keys or names_a_value(key):
            return False
        if content is None:
            return number is None or not self._has_numbers
        return self._is_clean(content)


# strings

OPENERS: Final = frozenset('{["')
"""First characters of a text that may be JSON."""
MAY_BE_JSON: Final = frozenset(" \t\n\r") | OPENERS
"""First characters of a string that may be JSON after blanks."""
_MAX_LEVELS: Final = 6
"""Maximum levels of JSON inside strings; deeper JSON is read as plain text."""
_CONTEXT_CHARS: Final = 512
"""Trailing characters of a document that are searched with the plain text after it, as in `"password": hunter2`."""
_KEPT_CHARS: Final = _CONTEXT_CHARS + 16  # an unfinished escape is not context


class Document(Filter, Protocol):
    """The filter of a JSON document, as `JsonStreamFilter` is. The modules import each other in one direction only."""

    failed: bool
    """Whether the text is not JSON from here on."""
    rest: str
    """The text after the syntax error."""

    @property
    def complete(self) -> bool:
        """Whether one whole value was read."""

    def mark_of_rest(self, rest: str, /) -> str | None:
        """Return the mark in place of the remaining text if reading stops there; None if it may be plain text."""


NewDocument: TypeAlias = Callable[[Search, int], Document]
"""Creates the filter of a document from the search and the number of strings around it."""


class _Mode(Enum):
    BLANK = auto()
    PLAIN = auto()
    DOCUMENT = auto()
    WITHHELD = auto()


class StringFilter:
    """The filter of a decoded string: plain text, or a document in it.

    Args:
        search: what is withheld.
        new_document: creates the filter of a document.
        level: number of strings that contain each other, this one included; beyond the limit it is plain text.
    """

    def __init__(self, search: Search, new_document: NewDocument, level: int = 0) -> None:
        self._search = search
        self._new_document = new_document
        self._level = level
        self._mode = _Mode.BLANK
        self._plain = TextFilter(search)
        self._document: Document | None = None
        self._guard = TextFilter(search.of_values(search.crossing)) if search.crossing else None
        self._guarded = ""
        self._recent = ""

    @property
    def settled(self) -> TextFilter | None:
        """Filter that can replace this one once the text is known to be plain."""
        return self._plain if self._mode is _Mode.PLAIN else None

    def left(self) -> TextFilter | None:
        """Return a filter of this text that is not ended, for what continues it; None after a whole document."""
        if self._mode in (_Mode.BLANK, _Mode.PLAIN):
            return self._plain.fork()
        if self._document is None or self._document.complete:
            return None
        plain = TextFilter(self._search)  # a document may be a piece of a text that was cut
        plain.feed((self._recent + self._guarded)[-_CONTEXT_CHARS:])
        return plain

    @property
    def ended_in(self) -> list[End]:
        """The ends of the values in which the text ended, after `end`."""
        return (self._document or self._plain).ended_in

    def quick(self, text: str, /) -> int:
        """Read a piece that needs no steps (`Filter.quick`)."""
        return self._plain.quick(text) if self._mode is _Mode.PLAIN else -1

    def feed(self, text: str, /) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""
        if self._mode is _Mode.PLAIN:
            return self._plain.feed(text)
        if self._mode is _Mode.DOCUMENT:
            return self._guarded_document(text)
        if self._mode is _Mode.WITHHELD:
            return [(len(text), "")]
        return self._begin(text)

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the text."""
        steps = self._read_rest(self._guard.end(), "") if self._guard is not None and self._document is not None else []
        return steps + (self._document or self._plain).end()

    def goes_on(self, rest: str, /) -> bool:
        """Return whether a text that follows would belong to a value that is withheld."""
        return self._mode is _Mode.WITHHELD or (self._document or self._plain).goes_on(rest)

    def _begin(self, text: str) -> list[Step]:
        start = end_of(BLANKS, text, 0)
        if start == len(text):
            return self._plain.feed(text)
        if text[start] not in OPENERS or self._level > _MAX_LEVELS:
            self._mode = _Mode.PLAIN
            return self._plain.feed(text)
        self._mode = _Mode.DOCUMENT
        self._document = self._new_document(self._search, self._level)
        return self._plain.feed(text[:start]) + self._plain.end() + self._guarded_document(text[start:])

    def _guarded_document(self, text: str) -> list[Step]:
        """Search for registered values that contain JSON syntax before the text is parsed as JSON."""
        return self._in_document(text) if self._guard is None else self._read_rest(self._guard.feed(text), text)

    def _read_rest(self, found: list[Step], text: str) -> list[Step]:
        text = self._guarded + text
        steps: list[Step] = []
        at = 0
        for count, mark in found:
            if self._document is None:
                break
            if mark is None:
                steps += self._in_document(text[at : at + count])
            else:
                steps += [*self._document.end(), (count, mark)]
                self._document, self._mode = None, _Mode.WITHHELD
            at += count
        self._guarded = text[at:] if self._document is not None else ""
        return steps if self._document is not None else steps + (self.feed(text[at:]) if at < len(text) else [])

    def _in_document(self, text: str) -> list[Step]:
        steps: list[Step] = []
        self._recent = self._recent[-_KEPT_CHARS:] + text
        while self._document is not None:
            steps += self._document.feed(text)
            if not self._document.failed:
                break
            text = self._document.rest
            if self._document.complete and text[0] in OPENERS:
                self._document = self._new_document(self._search, self._level)
                continue
            mark = self._document.mark_of_rest(text)
            self._document = None
            if mark is None:
                self._mode = _Mode.PLAIN
                self._plain = TextFilter(self._search)
                self._plain.continue_after(self._recent[: len(self._recent) - len(text)][-_CONTEXT_CHARS:])
                steps += self._plain.feed(text)
            else:
                self._mode = _Mode.WITHHELD
                steps.append((len(text), mark))
        return steps


_MAX_OPEN: Final = 2
"""Maximum number of earlier strings from which a reading goes on, for each separator; each costs one more filter."""
_PIECE_MIN_CHARS: Final = 6
_LOGIN: Final = re.compile(r"(?<![A-Za-z])(?:login|user|account)[ \t]+[^\s\"'`]{1,64}\s*\Z")
"""The end of a line after which a password needs no separator: `["  login me", "  password hunter2"]` (netrc)."""


class Piece(NamedTuple):
    """A credential that may go on in the next string."""

    run: re.Pattern[str]
    """Its characters."""
    is_certain: bool
    """Whether it is in two strings already."""

    def end(self, cursor: Cursor) -> End | None:
        """Return the end of a string that continues it; None if the string does not look like a piece of one."""
        found = cursor.run(self.run)
        looks_random = len(found) >= _PIECE_MIN_CHARS and shapes.has_secret_shape(found)
        return Tail(self.run) if (found and self.is_certain) or looks_random or "\n" in found else None

    def may_be(self, text: str) -> bool:
        """Return whether a whole string may be a piece too, and is no word."""
        is_word = text.isalpha() and (text.islower() or text.isupper() or text.istitle())
        return not is_word and self.run.fullmatch(text) is not None


class Left:
    """What a string leaves to the next one of its array; it never changes, and is compared by identity.

    Args:
        pieces: the filters of the next string as a piece of a text.
        lines: the same as its next line.
        key: a key that announces the next string as its value.
    """

    __slots__ = ("key", "lines", "pieces")

    def __init__(self, pieces: Sequence[TextFilter] = (), lines: Sequence[TextFilter] = (), key: str = "") -> None:
        self.pieces, self.lines, self.key = pieces, lines, key


_NOTHING_LEFT: Final = Left()
_PASSED_MAX: Final = 64
"""Maximum number of strings that are remembered; arrays of a document repeat fewer."""
_PASSED_CHARS: Final = 24
"""Length of the longest string that is remembered; longer ones repeat rarely."""

Passed: TypeAlias = dict[tuple[Left, str], Left]
"""What was left before a string that is shown as it is, and that string -> what it leaves."""


class Strings:
    """The strings of an array, or the entries of a log, in order.

    Args:
        search: what is withheld.
        new_document: creates the filter of a document.
        level: number of strings that contain each other.
        passed: strings of other arrays of the same document, which are searched once.
    """

    def __init__(self, search: Search, new_document: NewDocument, level: int, passed: Passed | None = None) -> None:
        self._search = search
        self._new = partial(StringFilter, search, new_document, level)
        self._left = _NOTHING_LEFT
        self._passed: Passed = {} if passed is None else passed
        self._piece: Piece | None = None

    def passes(self, text: str) -> bool:
        """Read a complete string if quick searches show that it is shown as it is; False if nothing was read."""
        left = self._left
        if left.key or self._piece or text[:1] in MAY_BE_JSON:
            return False
        if (known := self._passed.get((left, text))) is not None:
            self._left = known
            return True
        alone = TextFilter(self._search)
        pieces, lines = [*map(TextFilter.fork, left.pieces)], [*map(TextFilter.fork, left.lines)]
        if not all(each.quick(text) >= 0 and each.is_shown for each in (alone, *pieces, *lines)):
            return False
        self._follow(alone, pieces, lines, text)
        if len(text) <= _PASSED_CHARS and len(self._passed) < _PASSED_MAX:
            self._passed[left, text] = self._left
        return True

    def filter(self) -> EntryFilter:
        """Return the filter of the next string."""
        begins: list[Callable[[Cursor], End | None]] = []
        if self._left.key:
            begins.append(partial(entry_end, key=self._left.key, keys=self._search.keys))
        if self._piece is not None:
            begins.append(self._piece.end)
        others = [TextFilter(self._search) for _ in begins]
        for other, each in zip(others, begins, strict=True):
            other.begin(each)
        pieces, lines = [*map(TextFilter.fork, self._left.pieces)], [*map(TextFilter.fork, self._left.lines)]
        return EntryFilter(self._new(), pieces, lines, others)

    def leave(self, string: EntryFilter) -> None:
        """Keep what a string leaves to the next one."""
        text = string.text.text
        self._follow(string.alone, string.pieces, string.lines, text)
        run = next((end.run for end in string.ended_in if end.run is not None and not end.is_certain), None)
        if run is not None:
            self._piece = Piece(run, is_certain=string.is_piece)
        elif self._piece is not None and not self._piece.may_be(text):
            self._piece = None

    def _follow(self, alone: TextFilter | None, pieces: list[TextFilter], lines: list[TextFilter], text: str) -> None:
        """Keep what the filters of a string, before they are ended, leave to the next one."""
        for each in filter(None, (alone, *pieces, *lines)):
            each.decide()
        after = self._following(alone, pieces, "", text), self._following(alone, lines, "\n", text)
        key = text if announces(text, self._search.keys) else ""
        self._left = Left(*after, key) if key or any(after) else _NOTHING_LEFT

    def _following(
        self, alone: TextFilter | None, others: list[TextFilter], separator: str, text: str
    ) -> list[TextFilter]:
        """Return the filters of the next string after a separator, of the texts that may go on in it."""
        found = [other for other in others if other.reaches_back(len(text))]
        if alone is not None and (
            alone.is_open or (len(text) <= shapes.ANNOUNCE_CHARS and _LOGIN.search(text) is not None)
        ):
            found.append(alone)
        after = [each.following(separator, is_string=True) for each in found if _may_follow(each, separator)]
        if not separator and len(after) < len(found) and self._search.values:
            # a value that ends with the string may contain the beginning of a registered one
            registered = TextFilter(self._search.of_values(self._search.values))
            registered.feed(text)
            if registered.is_open:
                after.append(registered.following(is_string=True))
        return [each for each in after if each.is_open or not separator or _LOGIN.search(text) is not None][:_MAX_OPEN]


def _may_follow(text: TextFilter, separator: str) -> bool:
    """Return whether what is read at the end of a text goes on in the next string."""
    return all(end.is_certain or end.has_lines or (bool(separator) and not end.ends_with_string) for end in text.ends)


class EntryFilter(Union):
    """The filter of a string of a list: alone, as the continuation of the strings before it, as the value of a key."""

    def __init__(
        self,
        alone: StringFilter,
        pieces: list[TextFilter],
        lines: list[TextFilter],
        others: Sequence[TextFilter] = (),
    ) -> None:
        super().__init__([alone, *others, *pieces, *lines])
        self._alone = alone
        self.alone: TextFilter | None = None
        """The filter of the string alone before it was ended, after `end`."""
        self.pieces, self.lines = pieces, lines
        """The filters of continuations before they were ended, after `end`."""
        self.text: Gathered[str] = Gathered()
        """What was read."""
        self._continued: Sequence[TextFilter] = (*pieces, *others)

    @property
    def is_piece(self) -> bool:
        """Whether the string ended in a value that another string begins, after `end`."""
        return any(each.ended_in for each in self._continued)

    @property
    def ended_in(self) -> list[End]:
        """The ends of the values in which the string ended, after `end`: first of those that another one begins."""
        return [*(end for each in self._continued for end in each.ended_in), *self._alone.ended_in]

    def quick(self, text: str, /) -> int:
        """Read a piece that needs no steps (`Filter.quick`)."""
        count = super().quick(text)
        if count >= 0:
            self.text.add(text)
        return count

    def feed(self, text: str, /) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""
        self.text.add(text)
        return super().feed(text)

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the string."""
        self.alone = self._alone.left()
        self.pieces, self.lines = [each.fork() for each in self.pieces], [each.fork() for each in self.lines]
        return super().end()


class NumberFilter:
    """Filter of one number in a JSON document; a registered number, and one of a class, is withheld."""

    def __init__(self, search: Search, first: str = "") -> None:
        self._search = search
        self._values: Values = search.values
        self._read = first  # the number so far, with two digits in place of more, so that it is short
        self._held: str | None = "" if self.is_costly else None

    @property
    def is_costly(self) -> bool:
        """Whether numbers are searched at all."""
        return self._values.has_numbers or bool(self._search.rows)

    @property
    def complete(self) -> bool:
        """Whether the number may end here."""
        return _COMPLETE_NUMBER.fullmatch(self._read) is not None

    def read(self, text: str, at: int) -> int:
        """Return the position of the first character from `at` on that does not continue the number."""
        whole = self._read + text[at:]
        end = end_of(_OPEN_NUMBER, whole, 0)
        self._read, before = whole[:end], len(self._read)
        if end == len(whole):
            self._read = _DIGITS.sub("10", self._read)
        return at + end - before

    def feed(self, text: str) -> list[Step]:
        """Add characters of the number and return the steps that no later text can change."""
        if self._held is None:
            return [(len(text), None)]
        self._held += text
        if self._search.rows or self._values.may_be_number(self._held):
            return []
        held, self._held = self._held, None
        return [(len(held), None)]

    def end(self, *, at_end: bool) -> list[Step]:
        """Return the steps over the held characters at the end of the number or text."""
        if not self._held:
            return []
        held, self._held = self._held, None
        mark = self._values.mark_of_number(held, at_end=at_end)
        if mark is None and self._search.rows:
            whole = TextFilter(self._search)
            mark = next((mark for _, mark in whole.feed(held) + whole.end() if mark is not None), None)
        return [(len(held), None if mark is None else type(mark)(f'"{mark}"'))]


def clean_plain(search: Search, text: str) -> str:
    """Return a whole plain text, cleaned."""
    plain = TextFilter(search)
    return StepWriter().write(plain.feed(text) + plain.end(), text)
