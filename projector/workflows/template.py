"""The input of a step: text with names in it, which stand for texts of the run.

`{{request.message}}` is what the caller says, `{{steps.NAME.text}}` what an earlier step said and
`{{steps.NAME.status}}` how it ended. That is the whole language: no conditions, no code, no nesting. A value is put in
as it is and never read as a template itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from projector._errors import UsageError

_PLACE: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_BRACES: Final = ("{{", "}}")

REQUEST_MESSAGE: Final = "request.message"
OF_A_STEP: Final = ("text", "status")
"""What a name may ask of a step."""


class Name(NamedTuple):
    """A place that a value takes."""

    value: str


class Template:
    """A template, read once.

    Args:
        source: the text.
        known: the names that may stand in it.

    Raises:
        UsageError: a name that is not known, or braces that do not close.
    """

    def __init__(self, source: str, known: Collection[str]) -> None:
        self._parts: list[str | Name] = []
        for at, piece in enumerate(_PLACE.split(source)):
            if at % 2:
                self._parts.append(_name(piece, known))
            elif any(braces in piece for braces in _BRACES):
                raise UsageError("expected `{{name}}`: braces that are not closed, or not opened")
            elif piece:
                self._parts.append(piece)

    def render(self, values: Mapping[str, str], max_chars: int) -> str:
        """Give the text with its values, at most `max_chars` characters of it.

        What is too long is cut in the values, the longest first, so that no word of the template is lost to them.
        """
        own = sum(len(part) for part in self._parts if isinstance(part, str))
        names = [part.value for part in self._parts if isinstance(part, Name)]
        share = _share([len(values[name]) for name in names], max_chars - own)
        text = "".join(part if isinstance(part, str) else values[part.value][:share] for part in self._parts)
        return text[:max_chars]


def names_of(steps: Collection[str]) -> set[str]:
    """Give the names that may stand in a template behind these steps."""
    return {REQUEST_MESSAGE, *(f"steps.{step}.{asked}" for step in steps for asked in OF_A_STEP)}


def _name(piece: str, known: Collection[str]) -> Name:
    name = piece.strip()
    if name not in known:
        raise UsageError(f"`{{{{{name[:80]}}}}}` is not known here; known: {', '.join(sorted(known))}")
    return Name(name)


def _share(lengths: list[int], room: int) -> int:
    """Give how long a value may be so that all of them fit: short ones leave their room to the long ones."""
    room = max(room, 0)
    left = sorted(lengths)
    for at, length in enumerate(left):
        share = room // (len(left) - at)
        if length > share:
            return share
        room -= length
    return max(lengths, default=0)
