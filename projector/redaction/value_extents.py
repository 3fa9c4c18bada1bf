r"""Where a withheld value ends. Each extent reads its value piece by piece; what it has read is dropped.

Quoted       to the closing quote that is escaped as the opening one was, or the end of the line
Fenced       to a text that closes the value: triple quotes, `]]`, `</`, the last line of a heredoc
Balanced     to the bracket that closes the first one; brackets in strings and comments do not count
Word         to a blank, a quote, or punctuation with a blank or the end behind it
Line         to the end of the line
Header       to the quote that closes a header in quotes, past the quoted parts of its value
Block        to the first line that is not indented as deeply as the first one (YAML)
PrivateKey   to the end line of a PEM block
Tail         while characters are of a class
Rest         to the end of the text
"""

from __future__ import annotations

import re
from typing import Final, Protocol


class Extent(Protocol):
    """The end of a value."""

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends behind them.

        The caller feeds the other characters again, with the text that follows them.
        """
        ...


_CLOSER_CHARS: Final = 8


class Quoted:
    """A string in quotes; `escapes` is the number of backslashes before its opening quote.

    With `doubles`, two quotes in it are one character of it (YAML, SQL), or join two strings (Python, shell).
    """

    def __init__(self, quote: str, escapes: int = 0, *, many_lines: bool = False, doubles: bool = False) -> None:
        self._quote = quote
        self._escapes = escapes
        self._many_lines = many_lines
        self._doubles = doubles and not escapes
        self._has_begun = False
        self._run = re.compile(rf"[^{quote}\\{'' if many_lines else chr(10) + chr(13)}]*+")

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends behind them."""
        count, is_end = self._feed(text)
        self._has_begun = self._has_begun or count > 0
        return count, is_end

    def ends_with(self, rest: str) -> bool:
        """Return whether the value ends if nothing follows what `feed` left: a quote that another one might double."""
        return self._doubles and rest == self._quote

    def _feed(self, text: str) -> tuple[int, bool]:
        at = 0
        while True:
            at = _end(self._run, text, at)
            slashes = _end(_SLASHES, text, at) - at
            if at + slashes == len(text):
                return at, False  # the character behind backslashes decides about them
            char = text[at + slashes]
            if char == self._quote and self._closes(slashes):
                if self._doubles and (self._has_begun or at + slashes):
                    after = text[at + slashes + 1 : at + slashes + 2]
                    if not after:
                        return at, False
                    if after == self._quote:
                        at += slashes + 2
                        continue
                return at + slashes - min(slashes, self._escapes), True
            if char in "\n\r" and not self._many_lines and (not slashes or self._escapes):
                return at + slashes, True
            at += slashes + 1

    def _closes(self, slashes: int) -> bool:
        """Return whether a quote behind backslashes is not escaped, at the level of the opening quote."""
        return slashes < self._escapes or (slashes - self._escapes) // (self._escapes + 1) % 2 == 0


_SLASHES: Final = re.compile(r"\\*+")


def _end(expression: re.Pattern[str], text: str, at: int) -> int:
    match = expression.match(text, at)
    return match.end() if match else at


class Fenced:
    """A value that a fixed text closes."""

    def __init__(self, closer: str) -> None:
        self._closer = closer

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends behind them."""
        at = text.find(self._closer)
        return (at, True) if at >= 0 else (max(0, len(text) - len(self._closer) + 1), False)


_CLOSERS: Final = {"{": "}", "[": "]", "(": ")"}
_PLAIN: Final = re.compile(r"[^\[\](){}\"'`/#]*+")


class Balanced:
    """A container; the text begins with its opening bracket."""

    def __init__(self) -> None:
        self._open = 0
        self._inner: Extent | None = None

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends behind them."""
        at = 0
        while at < len(text):
            if self._inner is not None:
                count, is_end = self._inner.feed(text[at:])
                at += count
                if not is_end:
                    return at, False
                self._inner = None
                at += 1 if at < len(text) and text[at] not in "\n\r" else 0
                continue
            at = _end(_PLAIN, text, at)
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


def _inner(char: str, after: str) -> Extent | None:
    """Return the extent of the string or comment that begins with a character."""
    if char in ('"', "'", "`"):
        return Quoted(char)
    return Line() if char == "#" or (char == "/" and after == "/") else None


_WORD: Final = re.compile(r"(?:[^\s\"'`<>,;)\]}&]|[,;)\]}]{1,8}+(?=[^\s\"'`<>,;)\]}&]))*+")
_WORD_AND_PARAMETERS: Final = re.compile(r"(?:[^\s\"'`<>,;)\]}]|[,;)\]}]{1,8}+(?=[^\s\"'`<>,;)\]}]))*+")
_TO_BLANK: Final = re.compile(r"[^\s\"'`]*+")


class Word:
    """A value without quotes inside a line; in an address a parameter ends at `&`."""

    def __init__(self, *, is_parameter: bool = False, to_blank: bool = False) -> None:
        self._word = _TO_BLANK if to_blank else _WORD if is_parameter else _WORD_AND_PARAMETERS

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends behind them."""
        at = _end(self._word, text, 0)
        return at, len(text) - at > _CLOSER_CHARS or text[at:].rstrip(",;)]}") != ""


_LINE: Final = re.compile(r"[^\n\r]*+")


class Line:
    """The rest of a line."""

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends behind them."""
        at = _end(_LINE, text, 0)
        return at, at < len(text)


class Header:
    """The value of a header inside quotes: to the quote that closes it, past the quoted parts of the value."""

    def __init__(self, quote: str, escapes: int) -> None:
        self._quoted = Quoted(quote, escapes)
        self._inside = False
        self._after_equals = False

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends behind them."""
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


class Block:
    """Lines that are indented at least as deeply as the first one; the text begins with the first line."""

    def __init__(self) -> None:
        self._indent = 0
        self._in_line = False

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends behind them."""
        at = 0
        while at < len(text):
            if self._in_line:
                at = _end(_LINE, text, at)
                self._in_line = at == len(text)
                continue
            start = _end(_BLANK_LINES, text, at)
            if start == len(text):
                break
            indent = start - 1 - max(text.rfind("\n", 0, start), text.rfind("\r", 0, start))
            self._indent = self._indent or indent
            if not indent or indent < self._indent:
                return at, True
            at = start
            self._in_line = True
        return at, False


_BLANK_LINES: Final = re.compile(r"[ \t\n\r]*+")
_END_OF_KEY: Final = re.compile(r"-{4,5}[ ]{0,2}END[A-Z0-9 ]{1,48}?KEY[A-Z ]{0,16}(?:-{5}|-{4}(?=[^-]))", re.IGNORECASE)
_END_LINE_CHARS: Final = 96
"""Maximum length of the last line of a PEM block."""


class PrivateKey:
    """A PEM block, to its last line."""

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends behind them."""
        found = _END_OF_KEY.search(text)
        if found is not None:
            return found.end(), True
        return max(0, len(text) - _END_LINE_CHARS), False


class Rest:
    """Everything to the end of the string."""

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return all characters."""
        return len(text), False


class Tail:
    """A run of characters, such as those of a token."""

    def __init__(self, run: re.Pattern[str]) -> None:
        self._run = run

    def feed(self, text: str, /) -> tuple[int, bool]:
        """Return how many characters belong to the value for certain, and whether the value ends behind them."""
        at = _end(self._run, text, 0)
        return at, at < len(text)


class KeyFile:
    """Watches a value for the first line of a private key, whose lines belong to the value too."""

    def __init__(self) -> None:
        self.rest: Extent | None = None
        """Extent of the lines behind the value; None if no private key begins in it, or if it ends there."""
        self._recent = ""

    def read(self, text: str) -> None:
        """Read a part of the value."""
        if not text or isinstance(self.rest, Rest):
            return
        recent = self._recent + text
        self._recent = recent[-_END_LINE_CHARS:]
        begins = [*_BEGIN_OF_KEY.finditer(recent)]
        if begins:
            self.rest = PrivateKey() if begins[-1][1] else Rest()
        if _END_OF_KEY.search(recent, begins[-1].end() if begins else 0) is not None:
            self.rest = None


_BEGIN_OF_KEY: Final = re.compile(
    r"-{4,5} {0,2}BEGIN ([A-Z0-9 ]{0,48}(?:PRIVATE|STATIC) +KEY)|PuTTY-User-Key-File-", re.IGNORECASE
)
