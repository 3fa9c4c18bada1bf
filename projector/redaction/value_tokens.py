"""Decisions about values that no key announces: what follows a scheme, and private keys."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from projector.redaction import value_shapes
from projector.redaction.assignments import Decide, Take, after_key, any_value, quoted
from projector.redaction.rules import KeyRules
from projector.redaction.value_ends import BEGIN_OF_KEY, Cursor, PrivateKey, Tail, Wrapped
from projector.redaction.value_shapes import BLANKS, Place, is_key_name

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]*+")
_TOKEN_CHARS: Final = 20


def bearer(cursor: Cursor, _before: str, keys: KeyRules) -> Take | None:
    """Decide about what follows `Bearer`."""
    word = cursor.run(_TOKEN).rstrip(".")
    is_long = len(word) >= _TOKEN_CHARS and not value_shapes.is_name(word)
    is_secret = (is_long or value_shapes.has_secret_shape(word)) and not is_key_name(word, keys)
    return Take(0, Tail(_TOKEN)) if is_secret and not value_shapes.is_empty(word) else None


def basic(cursor: Cursor, _before: str, _keys: KeyRules) -> Take | None:
    """Decide about what follows `Basic`: the base64 of a name, a colon and a password."""
    word = cursor.run(_TOKEN)
    found = _ENCODED.match(word)
    decoded = base64.b64decode(found[0]) if found else b""
    is_login = b":" in decoded[1:] and min(decoded) >= ord(" ")
    return Take(0, Tail(_TOKEN)) if is_login or value_shapes.is_random(word.rstrip(".")) else None


_ENCODED: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})+")


def code(cursor: Cursor, _before: str, keys: KeyRules) -> Take | None:
    """Decide about an authorization code: long, with digits and letters of both cases, or with more digits."""
    return Take(0, Tail(_CODE)) if _is_code(cursor, cursor.run(_CODE).rstrip("."), keys) else None


def _is_code(cursor: Cursor, word: str, keys: KeyRules) -> bool:
    """Return whether a word is a code; at the end of a text a shorter one may be the beginning of one."""
    digits = sum(map(str.isdigit, word))
    is_mixed = any(map(str.islower, word)) and any(map(str.isupper, word))
    is_cut = is_mixed and cursor.at == len(cursor.text)
    is_long = len(word) >= (_NEVER_MORE if is_cut else _CODE_CHARS) and digits >= (1 if is_mixed else _CODE_DIGITS)
    longest = max(word.split("."), key=len)  # a name of a file may end in one
    return is_long and value_shapes.has_secret_shape(longest) and not is_key_name(word, keys)


_CODE: Final = re.compile(r"[A-Za-z0-9_%./~=-]*+")
_CODE_CHARS: Final = 16
_NEVER_MORE: Final = 6
_CODE_DIGITS: Final = 4


def protocols(cursor: Cursor, _before: str, keys: KeyRules) -> Take | None:
    """Decide about the subprotocols of a WebSocket: from one that is a token on, the list is withheld."""
    cursor.run(_NAME_END)
    while True:
        start = cursor.at
        word = cursor.run(_PROTOCOL)
        if _is_code(cursor, word, keys):
            return Take(start, Tail(_PROTOCOLS))
        if not cursor.run(_BETWEEN):
            return None


_NAME_END: Final = re.compile(r"[ \t\"'\\:]*+")
_PROTOCOL: Final = re.compile(r"[A-Za-z0-9!#$%&*+.^_`|~/=-]*+")
_PROTOCOLS: Final = re.compile(r"[A-Za-z0-9!#$%&*+.^_`|~/=, -]*+")
_BETWEEN: Final = re.compile(r"[, \t]*+")
_PEM_HEAD: Final = re.compile(r"[- A-Za-z0-9]{0,96}+")


def pem(cursor: Cursor, _before: str, _keys: KeyRules) -> Take | None:
    """Withhold a private key in PEM."""
    head = BEGIN_OF_KEY.match(cursor.run(_PEM_HEAD))
    return Take(0, PrivateKey()) if head is not None and head[1] else None


_BASE64: Final = re.compile(r"[A-Za-z0-9+/=]{0,88}+")
_ENCODED_HEAD_CHARS: Final = 48


def encoded_pem(cursor: Cursor, _before: str, _keys: KeyRules) -> Take | None:
    """Withhold the base64 of a private key, or of its PEM."""
    word = cursor.run(_BASE64).partition("=")[0]  # `b64decode` refuses some texts with `=` inside
    head = base64.b64decode(word[: len(word) // 4 * 4])
    is_public = b"BEGIN" in head and b"PRIVATE" not in head and len(word) >= _ENCODED_HEAD_CHARS
    return None if is_public else Take(0, Wrapped(_TOKEN))


def option(flag: str, cursor: Cursor, before: str, keys: KeyRules, *, is_joined: bool = False) -> Take | None:
    """Decide about the argument of an option among the words of a command; `is_joined` if no blank precedes it."""
    for _ in range(_WORDS_MAX):
        start = cursor.at
        word = cursor.run(_WORD)
        if word.startswith(flag) if is_joined else word == flag:
            cursor.at = start + len(flag)
            if is_joined and cursor.peek().isspace():
                return None
            return any_value(cursor, Place(before, "password", keys))
        if not cursor.run(BLANKS):
            return None
    return None


_WORD: Final = re.compile(r"[^\s;&|\"'`]*+[\"'`]?+")
_WORDS_MAX: Final = 24


def second(cursor: Cursor, before: str, keys: KeyRules) -> Take | None:
    """Decide about the second of two strings in quotes, of which the first is a name without blanks."""
    return quoted(cursor, Place(before, "password", keys), is_any=True) if cursor.sequence(_FIRST) else None


_FIRST: Final = tuple(
    (re.compile(f"{atom}{{0,{most}}}+"), least, most)
    for atom, least, most in (("[\"'`]", 1, 1), (r"[^\s\"'`]", 1, 64), ("[\"'`]", 1, 1), (",", 1, 1), (r"\s", 0, 64))
)


READERS: Final[Mapping[str, Decide]] = {
    "key": after_key,
    "bearer": bearer,
    "basic": basic,
    "code": code,
    "protocols": protocols,
    "pem": pem,
    "encoded-pem": encoded_pem,
    **{f"option-{flag}": partial(option, f"-{flag}") for flag in "pPwakA"},
    "second": second,
    "joined-p": partial(option, "-p", is_joined=True),
}
"""Name of a reader in the rule files -> its decision."""
