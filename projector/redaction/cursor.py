"""A position in a text that may continue.

A decision is written as if the whole text were there. Where it would look at a character that has not arrived, the
cursor raises `More`, and the decision is made again with more text. So a decision depends on the characters that it
looked at and on nothing else, and is the same however the text was cut.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


class More(Exception):  # noqa: N818  # a question, not an error
    """The decision needs more text."""


class Cursor:
    """A position in a text; `is_whole` if no more text follows."""

    __slots__ = ("at", "is_whole", "text")

    def __init__(self, text: str, *, is_whole: bool) -> None:
        self.text = text
        self.at = 0
        self.is_whole = is_whole

    def peek(self) -> str:
        """Return the next character; an empty string at the end of a whole text."""
        if self.at < len(self.text):
            return self.text[self.at]
        if self.is_whole:
            return ""
        raise More

    def run(self, expression: re.Pattern[str]) -> str:
        """Return the characters that an expression matches, and move behind them.

        The expression must be one class with a count that cannot fail: what it matches only grows with the text.
        """
        match = expression.match(self.text, self.at)
        end = match.end() if match else self.at
        if end == len(self.text) and not self.is_whole:
            raise More
        found = self.text[self.at : end]
        self.at = end
        return found

    def sequence(self, pieces: Sequence[tuple[re.Pattern[str], int, int]]) -> bool:
        """Move behind a sequence of pieces, each a class with its least and most count; stay if it does not match."""
        start = self.at
        for expression, least, most in pieces:
            match = expression.match(self.text, self.at)
            count = match.end() - self.at if match else 0
            if count < most and self.at + count == len(self.text) and not self.is_whole:
                raise More
            if count < least:
                self.at = start
                return False
            self.at += count
        return True
