"""Combine and split clean values. The results contain nothing else, so they are clean as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Generic, TypeAlias, TypeVar, cast

from projector.redaction.clean import TRUNCATED_HERE, Cleaned, CleanJson, CleanText, bounded, cut_text

EMPTY: Final = CleanText("")
NOTHING: Final[Cleaned[CleanText]] = Cleaned(EMPTY)

PIECES_MAX: Final = 512
"""Number of pieces that are collected before they are joined; a few hundred take little memory and make joins rare."""

Text = TypeVar("Text", bound=str)
Part: TypeAlias = Cleaned[CleanText] | Cleaned[CleanJson]


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

    @property
    def text(self) -> Text:
        """The whole text, clean because its pieces are."""
        whole = "".join((*self._joined, *self._pieces))
        self._joined, self._pieces = [whole] if whole else [], []
        return cast("Text", whole)


def own_words(text: str) -> CleanText:
    """Return a constant of this project as clean text: for codes and messages of `projector.core.faults` only."""
    return CleanText(text)


def joined(*parts: Cleaned[CleanText]) -> Cleaned[CleanText]:
    """Join neighbours into one value."""
    return _between("", parts)


def paragraphs(parts: Iterable[Cleaned[CleanText]]) -> Cleaned[CleanText]:
    """Join the parts into one text with a blank line between them."""
    return _between("\n\n", list(parts))


def _between(separator: str, parts: Sequence[Cleaned[CleanText]]) -> Cleaned[CleanText]:
    text = separator.join([part.value for part in parts])
    return Cleaned(CleanText(text), bounded(notice for part in parts for notice in part.notices))


def split(text: CleanText, max_chars: int) -> list[CleanText]:
    """Split the text into pieces of at most `max_chars` code points."""
    return [CleanText(text[start : start + max_chars]) for start in range(0, len(text), max_chars)]


def cut(text: Cleaned[CleanText], max_chars: int) -> Cleaned[CleanText]:
    """Truncate to `max_chars` code points, without a partial mark at the end; add a notice if the text was longer."""
    if len(text.value) <= max_chars:
        return text
    return Cleaned(CleanText(cut_text(text.value, max_chars)), bounded(text.notices + TRUNCATED_HERE))


def listed(parts: Sequence[Part], max_entries: int) -> Cleaned[CleanJson]:
    """Return a list of the values; if it is too long it is truncated, with a notice."""
    notices = [n._replace(path=f"[{at}]{n.path}") for at, part in enumerate(parts[:max_entries]) for n in part.notices]
    if len(parts) > max_entries:
        notices.extend(TRUNCATED_HERE)
    return Cleaned(CleanJson([part.value for part in parts[:max_entries]]), bounded(notices))


def record(parts: Mapping[str, Part | None]) -> Cleaned[CleanJson]:
    """Return an object of the values that are not None. Its keys must be constants of this project."""
    present = {name: part for name, part in parts.items() if part is not None}
    notices = (n._replace(path=f".{name}{n.path}") for name, part in present.items() for n in part.notices)
    return Cleaned(CleanJson({name: part.value for name, part in present.items()}), bounded(notices))


def plain(value: float | bool | None) -> Cleaned[CleanJson]:  # noqa: FBT001 - the value, not a switch
    """Return a number, a boolean or null as clean: none can hold a secret outside a sensitive key."""
    return Cleaned(CleanJson(value))
