"""Spellings of characters that a text may have in their place, and characters that a reader does not see."""

from __future__ import annotations

import html
import re
from typing import Final

INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
"""Characters that a reader does not see (Unicode property Default_Ignorable_Code_Point), as part of a class."""
_HEX: Final = "[0-9a-fA-F]"
_CODE: Final = "(?:2[1345ABDEFabdef]|3[0-9ADFadf]|4[0-9A-Fa-f]|5[0-9AEFaef]|6[1-9A-Fa-f]|7[0-9ACEace])"
"""Percent-encoded characters of keys and values. Blanks, quotes, brackets and `&` would end one, so they stay."""
_PAIR: Final = rf"u[dD][89abAB]{_HEX}{{2}}\\{{1,64}}+u[dD][c-fC-F]{_HEX}{{2}}"
_PAIR_BEGINS: Final = rf"u[dD][89abAB]{_HEX}{{2}}(?:\\{{1,64}}+(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?"
SPELLED: Final = re.compile(
    rf"[{INVISIBLE}]+"
    r"|\x1b\[[0-9;:?]{0,24}[A-Za-z]"  # colours of a terminal: ECMA-48, control sequences
    rf"|(?<!\\)\\{{1,64}}+(?:{_PAIR}|u(?![dD][89a-fA-F]){_HEX}{{4}}|x{_HEX}{{2}})"  # any number of levels of strings
    rf"|&(?:\#[0-9]{{1,7}}|\#[xX]{_HEX}{{1,6}}|[a-z]{{2,6}});"
    rf"|%(?:25{_CODE}|(?!25[2-7]?\Z){_CODE})"  # in addresses, which redirects encode twice
)
MAY_BE_SPELLED: Final = re.compile(rf"[\\&%\x1b{INVISIBLE}]")
"""First characters of all spellings; most texts have none."""
UNFINISHED: Final = re.compile(
    rf"(?:\x1b(?:\[[0-9;:?]{{0,24}})?|(?<!\\)\\{{1,64}}+(?:{_PAIR_BEGINS}|u{_HEX}{{0,3}}|x{_HEX}?)?"
    rf"|&(?:\#[0-9]{{0,7}}|\#[xX]{_HEX}{{0,6}}|[a-z]{{0,6}})|%(?:25?[2-7]?|[3-7])?)\Z"
)
UNFINISHED_MAX_CHARS: Final = 144
_ALL_INVISIBLE: Final = re.compile(f"[{INVISIBLE}]*")


def decoded(spelling: str) -> str:
    """Return the character that a spelling stands for; empty if it is not seen, and the spelling if it is unknown."""
    if spelling[0] == "\\":
        first, *second = (int(unit[1:], 16) for unit in spelling.split("\\") if unit)
        char = chr(0x10000 + ((first & 0x3FF) << 10) + (second[0] & 0x3FF)) if second else chr(first)
    elif spelling[0] == "%":
        char = chr(int(spelling[-2:], 16))
    elif spelling[0] == "&":
        char = html.unescape(spelling)
    else:
        return ""
    return "" if _ALL_INVISIBLE.fullmatch(char) else char


def as_read(text: str) -> str:
    """Return a complete text as it is read."""
    return SPELLED.sub(lambda spelling: decoded(spelling[0]), text)
