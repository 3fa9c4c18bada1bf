"""Types of clean values, created by redaction only, and notices of withheld or truncated data (CONTRACT D26).

`CleanText` and `CleanJson` are ordinary values at run time; for the type checker they prove that a value was redacted.
Frame builders require them, and no code outside this package may create one (`tests/contract/test_clean_types.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, NewType, TypeVar, cast

from projector.contracts.kinds import NoticeType
from projector.contracts.limits import NOTICES_MAX_ITEMS
from projector.contracts.paths import join_index, join_key

CleanText = NewType("CleanText", str)
"""Clean text."""

CleanJson = NewType("CleanJson", object)
"""Clean tree of None, bool, int, float, str, list and dict."""

T = TypeVar("T")

MARK: Final = re.compile(r"<redacted(?::[a-z][a-z0-9_-]{1,63})?>|\[REDACTED:[A-Za-z0-9._-]{1,64}\]")
_MARK_MAX_CHARS: Final = 80

MESSAGES: Final[dict[NoticeType, str]] = {
    "redacted": "Something was withheld for safety.",
    "truncated": "Some content was left out.",
}
"""Messages of notices. They are constant, so that a message cannot contain withheld data.

A notice of message text has counts by class instead (`counted_notice`), whose names are those of rules.
"""

_PATH_MAX_CHARS: Final = 192
"""Maximum length of a path. The contract allows 256 characters; the rest is reserved for the field's name (D26)."""

_ROOT: Final = re.compile(r"[^.\[]*")


class Notice(NamedTuple):
    """A notice of withheld or truncated data, with its path.

    `path` is relative to the value that the notice comes with: `""` is the value itself, `.a["x.y"]` or `[2].text` a
    place in it. Frame builders prepend the name of their field.
    """

    type: NoticeType
    path: str
    message: str


@dataclass(slots=True, unsafe_hash=True)
class Cleaned(Generic[T]):
    """A clean value, and the notices of data withheld from it or truncated.

    It is no tuple: `tuple.__new__` and `_make` would build one from any values without a word of the type checker.
    """

    value: T
    notices: tuple[Notice, ...] = ()


class CleanArguments(NamedTuple):
    """The arguments of a tool call: the text, and the parsed object if it is one (CONTRACT D23, D24).

    Notices of `json` have paths in the parsed object; notices of `text` are those that the object does not show.
    """

    text: Cleaned[CleanText]
    json: Cleaned[CleanJson] | None


def render(path: Iterable[str | int]) -> str:
    """Return a path of keys and indexes as text; if that is too long, the path of the nearest ancestor that fits."""
    rendered = ""
    for step in path:
        longer = join_index(rendered, step) if isinstance(step, int) else join_key(rendered, step)
        if len(longer) > _PATH_MAX_CHARS:
            break
        rendered = longer
    return rendered


def notice(kind: NoticeType, path: str = "") -> Notice:
    """Return the notice of a type for a path."""
    return Notice(kind, path, MESSAGES[kind])


WITHHELD_COUNTS: Final = "Withheld: "
SHOWN_COUNTS: Final = "Found, not withheld: "
"""Beginnings of the sentences of a notice with counts by class."""
_COUNTS: Final = re.compile(rf"({WITHHELD_COUNTS}|{SHOWN_COUNTS})([^.]*)\.")
_COUNT: Final = re.compile(r"([a-z0-9_-]+) \((\d+)\)")


def counted_notice(withheld: Mapping[str, int], shown: Mapping[str, int]) -> Notice:
    """Return the notice of values in a text, by class: those withheld, and those that the policy only reports."""
    sentences = (
        f"{begin}{', '.join(f'{name} ({count})' for name, count in sorted(counts.items()))}."
        for begin, counts in ((WITHHELD_COUNTS, withheld), (SHOWN_COUNTS, shown))
        if counts
    )
    return Notice("redacted", "", " ".join(sentences))


def _merged(first: Notice, second: Notice) -> Notice:
    """Return one notice for two of a type and path; counts by class are added."""
    counts = {WITHHELD_COUNTS: Counter[str](), SHOWN_COUNTS: Counter[str]()}
    for begin, listed in (found for each in (first, second) for found in _COUNTS.findall(each.message)):
        counts[begin].update({name: int(count) for name, count in _COUNT.findall(listed)})
    if not any(counts.values()):
        return first
    counted = counted_notice(*counts.values())
    general = MESSAGES[first.type]
    if any(each.message.startswith(general) for each in (first, second)):
        counted = counted._replace(message=f"{general} {counted.message}")
    return counted._replace(path=first.path)


REDACTED_HERE: Final = (notice("redacted"),)
"""Notice: the value, or part of it, was withheld."""

TRUNCATED_HERE: Final = (notice("truncated"),)
"""Notice: the value was truncated."""


def bounded(notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Return one notice per type and path, in order, at most 32; the rest become notices of the whole field."""
    places: dict[tuple[NoticeType, str], Notice] = {}
    for each in notices:
        place = each.type, each.path
        places[place] = _merged(places[place], each) if place in places else each
    unique = list(places.values())
    if len(unique) <= NOTICES_MAX_ITEMS:
        return tuple(unique)
    kept, parents = unique[:NOTICES_MAX_ITEMS], _parents(unique[NOTICES_MAX_ITEMS:])
    while len(kept) + len(parents) > NOTICES_MAX_ITEMS:
        parents |= _parents([kept.pop()])
    return tuple(dict.fromkeys([*kept, *parents]))


def _parents(notices: Sequence[Notice]) -> dict[Notice, None]:
    """Return the notices of the fields that contain the paths, as a set in order."""
    return {item._replace(path=_ROOT.match(item.path)[0]): None for item in notices}  # type: ignore[index]  # matches always


def cut_text(text: str, max_chars: int) -> str:
    """Return at most `max_chars` of clean text, without a partial mark at its end."""
    if len(text) <= max_chars:
        return text
    for mark in MARK.finditer(text, max(0, max_chars - _MARK_MAX_CHARS), max_chars + _MARK_MAX_CHARS):
        if mark.start() < max_chars < mark.end():
            return text[: mark.start()]
    return text[: max(0, max_chars)]


# text that grows by many small pieces

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
