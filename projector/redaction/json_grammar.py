"""The grammar of JSON's strings, numbers and literals as tables and expressions (RFC 8259), and known members.

Documents with arrays of objects repeat their keys and many short strings, so members whose key was shown before are
read at once. It is exact because what a key does depends on the key alone, unless it is in a pair of a name and a
value, and because a clean value that is no container leaves nothing to the next member.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from projector.redaction.rules import names_a_value

LITERALS: Final = {"t": "true", "f": "false", "n": "null"}


def _transitions(table: str) -> dict[str, dict[str, str]]:
    """Parse lines of a state and its transitions, each as characters and the next state."""
    lines = (line.partition(":") for line in table.strip().splitlines())
    steps = {state.strip(): [step.split() for step in rest.split(",")] for state, _, rest in lines}
    return {state: {char: after for chars, after in found for char in chars} for state, found in steps.items()}


NUMBER: Final = _transitions("""
    start: - sign, 0 zero, 123456789 whole
    sign: 0 zero, 123456789 whole
    zero: . point, eE exponent
    whole: 0123456789 whole, . point, eE exponent
    point: 0123456789 fraction
    fraction: 0123456789 fraction, eE exponent
    exponent: +- exponent-sign, 0123456789 power
    exponent-sign: 0123456789 power
    power: 0123456789 power
""")
"""State -> character -> next state."""
DIGIT_STATES: Final = frozenset({"whole", "fraction", "power"})
COMPLETE_STATES: Final = DIGIT_STATES | {"zero"}

PLAIN_RUN: Final = re.compile(r'[^"\\\x00-\x1f]*+')
NOT_PLAIN: Final = re.compile(r'["\\\x00-\x1f]')
BLANKS: Final = re.compile(r"[ \t\n\r]*+")
_MEMBER: Final = r'"([^"\\\x00-\x1f]*+)"[ \t\n\r]*+:[ \t\n\r]*+'
MEMBER: Final = {'"': re.compile(_MEMBER), ",": re.compile(rf",[ \t\n\r]*+{_MEMBER}")}
"""First character -> a member of an object up to its value, as its first and after another one. Keys with escapes
do not match."""
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_SIMPLE_VALUE: Final = (
    rf'(?:"(|[^"\\\x00-\x1f {{\[][^"\\\x00-\x1f]*+)"|true|false|null|({_NUMBER}))(?=[ \t\n\r]*+[,}}])'
)
SIMPLE_MEMBER: Final = {char: re.compile(member.pattern + _SIMPLE_VALUE) for char, member in MEMBER.items()}
"""The same with a whole value that is no container and no string that may contain JSON; groups: key, string, number."""
REST_OF_MEMBER: Final = re.compile(r":[ \t\n\r]*+" + _SIMPLE_VALUE)
"""What follows a key; groups: string, number."""
NEXT_OBJECT: Final = re.compile(r"\}[ \t\n\r]*+,[ \t\n\r]*+\{")
"""The end of an object, and the beginning of the next one of an array."""
DIGIT_RUN: Final = re.compile(r"[0-9]*+")

# Characters and whole escapes of a string. Its last part: a high surrogate escape and the low one after it are
# one character, so a high one waits until the next escape is certain.
STRING_RUN: Final = re.compile(
    r"""
    (?: [^"\\\x00-\x1f]++
    | \\ (?: ["\\/bfnrt]
           | u (?! [dD][89abAB] ) [0-9a-fA-F]{4}
           | u [dD][89abAB][0-9a-fA-F]{2}
             (?: \\u[dD][c-fC-F][0-9a-fA-F]{2}
               | (?! \Z | \\ (?: \Z | u (?: \Z | [dD] (?: \Z | [c-fC-F][0-9a-fA-F]?+\Z ) ) ) )
             )
         )
    )*+
    """,
    re.VERBOSE,
)
ESCAPE: Final = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^u])")
UNFINISHED_ESCAPE: Final = re.compile(
    r"\\(?:\Z|u(?:[0-9a-fA-F]{0,3}\Z|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?\Z))"
)


def end_of_blanks(text: str, at: int) -> int:
    """Return the end of the blanks at a position."""
    blanks = BLANKS.match(text, at)
    return blanks.end() if blanks else at


FIRST: Final = frozenset('",:}')
"""First characters of what is read at once."""
_MAX_KEPT: Final = 64
"""Maximum number of keys and strings that are remembered; arrays of objects repeat fewer."""
_KEY_MAX_CHARS: Final = 80
_STRING_MAX_CHARS: Final = 24
"""Length of the longest string that is remembered; longer ones repeat rarely."""


class Members(NamedTuple):
    """Members up to a position: the last key, and whether its value is still to be read."""

    end: int
    key: str
    is_key_only: bool


class KnownMembers:
    """Keys and strings of one document that were shown whole.

    Args:
        is_clean: whether a complete string is certainly shown as it is.
        has_numbers: whether a number may be withheld.
    """

    __slots__ = ("_has_numbers", "_is_clean", "_strings", "keys")

    def __init__(self, is_clean: Callable[[str], bool], *, has_numbers: bool) -> None:
        self._is_clean = is_clean
        self._has_numbers = has_numbers
        self.keys: set[str] = set()
        """Keys whose values are not sensitive."""
        self._strings: set[str] = set()

    def add(self, key: str) -> None:
        """Remember a key that was shown, and whose value is not sensitive."""
        if len(key) <= _KEY_MAX_CHARS and len(self.keys) < _MAX_KEPT:
            self.keys.add(key)

    def members(self, text: str, at: int) -> Members | None:
        """Return the members at a position, from a comma or a first key on, if at least the first key is known."""
        key, start = "", at
        while (found := SIMPLE_MEMBER[text[at]].match(text, at)) is not None:
            if not self._is_shown(*found.groups()):
                break
            key, at = found[1], found.end()
            if text[at] != ",":
                return Members(at, key, is_key_only=False)
        member = MEMBER[text[at]].match(text, at)
        if member is not None and member[1] in self.keys:
            return Members(member.end(), member[1], is_key_only=True)
        return Members(at, key, is_key_only=False) if at > start else None

    def rest_of_member(self, text: str, at: int, key: str) -> int:
        """Return the end of the value of a key that was read, from the colon on; `at` if the value takes more."""
        found = REST_OF_MEMBER.match(text, at)
        return found.end() if found is not None and self._is_shown(key, *found.groups()) else at

    def _is_shown(self, key: str, content: str | None, number: str | None) -> bool:
        """Return whether a member is shown, and leaves nothing to the next one."""
        if key not in self.keys or names_a_value(key):
            return False
        if content is None:
            return number is None or not self._has_numbers
        if content in self._strings:
            return True
        if not self._is_clean(content):
            return False
        if len(content) <= _STRING_MAX_CHARS and len(self._strings) < _MAX_KEPT:
            self._strings.add(content)
        return True
