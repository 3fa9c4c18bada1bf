r"""Where a withheld value ends, and how a decision about a value asks for more text.

Each end reads its value piece by piece; what it has read is dropped:

    Quoted       to the closing quote that is escaped as the opening one was, or the end of the line; joined strings
    Fenced       to a text that closes the value: triple quotes, `]]>`, `</`, the last line of a heredoc
    Lines        to a blank line
    Balanced     to the bracket that closes the first one; brackets in strings and comments do not count
    Word         to a blank, or punctuation with a blank after it
    IN_LINE      to the end of the line
    Header       to the quote that closes a header in quotes, past the quoted parts of its value
    Block        to the first line that is not indented as deeply as the first one (YAML)
    PrivateKey   to the end line of a PEM block
    Tail         while characters are of a class
    Wrapped      while characters and lines are of base64
    Rest         to the end of the text
    Value        to the end of another one, and of a private key that begins in it

A decision about a value is written as if the whole text were there. Where it would look at a character that has not
arrived, its `Cursor` raises `More`, and the decision is made again with more text. So it depends on the characters that
it looked at and on nothing else, however the text is cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Self


class State:
    """The state of the reading of a text. Its parts are of this class too, or values that do not change."""

    def fork(self) -> Self:
        """Return a copy, which is cheaper than that of `copy`: each string of an array needs several."""
        kind: type = self.__class__
        twin: Self = object.__new__(kind)
        parts = twin.__dict__
        parts.update(self.__dict__)
        for name, part in self.__dict__.items():
            if type(part) not in _UNCHANGING:
                parts[name] = _forked(part)
        return twin


_UNCHANGING: Final = frozenset({str, int, bool, type(None), frozenset})
"""Types of most parts, which need no copy."""


def _forked(part: object) -> object:
    if isinstance(part, State):
        return part.fork()
    return [*map(_forked, part)] if type(part) is list else part


class More(Exception):  # noqa: N818  # a question, not an error
    """The decision needs more text."""


class Cursor:
    """A position in a text; `is_whole` if no more text follows."""

    __slots__ = ("at", "is_whole", "text")

    def __init__(self, text: str, *, is_whole: bool, at: int = 0) -> None:
        self.text = text
        self.at = at
        self.is_whole = is_whole

    def peek(self) -> str:
        """Return the next character; an empty string at the end of a whole text."""
        if self.at < len(self.text):
            return self.text[self.at]
        if self.is_whole:
            return ""
        raise More

    def run(self, expression: re.Pattern[str]) -> str:
        """Return the characters that an expression matches, and move after them.

        The expression must be one class with a count that cannot fail: what it matches only grows with the text.
        """
        start, self.at = self.at, end_of(expression, self.text, self.at)
        if self.at == len(self.text) and not self.is_whole:
            raise More
        return self.text[start : self.at]

    def sequence(self, pieces: Sequence[tuple[re.Pattern[str], int, int]]) -> bool:
        """Move after a sequence of pieces, each a class with its least and most count; stay if it does not match."""
        start = self.at
        for expression, least, most in pieces:
            count = end_of(expression, self.text, self.at) - self.at
            if count < most and self.at + count == len(self.text) and not self.is_whole:
                raise More
            if count < least:
                self.at = start
                return False
            self.at += count
        return True


def end_of(expression: re.Pattern[str], text: str, at: int) -> int:
    """Return the end of what an expression matches at a position; the position if it does not match."""
    match = expression.match(text, at)
    return match.end() if match else at


class End(State):
    """The end of a value."""

    is_certain = False
    """Whether something closes the value, so that it goes on in the next string of a list until that comes."""
    ends_with_string = False
    """Whether the value ends where its string does, whatever follows."""
    has_lines = False
    """Whether the value may have further lines, so that it goes on in the next string of a list if that may be its."""
    run: re.Pattern[str] | None = None
    """The characters of the value, if nothing else ends it."""

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends after them.

        The caller feeds the other characters again, with the text that follows them.
        """
        raise NotImplementedError

    def finish(self, rest: str, /) -> int:
        """Return how many of the characters that `feed` left belong to the value if no text follows them."""
        return len(rest)

    def goes_on(self, rest: str, /) -> bool:
        """Return whether a text that follows belongs to the value."""
        return bool(rest)


SLASHES: Final = re.compile(r"\\*+")
_JOINT: Final = re.compile(
    r"\\*+[\"'`](?:\s{0,32}+(?:\Z|(?:[+.~&|]{1,2}+|-(?:>|\Z)|\\(?=\s|\Z))\s{0,32}+)|)?+(?:\\*+\Z|(?P<slashes>\\*+)(?P<quote>[\"'`]))"
)
"""The end of a string, an operator that joins strings, and the beginning of another one.

Two that `->` joins are the old and the new value in a plan of Terraform.
Without an operator they are joined in a shell, and two quotes are one character of the string in YAML and SQL.
"""


class Quoted(End):
    """A string in quotes; `escapes` is the number of backslashes before its opening quote.

    With `joins` the strings that operators join to it belong to it: `"abc" + "def"`.
    """

    is_certain = True

    def __init__(self, quote: str, escapes: int = 0, *, joins: bool = False) -> None:
        self._joins = joins
        self._begin(quote, escapes)

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends after them."""
        at = 0
        while True:
            at = end_of(self._run, text, at)
            slashes = end_of(SLASHES, text, at) - at
            if at + slashes == len(text):
                return at, False  # the character after backslashes decides about them
            char = text[at + slashes]
            if char == self._quote and self._closes(slashes):
                end = at + slashes - min(slashes, self._escapes)
                joint = _JOINT.match(text, end) if self._joins else None
                if joint is None or joint["quote"] is None:
                    return end, joint is None
                self._begin(joint["quote"], len(joint["slashes"]))
                at = joint.end()
                continue
            if char in "\n\r" and self._quote != "`" and (not slashes or self._escapes):
                return at + slashes, True
            at += slashes + 1

    def finish(self, rest: str, /) -> int:
        """Return 0 for a closing quote behind which an operator might have stood."""
        return 0 if self._joins and _JOINT.match(rest) is not None else len(rest)

    def _begin(self, quote: str, escapes: int) -> None:
        """Begin a string; one in back quotes may have several lines."""
        self._quote = quote
        self._escapes = escapes
        self._run = re.compile(rf"[^{quote}\\{'' if quote == '`' else chr(10) + chr(13)}]*+")

    def _closes(self, slashes: int) -> bool:
        """Return whether a quote after backslashes is not escaped, at the level of the opening quote."""
        return slashes < self._escapes or (slashes - self._escapes) // (self._escapes + 1) % 2 == 0


class Fenced(End):
    """A value that a fixed text closes, which is no part of it."""

    is_certain = True

    def __init__(self, closer: str) -> None:
        self._closes = re.compile(f"(?={re.escape(closer)})")
        self._open_chars = len(closer) - 1

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends after them."""
        found = self._closes.search(text)
        return (max(0, len(text) - self._open_chars), False) if found is None else (found.end(), True)


class Lines(Fenced):
    """The lines up to a blank one."""

    is_certain = False

    def __init__(self) -> None:
        self._closes, self._open_chars = re.compile(r"(?=\r?\n\r?\n)"), len("\r\n\r")


_PLAIN: Final = re.compile(r"[^\[\](){}\"'`/#]*+")


class Balanced(End):
    """A container; the text begins with its opening bracket."""

    is_certain = True

    def __init__(self) -> None:
        self._open = 0
        self._inner: End | None = None

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends after them."""
        at = 0
        while at < len(text):
            if self._inner is not None:
                count, is_end = self._inner.feed(text[at:])
                at += count
                if not is_end:
                    return at, False
                self._inner = None
                at += 1  # the closing quote, or the end of the line
                continue
            at = end_of(_PLAIN, text, at)
            char = text[at : at + 1]
            if char == "/" and at + 1 == len(text):
                return at, False
            at += len(char)
            if char in ("[", "(", "{"):
                self._open += 1
            elif char in ("]", ")", "}"):
                self._open -= 1
                if self._open <= 0:
                    return at, True
            else:
                self._inner = _inner(char, text[at : at + 1])
        return at, False


def _inner(char: str, after: str) -> End | None:
    """Return the end of the string or comment that begins with a character."""
    if char in ('"', "'", "`"):
        return Quoted(char)
    return IN_LINE if char == "#" or (char == "/" and after == "/") else None


_SOFT: Final = ",;)]}<>\"'`&"
"""Punctuation that ends a value without quotes if a blank or the end of the value follows it."""
_SOFT_MAX_CHARS: Final = 8


class Word(End):
    """A value without quotes inside a line: to a blank, or one of `closers`, the punctuation that certainly ends it.

    Of these `<` stands for a closing tag. `soft` is further punctuation that ends it before a blank.
    """

    def __init__(self, closers: str = "", soft: str = "") -> None:
        self._soft = "".join(char for char in _SOFT + soft if char not in closers or char == "<")
        soft = re.escape(self._soft)
        hard = re.escape(closers.replace("<", ""))
        tag = "(?!</)" if "<" in closers else ""
        self._word = re.compile(
            rf"(?:[^\s{soft}{hard}]++|(?:{tag}[{soft}]|){{1,{_SOFT_MAX_CHARS}}}+(?=[^\s{soft}{hard}])|)*+"
        )

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends after them."""
        at = end_of(self._word, text, 0)
        rest = text[at:]
        return at, len(rest) > _SOFT_MAX_CHARS or rest.rstrip(self._soft) != ""


LINE: Final = re.compile(r"[^\n\r]*+")


class Header(End):
    """The value of a header inside quotes: to the quote that closes it, past the quoted parts of the value."""

    def __init__(self, quote: str, escapes: int) -> None:
        self._quoted = Quoted(quote, escapes)
        self._inside = False
        self._after_equals = False

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends after them."""
        read = 0
        while True:
            count, is_end = self._quoted.feed(text[read:])
            if count:
                self._after_equals = text[read + count - 1] == "="
            read += count
            quote = text[read : read + 1]
            if not is_end or quote in ("\n", "\r"):
                return read, is_end
            if not self._inside and not self._after_equals:
                return read, True
            self._inside = not self._inside
            self._after_equals = False
            read += 1


_BLANK_LINES: Final = re.compile(r"[ \t\n\r]*+")


class Block(End):
    """Lines that are indented at least as deeply as the first one, with which the text begins.

    Those of a list (`is_list`) are its entries, which need no indent, and all indented ones.
    """

    has_lines = True

    def __init__(self, *, is_list: bool = False) -> None:
        self._is_list = is_list
        self._indent = 0
        self._in_line = False

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends after them."""
        at = 0
        while at < len(text):
            if self._in_line:
                at = end_of(LINE, text, at)
                self._in_line = at == len(text)
                continue
            start = end_of(_BLANK_LINES, text, at)
            if start == len(text) or (self._is_list and text[start:] == "-"):
                break
            indent = start - 1 - max(text.rfind("\n", 0, start), text.rfind("\r", 0, start))
            self._indent = self._indent or (0 if self._is_list else indent)
            if indent < self._indent or (not indent and not (self._is_list and text.startswith("- ", start))):
                return at, True
            at = start
            self._in_line = True
        return at, False


_END_OF_KEY: Final = re.compile(r"-{4,5}[ ]{0,2}END[A-Z0-9 ]{1,48}?KEY[A-Z ]{0,16}(?:-{5}|-{4}(?=[^-]))", re.IGNORECASE)
_END_LINE_CHARS: Final = 96
"""Maximum length of the last line of a PEM block."""


class PrivateKey(Fenced):
    """A PEM block, to its last line, which is part of it."""

    def __init__(self) -> None:
        self._closes, self._open_chars = _END_OF_KEY, _END_LINE_CHARS


class Rest(End):
    """Everything to the end of the string."""

    ends_with_string = True

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return all characters."""
        return len(text), False


class Tail(End):
    """A run of characters: those of a token, or of something else that no other string goes on with."""

    def __init__(self, run: re.Pattern[str], *, is_token: bool = True) -> None:
        self._run = run
        self.run = run if is_token else None

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends after them."""
        at = end_of(self._run, text, 0)
        return at, at < len(text)

    def goes_on(self, rest: str, /) -> bool:
        """Return whether a text begins with a character of the run."""
        return self._run.fullmatch(rest[:1]) is not None and bool(rest)


_WRAP: Final = r"(?:\\{1,4}+[rn]|[ \t\r\n>])"
_LINE_BEGINS: Final = "[A-Za-z0-9+/]{16}|[A-Za-z0-9+/]{2,15}={1,2}[^A-Za-z0-9+/=]"
_WRAPPED: Final = re.compile(rf"(?:[A-Za-z0-9+/=]++|{_WRAP}{{1,16}}+(?={_LINE_BEGINS})|)*+")
_WORD_BELOW: Final = re.compile(rf"{_WRAP}{{1,16}}+[A-Z]?[a-z]{{2,15}}")
_WRAP_OPENS: Final = re.compile(rf"{_WRAP}{{0,16}}+(?:\\{{1,4}}|[A-Za-z0-9+/]{{0,15}}={{0,2}})")


class Wrapped(Tail):
    """A key in base64, which may be wrapped into lines."""

    has_lines = True

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends after them."""
        at = end_of(_WRAPPED, text, 0)
        return at, _WRAP_OPENS.fullmatch(text, at) is None

    def finish(self, rest: str, /) -> int:
        """Return 0 for a plain word, which begins no line."""
        return 0 if _WORD_BELOW.fullmatch(rest) is not None else len(rest)


IN_LINE: Final = Tail(LINE, is_token=False)
"""The end of a value that is the rest of a line."""
BEGIN_OF_KEY: Final = re.compile(
    r"-{4,5} {0,2}BEGIN ([A-Z0-9 ]{0,48}(?:PRIVATE|STATIC) +KEY)|PuTTY-User-Key-File-", re.IGNORECASE
)


class Value(End):
    """Another end, and that of a private key that begins in the value: its further lines belong to the value too.

    `encoded` matches a text that ends in the base64 of a private key, `begun` is what of the value was read already.
    """

    def __init__(self, end: End, encoded: re.Pattern[str], begun: str = "") -> None:
        self._end = end
        self._encoded = encoded
        self.run = end.run
        self._key: End | None = None  # that of the lines of a private key; None if none begins, or if it has ended
        self._recent = ""
        self._watch(begun)

    @property
    def is_certain(self) -> bool:  # type: ignore[override]  # a value has that of its ends
        """Whether something closes the value."""
        return self._end.is_certain or isinstance(self._key, PrivateKey | Rest)

    @property
    def has_lines(self) -> bool:  # type: ignore[override]
        """Whether the value may have further lines."""
        return self._end.has_lines or self._key is not None

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends after them."""
        count, is_end = self._end.feed(text)
        self._watch(text[:count])
        if is_end and self._key is not None:
            self._end, self._key, self._recent = self._key, None, ""
            more, is_end = self._end.feed(text[count:])
            count += more
        return count, is_end

    def finish(self, rest: str, /) -> int:
        """Return how many of the characters that `feed` left belong to the value if no text follows them."""
        return self._end.finish(rest)

    def goes_on(self, rest: str, /) -> bool:
        """Return whether a text that follows belongs to the value."""
        return self._end.goes_on(rest)

    def _watch(self, text: str) -> None:
        """Look for the first and the last line of a private key in a part of the value."""
        if not text or isinstance(self._key, Rest) or isinstance(self._end, PrivateKey | Rest | Wrapped):
            return
        recent = self._recent + text
        self._recent = recent[-_END_LINE_CHARS:]
        begins = [*BEGIN_OF_KEY.finditer(recent)]
        if begins:
            self._key = PrivateKey() if begins[-1][1] else Rest()
        if _END_OF_KEY.search(recent, begins[-1].end() if begins else 0) is not None:
            self._key = None
        if not isinstance(self._key, PrivateKey | Rest):
            is_wrapped = self._encoded.search(recent) or (self._key is not None and _WRAPPED.fullmatch(text))
            self._key = Wrapped(_WRAPPED) if is_wrapped else None


class Registered(str):
    """The mark of a registered value, or of a value under a sensitive key: it is always withheld."""

    __slots__ = ()


class Reported(str):
    """The mark of a value that the policy only reports: it is shown, unless it is part of another one."""

    __slots__ = ()


class Continued(str):
    """The mark of the rest of a value that another text begins: empty, with the marks of what the value may be."""

    __slots__ = ("begun",)

    begun: tuple[str, ...]

    @classmethod
    def of(cls, marks: Iterable[str]) -> Self:
        """Return the mark of the rest of what any of some marks stands for."""
        mark = cls()
        mark.begun = tuple(dict.fromkeys(each for one in marks for each in (one.begun if type(one) is cls else (one,))))
        return mark


def is_reported(mark: str) -> bool:
    """Return whether the policy only reports what a mark stands for."""
    return isinstance(mark, Reported) or (type(mark) is Continued and all(map(is_reported, mark.begun)))


def rest_of(mark: str) -> str:
    """Return the mark of the further characters of a value: nothing stands for them, and they are of its kind."""
    return mark if type(mark) is Continued else type(mark)()


class Found(NamedTuple):
    """A value, or text that may become one if more text follows.

    The text from `start` to `shown` is shown, as that of a key before its value.
    """

    start: int
    """Where the search has to begin again as long as more text may follow."""
    shown: int
    """Where the value begins."""
    end: int
    """End of what certainly belongs to the value. If it is undecided: the length of the text that may decide."""
    mark: str | None
    """What stands for the value; None if it is undecided."""
    rest: End | None = None
    """What reads the value from `end` on; None if it is complete."""
