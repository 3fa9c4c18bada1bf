"""Combining and splitting clean values: what is made of clean values only is clean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Generic, TypeAlias, TypeVar, cast

from projector.redaction.clean import TRUNCATED_HERE, Cleaned, CleanJson, CleanText, bounded, cut_text

EMPTY: Final = CleanText("")
NOTHING: Final[Cleaned[CleanText]] = Cleaned(EMPTY)

PIECES_MAX: Final = 512
"""How many pieces wait to be joined: few enough to weigh nothing, enough to make a join rare."""

Text = TypeVar("Text", bound=str)
Part: TypeAlias = Cleaned[CleanText] | Cleaned[CleanJson]


class Gathered(Generic[Text]):
    """Text that is gathered piece by piece, in little more memory than the text itself.

    A list of small strings takes ten times the memory of their text; so they are joined, some hundreds at a time.
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
        """The whole text; as clean as its pieces."""
        whole = "".join((*self._joined, *self._pieces))
        self._joined, self._pieces = [whole] if whole else [], []
        return cast("Text", whole)


def own_words(text: str) -> CleanText:
    """Return a text of our own source as clean: codes and messages of `projector.core.faults`, nothing else."""
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
    """Cut to `max_chars` code points and no part of a mark, with a notice where something is missing."""
    if len(text.value) <= max_chars:
        return text
    return Cleaned(CleanText(cut_text(text.value, max_chars)), bounded(text.notices + TRUNCATED_HERE))


def listed(parts: Sequence[Part], max_entries: int) -> Cleaned[CleanJson]:
    """Return a list of the values, cut with a notice where it is too long."""
    notices = [n._replace(path=f"[{at}]{n.path}") for at, part in enumerate(parts[:max_entries]) for n in part.notices]
    if len(parts) > max_entries:
        notices.extend(TRUNCATED_HERE)
    return Cleaned(CleanJson([part.value for part in parts[:max_entries]]), bounded(notices))


def record(parts: Mapping[str, Part | None]) -> Cleaned[CleanJson]:
    """Return an object of the values that are not None; the names are ours."""
    present = {name: part for name, part in parts.items() if part is not None}
    notices = (n._replace(path=f".{name}{n.path}") for name, part in present.items() for n in part.notices)
    return Cleaned(CleanJson({name: part.value for name, part in present.items()}), bounded(notices))


def plain(value: float | bool | None) -> Cleaned[CleanJson]:  # noqa: FBT001 - the value, not a switch
    """Return a number, a boolean or null as clean: none can hold a secret outside a sensitive key."""
    return Cleaned(CleanJson(value))
