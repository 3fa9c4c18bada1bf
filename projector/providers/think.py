"""Reasoning that a model writes between tags in its text, found while the text arrives (CONTRACT D33, D46, D51).

The splitter returns an ordered list of operations. It holds back only what may still become a tag, and changes no
character: text and reasoning together are the input without the tags that it acted on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, StringConstraints

ThinkMode: TypeAlias = Literal["anywhere", "start", "assume_open", "off"]
"""Where a block may begin: anywhere, before the first visible character of the message, immediately (the prompt's
template has opened it; after that anywhere), or nowhere."""

Tags: TypeAlias = tuple[str, str]

NonEmpty = Annotated[str, StringConstraints(min_length=1)]


class ThinkProfile(BaseModel):
    """Differences of one upstream of which the models may write their reasoning into the text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    think_mode: ThinkMode = "anywhere"
    """Where reasoning between tags may begin in the text: see `projector.providers.think`."""

    think_tags: tuple[tuple[NonEmpty, NonEmpty], ...] = ()
    """Pairs of an opening and a closing tag that are read besides the built-in ones."""


BUILT_IN: Final[tuple[Tags, ...]] = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),  # of gpt-oss, where the server does not read its channels
    ("<|channel>thought", "<channel|>"),  # of Gemma
)
"""Tags that are read besides those of the profile; in upper or lower case."""
MARKS: Final = ("<|start|>assistant", "<|channel|>final<|message|>")
"""What gpt-oss writes before its answer, which is neither text nor reasoning."""

LONE_TAG: Final = "closing tag without its opening one"
"""Name in the counts."""

_PLAIN_TAG: Final = re.compile(r"<(/?)(\w+)>")
_TAG_BLANKS: Final = r"[ \t\r\n]{0,4}"
"""Blanks that models write at the ends of a tag: `<think >`."""
_TAG_BLANKS_MAX: Final = 3 * 4
_QUOTE: Final = "`"
"""A tag right after it is quoted: the text is about tags."""


class Operation(NamedTuple):
    """Text of the answer, text of the reasoning, the end of a block, or a closing tag that was dropped."""

    kind: Literal["text", "reasoning", "close", "drop"]
    text: str = ""


CLOSE: Final = Operation("close")
DROP: Final = Operation("drop")


class ThinkSplitter:
    """Splits one message.

    Once neighbours of one kind are joined, the operations do not depend on how it was cut, with one exception: a
    closing tag without its opening one makes the text before it reasoning if no earlier piece has shown any (D51).
    """

    def __init__(self, mode: ThinkMode = "anywhere", tags: tuple[Tags, ...] = ()) -> None:
        self._open, self._closing, self._close = _tables(tuple(map(tuple, tags)), has_lone=mode != "start")
        """The closing tag is that of the open block; before any, those of all blocks."""
        self._is_anywhere = mode in {"anywhere", "assume_open"}
        self._is_inside = mode == "assume_open"
        self._held = ""
        self.before = ""
        """The text before the next piece."""
        self.has_shown = False
        """Whether visible text was returned."""
        self.is_plain = mode == "off"
        """Whether all that follows is text; then there is no need to push it."""

    @property
    def stops(self) -> str:
        """The characters that tags begin with; a text without them passes."""
        return self._open.starts if self._is_anywhere else ""

    @property
    def held_chars(self) -> int:
        """Characters outside a block that wait, because they may begin a tag."""
        return 0 if self._is_inside else len(self._held)

    @property
    def is_outside(self) -> bool:
        """Whether a text without `stops` passes now."""
        return self.is_plain or (self._is_anywhere and not self._is_inside and not self._held)

    def passes(self, text: str) -> bool:
        """Check whether a piece is nothing but text, and record it if so."""
        if self.is_plain:
            return True
        if not self._is_anywhere or self._is_inside or self._held or not self._open.is_clear(text):
            return False
        self.before = text
        self.has_shown = self.has_shown or not text.isspace()
        return True

    def pass_over(self, texts: Sequence[str]) -> None:
        """Record pieces that pass, at least one."""
        self.before = texts[-1]
        self.has_shown = self.has_shown or not all(map(str.isspace, texts))

    def skips(self, text: str) -> bool:
        """Check whether a complete message is nothing but text."""
        if self.is_plain or self._is_inside or self._held:
            return self.is_plain
        if self._is_anywhere:
            return self._open.is_clear(text)
        first = text.lstrip()[:1]
        return bool(first) and self._open.is_clear(first)

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
            start = (self._inside if self._is_inside else self._outside)(text, start, operations)
        if text:
            self.before = text[: len(text) - len(self._held)] or self.before
        self.has_shown = self.has_shown or any(kind == "text" and not said.isspace() for kind, said in operations)
        return operations

    def release(self) -> list[Operation]:
        """Return what was held back, because another text follows: it becomes no tag."""
        held, self._held = self._held, ""
        if not held:
            return []
        self.before = held
        if self._is_inside:
            return [Operation("reasoning", held)]
        self.has_shown = True
        self.is_plain = self.is_plain or not self._is_anywhere
        return [Operation("text", held)]

    def close(self) -> list[Operation]:
        """Return what was held back. A block that is still open ends with the message."""
        operations = self.release()
        if self._is_inside:
            self._is_inside = False
            operations.append(CLOSE)
        return operations

    def _inside(self, text: str, start: int, operations: list[Operation]) -> int:
        """Read up to the closing tag; return where to continue."""
        end, after = self._close.find(text, start)
        if end > start:
            operations.append(Operation("reasoning", text[start:end]))
        if after == end:  # no tag, or the beginning of one
            self._held = text[end:]
            return len(text)
        self._is_inside = False
        operations.append(CLOSE)
        return after

    def _outside(self, text: str, start: int, operations: list[Operation]) -> int:
        """Read up to the next tag that is not quoted; return where to continue."""
        end, after = self._open.find(text, start)
        if not self._is_anywhere and text[start:end].strip():
            self.is_plain = True
            return start
        if after > end and (text[end - 1] if end else self.before[-1:]) == _QUOTE:
            operations.append(Operation("text", text[start:after]))
            return after
        if end > start:
            operations.append(Operation("text", text[start:end]))
        if after == end:
            self._held = text[end:]
            return len(text)
        self._begin(text[end:after], operations)
        return after

    def _begin(self, tag: str, operations: list[Operation]) -> None:
        """Act on a tag outside of a block: an opening tag, a mark, or a closing tag without its opening one."""
        name = _normal(tag)
        closing = self._closing.get(name)
        if closing is not None:
            self._is_inside, self._close = True, closing
        elif name not in MARKS and self.has_shown:
            operations.append(DROP)
        elif name not in MARKS:
            operations[:] = [one._replace(kind="reasoning") if one.kind == "text" else one for one in operations]
            operations.append(CLOSE)


def _normal(tag: str) -> str:
    return "".join(tag.split()).lower()


@lru_cache(maxsize=64)
def _tables(tags: tuple[Tags, ...], *, has_lone: bool) -> tuple[_Tags, Mapping[str, _Tags], _Tags]:
    """Return the tags outside of blocks, the closing tag of each opening one, and all closing tags.

    Args:
        tags: those of the profile.
        has_lone: whether closing tags count outside of blocks.
    """
    pairs = (*BUILT_IN, *tags)
    closing = {_normal(opening): _Tags((closing,)) for opening, closing in pairs}
    ends = [end for _, end in pairs]
    return _Tags((*(opening for opening, _ in pairs), *MARKS, *(ends if has_lone else ()))), closing, _Tags(ends)


def _expression(tag: str) -> str:
    plain = _PLAIN_TAG.fullmatch(tag)
    if plain is None:
        return re.escape(tag)
    slash, word = plain.groups()
    return _TAG_BLANKS.join(["<", *slash, re.escape(word), ">"])


class _Tags:
    """Some tags, in upper or lower case, and the texts that may still become one."""

    def __init__(self, tags: Iterable[str]) -> None:
        texts = [tag.lower() for tag in tags]
        self._pattern = re.compile("|".join(map(_expression, texts)), re.IGNORECASE | re.ASCII)
        self.starts = "".join(sorted({start for text in texts for start in (text[0], text[0].upper())}))
        self._prefixes = frozenset(text[:size] for text in map(_normal, texts) for size in range(len(text)))
        self._most = max(map(len, texts)) - 1 + _TAG_BLANKS_MAX

    def is_clear(self, text: str) -> bool:
        """Check whether no tag begins in a text."""
        if len(self.starts) == 1:
            return self.starts not in text
        return not any(start in text for start in self.starts)

    def is_prefix(self, text: str, start: int) -> bool:
        """Check whether the rest of a text may still become a tag."""
        if len(text) - start > self._most:
            return False
        return start == len(text) or (text[start] in self.starts and _normal(text[start:]) in self._prefixes)

    def find(self, text: str, start: int) -> tuple[int, int]:
        """Return start and end of the first tag; without one, twice the start of its longest prefix, or of nothing."""
        if not any(text.find(first, start) >= 0 for first in self.starts):
            return len(text), len(text)
        if (found := self._pattern.search(text, start)) is not None:
            return found.span()
        candidates = range(max(start, len(text) - self._most), len(text) + 1)
        at = next(at for at in candidates if self.is_prefix(text, at))
        return at, at
