"""The row type of the format tables, and the made-up material that their examples are put together from.

Examples are joined from parts, so that no line of this project looks like a real secret to a code host's scanner.
"""

from __future__ import annotations

from typing import Final, NamedTuple

MIXED: Final = "a1B2c3D4e5F6g7H8i9J0k" * 8
UPPER: Final = "A2B3C4D5E6F7G2H3" * 8
LOWER: Final = "a1b2c3d4e5g6h7k8" * 8
HEX: Final = "0123456789abcdef" * 10


NEVER: Final = 1 << 30
"""As `open_chars`: an unfinished one is no credential."""


class Format(NamedTuple):
    """What one kind of credential looks like, written from its issuer's public description.

    `anchor` and `body` are patterns in the language of `projector.redaction.patterns`. The anchor is what makes the
    format known,
    a literal of three characters or more or a keyed context; the body is the shortest secret that can follow it. Both
    are withheld, the anchor too unless `says_anchor` (a context such as `Bearer ` is no secret), and so are the
    characters of the class `tail` that follow (by default, those of the body's last class).

    `open_chars`: at the end of a text so many characters of the body make an unfinished credential one. It is 1 unless
    ordinary words begin like the format. Where a count does not tell, `body_at_end` is what does, as a pattern.
    """

    name: str
    about: str
    anchor: str
    body: str
    example: str
    counter_example: str
    tail: str = ""
    open_chars: int = 1
    body_at_end: str = ""
    says_anchor: bool = False
    any_case: bool = False
    inside_words: bool = False
    """It may begin in the middle of a word (`DB_PASSWORD=`); elsewhere a letter or digit before it rules it out."""
