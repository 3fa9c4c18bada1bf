"""The input of a step: text with placeholders for values of the run.

`{{request.message}}` is the caller's message, `{{steps.NAME.text}}` the text of an earlier step and
`{{steps.NAME.status}}` how it ended. There are no conditions, no code, no nesting. A value is inserted unchanged and
never parsed as a template.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from projector._errors import UsageError

_PLACEHOLDER: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_BRACES: Final = ("{{", "}}")

REQUEST_MESSAGE: Final = "request.message"
STEP_FIELDS: Final = ("text", "status")
"""The values of a step that a template may refer to."""


class Template:
    """A parsed template.

    Args:
        source: the text.
        known: names that its placeholders may use.

    Raises:
        UsageError: a name is unknown, or braces are not closed.
    """

    def __init__(self, source: str, known: Collection[str]) -> None:
        pieces = _PLACEHOLDER.split(source)
        self._texts, self._names = pieces[::2], [piece.strip() for piece in pieces[1::2]]
        """Each name is between two texts, which may be empty."""
        if any(braces in text for text in self._texts for braces in _BRACES):
            raise UsageError("expected `{{name}}`: braces that are not closed, or not opened")
        for name in self._names:
            if name not in known:
                raise UsageError(f"`{{{{{name[:80]}}}}}` is not available here; available: {', '.join(sorted(known))}")

    def render(self, values: Mapping[str, str], max_chars: int) -> str:
        """Return the text with its values, truncated to `max_chars` characters.

        The values are truncated first, the longest before others, so that the template's own text is kept.
        """
        own = sum(map(len, self._texts))
        share = _share([len(values[name]) for name in self._names], max_chars - own)
        shown = [values[name][:share] for name in self._names]
        return "".join(text + value for text, value in zip(self._texts, [*shown, ""], strict=True))[:max_chars]


def names_of(steps: Collection[str]) -> set[str]:
    """Return the names that a template may use after these steps."""
    return {REQUEST_MESSAGE, *(f"steps.{step}.{name}" for step in steps for name in STEP_FIELDS)}


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
