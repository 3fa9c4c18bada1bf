"""Reasoning that a model writes between tags in its text, found while the text arrives (CONTRACT D33).

The splitter returns an ordered list of operations. It holds back only what may still become a tag, and changes no
character: text and reasoning together are the input without the tags that it acted on.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

ThinkMode: TypeAlias = Literal["start", "anywhere", "assume_open", "off"]
"""Where a block may begin: before the first visible character of the message, anywhere, immediately (the prompt's
template has opened it; after that as `start`), or nowhere."""

_BLANKS: Final = re.compile(r"\s*")


class Operation(NamedTuple):
    """Text of the answer, text of the reasoning, or the end of a block, which has no text."""

    kind: Literal["text", "reasoning", "close"]
    text: str = ""


CLOSE: Final = Operation("close")


class ThinkSplitter:
    """Splits one message. Once neighbours of one kind are joined, the operations do not depend on how it was cut."""

    def __init__(self, mode: ThinkMode = "start", tags: tuple[str, str] = ("<think>", "</think>")) -> None:
        self._open, self._close = _Tag(tags[0]), _Tag(tags[1])
        self._is_anywhere = mode == "anywhere"
        self._is_inside = mode == "assume_open"
        self._held = ""
        self.is_plain = mode == "off"
        """Whether all that follows is text; then there is no need to push it."""

    def push(self, text: str) -> list[Operation]:
        """Add text, and return the operations that it completes."""
        text = self._held + text
        self._held = ""
        operations: list[Operation] = []
        start = 0
        while start < len(text):
            if self.is_plain:
                operations.append(Operation("text", text[start:]))
                break
            if self._is_inside or self._is_anywhere:
                start = self._up_to_tag(text, start, operations)
            else:
                start = self._before_text(text, start, operations)
        return operations

    def close(self) -> list[Operation]:
        """Return what was held back. A block that is still open ends with the message."""
        held, self._held = self._held, ""
        operations = [Operation("reasoning" if self._is_inside else "text", held)] if held else []
        if self._is_inside:
            self._is_inside = False
            operations.append(CLOSE)
        return operations

    def _up_to_tag(self, text: str, start: int, operations: list[Operation]) -> int:
        """Read up to the closing tag inside a block, else to the next opening tag; return where to continue."""
        is_inside = self._is_inside
        end, after = (self._close if is_inside else self._open).find(text, start)
        if end > start:
            operations.append(Operation("reasoning" if is_inside else "text", text[start:end]))
        if after == end:  # no tag, or the beginning of one
            self._held = text[end:]
            return len(text)
        if is_inside:
            operations.append(CLOSE)
        self._is_inside = not is_inside
        return after

    def _before_text(self, text: str, start: int, operations: list[Operation]) -> int:
        """Read blanks, then a tag, the beginning of one, or text up to the end of the message."""
        end = _BLANKS.match(text, start).end()  # type: ignore[union-attr]  # no blank at all is a match too
        if end > start:
            operations.append(Operation("text", text[start:end]))
        if text.startswith(self._open.text, end):
            self._is_inside = True
            return end + len(self._open.text)
        if self._open.text.startswith(text[end : end + len(self._open.text)]):
            self._held = text[end:]
            return len(text)
        self.is_plain = True
        return end


class _Tag:
    """A tag, and the texts that may still become it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._prefixes = tuple(text[:size] for size in range(1, len(text)))

    def find(self, text: str, start: int) -> tuple[int, int]:
        """Return start and end of the tag; without one, twice the start of its longest prefix, or of nothing."""
        at = text.find(self.text, start)
        if at >= 0:
            return at, at + len(self.text)
        if not text.endswith(self._prefixes, start):
            return len(text), len(text)
        candidates = range(max(start, len(text) - len(self._prefixes)), len(text))
        at = next(at for at in candidates if self.text.startswith(text[at:]))
        return at, at
