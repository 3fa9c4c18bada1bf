"""What may stand between a sensitive word and its value: the contexts of the rule files, applied."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from projector.redaction import patterns, value_shapes
from projector.redaction.cursor import Cursor
from projector.redaction.rules import Context, KeyRules, Verdict, plain_letters, shipped
from projector.redaction.value_extents import Rest
from projector.redaction.value_kinds import VALUES, is_field
from projector.redaction.value_places import Place, Take, is_key_name
from projector.redaction.value_strings import is_secret_string

_MACROS: Final[Mapping[str, str]] = {
    "QUOTES": r"[\"'`\\\])}]{0,16}",
    "BLANKS": r"[ \t]{0,512}",
    "SPACES": r"[ \t\r\n]{0,512}",
    "GAP": r"[ \t]{1,512}",
}
"""Names in the separators of contexts."""


class _Row(NamedTuple):
    context: Context
    before: re.Pattern[str] | None
    key: re.Pattern[str]
    begins: re.Pattern[str]
    """Matches where one of `ways` does, or where the text ends before that is certain: most rows have neither."""
    ways: tuple[tuple[tuple[re.Pattern[str], int, int], ...], ...]


@cache
def _rows() -> tuple[_Row, ...]:
    return tuple(map(_row, shipped().contexts))


def _row(context: Context) -> _Row:
    ways = _ways(context.link)
    return _Row(
        context,
        re.compile(rf"(?:{context.before})\Z") if context.before else None,
        re.compile(context.key, re.IGNORECASE),
        re.compile("|".join(map(_beginning, ways))),
        tuple(tuple(map(_compiled, way)) for way in ways),
    )


def _ways(link: str) -> list[list[patterns.Piece]]:
    """Return the alternatives of a separator, each as a sequence of classes with their counts."""
    ways = []
    for way in patterns.alternatives(link):
        spelled = "".join(_MACROS.get(item, item) for item in way.split(" "))
        ways.append(patterns.pieces(spelled, ignore_case=True))
    return ways


def _beginning(way: list[patterns.Piece]) -> str:
    """Return the expression for a sequence of classes, or for the end of the text in it."""
    expression = ""
    for atom, least, most in reversed(way):
        expression = rf"(?:{atom}{{{least},{most}}}+{expression}|{atom}{{0,{most}}}+\Z)"
    return expression


def _compiled(piece: patterns.Piece) -> tuple[re.Pattern[str], int, int]:
    return re.compile(f"{piece.atom}{{0,{piece.most}}}+"), piece.least, piece.most


_KEY_REST: Final = re.compile(r"[\w.\-\u200b-\u200d\u00ad\ufeff]{0,64}+")
_KEY_MAX_CHARS: Final = 64
_ESCAPED: Final = ("n", "r", "t")
_FIRST_WORD: Final = re.compile(r"(?<![A-Za-z])[A-Za-z]{1,16} \Z")
"""The first of two words of a key: `private key`."""
_PROPERTIES: Final = frozenset({"value", "default", "key", "text", "raw", "current"})
"""Last parts of dotted keys that stand for the part before them."""


def after_key(cursor: Cursor, before: str, keys: KeyRules) -> Take | None:
    """Decide about the value behind a sensitive word."""
    rest = cursor.run(_KEY_REST)
    left = _KEY_REST.match(before[: -_KEY_MAX_CHARS - 1 : -1])  # of the reversed text, because its length is unknown
    begin = before[len(before) - left.end() :] if left else ""
    if begin[:1] in _ESCAPED and before[: len(before) - len(begin)].endswith("\\"):
        begin = begin[1:]  # a literal `\\n` before the key
    key = (begin + rest).strip("-.")
    verdict = keys.verdict(key)
    if verdict is Verdict.PLAIN and (first := _FIRST_WORD.search(before, 0, len(before) - len(begin))) is not None:
        begin = first[0] + begin
        key = begin + rest
        verdict = keys.verdict(key)
    if "." in key and key.rpartition(".")[2].lower() not in _PROPERTIES:
        verdict = keys.verdict(key.rpartition(".")[2])  # `token.position = ..` sets no token
    if verdict is Verdict.PLAIN or len(rest) == _KEY_MAX_CHARS:
        return None
    dashes = len(begin) - len(begin.lstrip("-"))
    place = Place(before[: len(before) - len(begin) + dashes], plain_letters(key), keys, verdict)
    start = cursor.at
    for row in _rows():
        if row.begins.match(cursor.text, start) is None or row.key.search(place.key) is None:
            continue
        if row.before is not None and row.before.search(place.head) is None:
            continue
        for way in row.ways:
            if cursor.sequence(way):
                place = place._replace(link=cursor.text[start : cursor.at])
                return VALUES[row.context.value](cursor, place)
    return None


# strings of a list

_ENTRY: Final = re.compile(r"[\s\S]{0,512}+")
_ENTRY_KEY: Final = re.compile(r"\s*(-{0,2})([\w.-]{1,64})\s*([=:]?)\s*")


def announces(text: str, keys: KeyRules) -> bool:
    """Return whether a string of a list is a sensitive key or option, whose value may be the next string."""
    match = _ENTRY_KEY.fullmatch(plain_letters(text)) if len(text) <= ANNOUNCE_CHARS else None
    return match is not None and keys.verdict(match[2]) is Verdict.SENSITIVE


ANNOUNCE_CHARS: Final = 80
"""Maximum length of a string that is a key."""


def after_entry(cursor: Cursor, before: str, keys: KeyRules) -> Take | None:
    """Decide about a string of a list behind one that is a sensitive key."""
    content = cursor.run(_ENTRY)
    match = _ENTRY_KEY.fullmatch(plain_letters(before))
    if match is None:
        return None
    place = Place("", match[2], keys)
    is_any = bool(match[1] or match[3]) or _HEADERS.search(match[2]) is not None or is_field(match[2], content)
    if content.startswith("-") and match[1]:
        return None
    is_secret = is_secret_string(content, place, is_any=is_any) or (
        value_shapes.is_entry(content) and not is_key_name(content, keys)
    )
    return Take(0, Rest()) if is_secret else None


_HEADERS: Final = re.compile(r"(?i:authorization|cookie2?)$")
