"""Decisions about values without quotes: by the shape of a word, and by the place in which a name is a secret too."""

from __future__ import annotations

import re
from typing import Final

from projector.redaction import value_shapes
from projector.redaction.rules import Verdict
from projector.redaction.value_places import QUOTES, Place, is_key_name


def is_secret_shape(word: str, place: Place) -> bool:
    """Return whether a word without quotes looks like a secret, or stands where only a secret can."""
    plain = word.rstrip(".,;:)]}")
    if (
        value_shapes.begins_key_file(word)
        or value_shapes.is_empty(plain)
        or value_shapes.is_template(plain)
        or value_shapes.is_short_number(plain)
    ):
        return False
    is_digits = _DIGITS.fullmatch(plain) is not None
    if place.verdict is Verdict.SENSITIVE_UNLESS_NUMBER and is_digits:
        return False
    if place.is_variable or place.is_parameter or "-" in place.head[-1:]:
        return not is_key_name(plain, place.keys) and not value_shapes.is_path(plain)
    if is_digits:
        return _MAY_BE_NUMBER.search(place.key) is not None or len(plain) >= _DIGITS_MIN_CHARS
    return not is_code(word) and value_shapes.has_secret_shape(plain) and not is_key_name(plain, place.keys)


_MAY_BE_NUMBER: Final = re.compile(r"(?i)pass|pin|pwd|secret|otp|code")
_DIGITS: Final = re.compile(r"[0-9]+(?:[-_.][0-9]+)*")
_DIGITS_MIN_CHARS: Final = 6
"""A shorter number under a key such as `token` may be a count."""


def is_secret_place(word: str, place: Place, before: str, after: str) -> bool:
    """Return whether a word without the shape of a secret is one because of where it stands.

    Directly behind `=` or `:` a name is one too, except in calls, as in `password=hunter`. Elsewhere a name is code.
    """
    plain = word.rstrip(".,;:)]}")
    if (
        value_shapes.begins_key_file(word)
        or value_shapes.is_empty(plain)
        or value_shapes.is_template(plain)
        or value_shapes.is_path(plain)
        or value_shapes.is_address(plain)
        or value_shapes.is_short_number(plain)
        or is_key_name(plain, place.keys)
        or (place.verdict is not Verdict.SENSITIVE and _DIGITS.fullmatch(plain) is not None)
    ):
        return False
    if before in ("=", ":", ">") and place.link.strip() == place.link and not place.link.endswith("::"):
        return not _is_expression(word) or not _is_argument(word, place, after)
    if ":" not in place.link:
        return False
    if _is_expression(word):
        return place.begins_line and after in ("\n", "\r", "") and "_" in plain and plain.islower()
    return place.link[:1] in ("\\", *QUOTES) or _WITH_SYMBOL.match(plain) is not None


_WITH_SYMBOL: Final = re.compile(r"[A-Za-z/]{0,24}[0-9@#$%^&*+=~]")
_EXPRESSION: Final = re.compile(
    r"[!*&]*[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)*(?:[(\[{].*|[)\]}]*[,;:.]?)", re.DOTALL
)


def _is_expression(word: str) -> bool:
    """Return whether a word is a name, an attribute, a call or an index in code."""
    return _EXPRESSION.fullmatch(word) is not None


_ACTIONS: Final = re.compile(
    "add|all|admin|check|create|delete|generate|get|list|manage|new|read|refresh|remove|reset|revoke|rotate|set|show|"
    "sync|test|update|validate|verify|view|write"
)
"""What follows the colon in the names of scopes and tasks: `token:read`."""


def _is_argument(word: str, place: Place, after: str) -> bool:
    """Return whether a word stands in a call or an object of code, as in `login(user, token=session)`."""
    if word.endswith(("(", "[", "{")) or word.count(")") > word.count("(") or _is_open(place.head, "(", ")"):
        return True
    if ":" in place.link and (
        place.link[:1] in ("\\", *QUOTES) or _is_open(place.head, "{", "}") or _ACTIONS.fullmatch(word) is not None
    ):
        return True
    return place.begins_line and place.line[:1] in (" ", "\t") and after == ","


def _is_open(text: str, opening: str, closing: str) -> bool:
    return text.rfind(opening) > text.rfind(closing)


_CALL: Final = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)*!?[(\[].*", re.DOTALL)
_DOTTED: Final = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+[.,:;)\]}]*")
_MIXED: Final = re.compile(
    r"(?=[^.(\[]*[a-z])(?=[^.(\[]*[A-Z])[A-Za-z_]*[0-9]|(?=[A-Za-z0-9]{8})[A-Za-z]*[0-9]+[A-Za-z]+[0-9]"
)
"""Small and capital letters and digits, or a long part with digits in two places: no name in code."""
_CLOSES_A_CALL: Final = re.compile(r"[)\]][A-Za-z0-9]")


def is_code(word: str) -> bool:
    """Return whether a word is a call, an index or an attribute; `kX9(mQ2)vT7` is none."""
    if _DOTTED.fullmatch(word) is not None:
        return not any(map(_MIXED.match, word.split(".")))
    return is_call(word)


def is_call(word: str) -> bool:
    """Return whether a word is a call or an index."""
    if _CALL.fullmatch(word) is None:
        return False
    return _MIXED.match(word) is None and _CLOSES_A_CALL.search(word) is None
