"""The grammar of JSON's strings, numbers and literals as tables and expressions (RFC 8259)."""

from __future__ import annotations

import re
from enum import IntEnum, auto
from typing import Final

LITERALS: Final = {"t": "true", "f": "false", "n": "null"}


class Digits(IntEnum):
    """The last part of a number that was read; integers, because they hash at the speed of C."""

    SIGN = auto()
    ZERO = auto()
    WHOLE = auto()
    POINT = auto()
    FRACTION = auto()
    EXPONENT = auto()
    EXPONENT_SIGN = auto()
    POWER = auto()


_POINT_OR_EXPONENT: Final = {".": Digits.POINT, "e": Digits.EXPONENT, "E": Digits.EXPONENT}
_EXPONENT: Final = {"e": Digits.EXPONENT, "E": Digits.EXPONENT}
_POWER: Final = dict.fromkeys("0123456789", Digits.POWER)

NUMBER_START: Final = {"-": Digits.SIGN, "0": Digits.ZERO, **dict.fromkeys("123456789", Digits.WHOLE)}
NUMBER: Final[dict[Digits, dict[str, Digits]]] = {
    Digits.SIGN: {"0": Digits.ZERO, **dict.fromkeys("123456789", Digits.WHOLE)},
    Digits.ZERO: _POINT_OR_EXPONENT,
    Digits.WHOLE: {**dict.fromkeys("0123456789", Digits.WHOLE), **_POINT_OR_EXPONENT},
    Digits.POINT: dict.fromkeys("0123456789", Digits.FRACTION),
    Digits.FRACTION: {**dict.fromkeys("0123456789", Digits.FRACTION), **_EXPONENT},
    Digits.EXPONENT: {"+": Digits.EXPONENT_SIGN, "-": Digits.EXPONENT_SIGN, **_POWER},
    Digits.EXPONENT_SIGN: _POWER,
    Digits.POWER: _POWER,
}
WHOLE_NUMBERS: Final = frozenset({Digits.ZERO, Digits.WHOLE, Digits.FRACTION, Digits.POWER})

PLAIN_RUN: Final = re.compile(r'[^"\\\x00-\x1f]*+')
BLANKS: Final = re.compile(r"[ \t\n\r]*+")
DIGIT_RUN: Final = re.compile(r"[0-9]*+")

# Characters and whole escapes of a string. Its last part: a high surrogate escape and the low one behind it are
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
