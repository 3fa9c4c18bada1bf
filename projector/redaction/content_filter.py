"""What the filters of texts and strings have in common."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Protocol, Self

from projector.redaction.steps import Step
from projector.redaction.value_reader import ValueReader


class Carry(NamedTuple):
    """What a string leaves to the string after it in a list.

    A key, the reader of an unfinished value, the characters with which a credential may continue, or text that may
    become a secret: `text`, of which the last `open_chars` are undecided, if the next string continues it, and `lines`
    if the next string is its next line. `is_cut` if a
    value or credential is in two strings already, so that the next one certainly continues it. `others` are further
    values that may continue, as different readings see them.
    """

    key: str = ""
    reader: ValueReader | None = None
    tail: re.Pattern[str] | None = None
    text: str = ""
    open_chars: int = 0
    lines: str = ""
    is_cut: bool = False
    others: tuple[Carry, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is left; no `__bool__`, which compiled code does not call for a tuple."""
        return self == _NOTHING

    @property
    def takes_all(self) -> bool:
        """Whether the next string is withheld even if it begins like a document."""
        return self.reader is not None or (self.tail is not None and self.tail.fullmatch('{"\n') is not None)

    @property
    def is_undecided(self) -> bool:
        """Whether the next string is read in several ways."""
        return bool(self.text or self.lines or self.others)

    def in_list(self) -> Carry:
        """Return what a string leaves in a list, where a value at its end may be whole."""
        return self if self.reader is None or self.is_cut else self._replace(reader=None)


_NOTHING: Final = Carry()


class Filter(Protocol):
    """The interface of every filter."""

    def quick(self, text: str, /) -> int:
        """Read a piece that needs no steps, as nearly every piece of a growing text.

        Return how many of the held characters and `text` are shown; the rest is held. -1 if nothing was read because
        only `feed` can decide.
        """
        ...

    def feed(self, text: str, /) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""
        ...

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the text. The filter can then read a new text."""
        ...


class ContentFilter(Filter, Protocol):
    """A filter for the content of a string."""

    def mark_of_rest(self, rest: str, /) -> str | None:
        """Return the mark in place of the remaining text if the string ends before `rest`; None if it may be shown."""
        ...

    def carry(self) -> Carry:
        """Return what the string leaves to the next string of its list, after `end`."""
        ...


class Twin(ContentFilter, Protocol):
    """A filter of a plain text of which there can be two in the same state."""

    @property
    def held(self) -> int:
        """Number of characters that no step covers yet."""
        ...

    @property
    def is_reading(self) -> bool:
        """Whether the reader of a value decides about what is held."""
        ...

    is_piece: bool
    """Whether the text ends inside a secret of which the beginning was in another text."""

    def resume(self, before: str, /) -> None:
        """Continue behind text that was shown without this filter because nothing began in it."""
        ...

    def undecided_with(self, text: str, /) -> str:
        """Return the held text and another one behind it, with what stands before; empty if there is none."""
        ...

    def begin_after(self, carry: Carry, /) -> None:
        """Begin a string behind another one of its list."""
        ...

    @property
    def idle_after(self) -> str | None:
        """The text before what follows, on which its reading depends; None if more than this text decides."""
        ...

    def fork(self) -> Self:
        """Return a filter in the same state."""
        ...
