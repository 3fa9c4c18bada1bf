"""The input of a step: text with placeholders for values of the run.

`{{request.message}}` is the caller's message, `{{steps.NAME.text}}` the text of an earlier step and
`{{steps.NAME.status}}` how it ended. There are no conditions, no code, no nesting. A value is inserted unchanged and
never parsed as a template.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from projector._errors import UsageError

_PLACEHOLDER: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_BRACES: Final = ("{{", "}}")

REQUEST_MESSAGE: Final = "request.message"
STEP_FIELDS: Final = ("text", "status")
"""The values of a step that a template may refer to."""


class Name(NamedTuple):
    """A placeholder."""

    value: str


class Template:
    """A parsed template.

    Args:
        source: the text.
        known: names that its placeholders may use.

    Raises:
        UsageError: a name is unknown, or braces are not closed.
    """

    def __init__(self, source: str, known: Collection[str]) -> None:
        self._parts: list[str | Name] = []
        for at, piece in enumerate(_PLACEHOLDER.split(source)):
            if at % 2:
                self._parts.append(_name(piece, known))
            elif any(braces in piece for braces in _BRACES):
                raise UsageError("expected `{{name}}`: braces that are not closed, or not opened")
            elif piece:
                self._parts.append(piece)

    def render(self, values: Mapping[str, str], max_chars: int) -> str:
        """Return the text with its values, truncated to `max_chars` characters.

        The values are truncated first, the longest before others, so that the template's own text is kept.
        """
        own = sum(len(part) for part in self._parts if isinstance(part, str))
        names = [part.value for part in self._parts if isinstance(part, Name)]
        share = _share([len(values[name]) for name in names], max_chars - own)
        text = "".join(part if isinstance(part, str) else values[part.value][:share] for part in self._parts)
        return text[:max_chars]


def names_of(steps: Collection[str]) -> set[str]:
    """Return the names that a template may use after these steps."""
    return {REQUEST_MESSAGE, *(f"steps.{step}.{name}" for step in steps for name in STEP_FIELDS)}


def _name(piece: str, known: Collection[str]) -> Name:
    name = piece.strip()
    if name not in known:
        raise UsageError(f"`{{{{{name[:80]}}}}}` is not available here; available: {', '.join(sorted(known))}")
    return Name(name)


def _share(lengths: list[int], room: int) -> int:
    """Return the largest length to which values are truncated so that all of them fit: short ones keep their length."""
    room = max(room, 0)
    left = sorted(lengths)
    for at, length in enumerate(left):
        share = room // (len(left) - at)
        if length > share:
            return share
        room -= length
    return max(lengths, default=0)
