r"""The characters that a reader sees behind the spellings of markup, addresses and JSON.

`jane%40example.com` in an address, `jane&#64;example.com` in HTML and `jane\u0040example.com` in JSON are one value.
A view has one character for each such spelling, none for invisible characters, and plain separators and digits for
those that only look different. Positions lead back to the text.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from projector.redaction.spellings import INVISIBLE

_SPELLED: Final = re.compile(
    r"%(?:25)?(?P<percent>[2-7][0-9A-Fa-f])|&#(?P<decimal>[0-9]{1,6});|&#[xX](?P<hex>[0-9A-Fa-f]{1,5});"
    r"|&(?P<name>[A-Za-z]{2,8});|\\u(?P<unit>[0-9A-Fa-f]{4})|\\(?P<control>[bfnrt])"
    rf"|(?P<invisible>[{INVISIBLE}])"
)
_UNFINISHED: Final = re.compile(
    r"(?:%(?:25?[2-7]?|[2-7])?|&(?:#[0-9]{0,6}|#[xX][0-9A-Fa-f]{0,5}|[A-Za-z]{0,8})|\\(?:u[0-9A-Fa-f]{0,3})?)\Z"
)
_UNFINISHED_MAX_CHARS: Final = 10
_NAMES: Final = {
    "lt": "<", "gt": ">", "amp": "&", "commat": "@", "period": ".", "plus": "+", "nbsp": " ", "hyphen": "-", "num": "#",
    "sol": "/", "lpar": "(", "rpar": ")", "colon": ":", "lowbar": "_", "ensp": " ", "emsp": " ",
}  # fmt: skip
"""Named characters of HTML that stand in values."""
PLAIN: Final = str.maketrans(
    {
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u202f", " "),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
        **{chr(0xFF01 + at): chr(0x21 + at) for at in range(0x5E)},
        **{chr(0x0660 + at): str(at) for at in range(10)},
        **{chr(0x06F0 + at): str(at) for at in range(10)},
    }
)
"""Blanks, hyphens, full-width forms and Arabic digits, as the plain character that they stand for."""
_IS_PLAIN: Final = re.compile(r"[^%&\\\u0080-\U0010ffff]*+")


class View(NamedTuple):
    """A text as it reads."""

    text: str
    positions: range | list[int]
    """Position in the text of each character, and of the end."""


def view_of(text: str) -> View:
    """Return the view of a text."""
    if _IS_PLAIN.fullmatch(text) is not None:
        return View(text, range(len(text) + 1))
    parts: list[str] = []
    positions: list[int] = []
    at = 0
    for match in _SPELLED.finditer(text):
        char = _char(match)
        if char is None:
            continue
        parts += (text[at : match.start()], char)
        positions += range(at, match.start())
        positions += [match.start()] * len(char)
        at = match.end()
    parts.append(text[at:])
    positions += range(at, len(text) + 1)
    return View("".join(parts).translate(PLAIN), positions)


def unfinished(text: str) -> int:
    """Return the number of characters at the end of a text that may begin such a spelling."""
    match = _UNFINISHED.search(text, max(0, len(text) - _UNFINISHED_MAX_CHARS))
    return len(text) - match.start() if match is not None else 0


def _char(match: re.Match[str]) -> str | None:
    """Return the character of a spelling: "" if it is invisible, None if it is no spelling of one."""
    kind, value = match.lastgroup, match[match.lastgroup or 0]
    if kind in {"percent", "hex", "unit", "decimal"}:
        code = int(value, 10 if kind == "decimal" else 16)
        return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else None  # noqa: PLR2004 - Unicode
    return {"name": _NAMES.get(value), "control": " "}.get(kind or "", "")
