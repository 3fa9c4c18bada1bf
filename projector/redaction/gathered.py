"""Text that grows by many small pieces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Generic, TypeVar, cast

PIECES_MAX: Final = 512
"""Number of pieces that are collected before they are joined; a few hundred take little memory and make joins rare."""

Text = TypeVar("Text", bound=str)


class Gathered(Generic[Text]):
    """Text that is built piece by piece, in little more memory than the text itself.

    A list of small strings takes ten times the memory of their text, so a few hundred at a time are joined.
    """

    __slots__ = ("_joined", "_pieces")

    def __init__(self) -> None:
        self._joined: list[str] = []
        self._pieces: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._joined or self._pieces)

    def add(self, piece: Text) -> None:
        """Append a piece."""
        pieces = self._pieces
        pieces.append(piece)
        if len(pieces) >= PIECES_MAX:
            self._joined.append("".join(pieces))
            pieces.clear()

    def extend(self, pieces: Iterable[Text]) -> None:
        """Append several pieces."""
        self._pieces.extend(pieces)
        if len(self._pieces) >= PIECES_MAX:
            self._joined.append("".join(self._pieces))
            self._pieces.clear()

    @property
    def text(self) -> Text:
        """The whole text, clean because its pieces are."""
        whole = "".join((*self._joined, *self._pieces))
        self._joined, self._pieces = [whole] if whole else [], []
        return cast("Text", whole)
