"""Where a value stands, and what several decisions about values share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from projector.redaction import value_shapes
from projector.redaction.cursor import Cursor
from projector.redaction.rules import KeyRules, Verdict
from projector.redaction.value_extents import Extent

BLANKS: Final = re.compile(r"[ \t]*+")
SPACES: Final = re.compile(r"[ \t\r\n]*+")
SLASHES: Final = re.compile(r"\\*+")
BARE: Final = re.compile(r"[^\s\"'`,;<>]*+")
PARAMETER: Final = re.compile(r"[^\s\"'`,;<>&]*+")
QUOTES: Final = "\"'`"


BEFORE_CHARS: Final = 96
"""Characters before a key that a reader looks at."""


class Take(NamedTuple):
    """The decision to withhold a value from `start` on."""

    start: int
    extent: Extent


class Place(NamedTuple):
    """Where a value stands: the text before its key, the key, and the words that make keys sensitive."""

    head: str
    key: str
    keys: KeyRules
    verdict: Verdict = Verdict.SENSITIVE
    link: str = ""

    @property
    def line(self) -> str:
        """The text before the key on its line."""
        return self.head[max(self.head.rfind("\n"), self.head.rfind("\r")) + 1 :]

    @property
    def begins_line(self) -> bool:
        """Whether the key is the first word of its line."""
        return _LINE_START.fullmatch(self.line) is not None

    @property
    def is_parameter(self) -> bool:
        """Whether the key is a parameter of an address or a form."""
        return self.head[-1:] in ("?", "&") and bool(self.head)

    @property
    def is_variable(self) -> bool:
        """Whether the key is a variable of an environment, directly before its value."""
        return self.link == "=" and self.key == self.key.upper()


_LINE_START: Final = re.compile(
    r"[ \t>+|#*-]*(?:(?:export|set|setx|ENV|ARG|let|var|const|local|declare -x)[ \t]+)?[$@]?"
)


def is_key_name(text: str, keys: KeyRules) -> bool:
    """Return whether a value is the name of a secret, as in `token = "csrf_token"` or `password=password`."""
    is_name = value_shapes.is_name(text) or ("_" in text and text.isidentifier())
    return is_name and keys.verdict(text) is not Verdict.PLAIN


Decide: TypeAlias = Callable[[Cursor, str, KeyRules], "Take | None"]
"""A decision about the text behind an anchor, given the text before its end and the key rules."""
