"""The types that only redaction makes, and the notices of what was withheld or cut (CONTRACT D26).

`CleanText` and `CleanJson` are ordinary values at run time; to the type checker they are proof that redaction saw them.
Frame builders demand them, and nothing outside this package may make one (`tests/contract/test_clean_types.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Generic, NamedTuple, NewType, TypeVar

from projector.contracts.kinds import NoticeType
from projector.contracts.limits import NOTICES_MAX_ITEMS
from projector.contracts.paths import join_index, join_key

CleanText = NewType("CleanText", str)
"""Text that may be shown."""

CleanJson = NewType("CleanJson", object)
"""A tree of None, bool, int, float, str, list and dict that may be shown."""

T = TypeVar("T")

MARK: Final = re.compile(r"<redacted>|\[REDACTED:[A-Za-z0-9._-]{1,64}\]")
_MARK_MAX_CHARS: Final = 80

MESSAGES: Final[dict[NoticeType, str]] = {
    "redacted": "Something was withheld for safety.",
    "truncated": "Some content was left out.",
}
"""The texts of notices: constant, so that none can carry what it hides."""

_PATH_MAX_CHARS: Final = 192
"""A path of the contract has at most 256 characters; the rest is left for the field's name (D26)."""

_ROOT: Final = re.compile(r"[^.\[]*")


class Notice(NamedTuple):
    """A notice that something is missing, and where.

    `path` is relative to the value that the notice comes with: `""` is the value itself, `.a["x.y"]` or `[2].text` a
    place in it. The builders of frames put the name of their field in front.
    """

    type: NoticeType
    path: str
    message: str


class Cleaned(NamedTuple, Generic[T]):
    """A clean value, and the notices of what is missing from it."""

    value: T
    notices: tuple[Notice, ...] = ()


class CleanArguments(NamedTuple):
    """The arguments of a tool call: the text, and the parsed object if it is one (CONTRACT D23, D24).

    The notices of `json` are of places in the parsed object; those of `text` are of what the object does not show.
    """

    text: Cleaned[CleanText]
    json: Cleaned[CleanJson] | None


def render(path: Iterable[str | int]) -> str:
    """Return a path of keys and indexes as text; where it would be too long, that of its nearest ancestor."""
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


REDACTED_HERE: Final = (notice("redacted"),)
"""The value itself was withheld, or a part of it."""

TRUNCATED_HERE: Final = (notice("truncated"),)
"""The value itself was cut."""


def bounded(notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Return one notice per type and path, in order, at most 32; the rest become notices of the whole field."""
    unique = list(dict.fromkeys(notices))
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
    """Return at most `max_chars` of clean text, and no part of a mark."""
    if len(text) <= max_chars:
        return text
    for mark in MARK.finditer(text, max(0, max_chars - _MARK_MAX_CHARS), max_chars + _MARK_MAX_CHARS):
        if mark.start() < max_chars < mark.end():
            return text[: mark.start()]
    return text[: max(0, max_chars)]
