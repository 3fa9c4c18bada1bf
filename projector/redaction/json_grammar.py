"""The grammar of JSON's strings, numbers and literals as tables and expressions (RFC 8259)."""

from __future__ import annotations

import re
from typing import Final

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
