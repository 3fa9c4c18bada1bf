"""Reasoning that a model writes between tags in its text, found while the text arrives (CONTRACT D33).

The splitter returns an ordered list of operations. It holds back only what may still become a tag, and changes no
character: text and reasoning together are the input without the tags that it acted on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

ThinkMode: TypeAlias = Literal["start", "anywhere", "assume_open", "off"]
"""Where a block may begin: before the first visible character of the message, anywhere, immediately (the prompt's
template has opened it; after that as `start`), or nowhere."""

Tags: TypeAlias = tuple[str, str]

THINK: Final[Tags] = ("<think>", "</think>")
SPELLINGS: Final[tuple[Tags, ...]] = (
    THINK,
    ("<thinking>", "</thinking>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),  # of gpt-oss, where the server does not read its channels
)
"""Tags that are read as `THINK`, unless a profile sets its own; in upper or lower case (CONTRACT D46)."""
MARKS: Final = ("<|start|>assistant", "<|channel|>final<|message|>")
"""What gpt-oss writes before its answer; read together with `SPELLINGS`, and neither text nor reasoning."""

_BLANKS: Final = re.compile(r"\s*")


class Operation(NamedTuple):
    """Text of the answer, text of the reasoning, or the end of a block, which has no text."""

    kind: Literal["text", "reasoning", "close"]
    text: str = ""


CLOSE: Final = Operation("close")


class ThinkSplitter:
    """Splits one message. Once neighbours of one kind are joined, the operations do not depend on how it was cut."""

    __slots__ = ("_close", "_closing", "_held", "_is_anywhere", "_is_inside", "_open", "is_plain")

    def __init__(self, mode: ThinkMode = "start", tags: Tags = THINK) -> None:
        self._open, self._closing, self._close = _tables(tuple(tags))
        """The closing tag is that of the open block; before any, those of all blocks."""
        self._is_anywhere = mode == "anywhere"
        self._is_inside = mode == "assume_open"
        self._held = ""
        self.is_plain = mode == "off"
        """Whether all that follows is text; then there is no need to push it."""

    def skips(self, text: str) -> bool:
        """Check whether a complete message begins with text that no tag can follow, so that all of it is the answer."""
        if self._is_anywhere or self._is_inside or self._held:
            return self.is_plain
        return self.is_plain or not self._open.may_begin(text, _BLANKS.match(text).end())  # type: ignore[union-attr]

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
            self._is_inside = False
            operations.append(CLOSE)
        else:
            self._begin(text[end:after])
        return after

    def _before_text(self, text: str, start: int, operations: list[Operation]) -> int:
        """Read blanks, then a tag, the beginning of one, or text up to the end of the message."""
        end = _BLANKS.match(text, start).end()  # type: ignore[union-attr]  # no blank at all is a match too
        if end > start:
            operations.append(Operation("text", text[start:end]))
        after = self._open.end_at(text, end)
        if after > end:
            self._begin(text[end:after])
            return after
        if self._open.is_prefix(text, end):
            self._held = text[end:]
            return len(text)
        self.is_plain = True
        return end

    def _begin(self, opening: str) -> None:
        """Begin the block of an opening tag; a mark begins none."""
        closing = self._closing.get(opening.lower())
        if closing is not None:
            self._is_inside, self._close = True, closing


@lru_cache(maxsize=64)
def _tables(tags: Tags) -> tuple[_Tags, Mapping[str, _Tags], _Tags]:
    """Return the opening tags, the closing tag of each of them, and all closing tags: the same for every text."""
    pairs, marks = (SPELLINGS, MARKS) if tags == THINK else ((tags,), ())
    closing = {opening.lower(): _Tags((closing,)) for opening, closing in pairs}
    return _Tags((*(opening for opening, _ in pairs), *marks)), closing, _Tags(closing for _, closing in pairs)


class _Tags:
    """Some tags, in upper or lower case, and the texts that may still become one."""

    def __init__(self, tags: Iterable[str]) -> None:
        texts = [tag.lower() for tag in tags]
        self._pattern = re.compile("|".join(map(re.escape, texts)), re.IGNORECASE | re.ASCII)
        self._starts = tuple({start for text in texts for start in (text[0], text[0].upper())})
        self._prefixes = frozenset(text[:size] for text in texts for size in range(len(text)))
        self._most = max(map(len, texts)) - 1

    def may_begin(self, text: str, start: int) -> bool:
        """Check whether a tag, or the beginning of one, may be at a place; that is so at the end of the text."""
        return text.startswith(self._starts, start) or start == len(text)

    def end_at(self, text: str, start: int) -> int:
        """Return the end of the tag at a place; the place itself if there is none."""
        found = self._pattern.match(text, start)
        return start if found is None else found.end()

    def is_prefix(self, text: str, start: int) -> bool:
        """Check whether the rest of a text may still become a tag."""
        return len(text) - start <= self._most and text[start:].lower() in self._prefixes

    def find(self, text: str, start: int) -> tuple[int, int]:
        """Return start and end of the first tag; without one, twice the start of its longest prefix, or of nothing."""
        if not any(text.find(first, start) >= 0 for first in self._starts):
            return len(text), len(text)
        if (found := self._pattern.search(text, start)) is not None:
            return found.span()
        candidates = range(max(start, len(text) - self._most), len(text) + 1)
        at = next(at for at in candidates if self.is_prefix(text, at))
        return at, at
