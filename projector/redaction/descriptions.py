"""What stands under a sensitive key and is no secret (decision 34): states, empty containers, descriptions of secrets.

A description is an object of JSON Schema, OpenAPI or Kubernetes that tells what a secret looks like, or where it is:
`"password": {"type": "string", "minLength": 12}`. Its first member decides that it is one. In it only the members of
`KEYWORDS` are shown; `default`, `example` and any other member are withheld, at every depth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from projector.contracts import codec
from projector.redaction.patterns import Piece, sequence

_STATES: Final = (
    "none nil undefined true false yes no on off ok failed n/a unset missing required optional invalid expired"
)
_SENT: Final = "include omit same-origin"
STATES: Final = frozenset(f"{_STATES} {_SENT}".split())
"""Texts that name a state of a secret, or how a browser sends it (Fetch standard), compared in lower case."""
_RANGE: Final = r"[~^][0-9]{1,3}(?:\.[0-9]{1,3}){2}"
"""Versions of packages, as npm writes them: `"cookie": "^0.6.0"`."""
_STATE: Final = rf'"(?i:{"|".join(map(re.escape, sorted(STATES, key=len, reverse=True)))})"'
_EMPTY: Final = r"\[[ \t\r\n]{0,8}\]|\{[ \t\r\n]{0,8}\}"
SHOWN: Final = re.compile(rf'""|null|true|false|{_EMPTY}|{_STATE}|"{_RANGE}"')
"""A value that is shown under any key."""
_COUNT: Final = r'"[-+]?[0-9][0-9.,_]{0,15}"'
SHOWN_COUNT: Final = re.compile(rf"{_COUNT}|{SHOWN.pattern}")
"""The same under a key that counts."""


def _beginnings(words: Iterable[str]) -> str:
    """Return the expression for the words and all their beginnings."""
    return "|".join(sorted({re.escape(word[:end]) for word in words for end in range(1, len(word) + 1)}, reverse=True))


_RANGE_OPENS: Final = r"[~^][0-9]{0,3}(?:\.[0-9]{0,3}){0,2}"
SHOWN_OPENS: Final = re.compile(
    rf"{_beginnings(('null', 'true', 'false'))}|[\[{{][ \t\r\n]{{0,8}}"
    rf'|"(?:(?i:{_beginnings(STATES)})|{_RANGE_OPENS})?'
)
"""The beginning of a value that may become one of those."""
COUNT_OPENS: Final = re.compile(rf'"[-+]?(?:[0-9][0-9.,_]{{0,15}})?|{SHOWN_OPENS.pattern}')
FIRST: Final = frozenset('"tfn[{0123456789')
"""First characters of values that may be shown."""
_FEW: Final = re.compile(rf"(?:0|[1-9][0-9]{{0,2}})(?=[,\]}}\s])|{SHOWN.pattern}")
_FEW_OPENS: Final = re.compile(rf"[0-9]{{1,3}}|{SHOWN_OPENS.pattern}")
OUTCOMES: Final = frozenset({"pass"})
"""Keys that count tests where their value is a number of three digits at most, compared in lower case."""

_TYPES: Final = (
    *("string", "number", "integer", "boolean", "object", "array", "null"),
    *("apiKey", "http", "oauth2", "openIdConnect", "mutualTLS"),
)
_BLANKS: Final = Piece("[ \t\r\n]", 0, 32)


def shown_under(key: str, *, is_count: bool) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the expressions for a value that is shown under a sensitive key, and for the beginning of one."""
    if is_count:
        return SHOWN_COUNT, COUNT_OPENS
    return (_FEW, _FEW_OPENS) if key.lower() in OUTCOMES else (SHOWN, SHOWN_OPENS)


def is_outcome(key: str, value: object) -> bool:
    """Return whether a member counts tests: `"pass": 3`."""
    return isinstance(value, int) and 0 <= value < _OUTCOMES_LIMIT and key.lower() in OUTCOMES


_OUTCOMES_LIMIT: Final = 1_000


def _member(key: str, value: str) -> list[Piece]:
    """Return the classes of an object's beginning: its first key, and the beginning of the value."""
    texts: list[list[str]] = [["{"], list(f'"{key}"'), [":"], list(value)]
    pieces: list[Piece] = []
    for text in texts:
        pieces += [*(Piece(re.escape(char)) for char in text), _BLANKS]
    return pieces[:-1]


class _Head:
    """The beginnings of objects of one kind."""

    def __init__(self, heads: Iterable[tuple[str, str]]) -> None:
        ways = [_member(*head) for head in heads]
        self.whole = re.compile("|".join(map(sequence, ways)))
        self.opens = re.compile("|".join(sequence(way, may_end=True) for way in ways))


_SCHEMAS: Final = [
    *(("type", f'"{name}"') for name in _TYPES),
    *((key, "[") for key in ("type", "anyOf", "oneOf", "allOf")),
    ("$ref", '"#/'),
    *((key, '"https://') for key in ("authorizationUrl", "tokenUrl", "openIdConnectUrl")),
    ("secretName", '"'),
]
_IN_PROPERTIES: Final = [(key, '"') for key in ("title", "description", "format")]
_METHODS: Final = [(key, "{") for key in ("get", "put", "post", "delete", "patch", "head", "options")]
_SCHEMA: Final = _Head(_SCHEMAS)
_PROPERTY: Final = _Head([*_SCHEMAS, *_IN_PROPERTIES])
_PATH: Final = _Head(_METHODS)

PROPERTIES: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Members whose members are names, each with a description."""
_OF_SCHEMAS: Final = (
    "type format title description pattern minLength maxLength minimum maximum minItems maxItems uniqueItems items not "
    "writeOnly readOnly nullable deprecated required additionalProperties anyOf oneOf allOf $ref contentEncoding"
)
_OF_SCHEMES: Final = "in name scheme bearerFormat flows scopes authorizationUrl tokenUrl refreshUrl openIdConnectUrl"
_OF_VOLUMES: Final = "secretName defaultMode optional"
KEYWORDS: Final = PROPERTIES | frozenset(f"{_OF_SCHEMAS} {_OF_SCHEMES} {_OF_VOLUMES}".split())
"""Members of descriptions that are shown (JSON Schema 2020-12, OpenAPI 3.1, Kubernetes API: SecretVolumeSource)."""
_FREE: Final = "scopes"
"""Its members are names of rights, each with a text."""


def head_of(key: str, parent: str) -> _Head:
    """Return the beginnings of the objects that are shown under a sensitive key, itself a member of `parent`."""
    if key.startswith("/"):
        return _PATH
    return _PROPERTY if parent in PROPERTIES else _SCHEMA


def is_description(key: str, parent: str, tree: Mapping[Any, object]) -> bool:
    """Return whether an object under a sensitive key is a description, or what a path of an API does."""
    for name, value in tree.items():
        first = value[:8] if isinstance(value, str) and value not in _TYPES else value
        written = codec.dumps({name: {} if isinstance(value, Mapping) else [] if isinstance(value, list) else first})
        return head_of(key, parent).whole.match(written.decode()) is not None
    return False


def is_keyword(key: str, parent: str) -> bool:
    """Return whether a member of a description is shown."""
    return key in KEYWORDS or parent == _FREE


def has_keywords(value: object, parent: str) -> bool:
    """Return whether every member of a description is shown."""
    if isinstance(value, list):
        return all(has_keywords(entry, parent) for entry in value)
    if not isinstance(value, dict):
        return True
    is_named = parent in PROPERTIES
    return all(
        has_keywords(member, str(key)) and (is_keyword(str(key), parent) or (is_named and isinstance(member, dict)))
        for key, member in value.items()
    )


def is_path(key: str) -> bool:
    """Return whether a key is the path of an API; what it does is no description."""
    return key.startswith("/")
