"""Find reasoning that a model writes between tags in its text, while the text arrives (CONTRACT D33).

The splitter gives an ordered list of operations. It holds back only what may still become a tag, and changes no
character: text and reasoning together are the input without the tags that it acted on.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

ThinkMode: TypeAlias = Literal["start", "anywhere", "assume_open", "off"]
"""Where a block may begin: before the first visible character of the message, anywhere, at once (the prompt's template
has opened it; then as `start`), or nowhere."""

_BLANKS: Final = re.compile(r"\s*")


class Operation(NamedTuple):
    """Text for the answer, text for the reasoning, or the end of a block, which has no text."""

    kind: Literal["text", "reasoning", "close"]
    text: str = ""


CLOSE: Final = Operation("close")


class ThinkSplitter:
    """Split one message. Every cut of it gives the same operations, once neighbours of one kind are joined."""

    def __init__(self, mode: ThinkMode = "start", tags: tuple[str, str] = ("<think>", "</think>")) -> None:
        self._open, self._close = _Tag(tags[0]), _Tag(tags[1])
        self._is_anywhere = mode == "anywhere"
        self._is_inside = mode == "assume_open"
        self._held = ""
        self.is_plain = mode == "off"
        """Whether all that follows is text; then there is no need to push it."""

    def push(self, text: str) -> list[Operation]:
        """Take some text; give what it completes."""
        text = self._held + text
        self._held = ""
        operations: list[Operation] = []
        start = 0
        while start < len(text):
            if self.is_plain:
                operations.append(Operation("text", text[start:]))
                break
            step = self._inside if self._is_inside else self._anywhere if self._is_anywhere else self._before_text
            start = step(text, start, operations)
        return operations

    def close(self) -> list[Operation]:
        """Take the end of the message; a block that is still open ends with it."""
        held, self._held = self._held, ""
        operations = [Operation("reasoning" if self._is_inside else "text", held)] if held else []
        if self._is_inside:
            self._is_inside = False
            operations.append(CLOSE)
        return operations

    def _inside(self, text: str, start: int, operations: list[Operation]) -> int:
        """Read reasoning up to its closing tag, or all there is."""
        end, after = self._close.find(text, start)
        if end > start:
            operations.append(Operation("reasoning", text[start:end]))
        return self._go_on(text, end, after, operations, is_inside=False)

    def _anywhere(self, text: str, start: int, operations: list[Operation]) -> int:
        """Read text up to an opening tag, or all there is."""
        end, after = self._open.find(text, start)
        if end > start:
            operations.append(Operation("text", text[start:end]))
        return self._go_on(text, end, after, operations, is_inside=True)

    def _before_text(self, text: str, start: int, operations: list[Operation]) -> int:
        """Read blanks, then decide: a tag, what may become one, or text from here to the end of the message."""
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

    def _go_on(self, text: str, end: int, after: int, operations: list[Operation], *, is_inside: bool) -> int:
        """Pass the tag that was found, or hold what may become one; give where to go on."""
        if after == end:
            self._held = text[end:]
            return len(text)
        if not is_inside:
            operations.append(CLOSE)
        self._is_inside = is_inside
        return after


class _Tag:
    """A tag, and the texts that may still become it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._prefixes = tuple(text[:size] for size in range(1, len(text)))

    def find(self, text: str, start: int) -> tuple[int, int]:
        """Give where the tag begins and ends; without one, twice where its longest prefix begins, or the text's end."""
        at = text.find(self.text, start)
        if at >= 0:
            return at, at + len(self.text)
        if text.endswith(self._prefixes, start):
            at = next(
                at for at in range(max(start, len(text) - len(self._prefixes)), len(text)) if self._ends(text, at)
            )
            return at, at
        return len(text), len(text)

    def _ends(self, text: str, at: int) -> bool:
        return self.text.startswith(text[at:])
